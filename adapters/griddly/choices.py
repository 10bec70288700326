"""The actions of a game as one choice of each actor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...envs import Categorical, EntityActionSpace

ACTION = "action"


class GriddlyChoices:
    """The choices of an actor: nothing, or one of the game's actions with one of its inputs.

    Attributes:
        labels: names of the choices: "nop", and an action's name with the description of the input
            ("move: Left").
        commands: for each choice the number of the action and that of the input, as the engine takes them.
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
        self._column = {
            (names[number], key): choice for choice, (number, key) in enumerate(self.commands) if key
        }
        self.action_space = EntityActionSpace({ACTION: Categorical(self.labels)}, optional=True)
        self.rows = np.array(self.commands, np.int32)  # (C, 2)

    def __len__(self) -> int:
        return len(self.commands)

    def columns(self, allowed: Mapping[str, Sequence[int]]) -> list[int]:
        """Return the choices that the engine allows, by action and inputs; without "nop"."""
        return [self._column[name, key] for name, keys in allowed.items() for key in keys]
