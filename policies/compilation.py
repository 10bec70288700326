"""Methods that `torch.compile` leaves to Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

# `torch.compiler.disable` without its import of `torch._dynamo`, which takes longer than that of torch.
from torch._compile import _disable_dynamo

_P = ParamSpec("_P")
_R = TypeVar("_R")


def not_compiled(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a method that reads batches of NumPy arrays: a compiled model has a graph break there.

    In a model that is not compiled it costs less than a microsecond at each call.
    """
    disabled = _disable_dynamo(method)

    @wraps(method)
    def either(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if torch.compiler.is_dynamo_compiling():
            return disabled(*args, **kwargs)
        return method(*args, **kwargs)

    return either
