"""Bots of the user, functions that play, which commands name "module:function"."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np

from ..adapters.module_names import find_attribute
from ..envs import ActionError, EntityBatch, EntityVectorEnv
from ..policies import ActResult
from ..trainers.evaluation.episodes import acting_policy
from .error_place import where_raised
from .errors import UserError
from .network_options import is_own


def is_bot(path: Path) -> bool:
    """Return True if what a command was given names a function, "module:function", and no file."""
    return is_own(str(path)) and not path.exists()


class OwnBot:
    """A function `f(batch, rng)` of the user, or an object with a method `act`, as a policy.

    Args:
        name: "module:function"; the module may lie in the current folder.
        venv: the environments that it plays in.

    Raises:
        UserError: here, if there is no such function, or its module raised; in `act`, if the function raised,
            or chose what is not allowed. The message has the place.
    """

    def __init__(self, name: str, venv: EntityVectorEnv) -> None:
        self._name = name
        module, _, attribute = name.partition(":")
        try:
            found = find_attribute(module, attribute)
        except gymnasium.error.NameNotFound as error:
            raise UserError(f"{name}: {error}") from error
        except Exception as error:
            raise self._error(error) from error
        try:
            self._player = acting_policy(name, found, venv)
        except TypeError as error:
            raise UserError(str(error)) from error

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        """Return the function's actions."""
        try:
            return self._player.act(batch, rng, deterministic)
        except ActionError as error:
            text = str(error)
            raise UserError(text if text.startswith(self._name) else f"{self._name}: {text}") from error
        except Exception as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> UserError:
        text = f"{self._name}: {type(error).__name__}: {error}"
        return UserError("\n".join(filter(None, [text, where_raised(error)])))
