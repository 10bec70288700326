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
from ..inputs.actors import Drawn, actor_rows
from ..inputs.number_units import POINTS, WEIGHTS, Numbers
from ..inputs.rows import RowLayout
from .config import RogueNetConfig
from .tensors import as_tensor

#: Half of log 2π.
_HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


class GaussianHead(nn.Module):
    """K independent normal numbers for each actor, in units of the bounds (see `units`).

    Their mean is a linear map of the actor's row (of the step's, for a global action); their standard
    deviation is learned and the same in every state, as in CleanRL and Stable-Baselines3. A raw number u
    gives the action

        a = clip(origin + scale · u, low, high)      or, with `squash`,
        a = origin + scale · tanh(u).

    `raw` holds u. Log-probabilities are densities in the units of the action, before clipping:

        log π = Σ log N(u; mean, std) − log scale      or
        log π = Σ log N(u; mean, std) − log scale − log tanh′(u),
        log tanh′(u) = log(1 − tanh²u) = 2 (log 2 − u − softplus(−2u)).

    The last form neither cancels nor overflows (Haarnoja et al. 2018, arXiv:1801.01290, appendix C; the form
    is TensorFlow Probability's). The entropy without `squash` is exact. With `squash` it has no closed form:
    it is the entropy of the normal numbers plus the mean of log tanh′, by Gauss-Hermite quadrature over each
    number's distribution. The negated log-probability of the sampled action would estimate it too, but its
    gradient has mean 0, so it is useless as a bonus.

    Raises:
        ValueError: `squash` is set and a number lacks a finite bound.
    """

    def __init__(self, name: str, action: Continuous, settings: RogueNetConfig) -> None:
        super().__init__()
        self.name = name
        self.action = action
        self.squash = settings.squash
        self.numbers = Numbers(name, action, self.squash)
        self.proj = nn.Linear(settings.d_model, action.size)
        nn.init.orthogonal_(self.proj.weight, 0.01)
        nn.init.zeros_(self.proj.bias)
        self.log_std = nn.Parameter(torch.full((action.size,), float(settings.log_std_init)))

    def draw(self, x: Tensor, rows: RowLayout, mask: ActionMask, rng: np.random.Generator | None) -> Drawn:
        """Sample raw numbers for each actor with `rng`; None: the means."""
        return self.choose(self._mean(x, rows, mask), self.log_std, mask, rng)

    def choose(
        self, mean: Tensor, log_std: Tensor, mask: ActionMask, rng: np.random.Generator | None
    ) -> Drawn:
        """Sample raw numbers around `mean` (A, K); `log_std` (K,) may be a copy of the parameter."""
        u = mean
        if rng is not None:
            noise = as_tensor(rng.standard_normal(mean.shape), mean, mean.dtype)
            u = mean + log_std.exp() * noise
        u = u.float()
        raw = u.cpu().numpy()
        self.numbers.check(mask.actors.with_values(raw))
        log_probs = self._log_probs(u.to(mean.dtype), mean, log_std)
        return Drawn(self.numbers.actions(raw), log_probs.float().cpu().numpy(), raw)

    def evaluate(
        self, x: Tensor, rows: RowLayout, mask: ActionMask, raw: RaggedArray
    ) -> tuple[Tensor, Tensor]:
        """Return the log-probability of each actor's numbers and the entropy of its distribution (A,)."""
        self.numbers.check(raw)
        mean = self._mean(x, rows, mask)
        return self.outcome(mean, as_tensor(raw.values, x, x.dtype))

    def outcome(self, mean: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probabilities (A,) of the raw numbers u (A, K) and entropies (A,), from means (A, K)."""
        return self._log_probs(u, mean), self._entropies(mean)

    def as_raw(self, actions: RaggedArray) -> RaggedArray:
        """Return the raw numbers of `actions`, which `evaluate` takes; see `Numbers.raw`."""
        return self.numbers.raw(actions)

    def explain(self, x: Tensor, rows: RowLayout, mask: ActionMask) -> Tensor:
        """Return the actions (A, 3, K) one standard deviation below the mean, at the mean, and one above."""
        mean, spread = self._mean(x, rows, mask), self.log_std.exp()
        raw = torch.stack([mean - spread, mean, mean + spread], 1)
        return torch.as_tensor(self.numbers.actions(raw.float().cpu().numpy()))

    def actor_rows(self, rows: RowLayout, mask: ActionMask) -> NDArray[np.int64]:
        """Return the row that each actor's means come from (A,)."""
        return actor_rows(self.name, self.action.is_global, rows, mask, 0)

    def _mean(self, x: Tensor, rows: RowLayout, mask: ActionMask) -> Tensor:
        return self.proj(x.index_select(0, as_tensor(self.actor_rows(rows, mask), x)))

    def _log_probs(self, u: Tensor, mean: Tensor, log_std: Tensor | None = None) -> Tensor:
        """(A, K), (A, K) to (A,)."""
        log_std = self.log_std if log_std is None else log_std
        log_density = -0.5 * ((u - mean) * (-log_std).exp()) ** 2 - log_std - _HALF_LOG_2_PI
        if self.squash:
            log_density = log_density - _log_slope(u)
        return log_density.sum(1) - self.numbers.log_volume

    def _entropies(self, mean: Tensor) -> Tensor:
        """(A, K) to (A,)."""
        exact = (self.log_std + 0.5 + _HALF_LOG_2_PI).sum() + self.numbers.log_volume
        if not self.squash:
            return exact.expand(len(mean))
        points, weights = (as_tensor(array, mean, mean.dtype) for array in (POINTS, WEIGHTS))
        u = mean[:, :, None] + self.log_std.exp()[:, None] * points  # (A, K, Q)
        return exact + (_log_slope(u) @ weights).sum(1)


def _log_slope(u: Tensor) -> Tensor:
    """log tanh′(u), of any shape."""
    return 2 * (math.log(2) - u - functional.softplus(-2 * u))
