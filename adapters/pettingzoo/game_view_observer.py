"""`GameViewObserver`: encoder of agents' observations by a `GameView`.

Shape alphabet: B lanes, N entities of one type, F features, G global features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from ...envs import EntityBatch, EntitySpace, Observation, ObservationError
from ...envs.actions.array_checks import all_finite
from ...ragged import RaggedArray, concatenate
from ..gymnasium.views.scope import ViewError
from .agent_actions import AgentActions
from .agent_observer import AgentObservation, AgentObserver, Guard
from .game import AECGame, PettingZooGame
from .game_view import GameObservation, GameObservations, GameView
from .parallel_game import ParallelGame


class GameViews:
    """One `GameView` for each of several games, made on first use.

    Args:
        kind: the class of the views.
        first: the game whose view defines the entity types of all games; it is reset.

    Raises:
        ViewError: the view does not read games of this kind.
    """

    def __init__(self, kind: type[GameView], first: PettingZooGame) -> None:
        self.kind = kind
        if not first.agents:
            first.reset(None, None)
        self.first = kind(first.env.unwrapped)
        self._views = {first.index: self.first}

    def of(self, game: PettingZooGame) -> GameView:
        """Return the view of `game`.

        Raises:
            ViewError: its entity types or global features differ from the first game's.
        """
        view = self._views.get(game.index)
        if view is None:
            view = self._views[game.index] = self.kind(game.env.unwrapped)
            mine, firsts = (
                ({n: tuple(f) for n, f in v.entities.items()}, tuple(v.global_features))
                for v in (view, self.first)
            )
            if mine != firsts:
                raise ViewError(
                    f"{game.label}: {self.kind.__name__}: expected the features {firsts} as in game 0,"
                    f" got {mine}"
                )
        return view


class AgentsInPlay(NamedTuple):
    """The agents in play in a game, and those of L learning agents."""

    playing: list[str]  # all agents in play
    present: list[str]  # the learning agents in play
    acting: list[str | None]  # for each learning agent its name; None if it is not in play (L,)
    is_present: NDArray[np.bool_]  # (L,)
    has_own: NDArray[np.bool_]  # (L,): in play, and with an entity of its own
    all_own: bool


class GameViewObserver(AgentObserver):
    """Encoder of agents' observations by a `GameView`, which reads the game's state.

    An agent with an entity of its own acts through it; other agents' actions are global actions. This is
    decided at the start of a game. A team observes the whole state, as the view gives it to a central
    controller.

    Args:
        game: a game with these agents.
        agents: their names.
        views: the views of all games.
        team: True if the agents are a team.

    Raises:
        ViewError: the view does not read games of this kind; or agents of a team that act at once have no
            entities of their own.
    """

    def __init__(
        self, game: PettingZooGame, agents: Sequence[str], views: GameViews, team: bool = False
    ) -> None:
        self._views, self._team = views, team
        self._in_play: dict[int, AgentsInPlay] = {}  # by game
        choices = {agent: views.first.choices(agent) for agent in agents}
        whole = views.first.observe_team(tuple(agents)) if team else None
        alive = [agent for agent in agents if agent in game.agents]
        acting = [agent for agent in alive if _has_own(whole or views.first.observe(agent), agent)]
        # Agents that join later act as those that are there.
        self._own_entity = set(acting if len(acting) < len(alive) else agents)
        self.actions = AgentActions(game, agents, choices, self._own_entity)
        self.observation_space = EntitySpace(
            dict(views.first.entities), self.actions.action_space, views.first.global_features
        )
        for group in self.actions.groups:
            if team and not group.own and len(group.agents) > 1 and not isinstance(game, AECGame):
                raise ViewError(
                    f"{game.name}: {views.kind.__name__}: expected an entity for each of the agents"
                    f" {', '.join(map(repr, group.agents))}, which act simultaneously, got none"
                )

    def _value(self, game: PettingZooGame, agent: str, label: str) -> GameObservation:
        game.doing = f"{self._views.kind.__name__}.observe({agent!r})"
        return self._views.of(game).observe(agent)

    def observe_final(self, game: PettingZooGame, agent: str, terminated: bool) -> AgentObservation | None:
        """Return the last observation of an agent.

        Terminated agents have none, because the game's state no longer contains them, nor has a team of its
        own, which observes the whole state.
        """
        return None if terminated or self._team else self.observe(game, agent, False)

    def batch(self, observations: Sequence[AgentObservation | None]) -> EntityBatch:
        space = self.observation_space
        for observation in observations:
            if observation is not None:
                check_names(observation.value, space, observation.label)
        entities = {name: _rows(name, features, observations) for name, features in space.entities.items()}
        actors = np.array([self._actor(observation) for observation in observations], np.int64)
        globals_ = _globals(len(space.global_features), observations)
        return EntityBatch(entities, globals_, self._masks(observations, actors))

    def observe_games(
        self, games: Sequence[PettingZooGame], agents: Sequence[str], guard: Guard
    ) -> tuple[EntityBatch, list[str | None]] | None:
        if not all(game.is_simultaneous for game in games):
            return None
        parts, acting, actors = [], [], []
        for game in games:
            in_play = self._agents_in_play(game, agents)
            game.doing = f"{self._views.kind.__name__}.observe_all"
            with guard(game):
                seen = self._views.of(game).observe_all(in_play.present)
            if seen is None:
                return None
            _check_all(seen, self.observation_space, game, in_play.present)
            parts.append(seen if len(in_play.present) == len(agents) else _spread(seen, in_play.is_present))
            own = parts[-1].own
            if not in_play.all_own or own.min() < 0:
                missing = np.flatnonzero(in_play.has_own & (own < 0))
                if missing.size:
                    raise ObservationError(
                        f"{game.agent_label(agents[missing[0]])}: {self._views.kind.__name__}: expected an"
                        " entity of the agent, got none"
                    )
                own = np.where(in_play.has_own, own, -1)
            actors.append(own)
            acting += in_play.acting
        masks, labels = None, []
        if any(game.has_masks for game in games):
            masks = [mask for game in games for mask in game.masks(agents)]
            labels = [game.agent_label(agent) for game in games for agent in agents]
        whole, own = parts[0], actors[0]
        if len(games) > 1:
            whole, own = _joined(parts), np.concatenate(actors)
        batch = EntityBatch(whole.entities, whole.globals, self.actions.masks(acting, masks, labels, own))
        return batch, acting

    def use_array_step(self, game: PettingZooGame) -> bool:
        if not isinstance(game, ParallelGame) or game.observes_masks:
            return False
        is_discrete = all(isinstance(space, Discrete) for space in game.action_spaces.values())
        game.array_step = self._views.of(game).array_step(game.env) if is_discrete else None
        return game.array_step is not None

    def _agents_in_play(self, game: PettingZooGame, agents: Sequence[str]) -> AgentsInPlay:
        """Return which of `agents` play in `game`; it rarely changes between steps."""
        in_play = self._in_play.get(game.index)
        if in_play is None or in_play.playing != game.agents:
            playing = set(game.agents)
            acting = [agent if agent in playing else None for agent in agents]
            has_own = np.array([agent in self._own_entity for agent in acting], bool)
            in_play = self._in_play[game.index] = AgentsInPlay(
                list(game.agents),
                [agent for agent in agents if agent in playing],
                acting,
                np.array([agent is not None for agent in acting], bool),
                has_own,
                bool(has_own.all()),
            )
        return in_play

    def _actor(self, observation: AgentObservation | None) -> int:
        """Return the index of the agent's own entity; -1 for global actions."""
        if observation is None or not observation.acts or observation.agent not in self._own_entity:
            return -1
        start = 0
        for name in self.observation_space.entities:
            ids = observation.value.ids.get(name, ())
            if observation.agent in ids:
                return start + list(ids).index(observation.agent)
            start += len(observation.value.entities.get(name, ()))
        raise ObservationError(
            f"{observation.label}: {self._views.kind.__name__}: expected an entity of the agent, got none"
        )

    def team_observation(
        self, game: PettingZooGame, team: Sequence[str], cut_off: Mapping[str, AgentObservation]
    ) -> Observation:
        """Return the observation of a team, without its actions; see `SpaceObserver.team_observation`."""
        game.doing = f"{self._views.kind.__name__}.observe_team({tuple(team)})"
        seen = self._views.of(game).observe_team(tuple(team))
        check_names(seen, self.observation_space, game.label)
        return Observation(seen.entities, seen.globals, ids=seen.ids)


def _has_own(seen: GameObservation, agent: str) -> bool:
    return any(agent in ids for ids in seen.ids.values())


def check_names(seen: GameObservation, space: EntitySpace, where: str) -> None:
    """Check that entity types are known and that each entity has an id if its type has ids.

    Raises:
        ObservationError: names `where` and the type.
    """
    for name in (*seen.entities, *seen.ids):
        if name not in space.entities:
            raise ObservationError(
                f"{where}: expected entity types of {list(space.entities)}, got entity type {name!r}"
            )
    for name, ids in seen.ids.items():
        count = len(seen.entities.get(name, ()))
        if len(ids) != count:
            raise ObservationError(
                f"{where}: entity type {name!r}: expected {count} ids (one per entity), got {len(ids)} ids"
            )


def _rows(name: str, features: Sequence[str], observations: Sequence[AgentObservation | None]) -> RaggedArray:
    """Return the entities of one type in all lanes."""
    nothing = np.zeros((0, len(features)), np.float32)
    parts = [
        nothing if observation is None else observation.value.entities.get(name, nothing)
        for observation in observations
    ]
    for observation, part in zip(observations, parts, strict=True):
        if observation is not None and part.shape[1:] != (len(features),):
            raise ObservationError(
                f"{observation.label}: entity type {name!r}: expected shape (n, {len(features)}),"
                f" got {part.shape}"
            )
    values = np.concatenate(parts).astype(np.float32, copy=False)
    rows = RaggedArray.from_lengths(values, np.array([len(part) for part in parts], np.int64))
    _check_finite(name, features, rows, lambda lane: getattr(observations[lane], "label", ""))
    return rows


def _check_finite(name: str, features: Sequence[str], rows: RaggedArray, label: Callable[[int], str]) -> None:
    """Check the features of an entity type; `label` names who observes a sequence."""
    if not all_finite(rows.values):
        row, column = np.argwhere(~np.isfinite(rows.values))[0]
        raise ObservationError(
            f"{label(rows.sequence_indices()[row])}: feature {features[column]!r} of entity type {name!r}:"
            f" expected a finite number, got {rows.values[row, column]}"
        )


def _check_all(
    seen: GameObservations, space: EntitySpace, game: PettingZooGame, agents: Sequence[str]
) -> None:
    """Check types, shapes and numbers of what a view observed for all `agents` of a game.

    Raises:
        ObservationError: names the game (and the agent), the type and the feature.
    """
    if list(seen.entities) != list(space.entities):
        raise ObservationError(
            f"{game.label}: expected the entity types {list(space.entities)}, got {list(seen.entities)}"
        )
    arrays = {name: (rows, space.entities[name]) for name, rows in seen.entities.items()}
    for name, (rows, features) in arrays.items():
        if len(rows) != len(agents) or rows.inner_shape != (len(features),):
            raise ObservationError(
                f"{game.label}: entity type {name!r}: expected {len(agents)} sequences of shape"
                f" (n, {len(features)}), got {len(rows)} with rows of shape {rows.inner_shape}"
            )
        _check_finite(name, features, rows, lambda lane: game.agent_label(agents[lane]))
    if seen.globals.shape != (len(agents), len(space.global_features)) or not all_finite(seen.globals):
        raise ObservationError(
            f"{game.label}: globals: expected {len(space.global_features)} finite numbers for each of"
            f" {len(agents)} agents, got {seen.globals}"
        )


def _spread(seen: GameObservations, there: NDArray[np.bool_]) -> GameObservations:
    """Return observations of all lanes from those of the lanes that are `there` (B,)."""

    def lanes(array: NDArray[Any], missing: int) -> NDArray[Any]:
        spread = np.full((len(there), *array.shape[1:]), missing, array.dtype)
        spread[there] = array
        return spread

    entities = {
        name: RaggedArray.from_lengths(rows.values, lanes(rows.lengths, 0))
        for name, rows in seen.entities.items()
    }
    return GameObservations(entities, lanes(seen.own, -1), lanes(seen.globals, 0))


def _joined(games: Sequence[GameObservations]) -> GameObservations:
    """Return the lanes of several games, one after the other."""
    return GameObservations(
        {name: concatenate([game.entities[name] for game in games]) for name in games[0].entities},
        np.concatenate([game.own for game in games]),
        np.concatenate([game.globals for game in games]),
    )


def _globals(count: int, observations: Sequence[AgentObservation | None]) -> NDArray[np.float32]:
    """Return the global features of all lanes (B, G); zeros for lanes without an observation."""
    values = np.zeros((len(observations), count), np.float32)
    if not count:
        return values
    for row, observation in zip(values, observations, strict=True):
        if observation is None:
            continue
        given = np.asarray(observation.value.globals)
        if given.shape != (count,) or not np.isfinite(given).all():
            raise ObservationError(
                f"{observation.label}: globals: expected {count} finite numbers, got {given}"
            )
        row[:] = given
    return values
