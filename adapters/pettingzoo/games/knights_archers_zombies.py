"""Knights, archers, zombies (butterfly, v11): fighters, zombies and weapons in flight."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np

from ..game_view import GameObservation
from .known_game_view import KnownGameView, as_rows

#: Pixels of the screen (upstream's src/constants.py).
WIDTH, HEIGHT = 1280, 720

_PLACE = ("x", "y")
_HEADING = ("heading_x", "heading_y")


class KnightsArchersZombiesView(KnownGameView):
    """All fighters, zombies and weapons on the screen; nothing is hidden, as in the game's vectors.

    x and y are in screens (1280 × 720 pixels; x to the right, y down), relative to the observing agent, or
    absolute for a team; they are those of the sprite's upper left corner, as in the game's own observation.
    The heading is a unit vector.

    - `Archer`, `Knight` (x, y, heading_x, heading_y, own, wait): own is 1 for the observing agent
      (or its team); wait, 0 for others, is the remaining share of the time that the last attack costs: until
      it is 0, a knight can do nothing and an archer can't shoot; an archer's time passes only in steps in
      which it tries to. Ids are the agents' names.
    - `Sword`, `Arrow` (x, y, heading_x, heading_y). A knight has a sword while it attacks.
    - `Zombie` (x, y); all head down.
    - Globals own_x, own_y: the observing agent's position on the screen, from 0 to 1; 0 for a team.

    A dead agent is no entity, and observes the others from its last position.
    """

    modules = ("pettingzoo.butterfly.knights_archers_zombies.knights_archers_zombies",)
    entities = {  # noqa: RUF012 - never changed
        "Archer": (*_PLACE, *_HEADING, "own", "wait"),
        "Knight": (*_PLACE, *_HEADING, "own", "wait"),
        "Sword": (*_PLACE, *_HEADING),
        "Arrow": (*_PLACE, *_HEADING),
        "Zombie": _PLACE,
    }
    global_features = ("own_x", "own_y")

    def observe(self, agent: str) -> GameObservation:
        self.number(agent)
        rect = self.game.agent_map[agent].rect
        return self._observation({agent}, (rect.x, rect.y))

    def observe_team(self, agents: tuple[str, ...]) -> GameObservation:
        for agent in agents:
            self.number(agent)
        return self._observation(set(agents), (0, 0))

    def _observation(self, own: Set[str], origin: tuple[int, int]) -> GameObservation:
        game = self.game
        rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in self.entities}
        ids: dict[str, list[Any]] = {"Archer": [], "Knight": []}
        dead = set(game.dead_agents)
        for name, player in game.agent_map.items():
            kind, weapon = ("Archer", "Arrow") if name.startswith("archer") else ("Knight", "Sword")
            if name not in dead:
                is_own = name in own
                wait = _wait(player.timeout) if is_own else 0.0
                rows[kind].append((*_place(player, origin), *player.direction, float(is_own), wait))
                ids[kind].append(name)
            rows[weapon] += [(*_place(one, origin), *one.direction) for one in player.weapons]
        rows["Zombie"] = [_place(zombie, origin) for zombie in game.zombie_list]
        entities = {name: as_rows(values, self.entities[name]) for name, values in rows.items()}
        own_place = np.array([origin[0] / WIDTH, origin[1] / HEIGHT], np.float32)
        return GameObservation(entities, ids, own_place)

    def choices(self, agent: str) -> tuple[str, ...]:
        return ("forward", "backward", "turn left", "turn right", "attack", "nothing")


def _place(sprite: Any, origin: tuple[int, int]) -> tuple[float, float]:
    rect = sprite.rect
    return (rect.x - origin[0]) / WIDTH, (rect.y - origin[1]) / HEIGHT


def _wait(timeout: Any) -> float:
    """Return the remaining share of a player's timeout, an interval that counts its steps; 0 without one."""
    if timeout is None:
        return 0.0
    return float(1 - timeout._current_step / timeout.step_interval)
