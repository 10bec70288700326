"""Command-line flags that all kinds of experiments share."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import torch
import tyro

from ...ragged import available_cores
from ...trainers import PPOConfig
from ...trainers.learners import find_device
from ..arguments import check_at_least, parse
from ..config import (
    TrainArguments,
    TrainConfig,
    find_config,
    with_flags_over_file,
    with_sections_of_flags,
)
from ..config_file import read_config
from ..errors import UserError, check_known
from .run_queue import RunQueue
from .training_jobs import TrainingJob, open_experiment

_NUMBER = re.compile(r"(\d[\d_]*(?:\.\d+)?)\s*([kM]?)")
_UNITS = {"": 1, "k": 1_000, "M": 1_000_000}


def read_steps(words: list[str]) -> int:
    """Return the number of steps in a word such as 25M, 2.5M, 500k or 2_000_000.

    Raises:
        ValueError: it is not a positive whole number.
    """
    match = _NUMBER.fullmatch(words[0])
    steps = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if steps < 1 or steps != int(steps):
        raise ValueError(f"expected a number of steps such as 25M, 500k or 2_000_000, got {words[0]!r}")
    return int(steps)


#: A number of environment steps on the command line, or none. (One type: for a union
#: tyro reports an error of each member.)
Steps = Annotated[
    int | None,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="STEPS",
        instance_from_str=read_steps,
        is_instance=lambda value: value is None or isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    ),
]
#: Flags of `entitize train` that the queue sets.
_FLAGS_OF_QUEUE = (
    *("--run", "--resume", "--config", "--env.id", "--network", "--max-minutes", "--progress"),
    *("--ppo.seed", "--ppo.total-timesteps", "--ppo.device"),
)


@dataclass(frozen=True, kw_only=True)
class QueueFlags:
    """Flags that every kind of experiment has."""

    out: Path
    """The folder of the experiment; the same command with the same folder continues it."""
    seeds: int = 3
    """Runs per case and network, with the seeds 0, 1, ..."""
    steps: Steps = None
    """Environment steps of a run, e.g. 25M (default: those of the network's configuration)."""
    max_minutes: float | None = None
    """Time limit of a run; annealing ends with it."""
    jobs: int | None = None
    """Runs at once (default: one per processor, or one on a GPU)."""
    device: str | None = None
    """Device to train on: cpu, cuda or cuda:1 (default: the GPU if torch finds one)."""

    def __post_init__(self) -> None:
        check_at_least(self, 1, "seeds", "jobs")
        if self.max_minutes is not None and not self.max_minutes > 0:
            raise ValueError(f"--max-minutes: expected a number above 0, got {self.max_minutes}")


def run_jobs(
    kind: str, jobs: Sequence[TrainingJob], flags: QueueFlags, about: Mapping[str, str] | None = None
) -> int:
    """Run `jobs` in the folder of the flags, which says `about` the experiment; returns the exit code.

    Raises:
        UserError: the folder is for something else, or torch can't train on the device.
    """
    device, processes = places(flags)
    open_experiment(flags.out, kind, jobs, about)
    return RunQueue(jobs, flags.out, processes=processes, device=device).run()


def places(flags: QueueFlags) -> tuple[str, int]:
    """Return torch's name of the device, and how many runs train at once.

    Raises:
        UserError: torch can't train on the device.
    """
    device = _device(flags.device)
    return device, flags.jobs or (1 if device.startswith("cuda") else available_cores())


def _device(name: str | None) -> str:
    """Return torch's name of the device, checked once before any run starts."""
    if name is None or name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        find_device(PPOConfig(device=name).device)
    except ValueError as error:
        raise UserError(f"--device: {error}") from error
    return name


def split_train_flags(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the command's own flags, and those after `--`: flags of `entitize train` for every run."""
    words = list(arguments)
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def read_base(name: str, train_flags: Sequence[str], own: Collection[str] = _FLAGS_OF_QUEUE) -> TrainConfig:
    """Return a configuration, of the package or a file, with flags of `entitize train` over it.

    `own` are the flags that may not be among them.

    Raises:
        UserError: a flag is one that the queue sets.
    """
    file = read_config(TrainConfig, find_config(name))
    if not train_flags:
        return file
    given = {word.partition("=")[0].replace("_", "-") for word in train_flags}
    for flag in own:
        if flag in given:
            raise UserError(f"{flag}: expected none after --, because the queue sets {_named(own)}")
    file = with_sections_of_flags(file, train_flags)
    chosen = parse(TrainArguments, "train", train_flags, TrainArguments(file))
    if chosen != TrainArguments(chosen.settings):
        raise UserError(
            f"{' '.join(train_flags)}: expected options of the run alone after --, such as --ppo.…"
        )
    return with_flags_over_file(chosen.settings, file)


def _named(flags: Collection[str]) -> str:
    return ", ".join(flag.removeprefix("--") for flag in flags)


def configured(
    base: TrainConfig,
    env_id: str,
    seed: int,
    flags: QueueFlags,
) -> TrainConfig:
    """Return `base` with the environment, the seed and the flags of one run."""
    ppo = replace(base.ppo, seed=seed)
    if flags.steps is not None:
        ppo = replace(ppo, total_timesteps=flags.steps)
    env = replace(base.env, id=env_id)
    return replace(base, env=env, ppo=ppo, max_minutes=flags.max_minutes or base.max_minutes)


def chosen_names(what: str, names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the names, each once; "all" are all that are known.

    Raises:
        UserError: one is unknown; the nearest is suggested.
    """
    known = list(known)
    chosen: list[str] = []
    for name in names:
        if name == "all":
            chosen += known
        else:
            check_known(what, name, known)
            chosen.append(name)
    return list(dict.fromkeys(chosen))
