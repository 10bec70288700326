"""The studies of `ablations.yaml`: their questions, and the configurations of their runs."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ...adapters.procgen import GAMES
from ..config import TrainConfig, find_config
from ..config_file import plain, read_config, read_section, read_yaml, set_value
from ..errors import check_known

#: The studies that come with the package.
STUDIES_FILE = Path(__file__).with_name("ablations.yaml")


@dataclass(frozen=True)
class Study:
    """One question, and the runs that answer it: every variant in every game."""

    question: str
    config: str
    """The configuration that variants change, by its name in `configs`."""
    games: tuple[str, ...]
    """The games that answer the question."""
    baseline: str
    """The variant that the others are compared with."""
    variants: dict[str, Any]
    """Name -> what it changes: dotted key -> value."""
    common: dict[str, Any] = field(default_factory=dict)
    """Changes that all variants share."""
    other_games: Literal["all", "tiles", "none"] = "all"
    """Other games of Procgen that are allowed: all, those with tiles, or none."""

    def __post_init__(self) -> None:
        if self.baseline not in self.variants:
            known = ", ".join(self.variants)
            raise ValueError(f"the baseline {self.baseline!r} is no variant; there are {known}")

    def changes(self) -> set[str]:
        """Return the dotted keys that the study sets."""
        return {key for part in (self.common, *self.variants.values()) for key in part}

    def allowed_games(self) -> list[str]:
        """Return the allowed games; those that answer the question come first."""
        if self.other_games == "none":
            return list(self.games)
        others = (name for name, game in GAMES.items() if game.tiles or self.other_games == "all")
        return list(dict.fromkeys((*self.games, *others)))


@cache
def read_studies() -> Mapping[str, Study]:
    """Return all studies by name, in the order of the file."""
    data = read_yaml(STUDIES_FILE)
    return {name: read_section(Study, part, name) for name, part in data.items()}


def find_study(name: str) -> Study:
    """Return the study of that name.

    Raises:
        UserError: there is none; the message says which name is nearest.
    """
    check_known("study", name, read_studies())
    return read_studies()[name]


def ablation_config(study: str, game: str, variant: str, base: TrainConfig | None = None) -> TrainConfig:
    """Return the configuration of a run of `variant` in `game`.

    `base` is the configuration to change, in place of the one that the study names.

    Raises:
        UserError: there is no such study, or it has no such game or variant; the message says which name is
            nearest.
    """
    chosen = find_study(study)
    check_known(f"game of {study}", game, chosen.allowed_games())
    check_known(f"variant of {study}", variant, chosen.variants)
    base = read_config(TrainConfig, find_config(chosen.config)) if base is None else base
    data = plain(base)
    for key, value in {**chosen.common, **chosen.variants[variant]}.items():
        set_value(data, key, deepcopy(value))
    config = read_section(TrainConfig, data, f"{study}.{variant}")
    namespace, slash, _ = config.env.id.rpartition("/")
    return replace(config, env=replace(config.env, id=f"{namespace}{slash}{game}"))
