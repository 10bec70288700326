"""Rules of the conformance suite: some actors exist, and actors and actees are visible to the policy."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np

from ..ragged import RaggedArray
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


def check_visible(where: str, batches: Iterable[EntityBatch]) -> None:
    """Check that no actor or actee is hidden from the policy, which could not compute its choices.

    Raises:
        ConformanceError: one is hidden.
    """
    for batch in batches:
        if batch.visible:
            for name, part in batch.actions.items():
                _check_visible(f"{where}: action {name!r}: actor", batch, part.actors)
                if part.actees is not None:
                    _check_visible(f"{where}: action {name!r}: actee", batch, part.actees)


def _check_visible(where: str, batch: EntityBatch, indices: RaggedArray) -> None:
    flags = [batch.visibility(name) for name in batch.entities]
    for step, chosen in enumerate(indices):
        shown = np.concatenate([of_type[step] for of_type in flags])
        of_entities = chosen[chosen >= 0]  # a global action has the actor -1
        hidden = of_entities[~shown[of_entities]]
        if len(hidden):
            raise ConformanceError(
                f"{where}: expected entities that are visible to the policy, got entity {hidden[0]}, which is"
                " hidden. Hide only entities that neither act nor are selected"
            )
