"""Count: how many beans are there? A test of counting entities without features, and of masks."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ..actions import ActionMask, Categorical, EntityActionSpace
from ..batch.entity_batch import EntityBatch
from ..errors import whole_number
from ..randomness import below, draw_first
from ..spaces import EntitySpace
from ..vector.native import NativeVectorEnv
from ..vector.native_arrays import Flags, Floats, Ints, Words, all_true, even, featureless, offsets_of
from ..vector.native_env import native_game
from ..vector.saved_state import Bounds, State

_NUM_CHOICES = 10


class CountVectorEnv(NativeVectorEnv):
    """Name the number of beans, from 0 to `masked_choices` - 1.

    Entities: Player and Bean, both without features.

    Actions: the player's `count`, "0" to "9". The mask allows the right answer and a random sample, of random
    size, of the numbers below `masked_choices`. The right answer pays 1, a wrong one or none nothing. An
    episode is one answer.

    Optimum: 1 per episode, since the observation shows the answer.

    Args:
        num_envs: how many games.
        masked_choices: how many numbers of beans there can be, 1 to 10.

    Raises:
        TypeError: a number that is no whole number.
        ValueError: another `masked_choices`.
    """

    state_names: ClassVar[tuple[str, ...]] = ("_beans", "_allowed")

    def __init__(
        self, num_envs: int = 1, *, masked_choices: int = _NUM_CHOICES, render_mode: str | None = None
    ) -> None:
        self.masked_choices = whole_number("masked_choices", masked_choices, 1, _NUM_CHOICES)
        actions = EntityActionSpace({"count": Categorical(_NUM_CHOICES)})
        super().__init__(EntitySpace({"Player": [], "Bean": []}, actions), num_envs, render_mode=render_mode)
        self._beans = np.zeros(num_envs, np.int64)
        self._allowed = np.zeros((num_envs, _NUM_CHOICES), bool)

    def _start(self, lanes: Ints) -> None:
        _draw_beans(lanes, self.random_state, self.masked_choices, self._beans, self._allowed)

    def _bounds(self) -> Bounds:
        return {"_beans": (0, self.masked_choices - 1)}

    def _check_state(self, state: State) -> None:
        beans = state["_beans"]
        is_allowed = state["_allowed"][self.all_lanes, beans]
        self._expect(is_allowed, "_beans", "a number that is in '_allowed'", beans)

    def _advance(self, actions: dict[str, RaggedArray]) -> tuple[Floats, Flags]:
        rewards = (actions["count"].one_each(-1) == self._beans).astype(np.float32)
        return rewards, all_true(self.num_envs)

    def _look(self, lanes: Ints | None) -> EntityBatch:
        beans = self._beans if lanes is None else self._beans[lanes]
        allowed = self._allowed.copy() if lanes is None else self._allowed[lanes]
        count = len(beans)
        players = even(np.zeros(count, np.int64))
        return EntityBatch(
            {"Player": featureless(players.offsets), "Bean": featureless(offsets_of(beans))},
            np.empty((count, 0), np.float32),
            {"count": ActionMask(players, players.with_values(allowed))},
        )


Count, make_vec = native_game(CountVectorEnv)


@compiled
def _draw_beans(lanes: Ints, random_state: Words, masked_choices: int, beans: Ints, allowed: Flags) -> None:
    """Draw the number of beans and the allowed choices in each of `lanes`."""
    for lane in lanes:
        state, numbers = random_state[lane], np.arange(masked_choices)
        beans[lane] = below(state, masked_choices)
        num_allowed = below(state, masked_choices + 1)
        draw_first(state, numbers, num_allowed)
        allowed[lane] = False
        for i in range(num_allowed):
            allowed[lane, numbers[i]] = True
        allowed[lane, beans[lane]] = True
