"""Errors that name the culprit: env, entity type, feature or action."""

from __future__ import annotations


class ObservationError(ValueError):
    """An environment returned an observation that its space does not allow."""


class ActionError(ValueError):
    """An action that the observation does not allow: unknown name, wrong length, illegal choice."""


class WorkerError(RuntimeError):
    """An environment worker process died or raised; all workers have been closed."""
