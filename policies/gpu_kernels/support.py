"""`runs_triton`: where Triton's kernels compute."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor


def runs_triton(x: Tensor) -> bool:
    """Return True if the kernels of this folder compute with `x`: float32 on an Nvidia GPU, with Triton and
    ENTITIZE_TRITON=1 in the environment.
    """
    if x.device.type != "cuda" or x.dtype != torch.float32:
        return False
    return os.environ.get("ENTITIZE_TRITON") == "1" and _has_triton(x.device)


@cache
def _has_triton(device: torch.device) -> bool:
    """Products in TensorFloat-32 need compute capability 8, an A100 or later."""
    if torch.version.cuda is None or find_spec("triton") is None:
        return False
    return torch.cuda.get_device_capability(device)[0] >= 8
