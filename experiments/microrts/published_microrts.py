"""Published results of agents that play the scripted AIs of μRTS.

The numbers and their sources are in `published_microrts.yaml`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config_file import read_yaml


@dataclass(frozen=True)
class Rates:
    """Percent of games; ties and losses are None where only wins are known."""

    wins: float
    ties: float | None = None
    losses: float | None = None

    @classmethod
    def of(cls, saved: float | list[float]) -> Rates:
        """Read percent won, or [won, tied, lost]."""
        return cls(*saved) if isinstance(saved, list) else cls(saved)

    def __str__(self) -> str:
        """Wins/ties/losses, or wins alone."""
        return "/".join(f"{value:g}" for value in (self.wins, self.ties, self.losses) if value is not None)


@dataclass(frozen=True)
class PublishedAgent:
    """The results of one agent on one map."""

    name: str
    source: str
    map: str
    max_steps: int
    games: int  # against each bot
    num_bots: int  # that `overall` is about
    overall: Rates
    rates: Mapping[str, Rates]  # by bot; those that are not published one by one are left out
    is_shown: bool = False  # in pictures and printed tables; the other files have all agents


@dataclass(frozen=True)
class PublishedTraining:
    """A row of the table that compares networks in Zwingenberger's paper, with their sizes."""

    name: str
    source: str  # of win rate, return and hours
    map: str
    win_rate: float  # share of games against 13 bots
    shaped_return: float
    hours: float  # of training
    parameters: int  # by counting


def _agent(saved: Mapping[str, Any]) -> PublishedAgent:
    rates = {bot: Rates.of(value) for bot, value in saved["rates"].items()}
    return PublishedAgent(**{**saved, "overall": Rates.of(saved["overall"]), "rates": rates})


_FILE: dict[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))

SOURCES: Mapping[str, str] = _FILE["sources"]
#: The scripted AIs of the papers, and those of them that search for as long as the clock lets them.
PAPER_BOTS: tuple[str, ...] = tuple(_FILE["paper_bots"])
SEARCH_BOTS: tuple[str, ...] = tuple(_FILE["search_bots"])
ALL_BOTS = (*PAPER_BOTS, *_FILE["other_bots"])
#: The best of each paper first.
PUBLISHED = tuple(map(_agent, _FILE["agents"]))
SHOWN = tuple(agent for agent in PUBLISHED if agent.is_shown)
#: The rows of the table that compares networks.
PUBLISHED_TRAINING = tuple(PublishedTraining(**row) for row in _FILE["training"])
_SAME_MAP: Mapping[str, str] = _FILE["same_map"]


def published_for(map_name: str, agents: Sequence[PublishedAgent] = PUBLISHED) -> list[PublishedAgent]:
    """Those of `agents` that have results on the map `map_name`."""
    name = _SAME_MAP.get(map_name, map_name)
    return [agent for agent in agents if agent.map == name]


def published_training_for(map_name: str) -> list[PublishedTraining]:
    """The rows of `PUBLISHED_TRAINING` on the map `map_name`."""
    name = _SAME_MAP.get(map_name, map_name)
    return [row for row in PUBLISHED_TRAINING if row.map == name]
