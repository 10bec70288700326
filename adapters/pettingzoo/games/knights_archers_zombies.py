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
    """Everybody and every weapon on the screen; nothing is out of sight, as in the game's vectors.

    x and y are in screens (1280 × 720 pixels; x to the right, y down), relative to the one who looks, or
    absolute for a team; they are those of the sprite's upper left corner, as in the game's own observation.
    The heading is a unit vector.

    - `Archer`, `Knight` (x, y, heading_x, heading_y, own, wait): own is 1 for the one who looks (or its
      team); wait, known of own ones only, is the share left of the time that the last attack costs: a knight
      can do nothing at all until it is 0, an archer not shoot, and an archer's time passes only when it
      tries to. Ids are the agents' names.
    - `Sword`, `Arrow` (x, y, heading_x, heading_y). A knight has a sword while it attacks.
    - `Zombie` (x, y); all head down.
    - Globals own_x, own_y: where the one who looks is on the screen, from 0 to 1; 0 for a team.

    Who died is no entity any more, and sees the others from where it fell.
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
        self._number[agent]
        rect = self.game.agent_map[agent].rect
        return self._seen({agent}, (rect.x, rect.y), (rect.x / WIDTH, rect.y / HEIGHT))

    def observe_team(self, agents: tuple[str, ...]) -> GameObservation:
        for agent in agents:
            self._number[agent]
        return self._seen(set(agents), (0, 0), (0.0, 0.0))

    def _seen(self, own: Set[str], origin: tuple[int, int], place: tuple[float, float]) -> GameObservation:
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
        return GameObservation(entities, ids, np.array(place, np.float32))

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
