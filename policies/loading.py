"""Networks of torch out of checkpoints; `runtime` does without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import safetensors.torch

from ..envs.spaces.space_schema import space_from_schema
from .baselines import GridNet, ImpalaGridNet, ImpalaNet, TransformerNet, UnitActionNet
from .baselines.map_policy import MapPolicy
from .checkpoint import CheckpointError, check_weights, newest_checkpoint, read_stored
from .rogue_net import RogueNet

#: What checkpoints can hold.
AnyNetwork: TypeAlias = RogueNet | MapPolicy | ImpalaNet

#: By the name that they give.
_NETWORKS: dict[str, type[AnyNetwork]] = {
    network.__name__: network
    for network in (RogueNet, TransformerNet, GridNet, ImpalaGridNet, UnitActionNet, ImpalaNet)
}


def load_policy(path: str | Path, **options: Any) -> AnyNetwork:
    """The network of a checkpoint, or of the newest checkpoint of a run folder, ready to act.

        policy = load_policy("runs/first")

    Args:
        path: a folder `step_…`, or a run folder.
        options: replace options of the network that don't change its weights, for instance `attention`.

    Raises:
        TypeError, ValueError: there is no such option, or it can't have this value.
        CheckpointError: there is no checkpoint, it is corrupt, or it holds another kind of network.
    """
    path = newest_checkpoint(path)
    checkpoint = read_stored(path, safetensors.torch.load, "policy")
    try:
        saved = checkpoint.metadata["policy"]
        network: Any = _NETWORKS.get(saved["class"])
        if network is None:
            known = ", ".join(_NETWORKS)
            raise CheckpointError(f"checkpoint {path} holds a {saved['class']}, none of {known}")
        space = space_from_schema(checkpoint.metadata["spaces"])
        policy = network(space, space.actions, **saved["config"])
        check_weights(policy.state_dict(), checkpoint)
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"checkpoint {path} does not describe a network: {error!r}") from error
    if options:
        policy = network(space, space.actions, **{**saved["config"], **options})
        check_weights(policy.state_dict(), checkpoint)
    policy.load_state_dict(checkpoint.tensors["policy"])
    return policy.eval()
