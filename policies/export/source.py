"""Networks to export: the RogueNet of a run, or one in memory whose modules are those of the library."""

from __future__ import annotations

import copy
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import safetensors.numpy

from ...envs import EntitySpace
from ...envs.spaces.space_schema import space_from_schema
from ..checkpoint import newest_checkpoint, read_stored, stored_weights
from ..engines.engine_limits import FUSED_OPTIONS
from ..rogue_net.config import RogueNetConfig, from_options
from ..runtime import load_agent
from ..runtime.network import Network
from .weights import ModuleWeights

if TYPE_CHECKING:
    from ..rogue_net.network import RogueNetwork


#: Options whose nodes `network` writes; another is refused, also where no ONNX Runtime compares the file.
_EXPORTED_OPTIONS = FUSED_OPTIONS | {"pooling"}


class ExportError(ValueError):
    """A network has no ONNX file: a part of it can't be exported, or the file gives other numbers."""


class Source(NamedTuple):
    """A network to export."""

    space: EntitySpace
    settings: RogueNetConfig
    weights: ModuleWeights
    network: Network  #: what the file is compared with


def read_source(source: Any) -> Source:
    """Return the network of a run folder, of a checkpoint, or of a RogueNet.

    Raises:
        TypeError: `source` is nothing of these.
        CheckpointError: there is no checkpoint, or it is corrupt.
        ExportError: it is another network, has an option without nodes, or a module was changed.
    """
    found = _read(source)
    for option in fields(found.settings):
        value = getattr(found.settings, option.name)
        if option.name not in _EXPORTED_OPTIONS and value != option.default:
            raise ExportError(f"export_onnx: {option.name}={value!r} has no ONNX export")
    return found


def _read(source: Any) -> Source:
    if isinstance(source, str | os.PathLike):
        return _of_checkpoint(newest_checkpoint(Path(source)))
    if "torch" in sys.modules:
        from torch import nn

        from ..rogue_net.network import RogueNetwork

        if isinstance(source, RogueNetwork):
            return _of_network(source)
        if isinstance(source, nn.Module):
            raise _other_network(type(source).__name__)
    wanted = "a RogueNet, or the path of a run folder or of a checkpoint"
    raise TypeError(f"export_onnx: expected {wanted}, got {type(source).__name__}")


def _other_network(kind: str) -> ExportError:
    return ExportError(f"export_onnx: the network: expected a RogueNet, got {kind}, which has no ONNX export")


def _of_checkpoint(path: Path) -> Source:
    checkpoint = read_stored(path, safetensors.numpy.load, "policy")
    saved = checkpoint.metadata["policy"]
    if saved["class"] != "RogueNet":
        raise _other_network(saved["class"])
    agent = load_agent(path)  # checks spaces, options and weights
    space = space_from_schema(checkpoint.metadata["spaces"])
    settings = from_options(RogueNetConfig, saved["config"])
    return Source(space, settings, ModuleWeights(stored_weights(checkpoint)), agent)


def _of_network(net: RogueNetwork) -> Source:
    changed = _changed_module(net)
    if changed is not None:
        raise ExportError(f"export_onnx: {changed}. Only the modules of the library have an ONNX export.")
    arrays = {name: tensor.detach().double().cpu().numpy() for name, tensor in net.state_dict().items()}
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ExportError(f"export_onnx: parameter {name}: expected finite numbers, got NaN or infinity")
    reader = copy.deepcopy(net)
    reader.adapt_to(net.observation_space)
    return Source(net.observation_space, net.settings, ModuleWeights(arrays), reader)


def _changed_module(net: RogueNetwork) -> str | None:
    """Return which module is not as in a new RogueNet of the same options; None: all are."""
    import torch

    from ..rogue_net.network import RogueNetwork

    with torch.random.fork_rng(devices=[]):
        new = dict(RogueNetwork(net.observation_space, net.action_space, **net.config).named_modules())
    found = dict(net.named_modules())
    for name in [name for name in new if name not in found]:
        return f"module {name}: expected {type(new[name]).__name__}, got none"
    for name, module in found.items():
        if not name:
            continue
        if name not in new:
            return f"module {name}: expected none, got {type(module).__name__}"
        if type(module) is not type(new[name]) or module.extra_repr() != new[name].extra_repr():
            return f"module {name}: expected {_short(new[name])}, got {_short(module)}"
        if "forward" in vars(module):
            return f"module {name}: expected the forward of {type(module).__name__}, got another one"
        if module._forward_hooks or module._forward_pre_hooks:
            return f"module {name}: expected no hooks, got {_hooks(module)}"
    return None


def _short(module: Any) -> str:
    return f"{type(module).__name__}({module.extra_repr()})"


def _hooks(module: Any) -> str:
    hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
    return ", ".join(getattr(hook, "__qualname__", type(hook).__name__) for hook in hooks)
