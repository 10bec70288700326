"""`entitize play`: a video of the agent with the observed entities drawn over the frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..envs import EntityVectorEnv
from ..experiments.arguments import check_at_least, parse
from ..experiments.environments import EnvConfig, make_environments, played, with_lanes
from ..trainers.evaluation import Actor
from ..trainers.schedule import thread_count
from .agent_flags import AgentFlags
from .video import Camera, EntityDrawing, Frame, HasCamera, check_ending, write_video


@dataclass(frozen=True, kw_only=True)
class PlayArguments(AgentFlags):
    """Write a video of a trained agent on a held-out level, with the observed entities drawn over the frames.

    Example: entitize play runs/coinrun --out coinrun.mp4
    """

    out: Path | None = None
    """The video file, .mp4 or .gif (default: play.mp4 in the run folder)."""
    episodes: int = 1
    """Episodes to record."""
    max_steps: int = 1000
    """Maximum number of steps to record."""
    fps: int = 15
    """Steps per second of video; Procgen runs at 15."""
    random: bool = False
    """Record the random policy instead."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "episodes", "max_steps", "fps")


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command."""
    chosen = parse(PlayArguments, "play", arguments)
    out = chosen.out or chosen.run / "play.mp4"
    check_ending(out)
    config, settings = chosen.read()
    env, told = played(config.env, settings, "held-out", chosen.kwargs)
    with thread_count(config.ppo.num_threads), make_visible(env) as venv:
        actor = chosen.load(venv, chosen.random)
        frames, returns = record(
            actor, venv, chosen.episodes, chosen.max_steps, settings.seed, settings.deterministic
        )
    write_video(out, frames, chosen.fps)
    print(f"{out}: {len(frames)} steps on {told}, returns {', '.join(f'{value:.1f}' for value in returns)}")


def make_visible(env: EnvConfig) -> EntityVectorEnv:
    """One environment that renders frames, or one without where the kind has none."""
    single = with_lanes(env, 1)
    venv = make_environments(single)
    if "rgb_array" not in venv.metadata["render_modes"]:
        return venv
    venv.close()
    return make_environments(single, render_mode="rgb_array")


def record(
    actor: Actor, venv: EntityVectorEnv, episodes: int, max_steps: int, seed: int, deterministic: bool = False
) -> tuple[list[Frame], list[float]]:
    """Frames of the first environment of `venv`, and the return of each episode (the last one's so far)."""
    rng = np.random.default_rng(seed)
    drawing = EntityDrawing(venv.single_observation_space)
    batch, _ = venv.reset(seed=seed)
    frames: list[Frame] = []
    returns = [0.0]
    for step in range(max_steps):
        caption = f"step {step}\nreturn {returns[-1]:.1f}"
        frames.append(drawing.draw(batch, 0, caption, *_view(venv)))
        batch, rewards, terminated, truncated, _ = venv.step(actor.act(batch, rng, deterministic).actions)
        returns[-1] += float(rewards[0])
        if terminated[0] or truncated[0]:
            if len(returns) == episodes:
                break
            returns.append(0.0)
    return frames, returns


def _view(venv: EntityVectorEnv) -> tuple[Frame | None, Camera | None]:
    """The frame of the first environment, and what it shows, where both are to be had."""
    if venv.render_mode != "rgb_array" or not isinstance(venv, HasCamera):
        return None, None
    rendered = venv.render()
    return (None, None) if rendered is None else (np.asarray(rendered[0]), Camera(*venv.camera(0)))
