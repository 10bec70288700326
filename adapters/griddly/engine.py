"""`Game`: one game of the engine, with all its players."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .library import reader
from .rules import CELLS, OBSERVER, Rules

#: The reward of the only player, or a list with that of each; whether the game is over; and where it is over
#: and has winners or losers, in "PlayerResults": "1" -> "Win" or "Lose".
GriddlyStep = tuple[Any, bool, Mapping[str, Any]]
#: An entity type -> what is reported of its objects, as lists.
Reading = Mapping[str, list[list[float]]]

#: The directions of objects as they are reported.
_DIRECTIONS = {"NONE": (0, 0), "UP": (0, -1), "RIGHT": (1, 0), "DOWN": (0, 1), "LEFT": (-1, 0)}
#: An observer that costs nothing.
_BLIND = "None"
_NOTHING = np.zeros((0, 4), np.int32)


def load(rules: Rules) -> Any:
    """Return the engine's own description of a game, of which games are made.

    Raises:
        ValueError: the engine refuses it.
    """
    try:
        return reader().load_string(rules.text)
    except Exception as error:  # of many classes, from a parser in C++
        raise ValueError(f"Griddly: {rules.path}: the engine refuses the game: {error}") from error


class Game:
    """A game of the engine.

    Args:
        rules: what is played.
        description: what `load` returned; many games share it.

    Attributes:
        process: the engine's own object, for tools that read its state.
        board: width and height of the level.
        is_plain: no object but the avatar has an owner or a direction.
    """

    def __init__(self, rules: Rules, description: Any) -> None:
        self._rules = rules
        self._level: int | str | None = None
        self.process = description.create_game(CELLS if rules.has_cells else _BLIND)
        names = [OBSERVER] + [_BLIND] * (rules.num_players - 1)
        self.players = [self.process.register_player(f"Player {i}", name) for i, name in enumerate(names, 1)]
        self._has_avatars, self._has_cells = rules.avatar is not None, rules.has_cells
        self._avatar, self._observes_avatar = rules.avatar, rules.observes_avatar
        self._pays_later = rules.avatar is None and rules.num_players > 1
        self._variables = list(rules.variables)
        self._is_started = False
        self._last_state: Mapping[str, Any] | None = (
            None  # of a game that is over, where the engine has started over
        )
        self.board = (0, 0)
        self.is_plain = False
        self._cells = np.zeros(0, np.uint8)

    def start(self, seed: int, level: int | str) -> None:
        """Start an episode; the same seed and level start the same one.

        Raises:
            ValueError: the engine refuses the level, or a player has no avatar in it.
        """
        where = f"Griddly: {self._rules.name}: level {level!r}"
        self._last_state = None
        try:
            is_new = self._load(level)
            self.process.seed(seed)
            self._restart()
        except Exception as error:  # of many classes, from a parser in C++
            self._level = None  # so that the next attempt loads a level again
            raise ValueError(f"{where}: the engine does not start it: {error}") from error
        if is_new:
            self._check_avatars(where)
            self.is_plain = self._rules.stays_plain and self._starts_plain()
        self.board = self.process.get_width(), self.process.get_height()

    def _restart(self) -> None:
        """Start the engine's game over; it moves its report of the cells then."""
        self.process.reset()
        if self._has_cells:
            self._cells = np.asarray(self.process.observe()).T.reshape(-1)

    def _starts_plain(self) -> bool:
        """Return true if no object of the level but the avatar starts with an owner or a direction."""
        names = self._rules.objects.keys() - {self._rules.avatar}  # without the engine's "_empty"
        others = [item for item in self.state()["Objects"] if item["Name"] in names]
        return all((item["PlayerId"], item["Orientation"]) == (0, "NONE") for item in others)

    def _load(self, level: int | str) -> bool:
        """Load a level; return false if it is that of the last episode."""
        if level == self._level:
            return False
        if isinstance(level, str):
            self.process.load_level_string(
                level.rstrip() + "\n"
            )  # a last line without an end loses an object
        else:
            self.process.load_level(level)
        self._level = level
        if not self._is_started:
            self.process.init(False)
            self._is_started = True
        return True

    def _check_avatars(self, where: str) -> None:
        """Refuse a level in which the engine would read commands wrongly, or command the wrong object."""
        if self._rules.avatar is None:
            return
        owner = self._rules.reported.index("player")
        owners = [int(avatar[owner]) for avatar in self.read().get(self._rules.avatar, [])]
        for player in range(1, len(self.players) + 1):
            if owners.count(player) != 1:
                self._level = None  # so that the next attempt fails as well
                raise ValueError(
                    f"{where}: expected one {self._rules.avatar!r}, the avatar, of player {player},"
                    f" got {owners.count(player)}"
                )

    def read(self) -> Reading:
        """Return what the engine reports of all objects."""
        rules = self._rules
        if not self._observes_avatar:
            return self._observed()
        found: dict[str, list[list[float]]] = {}
        for item in self.state()["Objects"]:
            if (name := item["Name"]) in rules.objects:  # and not the engine's "_empty"
                direction = _DIRECTIONS[item["Orientation"]] if rules.turns else ()
                variables = [item["Variables"][variable] for variable in rules.objects[name]]
                values = [*item["Location"], rules.heights[name], *direction, item["PlayerId"], *variables]
                found.setdefault(name, []).append(values)
        return found

    def _observed(self) -> Reading:
        """Return what the entity observer reports: of all objects, or of those in the avatar's cell."""
        entities: Reading = self.players[0].observe()["Entities"]
        return entities

    def read_avatar(self) -> list[float]:
        """Return what is reported of the avatar (`observes_avatar`); nothing, once it is gone."""
        found = self.players[0].observe()["Entities"].get(self._avatar)
        return found[0] if found else []

    def read_cells(self) -> NDArray[np.uint8]:
        """Return what the engine reports of the cells, row after row, of games that have that (`has_cells`).

        The engine overwrites it at the next call, and it is invalid once another episode starts.
        """
        self.process.observe()
        return self._cells

    def object_names(self) -> list[str]:
        """Return the object types in the order of the channels of cells."""
        names: list[str] = self.process.get_object_names()
        return names

    def state(self) -> Mapping[str, Any]:
        """Return the engine's own report of all there is, also of a game that is over."""
        if self._last_state is not None:
            return self._last_state
        state: Mapping[str, Any] = self.process.get_state()
        return state

    def variables(self) -> list[dict[int, int]]:
        """Return the values of the game's variables: by player, or by 0 alone."""
        found = self.process.get_global_variable(self._variables)
        return [found[name] for name in self._variables]

    def step(self, commands: Sequence[NDArray[np.int32]]) -> GriddlyStep:
        """Play a step.

        Args:
            commands: of each player, int32: with avatars (1, 2), action and input; else (n, 4), the cell of
                the object that acts, action and input.
        """
        if len(self.players) == 1:
            step: GriddlyStep = self.players[0].step_multi(commands[0], True)
        elif self._has_avatars:
            step = self.process.step_parallel(np.concatenate(commands))
        else:
            step = self._step_units(commands)
        return step

    def _step_units(self, commands: Sequence[NDArray[np.int32]]) -> GriddlyStep:
        """Let the players command their objects one after the other, as the engine's own environment does.

        The engine pays a player when it commands, so earlier players are paid for what came after them by
        another command, of nothing. It takes none once a game is over: see `settle`.
        """
        rewards = [0.0] * len(self.players)
        last = len(rewards) - 1
        for number, player in enumerate(self.players):
            rewards[number], is_over, info = player.step_multi(commands[number], number == last)
        if not is_over:
            for number, player in enumerate(self.players[:-1]):
                rewards[number] += player.step_multi(_NOTHING, False)[0]
        return rewards, is_over, info

    def stop(self) -> None:
        """Start the engine over after a game that no other follows; `state` still returns the last one."""
        if self._pays_later:
            self._last_state = self.process.get_state()
            self._restart()

    def settle(self) -> list[float]:
        """Return what the end of the last game is worth to each player beyond its step's rewards.

        The engine reports that once it has started over: see `start` and `stop`.
        """
        if not self._pays_later:
            return [0.0] * len(self.players)
        return [player.step_multi(_NOTHING, False)[0] for player in self.players]

    def close(self) -> None:
        """Release the game."""
        if self._is_started:
            self.process.release()
