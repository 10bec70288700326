"""Frames to mp4 or gif files.

Shape alphabet: T frames, H × W pixels.
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
from PIL import Image

from ..experiments.errors import UserError

Frame = NDArray[np.uint8]  # (H, W, 3)


def check_ending(path: Path) -> None:
    """Raises UserError unless `write_video` knows the kind of file that the path's ending says."""
    if path.suffix not in (".mp4", ".gif"):
        raise UserError(f"--out: expected an .mp4 or a .gif file, got {path.name}")


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
