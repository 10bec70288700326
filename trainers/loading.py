"""Networks out of checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..policies.baselines import GridNet, ImpalaGridNet, TransformerNet, UnitActionNet
from ..policies.baselines.map_policy import MapPolicy
from ..policies.rogue_net import RogueNet
from .checkpoint import CheckpointError, checkpoint_paths, read_checkpoint
from .space_schema import space_from_schema
from .trainer_state import check_weights

#: What checkpoints can hold, by the name that they give.
_NETWORKS: dict[str, type[RogueNet] | type[MapPolicy]] = {
    network.__name__: network for network in (RogueNet, TransformerNet, GridNet, ImpalaGridNet, UnitActionNet)
}


def load_policy(path: str | Path, **options: Any) -> RogueNet | MapPolicy:
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
    checkpoint = read_checkpoint(path)
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


def newest_checkpoint(path: str | Path) -> Path:
    """The newest checkpoint of a run folder; any other path as it is.

    Raises:
        CheckpointError: the run has none.
    """
    path = Path(path)
    if not (path / "checkpoints").is_dir():
        return path
    paths = checkpoint_paths(path / "checkpoints")
    if not paths:
        raise CheckpointError(f"run {path} has written no checkpoint yet")
    return paths[-1]
