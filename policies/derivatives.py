"""Gradients of kernels, which are constants to autograd: second derivatives are refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch

_Result = TypeVar("_Result")

#: Advice for those that need second derivatives of a kernel of the fused engine.
USE_TORCH = "Make the network with engine='torch' (load_policy(path, engine='torch')): docs/performance.md"
#: The same for a kernel on a GPU.
WITHOUT_TRITON = "Unset ENTITIZE_TRITON: torch's own kernels have them"


def first_derivatives_only(
    where: str, advice: str = USE_TORCH
) -> Callable[[Callable[..., _Result]], Callable[..., _Result]]:
    """Decorate a `backward` whose results have no gradients, so that it refuses create_graph=True.

    `torch.autograd.function.once_differentiable` raises too late, or never: it returns plain tensors if the
    incoming gradient is a constant, and `torch.autograd.grad(…, inputs)` leaves out its node that raises.

    Args:
        where: names the kernel in the error.
        advice: its last sentence.
    """

    def decorate(backward: Callable[..., _Result]) -> Callable[..., _Result]:
        @wraps(backward)
        def checked(ctx: Any, *given: Any) -> _Result:
            if torch.is_grad_enabled():  # in a backward pass with create_graph=True alone
                raise RuntimeError(
                    f"{where}: it has no second derivatives: expected a backward pass with"
                    f" create_graph=False, got create_graph=True. {advice}"
                )
            return backward(ctx, *given)

        return checked

    return decorate
