"""`entitize replay`: recorded actions played again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any

import tyro

from ..datasets import DatasetError, EntityDataset, replay
from ..envs import EntityVectorEnv
from ..experiments import EnvConfig, Pairs, UserError, check_at_least, make_environments, parse
from ..experiments.config import check_names_no_code
from ..experiments.errors import user_errors


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
    view: Pairs = field(default_factory=dict)
    """View that turns observations of a Gymnasium environment into entities (default: the recorded one)."""

    def __post_init__(self) -> None:
        check_at_least(self, 0, "tolerance")


def main(arguments: Sequence[str]) -> int:
    """Parse and run the command; returns the exit code."""
    chosen = parse(ReplayArguments, "replay", arguments)
    with user_errors(DatasetError):
        dataset = EntityDataset(chosen.data)
        with _made(_environment(chosen, dataset.metadata)) as venv:
            difference = replay(dataset, venv, tolerance=chosen.tolerance)
    steps = int((~dataset.column("final").astype(bool)).sum())  # at final observations nothing is done
    print(f"{steps:,} steps replayed: no difference" if difference is None else difference)
    return 0 if difference is None else 1


def _made(recorded: EnvConfig) -> EntityVectorEnv:
    """Make the environment with `recorded.num_envs` lanes: a game may have several, one per agent."""
    venv = make_environments(recorded)
    agents, rest = divmod(venv.num_envs, recorded.num_envs)
    if agents < 2 or rest or recorded.num_envs % agents:
        return venv
    venv.close()
    return make_environments(replace(recorded, num_envs=recorded.num_envs // agents))


def _environment(chosen: ReplayArguments, metadata: Mapping[str, Any]) -> EnvConfig:
    """Return the environment that was recorded, as the flags change it.

    Raises:
        UserError: the dataset does not say which it was, or names code that the flags do not confirm.
    """
    env, lanes = metadata.get("env"), metadata.get("num_envs")
    kwargs, view = ({} if metadata.get(name) is None else metadata[name] for name in ("kwargs", "view"))
    if chosen.env is None and not isinstance(env, str):
        raise UserError(f"{chosen.data} does not say which environment it was recorded in: give --env")
    if not (isinstance(kwargs, dict) and isinstance(view, dict)) or type(lanes) is not int or lanes < 1:
        raise UserError(
            f"{chosen.data}: metadata: expected mappings kwargs and view and a number of lanes,"
            f" got {kwargs!r}, {view!r} and {lanes!r}"
        )
    if chosen.env is None:
        check_names_no_code(chosen.data, [env, kwargs, view], f"--env {quote(str(env))}")
    return EnvConfig(chosen.env or str(env), lanes, {**kwargs, **chosen.kwargs}, chosen.view or view)
