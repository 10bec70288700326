"""Actors' rows, the result of a head, and errors about actions; for torch modules and fused heads.

Shape alphabet: A actors of one action at all steps, C choices, M components, K numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...envs import ActionMask, MultiCategorical
from ...ragged import RaggedArray
from .rows import RowLayout

#: The logit of a masked choice: its probability is exactly 0 and everything stays finite.
FORBIDDEN = -1e9


class Drawn(NamedTuple):
    """Sampled actions, by actor."""

    actions: NDArray[Any]  # (A,) int64, composite (A, M) int64, or continuous (A, K) float32
    log_probs: NDArray[np.float32]  # (A,)
    #: Raw actions, if log-probabilities are of these instead of the actions; `evaluate` takes them.
    raw: NDArray[Any] | None = None


def actor_rows(
    name: str, of_step: bool, rows: RowLayout, mask: ActionMask, columns: int
) -> NDArray[np.int64]:
    """Return the row of each actor of an action (A,): its own, or for a global action its step's last."""
    if of_step:
        index = np.repeat(rows.offsets[1:] - 1, mask.actors.lengths)
    else:
        index = rows.of_entities(mask.actors, f"actors of {name!r}")
    if mask.mask.values.shape != (len(index), columns):
        raise ValueError(
            f"action {name!r}: mask: expected shape ({len(index)}, {columns}), got {mask.mask.values.shape}"
        )
    return index


def selection_rows(
    name: str, rows: RowLayout, mask: ActionMask
) -> tuple[NDArray[np.int64], NDArray[np.int64], RaggedArray]:
    """Return the rows of the actors (A,) and of the actees (E,) of a select-entity action, and the actees.

    Raises:
        ValueError: there are no actees, the mask is of another size, or an entity has no row.
    """
    if mask.actees is None:
        raise ValueError(f"action {name!r}: the batch has no actees")
    expected = int((mask.actors.lengths * mask.actees.lengths).sum())
    if mask.mask.num_items != expected:
        raise ValueError(f"action {name!r}: mask: expected {expected} items, got {mask.mask.num_items}")
    actors = rows.of_entities(mask.actors, f"actors of {name!r}")
    return actors, rows.of_entities(mask.actees, f"actees of {name!r}"), mask.actees


# -- what is wrong with choices ------------------------------------------------------------------------------


def items_of(name: str, actions: Mapping[str, RaggedArray], actors: RaggedArray) -> RaggedArray:
    """Return the items of action `name`, one for each of `actors`.

    Raises:
        TypeError: the actions are no dict of ragged arrays.
        ValueError: the action is missing, or it has another number of items.
    """
    if not isinstance(actions, Mapping):
        kind = type(actions).__name__
        raise TypeError(f"actions: expected a dict like ActResult.raw, with a RaggedArray each, got {kind}")
    if name not in actions:
        raise ValueError(f"action {name!r} is missing: got {', '.join(actions) or 'no actions'}")
    items = actions[name]
    if not isinstance(items, RaggedArray):
        raise TypeError(
            f"action {name!r}: expected a RaggedArray with one item per actor, got {type(items).__name__}."
            " `batch.actions[name].actors.with_values(array)` makes one of an array"
        )
    if len(items) != len(actors):
        raise ValueError(f"action {name!r}: expected {len(actors)} steps, got {len(items)}")
    if not np.array_equal(items.offsets, actors.offsets):
        step = int((items.lengths != actors.lengths).argmax())
        raise ValueError(
            f"action {name!r}: step {step}: expected {actors.lengths[step]} items (one per actor),"
            f" got {items.lengths[step]}"
        )
    return items


def place_of(name: str, sequences: RaggedArray, actor: int) -> str:
    """Return "action 'move': step 3: actors[2]" for the third of several actors of step 3.

    Args:
        sequences: has one item for each actor, such as its choice.
        actor: its place among the actors of all steps.
    """
    step = sequences.sequence_of(actor)
    first, end = sequences.offsets[step : step + 2].tolist()
    return f"action {name!r}: step {step}{f': actors[{actor - first}]' if end - first > 1 else ''}"


def nothing_allowed(name: str, what: str, actors: RaggedArray, actor: int) -> ValueError:
    """Return the error that the mask allows `actor` no choice or no entity, as `what` says."""
    advice = "Leave actors without a choice out of the observation's actors"
    return ValueError(f"{place_of(name, actors, actor)}: the mask allows an actor no {what}. {advice}")


def not_selectable(name: str, choices: RaggedArray, actor: int) -> ValueError:
    """Return the error that an actor selected a masked entity."""
    return ValueError(f"{place_of(name, choices, actor)}: entity {choices.values[actor]} may not be selected")


def no_component(name: str, action: MultiCategorical, mask: RaggedArray, actor: int) -> ValueError:
    """Return the error that `mask` (A, C) allows `actor` no choice of a component that it needs."""
    problem = action.actor_without_choice(
        action.one_step(np.zeros(1, np.int64), mask.values[actor : actor + 1])
    )
    assert problem is not None
    return ValueError(f"{place_of(name, mask, actor)}: the mask of an actor: {problem[1]}")


def check_choices(name: str, choices: RaggedArray, allowed: NDArray[np.bool_]) -> None:
    """Check discrete actions.

    Raises:
        ValueError: one of `choices` (A,) is masked in `allowed` (A, C).
    """
    chosen = choices.values
    ok = (chosen >= 0) & (chosen < allowed.shape[1])
    ok &= allowed[np.arange(len(chosen)), np.where(ok, chosen, 0)]
    if not ok.all():
        actor = int(np.argmin(ok))
        raise ValueError(f"{place_of(name, choices, actor)}: choice {chosen[actor]} is not allowed")


def check_components(
    name: str, action: MultiCategorical, counts_all: bool, actions: RaggedArray, allowed: NDArray[np.bool_]
) -> None:
    """Check multi-discrete actions.

    Raises:
        ValueError: one of `actions` (A, M) is masked in `allowed` (A, C), out of range or of another dtype.
    """
    check_component_items(name, action, actions)
    legal = action.legal(actions.values, allowed)
    if not legal.all():
        actor = int(legal.all(1).argmin())
        problem = action.illegal_in_words(actions.values[actor], allowed[actor])
        raise ValueError(f"{place_of(name, actions, actor)}: {problem}")
    if counts_all:
        flags = np.take_along_axis(allowed, actions.values + action.offsets[:-1], 1)
        barred = np.argwhere(~flags & action.allows_something(allowed))
        if len(barred):
            actor, m = (int(place) for place in barred[0])
            raise ValueError(
                f"{place_of(name, actions, actor)}: component {action.names[m]!r}:"
                f" {actions.values[actor, m]} is not allowed (with composite='all' every component counts"
                " for every kind)"
            )


def check_component_items(name: str, action: MultiCategorical, actions: RaggedArray) -> None:
    """Check dtype and shape of multi-discrete actions.

    Raises:
        ValueError: `actions` are not integers, or have another shape.
    """
    if actions.inner_shape != action.item_shape or actions.dtype.kind != "i":
        raise ValueError(
            f"action {name!r}: expected items of {len(action.sizes)} integers"
            f" ({', '.join(action.names)}), got {actions.dtype} of shape {actions.inner_shape}"
        )
