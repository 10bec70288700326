"""`RaggedVecEnv`: an entity vector environment as a `VecEnv` of Stable-Baselines3.

Shape alphabet: E environments, M numbers of all actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import SyncVectorEnv
from numpy.typing import NDArray
from stable_baselines3.common.env_util import is_wrapped
from stable_baselines3.common.vec_env import VecEnv, VecMonitor
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvStepReturn

from ...adapters.environment_resolver import EnvSource
from ...adapters.environment_resolver import make_vec as make_entity_vec
from ...adapters.gymnasium.wrap_vec import WrappedVectorEnv
from ...envs import (
    ActionError,
    EntityBatch,
    EntityVectorEnv,
    ListVectorEnv,
    PackedActionSpace,
    PackedBatchSpace,
    inactive_lanes,
    unbatch_observation,
)
from ...envs.batch.packed import PackedBatch
from ...envs.errors import reset_needed
from ...envs.vector.infos import final_observations, step_infos
from ...envs.vector.vector_checks import check_autoreset, check_vector_env

#: Why actions may not fit: Stable-Baselines3 keeps the last observation of its own `learn`.
_STALE = (
    "If something else has reset or stepped these environments since the model did (evaluate_policy,"
    " EvalCallback, another model, a learn that was interrupted), model.set_env(venv) lets it start anew."
    " Evaluate in environments of their own"
)

#: What to write instead of arguments of Stable-Baselines3's `make_vec_env`.
_OF_MAKE_VEC_ENV = {
    "n_envs": "num_envs",
    "seed": "venv.seed(3), or seed of the algorithm",
    "env_kwargs": "each option as a keyword",
    "monitor_dir": "VecMonitor(entitize.sb3.vec_env(...), filename)",
    "vec_env_cls": "num_workers, for environments in processes",
    "wrapper_class": "a function that makes the wrapped environment",
}


class RaggedVecEnv(VecEnv):
    """`vector_env` with the interface of Stable-Baselines3, without padding; made by `vec_env`.

    Observations are packed batches and actions packed arrays (M,), as `entitize.envs.PackedLayout` describes
    them; who an action's numbers belong to follows from the observation before.

    Infos are those of Stable-Baselines3, one dict per environment. Where an episode ended, the dict holds the
    info of its last step (that of the reset is in `reset_infos`) and, besides:

    - "TimeLimit.truncated": whether the episode was cut off, so that its last state has a value;
    - "terminal_observation": the last observation of the episode, a plain dict of the entity space. Where
      `vector_env` can't give it (Procgen), it is there for episodes that were cut off, and is the observation
      before the last step: what they are bootstrapped from, as in `entitize.PPO`.

    Attributes, and methods for `env_method`, are looked up in the lanes' own environments where `vector_env`
    has them in this process (in a `ListVectorEnv` or a `SyncVectorEnv`), and otherwise, or where they are
    missing there, in `vector_env`, which speaks for all lanes.

    Raises:
        TypeError: `vector_env` is no `EntityVectorEnv`, or has inactive lanes (see `EntityVectorEnv`); the
            latter shows only while it runs.
        ValueError: it does not reset in the step that ends an episode (autoreset SAME_STEP).
    """

    def __init__(self, vector_env: EntityVectorEnv) -> None:
        if isinstance(vector_env, VecEnv):
            if isinstance(vector_env.unwrapped, RaggedVecEnv):
                name = type(vector_env).__name__
                raise TypeError(f"{name} is a VecEnv already: pass it to the algorithm unchanged")
            raise TypeError(why_not_ragged(vector_env))
        check_vector_env("RaggedVecEnv", vector_env)
        check_autoreset("RaggedVecEnv", vector_env)
        self.vector_env = vector_env
        self.entity_space = vector_env.single_observation_space
        self.spec = vector_env.spec
        self._space = PackedBatchSpace(self.entity_space)
        self._layout = self._space.layout
        self._last: EntityBatch | None = None  # what the environments show now
        self._actions: NDArray[Any] | None = None
        super().__init__(vector_env.num_envs, self._space, PackedActionSpace(vector_env.single_action_space))
        if "render_fps" in vector_env.metadata:
            self.metadata["render_fps"] = vector_env.metadata["render_fps"]

    def reset(self) -> PackedBatch:
        """Start an episode in every lane, with the seed of `seed` and the options of `set_options`."""
        options = self._options[0]
        if any(other != options for other in self._options[1:]):
            raise ValueError(f"options: expected the same for all environments, got {self._options}")
        batch, info = self.vector_env.reset(seed=self._seeds[0], options=options or None)
        self._refuse_inactive_lanes(info)
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = step_infos(info, np.zeros(self.num_envs, bool))[1]
        self._last, self._actions = batch, None
        return self._layout.pack(batch)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Take actions (M,) for the last observation, which `step_wait` checks.

        Raises:
            gymnasium.error.ResetNeeded: before the first `reset`.
        """
        if self._last is None:
            raise reset_needed("RaggedVecEnv", "the first step")
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Step every lane with the actions of `step_async`.

        Raises:
            ActionError: not as many numbers as there are actors, or there was no `step_async`; no lane moves.
            gymnasium.error.ResetNeeded: a step was interrupted.
        """
        before, actions = self._last, self._actions
        if before is None or actions is None:
            raise ActionError("RaggedVecEnv: step_wait() needs step_async() before it")
        self._actions = None
        try:
            orders = self._layout.unpack_actions(before, actions)
            batch, rewards, terminated, truncated, info = self.vector_env.step(orders)
        except (ActionError, gymnasium.error.ResetNeeded) as error:
            raise type(error)(f"{error}. {_STALE}") from None
        self._refuse_inactive_lanes(info)
        self._last = batch
        infos = self._lane_infos(info, before, terminated, truncated)
        # Stable-Baselines3 adds the value of the last state to the rewards in place.
        own_rewards = np.array(rewards, np.float32)
        return self._layout.pack(batch), own_rewards, terminated | truncated, infos

    def _lane_infos(
        self,
        info: dict[str, Any],
        before: EntityBatch,
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> list[dict[str, Any]]:
        ended = terminated | truncated
        infos, present = step_infos(info, ended)
        found = final_observations(info)
        places = {} if found is None else {lane: place for place, lane in enumerate(found[0].tolist())}
        for lane in np.flatnonzero(ended).tolist():
            if infos[lane] is not present[lane]:
                self.reset_infos[lane] = present[lane]
            cut_off = bool(truncated[lane] and not terminated[lane])
            infos[lane]["TimeLimit.truncated"] = cut_off
            if found is not None and lane in places:
                infos[lane]["terminal_observation"] = unbatch_observation(
                    self.entity_space, found[1], places[lane]
                )
            elif cut_off:
                infos[lane]["terminal_observation"] = unbatch_observation(self.entity_space, before, lane)
        return infos

    def _refuse_inactive_lanes(self, info: dict[str, Any]) -> None:
        inactive = np.flatnonzero(inactive_lanes(info, self.num_envs))
        if len(inactive):
            self._last = None
            raise TypeError(
                f"lane {inactive[0]} of {type(self.vector_env).__name__} is inactive: its agent is dead or"
                " waits for others. Stable-Baselines3 would learn from such steps as from any other. Train"
                " with entitize.PPO, which leaves them out, or make the environment of a PettingZoo game by"
                " entitize.from_pettingzoo with opponents= for the other agents, or with mode='team'"
            )

    def close(self) -> None:
        self.vector_env.close()

    # -- attributes of the environments ---------------------------------------------------------------------

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """The attribute of each environment.

        Raises:
            AttributeError: it has none of this name.
        """
        return [self._find(lane, attr_name) for lane in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute of some environments.

        Raises:
            AttributeError: one engine runs all lanes and has no such attribute.
            ValueError: some lanes only, where one engine runs all of them.
        """
        lanes = list(self._get_indices(indices))
        envs = self._lane_envs
        if envs is not None:
            for lane in lanes:
                envs[lane].set_wrapper_attr(attr_name, value)
        elif sorted(lanes) == list(range(self.num_envs)):
            self._find(0, attr_name)
            setattr(self.vector_env, attr_name, value)
        else:
            engine = type(self.vector_env).__name__
            raise ValueError(f"{attr_name!r} can't be set for single lanes: one {engine} runs all of them")

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of each environment; one of the vector environment once, for all lanes."""
        lanes = list(self._get_indices(indices))
        if self._lane_envs is not None:
            return [self._find(lane, method_name)(*method_args, **method_kwargs) for lane in lanes]
        return [self._find(0, method_name)(*method_args, **method_kwargs)] * len(lanes)

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        envs = self._lane_envs
        lanes = self._get_indices(indices)
        return [envs is not None and is_wrapped(envs[lane], wrapper_class) for lane in lanes]

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """A frame of each environment."""
        return list(self.vector_env.render() or [None] * self.num_envs)

    @property
    def _lane_envs(self) -> Sequence[gymnasium.Env[Any, Any]] | None:
        """The environment of each lane, if they are in this process."""
        inside: Any = self.vector_env
        if isinstance(inside, WrappedVectorEnv):
            inside = inside.venv.unwrapped
        return inside.envs if isinstance(inside, ListVectorEnv | SyncVectorEnv) else None

    def _find(self, lane: int, name: str) -> Any:
        envs = self._lane_envs
        if envs is not None and envs[lane].has_wrapper_attr(name):
            return envs[lane].get_wrapper_attr(name)
        if not hasattr(self.vector_env, name):
            lanes = ", nor do its lanes"
            if envs is None:
                lanes = "; an engine, another process or a game of several agents runs its lanes"
            raise AttributeError(f"{type(self.vector_env).__name__} has no attribute {name!r}{lanes}")
        return getattr(self.vector_env, name)


def vec_env(env: EnvSource | EntityVectorEnv, num_envs: int | None = None, **kwargs: Any) -> RaggedVecEnv:
    """A `VecEnv` by name, or of an entity vector environment, for wrappers to go around; see `make_vec`."""
    if isinstance(env, str | EnvSpec) or callable(env):
        try:
            made = make_entity_vec(env, num_envs=1 if num_envs is None else num_envs, **kwargs)
        except Exception as error:
            for name in [name for name in kwargs if name in _OF_MAKE_VEC_ENV]:
                error.add_note(f"{name} is an argument of make_vec_env. Here: {_OF_MAKE_VEC_ENV[name]}")
            raise
        return RaggedVecEnv(made)
    if num_envs is not None or kwargs:
        given = ", ".join([*(["num_envs"] if num_envs is not None else []), *kwargs])
        raise TypeError(f"{given}: only for environments that are made by name or by a function, got {env!r}")
    return RaggedVecEnv(env)


def make_vec(env: EnvSource | EntityVectorEnv, num_envs: int | None = None, **kwargs: Any) -> VecMonitor:
    """`vec_env` with a `VecMonitor` around it, for episode statistics.

    As Stable-Baselines3's `make_vec_env` puts a `Monitor` around every environment.

    Args:
        env: what `entitize.make_vec` makes ("Procgen/bigfish", "CartPole-v1", a class or a function), or an
            environment of `entitize.wrap_vec`, `entitize.vector.ListVectorEnv` and so on.
        num_envs: how many environments to make, 1 if not given.
        kwargs: go to the environments that are made.

    Raises:
        TypeError: `num_envs` or `kwargs` for environments that are there already, or see `RaggedVecEnv`.
        ValueError, gymnasium.error.NameNotFound: see `entitize.make_vec` and `RaggedVecEnv`.
    """
    return VecMonitor(vec_env(env, num_envs, **kwargs))


def why_not_ragged(venv: object) -> str:
    """Say what to use instead of vector environments of others, such as a `DummyVecEnv`."""
    return (
        f"{type(venv).__name__} gives observations of a fixed shape. Use entitize.sb3.make_vec instead of"
        " DummyVecEnv or make_vec_env: make_vec(make_env, num_envs), or for a PettingZoo game"
        " make_vec(entitize.from_pettingzoo(game, num_envs=num_envs))"
    )
