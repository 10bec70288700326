"""Entities drawn over frames, and frames as mp4 or gif files.

Shape alphabet: n entities, T frames, H × W pixels.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from ..envs import EntityBatch, EntitySpace
from ..experiments import UserError
from ..viewer import grows_downwards, position_columns
from ..viewer.scene import COLOURS as COLOURS
from ..viewer.scene import Camera as Camera
from ..viewer.scene import HasCamera as HasCamera

Frame = NDArray[np.uint8]  # (H, W, 3)


def check_ending(path: Path) -> None:
    """Check that `write_video` can write the kind of file that the path's ending says.

    Raises:
        UserError: the ending is another than .mp4 and .gif, or there is no ffmpeg for an mp4.
    """
    if path.suffix not in (".mp4", ".gif"):
        raise UserError(f"--out: expected an .mp4 or a .gif file, got {path.name}")
    if path.suffix == ".mp4":
        find_ffmpeg()


def write_video(path: Path, frames: Sequence[Frame], fps: int) -> None:
    """Write `frames`, all of one size, as the kind of file that the path's ending says: .mp4 or .gif.

    Raises:
        UserError: the ending is another, there is no ffmpeg for an mp4, or the file can't be written.
        ValueError: there are no frames.
    """
    if not frames:
        raise ValueError("frames: expected at least one, got none")
    check_ending(path)
    write = _write_mp4 if path.suffix == ".mp4" else _write_gif
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, frames, fps)
    except OSError as error:
        raise UserError(f"could not write {path}: {error}") from error


def _write_mp4(path: Path, frames: Sequence[Frame], fps: int) -> None:
    height, width, _ = frames[0].shape
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
    even = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"]  # yuv420p, which every player knows, halves the colours
    coding = ["-an", "-c:v", "libx264", "-crf", "20", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
    pixels = b"".join(np.ascontiguousarray(frame).tobytes() for frame in frames)
    command = [find_ffmpeg(), "-y", "-loglevel", "error", *source, *even, *coding, str(path)]
    result = subprocess.run(command, input=pixels, capture_output=True)
    if result.returncode:
        raise UserError(f"ffmpeg could not write {path}: {result.stderr.decode(errors='replace').strip()}")


def find_ffmpeg() -> str:
    """The ffmpeg program: the one of imageio-ffmpeg, or else of the system.

    The package is not imported: its version 0.3, which procgen's gym3 asks for, needs pkg_resources, and that
    is gone from setuptools. The environment variable is imageio-ffmpeg's own.
    """
    if chosen := os.environ.get("IMAGEIO_FFMPEG_EXE"):
        return chosen
    package = importlib.util.find_spec("imageio_ffmpeg")
    if package is not None and package.origin is not None:
        for binary in sorted((Path(package.origin).parent / "binaries").glob("ffmpeg-*")):
            return str(binary)
    if (system := shutil.which("ffmpeg")) is None:
        raise UserError("an mp4 needs ffmpeg: pip install imageio-ffmpeg; a .gif does not")
    return system


def _write_gif(path: Path, frames: Sequence[Frame], fps: int) -> None:
    # An octree keeps rare colours, such as those of the markers, where a median cut would mix them together.
    method, dither = Image.Quantize.FASTOCTREE, Image.Dither.NONE
    first, *others = [Image.fromarray(frame).quantize(256, method, dither=dither) for frame in frames]
    first.save(path, save_all=True, append_images=others, duration=round(1000 / fps), loop=0, optimize=True)


#: Pixels.
FRAME_HEIGHT, LEGEND_WIDTH, LINE_HEIGHT, RADIUS = 512, 176, 22, 7
_BACKGROUND = "#101418"


class EntityDrawing:
    """Draws step after step of one environment; a type keeps its colour.

    Types without a position, and chunks of a tile map (the type Tiles), are counted in the legend only.
    Without a frame the entities stand on an empty ground as large as everything seen so far.
    """

    def __init__(self, space: EntitySpace) -> None:
        columns = {name: position_columns(features) for name, features in space.entities.items()}
        self._columns = {name: found for name, found in columns.items() if found and name != "Tiles"}
        self._colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(self._columns)}
        self._types = list(space.entities)
        self._downwards = any(
            grows_downwards(space.entities[name], found) for name, found in self._columns.items()
        )
        self._lowest = np.full(2, np.inf)
        self._highest = np.full(2, -np.inf)
        self._font = ImageFont.load_default(14)

    def draw(
        self,
        batch: EntityBatch,
        lane: int,
        caption: str,
        frame: Frame | None = None,
        camera: Camera | None = None,
    ) -> Frame:
        """The picture (H, W, 3) of one environment: frame with markers, and the legend on its right."""
        positions = {
            name: batch.entities[name][lane][:, list(columns)] for name, columns in self._columns.items()
        }
        if camera is None:
            camera, frame = self._whole_world(positions), None
        picture = Image.new("RGB", (FRAME_HEIGHT, FRAME_HEIGHT), _BACKGROUND)
        if frame is not None:
            scale = FRAME_HEIGHT / frame.shape[0]
            size = (round(frame.shape[1] * scale), FRAME_HEIGHT)
            picture = Image.fromarray(frame).resize(size, Image.Resampling.NEAREST)
        pen = ImageDraw.Draw(picture)
        for name, where in positions.items():
            for column, row in camera.pixels(where[:, 0], where[:, 1], picture.size):
                _marker(pen, column, row, self._colours[name])
        counts = {name: len(batch.entities[name][lane]) for name in self._types}
        return self._with_legend(picture, counts, caption)

    def _whole_world(self, positions: dict[str, NDArray[np.float32]]) -> Camera:
        for where in positions.values():
            if len(where):
                self._lowest = np.minimum(self._lowest, where.min(0))
                self._highest = np.maximum(self._highest, where.max(0))
        if not np.isfinite(self._lowest).all():
            return Camera(0.0, 0.0, 1.0, 1.0)
        extent = float(max(1.0, (self._highest - self._lowest).max()))
        left, bottom = (float(v) for v in (self._lowest + self._highest) / 2 - 0.6 * extent)
        if self._downwards:  # as on the page: rows count from the top
            return Camera(left, bottom + 1.2 * extent, 1.2 * extent, -1.2 * extent)
        return Camera(left, bottom, 1.2 * extent, 1.2 * extent)

    def _with_legend(self, picture: Image.Image, counts: dict[str, int], caption: str) -> Frame:
        whole = Image.new("RGB", (picture.width + LEGEND_WIDTH, picture.height), _BACKGROUND)
        whole.paste(picture)
        pen = ImageDraw.Draw(whole)
        left, top = picture.width + 12, 12
        for line in caption.splitlines():
            pen.text((left, top), line, "white", self._font)
            top += LINE_HEIGHT
        top += LINE_HEIGHT // 2
        for name, count in counts.items():
            if name in self._colours:
                _marker(pen, left + 6, top + 9, self._colours[name])
            pen.text((left + 20, top), f"{name} {count}", "white" if count else "#707880", self._font)
            top += LINE_HEIGHT
        return np.asarray(whole)


def _marker(pen: ImageDraw.ImageDraw, column: float, row: float, colour: str) -> None:
    """Draw a ring with a dark rim, which is visible on any ground and hides little of it."""
    box = (column - RADIUS, row - RADIUS, column + RADIUS, row + RADIUS)
    pen.ellipse((box[0] - 1, box[1] - 1, box[2] + 1, box[3] + 1), outline="black", width=4)
    pen.ellipse(box, outline=colour, width=2)
