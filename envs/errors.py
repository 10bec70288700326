"""Errors that name the culprit: env, entity type, feature or action."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium

__all__ = ["ActionError", "ConformanceError", "ObservationError", "WorkerError"]


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


def reset_needed(where: str, call: str) -> gymnasium.error.ResetNeeded:
    """The error to raise where `call` ("step()") came before the first reset or after an episode's end."""
    return gymnasium.error.ResetNeeded(f"{where}: call reset() before {call}")


def check_render_mode(where: str, render_mode: str | None, modes: Sequence[str]) -> None:
    """Refuse a render mode that is neither None nor one of `modes`.

    Raises:
        ValueError: it is something else.
    """
    if render_mode is not None and render_mode not in modes:
        known = ", ".join(map(repr, (None, *modes)))
        raise ValueError(f"{where}: render_mode must be one of {known}, got {render_mode!r}")


def no_render_mode(where: str) -> ValueError:
    """The error to raise where an environment without a render mode is to be rendered."""
    return ValueError(f"{where} was made without a render_mode")
