"""Checking the actions of native games: `validate_actions` in a fraction of its time where all is well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ..batch.entity_batch import ActionMask, EntityBatch
from ..spaces.entity_space import ActionSpace, Categorical, EntitySpace, MultiCategorical
from .batch_actions import validate_actions


def checked_actions(
    space: EntitySpace,
    batch: EntityBatch,
    actions: Mapping[str, RaggedArray],
    names: Sequence[str] | None = None,
) -> dict[str, RaggedArray]:
    """The result, and the errors, of `validate_actions` with the same arguments.

    Complete and legal choices in int64, the usual case, are seen as such by one compiled pass; all else goes
    to `validate_actions`.
    """
    if type(actions) is dict and actions.keys() == space.actions.spaces.keys():
        for name, action in space.actions.items():
            if not _is_plainly_legal(action, batch.actions[name], actions[name]):
                break
        else:
            return {name: actions[name] for name in space.actions.spaces}
    return validate_actions(space, batch, actions, names)


def _is_plainly_legal(action: ActionSpace, part: ActionMask, order: Any) -> bool:
    """Whether every actor makes a choice of int64, which its mask allows."""
    if type(order) is not RaggedArray or order.values.dtype != np.int64:
        return False
    if isinstance(action, MultiCategorical):
        return order.inner_shape == action.item_shape and bool(
            _orders_are_legal(
                order.values,
                order.offsets,
                part.actors.offsets,
                part.mask.values,
                action.offsets,
                action.used,
            )
        )
    if order.values.ndim != 1:
        return False
    if isinstance(action, Categorical):
        return bool(_choices_are_legal(order.values, order.offsets, part.actors.offsets, part.mask.values))
    if part.actees is None:
        return False
    return bool(
        _selections_are_legal(
            order.values,
            order.offsets,
            part.actors.offsets,
            part.actees.values,
            part.actees.offsets,
            part.mask.values,
            part.mask.offsets,
        )
    )


@compiled
def _are_equal(offsets: NDArray[np.int64], others: NDArray[np.int64]) -> bool:
    """Whether there is one order for each actor: `offsets` (B + 1,) are those of the actors."""
    if len(offsets) != len(others):
        return False
    for step in range(len(offsets)):  # noqa: SIM110 - Numba compiles no generator
        if offsets[step] != others[step]:
            return False
    return True


@compiled
def _choices_are_legal(
    choices: NDArray[np.int64],
    offsets: NDArray[np.int64],
    actor_offsets: NDArray[np.int64],
    mask: NDArray[np.bool_],
) -> bool:
    """For `choices` (A,) of a categorical action with `mask` (A, C)."""
    if not _are_equal(offsets, actor_offsets):
        return False
    for actor in range(len(choices)):
        choice = choices[actor]
        if choice < 0 or choice >= mask.shape[1] or not mask[actor, choice]:
            return False
    return True


@compiled
def _orders_are_legal(
    orders: NDArray[np.int64],
    offsets: NDArray[np.int64],
    actor_offsets: NDArray[np.int64],
    mask: NDArray[np.bool_],
    components: NDArray[np.int64],
    used: NDArray[np.bool_],
) -> bool:
    """For composite `orders` (A, M) with `mask` (A, C): `components` (M + 1,) are the offsets of an action's
    components, `used` (K, M) says which of them each kind uses."""
    if not _are_equal(offsets, actor_offsets):
        return False
    for actor in range(len(orders)):
        for m in range(orders.shape[1]):
            choice, column = orders[actor, m], components[m] + orders[actor, m]
            if choice < 0 or column >= components[m + 1]:
                return False
            if used[orders[actor, 0], m] and not mask[actor, column]:
                return False
    return True


@compiled
def _selections_are_legal(
    selected: NDArray[np.int64],
    offsets: NDArray[np.int64],
    actor_offsets: NDArray[np.int64],
    actees: NDArray[np.int64],
    actee_offsets: NDArray[np.int64],
    mask: NDArray[np.bool_],
    mask_offsets: NDArray[np.int64],
) -> bool:
    """For entity indices `selected` (A,) among `actees`, with a flat `mask`, row-major actor by actee."""
    if not _are_equal(offsets, actor_offsets):
        return False
    for step in range(len(offsets) - 1):
        place = mask_offsets[step]
        for actor in range(offsets[step], offsets[step + 1]):
            found = False
            for actee in range(actee_offsets[step], actee_offsets[step + 1]):
                found |= actees[actee] == selected[actor] and mask[place]
                place += 1
            if not found:
                return False
    return True
