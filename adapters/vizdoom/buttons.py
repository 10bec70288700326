"""Buttons of the game as actions.

Most buttons exclude each other: turning left and right at once makes no sense. So by default a group of such
buttons is one choice ("none", "turn_left", "turn_right") and all groups are chosen together: a step can turn,
walk and shoot. All combinations of buttons as one choice, as ViZDoom's own environments offer them, would be
2^17 in `deathmatch`, and would not share what is learned about a button between them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...envs import Categorical, Continuous, EntityActionSpace, MultiCategorical
from ...envs.actions.action_space import ActionSpace
from ...ragged import RaggedArray
from .options import DoomOptions
from .scenarios import Scenario

BUTTONS, DELTAS = "buttons", "deltas"

#: Group -> its buttons, of which one at most is pressed.
_GROUPS: dict[str, tuple[str, ...]] = {
    "strafe": ("MOVE_LEFT", "MOVE_RIGHT"),
    "walk": ("MOVE_FORWARD", "MOVE_BACKWARD"),
    "turn": ("TURN_LEFT", "TURN_RIGHT"),
    "look": ("LOOK_UP", "LOOK_DOWN"),
    "fly": ("MOVE_UP", "MOVE_DOWN"),
    "weapon": (
        *(f"SELECT_WEAPON{number}" for number in range(10)),
        *("SELECT_NEXT_WEAPON", "SELECT_PREV_WEAPON"),
    ),
    "item": ("SELECT_NEXT_ITEM", "SELECT_PREV_ITEM"),
}
_GROUP_OF = {button: group for group, buttons in _GROUPS.items() for button in buttons}

#: Where the scenario sets no limit: degrees per tic for turning, and the speed of walking for moving.
_TURN_LIMIT, _MOVE_LIMIT = 10.0, 25.0


class Buttons:
    """Translates actions into what the engine takes: a number per available button.

    Attributes:
        available: the names of the buttons, in the order in which the engine is given their states.
        action_space: `buttons` (a `MultiCategorical` of groups, or a `Categorical`) and, where the scenario
            has delta buttons, `deltas` (`Continuous`).
        num_choices: columns of the mask of `buttons`; 0: there is no such action.
    """

    def __init__(self, scenario: Scenario, options: DoomOptions) -> None:
        binary = scenario.binary_buttons
        deltas = scenario.delta_buttons if options.deltas or not binary else ()
        self.available = (*binary, *deltas)
        spaces: dict[str, ActionSpace] = {}
        self._tables: list[NDArray[np.float32]] = []  # per component (choices, buttons)
        self._columns = slice(len(binary), len(self.available))
        components = _components(binary, options.actions)
        for choices in components.values():
            table = np.zeros((len(choices), len(self.available)), np.float32)
            for row, button in enumerate(choices.values()):
                if button is not None:
                    table[row, binary.index(button)] = 1
            self._tables.append(table)
        if len(components) == 1:
            spaces[BUTTONS] = Categorical(list(next(iter(components.values()))))
        elif components:
            spaces[BUTTONS] = MultiCategorical({name: list(c) for name, c in components.items()})
        if deltas:
            limits = [
                limit or (_MOVE_LIMIT if button.startswith("MOVE") else _TURN_LIMIT)
                for button, limit in zip(deltas, scenario.delta_limits, strict=True)
            ]
            spaces[DELTAS] = Continuous([-limit for limit in limits], limits)
        self.action_space = EntityActionSpace(spaces, optional=True)
        self.num_choices = sum(map(len, components.values()))

    def press(self, actions: Mapping[str, RaggedArray], num_envs: int) -> NDArray[np.float32]:
        """Return the state of each button (num_envs, buttons); an action that is left out presses none."""
        pressed = np.zeros((num_envs, len(self.available)), np.float32)
        if BUTTONS in actions:
            choices = actions[BUTTONS].one_each().reshape(num_envs, len(self._tables))
            for column, table in enumerate(self._tables):
                pressed += table[choices[:, column]]
        if DELTAS in actions:
            pressed[:, self._columns] = actions[DELTAS].one_each()
        return pressed


def _components(buttons: tuple[str, ...], actions: str) -> dict[str, dict[str, str | None]]:
    """Return the components of the action: for each the button, or None, of each of its choices."""
    if not buttons:
        return {}
    if actions == "single":
        return {"press": {"none": None, **{button.lower(): button for button in buttons}}}
    components: dict[str, dict[str, str | None]] = {}
    for button in buttons:
        group = _GROUP_OF.get(button, button.lower())
        components.setdefault(group, {"none": None})[button.lower()] = button
    return components
