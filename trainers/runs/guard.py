"""Stop a run at the first number that is not finite, before it spoils kept weights or a checkpoint.

Loads without torch: actors that only play check their numbers too.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...envs import EntityBatch, EntitySpace
from ...envs.waiting import NoGameInterrupt
from ...policies import Policy, checkpoint_paths

if TYPE_CHECKING:
    import torch

    from .run_folder import RunFolder


class NonFiniteError(ArithmeticError):
    """A NaN or an infinity came up in training; the message names update, step and statistics.

    The policy and its optimizer are as they were before the update; `train` has written a checkpoint of them
    into the run folder, if there is one.
    """


@contextmanager
def naming_update(update: int, step: int, run: RunFolder | None) -> Iterator[None]:
    """Add update, step and last checkpoint to the message of a `NonFiniteError`."""
    try:
        yield
    except NonFiniteError as error:
        saved = "no checkpoint was written yet"
        if run is not None and (paths := checkpoint_paths(run.checkpoints)):
            saved = f"the last good checkpoint is {paths[-1]}"
        raise NonFiniteError(f"update {update} (step {step}): {error}; {saved}") from error


@contextmanager
def saving_on_error(save: Callable[[], object]) -> Iterator[None]:
    """Call `save` where an error ends the block: the policy is that of the last update.

    So do SystemExit, which rich raises where the reader of the output, such as `tee`, has ended, and
    `NoGameInterrupt`. The error is raised again, even if saving fails.
    """
    try:
        yield
    except (Exception, SystemExit, NoGameInterrupt):
        with suppress(Exception):
            save()
        raise


class Snapshot:
    """Copies of a policy's weights and statistics and of its optimizer's moments."""

    def __init__(self, policy: Policy, optimizer: torch.optim.Optimizer) -> None:
        import torch  # here, as Ray actors read this module without torch

        self._weights = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
        state = optimizer.state_dict()
        moments = {
            index: {
                name: value.clone() if isinstance(value, torch.Tensor) else copy.deepcopy(value)
                for name, value in entry.items()
            }
            for index, entry in state["state"].items()
        }
        self._optimizer = {**state, "state": moments}

    def put_back(self, policy: Policy, optimizer: torch.optim.Optimizer) -> None:
        """Restore the policy and the optimizer. Call it once: the optimizer then owns the copies."""
        policy.load_state_dict(self._weights)
        optimizer.load_state_dict(self._optimizer)


def check_losses(losses: Mapping[str, float], policy: Policy, grad_norm: float) -> None:
    """Raise NonFiniteError if a loss or the norm of all gradients is not finite."""
    if math.isfinite(grad_norm) and all(map(math.isfinite, losses.values())):
        return
    culprits = [f"{name} is {value}" for name, value in losses.items() if not math.isfinite(value)]
    culprits += [
        f"the gradient of {name} is not finite"
        for name, parameter in policy.named_parameters()
        if parameter.grad is not None and not bool(parameter.grad.isfinite().all())
    ]
    raise NonFiniteError(_listed(culprits or [f"grad_norm is {grad_norm}"]))


def check_finite(policy: Policy) -> None:
    """Raise NonFiniteError if a parameter or a buffer (normalization statistics) is not finite."""
    import torch  # here, as Ray actors read this module without torch

    numbers = {name: t for name, t in policy.state_dict().items() if t.is_floating_point()}
    flags = [tensor.isfinite().all() for tensor in numbers.values()]
    found = torch.stack([flag.to(flags[0].device) for flag in flags]).tolist() if flags else []  # waits once
    culprits = [f"{name} is not finite" for name, fine in zip(numbers, found, strict=True) if not fine]
    if culprits:
        raise NonFiniteError(_listed(culprits))


def check_batch(
    batch: EntityBatch, space: EntitySpace, num_envs: int | None, lanes: NDArray[np.int64] | None = None
) -> None:
    """Raise NonFiniteError if a feature is not finite, naming environment, entity and feature.

    Row b of `batch` is of environment `lanes[b]`, or where no lanes are given of b modulo `num_envs`. Where
    that is None the error names the row. `space` has the names of the features.
    """

    def place_of(row: int) -> str:
        if num_envs is None:
            return f"step {row} of the batch"
        return f"lane {row % num_envs if lanes is None else lanes[row]}"

    for name, rows in batch.entities.items():
        for item, column in _not_finite(rows.values):
            step, value = rows.sequence_of(item), rows.values[item, column]
            entity, feature = item - rows.offsets[step], space.entities[name][column]
            raise NonFiniteError(
                f"{place_of(step)}: entity type {name!r}: row {entity}: feature {feature!r} is {value}"
            )
    for row, column in _not_finite(batch.globals):
        feature, value = space.global_features[column], batch.globals[row, column]
        raise NonFiniteError(f"{place_of(row)}: global feature {feature!r} is {value}")


def _not_finite(values: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return the indices (n, 2) of the numbers in `values` (N, F) that are NaN or infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        if math.isfinite(float(values.sum())):  # several times faster than looking at each of them
            return np.zeros((0, 2), np.int64)
    return np.argwhere(~np.isfinite(values))


def check_lanes(what: str, numbers: NDArray[np.floating], active: NDArray[np.bool_] | None = None) -> None:
    """Raise NonFiniteError if one of the environments' `numbers` is not finite.

    `numbers` are of all environments (E,), or only of those that are `active` (E,).
    """
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        lane = bad[0] if active is None else np.flatnonzero(active)[bad[0]]
        raise NonFiniteError(f"lane {lane}: the {what} is {numbers[bad[0]]}")


def check_values(
    check_weights: Callable[[], None],
    batch: EntityBatch,
    space: EntitySpace,
    values: NDArray[np.float32],
    num_envs: int,
    active: NDArray[np.bool_] | None = None,
) -> None:
    """Report whether a value estimate that is not finite comes from the observation or from the policy.

    Args:
        check_weights: raises NonFiniteError if a number of the policy is not finite.

    Raises:
        NonFiniteError: one of `values` is NaN or infinite.
    """
    if not np.isfinite(values).all():
        check_batch(batch, space, num_envs)
        check_weights()
        check_lanes("value estimate", values, active)


def _listed(culprits: list[str]) -> str:
    shown = "; ".join(culprits[:5])
    return shown if len(culprits) <= 5 else f"{shown}; and {len(culprits) - 5} more"
