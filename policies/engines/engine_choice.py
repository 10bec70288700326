"""Which engine computes a network: the fused kernels, arrays of fixed shapes with CUDA graphs, or torch.

| engine | where | option |
|---|---|---|
| fused | CPU, float32 | "auto", where it is faster than torch, or "fused" |
| graphs | any device; CUDA graphs on a GPU | "graphs" |
| torch | everywhere, and whatever the other two cannot compute (`engine_limits`) | "auto" or "torch" |

The fused engine leaves to torch: GPUs, float64, dropout where it acts, and networks whose modules were
replaced or have hooks; with "auto" also a width above 128, where torch's matrix products are as fast, and
networks with an `attention` option.
"""

from __future__ import annotations

import logging
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from ...envs import EntitySpace
from ..rogue_net.config import RogueNetConfig
from ..rogue_net.tensors import runs_kernels
from .engine_limits import fused_limit, graphs_limit
from .structure import Structure

_log = logging.getLogger(__name__)

#: Up to this width the fused kernels are faster than torch's matrix products (benchmarks/policy.py).
FUSED_UP_TO = 128


class EngineChoice(NamedTuple):
    """An engine and the reason for it."""

    name: Literal["fused", "torch", "graphs"]
    reason: str


def _from_options(settings: RogueNetConfig, space: EntitySpace) -> EngineChoice:
    """Return the engine that options and space decide on; "fused" if device and modules allow it."""
    if settings.engine == "torch":
        return EngineChoice("torch", "engine='torch'")
    if settings.engine == "graphs":
        limit = graphs_limit(settings, space)
        return EngineChoice("graphs", "engine='graphs'") if limit is None else EngineChoice("torch", limit)
    limit = fused_limit(settings)
    if limit is not None:
        return EngineChoice("torch", limit)
    for d in (settings.d_model, settings.for_value().d_model):
        if settings.engine == "auto" and d > FUSED_UP_TO:
            return EngineChoice("torch", f"at width {d} torch's matrix products are as fast")
    if settings.engine == "auto" and settings.attention != "auto":
        return EngineChoice("torch", f"attention={settings.attention!r} is an option of the torch engine")
    return _FUSED


class EngineChooser:
    """Decides for a network of given options, at each call anew."""

    def __init__(self, settings: RogueNetConfig, space: EntitySpace, network: nn.Module) -> None:
        """`network` has all its modules."""
        self._name, self._settings = type(network).__name__, settings
        self._structure = Structure(network)
        self._logged: set[EngineChoice] = set()
        self._by_options = _from_options(settings, space)
        places = ("embedding", "residual", "attention")
        self._drops = any(settings.rate(place) for place in places)  # type: ignore[arg-type]

    def choose(self, like: Tensor, training: bool) -> EngineChoice:
        """Return the engine for a module in this mode, whose parameters are like `like`."""
        if self._by_options.name == "torch":
            return self._by_options
        if self._by_options.name == "fused":
            if like.device.type != "cpu":
                return EngineChoice("torch", f"the parameters are on {like.device}")
            if not runs_kernels(like):
                return EngineChoice("torch", f"the parameters are {like.dtype}, not float32")
            if self._drops and training and torch.is_grad_enabled():
                return EngineChoice("torch", "dropout acts in training")
        change = self._structure.change()
        return self._by_options if change is None else EngineChoice("torch", change)

    def log(self, choice: EngineChoice) -> None:
        """Log a choice at its first use; as a warning if it is not the engine that was asked for."""
        if choice in self._logged:
            return
        self._logged.add(choice)
        unwanted = choice.name == "torch" and self._settings.engine in ("fused", "graphs")
        level = logging.WARNING if unwanted else logging.INFO
        _log.log(level, "%s: engine: %s (%s)", self._name, *choice)


_FUSED = EngineChoice("fused", "the fastest on the CPU")
