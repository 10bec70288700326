"""`Agent`: a trained network that chooses the actions of a game, one step or many at a time."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ...envs import EntityActionSpace, EntityBatch, EntitySpace, Observation, ObservationError
from ...envs.actions import Action
from ...envs.batch.resolve import Resolver
from ...envs.decisions import decide_member, decide_members
from ..policy import ActResult
from .network import Network
from .steps import StepReader

_Choice = TypeVar("_Choice", bound=Enum)
_Seen: TypeAlias = EntityBatch | Mapping[str, Any] | Observation


class Agent:
    """Chooses actions; `load_agent` makes one of a checkpoint.

        agent = ez.load_agent("runs/first")
        observation, _ = env.reset()
        observation, *_ = env.step(agent.act(observation))

    Attributes:
        observation_space, action_space: what it was trained with.
        reads: the space whose observations it reads: `observation_space`, or another one after `adapt_to`.
        rng: where it draws from when it is asked without a generator.
    """

    def __init__(self, network: Network, space: EntitySpace, seed: int | None = None) -> None:
        self.observation_space: EntitySpace = space
        self.action_space: EntityActionSpace = space.actions
        self.rng = np.random.default_rng(seed)
        self._network = network
        self._read_space(space)

    def __repr__(self) -> str:
        return f"Agent({self.observation_space})"

    def _read_space(self, space: EntitySpace) -> None:
        self.reads = space
        self._reader = StepReader(space)
        self._resolver = Resolver(space, "the game")

    @overload
    def act(
        self, seen: EntityBatch, rng: np.random.Generator | None = None, deterministic: bool = False
    ) -> ActResult: ...
    @overload
    def act(
        self, seen: Observation, rng: type[_Choice], deterministic: bool = False
    ) -> _Choice | dict[Any, _Choice]: ...
    @overload
    def act(
        self, seen: Observation, rng: np.random.Generator | None = None, deterministic: bool = False
    ) -> dict[str, Action]: ...
    @overload
    def act(
        self, seen: Mapping[str, Any], rng: np.random.Generator | None = None, deterministic: bool = False
    ) -> dict[str, NDArray[Any]]: ...
    def act(
        self,
        seen: EntityBatch | Observation | Mapping[str, Any],
        rng: np.random.Generator | type[Enum] | None = None,
        deterministic: bool = False,
    ) -> Any:
        """Choose an action for every actor.

        Args:
            seen: a batch of steps, as vector environments show them; or one step, either the dict that an
                `EntityEnv` shows or an `Observation`, as an environment's author (or a game) writes it.
            rng: draws; None: the agent's own. Or for an `Observation` the Enum of the action to decide:
                `act(ez.Obs(player, enemies), Move)` returns a `Move`, and a dict from actor to `Move` where
                the observation's `actions` name the actors.
            deterministic: take the most probable choices and draw nothing.

        Returns:
            of a batch what `Policy.act` returns; of a dict the dict of arrays that `EntityEnv.step` takes; of
            an `Observation` an `Action` by name, with the ids of the entities, as `EntityEnv._step` gets it.

        Raises:
            ObservationError: a step is not of the space; names the entity type, feature or action.
            TypeError: `rng` is no generator.
            ValueError: a batch does not fit the space, or an actor may do nothing.
        """
        if isinstance(rng, type):
            return decide_members(
                *(seen, rng, self.action_space),  # type: ignore[arg-type]
                lambda asked: self._act_for_ids(asked, None, deterministic),
            )
        if isinstance(seen, EntityBatch):
            return self._network.act(seen, self.rng if rng is None else rng, deterministic)
        if isinstance(seen, Observation):
            return self._act_for_ids(seen, rng, deterministic)
        return self._act_for_step(seen, rng, deterministic)

    def _act_for_ids(
        self, seen: Observation, rng: np.random.Generator | None, deterministic: bool
    ) -> dict[str, Action]:
        resolved = self._resolver.resolve(seen)
        actions = self._act_for_step(resolved.plain(self._reader.space), rng, deterministic)
        return self._resolver.dispatch(resolved, actions)

    def _act_for_step(
        self, seen: Mapping[str, Any], rng: np.random.Generator | None, deterministic: bool
    ) -> dict[str, NDArray[Any]]:
        batch = self._reader.read(seen)
        try:
            result = self._network.act(batch, self.rng if rng is None else rng, deterministic)
        except ValueError as error:
            raise ObservationError(self._reader.space.problem(seen) or str(error)) from None
        return {name: chosen.values for name, chosen in result.actions.items()}

    def choose(
        self,
        seen: Observation,
        choices: type[_Choice],
        rng: np.random.Generator | None = None,
        deterministic: bool = False,
    ) -> _Choice:
        """One decision as a member of the Enum that the action was declared with.

            move = agent.choose(ez.Obs(player, enemies), Move)

        The first entity acts, unless `actions` names another actor.

        Raises:
            TypeError: no action, or more than one, has these choices.
            ObservationError: the step is not of the space, or not one decision is to be made.
        """
        return decide_member(
            seen, choices, self.action_space, lambda asked: self._act_for_ids(asked, rng, deterministic)
        )

    def game_over(
        self,
        seen: Observation | None = None,
        *,
        score: float | None = None,
        reward: float | None = None,
        truncated: bool = False,
        outcome: str | None = None,
    ) -> None:
        """Do nothing: a game that is trained in reports the end of an episode here (see `ez.program`)."""

    def value(self, seen: _Seen) -> NDArray[np.float32]:
        """The return that the network expects at each step (B,); of one observation (1,).

        Raises:
            ValueError: as for `act`.
        """
        return self._network.value(self._as_batch(seen))

    def log_probs(self, seen: _Seen) -> dict[str, NDArray[np.float32]]:
        """The log-probability of every choice of each action, of the shape of its mask.

        `np.exp` makes probabilities of them. Those of categorical actions are (A, C), of A actors and C
        choices; those of select-entity actions are (P,), actor by actor, of each with every entity of its
        step that some actor may select. Choices of conditional multi-discrete actions have those within their
        component. Forbidden choices have -inf. Continuous actions are left out, and so are networks in which
        actors take turns.

        Raises:
            ValueError: as for `act`.
        """
        found = self._network.log_probs(self._as_batch(seen)).items()
        return {
            name: given.detach().float().cpu().numpy() if hasattr(given, "detach") else given
            for name, given in found
        }

    def _as_batch(self, seen: _Seen) -> EntityBatch:
        if isinstance(seen, Observation):
            seen = self._resolver.resolve(seen).plain(self._reader.space)
        return seen if isinstance(seen, EntityBatch) else self._reader.read(seen)

    def adapt_to(self, space: EntitySpace) -> None:
        """Read steps of `space`, which may have more entity types and features than the network knows.

        What the network does not know is left out, by name; features may come in another order.
        `adapt_to(agent.observation_space)` undoes it.

        Raises:
            TypeError: `space` is no `EntitySpace`.
            ValueError: a type or feature that the network needs is missing, or the actions differ.
        """
        self._network.adapt_to(space)
        self._read_space(space)
