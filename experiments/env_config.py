"""Configuration of the environments: those that an agent trains in, and how it is evaluated in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .arguments import Pairs, Series


@dataclass(frozen=True)
class EnvConfig:
    """The environments to train in."""

    id: str = "Procgen/bigfish"
    """The environment: Procgen/<game>, MicroRTS/<map>, MineSweeper, any Gymnasium id, or module:function."""
    num_envs: int = 64
    """Environments stepped at once."""
    kwargs: Pairs = field(default_factory=dict)
    """Options of the environment, e.g. num_levels=200 distribution_mode=hard."""
    view: Pairs = field(default_factory=dict)
    """How observations of a Gymnasium environment become entities, e.g. view=Rows presence=presence (default:
    chosen by the observation space)."""

    def __post_init__(self) -> None:
        if self.num_envs < 1:
            raise ValueError(f"num_envs: expected at least 1, got {self.num_envs}")


@dataclass(frozen=True)
class EvalConfig:
    """Evaluation of a trained agent: whole episodes, on levels that training did not use."""

    episodes: int = 128
    """Episodes to play."""
    num_envs: int = 64
    """Environments stepped at once."""
    deterministic: bool = False
    """Take the most probable action instead of sampling."""
    seed: int = 1_000_003
    """Seed of environments and actions."""
    kwargs: Pairs = field(default_factory=dict)
    """Options of the environment that differ from training; Procgen's levels are always held out."""
    vary: Series = field(default_factory=dict)
    """Options with several values, e.g. nrobots=1,2,4; `entitize eval` prints one line for each."""

    def __post_init__(self) -> None:
        for name in ("episodes", "num_envs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        check_series(self.vary)


def check_series(series: Mapping[str, Any]) -> None:
    """Check that every option has a list of values, all of one length.

    Raises:
        ValueError: one has not; the message names it.
    """
    for name, values in series.items():
        if not isinstance(values, (list, tuple)) or not values:
            raise ValueError(f"vary.{name}: expected a list of values, got {values!r}")
    lengths = {name: len(values) for name, values in series.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"vary: expected as many values of each option, got {told}")


def settings_of(series: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """The settings, one after the other: {a: [1, 2], b: [3, 4]} are {a: 1, b: 3} and {a: 2, b: 4}.

    Without options there is one, and it is empty.
    """
    if not series:
        return [{}]
    return [dict(zip(series, values, strict=True)) for values in zip(*series.values(), strict=True)]
