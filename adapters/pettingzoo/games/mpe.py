"""MPE (mpe2): agents and landmarks on a plane; the base class of its scenarios' views.

Upstream's scenarios differ in the contents of an agent's observation, not in the state; a view says which
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
OWN_PLACE = ("own_x", "own_y")


class MpeView(KnownGameView):
    """Positions and velocities are in the world's units, as in the game's own observations: agents start in
    the square from -1 to 1 and may leave it; a step lasts 0.1.

    - Agents (x, y, vx, vy, own, and what a scenario adds): own is 1 for the one who looks, or for its team.
      Ids are the agents' names. What an agent is not told of another is 0.
    - Landmarks (x, y, and what a scenario adds). Ids are their names in the world.
    - Globals own_x, own_y, in scenarios that tell an agent where it is; 0 for a team.

    A team sees all of the world, in absolute positions, and of what is private or said what any of its
    members knows or hears.

    Attributes:
        agent_types: entity type of agents -> all its features.
        landmark_types: entity type of landmarks -> all its features.
        knows_place, knows_velocity: whether it is told where it is, and how fast it is.
        fact_names: global features beside own_x and own_y.
    """

    agent_types: Mapping[str, tuple[str, ...]] = {"Agent": MOTION}
    landmark_types: Mapping[str, tuple[str, ...]] = {"Landmark": PLACE}
    knows_place = False
    knows_velocity = True
    fact_names: tuple[str, ...] = ()

    def __init__(self, game: Any) -> None:
        super().__init__(game)
        self.world = game.world
        self.entities = {**self.agent_types, **self.landmark_types}
        self.global_features = (*(OWN_PLACE if self.knows_place else ()), *self.fact_names)

    def agent_type(self, agent: Any) -> str:
        return next(iter(self.agent_types))

    def landmark_type(self, landmark: Any) -> str:
        return next(iter(self.landmark_types))

    def others_seen(self, me: Any) -> Sequence[Any]:
        """Return the other agents in the observation of `me`."""
        return [other for other in self.world.agents if other is not me]

    def shows_velocity(self, agent: Any) -> bool:
        """Return True if others observe the velocity of `agent`."""
        return False

    def shows_place(self, agent: Any) -> bool:
        """Return True if others observe the position of `agent`."""
        return True

    def landmarks(self) -> Sequence[Any]:
        """Return all landmarks in the world."""
        return self.world.landmarks

    def landmarks_seen(self, me: Any) -> Sequence[Any]:
        """Return the landmarks in the observation of `me`."""
        return self.landmarks()

    def agent_facts(self, agent: Any, observers: Sequence[Any]) -> Sequence[float]:
        """Return further features of `agent` for `observers`, one agent or a team."""
        return ()

    def landmark_facts(self, landmark: Any, observers: Sequence[Any]) -> Sequence[float]:
        return ()

    def facts(self, observers: Sequence[Any]) -> Sequence[float]:
        """Return the values of `fact_names`."""
        return ()

    def observe(self, agent: str) -> GameObservation:
        me = self.world.agents[self._number[agent]]
        return self._seen([me], [me, *self.others_seen(me)], self.landmarks_seen(me), me)

    def observe_team(self, agents: tuple[str, ...]) -> GameObservation:
        team = [self.world.agents[self._number[agent]] for agent in agents]
        return self._seen(team, self.world.agents, self.landmarks(), None)

    def _seen(
        self, observers: Sequence[Any], agents: Iterable[Any], landmarks: Iterable[Any], me: Any | None
    ) -> GameObservation:
        """Return the observation of `observers`: relative to `me`, or absolute and complete for None."""
        rows: dict[str, list[Sequence[float]]] = {name: [] for name in self.entities}
        ids: dict[str, list[Any]] = {name: [] for name in self.entities}
        place = (0.0, 0.0) if me is None else me.state.p_pos.tolist()
        for agent in agents:
            name = self.agent_type(agent)
            ids[name].append(agent.name)
            rows[name].append((*self.motion(agent, observers, me), *self.agent_facts(agent, observers)))
        for landmark in landmarks:
            name = self.landmark_type(landmark)
            ids[name].append(landmark.name)
            rows[name].append((*_offset(landmark, place), *self.landmark_facts(landmark, observers)))
        told = [*place] if self.knows_place else []
        return GameObservation(
            {name: as_rows(values, self.entities[name]) for name, values in rows.items()},
            ids,
            np.array([*told, *self.facts(observers)], np.float32),
        )

    def motion(self, agent: Any, observers: Sequence[Any], me: Any | None) -> Sequence[float]:
        """Return the features of `MOTION`, relative to `me`, or absolute if `me` is None."""
        is_own = agent in observers
        told = me is None or (self.knows_velocity if is_own else self.shows_velocity(agent))
        velocity = agent.state.p_vel.tolist() if told else (0.0, 0.0)
        if me is None:
            place = agent.state.p_pos.tolist()
        else:
            place = _offset(agent, me.state.p_pos.tolist()) if self.shows_place(agent) else (0.0, 0.0)
        return (*place, *velocity, float(is_own))

    def choices(self, agent: str) -> tuple[str, ...] | None:
        """Return names of pushes and messages: "left", "say 2", "left, say 2"; None if continuous."""
        if self.game.continuous_actions:
            return None
        body = self.world.agents[self._number[agent]]
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
