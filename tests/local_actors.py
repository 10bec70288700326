"""Actors in threads of this process: all of `ActorRollouts` but the transport."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import entitize as ez
from entitize.trainers.distributed import ActorRollouts, RolloutActor
from entitize.trainers.distributed.actor_rollouts import ActorLost, RemoteActor, Wait


class LocalActor:
    """A `RolloutActor` in a thread, which is lost when `kill` is called or `chance` has it."""

    def __init__(self, make_venv: Callable[[int], ez.EntityVectorEnv], chance: Callable[[], bool]) -> None:
        self._actor = RolloutActor(make_venv)
        self._thread = ThreadPoolExecutor(1)
        self._chance = chance
        self.is_lost = False
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def _run(self, method: str, arguments: tuple[Any, ...]) -> Any:
        self.is_lost |= self._chance()
        if self.is_lost:
            raise ActorLost("killed")
        # A copy, as a rollout is valid until the next call.
        return copy.deepcopy(getattr(self._actor, method)(*arguments))

    def call(self, method: str, *arguments: Any) -> Wait:
        self.calls.append((method, arguments))
        future: Future[Any] = self._thread.submit(self._run, method, arguments)

        def wait(seconds: float | None) -> Any:
            try:
                return future.result(seconds)
            except TimeoutError as error:
                raise ActorLost(f"no answer within {seconds:g} s") from error

        return wait

    def kill(self) -> None:
        self.is_lost = True
        self._thread.shutdown(wait=False)


class LocalRollouts(ActorRollouts):
    """Rollouts from actors in threads, of which each call is lost with probability `loss`."""

    def __init__(
        self, make_env: Any, policy: ez.Policy, num_actors: int, num_envs: int, loss: float = 0.0, **more: Any
    ) -> None:
        super().__init__(policy, num_actors, num_envs, **more)
        self._make_env = make_env
        self._random = random.Random(0)
        self.loss = loss
        self.started: list[LocalActor] = []
        self.start_actors()

    def start_actor(self, index: int) -> RemoteActor:
        actor = LocalActor(partial(ez.make_vec, self._make_env), lambda: self._random.random() < self.loss)
        self.started.append(actor)
        return actor
