from __future__ import annotations

import importlib
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from entitize.cli import find_ffmpeg, write_video
from entitize.experiments import UserError
from PIL import Image, ImageColor

from facts import raises


@pytest.fixture
def frames() -> list[np.ndarray]:
    """Ten frames of odd size, from dark to bright."""
    return [np.full((33, 41, 3), 20 * step, np.uint8) for step in range(10)]


def decoded(path: Path, width: int, height: int) -> np.ndarray:
    """The frames of a video as ffmpeg reads them back (T, H, W, 3)."""
    command = [
        find_ffmpeg(),
        "-loglevel",
        "error",
        "-i",
        str(path),
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-",
    ]
    pixels = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(pixels, np.uint8).reshape(-1, height, width, 3)


def test_an_mp4_holds_every_frame(tmp_path: Path, frames: list[np.ndarray]) -> None:
    write_video(tmp_path / "new" / "a.mp4", frames, fps=15)
    found = decoded(tmp_path / "new" / "a.mp4", 42, 34)  # padded to even sides
    assert len(found) == 10
    assert np.abs(found[:, 10, 10].astype(int) - [[20 * step] * 3 for step in range(10)]).max() < 8


def test_a_gif_holds_every_frame_and_its_time(tmp_path: Path, frames: list[np.ndarray]) -> None:
    write_video(tmp_path / "a.gif", frames, fps=20)
    with Image.open(tmp_path / "a.gif") as image:
        assert image.n_frames == 10
        assert image.size == (41, 33)
        assert image.info["duration"] == 50
        image.seek(9)
        assert np.abs(np.asarray(image.convert("RGB")).astype(int) - 180).max() < 8


def test_a_gif_keeps_colours_that_few_pixels_have(tmp_path: Path) -> None:
    frame = np.random.default_rng(0).integers(0, 256, (200, 200, 3), np.uint8) // 2
    frame[:4, :4] = ImageColor.getrgb("#E69F00")
    write_video(tmp_path / "a.gif", [frame], fps=15)
    with Image.open(tmp_path / "a.gif") as image:
        found = np.asarray(image.convert("RGB"))[:4, :4].astype(int)
    assert np.abs(found - ImageColor.getrgb("#E69F00")).max() < 16


def test_another_ending_is_refused(tmp_path: Path, frames: list[np.ndarray]) -> None:
    with raises(UserError, ".mp4", ".gif", "a.avi"):
        write_video(tmp_path / "a.avi", frames, fps=15)


def test_a_video_without_frames_is_refused(tmp_path: Path) -> None:
    with raises(ValueError, "frames"):
        write_video(tmp_path / "a.gif", [], fps=15)


def test_what_ffmpeg_cannot_write_is_told(tmp_path: Path, frames: list[np.ndarray]) -> None:
    (tmp_path / "a.mp4").mkdir()
    with raises(UserError, "ffmpeg", "a.mp4"):
        write_video(tmp_path / "a.mp4", frames, fps=15)


@pytest.mark.parametrize("name", ["a.gif", "a.mp4"])
def test_a_place_where_nothing_can_be_written_is_told(
    tmp_path: Path, frames: list[np.ndarray], name: str
) -> None:
    (tmp_path / "file").touch()
    with raises(UserError, f"{tmp_path}/file/{name}"):
        write_video(tmp_path / "file" / name, frames, 10)


def test_the_environment_variable_chooses_ffmpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "my-ffmpeg")
    assert find_ffmpeg() == "my-ffmpeg"


def test_ffmpeg_is_found_in_a_package_that_cannot_be_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """procgen wants imageio-ffmpeg 0.3.0, which imports pkg_resources; new versions of setuptools lack it."""
    binary = tmp_path / "imageio_ffmpeg" / "binaries" / "ffmpeg-linux64-v4.1"
    binary.parent.mkdir(parents=True)
    binary.touch()
    (tmp_path / "imageio_ffmpeg" / "__init__.py").write_text("import there_is_no_pkg_resources")
    monkeypatch.delenv("IMAGEIO_FFMPEG_EXE", raising=False)
    monkeypatch.delitem(sys.modules, "imageio_ffmpeg", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert find_ffmpeg() == str(binary)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("imageio_ffmpeg")


def test_without_any_ffmpeg_a_gif_is_suggested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IMAGEIO_FFMPEG_EXE", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with raises(UserError, "ffmpeg", "mp4", ".gif"):
        find_ffmpeg()
