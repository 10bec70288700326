"""The actions of a game as one choice of each actor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...envs import Categorical, EntityActionSpace

ACTION = "action"
_NO_INPUT = {"VectorToDest": (0, 0)}


class GriddlyChoices:
    """The choices of an actor: nothing, or one of the game's actions with one of its inputs.

    Attributes:
        labels: names of the choices: "nop", and an action's name with the description of the input
            ("move: Left").
        commands: for each choice the number of the action and that of the input, as the engine takes them.
        names: of the actions, by their numbers.
        rows: int32 (C, 2), `commands`.
        vectors: int64 (C, 2), from an actor's cell to the one that it acts upon.
        is_relative: bool (C,), that vector is for an actor that faces upwards, and turns with it.
        action_space: the choice of each actor.
    """

    def __init__(self, names: Sequence[str], mappings: Mapping[str, Any]) -> None:
        self.commands = [(0, 0)]
        labels = ["nop"]
        for number, name in enumerate(names):
            inputs = mappings[name]["InputMappings"]
            for key in sorted(inputs, key=int):
                self.commands.append((number, int(key)))
                labels.append(f"{name}: {inputs[key]['Description'] or key}")
        self.labels = tuple(
            label if labels.count(label) == 1 else f"{label} ({self.commands[choice][1]})"
            for choice, label in enumerate(labels)
        )
        self.names = list(names)
        self._columns = {
            (names[number], key): choice for choice, (number, key) in enumerate(self.commands) if key
        }
        self.action_space = EntityActionSpace({ACTION: Categorical(self.labels)}, optional=True)
        self.rows = np.array(self.commands, np.int32)  # (C, 2)
        inputs = [mappings[names[number]]["InputMappings"].get(str(key)) for number, key in self.commands]
        self.vectors = np.array([(item or _NO_INPUT)["VectorToDest"] for item in inputs], np.int64)
        self.is_relative = np.array([mappings[names[number]]["Relative"] for number, _ in self.commands])

    def __len__(self) -> int:
        return len(self.commands)

    def columns(self, allowed: Mapping[str, Sequence[int]]) -> list[int]:
        """Return the choices that the engine allows, by action and inputs; without "nop"."""
        return [self._columns[name, key] for name, keys in allowed.items() for key in keys]
