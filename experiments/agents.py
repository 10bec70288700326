"""The agents that commands play with: trained ones out of run folders, and the random one."""

from __future__ import annotations

from pathlib import Path

from ..envs import EntitySpace
from ..policies.loading import AnyNetwork
from ..trainers import CheckpointError, load_policy
from ..trainers.evaluation import RandomActor as RandomActor
from .errors import UserError

#: What the random policy is called in tables.
RANDOM = "random policy"


def load_agent(path: Path, space: EntitySpace | None = None) -> AnyNetwork:
    """The network of a run's newest checkpoint, or of a checkpoint folder, for environments of `space`.

    `space` may have more entity types and features than those that the network was trained with. Without it
    the network is for the spaces of its training.

    Raises:
        UserError: there is no checkpoint, it is corrupt or foreign, or needs what `space` doesn't have.
    """
    try:
        policy = load_policy(path)
        if space is not None:
            policy.adapt_to(space)
    except CheckpointError as error:
        raise UserError(str(error)) from error
    except ValueError as error:
        raise UserError(f"the network of {path} does not fit the environments: {error}") from error
    return policy
