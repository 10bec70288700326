"""Choosing a network's engine: the fused kernels, arrays of fixed shapes with CUDA graphs, or torch.

| engine | where | option |
|---|---|---|
| fused | CPU, float32 | "auto", where it is faster than torch, or "fused" |
| graphs | any device; CUDA graphs on a GPU | "auto" on a GPU in float32, or "graphs" |
| torch | everywhere, and whatever the other two cannot compute (`engine_limits`) | "auto" or "torch" |

Both leave to torch networks whose modules have hooks or compute something else than they do (see `proof`),
and dropout where it acts; the fused engine also GPUs, float64, and with "auto" a width above 128, where
torch's matrix products are as fast.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ...envs import EntitySpace
from ..rogue_net.config import RogueNetConfig
from ..rogue_net.tensors import runs_kernels
from .engine_limits import fused_limit, graphs_limit
from .fingerprint import Fingerprint, has_dropout

_log = logging.getLogger(__name__)

#: Up to this width the fused kernels are faster than torch's matrix products (benchmarks/policy.py).
FUSED_UP_TO = 128
#: A value of the network may change so often; from then on torch computes, which need not be compared.
_MOST_CHANGES = 16


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
    limit = fused_limit(settings, space)
    if limit is not None:
        return EngineChoice("torch", limit)
    for d in (settings.d_model, settings.for_value().d_model):
        if settings.engine == "auto" and d > FUSED_UP_TO:
            return EngineChoice("torch", f"at width {d} torch's matrix products are as fast")
    return _FUSED


class EngineChooser:
    """Decides for a network of given options, at each call anew."""

    def __init__(
        self, settings: RogueNetConfig, space: EntitySpace, network: nn.Module, is_static: bool = True
    ) -> None:
        """`network` has all its modules; `is_static`: it can use engine "graphs"."""
        self._settings = settings
        self._network = network
        self._by_options = _from_options(settings, space)
        limit = graphs_limit(settings, space) if is_static else "this module computes padded observations"
        #: On a GPU, if `engine` is "auto" (benchmarks/gpu.py).
        self._on_gpu = _GRAPHS if limit is None else EngineChoice("torch", limit)
        self._drops = False
        self._logged: set[EngineChoice] = set()
        self._fingerprint: Fingerprint | None = None
        #: How often each value was found to have changed, and one that changes too often.
        self._changes: Counter[str] = Counter()
        self._restless: str | None = None
        #: What differs, by engine and whether it was compared in learning.
        self._found: dict[tuple[str, bool], str | None] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Copies of a network compare their own modules."""
        return {**vars(self), "_fingerprint": None, "_found": {}}

    def choose(
        self, like: Tensor, training: bool, learns: bool, compare: Callable[[str, bool], str | None]
    ) -> EngineChoice:
        """Return the engine for a module in this mode, whose parameters are like `like`.

        `compare(engine, learns)` names what differs between an engine and torch, in acting or in learning;
        None: nothing. It is called before the first use and when the network has changed.
        """
        is_auto_on_gpu = self._settings.engine == "auto" and like.device.type == "cuda"
        choice = self._on_gpu if is_auto_on_gpu else self._by_options
        if choice.name == "torch":
            return choice
        if is_auto_on_gpu and like.dtype != torch.float32:
            return EngineChoice("torch", f"the parameters are {like.dtype}, not float32")
        if choice.name == "fused":
            if like.device.type != "cpu":
                return EngineChoice("torch", f"the parameters are on {like.device}")
            if not runs_kernels(like):
                return EngineChoice("torch", f"the parameters are {like.dtype}, not float32")
        if self._restless is not None:
            return EngineChoice("torch", f"{self._restless!r} of the network changes again and again")
        if self._fingerprint is None or self._fingerprint.has_changed():
            self._count_changes()
            self._fingerprint, self._found = Fingerprint(self._network), {}
            self._drops = has_dropout(self._network)
        if self._drops and training and torch.is_grad_enabled():
            return EngineChoice("torch", "dropout acts in training")
        if self._fingerprint.has_hooks():
            return EngineChoice("torch", "a module inside has hooks")
        if (choice.name, learns) not in self._found:
            self._found[choice.name, learns] = compare(choice.name, learns)
        differing = self._found.get((choice.name, False)) or self._found.get((choice.name, True))
        return choice if differing is None else EngineChoice("torch", differing)

    def _count_changes(self) -> None:
        """Note a value that changes so often that comparing the engines each time would take too long."""
        if self._fingerprint is not None:
            self._changes.update(self._fingerprint.changed_values())
            self._restless = next((name for name, n in self._changes.items() if n > _MOST_CHANGES), None)

    def log(self, choice: EngineChoice) -> None:
        """Log a choice at its first use; as a warning if it is not the expected one."""
        if choice in self._logged:
            return
        self._logged.add(choice)
        changed = choice.reason in self._found.values() or self._restless is not None
        unwanted = choice.name == "torch" and self._settings.engine in ("fused", "graphs")
        level = logging.WARNING if unwanted or changed else logging.INFO
        _log.log(level, "%s: engine: %s (%s)", type(self._network).__name__, *choice)


_FUSED = EngineChoice("fused", "the fastest on the CPU")
_GRAPHS = EngineChoice("graphs", "the fastest on a GPU")
