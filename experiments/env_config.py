"""Configuration of the environments: those that an agent trains in, and how it is evaluated in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from .config_file import number
from .named_values import named_values
from .variations import Series, check_series

#: A dict on the command line: `--env.kwargs num_levels=200 distribution_mode=easy`, values as in YAML.
Pairs = Annotated[dict[str, Any], named_values("NAME=VALUE", number, str)]


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
            raise ValueError(f"num_envs must be positive, got {self.num_envs}")


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
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        check_series(self.vary)
