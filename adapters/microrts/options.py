"""Options of games and observations, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...envs.errors import check_flags, one_of, seconds_or_none, whole_number, whole_options
from .java.bots import USUAL_BOT, USUAL_BOT_PARTIAL, check_bot
from .java.games import GameSetup
from .java.maps import Map, find_map

FEATURES = ("units", "planes", "planes29")
TARGETS = ("cells", "entities")
PERSPECTIVES = ("board", "player")

Opponents = Mapping[str, int] | Sequence[str] | str
Side = int | str | Sequence[int]


@dataclass(frozen=True)
class Options:
    """Options of observations and of the length of games.

    Raises:
        TypeError, ValueError: an option that is out of its range, by name.
    """

    features: str = (
        "units"  # or "planes", the cell and the engine's 27 planes; "planes29", two more for terrain
    )
    max_steps: int = 2000  # ticks after which a game is a draw
    limit_is_end: bool = False  # the game ends there (terminated), in place of being cut off (truncated)
    frame_skip: int = 1  # ticks per step; orders are given at the first of them
    partial_observability: bool = False  # each player sees what its units see
    mask_reserved: bool = True  # forbid cells and money that are spoken for
    bot_timeout: float | None = 60.0  # seconds that a bot that may hang may take for a tick; None: for ever
    search_iterations: int | None = None  # how often naiveMCTSAI plays ahead for a tick; None: for 100 ms
    targets: str = "cells"  # or "entities": attack, harvest and return by selecting an entity
    perspective: str = "board"  # or "player": turned by half for the one who starts in the lower right

    def __post_init__(self) -> None:
        choices = {"features": FEATURES, "targets": TARGETS, "perspective": PERSPECTIVES}
        for name, known in choices.items():
            one_of(name, getattr(self, name), known)
        check_flags(self, "limit_is_end", "partial_observability", "mask_reserved")
        ticks = (1, None)
        whole_options(self, max_steps=ticks, frame_skip=ticks, search_iterations=ticks)
        seconds_or_none("bot_timeout", self.bot_timeout)


def plan_games(
    maps: Sequence[str],
    num_envs: int,
    selfplay: int,
    opponents: Opponents | None,
    side: Side,
    partial_observability: bool = False,
) -> list[GameSetup]:
    """The games of `num_envs` lanes: those between two lanes first.

    Args:
        maps: taken in turns by the games.
        selfplay: how many lanes play each other, two by two.
        opponents: the bots of the other lanes: one name, one per lane, or how many lanes play each; None: the
            usual one, which `partial_observability` decides.
        side: which player the lanes against bots are: 0, 1, "both" in turns on each map, or one for each of
            them.

    Raises:
        ValueError: an unknown name, or numbers that don't fit.
    """
    num_envs = whole_number("num_envs", num_envs)
    is_whole = isinstance(selfplay, (int, np.integer)) and not isinstance(selfplay, bool)
    if not is_whole or selfplay % 2 or not 0 <= selfplay <= num_envs:
        raise ValueError(f"selfplay: expected an even number of lanes from 0 to {num_envs}, got {selfplay!r}")
    boards = _boards(maps)
    if opponents is None:
        usual = USUAL_BOT_PARTIAL if partial_observability else USUAL_BOT
        opponents = [usual] * (num_envs - selfplay)
    pairs, bots = selfplay // 2, _bots(num_envs - selfplay, opponents)
    sides = _sides(side, pairs, len(bots), len(boards))
    players = [(None, 0)] * pairs + list(zip(bots, sides, strict=True))
    return [GameSetup(boards[game % len(boards)], bot, lane) for game, (bot, lane) in enumerate(players)]


def plan_arguments(games: Sequence[GameSetup]) -> dict[str, Any]:
    """Return the arguments with which `MicroRTSVectorEnv` plans just these games: `plan_games` undone."""
    return {
        "num_envs": sum(len(game.players) for game in games),
        "opponents": [game.bot for game in games if game.bot is not None],
        "selfplay": 2 * sum(game.bot is None for game in games),
        "side": [game.side for game in games if game.bot is not None],
        "maps": [game.map.name for game in games],
    }


def _sides(side: Side, first: int, count: int, num_maps: int) -> list[int]:
    """The players that the lanes of `count` games against bots are; `first` is the first game's index."""
    if isinstance(side, Iterable) and not isinstance(side, str):
        sides = list(side)
        if len(sides) != count or not all(map(is_player, sides)):
            raise ValueError(f"side: expected 0 or 1 for each of {count} lanes against bots, got {sides!r}")
        return [int(player) for player in sides]
    if isinstance(side, str) and side == "both":
        # With an even number of maps, each would always have the same side: so sides change after each round.
        shift = int(num_maps % 2 == 0)
        return [(game + shift * (game // num_maps)) % 2 for game in range(first, first + count)]
    if not is_player(side):
        raise ValueError(f"side: expected 0, 1 or 'both', got {side!r}")
    return [int(side)] * count


def is_player(value: Any) -> bool:
    """Return true if `value` is the number of a player, 0 or 1."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value in (0, 1)


def _boards(maps: Sequence[str]) -> list[Map]:
    if isinstance(maps, str) or not maps:
        raise ValueError(f"maps: expected a list that names at least one map, got {maps!r}")
    return [find_map(name) for name in maps]


def _bots(count: int, opponents: Opponents) -> list[str]:
    """The bot of each of `count` lanes."""
    if isinstance(opponents, str):
        return [check_bot(opponents)] * count
    if isinstance(opponents, Mapping):
        for name, number in opponents.items():
            if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 0:
                raise ValueError(f"opponents: {name!r}: expected a whole number of lanes, got {number!r}")
        opponents = [name for name, number in opponents.items() for _ in range(number)]
    elif not isinstance(opponents, Sequence):  # a set, say, whose order is not the same in every process
        raise ValueError(
            "opponents: expected the name of a bot, a list with one for each lane, or a dict of how many"
            f" lanes play each, got {opponents!r}"
        )
    names = [check_bot(name) for name in opponents]
    if len(names) != count:
        raise ValueError(f"opponents: expected bots for {count} lanes, got bots for {len(names)} lanes")
    return names
