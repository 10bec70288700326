"""Maps of entities as μRTS shows them, the same as grids, and environments with such spaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from entitize.envs import (
    ActionMask,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    EntityVectorEnv,
    MultiCategorical,
)
from entitize.ragged import RaggedArray

COMPONENTS = {
    "kind": ["none", "move", "harvest", "return", "produce", "attack"],
    **{name: ["north", "east", "south", "west"] for name in ("move", "harvest", "return", "produce")},
    "produce_type": 7,
    "attack": 49,
}
USES = {
    **{name: [name] for name in ("move", "harvest", "return", "attack")},
    "produce": ["produce", "produce_type"],
}
#: Hit points, resources, owner, type, current action: 27 planes.
GROUPS = (5, 5, 3, 8, 6)
TYPES = ("Own", "Enemy", "Resource")


@pytest.fixture
def rts_space() -> Callable[..., EntitySpace]:
    def make(planes: int = sum(GROUPS), hidden: bool = False) -> EntitySpace:
        features = ["x", "y", *(f"plane {i}" for i in range(planes))]
        actions = EntityActionSpace({"order": MultiCategorical(COMPONENTS, USES)})
        return EntitySpace(dict.fromkeys(TYPES, features), actions, ["time"], hidden)

    return make


def random_planes(rng: np.random.Generator, type_: int, count: int) -> np.ndarray:
    """Planes (count, 27) with a 1 in each group; owner and type as the engine has them."""
    choices = np.stack([rng.integers(0, size, count) for size in GROUPS], 1)
    choices[:, 2] = (1, 2, 0)[type_]
    choices[:, 3] = 1 if type_ == 2 else rng.integers(2, 8, count)
    choices += np.concatenate([[0], np.cumsum(GROUPS)[:-1]])
    planes = np.zeros((count, sum(GROUPS)), np.float32)
    np.put_along_axis(planes, choices, 1.0, 1)
    return planes


def random_masks(action: MultiCategorical, rng: np.random.Generator, count: int) -> np.ndarray:
    """Legal masks (count, C), of which components that no allowed kind uses are often empty."""
    mask = rng.random((count, action.num_choices)) < 0.5
    columns = action.offsets[:-1] + rng.integers(action.sizes, size=(count, len(action.sizes)))
    np.put_along_axis(mask, columns, True, 1)
    needed = mask[:, : action.sizes[0]] @ action.used
    return mask & np.repeat(needed | (rng.random(needed.shape) < 0.4), action.sizes, axis=1)


def random_map_batch(
    space: EntitySpace, height: int, width: int, steps: int = 6, most: int = 4, seed: int = 0
) -> EntityBatch:
    """Steps with up to `most` entities of each type on different cells; the middle one is empty."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, most + 1, (steps, len(TYPES)))
    counts[0], counts[steps // 2] = most, 0
    cells = [rng.permutation(height * width)[: row.sum()] for row in counts]
    entities = {}
    for i, name in enumerate(TYPES):
        parts = []
        for row, places in zip(counts, cells, strict=True):
            mine = places[row[:i].sum() : row[: i + 1].sum()]
            y, x = np.divmod(mine, width)
            parts.append(np.column_stack([x, y, random_planes(rng, i, len(mine))]).astype(np.float32))
        entities[name] = RaggedArray.from_arrays(parts, dtype=np.float32, inner_shape=(29,))
    actors = [rng.permutation(own)[: rng.integers(0, own + 1)] for own in counts[:, 0]]
    actors[0] = rng.permutation(most)
    acting = RaggedArray.from_arrays(actors, dtype=np.int64, inner_shape=())
    masks = random_masks(space.actions["order"], rng, acting.num_items)
    return EntityBatch(
        entities,
        rng.random((steps, 1), np.float32),
        {"order": ActionMask(acting, acting.with_values(masks))},
    )


@pytest.fixture
def map_batch() -> Callable[..., EntityBatch]:
    return random_map_batch


def as_grid(batch: EntityBatch, step: int, height: int, width: int) -> np.ndarray:
    """The engine's observation (H, W, 27) of a step."""
    grid = np.zeros((height, width, sum(GROUPS)))
    grid[:, :, [0, 5, 10, 13, 21]] = 1
    for rows in batch.entities.values():
        for row in rows[step]:
            grid[int(row[1]), int(row[0])] = row[2:]
    return grid


@pytest.fixture
def grid_of() -> Callable[..., np.ndarray]:
    return as_grid


class ObedienceVectorEnv(EntityVectorEnv):
    """Own units are rewarded for the kind of order that their current-action planes name, if it is none or
    move, and those that move for going north. Episodes last five steps.

    There are up to `most` entities of each type, in the corner of `size` × `size` cells."""

    def __init__(self, space: EntitySpace, num_envs: int = 8, most: int = 3, size: int = 4) -> None:
        self.single_observation_space, self.single_action_space = space, space.actions
        self.num_envs, self.most, self.size = num_envs, most, size
        self._rng = np.random.default_rng(0)
        self._clock = 0

    def _show(self) -> EntityBatch:
        seed = int(self._rng.integers(1 << 31))
        space, size = self.single_observation_space, self.size
        batch = random_map_batch(space, size, size, self.num_envs, self.most, seed)
        own = batch.entities["Own"]
        self._wanted = self._rng.integers(0, 2, own.num_items)
        own.values[:, 2 + 21 :] = self._wanted[:, None] == np.arange(6)
        mask = np.zeros((own.num_items, 78), bool)
        mask[:, [0, 1, 6, 7, 8, 9]] = True
        acting = own.with_values(own.item_indices())
        self._lengths = own.lengths
        return EntityBatch(
            batch.entities, batch.globals, {"order": ActionMask(acting, own.with_values(mask))}
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[EntityBatch, dict[str, Any]]:
        self._rng, self._clock = np.random.default_rng(seed), 0
        return self._show(), {}

    def step(self, actions: Any) -> Any:
        orders = actions["order"]
        assert orders.inner_shape == (7,)
        assert np.array_equal(orders.lengths, self._lengths)
        good = (orders.values[:, 0] == self._wanted) & ((self._wanted == 0) | (orders.values[:, 1] == 0))
        rewards = np.array([part.mean() if len(part) else 0 for part in orders.with_values(good * 1.0)])
        self._clock += 1
        ended = np.full(self.num_envs, self._clock % 5 == 0)
        batch = self._show()
        info = {"final_obs": batch, "_final_obs": ended} if ended.any() else {}
        return batch, rewards.astype(np.float32), ended, np.zeros(self.num_envs, bool), info


@pytest.fixture
def obedience_venv() -> type[ObedienceVectorEnv]:
    return ObedienceVectorEnv
