"""`ViewSight`: what agents see by reading the typed state of their games.

Shape alphabet: B lanes, N entities of one type, F features, G global features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import EntityBatch, EntitySpace, ObservationError
from ...ragged import RaggedArray
from ..gymnasium.views.scope import ViewError
from .game_view import GameView, Seen
from .match import Match
from .moves import Moves, Orders
from .sight import Look, Sight, masks_of, place


class GameViews:
    """A `GameView` for each of several matches, made when it is first needed.

    Args:
        kind: the class of the views.
        first: the match whose view says what there is to see in all of them; it is reset.

    Raises:
        ViewError: the game is not of the kind that the view reads.
    """

    def __init__(self, kind: type[GameView], first: Match) -> None:
        self.kind = kind
        if not first.living:
            first.reset(None, None)
        self.first = kind(first.env.unwrapped)
        self._views = {first.index: self.first}

    def of(self, match: Match) -> GameView:
        """The view of `match`.

        Raises:
            ViewError: it sees other things than the first match's.
        """
        view = self._views.get(match.index)
        if view is None:
            view = self._views[match.index] = self.kind(match.env.unwrapped)
            mine, firsts = (
                ({n: tuple(f) for n, f in v.entities.items()}, tuple(v.global_features))
                for v in (view, self.first)
            )
            if mine != firsts:
                raise ViewError(f"{match.place}: {self.kind.__name__} sees {mine}, in game 0 {firsts}")
        return view

    def space(self, moves: Moves) -> EntitySpace:
        """What can be seen by those who have these moves."""
        return EntitySpace(dict(self.first.entities), moves.action_space, self.first.global_features)


class ViewSight(Sight):
    """Agents that see entities in the states of their games.

    An agent that has an entity of its own acts through it; other agents' actions are performed by no entity
    in particular. Which it is shows at the beginning of a game, and stays so.

    Raises:
        ViewError: the view does not read such games.
    """

    def __init__(self, match: Match, agents: Sequence[str], views: GameViews) -> None:
        self._views = views
        choices = {agent: views.first.choices(agent) for agent in agents}
        living = [agent for agent in agents if agent in match.living]
        acting = [agent for agent in living if _has_own(views.first.observe(agent), agent)]
        # Who comes later acts as those who are there.
        self._own = set(acting if len(acting) < len(living) else agents)
        self._moves = Moves(match, agents, choices, self._own)
        self.observation_space = views.space(self._moves)

    def look(self, match: Match, agent: str, moves: bool) -> Look:
        match.doing = f"{self._views.kind.__name__}.observe({agent!r})"
        seen = self._views.of(match).observe(agent)
        return Look(agent, place(match, agent), seen, match.mask(agent) if moves else None, moves)

    def last_look(self, match: Match, agent: str, terminated: bool) -> Look | None:
        """A game's state holds nothing of agents that have terminated."""
        return None if terminated else self.look(match, agent, False)

    def batch(self, looks: Sequence[Look | None]) -> EntityBatch:
        space = self.observation_space
        for look in looks:
            if look is not None:
                check_names(look.seen, space, look.place)
        entities = {name: _rows(name, features, looks) for name, features in space.entities.items()}
        masks = masks_of(self._moves, looks, np.array([self._actor(look) for look in looks], np.int64))
        return EntityBatch(entities, _globals(len(space.global_features), looks), masks)

    def _actor(self, look: Look | None) -> int:
        """The index of the agent's own entity; -1 where its actions are not an entity's."""
        if look is None or not look.moves or look.agent not in self._own:
            return -1
        start = 0
        for name in self.observation_space.entities:
            ids = look.seen.ids.get(name, ())
            if look.agent in ids:
                return start + list(ids).index(look.agent)
            start += len(look.seen.entities.get(name, ()))
        raise ObservationError(f"{look.place}: {self._views.kind.__name__} shows no entity of its own")

    def raw(self, orders: Orders, batch: EntityBatch, movers: Sequence[str | None]) -> list[Any]:
        return self._moves.raw(orders, batch.actions, movers)


def _has_own(seen: Seen, agent: str) -> bool:
    return any(agent in ids for ids in seen.ids.values())


def check_names(seen: Seen, space: EntitySpace, where: str) -> None:
    """Whether what was seen has types that there are, and an id for each entity where it has ids.

    Raises:
        ObservationError: naming `where` and the type.
    """
    for name in (*seen.entities, *seen.ids):
        if name not in space.entities:
            raise ObservationError(
                f"{where}: unknown entity type {name!r}; known: {', '.join(map(repr, space.entities))}"
            )
    for name, ids in seen.ids.items():
        count = len(seen.entities.get(name, ()))
        if len(ids) != count:
            raise ObservationError(f"{where}: entity type {name!r} has {len(ids)} ids for {count} entities")


def _rows(name: str, features: Sequence[str], looks: Sequence[Look | None]) -> RaggedArray:
    """The entities of one type in all lanes."""
    nothing = np.zeros((0, len(features)), np.float32)
    parts = [nothing if look is None else look.seen.entities.get(name, nothing) for look in looks]
    for look, part in zip(looks, parts, strict=True):
        if look is not None and part.shape[1:] != (len(features),):
            raise ObservationError(
                f"{look.place}: entity type {name!r} has shape {part.shape}, expected (n, {len(features)})"
            )
    values = np.concatenate(parts).astype(np.float32, copy=False)
    rows = RaggedArray.from_lengths(values, np.array([len(part) for part in parts], np.int64))
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        look = looks[rows.sequence_indices()[row]]
        where = "" if look is None else look.place
        raise ObservationError(
            f"{where}: feature {features[column]!r} of entity type {name!r} is {values[row, column]}"
        )
    return rows


def _globals(count: int, looks: Sequence[Look | None]) -> NDArray[np.float32]:
    """The global features of all lanes (B, G); zeros where there is no look."""
    values = np.zeros((len(looks), count), np.float32)
    if not count:
        return values
    for row, look in zip(values, looks, strict=True):
        if look is None:
            continue
        given = np.asarray(look.seen.globals)
        if given.shape != (count,) or not np.isfinite(given).all():
            raise ObservationError(f"{look.place}: globals are {given}, expected {count} finite numbers")
        row[:] = given
    return values
