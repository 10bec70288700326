"""Off-policy correction: values and ratios of the present policy at rollouts of an earlier one.

Shape alphabet: B steps, T steps of a rollout, E environments.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from ..policies import Policy, frozen_weights
from .rollout import Rollout, Samples

#: Steps that are evaluated at once.
_CHUNK = 4096


def log_ratios(policy: Policy, samples: Samples) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Return Σ over all actors and actions of (log μ(a) − log π(a)) of each step (B,), and the values (B,).

    μ is the policy that acted; π and the values are those of `policy`, which must be in evaluation mode.
    """
    sums, values = [np.zeros(0)], [np.zeros(0, np.float32)]
    with torch.no_grad(), frozen_weights(policy):
        for part in samples.split(_CHUNK):
            ours = policy.evaluate(part.observations, part.actions)
            total = np.zeros(len(part))
            for name, log_probs in part.log_probs.items():
                difference = log_probs.values - ours.log_probs[name].double().cpu().numpy()
                np.add.at(total, log_probs.sequence_indices(), difference)
            sums.append(total)
            values.append(ours.values.float().cpu().numpy())
    return np.concatenate(sums), np.concatenate(values)


def revalued(policy: Policy, rollout: Rollout, samples: Samples) -> tuple[Rollout, NDArray[np.float64]]:
    """Return the rollout with the values of `policy`, and the ratios π / μ of its joint actions (T, E).

    Values of observations that have no row, at the end of the rollout and of truncated episodes, stay those
    of the weights that acted.

    Args:
        samples: the rollout, a row for each active step.
    """
    differences, by_row = log_ratios(policy, samples)
    values, ratios = rollout.values.copy(), np.ones(rollout.values.shape)
    values[rollout.active] = by_row
    ratios[rollout.active] = np.exp(-differences)
    return replace(rollout, values=values), ratios
