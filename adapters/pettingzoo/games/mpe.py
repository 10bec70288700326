"""MPE (mpe2): agents and landmarks on a plane.

Upstream's scenarios differ in the contents of an agent's observation, not in the state: a view says which
parts are observed, and the base class reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..game_view import GameObservation
from .known_game_view import KnownGameView, as_rows

PLACE = ("x", "y")
MOTION = ("x", "y", "vx", "vy", "own")


class MpeView(KnownGameView):
    """Positions and velocities are in the world's units, as in the game's own observations: agents start in
    the square from -1 to 1 and may leave it; a step lasts 0.1.

    - Agents (x, y, vx, vy, own, and what a scenario adds): own is 1 for the observing agent, or for its team.
      Ids are the agents' names. Hidden features of other agents are 0.
    - Landmarks (x, y, and what a scenario adds). Ids are their names in the world.
    - Globals own_x, own_y, in scenarios in which an agent observes its own position; 0 for a team.

    A team observes the whole world, in absolute positions, and the private features and messages that any of
    its members observes.

    Attributes:
        agent_types: entity type of agents -> all its features.
        landmark_types: entity type of landmarks -> all its features.
        knows_place, knows_velocity: whether an agent observes its own position, and its own velocity.
        shows_place: whether others observe an agent's position.
        velocity_types: the types of agents whose velocity others observe.
        limited: whether the scenario limits observations to the nearest `num_agent_neighbors` and
            `num_landmark_neighbors`.
        fact_names: global features beside own_x and own_y.
    """

    agent_types: Mapping[str, tuple[str, ...]] = {"Agent": MOTION}
    landmark_types: Mapping[str, tuple[str, ...]] = {"Landmark": PLACE}
    knows_place = False
    knows_velocity = True
    shows_place = True
    velocity_types: tuple[str, ...] = ()
    limited = False
    fact_names: tuple[str, ...] = ()

    def __init__(self, game: Any) -> None:
        super().__init__(game)
        self.world = game.world
        self.entities = {**self.agent_types, **self.landmark_types}
        self.global_features = (*(("own_x", "own_y") if self.knows_place else ()), *self.fact_names)

    def agent_type(self, agent: Any) -> str:
        return "Adversary" if "Adversary" in self.agent_types and agent.adversary else "Agent"

    def landmark_type(self, landmark: Any) -> str:
        return next(iter(self.landmark_types))

    def others_seen(self, me: Any) -> Sequence[Any]:
        """Return the other agents in the observation of `me`."""
        others = [other for other in self.world.agents if other is not me]
        return nearest(me, others, self.game.scenario.num_agent_neighbors) if self.limited else others

    def landmarks(self) -> Sequence[Any]:
        """Return all landmarks in the world."""
        return self.world.landmarks if self.landmark_types else ()

    def landmarks_seen(self, me: Any) -> Sequence[Any]:
        """Return the landmarks in the observation of `me`."""
        if not self.limited:
            return self.landmarks()
        return nearest(me, self.landmarks(), self.game.scenario.num_landmark_neighbors)

    def agent_facts(self, agent: Any, observers: Sequence[Any]) -> Sequence[float]:
        """Return further features of `agent` for `observers`, one agent or a team."""
        return ()

    def landmark_facts(self, landmark: Any, observers: Sequence[Any]) -> Sequence[float]:
        """Return further features of `landmark` for `observers`."""
        return ()

    def facts(self, observers: Sequence[Any]) -> Sequence[float]:
        """Return the values of `fact_names`."""
        return ()

    def observe(self, agent: str) -> GameObservation:
        me = self.world.agents[self.number(agent)]
        return self._observation([me], [me, *self.others_seen(me)], self.landmarks_seen(me), me)

    def observe_team(self, agents: tuple[str, ...]) -> GameObservation:
        team = [self.world.agents[self.number(agent)] for agent in agents]
        return self._observation(team, self.world.agents, self.landmarks(), None)

    def _observation(
        self, observers: Sequence[Any], agents: Iterable[Any], landmarks: Iterable[Any], me: Any | None
    ) -> GameObservation:
        """Return the observation of `observers`: relative to `me`, or absolute and complete for None."""
        rows: dict[str, list[Sequence[float]]] = {name: [] for name in self.entities}
        ids: dict[str, list[Any]] = {name: [] for name in self.entities}
        place: Sequence[float] = (0.0, 0.0) if me is None else me.state.p_pos.tolist()
        for agent in agents:
            name = self.agent_type(agent)
            ids[name].append(agent.name)
            rows[name].append((*self.motion(agent, observers, me), *self.agent_facts(agent, observers)))
        for landmark in landmarks:
            name = self.landmark_type(landmark)
            ids[name].append(landmark.name)
            rows[name].append((*_offset(landmark, place), *self.landmark_facts(landmark, observers)))
        own_place = place if self.knows_place else ()
        return GameObservation(
            {name: as_rows(values, self.entities[name]) for name, values in rows.items()},
            ids,
            np.array([*own_place, *self.facts(observers)], np.float32),
        )

    def motion(self, agent: Any, observers: Sequence[Any], me: Any | None) -> Sequence[float]:
        """Return the features of `MOTION`, relative to `me`, or absolute if `me` is None."""
        is_own = agent in observers
        shown = me is None or (
            self.knows_velocity if is_own else self.agent_type(agent) in self.velocity_types
        )
        velocity = agent.state.p_vel.tolist() if shown else (0.0, 0.0)
        if me is None:
            place = agent.state.p_pos.tolist()
        else:
            place = _offset(agent, me.state.p_pos.tolist()) if self.shows_place else (0.0, 0.0)
        return (*place, *velocity, float(is_own))

    def choices(self, agent: str) -> tuple[str, ...] | None:
        """Return names of pushes and messages: "left", "say 2", "left, say 2"; None if continuous."""
        if self.game.continuous_actions:
            return None
        body = self.world.agents[self.number(agent)]
        moves = ("stay", "left", "right", "down", "up") if body.movable else ()
        words = () if body.silent else tuple(f"say {word}" for word in range(self.world.dim_c))
        if moves and words:
            return tuple(f"{move}, {word}" for word in words for move in moves)
        return moves or words or ("nothing",)


def nearest(me: Any, others: Sequence[Any], limit: int | None) -> Sequence[Any]:
    """Return the `limit` nearest of `others`, or all if None."""
    if limit is None or limit >= len(others):
        return others
    place = me.state.p_pos
    return sorted(others, key=lambda other: float(np.linalg.norm(other.state.p_pos - place)))[:limit]


def _offset(entity: Any, origin: Sequence[float]) -> tuple[float, float]:
    x, y = entity.state.p_pos.tolist()
    return x - origin[0], y - origin[1]
