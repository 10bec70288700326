"""`GriddlyActors`: the actors of each lane, and their masks.

What an action does to an object of some type is in the game's file, so the engine is only asked where that
depends on preconditions that the adapter does not read.

Shape alphabet: A actors, C choices, E lanes, V variables of the game.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...envs import ActionMask
from ...ragged import RaggedArray
from .behaviours import ALWAYS, DEPENDS
from .choices import GriddlyChoices
from .engine import Game
from .fill import CELL_X, ENTITY, LANE, Lanes
from .masks import ActorTable, ChoiceTable, judge
from .objects import Objects
from .options import GriddlyOptions
from .reading import GameGroup
from .rules import Rules


class GriddlyActors:
    """Finds the actors of all lanes.

    Attributes:
        cells: int32 (A, 2), the cell of each actor that was found last.
    """

    def __init__(self, rules: Rules, options: GriddlyOptions, choices: GriddlyChoices) -> None:
        self._has_avatars, self._turns = rules.avatar is not None, rules.turns
        self._has_masks, self._choices = options.masks, choices
        actions, firsts = np.unique(choices.rows[1:, 0], return_index=True)
        self._actions, self._firsts = [choices.names[action] for action in actions], firsts + 1
        effects = rules.behaviours.effects(choices.names, rules.objects, rules.variables)
        self._asks = bool((effects.table == DEPENDS).any())
        self._table = ChoiceTable(
            choices.vectors,
            choices.is_relative,
            -1 if rules.avatar is None else list(rules.objects).index(rules.avatar),
            effects.table[choices.rows[:, 0]],
            effects.comparisons,
            effects.bounds,
            len(rules.reported),
        )
        self.cells = np.zeros((0, 2), np.int32)

    def find(
        self,
        games: Sequence[Game],
        group: GameGroup,
        objects: Objects,
        lanes: Lanes,
        variables: NDArray[np.float32],
    ) -> ActionMask:
        """Return the actors of lanes by entity index, and their masks (A, C).

        With avatars these are the players' avatars that are left, else own objects that can do something.

        Args:
            variables: (E, V) of the game.
        """
        actors, offsets = lanes.actors, lanes.actor_offsets
        if self._has_avatars and not self._has_masks:
            mask = np.ones((len(actors), len(self._choices)), bool)
        else:
            table = ActorTable(actors, group.games, variables)
            effects = judge(objects, group.boards, table, self._table, self._turns)
            mask = self._resolve(effects, games, table)
        if not self._has_avatars:
            able = mask[:, 1:].any(1)
            actors, mask = actors[able], mask[able]
            offsets = np.searchsorted(actors[:, LANE], np.arange(len(offsets)))
            mask |= not self._has_masks
        self.cells = actors[:, CELL_X:].astype(np.int32)
        indices = actors[:, ENTITY].copy()
        parts = RaggedArray.unchecked(indices, offsets), RaggedArray.unchecked(mask, offsets.copy())
        return ActionMask(*parts)

    def _resolve(
        self, effects: NDArray[np.int8], games: Sequence[Game], actors: ActorTable
    ) -> NDArray[np.bool_]:
        """Return which choices can do something (A, C), after asking the engine where that depends.

        Args:
            effects: (A, C) what `judge` returned.
        """
        allowed = effects == ALWAYS
        if not self._asks or not (depends := effects == DEPENDS).any():
            return allowed
        asked, actions = np.logical_or.reduceat(depends, self._firsts, 1).nonzero()
        names: dict[int, list[str]] = {}
        for actor, action in zip(asked.tolist(), actions.tolist(), strict=True):
            names.setdefault(actor, []).append(self._actions[action])
        found, width = list(names), len(self._choices)
        places: list[int] = []
        for actor, (lane, _, *cell) in zip(found, actors.actors[found].tolist(), strict=True):
            game = games[actors.games[lane]]
            answer = game.process.get_available_action_ids(cell, names[actor])
            places += [actor * width + choice for choice in self._choices.columns(answer)]
        allowed.reshape(-1)[places] = True
        return allowed
