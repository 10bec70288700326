"""`make demo`: train RogueNet on a Procgen game for about five minutes and show what it has learned.

Ends with a table (random policy, before, after training; levels that training did not see), a learning curve
and a short video in runs/demo/.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from entitize.cli import judge, make_visible, record_video, results_table, write_video
from entitize.experiments import (
    RANDOM,
    TrainConfig,
    UserError,
    find_config,
    held_out,
    make_environments,
    make_policy,
    parse,
    read_config,
    train,
)
from entitize.experiments.reports.plots import save
from entitize.policies import RUN_CONFIG, ActingPolicy
from entitize.trainers import (
    EpisodeResults,
    Interval,
    RandomActor,
    read_metrics,
    thread_count,
)
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from rich.console import Console

#: What a finished demo leaves in its folder; the gif shows every other step, to be small.
CURVE, TABLE, VIDEO, SMALL_VIDEO = "learning-curve.png", "results.txt", "play.mp4", "play.gif"
FPS = 15


@dataclass(frozen=True)
class DemoArguments:
    """Train RogueNet on a Procgen game for about five minutes, and write table, curve and video to runs/demo.

    Example: python examples/demo.py --quick
    """

    config: str = "demo"
    """A YAML file, or the name of a configuration that comes with the package."""
    out: Path = Path("runs/demo")
    """The run folder; an earlier demo in it is replaced."""
    quick: bool = False
    """Run every part for a few seconds only, as a test."""


def main(arguments: Sequence[str]) -> None:
    """Parse and run the demo."""
    chosen = parse(DemoArguments, "demo", arguments)
    config = read_config(TrainConfig, find_config(chosen.config))
    run_demo(
        shortened(config) if chosen.quick else config, chosen.out, max_frames=15 if chosen.quick else 300
    )


def shortened(config: TrainConfig) -> TrainConfig:
    """The same in a few seconds: two small updates, a handful of short episodes."""
    ppo = replace(config.ppo, num_steps=16, total_timesteps=2 * 16 * 4, minibatch_size=32)
    env = replace(config.env, num_envs=4)
    return replace(config, env=env, ppo=ppo, eval=replace(config.eval, episodes=4, num_envs=4))


def run_demo(config: TrainConfig, out: Path, max_frames: int, console: Console | None = None) -> None:
    """Evaluate, train, evaluate again; write table, curve and videos into `out`.

    Raises:
        UserError: `out` is a folder of something else than a run.
    """
    console = console or Console()
    clear(out)
    with thread_count(config.ppo.num_threads):
        policy = _train_and_judge(config, out, console)
        env, _ = held_out(config.env, config.eval)
        with make_visible(env) as venv:
            seed, deterministic = config.eval.seed, config.eval.deterministic
            frames, *_ = record_video(policy, venv, 1, max_frames, seed, deterministic)
    write_video(out / VIDEO, frames, FPS)
    write_video(out / SMALL_VIDEO, frames[::2], FPS // 2)
    console.print(f"Learning curve, table and videos are in {out}", highlight=False, soft_wrap=True)


def _train_and_judge(config: TrainConfig, out: Path, console: Console) -> ActingPolicy:
    env, levels = held_out(config.env, config.eval)
    with make_environments(env) as venv:
        console.print(f"Before training: {config.eval.episodes} episodes, {levels}", highlight=False)
        random = RandomActor(venv.single_action_space)
        agents: dict[str, ActingPolicy] = {RANDOM: random, "before": make_policy(config, venv)}
        results = judge(agents, venv, config.eval)
        policy = train(config, out, console=console).policy
        console.print(f"After training: {config.eval.episodes} episodes", highlight=False)
        results |= judge({"after": policy}, venv, config.eval)
    report(config, levels, results, out, console)
    return policy


def clear(out: Path) -> None:
    """Make room for a new demo where a former run was.

    Raises:
        UserError: there is something else.
    """
    if out.exists():
        if not (out / RUN_CONFIG).is_file():
            raise UserError(
                f"{out} is no run folder, so the demo doesn't replace it; name another with --out"
            )
        shutil.rmtree(out)


def report(
    config: TrainConfig, levels: str, results: dict[str, EpisodeResults], out: Path, console: Console
) -> None:
    """Print the table and write it, and draw the learning curve."""
    table = results_table(config.env.id, levels, [(name, {}, result) for name, result in results.items()])
    console.print(table)
    with (out / TABLE).open("w") as file:
        Console(file=file, width=100).print(table)
    intervals = {name: result.interval() for name, result in results.items()}
    before, after = intervals[RANDOM].mean, intervals["after"].mean
    if before > 0:  # Fruitbot's random return is not
        console.print(
            f"After training the mean return is {after / before:.1f} times that of the random policy."
        )
    learning_curve(out / CURVE, read_metrics(out / "metrics.jsonl"), intervals, config.env.id)


def learning_curve(
    path: Path, metrics: Sequence[Mapping[str, float]], marks: Mapping[str, Interval], title: str
) -> None:
    """Draw training return over environment steps, with evaluations as bands, into a PNG file.

    Args:
        metrics: lines of a run's `metrics.jsonl`.
        marks: evaluated mean returns with their intervals, by the name in the legend.
    """
    points = [
        (line["step"], line["charts/episodic_return"]) for line in metrics if "charts/episodic_return" in line
    ]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(
        *zip(*points, strict=True) if points else ((), ()),
        color="#0072B2",
        label="training, last 100 episodes",
    )
    for (name, interval), colour in zip(marks.items(), ("#CC79A7", "#E69F00", "#009E73"), strict=False):
        axes.axhline(interval.mean, color=colour, linestyle="--", label=f"{name}: {interval}")
        axes.axhspan(interval.low, interval.high, color=colour, alpha=0.2, linewidth=0)
    axes.set(title=title, xlabel="environment steps", ylabel="return per episode")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, path)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"demo: {error}")
