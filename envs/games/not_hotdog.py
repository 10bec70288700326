"""NotHotdog: is it a hotdog? A test of types that come and go, and of an action without actors."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ..actions import Categorical, EntityActionSpace
from ..batch.entity_batch import EntityBatch
from ..randomness import below
from ..spaces import EntitySpace
from ..vector.native import NativeVectorEnv
from ..vector.native_arrays import (
    Flags,
    Floats,
    Ints,
    Words,
    all_true,
    even,
    featureless,
    free_choice,
    no_actors,
)
from ..vector.native_env import native_game


class NotHotdogVectorEnv(NativeVectorEnv):
    """Beside the player lies one thing; say whether it is a hotdog.

    Entities: Player (step), and either Object (is_hotdog, 0 or 1) or Hotdog (no features). Half of the time
    the thing is a hotdog, and half of those times it shows as a Hotdog; else it is an Object.

    Actions: the player's `classify`, "not_hotdog" or "hotdog"; and `unused_action`, which has no actors.
    The right answer pays 1, a wrong one or none nothing. An episode is one answer. (The reference pays for
    the same choices by number, but has their names the wrong way round.)

    Optimum: 1 per episode, since the observation shows the answer; chance gets 0.5, and so does a policy that
    sees neither the type nor the feature.

    Args:
        num_envs: how many games.
    """

    state_names: ClassVar[tuple[str, ...]] = ("_is_hotdog", "_is_typed")

    def __init__(self, num_envs: int = 1, *, render_mode: str | None = None) -> None:
        actions = EntityActionSpace(
            {"classify": Categorical(["not_hotdog", "hotdog"]), "unused_action": Categorical(["0", "1"])}
        )
        space = EntitySpace({"Player": ["step"], "Object": ["is_hotdog"], "Hotdog": []}, actions)
        super().__init__(space, num_envs, render_mode=render_mode)
        self._is_hotdog = np.zeros(num_envs, bool)
        self._is_typed = np.zeros(num_envs, bool)  # whether a hotdog shows as one

    def _start(self, lanes: Ints) -> None:
        _draw_things(lanes, self.random_state, self._is_hotdog, self._is_typed)

    def _advance(self, actions: dict[str, RaggedArray]) -> tuple[Floats, Flags]:
        rewards = (actions["classify"].one_each(-1) == self._is_hotdog).astype(np.float32)
        return rewards, all_true(self.num_envs)

    def _look(self, lanes: Ints | None) -> EntityBatch:
        rows = slice(None) if lanes is None else lanes
        is_hotdog, steps = self._is_hotdog[rows], self.steps[rows]
        count = len(steps)
        shows_type = is_hotdog & self._is_typed[rows]
        hotdogs, objects = np.zeros(count + 1, np.int64), np.arange(count + 1)
        shows_type.cumsum(out=hotdogs[1:])
        objects -= hotdogs
        players = even(np.zeros(count, np.int64))
        return EntityBatch(
            {
                "Player": even(steps.astype(np.float32)[:, None]),
                "Object": RaggedArray.unchecked(is_hotdog[~shows_type].astype(np.float32)[:, None], objects),
                "Hotdog": featureless(hotdogs),
            },
            np.empty((count, 0), np.float32),
            {"classify": free_choice(players, 2), "unused_action": no_actors(count, 2)},
        )


NotHotdog, make_vec = native_game(NotHotdogVectorEnv)


@compiled
def _draw_things(lanes: Ints, random_state: Words, is_hotdog: Flags, is_typed: Flags) -> None:
    """Draw the object beside the player in each of `lanes`."""
    for lane in lanes:
        drawn = below(random_state[lane], 4)
        is_hotdog[lane] = drawn & 1 == 1
        is_typed[lane] = drawn >> 1 == 1
