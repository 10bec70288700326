"""MineSweeper: robots clear a minefield, with an orbital cannon to help.

The game and its three written-out states follow the MineSweeper of ENN's internals document, which the tests
reproduce array by array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..actions import (
    Action,
    Categorical,
    CategoricalAction,
    CategoricalMask,
    EntityActionSpace,
    SelectEntity,
    SelectEntityAction,
    SelectEntityMask,
)
from ..batch.resolve import Observation
from ..env import EntityEnv, Transition
from ..errors import check_render_mode, reset_option, whole_number
from ..spaces import EntitySpace

Cell = tuple[int, int]  # (x, y)

#: How each move changes (x, y). The document's masks forbid the first at the greatest x, and so on.
_MOVES: dict[str, Cell] = {"Up": (1, 0), "Down": (-1, 0), "Left": (0, 1), "Right": (0, -1)}
_DEFUSE = len(_MOVES)

_CELL = 16  # pixels
_GROUND, _GRID, _MINE = (222, 216, 200), (190, 184, 168), (40, 40, 40)
_ROBOT, _READY, _COOLING = (40, 90, 200), (40, 160, 70), (200, 60, 40)


class MineSweeper(EntityEnv):
    """Robots clear a minefield together.

    This is the readable version, and the one behind `gymnasium.make`; `ez.make_vec` makes the native one.

    Entities: Mine (x, y), Robot (x, y), Orbital Cannon (cooldown), where the game has a cannon. x counts
    upwards from 0 to width - 1 and y to the left from 0 to height - 1. Ids are (type, position in its list).

    Actions: each robot takes one `Move`, a step or "Defuse Mines", which removes the mines in the four cells
    next to it. A robot that ends up on a mine is lost, and the mine with it. At cooldown 0 the cannon may
    `Fire Orbital Cannon` at a mine or a robot, which is removed; that comes before the moves and sets the
    cooldown back to its period.

    The episode ends when no mine is left, which pays 1, or else when no robot is left; all other rewards are
    0. After `max_steps` steps it is truncated. The optimum is 1: a robot that defuses before it walks on
    gets everywhere unharmed.

    Args:
        width, height: size of the map in cells.
        nmines, nrobots: how many of each there are at the start, on cells of their own.
        orbital_cannon: whether there is a cannon.
        cooldown_period: steps from one shot to the next, and to the first.
        max_steps: steps until truncation.
        state: a written-out state to start from instead of a random one, a dict with "mines" and "robots"
            (lists of (x, y)) and, if need be, "orbital_cannon" and "orbital_cannon_cooldown".
            `reset(options={"state": …})` does the same for one episode.
        render_mode: "rgb_array" for pictures.

    Raises:
        TypeError: a number that is no whole number.
        ValueError: a size that makes no game, or a state that is not one of this map.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 - Gymnasium declares no ClassVar

    def __init__(
        self,
        width: int = 6,
        height: int = 6,
        nmines: int = 5,
        nrobots: int = 2,
        orbital_cannon: bool = True,
        cooldown_period: int = 5,
        max_steps: int = 100,
        state: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        counts = {"width": width, "height": height, "nmines": nmines, "nrobots": nrobots}
        for name, count in {**counts, "max_steps": max_steps}.items():
            whole_number(f"MineSweeper: {name}", count)
        whole_number("MineSweeper: cooldown_period", cooldown_period, 0)
        if nmines + nrobots > width * height:
            raise ValueError(
                f"MineSweeper: {nmines} mines and {nrobots} robots do not fit: expected at most"
                f" {width * height} on {width} x {height} cells, got {nmines + nrobots}"
            )
        check_render_mode("MineSweeper", render_mode, self.metadata["render_modes"])
        self.width, self.height = width, height
        self.nmines, self.nrobots = nmines, nrobots
        self.orbital_cannon = orbital_cannon
        self.cooldown_period = cooldown_period
        self.max_steps = max_steps
        self.state = None if state is None else self.checked_state(state)
        self.render_mode = render_mode
        self.action_space = EntityActionSpace(
            {"Move": Categorical([*_MOVES, "Defuse Mines"]), "Fire Orbital Cannon": SelectEntity()}
        )
        self.observation_space = EntitySpace(
            {"Mine": ["x", "y"], "Robot": ["x", "y"], "Orbital Cannon": ["cooldown"]}, self.action_space
        )

    def _reset(self, options: dict[str, Any]) -> Observation:
        given = reset_option(type(self).__name__, options, "state")
        state = self.state if given is None else self.checked_state(given)
        if state is None:
            count = self.nmines + self.nrobots
            drawn = self.np_random.permutation(self.width * self.height)[:count].tolist()
            cells = [(cell % self.width, cell // self.width) for cell in drawn]
            state = {"mines": cells[: self.nmines], "robots": cells[self.nmines :]}
        self._mines: list[Cell] = list(state["mines"])
        self._robots: list[Cell] = list(state["robots"])
        self._has_cannon = bool(state.get("orbital_cannon", self.orbital_cannon))
        self._cooldown = int(state.get("orbital_cannon_cooldown", self.cooldown_period))
        self._steps = 0
        return self._look()

    def checked_state(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """A written-out state with its cells as tuples of int; a ValueError if there can be no such state."""
        known = {"mines", "robots", "orbital_cannon", "orbital_cannon_cooldown"}
        if not {"mines", "robots"} <= state.keys() <= known:
            raise ValueError(
                f"state: expected mines and robots, optionally {sorted(known - {'mines', 'robots'})},"
                f" got {sorted(state)}"
            )
        cells = {side: [(int(x), int(y)) for x, y in state[side]] for side in ("mines", "robots")}
        for side, places in cells.items():
            if not places:
                raise ValueError(f"state: expected one of the {side} or more, got none")
            outside = [c for c in places if not (0 <= c[0] < self.width and 0 <= c[1] < self.height)]
            if outside:
                raise ValueError(
                    f"state: expected {side} on the {self.width} x {self.height} map, got {side} at {outside}"
                )
        if set(cells["mines"]) & set(cells["robots"]) or len(set(cells["mines"])) < len(cells["mines"]):
            raise ValueError(
                f"two mines, or a mine and a robot, share a cell: expected distinct cells, got {cells}"
            )
        if state.get("orbital_cannon_cooldown", 0) < 0:
            raise ValueError(
                f"state: orbital_cannon_cooldown: expected a number that is not negative,"
                f" got {state['orbital_cannon_cooldown']}"
            )
        return {**state, **cells}

    def _step(self, actions: dict[str, Action]) -> Transition:
        fire, move = actions["Fire Orbital Cannon"], actions["Move"]
        assert isinstance(fire, SelectEntityAction)
        assert isinstance(move, CategoricalAction)
        hit = set(fire.actees)
        robots: list[Cell] = []
        mines = {mine for i, mine in enumerate(self._mines) if ("Mine", i) not in hit}
        choices = dict(zip(move.actors, move.choices.tolist(), strict=True))
        for i, robot in enumerate(self._robots):
            if ("Robot", i) not in hit:
                robots.append(self._moved(robot, choices.get(("Robot", i)), mines))
        lost = mines.intersection(robots)
        self._mines = [mine for mine in self._mines if mine in mines and mine not in lost]
        self._robots = [robot for robot in robots if robot not in lost]
        self._cooldown = self.cooldown_period if hit else max(0, self._cooldown - 1)
        self._steps += 1
        cleared = not self._mines
        over = cleared or not self._robots
        return self._look(), float(cleared), over, self._steps >= self.max_steps and not over, {}

    def _moved(self, robot: Cell, choice: int | None, mines: set[Cell]) -> Cell:
        """Return the new cell of `robot`; a defusing one stays and takes the mines beside it from `mines`."""
        if choice is None:
            return robot
        neighbours = [(robot[0] + dx, robot[1] + dy) for dx, dy in _MOVES.values()]
        if choice == _DEFUSE:
            mines.difference_update(neighbours)
            return robot
        return neighbours[choice]

    def _look(self) -> Observation:
        entities = {"Mine": self._mines, "Robot": self._robots}
        if self._has_cannon:
            entities["Orbital Cannon"] = [(self._cooldown,)]  # type: ignore[list-item]
        ready = self._has_cannon and self._cooldown == 0 and (self._mines or self._robots)
        last_x, last_y = self.width - 1, self.height - 1
        return Observation(
            entities=entities,
            ids={name: [(name, i) for i in range(len(rows))] for name, rows in entities.items()},
            actions={
                "Move": CategoricalMask(
                    actor_types=["Robot"],
                    mask=[(x < last_x, x > 0, y < last_y, y > 0, True) for x, y in self._robots],
                ),
                "Fire Orbital Cannon": SelectEntityMask(
                    actor_types=["Orbital Cannon"] if ready else [], actee_types=["Mine", "Robot"]
                ),
            },
        )

    def render(self) -> NDArray[np.uint8] | None:
        """The map (width * 16, height * 16 + 16, 3): x upwards, y to the left, the cannon's lamp beside."""
        if self.render_mode is None:
            return None
        cooldown = self._cooldown if self._has_cannon else None
        return self.draw(self._mines, self._robots, cooldown)

    def draw(self, mines: Sequence[Cell], robots: Sequence[Cell], cooldown: int | None) -> NDArray[np.uint8]:
        """A picture of any state of a game of this size; `cooldown` is None where there is no cannon."""
        picture = np.full((self.width * _CELL, (self.height + 1) * _CELL, 3), _GROUND, np.uint8)
        picture[::_CELL, : self.height * _CELL] = _GRID
        picture[:, : self.height * _CELL : _CELL] = _GRID
        for cells, margin, colour in ((mines, 4, _MINE), (robots, 2, _ROBOT)):
            for x, y in cells:
                top, left = (self.width - 1 - x) * _CELL, (self.height - 1 - y) * _CELL
                picture[
                    top + margin : top + _CELL - margin + 1, left + margin : left + _CELL - margin + 1
                ] = colour
        if cooldown is not None:
            filled = 1.0 - cooldown / max(self.cooldown_period, cooldown, 1)
            lamp = picture[:, self.height * _CELL + 4 : -4]
            lamp[round((1.0 - filled) * len(lamp)) :] = _COOLING
            if cooldown == 0:
                lamp[:] = _READY
        return picture
