"""`entitize play`: what an agent does and observes, as a video or as a page that also shows why it acts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..envs import EntityVectorEnv, inactive_lanes
from ..envs.vector.episode_counts import count_step
from ..experiments.arguments import check_at_least, parse
from ..experiments.environments import EnvConfig, evaluation_env, make_whole_games, with_lanes
from ..experiments.errors import UserError
from ..experiments.own_bots import is_bot
from ..policies import ActingPolicy
from ..viewer.page import check_has_entities, write_page
from ..viewer.recording import record_episodes
from ..viewer.scene import camera_of
from .agent_flags import AgentFlags
from .video import Camera, EntityDrawing, Frame, check_ending, write_video


@dataclass(frozen=True, kw_only=True)
class PlayArguments(AgentFlags):
    """Write a video of a trained agent on a held-out level, with the observed entities drawn over the frames.

    Example: entitize play runs/coinrun --out coinrun.mp4

    With --html it writes a page for browsers instead, which also shows features, attention and probabilities:
    entitize play runs/coinrun --html coinrun.html
    """

    out: Path | None = None
    """The video file, .mp4 or .gif (default: play.mp4 in the run folder)."""
    html: Path | None = None
    """Write this page, .html, instead of a video."""
    position: tuple[str, str] | None = None
    """With --html: the two features that are an entity's position (default: chosen by their names)."""
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
        if self.out is not None and self.html is not None:
            raise ValueError("give either --out or --html, not both")
        if self.position is not None and self.html is None:
            raise ValueError("--position: expected --html as well: it is for the page")


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command."""
    chosen = parse(PlayArguments, "play", arguments)
    if chosen.html is not None:
        play_as_page(chosen, chosen.html)
        return
    out = chosen.out or (Path() if is_bot(chosen.run) else chosen.run) / "play.mp4"
    check_ending(out)
    check_writable("--out", out)
    config, settings = chosen.read()
    env, levels = evaluation_env(config.env, settings, "held-out", chosen.kwargs)
    with chosen.environments(config, env, make_visible) as venv:
        policy = chosen.load(venv, chosen.random)
        frames, returns, is_cut = record_video(
            policy, venv, chosen.episodes, chosen.max_steps, settings.seed, settings.deterministic
        )
    write_video(out, frames, chosen.fps)
    shown = _shown(returns, is_cut)
    print(f"{out}: {len(frames)} steps on {levels}, returns {shown}")


def play_as_page(chosen: PlayArguments, out: Path) -> None:
    """Play and write the page.

    Raises:
        UserError: the page can't be written, there is no agent, or the environment has nothing to show. All
            of this is found before the agent plays.
    """
    check_page(out)
    config, settings = chosen.read()
    env, levels = evaluation_env(config.env, settings, "held-out", chosen.kwargs)
    with chosen.environments(config, env, make_visible) as venv:
        policy = chosen.load(venv, chosen.random)
        try:
            check_has_entities(venv.single_observation_space, chosen.position)
        except ValueError as error:
            raise UserError(f"--html: {env.id}: {error}") from error
        recording = record_episodes(
            policy,
            venv,
            episodes=chosen.episodes,
            max_steps=chosen.max_steps,
            seed=settings.seed,
            deterministic=settings.deterministic,
        )
    try:
        steps = write_page(out, recording, title=f"{env.id}, {levels}", position=chosen.position)
    except (OSError, ValueError) as error:
        raise UserError(f"could not write {out}: {error}") from error
    cut = "" if steps == len(recording.steps) else f" of {len(recording.steps)}, to keep the page small,"
    is_cut = any(decision.active and not decision.ended for decision in recording.steps[-1])
    returns = _shown([value for lane in recording.returns for value in lane], is_cut)
    print(f"{out}: {steps} steps{cut} on {levels}, returns {returns}, {out.stat().st_size / 1e6:.1f} MB")


def _shown(returns: Sequence[float], is_cut: bool) -> str:
    so_far = " so far (--max-steps ended the episode)" if is_cut else ""
    return ", ".join(f"{value:.1f}" for value in returns) + so_far


def check_page(path: Path) -> None:
    """Check that the page can be written.

    Raises:
        UserError: `path` is a folder, does not end in .html, or can't be written.
    """
    if path.suffix not in (".html", ".htm") and not path.is_dir():
        raise UserError(f"--html: expected an .html file, got {path.name}")
    check_writable("--html", path)


def check_writable(flag: str, path: Path) -> None:
    """Make the folder of the file that `flag` names, and check that the file can be written.

    Raises:
        UserError: `path` is a folder, or can't be written.
    """
    if path.is_dir():
        raise UserError(f"{flag}: expected a file, got the folder {path}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        existed = path.exists()
        with path.open("ab"):
            pass
        if not existed:
            path.unlink()
    except OSError as error:
        raise UserError(f"{flag}: could not write {path}: {error}") from error


def make_visible(env: EnvConfig, **extra: Any) -> EntityVectorEnv:
    """One environment, or all lanes of one game, with rendered frames where the kind has them.

    Args:
        extra: further options of the environment.
    """
    single = with_lanes(env, 1)
    venv = make_whole_games(single, env, **extra)
    if "rgb_array" not in venv.metadata.get("render_modes", ()):
        return venv
    venv.close()
    return make_whole_games(single, env, render_mode="rgb_array", **extra)


def record_video(
    policy: ActingPolicy,
    venv: EntityVectorEnv,
    episodes: int,
    max_steps: int,
    seed: int,
    deterministic: bool = False,
) -> tuple[list[Frame], list[float], bool]:
    """Frames of the first environment of `venv`, the return of each episode, and True if the last is cut.

    Episodes are counted as by `evaluate`: where the lane is inactive after an end, no episode has begun.
    """
    rng = np.random.default_rng(seed)
    drawing = EntityDrawing(venv.single_observation_space)
    batch, info = venv.reset(seed=seed)
    frames: list[Frame] = []
    returns, total, lengths = list[float](), 0.0, np.zeros(venv.num_envs, np.int64)
    for step in range(max_steps):
        active = ~inactive_lanes(info, venv.num_envs)
        frames.append(drawing.draw(batch, 0, f"step {step}\nreturn {total:.1f}", *_view(venv)))
        acted = policy.act(batch, rng, deterministic)
        batch, rewards, terminated, truncated, info = venv.step(acted.actions)
        total += float(rewards[0])
        ended = terminated | truncated
        finished, _ = count_step(lengths, ended, active)
        if 0 in finished:
            returns.append(total)
            if len(returns) == episodes:
                break
        if ended[0]:
            total = 0.0
    is_cut = bool(lengths[0])
    if is_cut:
        returns.append(total)
    return frames, returns, is_cut


def _view(venv: EntityVectorEnv) -> tuple[Frame | None, Camera | None]:
    """The frame of the first environment, and what it shows, where both are to be had."""
    shown = camera_of(venv)
    if venv.render_mode != "rgb_array" or shown is None:
        return None, None
    rendered = venv.render()
    return (None, None) if rendered is None else (np.asarray(rendered[0]), Camera(*shown.camera(0)))
