"""Compares a network with the one that files make of it: of its options and weights alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..inputs.generated import generate
from ..inputs.prepare import Inputs
from ..policy import ActResult
from .proof import own_generators
from .rogue_net import RogueNet

#: Largest difference of a number, as a part of the largest; both networks compute by the same operations.
_DIFFERENCE = {torch.float64: 1e-5, torch.float32: 1e-5}
_DIFFERENCE_OF_16_BITS = 2e-2
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def plain_difference(policy: Any) -> str | None:
    """Return where a RogueNet acts otherwise than a new one of its options and weights; None: nowhere.

    It is None for subclasses, which are saved by name, for other networks, and where neither can be computed.
    Hooks are left out: most of them only read, and no file ever holds them. Methods of classes that were
    replaced count for both networks.
    """
    if type(policy) is not RogueNet:
        return None
    try:
        with own_generators(), torch.no_grad():
            return _difference(policy)
    except Exception:  # a module of the user's may do anything
        return None


def _difference(net: RogueNet) -> str | None:
    options = {**net.config, "engine": "torch"}
    plain = RogueNet(net.observation_space, net.action_space, **options).to(net.like.device, net.like.dtype)
    weights = net.state_dict()
    if differing := _names_difference(weights, plain.state_dict()):
        return differing
    plain.load_state_dict(weights)
    plain.eval()
    rng = np.random.default_rng(0)
    batch = generate(net.observation_space, net.settings, rng)
    prepared = Inputs(net.observation_space, net.settings).prepare(batch)
    shadow: Any = _shadow(net, {})

    largest = _DIFFERENCE.get(net.like.dtype, _DIFFERENCE_OF_16_BITS)
    for seed in (None, 0, 1):  # the most probable actions, and drawn ones
        found, expected = (
            which.draw(prepared, batch.actions, None if seed is None else np.random.default_rng(seed))
            for which in (shadow, plain)
        )
        if differing := _acted_difference(found, expected, largest):
            return differing
    found, expected = shadow.estimate(prepared), plain.estimate(prepared)
    return (
        "the values" if _far(found.float().cpu().numpy(), expected.float().cpu().numpy(), largest) else None
    )


def _acted_difference(found: ActResult, expected: ActResult, largest: float) -> str | None:
    for name, chosen in expected.actions.items():
        if _far(found.log_probs[name].values, expected.log_probs[name].values, largest):
            return f"the log-probabilities of action {name!r}"
        if _far(found.actions[name].values, chosen.values, largest):
            return f"the choices of action {name!r}"
    return "the values" if _far(found.values, expected.values, largest) else None


def _far(found: NDArray[Any], expected: NDArray[Any], largest: float) -> bool:
    if found.shape != expected.shape:
        return True
    scale = float(np.abs(expected).max(initial=1e-3))
    return not float(np.abs(found - expected).max(initial=0.0)) <= largest * scale


def _names_difference(found: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """Return the first weight that only one network has, or in another shape."""
    for name in [*found, *expected]:
        if name not in found or name not in expected or found[name].shape != expected[name].shape:
            return f"the weight {name}"
    return None


def _shadow(module: nn.Module, made: dict[int, nn.Module]) -> nn.Module:
    """Return a module of the same attributes, parameters and buffers, in evaluation mode, without hooks.

    What it sets on itself is not set on the original, with which other threads may act meanwhile.
    """
    if id(module) not in made:
        made[id(module)] = copied = object.__new__(type(module))
        children = {
            name: None if child is None else _shadow(child, made) for name, child in module._modules.items()
        }
        hooks: dict[str, Any] = {name: OrderedDict() for name in _HOOKS}
        vars(copied).update(vars(module) | hooks | {"_modules": children, "training": False})
    return made[id(module)]
