"""The device of training: the CPU or a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..config import PPOConfig
from .optimizer import AdamW


def device_of(module: nn.Module) -> torch.device:
    """The device of a module's parameters; the CPU for one without."""
    parameter = next(module.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def find_device(name: str) -> torch.device:
    """The device that torch calls `name`.

    Raises:
        ValueError: torch sees no such GPU.
    """
    device = torch.device(name)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ValueError(f"device={name!r}: torch sees {count} GPUs that it can use")
    return device


def move_to(module: nn.Module, device: str) -> torch.device:
    """Move a policy to `device` and return it; with "auto" it stays where it is.

    Raises:
        ValueError: torch sees no such device.
    """
    if device != "auto":
        module.to(find_device(device))
    return device_of(module)


def place(module: nn.Module, config: PPOConfig) -> torch.device:
    """Move a policy to `config.device`; with "auto" it stays where it is.

    Raises:
        ValueError: torch sees no such device, or the precision is one that only GPUs have.
    """
    device = move_to(module, config.device)
    if device.type == "cpu" and config.precision != "float32":
        raise ValueError(
            f"precision={config.precision!r} is for GPUs, and the policy is on the CPU,"
            " which computes in float32"
        )
    return device


def optimizer_for(
    parameters: Iterable[nn.Parameter], learning_rate: float, device: torch.device, options: Mapping[str, Any]
) -> torch.optim.AdamW:
    """AdamW; on a GPU one whose steps a CUDA graph can hold, with the learning rate on the device as well."""
    if device.type != "cuda":
        return AdamW(parameters, lr=learning_rate, **options)
    rate = torch.tensor(learning_rate, device=device)
    return torch.optim.AdamW(parameters, lr=rate, fused=True, capturable=True, **options)


def make_optimizer(
    parameters: Iterable[nn.Parameter], config: PPOConfig, device: torch.device
) -> torch.optim.AdamW:
    """Return the optimizer of a configuration; see `optimizer_for`."""
    options = {"eps": config.adam_eps, "weight_decay": config.weight_decay}
    return optimizer_for(parameters, config.learning_rate, device, options)


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """For all parameters; in place where a graph may hold the number."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(learning_rate)
        else:
            group["lr"] = learning_rate
