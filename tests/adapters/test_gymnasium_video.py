"""`RecordVideo` over entity environments and their faces.

MoviePy, which Gymnasium encodes videos with, is no dependency of ours: a stand-in takes the frames instead.
"""

import sys
from types import ModuleType
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import RecordVideo


@pytest.fixture
def videos(monkeypatch: pytest.MonkeyPatch) -> list[list[np.ndarray]]:
    """The frames of each video that is written."""
    written: list[list[np.ndarray]] = []

    class ImageSequenceClip:
        def __init__(self, frames: Any, fps: int) -> None:
            assert fps > 0
            written.append(list(frames))

        def write_videofile(self, path: str, logger: Any = None) -> None:
            assert path.endswith(".mp4")

        def close(self) -> None:
            pass

    for name in ("moviepy", "moviepy.video", "moviepy.video.io", "moviepy.video.io.ImageSequenceClip"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["moviepy.video.io.ImageSequenceClip"].ImageSequenceClip = ImageSequenceClip  # type: ignore[attr-defined]
    return written


@pytest.mark.parametrize("layout", [None, "ragged", "padded", "flat"])
def test_an_episode_is_recorded_frame_by_frame(
    layout: Any, videos: list[list[np.ndarray]], tmp_path: Any
) -> None:
    made = gymnasium.make("entitize/MineSweeper-v0", render_mode="rgb_array", max_episode_steps=6)
    options: dict[str, Any] = {"illegal": "replace"}  # samples ignore masks
    if layout in ("padded", "flat"):
        options["maxima"] = 8
    env: Any = RecordVideo(
        made if layout is None else ez.to_gymnasium(made, layout, **options),
        str(tmp_path / "videos"),
        episode_trigger=lambda episode: True,
    )
    for seed in range(2):
        env.reset(seed=seed)
        env.action_space.seed(seed)
        frames, ended = 1, False
        while not ended:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            frames, ended = frames + 1, terminated or truncated
        assert len(videos) in (seed, seed + 1)  # written now, or at the next reset
    env.close()
    assert len(videos) == 2
    assert len(videos[-1]) == frames
    assert all(frame.dtype == np.uint8 and frame.shape == made.render().shape for frame in videos[-1])
