"""Pursuit (SISL): pursuers, evaders and obstacles on a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....ragged import RaggedArray
from ..game_view import GameObservation, GameObservations
from .known_game_view import KnownGameView


class PursuitView(KnownGameView):
    """The square of `obs_range` cells around a pursuer.

    - `Pursuer` (x, y, own): own is 1 for the observer (or its team); ids are the agents' names.
    - `Evader` (x, y).
    - `Obstacle` (x, y): a cell of the building, or beyond the border of the map.

    For a pursuer, x and y are relative to it, in units of its view's radius: 1 is the edge of the square. A
    team observes the whole map, from 0 to 1.
    """

    modules = ("pettingzoo.sisl.pursuit.pursuit",)
    entities = {  # noqa: RUF012 - never changed
        "Pursuer": ("x", "y", "own"),
        "Evader": ("x", "y"),
        "Obstacle": ("x", "y"),
    }

    def __init__(self, game: Any) -> None:
        super().__init__(game)
        radius = game.env.obs_offset
        self._around = np.indices((2 * radius + 1, 2 * radius + 1)).reshape(2, -1).T - radius

    def observe(self, agent: str) -> GameObservation:
        number = self.number(agent)
        pursuit = self.game.env
        pursuers = _positions(pursuit.pursuer_layer)
        centre, radius = pursuers[number], pursuit.obs_offset
        own = np.arange(len(pursuers)) == number
        near = np.abs(pursuers - centre).max(1) <= radius
        evaders = _positions(pursuit.evader_layer) - centre
        around = self._around + centre
        size = np.array([pursuit.x_size, pursuit.y_size])
        inside = ((around >= 0) & (around < size)).all(1)
        inner = np.where(inside[:, None], around, 0)
        blocked = ~inside | (pursuit.map_matrix[inner[:, 0], inner[:, 1]] == -1)
        scale = 1 / max(radius, 1)
        return self._observation(
            np.column_stack([(pursuers - centre) * scale, own])[near],
            evaders[np.abs(evaders).max(1) <= radius] * scale,
            self._around[blocked] * scale,
            np.flatnonzero(near),
        )

    def observe_all(self, agents: Sequence[str]) -> GameObservations:
        pursuit, number = self.game.env, np.array([self.number(agent) for agent in agents], np.int64)
        pursuers, radius = _positions(pursuit.pursuer_layer), pursuit.obs_offset
        centre = pursuers[number][:, None]  # (A, 1, 2), as all that follow are (A, …)
        to_pursuers, to_evaders = pursuers - centre, _positions(pursuit.evader_layer) - centre
        around = self._around + centre
        inside = ((around >= 0) & (around < [pursuit.x_size, pursuit.y_size])).all(2)
        inner = np.where(inside[:, :, None], around, 0)
        scale = 1 / max(radius, 1)
        own = (np.arange(len(pursuers)) == number[:, None])[:, :, None]
        near = np.abs(to_pursuers).max(2) <= radius
        entities = {
            "Pursuer": _ragged(np.concatenate([to_pursuers * scale, own], 2), near),
            "Evader": _ragged(to_evaders * scale, np.abs(to_evaders).max(2) <= radius),
            "Obstacle": _ragged(
                np.broadcast_to(self._around * scale, around.shape),
                ~inside | (pursuit.map_matrix[inner[:, :, 0], inner[:, :, 1]] == -1),
            ),
        }
        before = np.arange(len(pursuers)) < number[:, None]
        return GameObservations(entities, (near & before).sum(1), np.zeros((len(agents), 0), np.float32))

    def observe_team(self, agents: tuple[str, ...]) -> GameObservation:
        team = [self.number(agent) for agent in agents]
        pursuit = self.game.env
        pursuers = _positions(pursuit.pursuer_layer)
        own = np.isin(np.arange(len(pursuers)), team)
        scale = 1 / np.maximum([pursuit.x_size - 1, pursuit.y_size - 1], 1)
        return self._observation(
            np.column_stack([pursuers * scale, own]),
            _positions(pursuit.evader_layer) * scale,
            np.argwhere(pursuit.map_matrix == -1) * scale,
            np.arange(len(pursuers)),
        )

    def _observation(
        self,
        pursuers: NDArray[Any],
        evaders: NDArray[Any],
        obstacles: NDArray[Any],
        numbers: NDArray[np.int64],
    ) -> GameObservation:
        rows = {"Pursuer": pursuers, "Evader": evaders, "Obstacle": obstacles}
        names = [self.game.possible_agents[number] for number in numbers]
        return GameObservation(
            {name: values.astype(np.float32) for name, values in rows.items()}, {"Pursuer": names}
        )

    def choices(self, agent: str) -> tuple[str, ...]:
        """Upstream's names; "up" makes y larger."""
        return ("left", "right", "up", "down", "stay")


def _ragged(rows: NDArray[Any], seen: NDArray[np.bool_]) -> RaggedArray:
    """Return those of `rows` (A, n, F) that are `seen` (A, n), as A sequences."""
    return RaggedArray.from_lengths(rows[seen].astype(np.float32), seen.sum(1))


def _positions(layer: Any) -> NDArray[np.int64]:
    """Return x, y (n, 2) of a layer's members."""
    return np.array([one.current_position().tolist() for one in layer.allies], np.int64).reshape(-1, 2)
