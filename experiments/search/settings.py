"""The settings of a search, and its folder, which is like that of an experiment.

DIR/experiment.yaml                      parameters, games, seeds, pruner and configuration
DIR/search.db                            Optuna's storage
DIR/best.yaml                            configuration of the best trial
DIR/runs/<game>/trial_<number>/<seed>/   run folders, as `entitize train` makes them
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from ..config import TrainConfig
from ..config_file import plain, read_plain
from ..environments import is_procgen
from ..errors import UserError, differences
from ..procgen.published_procgen import RANGES, Mode
from ..queue import EXPERIMENT, TrainingJob, flat_settings, read_of_kind, write_experiment
from .parameters import SearchParameter, read_parameters, with_values

#: The kind of the experiment.
SEARCH = "search"
STORAGE = "search.db"
#: The configuration of the best trial.
BEST = "best.yaml"
Pruner = Literal["median", "asha", "none"]


@dataclass(frozen=True)
class SearchSettings:
    """Everything that determines the trials of a search, except their number."""

    base: TrainConfig  # what the parameters change
    parameters: tuple[SearchParameter, ...]
    games: tuple[str, ...]  # a trial trains on each of them
    seeds: int  # and with the seeds 0, 1, ... on each
    pruner: Pruner

    def __post_init__(self) -> None:
        for game in self.games if len(self.games) > 1 else ():
            if mode_of(self.base, game) is None:
                raise UserError(
                    f"--games: expected games of Procgen, whose returns can be normalized, got {game}."
                    " Returns of different games can't be averaged: search on one game, or on several of"
                    " Procgen"
                )

    def config(self, values: Mapping[str, Any], game: str, seed: int) -> TrainConfig:
        """Return the configuration of a run of the trial with `values`.

        Raises:
            UserError: the values are not allowed together.
        """
        config = with_values(self.base, values)
        return replace(config, env=replace(config.env, id=game), ppo=replace(config.ppo, seed=seed))

    def jobs(self, trial: int, values: Mapping[str, Any]) -> list[TrainingJob]:
        """Return the runs of a trial: every game with every seed.

        Raises:
            UserError: the values are not allowed together.
        """
        return [
            TrainingJob(case_of(game), trial_name(trial), seed, self.config(values, game, seed))
            for seed in range(self.seeds)
            for game in self.games
        ]

    def flat(self) -> dict[str, Any]:
        """Return all settings by name, to compare them."""
        return {
            **{f"--param {parameter.name}": parameter.text for parameter in self.parameters},
            **flat_settings(self.base),
            "games": list(self.games),
            "seeds": self.seeds,
            "pruner": self.pruner,
            "eval.every": self.base.eval.every,  # then the objective is the evaluation's return
            **({"eval": asdict(self.base.eval)} if self.base.eval.every is not None else {}),
        }


def trial_name(number: int) -> str:
    """Return the name of the folder of a trial."""
    return f"trial_{number:03}"


def case_of(game: str) -> str:
    """Return the name of a game as a folder."""
    return re.sub(r"[^\w.-]", "_", game.rpartition("/")[2])


def mode_of(config: TrainConfig, game: str) -> Mode | None:
    """Return the difficulty whose published range normalizes the returns of `game`; None: none does."""
    mode = config.env.kwargs.get("distribution_mode", "easy")
    return mode if is_procgen(game) and mode in RANGES and case_of(game) in RANGES[mode] else None


def open_search(directory: Path, settings: SearchSettings) -> None:
    """Write the settings into a new `directory`, or check that it is the folder of this search.

    Raises:
        UserError: it is the folder of something else, or of a search with other settings.
    """
    if read_of_kind(directory, SEARCH) is None:
        if directory.is_dir() and any(path.name != ".lock" for path in directory.iterdir()):
            raise UserError(
                f"{directory}: expected a new folder or that of a search, got one with other files"
            )
        write_experiment(directory, _as_data(settings))
        return
    differ = differences(read_search(directory).flat(), settings.flat(), "was asked for")
    if differ:
        raise UserError(
            f"{directory} holds another search: {differ}. Their trials can't be compared: give another --out,"
            " or ask for what is there"
        )


def _as_data(settings: SearchSettings) -> dict[str, Any]:
    return {
        "kind": SEARCH,
        "cases": [case_of(game) for game in settings.games],
        "networks": [],
        "seeds": list(range(settings.seeds)),
        "games": list(settings.games),
        "parameters": {parameter.name: parameter.text for parameter in settings.parameters},
        "pruner": settings.pruner,
        "config": plain(settings.base),
    }


def read_search(directory: Path) -> SearchSettings:
    """Return the settings of the search in `directory`.

    Raises:
        UserError: there is none, or its file is damaged.
    """
    data = read_of_kind(directory, SEARCH)
    path = directory / EXPERIMENT
    if data is None:
        raise UserError(f"{directory}: expected the folder of a search, got one without {EXPERIMENT}")
    base = read_plain(TrainConfig, data.get("config"), path)
    texts, games, pruner = data.get("parameters"), data.get("games"), _pruner(data.get("pruner"))
    if not isinstance(texts, Mapping) or not isinstance(games, list) or pruner is None:
        raise UserError(f"{path}: expected parameters, games and pruner of a search, got others")
    parameters = read_parameters([f"{name}={text}" for name, text in texts.items()], base)
    return SearchSettings(base, tuple(parameters), tuple(map(str, games)), len(data["seeds"]), pruner)


def _pruner(name: Any) -> Pruner | None:
    return next((known for known in get_args(Pruner) if known == name), None)
