"""The head of continuous actions: normal distributions, clipped to the bounds or squashed between them.

Shape alphabet: A actors of one action at all steps, D width, K numbers per actor, Q points of a quadrature.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ...envs import ActionMask, Continuous
from ...ragged import RaggedArray
from .config import RogueNetConfig
from .heads import Drawn, actor_rows, step_of
from .rows import Rows, as_tensor

#: Bounds from here on are none: spaces write float32's largest number where they mean infinity.
_BOUNDLESS = 1e30
#: Half of log 2π.
_HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)
#: Points and weights of Gauss-Hermite quadrature, for the mean of a function of a standard normal number.
_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
#: The largest float32 below 1: an action at its bound would come from an infinite number.
_BELOW_1 = float(np.nextafter(np.float32(1), np.float32(0)))


def units(action: Continuous) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What 0 and 1 are in the units of the action: origin and scale, each (K,).

    Between two bounds 0 is the middle and 1 the distance to either bound, so that a fresh network, whose mean
    is about 0 and whose standard deviation is 1, tries all of the range, whatever its units. Without two
    bounds the numbers are those of the action, and the origin is 0 or the bound nearest to it.
    """
    low, high = action.low.astype(np.float64), action.high.astype(np.float64)
    between = bounded(action)
    low_or_0, high_or_0 = np.where(between, low, 0.0), np.where(between, high, 0.0)
    origin = np.where(between, (low_or_0 + high_or_0) / 2, np.clip(0.0, low, high))
    return origin, np.where(between, (high_or_0 - low_or_0) / 2, 1.0)


def bounded(action: Continuous) -> NDArray[np.bool_]:
    """Which of the numbers (K,) have two bounds."""
    return (action.low > -_BOUNDLESS) & (action.high < _BOUNDLESS)


class GaussianHead(nn.Module):
    """K independent normal numbers for each actor, in units of the bounds (see `units`).

    Their mean is a linear map of the actor's row (of the step's, for a global action); their standard
    deviation is learned and the same in every state, as in CleanRL and Stable-Baselines3. From number u an
    action is made by

        a = clip(origin + scale · u, low, high)      or, with `squash`,
        a = origin + scale · tanh(u).

    `drawn` holds u. Log-probabilities are densities in the units of the action, before clipping:

        log π = Σ log N(u; mean, std) − log scale      or
        log π = Σ log N(u; mean, std) − log scale − log tanh′(u),
        log tanh′(u) = log(1 − tanh²u) = 2 (log 2 − u − softplus(−2u)),

    the last form being the one that neither cancels nor overflows (Haarnoja et al. 2018, arXiv:1801.01290,
    appendix C; the form is TensorFlow Probability's). The entropy of the first is exact. That of the second
    has no closed form: it is that of the normal numbers plus the mean of log tanh′, by Gauss-Hermite
    quadrature over each number's distribution. The negated log-probability of the action that was taken would
    be an estimate of it as well, but one whose gradient has mean 0, which makes it useless as a bonus.

    Raises:
        ValueError: `squash` and a number without two finite bounds.
    """

    def __init__(self, name: str, action: Continuous, settings: RogueNetConfig) -> None:
        super().__init__()
        self.name = name
        self.action = action
        self.squash = settings.squash
        if self.squash and not bounded(action).all():
            number = int(np.argmin(bounded(action)))
            raise ValueError(
                f"action {name!r}: squash=True needs finite bounds, number {number} has"
                f" {action.low[number]} and {action.high[number]}"
            )
        self.proj = nn.Linear(settings.d_model, action.size)
        nn.init.orthogonal_(self.proj.weight, 0.01)
        nn.init.zeros_(self.proj.bias)
        self.log_std = nn.Parameter(torch.full((action.size,), float(settings.log_std_init)))
        self._origin, self._scale = units(action)
        self._log_volume = float(np.log(self._scale).sum())

    def draw(self, x: Tensor, rows: Rows, mask: ActionMask, rng: np.random.Generator | None) -> Drawn:
        """Numbers for each actor, from `rng` or (None) the means."""
        mean = self._mean(x, rows, mask)
        u = mean
        if rng is not None:
            noise = as_tensor(rng.standard_normal(mean.shape), x, x.dtype)
            u = mean + self.log_std.exp() * noise
        u = u.float()
        drawn = u.cpu().numpy()
        if not np.isfinite(drawn).all():
            raise ValueError(
                f"action {self.name!r}: {self._first_not_finite(mask.actors.with_values(drawn))}"
            )
        log_probs = self._log_probs(u.to(x.dtype), mean)
        return Drawn(self._actions(drawn), log_probs.float().cpu().numpy(), drawn)

    def evaluate(self, x: Tensor, rows: Rows, mask: ActionMask, drawn: RaggedArray) -> tuple[Tensor, Tensor]:
        """Log-probability of each actor's numbers and entropy of its distribution, each (A,)."""
        self._check(drawn)
        mean = self._mean(x, rows, mask)
        return self._log_probs(as_tensor(drawn.values, x, x.dtype), mean), self._entropies(mean)

    def as_drawn(self, actions: RaggedArray) -> RaggedArray:
        """The numbers (A, K) that `actions` are made of; large finite ones for bounds of squashed ones."""
        self._check(actions)
        u = (actions.values - self._origin) / self._scale
        if self.squash:
            u = np.arctanh(np.clip(u, -_BELOW_1, _BELOW_1))
        return actions.with_values(u.astype(np.float32))

    def _mean(self, x: Tensor, rows: Rows, mask: ActionMask) -> Tensor:
        index = actor_rows(self.name, self.action.is_global, rows, mask, 0)
        return self.proj(x.index_select(0, as_tensor(index, x)))

    def _actions(self, drawn: NDArray[np.float32]) -> NDArray[np.float32]:
        """Legal actions (A, K) of the numbers drawn."""
        u = drawn.astype(np.float64)
        actions = self._origin + self._scale * (np.tanh(u) if self.squash else u)
        return actions.clip(self.action.low, self.action.high).astype(np.float32)

    def _log_probs(self, u: Tensor, mean: Tensor) -> Tensor:
        """(A, K), (A, K) to (A,)."""
        log_density = -0.5 * ((u - mean) * (-self.log_std).exp()) ** 2 - self.log_std - _HALF_LOG_2_PI
        if self.squash:
            log_density = log_density - _log_slope(u)
        return log_density.sum(1) - self._log_volume

    def _entropies(self, mean: Tensor) -> Tensor:
        """(A, K) to (A,)."""
        exact = (self.log_std + 0.5 + _HALF_LOG_2_PI).sum() + self._log_volume
        if not self.squash:
            return exact.expand(len(mean))
        points, weights = (as_tensor(array, mean, mean.dtype) for array in (_POINTS, _WEIGHTS))
        u = mean[:, :, None] + self.log_std.exp()[:, None] * points  # (A, K, Q)
        return exact + (_log_slope(u) @ weights).sum(1)

    def _check(self, numbers: RaggedArray) -> None:
        wanted = f"action {self.name!r}: items must be {self.action.size} real numbers"
        if numbers.inner_shape != self.action.item_shape or numbers.dtype.kind != "f":
            raise ValueError(f"{wanted}, got {numbers.dtype} of shape {numbers.inner_shape}")
        if not np.isfinite(numbers.values).all():
            raise ValueError(f"action {self.name!r}: {self._first_not_finite(numbers)}")

    def _first_not_finite(self, numbers: RaggedArray) -> str:
        item, number = np.argwhere(~np.isfinite(numbers.values))[0]
        step = step_of(numbers.offsets, item)
        return f"step {step}: number {number} of an actor is {numbers.values[item, number]}"


def _log_slope(u: Tensor) -> Tensor:
    """log tanh′(u), of any shape."""
    return 2 * (math.log(2) - u - functional.softplus(-2 * u))
