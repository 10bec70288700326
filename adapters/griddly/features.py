"""`GriddlyObserver`: batches of what lanes observe of their games, and of what their actors can do.

Shape alphabet: G games, E lanes, C choices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...envs import EntityBatch, EntitySpace
from ...envs.vector.native_arrays import typed_rows
from .actors import GriddlyActors
from .choices import ACTION, GriddlyChoices
from .engine import Game
from .fill import fill_lanes
from .objects import FeatureLayout
from .options import GriddlyOptions
from .reading import ObjectReader
from .rules import AvatarWindow, Rules

PLACE_FEATURES = ("x", "y", "direction_x", "direction_y")
#: In a window around the avatar: from where it stands, and with a window that turns, as it faces.
WINDOW_FEATURES = ("right", "forward", "direction_right", "direction_forward")


class GriddlyObserver:
    """Converts the states of games to batches.

    Attributes:
        space: the observation space.
    """

    def __init__(self, rules: Rules, options: GriddlyOptions, choices: GriddlyChoices) -> None:
        self._rules = rules
        self._kinds = {name: kind for kind, name in enumerate(rules.objects)}
        window = rules.window if options.partial_observability else None
        place = (PLACE_FEATURES if window is None else WINDOW_FEATURES)[: 4 if rules.turns else 2]
        owners = ("is_own", "is_other", "player")[: min(rules.num_players, 3)]
        entities = {
            name: (*place, *owners, *variables)
            for name, variables in rules.objects.items()
            if name not in options.exclude
        }
        self.space = EntitySpace(entities, choices.action_space, rules.variables)
        self._layout = FeatureLayout(
            np.array([len(rules.reported) + len(names) for names in rules.objects.values()], np.int64),
            np.array([len(entities.get(name, ())) for name in rules.objects], np.int64),
            np.array([rules.heights[name] for name in rules.objects], np.int64),
            -1 if rules.avatar is None else self._kinds[rules.avatar],
            rules.num_players,
            rules.turns,
            np.array([] if window is None else list(vars(window).values()), np.int64),
            _reach(window, choices) if window is not None and rules.num_players == 1 else -1,
        )
        self._actors = GriddlyActors(rules, options, choices)
        self._reader = ObjectReader(rules, self._layout)

    def observe(self, games: Sequence[Game]) -> EntityBatch:
        """Return what all players of `games` observe, game after game."""
        group = self._reader.group(games)
        objects = self._reader.read(games, group)
        lanes = fill_lanes(objects, self._layout, group.games, group.players)
        widths = dict(zip(self._kinds, self._layout.features.tolist(), strict=True))
        entities = typed_rows(lanes.values, lanes.starts, lanes.offsets, widths)
        variables = self._globals(games)
        actors = self._actors.find(games, group, objects, lanes, variables)
        return EntityBatch(entities, variables, {ACTION: actors})

    @property
    def cells(self) -> NDArray[np.int32]:
        """The cell of each actor of the last batch, (actors, 2)."""
        return self._actors.cells

    def _globals(self, games: Sequence[Game]) -> NDArray[np.float32]:
        """Return the game's variables (E, V): a player's own, where each player has its own."""
        players, names = range(1, self._rules.num_players + 1), self._rules.variables
        if not names:
            return np.zeros((len(games) * len(players), 0), np.float32)
        by_game = [game.variables() for game in games]
        found = [
            [values.get(player, values[0]) for values in variables]
            for variables in by_game
            for player in players
        ]
        return np.array(found, np.float32)


def _reach(window: AvatarWindow, choices: GriddlyChoices) -> int:
    """Return the distance, in x or y, to the farthest cell that an avatar observes or acts upon.

    It holds for all directions of a window that turns.
    """
    sides = window.width // 2 + abs(window.offset_x), window.height // 2 + abs(window.offset_y)
    return max(*sides, int(np.abs(choices.vectors).max()))
