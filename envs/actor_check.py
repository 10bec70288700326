"""A rule of the conformance suite: actions have actors at some step."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from .batch.entity_batch import EntityBatch
from .errors import ConformanceError


def acting(batches: Iterable[EntityBatch]) -> set[str]:
    """Return the names of the actions that have an actor in one of the batches."""
    return {name for batch in batches for name, part in batch.actions.items() if part.actors.num_items}


def check_actors(where: str, names: Iterable[str], found: set[str], num_steps: int) -> None:
    """Check that an environment does not leave its masks out, and warn of single actions without actors.

    Args:
        where: what messages call the environment.
        names: its actions.
        found: those that had an actor in `num_steps` steps.

    Raises:
        ConformanceError: none had one.
    """
    idle = [name for name in names if name not in found]
    if not idle:
        return
    if not found:
        raise ConformanceError(
            f"{where}: expected actors of an action at some step, got none of {', '.join(map(repr, idle))} in"
            f" {num_steps} steps. Does each observation give its masks (actions=…)? If actors are rare, play"
            " more steps: check_entity_env(…, num_steps), entitize check --steps"
        )
    for name in idle:
        warnings.warn(
            f"{where}: in {num_steps} steps action {name!r} never had an actor", UserWarning, stacklevel=3
        )
