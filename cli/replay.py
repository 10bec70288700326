"""`entitize replay`: recorded actions played again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from ..datasets import DatasetError, EntityDataset, replay
from ..experiments import EnvConfig, Pairs, UserError, make_environments, parse


@dataclass(frozen=True)
class ReplayArguments:
    """Play recorded actions again and report the first step that differs; exit code 1 if one does.

    Example: entitize replay plays/ --env my_game:make_env
    """

    data: tyro.conf.Positional[Path]
    """The folder of the dataset; recorded with --steps."""
    env: str | None = None
    """The environment: an id or "module:function" (default: what was recorded)."""
    tolerance: float = 0.0
    """By how much numbers may differ."""
    kwargs: Pairs = field(default_factory=dict)
    """Options of the environment, in addition to the recorded ones."""


def main(arguments: Sequence[str]) -> int:
    """Parse and run the command; returns the exit code."""
    chosen = parse(ReplayArguments, "replay", arguments)
    try:
        dataset = EntityDataset(chosen.data)
        env = chosen.env or dataset.metadata.get("env")
        if not isinstance(env, str):
            raise UserError(f"{chosen.data} does not say which environment it was recorded in: give --env")
        kwargs = {**dataset.metadata.get("kwargs", {}), **chosen.kwargs}
        lanes = int(dataset.metadata.get("num_envs", 1))
        with make_environments(EnvConfig(env, lanes, kwargs)) as venv:
            difference = replay(dataset, venv, tolerance=chosen.tolerance)
    except DatasetError as error:
        raise UserError(str(error)) from error
    print(f"{len(dataset):,} steps replayed: no difference" if difference is None else difference)
    return 0 if difference is None else 1
