"""Which engine does the work of a network: the fused kernels or torch.

What the fused engine leaves to torch: a GPU, float64, relative positions, pooling, a width that is no
multiple of 4, dropout where it acts, and modules that were replaced or have hooks; with `engine="auto"` also
a width above 128, where torch's matrix products are as fast, and networks whose `attention` was asked for by
name.
"""

from __future__ import annotations

import logging
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from ..rogue_net.config import RogueNetConfig
from ..rogue_net.tensors import runs_kernels
from .structure import Structure

_log = logging.getLogger(__name__)

#: Up to this width the fused kernels are faster than torch's matrix products (benchmarks/policy.py).
FUSED_UP_TO = 128


class EngineChoice(NamedTuple):
    """An engine, and why it is not the other one."""

    name: Literal["fused", "torch"]
    reason: str


def _obstacle(settings: RogueNetConfig) -> str | None:
    """Why options keep a network from the fused engine; None where they don't."""
    if settings.engine == "torch":
        return "it was asked for"
    missing = settings.without_kernels()
    if missing is not None:
        return missing
    for d in (settings.d_model, settings.for_value().d_model):
        if settings.engine == "auto" and d > FUSED_UP_TO:
            return f"at width {d} torch's matrix products are as fast"
    if settings.engine == "auto" and settings.attention != "auto":
        return f"attention={settings.attention!r} is a path of torch's"
    return None


class EngineChooser:
    """Decides for a network of given options, at each call anew."""

    def __init__(self, settings: RogueNetConfig, network: nn.Module) -> None:
        """`network` has all its modules."""
        self._name, self._settings = type(network).__name__, settings
        self._structure = Structure(network)
        self._told: set[EngineChoice] = set()
        obstacle = _obstacle(settings)
        self._never = None if obstacle is None else EngineChoice("torch", obstacle)
        places = ("embedding", "residual", "attention")
        self._drops = any(settings.rate(place) for place in places)  # type: ignore[arg-type]

    def choose(self, like: Tensor, training: bool) -> EngineChoice:
        """The engine for a module in this mode, whose parameters are like `like`."""
        if self._never is not None:
            return self._never
        if like.device.type != "cpu":
            return EngineChoice("torch", f"the parameters are on {like.device}")
        if not runs_kernels(like):
            return EngineChoice("torch", f"the parameters are {like.dtype}, not float32")
        if self._drops and training and torch.is_grad_enabled():
            return EngineChoice("torch", "dropout acts in training")
        change = self._structure.change()
        return _FUSED if change is None else EngineChoice("torch", change)

    def tell(self, choice: EngineChoice) -> None:
        """Log a choice at its first use, as a warning where the fused engine was asked for and can't run."""
        if choice in self._told:
            return
        self._told.add(choice)
        unwanted = choice.name == "torch" and self._settings.engine == "fused"
        level = logging.WARNING if unwanted else logging.INFO
        _log.log(level, "%s runs on the %s engine: %s", self._name, *choice)


_FUSED = EngineChoice("fused", "nothing stands in its way")
