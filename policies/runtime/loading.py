"""Agents out of checkpoints."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from typing import Any

import safetensors.numpy
from numpy.typing import NDArray

from ...envs import EntitySpace
from ...envs.seeds import lane_seeds
from ..checkpoint import (
    CheckpointError,
    StoredCheckpoint,
    edited_network,
    malformed_means,
    network_spaces,
    newest_checkpoint,
    read_stored,
)
from ..declared_sizes import check_declared_sizes
from ..engines.engine_limits import fused_limit
from ..rogue_net.config import RogueNetConfig, from_options
from .agent import Agent
from .network import KernelNetwork, Network

_log = logging.getLogger(__name__)


def load_agent(path: str | Path, seed: int | None = None) -> Agent:
    """The trained network of a run or of a checkpoint, ready to act, without torch.

        agent = ez.load_agent("runs/first")

    A RogueNet with options that the fused kernels know (docs/runtime.md lists them) runs by NumPy and Numba
    alone. Other networks run on torch, if it is installed.

    Args:
        path: a run folder (its newest checkpoint), or a checkpoint folder `step_…`.
        seed: of the agent's own random numbers; None: another one each time.

    Raises:
        TypeError: `path` is no path.
        ValueError: `seed` is negative or no whole number.
        CheckpointError: there is no checkpoint, it is corrupt, or it holds no network or an edited
            one.
        ImportError: the network needs torch, which is not installed.
    """
    lane_seeds(seed, 1)  # checks it
    path = newest_checkpoint(path)
    checkpoint = read_stored(path, safetensors.numpy.load, "policy")
    with malformed_means(f"checkpoint {path} does not describe a network"):
        check_declared_sizes(checkpoint)
        if saved_otherwise := edited_network(checkpoint.metadata):
            raise CheckpointError(f"load_agent: {path}: {saved_otherwise}, or load it with load_policy")
        space, read = network_spaces(checkpoint.metadata)
        agent = Agent(_network(space, checkpoint), space, seed)
        agent.adapt_to(read)
    return agent


def _network(space: EntitySpace, checkpoint: StoredCheckpoint[NDArray[Any]]) -> Network:
    saved = checkpoint.metadata["policy"]
    reason: str | None = f"it is a {saved['class']}"
    if saved["class"] == "RogueNet":
        settings = from_options(RogueNetConfig, saved["config"])
        reason = fused_limit(settings, space)
        if reason is None:
            return KernelNetwork(space, settings, checkpoint)
    if importlib.util.find_spec("torch") is None:
        raise ImportError(
            f"the network of {checkpoint.path} needs torch ({reason}): pip install 'entitize[train]'"
        )
    _log.info("the network of %s runs on torch: %s", checkpoint.path, reason)
    from ..loading import load_policy

    return load_policy(checkpoint.path)
