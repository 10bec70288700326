"""`RayRollouts`: rollouts from Ray actors."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...adapters.environment_resolver import EnvSource, make_vec
from ...policies import Policy
from .actor import RolloutActor
from .actor_rollouts import ACTOR_TIMEOUT, ActorError, ActorLost, ActorRollouts, RemoteActor, Wait

if TYPE_CHECKING:
    from ...adapters.gymnasium.views import View


@contextmanager
def _variables(**values: str) -> Iterator[None]:
    """Set environment variables that are not set, while inside."""
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


# Ray reads it when it is imported, and else prints a paragraph for each actor that ends.
with _variables(RAY_DEDUP_LOGS_SKIP_REGEX="."):
    import ray
    from ray.exceptions import GetTimeoutError, ObjectLostError, RayActorError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


class RayRollouts(ActorRollouts):
    """Collects rollouts from Ray actors, which play without torch.

        policy = ez.RogueNet(*spaces)
        with ez.distributed.RayRollouts("Procgen/bigfish", policy, num_actors=4, num_envs=64) as rollouts:
            ez.PPO(policy, rollouts, run_dir="runs/bigfish").train()

    Each actor takes one CPU of Ray; one that replaces another takes none, and so finds a place even if a
    machine has left. If Ray runs already in this process, its actors are there; if the environment variable
    RAY_ADDRESS names a cluster, there; otherwise Ray is started on this machine with as many CPUs as actors,
    and ended by `close`.

    Args:
        make_env: what `ez.make_vec` takes: an id, "module:function", or a function.
        policy: what the trainer learns: a RogueNet that acts without torch (docs/runtime.md).
        num_actors: how many processes play.
        num_envs: environments of all actors together; None: one for each.
        staleness, max_restarts, actor_timeout: see `ActorRollouts`.
        view, kwargs: as for `ez.make_vec`.

    Raises:
        TypeError, ValueError, ActorError: see `ActorRollouts`.
    """

    def __init__(
        self,
        make_env: EnvSource,
        policy: Policy,
        num_actors: int,
        *,
        num_envs: int | None = None,
        staleness: int = 0,
        max_restarts: int = 3,
        actor_timeout: float | None = ACTOR_TIMEOUT,
        view: View | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        num_envs = num_actors if num_envs is None else num_envs
        super().__init__(policy, num_actors, num_envs, staleness, max_restarts, actor_timeout)
        self._make_venv = partial(make_vec, make_env, view=view, **kwargs)
        self._owns_ray = _start_ray(num_actors)
        try:
            self.start_actors()
        except BaseException:
            self.close()
            raise

    def start_actor(self, index: int) -> RemoteActor:
        """Return a new actor; its environments are made later."""
        losses = self._members[index].losses if self._members else 0
        # With its machine, the CPU of the actor that this one replaces may be gone. Ray may not have noticed
        # that yet: the machine that is there for sure is the learner's.
        own = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        place: Any = "SPREAD" if losses < 2 else own  # Ray's types name other strategies only
        actor = ray.remote(num_cpus=0 if losses else 1, scheduling_strategy=place)(RolloutActor)
        return _RayActor(actor.remote(self._make_venv))

    def broadcast(self, weights: NDArray[np.float32]) -> Any:
        """Return `weights` in Ray's object store: they are written once, for all actors of a machine."""
        return ray.put(weights)

    def close(self) -> None:
        """End all actors, and Ray if this started it."""
        super().close()
        if self._owns_ray:
            self._owns_ray = False
            ray.shutdown()


def _start_ray(num_cpus: int) -> bool:
    """Return True if Ray was started, False if it runs in this process already.

    Raises:
        ActorError: it can't be started, or the cluster of RAY_ADDRESS not be reached.
    """
    if ray.is_initialized():
        return False
    # "local": or else it would join a cluster that runs on this machine already.
    own: dict[str, Any] = {"address": "local", "num_cpus": num_cpus}
    options = {} if os.environ.get("RAY_ADDRESS") else own
    # By Ray's default actors run at niceness 15, and starve beside anything else.
    with _variables(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0"):
        try:
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, **options)
        except Exception as error:  # as Ray raises where a node does not start in time
            ray.shutdown()
            raise ActorError(f"RayRollouts: Ray can't be started or reached: {error}") from error
    return True


class _RayActor:
    """A `RolloutActor` in a process of Ray."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def call(self, method: str, *arguments: Any) -> Wait:
        """Ask for a call; see `RemoteActor`."""
        return partial(_wait, getattr(self._handle, method).remote(*arguments))

    def kill(self) -> None:
        """End the process."""
        ray.kill(self._handle)


def _wait(reference: Any, seconds: float | None) -> Any:
    """Return an actor's result.

    Raises:
        ActorLost: there is none.
    """
    try:
        return ray.get(reference, timeout=seconds)
    except (RayActorError, ObjectLostError) as error:
        raise ActorLost(f"{type(error).__name__}: its process ended") from error
    except GetTimeoutError as error:
        raise ActorLost(
            f"no answer within {seconds:g} s. For slow environments pass a longer actor_timeout, or None"
        ) from error
    except RayTaskError as error:
        raise error.cause from error
