"""`AdamW` and gradient clipping over all parameters in one kernel call each."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .tensor_kernels import adamw, addresses, are_plain, multiply, sizes, sum_of_squares


def clip_gradients(parameters: Sequence[Tensor], max_norm: float) -> float:
    """Scale all gradients so that their global norm is at most `max_norm`; returns what it was.

    As `nn.utils.clip_grad_norm_`.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not are_plain(gradients):
        return float(nn.utils.clip_grad_norm_(parameters, max_norm))
    places, counts = addresses(gradients), sizes(gradients)
    norm = math.sqrt(sum_of_squares(places, counts))
    if max_norm < norm + 1e-6 and norm < math.inf:
        multiply(places, counts, max_norm / (norm + 1e-6))
    return norm


def forget_gradients(parameters: Sequence[Tensor]) -> None:
    """As an optimizer's `zero_grad`, which takes ten times as long to say where it is in a profile."""
    for parameter in parameters:
        parameter.grad = None


class AdamW(torch.optim.AdamW):
    """torch's AdamW, whose step is one kernel call where all parameters are float32 on the CPU.

    State, state dict and hyper-parameters are torch's, so checkpoints of either load into the other.
    """

    # torch excludes these methods from torch.compile: their first call imports `torch._dynamo`, which takes
    # longer than the import of torch. Nothing compiles an optimizer here.
    add_param_group = inspect.unwrap(torch.optim.AdamW.add_param_group)
    state_dict = inspect.unwrap(torch.optim.AdamW.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.AdamW.load_state_dict)

    def __init__(self, parameters: Iterable[Tensor], **options: Any) -> None:
        """`options`: of torch's AdamW."""
        super().__init__(parameters, fused=True, **options)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move the parameters that have gradients."""
        groups = [(group, [p for p in group["params"] if p.grad is not None]) for group in self.param_groups]
        if not all(_is_plain(group, parameters) for group, parameters in groups):
            super().step()
            return
        for group, parameters in groups:
            states = [self._state(parameter) for parameter in parameters]
            adamw(
                addresses(parameters),
                addresses([p.grad for p in parameters]),
                addresses([state["exp_avg"] for state in states]),
                addresses([state["exp_avg_sq"] for state in states]),
                addresses([state["step"] for state in states]),
                sizes(parameters),
                float(group["lr"]),
                *map(float, group["betas"]),
                float(group["eps"]),
                float(group["weight_decay"]),
            )

    def _state(self, parameter: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        return state


def _is_plain(group: dict[str, Any], parameters: list[Tensor]) -> bool:
    """Return True if the kernel computes what torch would."""
    if group["amsgrad"] or group["maximize"]:
        return False
    return are_plain(parameters) and are_plain(p.grad for p in parameters if p.grad is not None)
