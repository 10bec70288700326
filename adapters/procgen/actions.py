"""From an agent's actions to the engine's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...envs import ActionError
from ...envs.vector import Actions
from .options import ACTIONS

_NOOP = ACTIONS.index("noop")


def choices_of(num_envs: int, actions: Actions) -> NDArray[np.int32]:
    """One engine action per lane (num_envs,); a lane whose sequence is empty or left out does nothing.

    Raises:
        ActionError: another action than `act`, or `act` is of the wrong length, or a choice does not exist.
    """
    unknown = set(actions) - {"act"}
    if unknown:
        raise ActionError(f"Procgen has the one action 'act', not {sorted(unknown)}")
    choices = np.full(num_envs, _NOOP, np.int32)
    if "act" not in actions:
        return choices
    act = actions["act"]
    if len(act) != num_envs:
        raise ActionError(f"action 'act' has {len(act)} steps, expected {num_envs}")
    lengths = act.lengths
    if lengths.max(initial=0) > 1:
        lane = int(lengths.argmax())
        raise ActionError(f"env {lane}: action 'act' has {lengths[lane]} choices for one player")
    wrong = (act.values < 0) | (act.values >= len(ACTIONS))
    if wrong.any():
        lane = int(np.flatnonzero(lengths)[wrong.argmax()])
        raise ActionError(f"env {lane}: action 'act': there is no choice {act.values[wrong][0]}")
    choices[lengths > 0] = act.values
    return choices
