"""Networks of torch out of checkpoints; `runtime` does without torch."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, overload

import safetensors.torch
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..envs.spaces.space_schema import space_from_schema
from .baselines import GridNet, ImpalaGridNet, ImpalaNet, TransformerNet, UnitActionNet
from .baselines.baseline import Baseline
from .checkpoint import (
    READS,
    CheckpointError,
    StoredCheckpoint,
    check_weights,
    edited_network,
    malformed_means,
    network_spaces,
    newest_checkpoint,
    read_stored,
)
from .declared_sizes import check_declared_sizes
from .policy import fit_to
from .rogue_net import RogueNet

#: What checkpoints can hold.
AnyNetwork: TypeAlias = RogueNet | Baseline

_Own = TypeVar("_Own", bound=nn.Module)

#: By the name that they give.
_NETWORKS: dict[str, type[AnyNetwork]] = {
    network.__name__: network
    for network in (RogueNet, TransformerNet, GridNet, ImpalaGridNet, UnitActionNet, ImpalaNet)
}


@overload
def load_policy(path: str | Path, *, network: type[_Own], **options: Any) -> _Own: ...


@overload
def load_policy(path: str | Path, *, network: None = None, **options: Any) -> AnyNetwork: ...


def load_policy(path: str | Path, *, network: type[Any] | None = None, **options: Any) -> Any:
    """The network of a checkpoint, or of the newest checkpoint of a run folder, ready to act.

        policy = load_policy("runs/first")

    Args:
        path: a folder `step_…`, or a run folder.
        network: the class of your own that the checkpoint names, such as a subclass of RogueNet. It is called
            as `network(observation_space, action_space, **config)`, with the `config` of the one saved.
        options: replace options of the network that don't change its weights, for instance `engine`.

    A network that was saved after `adapt_to` reads the same space again. A warning says if modules of the
    network were edited before it was saved: the one returned has none of it.

    Raises:
        TypeError, ValueError: `path` is no path, there is no such option, it can't have this value, or the
            weights were trained with another one.
        CheckpointError: there is no checkpoint, it is corrupt, or it holds another kind of network.
    """
    path = newest_checkpoint(path)
    checkpoint = read_stored(path, safetensors.torch.load, "policy")
    with malformed_means(f"checkpoint {path} does not describe a network"):
        policy = _described(checkpoint, network)
    if options:
        config = {**checkpoint.metadata["policy"]["config"], **options}
        stored, policy = policy, type(policy)(policy.observation_space, policy.action_space, **config)
        check_weights(policy.state_dict(), checkpoint)
        _check_alike(stored, policy)
    policy.load_state_dict(checkpoint.tensors["policy"])
    with malformed_means(f"checkpoint {path} does not say what the network reads"):
        if READS in checkpoint.metadata:
            fit_to(policy, network_spaces(checkpoint.metadata)[1])
    if saved_otherwise := edited_network(checkpoint.metadata):
        warnings.warn(f"load_policy: {path}: {saved_otherwise}", UserWarning, stacklevel=2)
    return policy.eval()


def _check_alike(stored: AnyNetwork, changed: AnyNetwork) -> None:
    """Check that options changed nothing of what the weights compute."""
    if not (isinstance(stored, RogueNet) and isinstance(changed, RogueNet)):
        return
    if difference := stored.settings.difference(changed.settings):
        raise ValueError(f"load_policy: the weights were trained with another network: {difference}")


def _described(checkpoint: StoredCheckpoint[Tensor], own: type[Any] | None) -> AnyNetwork:
    """Return a new network of the class, spaces and options in the metadata, which the stored weights fit.

    Raises:
        CheckpointError: it has other weights, or too few of them for the sizes that the metadata names.
    """
    saved = checkpoint.metadata["policy"]
    known = _NETWORKS if own is None else {own.__name__: own}
    network: Any = known.get(saved["class"])
    if network is None:
        raise CheckpointError(
            f"checkpoint {checkpoint.path} holds a {saved['class']}: expected one of {', '.join(known)}. A"
            " class of your own is given as network=, to load_policy"
        )
    if own is not None and own not in _NETWORKS.values():
        space = space_from_schema(checkpoint.metadata["spaces"])
        mine: AnyNetwork = network(space, space.actions, **saved["config"])
        check_weights(mine.state_dict(), checkpoint)
        return mine
    check_declared_sizes(checkpoint)
    space = space_from_schema(checkpoint.metadata["spaces"])
    with torch.device("meta"), _NoInitialization():  # its shapes, without memory
        shapes = network(space, space.actions, **saved["config"]).state_dict()
    check_weights(shapes, checkpoint)
    policy: AnyNetwork = network(space, space.actions, **saved["config"])
    return policy


class _NoInitialization(TorchFunctionMode):
    """Leaves tensors as they are allocated. (The first random number on "meta" takes seconds of imports.)"""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init" or func.__name__ in ("normal_", "uniform_"):
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)
