"""Errors that name the culprit: env, entity type, feature or action."""

from __future__ import annotations

from collections.abc import Sequence


class ObservationError(ValueError):
    """An environment returned an observation that its space does not allow."""


class ActionError(ValueError):
    """An action that the observation does not allow: unknown name, wrong length, illegal choice.

    No environment has moved when it is raised.
    """


class WorkerError(RuntimeError):
    """An environment of a vector environment raised, or its worker process died; all have been closed.

    `env_indices` says which lanes it was.
    """

    def __init__(self, message: str, env_indices: Sequence[int] = ()) -> None:
        super().__init__(message, tuple(env_indices))
        self.env_indices = tuple(env_indices)

    def __str__(self) -> str:
        return str(self.args[0])


class ConformanceError(AssertionError):
    """`check_entity_env` found an environment that breaks the rules of entity environments."""
