"""Comparison of an ONNX file, run by ONNX Runtime, with the network that it was made of.

Shape alphabet: A actors, C choices, M components, K numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from ...envs import ActionMask, Continuous, EntityBatch, MultiCategorical, unbatch_observation
from ..inputs.generated import generate
from ..inputs.number_units import Numbers
from ..rogue_net.config import RogueNetConfig
from .source import Source

#: Largest difference of a log-probability or a value; relative where these exceed 1.
_TOLERANCE = 1e-4

Outputs = Mapping[str, NDArray[np.float32]]


def difference(content: bytes, source: Source) -> tuple[float, str]:
    """Return the largest difference on generated steps, and of what; infinite where shapes differ.

    Log-probabilities of the most probable and of sampled actions, and values, are compared.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_outputs()]
    rng = np.random.default_rng(0)
    batch = generate(source.space, source.settings, rng)
    worst = 0.0, "value"
    for step in range(len(batch)):
        observation = unbatch_observation(source.space, batch, step)
        feeds = flat_observation(observation)
        wanted = {node.name: feeds[node.name] for node in session.get_inputs()}
        outputs = dict(zip(names, session.run(names, wanted), strict=True))
        worst = max([worst, *_of_step(source, batch.gather([step]), outputs, rng)])
    return worst


def exceeds(error: float) -> bool:
    """Return True if a difference is more than rounding."""
    return not error <= _TOLERANCE


def flat_observation(observation: Mapping[str, Any], place: str = "") -> dict[str, NDArray[Any]]:
    """Return the arrays of an observation dict by their places, "entities/Mine" and so on."""
    result: dict[str, NDArray[Any]] = {}
    for key, part in observation.items():
        here = f"{place}{key}"
        result |= flat_observation(part, f"{here}/") if isinstance(part, Mapping) else {here: part}
    return result


def _of_step(
    source: Source, step: EntityBatch, outputs: Outputs, rng: np.random.Generator
) -> list[tuple[float, str]]:
    found = []
    for deterministic in (True, False, False):
        acted = source.network.act(step, rng, deterministic)
        found.append((_error(outputs["value"], acted.values), "value"))
        for name, action in source.space.actions.items():
            own = log_probs(
                action,
                {key: outputs[place] for key in KEYS if (place := f"actions/{name}/{key}") in outputs},
                step.actions[name],
                acted.raw[name].values,
                source.settings,
            )
            found.append((_error(own, acted.log_probs[name].values), f"action {name!r}"))
    return found


def _error(found: NDArray[Any], expected: NDArray[Any]) -> float:
    if found.shape != expected.shape:
        return math.inf
    error = np.abs(found - expected) / np.maximum(1, np.abs(expected))
    return float(np.nan_to_num(error, nan=math.inf).max(initial=0.0))


# -- log-probabilities from the outputs ----------------------------------------------------------------------

#: What an action has as outputs: the first, or the other two.
KEYS = ("logits", "mean", "log_std")


def log_probs(
    action: Any, outputs: Outputs, mask: ActionMask, chosen: NDArray[Any], settings: RogueNetConfig
) -> NDArray[np.float64]:
    """Return the log-probability of each actor's action (A,), of raw numbers where it is continuous."""
    if "mean" in outputs:
        mean, log_std = (outputs[key].astype(np.float64) for key in KEYS[1:])
        return _log_density(action, mean, log_std, chosen, settings.squash)
    logits = outputs["logits"].astype(np.float64)
    if isinstance(action, MultiCategorical):
        return _of_components(action, logits, mask.mask.values, chosen, settings.composite == "all")
    if mask.actees is not None:
        column_of = {actee: column for column, actee in enumerate(mask.actees.values.tolist())}
        chosen = np.array([column_of[actee] for actee in chosen.tolist()], np.int64)
    return _log_softmax(logits, chosen)


def _log_softmax(logits: NDArray[np.float64], chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    shifted = logits - logits.max(1, keepdims=True, initial=-np.inf)
    return shifted[np.arange(len(chosen)), chosen] - np.log(np.exp(shifted).sum(1))


def _of_components(
    action: MultiCategorical,
    logits: NDArray[Any],
    allowed: NDArray[np.bool_],
    chosen: NDArray[Any],
    all_count: bool,
) -> NDArray[np.float64]:
    counts = action.allows_something(allowed) if all_count else action.used[chosen[:, 0]]
    parts = [
        _log_softmax(logits[:, start:stop], chosen[:, m])
        for m, (start, stop) in enumerate(pairwise(action.offsets.tolist()))
    ]
    return (np.stack(parts, 1) * counts).sum(1)


def _log_density(
    action: Continuous, mean: NDArray[Any], log_std: NDArray[Any], u: NDArray[Any], squash: bool
) -> NDArray[np.float64]:
    numbers = Numbers("", action, squash)
    density = -0.5 * ((u - mean[: len(u)]) / np.exp(log_std)) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
    if squash:
        density = density - 2 * (math.log(2) - u - np.logaddexp(0, -2 * u))
    return density.sum(1) - numbers.log_volume
