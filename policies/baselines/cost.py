"""Cost of networks: parameters, and multiply-adds of convolutions, counted while they run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def _multiply_adds(module: nn.Module, x: Tensor, out: Tensor) -> float:
    match module:
        case nn.ConvTranspose2d():
            # Every number that comes in is spread over a window; what falls beyond the edge counts as well.
            return float(x.numel() * module.weight[0].numel())
        case nn.Conv2d():
            return float(out.numel() * module.weight[0].numel())
        case nn.Linear():
            return float(out.numel() * module.in_features)
    return 0.0


def parameters_by_part(net: nn.Module) -> dict[str, int]:
    """Numbers of weights and of biases in each submodule."""
    parameters: dict[str, int] = {}
    for name, parameter in net.named_parameters():
        part = f"{name.partition('.')[0]} {'weights' if name.endswith('weight') else 'biases'}"
        parameters[part] = parameters.get(part, 0) + parameter.numel()
    return parameters


def convolution_cost(module: nn.Module, shape: tuple[int, ...]) -> float:
    """Multiply-adds of `module` for one input of `shape` (C, H, W); biases and activations don't count."""
    total = 0.0

    def count(part: nn.Module, inputs: tuple[Any, ...], out: Tensor) -> None:
        nonlocal total
        total += _multiply_adds(part, inputs[0], out)

    hooks = [part.register_forward_hook(count) for part in module.modules()]
    like = next(module.parameters())
    try:
        with torch.inference_mode():
            module(like.new_zeros(1, *shape))
    finally:
        for hook in hooks:
            hook.remove()
    return total
