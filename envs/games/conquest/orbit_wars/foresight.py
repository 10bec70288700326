"""The future of a game without further launches: the rules, played ahead on a copy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .....ragged.compiled import compiled
from ....vector.native_arrays import Ints
from ..forecast import horizons_of
from .rules import MAX_SLOTS, NEUTRAL, OWNER, SHIPS, Boards, empty_boards, num_slots, tick


class BoardsAhead(NamedTuple):
    """Memory to play ahead in; without horizons nothing is played."""

    horizons: Ints  # (H,): ticks
    boards: Boards  # one game
    owned: Ints  # (H, P, 2): owner and ships of each slot after so many ticks
    two: float  # the exponent of `rules.tick`


def room_ahead(fleets: str, max_fleets: int, two: float) -> BoardsAhead:
    """Return the room that games with at most `max_fleets` need; `fleets`: see `ConquestVectorEnv`."""
    horizons = horizons_of(fleets)
    boards = empty_boards(1, max_fleets if len(horizons) else 0)
    return BoardsAhead(horizons, boards, np.zeros((len(horizons), MAX_SLOTS, 2), np.int64), two)


@compiled
def look_ahead(boards: Boards, game: int, ahead: BoardsAhead) -> None:
    """Set `ahead.owned`. A comet that has left by then is neutral and has no ships."""
    played = 0
    if len(ahead.horizons):
        _copy(boards, game, ahead.boards)
    for i in range(len(ahead.horizons)):
        for _ in range(ahead.horizons[i] - played):
            tick(ahead.boards, 0, ahead.two)
        played = ahead.horizons[i]
        ahead.owned[i, :, 0], ahead.owned[i, :, 1] = NEUTRAL, 0
        for slot in range(num_slots(ahead.boards, 0)):
            ahead.owned[i, slot, 0] = ahead.boards.owned[0, slot, OWNER]
            ahead.owned[i, slot, 1] = ahead.boards.owned[0, slot, SHIPS]


@compiled
def _copy(boards: Boards, game: int, copy: Boards) -> None:
    """Copy what `rules.tick` reads of a game to the only one of `copy`."""
    count, group = boards.fleet_counts[game], boards.comet_groups[game]
    copy.planets[0], copy.owned[0] = boards.planets[game], boards.owned[game]
    copy.fleets[0, :count], copy.crews[0, :count] = boards.fleets[game, :count], boards.crews[game, :count]
    copy.planet_counts[0], copy.fleet_counts[0] = boards.planet_counts[game], count
    copy.velocities[0], copy.ticks[0] = boards.velocities[game], boards.ticks[game]
    copy.comet_groups[0], copy.comet_ages[0] = group, boards.comet_ages[game]
    if group >= 0:
        copy.path_lengths[0, group] = boards.path_lengths[game, group]
        copy.paths[0, group] = boards.paths[game, group]
