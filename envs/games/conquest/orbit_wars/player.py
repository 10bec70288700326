"""`OrbitWarsPlayer`: an agent as the function that the competition calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from .....ragged import RaggedArray
from ....batch.entity_batch import EntityBatch
from ..forecast import FLEETS
from .game import seen_by
from .rules import (
    MAX_SLOTS,
    OWNER,
    PRODUCTION,
    RADIUS,
    SHIPS,
    Boards,
    X,
    Y,
    add_fleet,
    empty_boards,
    fleet_speed,
    set_orbits,
)
from .view import features, order_launches

_TWO, _ONE_AND_A_HALF = 2.0, 1.5


class _Chooses(Protocol):
    def act(self, batch: EntityBatch, *, deterministic: bool = ...) -> Any: ...


class OrbitWarsPlayer:
    """An agent that was trained in "OrbitWars" or "OrbitWars/lanes", for games of the published engine.

        agent = ez.load_agent("runs/orbit")
        player = OrbitWarsPlayer(agent)

        def act(observation):  # the function of a submission
            return player(observation)

    Args:
        agent: what `load_agent` returns.
        deterministic: take the most probable choices.
        min_ships, ship_speed: as in the training.

    Raises:
        ValueError: the agent observes something else.
    """

    def __init__(
        self, agent: Any, deterministic: bool = False, *, min_ships: int = 8, ship_speed: float = 6.0
    ) -> None:
        seen = {name: list(names) for name, names in agent.observation_space.entities.items()}
        fitting = [
            (players, fleets) for players in (2, 4) for fleets in FLEETS if features(players, fleets) == seen
        ]
        if not fitting:
            raise ValueError(
                f"OrbitWarsPlayer: the agent observes {', '.join(seen)}: expected the entities of OrbitWars"
            )
        self._agent: _Chooses = agent
        self._num_players, self._fleets = fitting[0]
        self._deterministic = deterministic
        self._min_ships = min_ships
        self._ship_speed = ship_speed

    def __call__(self, observation: Mapping[str, Any], configuration: Any = None) -> list[list[float]]:
        """Return moves [planet id, heading in radians, ships] for an observation of the engine.

        Raises:
            ValueError: there are more planets than the game can have, or more players than the agent was
                trained with.
        """
        player = int(observation["player"])
        owners = [owner for _, owner, *_ in (*observation["planets"], *observation["fleets"])]
        last = max([player, *owners])
        if last >= self._num_players:
            raise ValueError(
                f"observation: expected players 0 to {self._num_players - 1}, as the agent was trained with"
                f" num_players={self._num_players}, got player {last}"
            )
        boards, ids = read_boards(observation, self._ship_speed)
        batch = seen_by(
            *(boards, np.zeros(1, np.int64), np.full(1, player)),
            *(self._num_players, self._min_ships, self._fleets),
        )
        chosen: dict[str, RaggedArray] = self._agent.act(batch, deterministic=self._deterministic).actions
        moves = np.empty((MAX_SLOTS, 3))
        count = order_launches(
            *(boards, 0, player, chosen["Target"].values, chosen["Share"].values),
            *(self._min_ships, self._ship_speed, _ONE_AND_A_HALF, moves),
        )
        return [[ids[int(origin)], heading, int(ships)] for origin, heading, ships in moves[:count].tolist()]


def read_boards(observation: Mapping[str, Any], ship_speed: float) -> tuple[Boards, list[int]]:
    """Return the board of one game that the engine shows, and the ids of its planets by slot.

    Raises:
        ValueError: there are more planets than the game can have.
    """
    planets, fleets = observation["planets"], observation["fleets"]
    comets = set(observation.get("comet_planet_ids", ()))
    ordered = [p for p in planets if p[0] not in comets] + [p for p in planets if p[0] in comets]
    if len(ordered) > MAX_SLOTS:
        raise ValueError(f"observation: expected at most {MAX_SLOTS} planets and comets, got {len(ordered)}")
    boards = empty_boards(1, len(fleets) + MAX_SLOTS)
    first = {p[0]: p for p in observation["initial_planets"]}
    boards.planet_counts[0] = len(ordered) - len(comets)
    boards.velocities[0] = observation["angular_velocity"]
    boards.ticks[0] = observation.get("step", 0)
    for slot, planet in enumerate(ordered):  # where they started, which says how they circle
        boards.planets[0, slot, [X, Y, RADIUS]] = first[planet[0]][2:5]
    set_orbits(boards, 0, _TWO)
    for slot, (_, owner, x, y, _, ships, production) in enumerate(ordered):
        boards.planets[0, slot, [X, Y]] = x, y
        boards.owned[0, slot, [OWNER, SHIPS, PRODUCTION]] = owner, ships, production
    for group in observation.get("comets", ()):
        path = np.array(group["paths"][1], float)  # its x is mirrored
        boards.comet_groups[0], boards.comet_ages[0] = 0, group["path_index"]
        boards.path_lengths[0, 0] = len(path)
        boards.paths[0, 0, : len(path)] = path
        boards.paths[0, 0, : len(path), 0] = 100.0 - path[:, 0]
    for fleet_id, owner, x, y, heading, origin, ships in fleets:
        boards.next_ids[0] = fleet_id
        speed = fleet_speed(ships, ship_speed, _ONE_AND_A_HALF)
        add_fleet(boards, 0, owner, origin, float(x), float(y), float(heading), ships, speed)
    return boards, [planet[0] for planet in ordered]
