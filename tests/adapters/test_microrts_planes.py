"""`features="planes29"`, and what a lane sees, beside the engine's own matrices."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.microrts.java import start_engine

BOARD = "basesWorkers8x8Obstacle"
#: How many planes the package makes of each layer of a matrix.
LAYERS = (5, 5, 3, 8, 6)
RESOURCE = 1


def make(**options: Any) -> ez.microrts.MicroRTSVectorEnv:
    env = ez.make_vec(f"MicroRTS/{BOARD}", 3, features="planes29", selfplay=2, max_steps=200, **options)
    assert isinstance(env, ez.microrts.MicroRTSVectorEnv)
    return env


def engine_planes(
    env: ez.microrts.MicroRTSVectorEnv, lane: int, partial: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """The planes (8, 8, 27) that the package makes of the engine's matrix, and its visible cells (8, 8)."""
    engine = env.engine
    state, player = engine.columns.states.array[engine.lane_game[lane]], int(engine.lane_player[lane])
    if partial:
        state = start_engine().JClass("rts.PartiallyObservableGameState")(state, player)
    layers = np.array(state.getMatrixObservation(player))
    layers[2][layers[3] == RESOURCE] = 0  # the engine gives resources to player 1
    one_hots = [np.eye(n)[layer.clip(0, n - 1)] for n, layer in zip(LAYERS, layers, strict=False)]
    return np.concatenate(one_hots, 2), layers[5] if partial else None


def board_of(batch: ez.EntityBatch, lane: int) -> np.ndarray:
    """The planes of all cells (8, 8, 29): those of the entities, and what an empty cell has."""
    board = np.zeros((8, 8, 29))
    board[..., [0, 5, 10, 13, 21, 27]] = 1
    for rows in batch.entities.values():
        for row in rows[lane]:
            board[int(row[1]), int(row[0])] = row[2:]
    return board


@pytest.mark.parametrize("partial", [False, True])
def test_the_planes_are_the_engines(partial: bool) -> None:
    with make(opponents="POWorkerRush" if partial else "workerRushAI", partial_observability=partial) as env:
        assert env.single_observation_space.entities["Wall"] == ez.microrts.PLANE29_FEATURES
        batch, _ = env.reset(seed=4)
        env.action_space.seed(4)
        hidden = 0
        for _ in range(80):
            for lane in range(3):
                planes, visible = engine_planes(env, lane, partial)
                board = board_of(batch, lane)
                assert np.array_equal(board[..., :27], planes)
                if visible is not None:  # the planes of visibility would be the same for all units
                    for name in ("Own", "Enemy", "Resource"):
                        assert all(visible[int(y), int(x)] for x, y in batch.entities[name][lane][:, :2])
                    hidden += int((visible == 0).sum())
            batch = env.step(env.action_space.sample(mask=batch))[0]
        assert (hidden > 0) == partial


def test_the_terrain_is_the_engines() -> None:
    with make(opponents="passiveAI", partial_observability=True) as env:
        batch, _ = env.reset(seed=0)
        terrain = env.engine.columns.states.array[0].getPhysicalGameState()
        walls = [[terrain.getTerrain(x, y) for x in range(8)] for y in range(8)]
        assert np.sum(walls) == 8
        for lane in range(3):
            board = board_of(batch, lane)
            assert np.array_equal(board[..., 28], walls) and np.array_equal(
                board[..., 27], 1 - np.array(walls)
            )


def test_the_networks_for_grids_see_free_cells_and_walls() -> None:
    with make(opponents="passiveAI") as env:
        batch, _ = env.reset(seed=0)
        spaces = env.single_observation_space, env.single_action_space
        rng = np.random.default_rng(0)
        for kind in (ez.baselines.GridNet, ez.baselines.ImpalaGridNet, ez.baselines.UnitActionNet):
            net = kind(*spaces, height=8, width=8)
            seen = net.map.grid(net.map.read(batch), next(net.parameters())).view(3, 8, 8, 29)
            assert all(np.array_equal(seen[lane].numpy(), board_of(batch, lane)) for lane in range(3))
            env.step(net.act(batch, rng).actions)
            batch, _ = env.reset(seed=0)
        # An order shows in the planes of the current action, wherever these are.
        seen = net.map.read(batch)
        ordered = net.planes_ordered(seen, np.array([0]), np.array([[4, 0, 0, 0, 0, 0, 0]]))[0]
        changed = np.flatnonzero(ordered.numpy() != seen.planes[0])
        assert changed.tolist() == [
            ez.microrts.PLANES.index("action_none"),
            ez.microrts.PLANES.index("action_produce"),
        ]
        net = ez.baselines.TransformerNet(*spaces, height=8, width=8, n_head=3)
        assert net.d_model == 64 + 29
        env.step(net.act(batch, rng).actions)
