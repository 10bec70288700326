"""`EntityEnv`: what an author subclasses to write an entity environment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import gymnasium

from .actions import Action, EntityActionSpace
from .batch.resolve import Observation, ResolvedObservation, Resolver
from .errors import ObsError, ObservationError, reset_needed
from .returned import LARGEST_REWARD, check_has_spaces, step_values
from .spaces import EntitySpace
from .spaces.changes import ADVICE, space_changes

Transition = tuple[Observation, float, bool, bool, dict[str, Any]]


class EntityEnv(gymnasium.Env[dict[str, Any], Mapping[str, Any]], ABC):
    """A Gymnasium environment whose observations are entities.

    The author sets `observation_space` and `action_space` in `__init__` and writes two methods, `_reset` and
    `_step`, that use `self.np_random` for all randomness:

        class Chase(EntityEnv):
            def __init__(self):
                self.action_space = EntityActionSpace({"Move": Categorical(["left", "right"])})
                self.observation_space = EntitySpace({"Cat": ["x"], "Mouse": ["x"]}, self.action_space)

            def _reset(self, options):
                self.cat, self.mouse = 0, int(self.np_random.integers(1, 9))
                return self._look()

            def _step(self, actions):
                for label in actions["Move"].labels:
                    self.cat += 1 if label == "right" else -1
                caught = self.cat == self.mouse
                return self._look(), float(caught), caught, False, {}

            def _look(self):
                return Observation(
                    entities={"Cat": [[self.cat]], "Mouse": [[self.mouse]]},
                    actions={"Move": CategoricalMask(actor_types=["Cat"])},
                )

    `reset` and `step` are Gymnasium's. They return plain dicts of fresh arrays (see `EntitySpace`), and
    `step` takes a dict from action name to array (see the action spaces), with one choice per actor. For an
    action without actors `_step` gets an `Action` without actors, or no entry if it is global; so it does for
    an action that is left out, which is an error unless the space is `optional` (see `EntityActionSpace`).
    Gymnasium's `SyncVectorEnv` takes such environments as they are, its `AsyncVectorEnv` with
    `shared_memory=False`; `ListVectorEnv` and `ProcessVectorEnv` batch them without padding or pickling.

    Raises:
        ObservationError: an observation that the space does not allow, naming the env class and the entity
            type, feature or action: an unknown type or action, a wrong number of features, NaN or infinity,
            ids that repeat or are too few, an actor or actee that does not exist, a mask of the wrong shape
            or one that allows an actor nothing; a reward that is no finite number in float32; or spaces that
            differ from those of the first episode.
        ActionError: an action that the last observation does not allow, naming the env class, action, actor
            and what was allowed. The env has not moved.
        gymnasium.error.ResetNeeded: `step` before the first `reset` or after the end of an episode.
    """

    observation_space: EntitySpace
    action_space: EntityActionSpace

    # Of this class alone: authors have an `_observe` or an `_episode` of their own.
    __resolved: ResolvedObservation | None = None  # the last observation of the running episode
    __resolver: Resolver | None = None
    __episode = 0  # of this environment, counted from 1

    @abstractmethod
    def _reset(self, options: dict[str, Any]) -> Observation | tuple[Observation, dict[str, Any]]:
        """Start an episode and return its observation, or (observation, info), info in fresh objects.

        `options` is what `reset` was given, or an empty dict.
        """

    @abstractmethod
    def _step(self, actions: dict[str, Action]) -> Transition:
        """Step and return (observation, reward, terminated, truncated, info), info in fresh objects."""

    def set_progress(self, fraction: float) -> None:
        """Receive the fraction of training that is done; trainers call this before each rollout.

        For levels that become harder or rewards that change; does nothing here.
        """

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode; a seed restarts the environment's random numbers."""
        super().reset(seed=seed)
        self.__resolved = None
        self.__episode += 1
        try:
            found = self._reset({} if options is None else options)
        except ObsError as error:
            raise error.of(self._shown_name()) from error
        observation, info = found if isinstance(found, tuple) and len(found) == 2 else (found, {})
        if not isinstance(info, Mapping):
            raise ObservationError(f"{type(self).__name__}._reset: info: expected a dict, got {info!r:.80}")
        return self.__observe("_reset", observation), dict(info)

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Carry out `action`; see the class for its form and for the errors raised."""
        if self.__resolved is None:
            raise reset_needed(type(self).__name__, "the first step and after the end of an episode")
        assert self.__resolver is not None
        actions = self.__resolver.dispatch(self.__resolved, action)
        self.__resolved = None  # a _step that raises leaves an env that needs a reset
        where = f"{type(self).__name__}._step"
        try:
            result = self._step(actions)
        except ObsError as error:
            raise error.of(self._shown_name()) from error
        observation, reward, terminated, truncated, info = step_values(where, result)
        if not -LARGEST_REWARD <= reward <= LARGEST_REWARD:
            raise ObservationError(f"{where}: reward: expected a finite float32, got {reward}")
        plain = self.__observe("_step", observation)
        if terminated or truncated:
            self.__resolved = None
        return plain, reward, terminated, truncated, dict(info)

    def __observe(self, method: str, observation: Observation) -> dict[str, Any]:
        """Return the plain form of an observation, which the author's `method` returned."""
        if self.__resolver is None:
            self.__prepare()
        assert self.__resolver is not None
        if self.observation_space is not self.__resolver.space:
            self.__check_same_space(method)
        if not isinstance(observation, Observation):
            where = f"{type(self).__name__}.{method}"
            kind = type(observation)
            got = observation if observation is None else kind.__name__
            if got == Observation.__name__:
                got = f"that of {kind.__module__}. entitize.from_entity_gym runs Entity Gym's environments"
            raise ObservationError(f"{where}: expected an Observation, got {got}")
        for name in ("score", "reward"):  # of an `Obs`
            if getattr(observation, name, None) is not None:
                raise ObservationError(
                    f"{type(self).__name__}.{method}: expected an Obs without {name}, which is for agents of"
                    f" ez.program, got {name}={getattr(observation, name)!r}. Return the reward of a step"
                    " beside the observation: (observation, reward, terminated, truncated, info)"
                )
        self.__resolved = self.__resolver.resolve(observation)
        plain = self.__resolved.plain(self.observation_space)
        self.action_space.observe(plain)
        return plain

    def __prepare(self) -> None:
        """Read the spaces, which an author may set at any time before the first reset."""
        name = type(self).__name__
        check_has_spaces(name, self)
        if not isinstance(self.observation_space, EntitySpace):
            raise TypeError(
                f"{name}.observation_space: expected an EntitySpace, got {self.observation_space!r}"
            )
        if self.action_space != self.observation_space.actions:
            raise ValueError(
                f"{name}: action_space: expected that of observation_space,"
                f" {self.observation_space.actions!r},"
                f" got {self.action_space!r}"
            )
        self.__resolver = Resolver(self.observation_space, self._shown_name())

    def _shown_name(self) -> str:
        """Return the environment's name in errors about its observations and actions."""
        return type(self).__name__

    def __check_same_space(self, method: str) -> None:
        """Check a space that was set after the first reset: others have read the first one."""
        assert self.__resolver is not None
        before, after = self.__resolver.space, self.observation_space
        if after != before:
            raise ObservationError(
                f"{type(self).__name__}.{method}: episode {self.__episode}: observation_space differs from"
                f" that of the first episode: {space_changes(before, after)}. {ADVICE}"
            )
        self.__resolver.space = after
