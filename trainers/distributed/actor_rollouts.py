"""`ActorRollouts`: rollouts from actors, whatever carries the calls to them.

Shape alphabet: P numbers of all parameters.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from gymnasium.error import ClosedEnvironmentError
from numpy.typing import NDArray

from ...envs import EntityBatch
from ...envs.batch import concatenate_batches
from ...envs.errors import seconds_or_none, whole_number
from ...policies import Policy, RogueNet
from ...policies.engines.engine_limits import fused_limit
from ...policies.engines.fused_engine import Parameters
from ...policies.inputs import Inputs
from ...policies.kernels.fused_network import FusedNetwork
from ..config import PPOConfig
from ..rollout import Rollout
from ..rollout_source import RolloutSource
from ..runs.guard import NonFiniteError
from ..schedule import Clock

#: Seconds that an actor may take to answer, by default.
ACTOR_TIMEOUT = 300.0
#: Until its first rollout an actor may take this many times as long: environments and kernels are made.
_FIRST_TIME = 10

_log = logging.getLogger(__name__)


Wait = Callable[[float | None], Any]


class ActorError(RuntimeError):
    """An actor failed, or ended again and again; the message names it."""


class ActorLost(Exception):
    """An actor's process has ended, or does not answer."""


class RemoteActor(Protocol):
    """Interface of a `RolloutActor` in another process."""

    def call(self, method: str, *arguments: Any) -> Wait:
        """Ask for a call of `method`, after those that were asked for before.

        Returns:
            a function that waits so many seconds for the result (None: forever), and returns it. It raises
            what the method raised, or ActorLost.
        """
        ...

    def kill(self) -> None:
        """End the process."""
        ...


@dataclass(eq=False)
class _Request:
    """A rollout that was asked for."""

    number: int
    weights: Any
    fraction: float
    result: Wait


@dataclass(eq=False)
class _Member:
    """One of the actors."""

    index: int
    actor: RemoteActor
    requests: deque[_Request] = field(default_factory=deque)
    losses: int = 0  # since its last rollout
    has_played: bool = False  # a rollout, since it was started


class ActorRollouts(RolloutSource):
    """Collects each rollout from `num_actors` actors, which play `num_envs / num_actors` environments each.

    Rollout n is played with the weights after n - `staleness` updates, whatever the actors' speed, so that
    results can be reproduced. With staleness 0 actors wait while the trainer updates, and play with its
    weights; with 1 they play the next rollout meanwhile.

    Environment i of all is seeded with `seed + i`. Actor a draws the actions of its rollout n since the
    episodes started with `np.random.default_rng((seed, a, n))`.

    An actor that is lost is started again, begins new episodes, and plays what it was asked for once more.

    Args:
        policy: what the trainer learns.
        staleness: see above.
        max_restarts: how often an actor may be lost without a rollout in between.
        actor_timeout: seconds that an actor may take for a rollout, ten times as long for its first one; then
            it is ended and started again. None: no limit.

    Raises:
        TypeError, ValueError: a number is out of its range, `num_envs` is no multiple of `num_actors`,
            `policy` is no RogueNet that the kernels compute, or it does not fit the environments.
        ActorError: an actor can't make its environments.
    """

    def __init__(
        self,
        policy: Policy,
        num_actors: int,
        num_envs: int,
        staleness: int = 0,
        max_restarts: int = 3,
        actor_timeout: float | None = ACTOR_TIMEOUT,
    ) -> None:
        where = type(self).__name__
        self.num_actors = whole_number(f"{where}: num_actors", num_actors)
        self.num_envs = whole_number(f"{where}: num_envs", num_envs)
        self.staleness = whole_number(f"{where}: staleness", staleness, 0)
        self.max_restarts = whole_number(f"{where}: max_restarts", max_restarts, 0)
        self.actor_timeout = seconds_or_none(f"{where}: actor_timeout", actor_timeout)
        if num_envs % num_actors:
            raise ValueError(f"num_envs: expected a multiple of the {num_actors} actors, got {num_envs}")
        self._share = num_envs // num_actors
        self._policy = checked_policy(where, policy)
        network = FusedNetwork(self._policy.inputs.features, policy.action_space, self._policy.settings)
        self._parameters = Parameters(self._policy, network.layout)
        self._members: list[_Member] = []
        self._clock = Clock()
        self._num_steps: int | None = None  # None: no trainer has opened this
        self._has_episodes = self._is_closed = False
        self._seed = self._requested = self._taken = self.restarts = 0
        self._fraction = 0.0

    def start_actors(self) -> None:
        """Start all actors and let them make their environments; call it once.

        Raises:
            ActorError: an actor can't make its environments.
            ValueError: the policy does not fit them.
        """
        self._members = [_Member(index, self.start_actor(index)) for index in range(self.num_actors)]
        results = [member.actor.call("make", self._share) for member in self._members]
        made = [
            self._answer(member, result, "its environments can't be made")
            for member, result in zip(self._members, results, strict=True)
        ]
        policy = self._policy
        try:
            Inputs(policy.observation_space, policy.settings).adapt_to(made[0].observation_space)
        except ValueError as error:
            raise ValueError(f"{type(self).__name__}: the policy does not fit make_env: {error}") from error
        self.single_observation_space = made[0].observation_space
        self.single_action_space = made[0].action_space
        spec = made[0].vector_spec
        self.vector_spec = None if spec is None else replace(spec, num_envs=self.num_envs)

    @abstractmethod
    def start_actor(self, index: int) -> RemoteActor:
        """Return a new actor; its environments are made later."""

    def broadcast(self, weights: NDArray[np.float32]) -> Any:
        """Return what actors get as `weights` (P,): by default the array itself."""
        return weights

    @property
    def actors(self) -> list[RemoteActor]:
        """The actors that play now."""
        return [member.actor for member in self._members]

    def close(self) -> None:
        """End all actors."""
        self._is_closed = True
        members, self._members = self._members, []
        for member in members:
            member.actor.kill()

    def __enter__(self) -> ActorRollouts:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- the source's interface -----------------------------------------------------------------------------

    @property
    def has_episodes(self) -> bool:
        """True if episodes have started and not been stopped; False: `start_episodes` comes next."""
        return self._has_episodes

    def set_progress(self, fraction: float) -> None:
        """Take the fraction of training that is done: the environments get it with the next rollout."""
        self._fraction = fraction

    def open(self, policy: Policy, config: PPOConfig, clock: Clock) -> None:
        """Prepare for the trainer that plays `policy`.

        Raises:
            ValueError: `policy` is not the one that this was made for.
            ClosedEnvironmentError: `close` was called.
        """
        if policy is not self._policy:
            raise ValueError(f"{type(self).__name__}: expected PPO with the policy that it was made for")
        self._check_open()
        self._has_episodes = False  # actors get new players, which know none of them
        self._num_steps, self._clock = config.num_steps, clock
        for member in self._members:
            self._answer(member, self._open(member), "its network can't be made")

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedEnvironmentError(f"{type(self).__name__} has been closed")

    def _open(self, member: _Member) -> Wait:
        space, options = self._policy.observation_space, self._policy.config
        return member.actor.call("open", space, options, self._num_steps)

    def start_episodes(self, seed: int) -> EntityBatch:
        """Start an episode in every environment, lane i with `seed + i`; return the steps of active lanes.

        Raises:
            ClosedEnvironmentError: `close` was called.
        """
        self._check_open()
        self._seed, self._requested, self._taken = seed, 0, 0
        results = []
        for member in self._members:
            member.requests.clear()
            member.losses = 0
            results.append(member.actor.call("start_episodes", seed + member.index * self._share))
        batches = []
        for member, result in zip(self._members, results, strict=True):
            try:
                batches.append(self._result(member, result))
            except ActorLost as error:
                batches.append(self._begin_anew(member, error, seed + member.index * self._share))
        self._has_episodes = True
        return concatenate_batches(batches)

    def stop_episodes(self) -> None:
        """Forget the episodes: new ones come next."""
        self._has_episodes = False

    def play(self) -> Rollout:
        """Return the next rollout.

        Raises:
            ActorError: an actor failed, or was lost more than `max_restarts` times.
            NonFiniteError: an actor met a number that is NaN or infinite.
            ClosedEnvironmentError: `close` was called.
        """
        self._check_open()
        self._has_episodes = False
        self._clock.start()
        weights = self.broadcast(self._parameters.flat(self._parameters.tensors()))
        while self._requested <= self._taken + self.staleness:
            for member in self._members:
                request = _Request(self._requested, weights, self._fraction, _nothing)
                member.requests.append(request)
                self._send(member, request)
            self._requested += 1
        parts = [self._take(member) for member in self._members]
        self._taken += 1
        self._clock.lap("env")
        rollout = Rollout.of_neighbours(parts)
        self._clock.lap("storage")
        self._has_episodes = True
        return rollout

    def training_metrics(self) -> dict[str, float]:
        """Return how often actors were started again."""
        return {"charts/actor_restarts": float(self.restarts)}

    # -- actors ---------------------------------------------------------------------------------------------

    def _send(self, member: _Member, request: _Request) -> None:
        draws = self._seed, member.index, request.number
        request.result = member.actor.call("play", request.weights, draws, request.fraction)

    def _take(self, member: _Member) -> Rollout:
        """Return the next rollout of an actor, which is started again as often as it is lost."""
        while True:
            try:
                rollout: Rollout = self._result(member, member.requests[0].result)
            except ActorLost as error:
                self._renew(member, error)
                continue
            member.requests.popleft()
            member.losses, member.has_played = 0, True
            return rollout

    def _renew(self, member: _Member, error: ActorLost) -> None:
        """Restart a lost actor in new episodes and request its outstanding rollouts."""
        entropy = self._seed, member.index, self.restarts
        seed = int(np.random.SeedSequence(entropy).generate_state(1)[0]) & 0x7FFFFFFF
        self._begin_anew(member, error, seed, True)
        for request in member.requests:
            self._send(member, request)

    def _begin_anew(
        self, member: _Member, error: ActorLost, seed: int, is_renewed: bool = False
    ) -> EntityBatch:
        """Start a lost actor again until its episodes have started; return their first steps."""
        while True:
            member.losses += 1
            if member.losses > self.max_restarts:
                raise ActorError(
                    f"actor {member.index}: lost {member.losses} times without a rollout in between: {error}"
                ) from error
            _log.warning("actor %d is started again: %s", member.index, error)
            try:
                self._start_again(member)
                batch: EntityBatch = self._result(
                    member, member.actor.call("start_episodes", seed, is_renewed)
                )
                return batch
            except ActorLost as again:
                error = again

    def _start_again(self, member: _Member) -> None:
        member.actor.kill()
        self.restarts += 1
        member.actor, member.has_played = self.start_actor(member.index), False
        self._result(member, member.actor.call("make", self._share))
        self._result(member, self._open(member))

    def _answer(self, member: _Member, result: Wait, what: str) -> Any:
        """Return the result of a call before there are episodes to lose."""
        try:
            return self._result(member, result)
        except ActorLost as error:
            raise ActorError(f"actor {member.index}: {what}: {error}") from error

    def _result(self, member: _Member, result: Wait) -> Any:
        """Return the result of a call.

        Raises:
            ActorLost: there is none.
            ActorError: the call raised an error; the message names actor and error.
        """
        seconds = self.actor_timeout
        if seconds is not None and not member.has_played:
            seconds *= _FIRST_TIME
        try:
            return result(seconds)
        except ActorLost:
            raise
        except NonFiniteError as error:
            first = member.index * self._share
            raise NonFiniteError(
                f"actor {member.index}, whose lane 0 is lane {first} of all: {error}"
            ) from error
        except Exception as error:
            raise ActorError(f"actor {member.index}: {type(error).__name__}: {error}") from error


def _nothing(_: float | None) -> Any:
    raise AssertionError("the request was not sent")


def checked_policy(where: str, policy: object) -> RogueNet:
    """Return `policy` if actors can play it.

    Raises:
        TypeError: it is no RogueNet.
        ValueError: the kernels can't compute it.
    """
    if not isinstance(policy, RogueNet):
        raise TypeError(f"{where}: policy: expected a RogueNet, got {type(policy).__name__}")
    if reason := fused_limit(policy.settings, policy.observation_space) or policy.acts_otherwise():
        raise ValueError(f"{where}: policy: expected a network that acts without torch, but {reason}")
    return policy
