"""FloorIsLava: step to the one safe tile. A test of relative positions, far from the origin."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ..actions import Categorical, EntityActionSpace
from ..batch.entity_batch import EntityBatch
from ..randomness import below, draw_first
from ..spaces import EntitySpace
from ..vector.native import NativeVectorEnv
from ..vector.native_arrays import Flags, Floats, Ints, Words, all_true, even, free_choice
from ..vector.native_env import native_game
from ..vector.saved_state import Bounds

_WIDTH = 1000  # the player starts at whole coordinates from -_WIDTH to _WIDTH
#: How each move changes (x, y).
_MOVES = {"n": (0, 1), "ne": (1, 1), "e": (1, 0), "se": (1, -1)} | {
    "s": (0, -1), "sw": (-1, -1), "w": (-1, 0), "nw": (-1, 1)
}  # fmt: skip
_STEPS = np.array(list(_MOVES.values()), np.int64)  # (8, 2)


class FloorIsLavaVectorEnv(NativeVectorEnv):
    """Of the eight tiles around the player one is safe, and up to seven are lava: step to the safe one.

    Entities: Lava, HighGround and Player (x, y), in absolute coordinates. The player stands anywhere within
    1000 tiles of the origin; 0 to 7 tiles next to it are lava and another one is the high ground. Which tiles
    are chosen, and which of them is safe, is uniform.

    Actions: the player's `move` to one of the eight tiles. The high ground pays 1, everything else nothing,
    whether it is lava or not. An episode is one move.

    Optimum: 1 per episode, since the observation shows the answer; chance gets 1/8. It needs the difference
    of two coordinates to the thousandth part of their range, so give RogueNet a `Translation` to the player.

    Args:
        num_envs: how many games.
    """

    state_names: ClassVar[tuple[str, ...]] = ("_player", "_high_ground", "_lava", "_num_lava")

    def __init__(self, num_envs: int = 1, *, render_mode: str | None = None) -> None:
        actions = EntityActionSpace({"move": Categorical(list(_MOVES))})
        space = EntitySpace({"Lava": ["x", "y"], "HighGround": ["x", "y"], "Player": ["x", "y"]}, actions)
        super().__init__(space, num_envs, render_mode=render_mode)
        self._player = np.zeros((num_envs, 2), np.int64)
        self._high_ground = np.zeros((num_envs, 2), np.int64)
        self._lava = np.zeros((num_envs, len(_MOVES) - 1, 2), np.int64)
        self._num_lava = np.zeros(num_envs, np.int64)

    def _start(self, lanes: Ints) -> None:
        _draw_tiles(
            lanes, self.random_state, _STEPS, self._player, self._high_ground, self._lava, self._num_lava
        )

    def _bounds(self) -> Bounds:
        return {
            "_player": (-_WIDTH, _WIDTH),
            "_high_ground": (-_WIDTH - 1, _WIDTH + 1),
            "_lava": (-_WIDTH - 1, _WIDTH + 1),
            "_num_lava": (0, self._lava.shape[1]),
        }

    def _advance(self, actions: dict[str, RaggedArray]) -> tuple[Floats, Flags]:
        choices = actions["move"].one_each(-1)
        moves = _STEPS[choices]
        moves[choices < 0] = 0
        self._player += moves
        rewards = (self._player == self._high_ground).all(1).astype(np.float32)
        return rewards, all_true(self.num_envs)

    def _look(self, lanes: Ints | None) -> EntityBatch:
        lanes = self.all_lanes if lanes is None else lanes
        count = len(lanes)
        offsets = np.zeros(count + 1, np.int64)
        self._num_lava[lanes].cumsum(out=offsets[1:])
        lava = np.empty((offsets.item(-1), 2), np.float32)
        high_ground, player = np.empty((count, 2), np.float32), np.empty((count, 2), np.float32)
        acting = np.empty(count, np.int64)
        _observe(
            lanes, offsets, self._lava, self._high_ground, self._player, lava, high_ground, player, acting
        )
        return EntityBatch(
            {
                "Lava": RaggedArray.unchecked(lava, offsets),
                "HighGround": even(high_ground),
                "Player": even(player),
            },
            np.empty((count, 0), np.float32),
            {"move": free_choice(even(acting), len(_MOVES))},
        )


FloorIsLava, make_vec = native_game(FloorIsLavaVectorEnv)


@compiled
def _draw_tiles(
    lanes: Ints, random_state: Words, steps: Ints, player: Ints, high_ground: Ints, lava: Ints, num_lava: Ints
) -> None:
    """Draw the positions in each of `lanes`; `steps` (8, 2) lead to the neighbouring tiles."""
    for lane in lanes:
        state, tiles = random_state[lane], np.arange(len(steps))
        num_lava[lane] = below(state, len(steps))
        draw_first(state, tiles, num_lava[lane] + 1)
        for axis in range(2):
            player[lane, axis] = below(state, 2 * _WIDTH + 1) - _WIDTH
            high_ground[lane, axis] = player[lane, axis] + steps[tiles[num_lava[lane]], axis]
            for i in range(num_lava[lane]):
                lava[lane, i, axis] = player[lane, axis] + steps[tiles[i], axis]


@compiled
def _observe(
    lanes: Ints,
    offsets: Ints,
    lava: Ints,
    high_ground: Ints,
    player: Ints,
    lava_rows: Floats,
    high_ground_rows: Floats,
    player_rows: Floats,
    acting: Ints,
) -> None:
    """Return the entities in `lanes`, as rows (N, 2) and (L, 2), and the player's entity index (L,)."""
    for step in range(len(lanes)):
        lane, first = lanes[step], offsets[step]
        acting[step] = offsets[step + 1] - first + 1  # the player comes after the lava and the high ground
        for axis in range(2):
            high_ground_rows[step, axis] = high_ground[lane, axis]
            player_rows[step, axis] = player[lane, axis]
            for i in range(offsets[step + 1] - first):
                lava_rows[first + i, axis] = lava[lane, i, axis]
