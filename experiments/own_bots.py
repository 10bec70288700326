"""Bots of the user: functions that commands find by name, "module:function"."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..envs import ActionError, EntityBatch, EntityVectorEnv
from ..policies import ActingPolicy, ActResult
from ..trainers.evaluation.episodes import acting_policy
from .errors import UserError
from .network_options import is_own
from .user_code import find_named, user_code


def is_bot(path: Path) -> bool:
    """Return True if what a command was given names a function, "module:function", and no file."""
    return is_own(str(path)) and not path.exists()


def load_bot(name: str, venv: EntityVectorEnv) -> ActingPolicy:
    """Return a function `f(batch, rng)` of the user as a policy for `venv`; or an object that is a policy.

    Args:
        name: "module:function"; the module may lie in the current folder.

    Raises:
        UserError: there is no such function, or its module raised; the message has the place.
    """
    found = find_named(name, name)
    try:
        player = acting_policy(name, found, venv)
    except TypeError as error:
        raise UserError(str(error)) from error
    return player if player is found else _Bot(name, player)


class _Bot:
    """A function of the user as a policy, whose errors are `UserError`s with the place."""

    def __init__(self, name: str, player: ActingPolicy) -> None:
        self._name, self._player = name, player

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        """Return the function's actions."""
        with user_code(self._name):
            try:
                return self._player.act(batch, rng, deterministic)
            except ActionError as error:
                text = str(error)
                raise UserError(text if text.startswith(self._name) else f"{self._name}: {text}") from error
