"""Actors of a training run: processes of Ray that play while this one learns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..policies import Policy
from ..trainers.distributed import ActorError, ActorRollouts
from ..trainers.ranks import Ranks
from .config import TrainConfig
from .environments import with_lanes
from .errors import UserError
from .network_options import ROGUE_NET


@dataclass(frozen=True)
class Actors:
    """Number of actors, of updates that they may be behind, and of seconds that a rollout may take.

    A resumed run may have others.
    """

    count: int
    staleness: int = 0
    timeout: float = 300.0

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UserError(f"--ray: expected at least 1, got {self.count}")
        if self.staleness < 0:
            raise UserError(f"--ray-staleness: expected at least 0, got {self.staleness}")
        if not self.timeout > 0:
            raise UserError(f"--ray-timeout: expected more than 0 seconds, got {self.timeout:g}")


def check_ray_actors(config: TrainConfig, actors: Actors, ranks: Ranks) -> None:
    """Check that actors can play what `config` trains.

    Raises:
        UserError: they can't; the message names the option.
    """
    if ranks.size > 1:
        raise UserError(f"--ray: expected one process, got {ranks.size} ranks. Start it without torchrun")
    if config.opponents is not None:
        raise UserError("--ray: expected no opponents, got some. Learned opponents play in one process only")
    if config.network != ROGUE_NET:
        raise UserError(
            f"--ray: network: expected {ROGUE_NET}, which acts without torch, got {config.network}"
        )
    if config.env.num_envs % actors.count:
        raise UserError(
            f"env.num_envs: expected a multiple of the {actors.count} actors, got {config.env.num_envs}"
        )


@contextmanager
def ray_rollouts(config: TrainConfig, policy: Policy, actors: Actors) -> Iterator[ActorRollouts]:
    """Start the actors, and end them afterwards.

    Raises:
        UserError: Ray is not installed, or an actor can't make its environments.
    """
    share = with_lanes(config.env, config.env.num_envs // actors.count)
    try:
        from ..trainers.distributed import RayRollouts

        rollouts = RayRollouts(
            share.id,
            policy,
            actors.count,
            num_envs=config.env.num_envs,
            staleness=actors.staleness,
            actor_timeout=actors.timeout,
            view=share.view or None,
            **share.kwargs,
        )
    except (ActorError, ImportError, ValueError) as error:
        raise UserError(f"--ray: {error}") from error
    with rollouts:
        yield rollouts
