"""Compares a network with the one that files make of it: of its options and weights alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...envs import EntityBatch
from ..inputs.generated import generate
from ..inputs.prepare import Inputs, Prepared
from ..policy import ActResult
from ..rogue_net.normalization import InputNorm
from .proof import own_generators
from .rogue_net import RogueNet

#: Largest difference of a number, as a part of the largest. The same operations compute both networks, but
#: not to the same bit: that depends on where numbers lie in memory, and a network may magnify it.
_LARGEST, _LARGEST_IN_OWN_PRECISION = 1e-6, 2e-2

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def plain_difference(policy: Any) -> str | None:
    """Return where a RogueNet acts otherwise than a new one of its options and weights; None: nowhere.

    It is None for subclasses, which are saved by name, for other networks, and where neither can be computed.
    Hooks are left out: most of them only read, and no file ever holds them. Methods of classes that were
    replaced count for both networks.
    """
    if type(policy) is not RogueNet:
        return None
    with own_generators(), torch.no_grad():
        # Modules of the user's may do anything, for example keep tensors of the network's own precision.
        for dtype, largest in ((torch.float64, _LARGEST), (policy.like.dtype, _LARGEST_IN_OWN_PRECISION)):
            with suppress(Exception):
                return _difference(policy, dtype, largest)
    return None


def _difference(net: RogueNet, dtype: torch.dtype, largest: float) -> str | None:
    options = {**net.config, "engine": "torch"}
    plain = RogueNet(net.observation_space, net.action_space, **options).to(net.like.device)
    if net.like.dtype is torch.float64:  # fewer bits would round statistics, too
        plain.double()
    weights = net.state_dict()
    if differing := _names_difference(weights, plain.state_dict()):
        return differing
    plain.load_state_dict(weights)
    batch = generate(net.observation_space, net.settings, np.random.default_rng(0))
    prepared = Inputs(net.observation_space, net.settings).prepare(batch)
    both: list[Any] = [_shadow(which, dtype, {}) for which in (net, plain)]
    for norm in (part for which in both for part in which.modules() if type(part) is InputNorm):
        # Statistics may have been written in place, as where networks are mixed; reading files refreshes.
        norm.shift, norm.scale = norm.shift.clone(), norm.scale.clone()
        norm.refresh()
    for seed in (None, 0):  # the most probable actions, and drawn ones
        found, expected = (
            which.draw(prepared, batch.actions, None if seed is None else np.random.default_rng(seed))
            for which in both
        )
        if differing := _acted_difference(found, expected, largest, is_drawn=seed is not None):
            return differing
    log_probs, expected_log_probs = (_log_probs(which, prepared, batch, expected) for which in both)
    for name, numbers in log_probs.items():
        if _far(numbers, expected_log_probs[name], largest, least=1.0):
            return f"the log-probabilities of action {name!r}"
    values, expected_values = (which.estimate(prepared).float().cpu().numpy() for which in both)
    return "the values" if _far(values, expected_values, largest) else None


def _log_probs(net: Any, prepared: Prepared, batch: EntityBatch, acted: ActResult) -> dict[str, NDArray[Any]]:
    """Return the log-probabilities (A,) of the same actions, by name."""
    evaluation = net.assess(prepared, batch.actions, acted.raw)
    return {name: numbers.double().cpu().numpy() for name, numbers in evaluation.log_probs.items()}


def _acted_difference(found: ActResult, expected: ActResult, largest: float, is_drawn: bool) -> str | None:
    for name, chosen in expected.actions.items():
        log_probs = found.log_probs[name].values, expected.log_probs[name].values
        # Near 0 they are rounded as probabilities near 1 are; of real numbers, by the rounding of these.
        if chosen.dtype.kind != "f" and _far(*log_probs, largest, least=1.0):
            return f"the log-probabilities of action {name!r}"
        # Of choices that are equally probable, as of equal entities, rounding makes one the most probable.
        if (is_drawn or chosen.dtype.kind == "f") and _far(
            found.actions[name].values, chosen.values, largest
        ):
            return f"the choices of action {name!r}"
    return "the values" if _far(found.values, expected.values, largest) else None


def _far(found: NDArray[Any], expected: NDArray[Any], largest: float, least: float = 1e-3) -> bool:
    """Return True if a difference is more than `largest`, as a part of the largest number or of `least`."""
    if found.shape != expected.shape:
        return True
    scale = float(np.abs(expected).max(initial=least, where=np.isfinite(expected)))
    differing = ~((found == expected) | (np.isnan(found) & np.isnan(expected)))  # NaN: of a diverged training
    found, expected = found[differing], expected[differing]
    return not float(np.abs(found - expected).max(initial=0.0)) <= largest * scale


def _names_difference(found: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """Return the first weight that only one network has, or in another shape."""
    for name in [*found, *expected]:
        if name not in found or name not in expected or found[name].shape != expected[name].shape:
            return f"the weight {name}"
    return None


def _shadow(module: nn.Module, dtype: torch.dtype, made: dict[int, nn.Module]) -> nn.Module:
    """Return a module of the same attributes and weights, in evaluation mode, without hooks.

    What it sets on itself is not set on the original, with which other threads may act meanwhile.
    """
    if id(module) not in made:
        made[id(module)] = copied = object.__new__(type(module))
        own: dict[str, Any] = {name: OrderedDict() for name in _HOOKS}
        for kind in ("_parameters", "_buffers"):
            own[kind] = {name: _converted(tensor, dtype) for name, tensor in getattr(module, kind).items()}
        own["_modules"] = {
            name: None if child is None else _shadow(child, dtype, made)
            for name, child in module._modules.items()
        }
        vars(copied).update(vars(module) | own | {"training": False})
    return made[id(module)]


def _converted(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return tensor.to(dtype) if tensor is not None and tensor.is_floating_point() else tensor
