"""The three states that ENN's internals document writes out, from observation to dispatched actions."""

from __future__ import annotations

from functools import partial
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.ragged import RaggedArray

STATES: list[dict[str, Any]] = [
    {
        "mines": [(0, 2), (0, 1), (2, 2), (0, 0), (1, 0)],
        "robots": [(1, 1)],
        "orbital_cannon_cooldown": 5,
        "orbital_cannon": False,
    },
    {"mines": [(2, 1)], "robots": [(2, 0)], "orbital_cannon_cooldown": 0, "orbital_cannon": True},
    {
        "mines": [(1, 0), (0, 1), (2, 2)],
        "robots": [(0, 0), (2, 0)],
        "orbital_cannon_cooldown": 5,
        "orbital_cannon": False,
    },
]
MOVE_MASKS = [
    [[True, True, True, True, True]],
    [[False, True, True, False, True]],
    [[True, False, True, False, True], [False, True, True, False, True]],
]


class Recording(ez.games.MineSweeper):
    """Remembers what is dispatched to it."""

    def _step(self, actions: dict[str, Any]) -> Any:
        self.received = actions
        return super()._step(actions)


@pytest.fixture
def envs() -> ez.vector.ListVectorEnv:
    return ez.vector.ListVectorEnv([partial(Recording, width=3, height=3, state=state) for state in STATES])


@pytest.mark.parametrize("number", range(3))
def test_each_state_gives_the_documents_observation(number: int) -> None:
    env = ez.games.MineSweeper(width=3, height=3)
    observation, _ = env.reset(options={"state": STATES[number]})

    features = {name: rows.tolist() for name, rows in observation["entities"].items()}
    assert features == {
        "Mine": [list(cell) for cell in STATES[number]["mines"]],
        "Robot": [list(cell) for cell in STATES[number]["robots"]],
        "Orbital Cannon": [[0]] if STATES[number]["orbital_cannon"] else [],
    }
    mines, robots = len(STATES[number]["mines"]), len(STATES[number]["robots"])
    move, fire = observation["actions"]["Move"], observation["actions"]["Fire Orbital Cannon"]
    assert move["actors"].tolist() == list(range(mines, mines + robots))
    assert move["mask"].astype(bool).tolist() == MOVE_MASKS[number]
    if STATES[number]["orbital_cannon"]:
        assert fire["actors"].tolist() == [mines + robots]
        assert fire["actees"].tolist() == list(range(mines + robots))
        assert fire["mask"].tolist() == [1] * (mines + robots)
    else:
        assert [fire[part].tolist() for part in ("actors", "actees", "mask")] == [[], [], []]


def test_ids_are_the_documents() -> None:
    shown: list[ez.Observation] = []

    class Watched(ez.games.MineSweeper):
        def _reset(self, options: dict[str, Any]) -> ez.Observation:
            shown.append(super()._reset(options))
            return shown[-1]

    Watched(width=3, height=3).reset(options={"state": STATES[0]})
    ids = shown[0].ids
    assert ids["Mine"] == [("Mine", 0), ("Mine", 1), ("Mine", 2), ("Mine", 3), ("Mine", 4)]
    assert ids["Robot"] == [("Robot", 0)]


def test_the_types_are_ordered_mine_robot_orbital_cannon(envs: ez.vector.ListVectorEnv) -> None:
    assert list(envs.single_observation_space.entities) == ["Mine", "Robot", "Orbital Cannon"]
    assert list(envs.single_action_space) == ["Move", "Fire Orbital Cannon"]


def test_the_batch_is_the_documents(envs: ez.vector.ListVectorEnv) -> None:
    batch, _ = envs.reset()

    def lists(array: RaggedArray) -> list[Any]:
        return [sequence.tolist() for sequence in array]

    assert lists(batch.entities["Mine"]) == [
        [[0, 2], [0, 1], [2, 2], [0, 0], [1, 0]],
        [[2, 1]],
        [[1, 0], [0, 1], [2, 2]],
    ]
    assert lists(batch.entities["Robot"]) == [[[1, 1]], [[2, 0]], [[0, 0], [2, 0]]]
    assert lists(batch.entities["Orbital Cannon"]) == [[], [[0.0]], []]
    assert all(rows.dtype == np.float32 for rows in batch.entities.values())

    move, fire = batch.actions["Move"], batch.actions["Fire Orbital Cannon"]
    assert lists(move.actors) == [[5], [1], [3, 4]]
    assert lists(move.mask) == MOVE_MASKS
    assert lists(fire.actors) == [[], [2], []]
    assert fire.actees is not None
    assert lists(fire.actees) == [[], [0, 1], []]
    assert lists(fire.mask) == [[], [True, True], []]


def test_offsets_and_sequential_indices_are_the_documents(envs: ez.vector.ListVectorEnv) -> None:
    batch, _ = envs.reset()
    assert batch.entity_offsets[:-1].tolist() == [0, 6, 9]
    assert batch.num_entities == 14
    assert batch.actor_rows("Move").tolist() == [5, 7, 12, 13]
    assert batch.actor_rows("Fire Orbital Cannon").tolist() == [8]

    rows, offsets = batch.entity_rows()  # the order of the document's embedding tensor
    assert offsets.tolist() == [0, 6, 9, 14]
    assert rows["Mine"].tolist() == [0, 1, 2, 3, 4, 6, 9, 10, 11]
    assert rows["Robot"].tolist() == [5, 7, 12, 13]
    assert rows["Orbital Cannon"].tolist() == [8]


def test_ragged_actions_are_dispatched_as_in_the_document(envs: ez.vector.ListVectorEnv) -> None:
    envs.reset()
    envs.step(
        {
            "Fire Orbital Cannon": RaggedArray.from_arrays([[], [0], []], dtype=np.int64),
            "Move": RaggedArray.from_arrays([[4], [1], [4, 2]], dtype=np.int64),
        }
    )
    received = [env.received for env in envs.envs]  # type: ignore[attr-defined]

    fire = [actions["Fire Orbital Cannon"] for actions in received]
    assert [(order.actors, order.actees) for order in fire] == [
        ([], []),
        ([("Orbital Cannon", 0)], [("Mine", 0)]),
        ([], []),
    ]
    move = [actions["Move"] for actions in received]
    assert [order.actors for order in move] == [[("Robot", 0)], [("Robot", 0)], [("Robot", 0), ("Robot", 1)]]
    assert [order.choices.tolist() for order in move] == [[4], [1], [4, 2]]
    assert [order.labels for order in move] == [["Defuse Mines"], ["Down"], ["Defuse Mines", "Left"]]
