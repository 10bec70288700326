"""Continuous actions and the raw numbers that a network samples for them.

Shape alphabet: A actors of one action at all steps, K numbers per actor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...envs import Continuous
from ...ragged import RaggedArray
from .actors import place_of

#: Bounds from here on count as infinite: some spaces write float32's largest number for infinity.
_BOUNDLESS = 1e30
#: The largest float32 below 1: an action at its bound would come from an infinite number.
_BELOW_1 = float(np.nextafter(np.float32(1), np.float32(0)))
#: Points and weights of Gauss-Hermite quadrature, for the mean of a function of a standard normal number.
POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def units(action: Continuous) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the origin and the scale (K,) of the numbers, in the units of the action.

    Between two bounds 0 is the middle and 1 the distance to either bound, so that a fresh network, whose mean
    is about 0 and whose standard deviation is 1, explores the whole range, whatever its units. Without two
    bounds the numbers are those of the action, and the origin is 0 or the bound nearest to it.
    """
    low, high = action.low.astype(np.float64), action.high.astype(np.float64)
    between = bounded(action)
    low_or_0, high_or_0 = np.where(between, low, 0.0), np.where(between, high, 0.0)
    origin = np.where(between, (low_or_0 + high_or_0) / 2, np.clip(0.0, low, high))
    return origin, np.where(between, (high_or_0 - low_or_0) / 2, 1.0)


def bounded(action: Continuous) -> NDArray[np.bool_]:
    """Return whether each of the numbers (K,) has two bounds."""
    return (action.low > -_BOUNDLESS) & (action.high < _BOUNDLESS)


class Numbers:
    """The numbers of one continuous action: their units and checks.

    Raises:
        ValueError: `squash` is set and a number lacks a finite bound.
    """

    def __init__(self, name: str, action: Continuous, squash: bool) -> None:
        self.name = name
        self.action = action
        self.squash = squash
        if squash and not bounded(action).all():
            number = int(np.argmin(bounded(action)))
            raise ValueError(
                f"action {name!r}: squash=True: expected finite bounds, got {action.low[number]} and"
                f" {action.high[number]} for number {number}"
            )
        self.origin, self.scale = units(action)
        #: Log densities in units of the bounds minus those in units of the action.
        self.log_volume = float(np.log(self.scale).sum())

    def actions(self, raw: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the legal actions (A, K) of raw actions."""
        u = raw.astype(np.float64)
        actions = self.origin + self.scale * (np.tanh(u) if self.squash else u)
        return actions.clip(self.action.low, self.action.high).astype(np.float32)

    def raw(self, actions: RaggedArray) -> RaggedArray:
        """Return the raw numbers (A, K) of `actions`; large finite ones for bounds of squashed actions.

        Raises:
            ValueError: another shape or dtype, or numbers that are not finite.
        """
        self.check(actions)
        u = (actions.values - self.origin) / self.scale
        if self.squash:
            u = np.arctanh(np.clip(u, -_BELOW_1, _BELOW_1))
        return actions.with_values(u.astype(np.float32))

    def check(self, numbers: RaggedArray) -> None:
        """Check raw numbers.

        Raises:
            ValueError: another shape or dtype, or numbers that are not finite.
        """
        wanted = f"action {self.name!r}: expected items of {self.action.size} real numbers"
        if numbers.inner_shape != self.action.item_shape or numbers.dtype.kind != "f":
            raise ValueError(f"{wanted}, got {numbers.dtype} of shape {numbers.inner_shape}")
        if not np.isfinite(numbers.values).all():
            item, number = np.argwhere(~np.isfinite(numbers.values))[0]
            raise ValueError(
                f"{place_of(self.name, numbers, int(item))}: number {number}: expected a finite number, got"
                f" {numbers.values[item, number]}"
            )
