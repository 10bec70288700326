"""MPE (mpe2): agents and landmarks on a plane.

Upstream's scenarios differ in the contents of an agent's observation, not in the state: a view says which
parts are observed, and the base class reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....ragged import RaggedArray
from ..game_view import ArrayResult, ArrayStep, GameObservation, GameObservations
from .known_game_view import KnownGameView, as_rows, has_neutral_wrappers

_ORIGIN = (0.0, 0.0)
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
        self._types = {agent: self.agent_type(agent) for agent in self.world.agents}
        if self.landmark_types:
            self._types |= {landmark: self.landmark_type(landmark) for landmark in self.world.landmarks}
        self._places: dict[Any, list[float]] = {}
        self._velocities: dict[Any, list[float]] = {}

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
        self._read()
        me = self.world.agents[self.number(agent)]
        return self._observation([me], [me, *self.others_seen(me)], self.landmarks_seen(me), me)

    def observe_all(self, agents: Sequence[str]) -> GameObservations:
        self._read()
        rows: dict[str, list[float]] = {name: [] for name in self.entities}
        offsets: dict[str, list[int]] = {name: [0] for name in self.entities}
        own, globals_ = [], []
        for agent in agents:
            me = self.world.agents[self.number(agent)]
            globals_ += self._add_rows(rows, [me], [me, *self.others_seen(me)], self.landmarks_seen(me), me)
            first = 0  # of the type's entities; the agent itself comes first among those of its type
            for name, values in rows.items():
                start, end = offsets[name][-1], len(values) // len(self.entities[name])
                offsets[name].append(end)
                if name == self._types[me]:
                    own.append(first)
                first += end - start
        return GameObservations(
            {
                name: RaggedArray.unchecked(
                    as_rows(values, self.entities[name]), np.array(offsets[name], np.int64)
                )
                for name, values in rows.items()
            },
            np.array(own, np.int64),
            np.array(globals_, np.float32).reshape(len(agents), len(self.global_features)),
        )

    def array_step(self, env: Any) -> ArrayStep | None:
        if self.game.continuous_actions or self.game.render_mode == "human" or not has_neutral_wrappers(env):
            return None
        return partial(self._step, env)

    def _step(self, env: Any, actions: NDArray[np.int64]) -> ArrayResult:
        """Give all agents their turns, as PettingZoo's `aec_to_parallel_wrapper` does; observe nothing."""
        game = self.game
        for agent in list(game.agents):
            game.step(actions.item(self._numbers[agent]))
        result = ArrayResult(
            np.array([game.rewards.get(agent, 0.0) for agent in game.possible_agents], np.float64),
            np.array([game.terminations.get(agent, False) for agent in game.possible_agents]),
            np.array([game.truncations.get(agent, False) for agent in game.possible_agents]),
            dict(game.infos),
        )
        while game.agents and (result.terminated.any() or result.truncated.any()):  # all end at once
            game.step(None)
        env.agents = game.agents
        return result

    def observe_team(self, agents: tuple[str, ...]) -> GameObservation:
        self._read()
        team = [self.world.agents[self.number(agent)] for agent in agents]
        return self._observation(team, self.world.agents, self.landmarks(), None)

    def _read(self) -> None:
        """Read once where all are."""
        agents = self.world.agents
        self._places = {body: body.state.p_pos.tolist() for body in (*agents, *self.landmarks())}
        self._velocities = {agent: agent.state.p_vel.tolist() for agent in agents}

    def _observation(
        self, observers: Sequence[Any], agents: Sequence[Any], landmarks: Sequence[Any], me: Any | None
    ) -> GameObservation:
        """Return the observation of `observers`: relative to `me`, or absolute and complete for None."""
        rows: dict[str, list[float]] = {name: [] for name in self.entities}
        ids: dict[str, list[Any]] = {name: [] for name in self.entities}
        globals_ = self._add_rows(rows, observers, agents, landmarks, me)
        for body in (*agents, *landmarks):
            ids[self._types[body]].append(body.name)
        entities = {name: as_rows(values, self.entities[name]) for name, values in rows.items()}
        return GameObservation(entities, ids, np.array(globals_, np.float32))

    def _add_rows(
        self,
        rows: Mapping[str, list[float]],
        observers: Sequence[Any],
        agents: Sequence[Any],
        landmarks: Sequence[Any],
        me: Any | None,
    ) -> list[float]:
        """Append the features of `agents` and `landmarks` to `rows`, by type; return the global features."""
        place = _ORIGIN if me is None else self._places[me]
        for agent in agents:
            row = rows[self._types[agent]]
            row += self.motion(agent, observers, me)
            row += self.agent_facts(agent, observers)
        for landmark in landmarks:
            x, y = self._places[landmark]
            row = rows[self._types[landmark]]
            row += (x - place[0], y - place[1])
            row += self.landmark_facts(landmark, observers)
        return [*(place if self.knows_place else ()), *self.facts(observers)]

    def motion(self, agent: Any, observers: Sequence[Any], me: Any | None) -> Sequence[float]:
        """Return the features of `MOTION`, relative to `me`, or absolute if `me` is None."""
        is_own = agent in observers
        shown = me is None or (self.knows_velocity if is_own else self._types[agent] in self.velocity_types)
        x, y = self._places[agent]
        if me is not None:
            my_x, my_y = self._places[me]
            x, y = (x - my_x, y - my_y) if self.shows_place else _ORIGIN
        return (x, y, *(self._velocities[agent] if shown else _ORIGIN), float(is_own))

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
