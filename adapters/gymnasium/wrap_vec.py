"""`wrap_vec`: a Gymnasium vector environment as an entity vector environment.

Shape alphabet: B = num_envs lanes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from ...envs import ActionError, EntityBatch, EntityVectorEnv, ObservationError
from ...envs.returned import env_name, lane_flags
from ...envs.seeds import Seeds, lane_seeds
from ...envs.vector.infos import FINAL, is_lane_mask, lane_values, merge_infos
from ...envs.vector.list_vector import pass_progress
from ...envs.vector.vector_env import GivenActions, StepResult
from ...ragged import RaggedArray
from .dict_observations import check_shared_memory, checked_dicts, explain_workers, given_env, read_as_dicts
from .lane_errors import explain_lane, explained_reset
from .results import check_rewards, lane_rewards
from .translation import MASK, MaskSource, SpaceTranslation
from .views.batches import select, stack
from .views.per_entity import PerEntity
from .views.scope import View, ViewError


class WrappedVectorEnv(EntityVectorEnv):
    """A Gymnasium vector environment as an entity vector environment; made by `wrap_vec`.

    Autoreset, outwards, is SAME_STEP with `info["final_obs"]` wherever the wrapped environment can do it:

    - SAME_STEP inside: passed on.
    - NEXT_STEP inside, of `SyncVectorEnv` and `AsyncVectorEnv` (with shared memory): ended lanes are reset at
      once with a `reset_mask`, so that there is no step whose action is ignored.
    - DISABLED inside: the same.
    - NEXT_STEP of any other engine, which resets by itself: passed on, as `metadata["autoreset_mode"]` says.
      The batch that ends an episode holds its last observation (so there is no `final_obs`), without
      actors, because the engine ignores the actions of that step.

    Infos are the wrapped environment's, with `final_obs` as an `EntityBatch`; a list of infos (Gymnasium's
    `DictInfoToList`) is merged into a dict.

    Raises:
        ActionError: an action is unknown, left out, of the wrong length or not allowed; no lane has moved.
        ObservationError: the wrapped environment returned what its space doesn't allow.
        gymnasium.error.ResetNeeded: `step` before the first reset, and after the wrapped environment raised.
    """

    def __init__(
        self,
        venv: VectorEnv[Any, Any, Any],
        view: View | None = None,
        action_mask: MaskSource = "auto",
        actions: PerEntity | Mapping[str, PerEntity] | None = None,
    ) -> None:
        self.venv = venv
        self.num_envs = venv.num_envs
        self.render_mode = venv.render_mode
        self.spec = venv.spec
        inside = venv.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._inside = AutoresetMode(inside)
        self._reset_ended = _resets_single_lanes(venv, self._inside)
        outside = AutoresetMode.SAME_STEP if self._reset_ended else self._inside
        self.metadata = {
            **venv.metadata,
            "autoreset_mode": outside,
            "final_obs": outside is AutoresetMode.SAME_STEP,
        }
        example, temporary = _example(venv)
        try:
            if example is not None:
                check_rewards(example, venv)
            self._name = _vector_name(venv, example)
            check_shared_memory(venv, self._name)
            self._translation = SpaceTranslation(
                self._name,
                venv.single_observation_space,
                venv.single_action_space,
                example,
                view,
                action_mask,
                venv.spec,
                actions,
            )
        finally:
            if temporary and example is not None:
                example.close()
        if "env" in self._translation.sources:
            _check_environments_are_here(self._name, venv, self._inside)
        self.single_observation_space = self._translation.observation_space
        self.single_action_space = self._translation.action_space

    @property
    def view(self) -> View:
        """The view in use: the declared one, or the one that was found."""
        return self._translation.view

    def _seeds(self, seed: Seeds) -> Seeds:
        if seed is None:
            return None
        seeds = lane_seeds(seed, self.num_envs)
        return int(seed) if isinstance(seed, (int, np.integer)) else seeds

    def _reset(self, seed: Any, options: dict[str, Any] | None) -> tuple[EntityBatch, dict[str, Any]]:
        with explained_reset(self.venv, self._where):
            try:
                observation, info = self.venv.reset(seed=seed, options=options)
            except (TypeError, IndexError) as error:  # of observations that are no dicts, perhaps
                if not read_as_dicts(self.venv, self._where):
                    explain_workers(self.venv, self._where, error)
                    raise
                observation, info = self.venv.reset(seed=seed, options=options)
        observation = checked_dicts(self.venv.single_observation_space, observation, f"{self._name}.reset")
        info = _merged_lanes(info, self.num_envs)
        return self._batch(observation, info), info

    def _checked(self, actions: GivenActions) -> dict[str, RaggedArray]:
        try:
            return super()._checked(actions)
        except ActionError as error:
            raise ActionError(f"{self._name}: {error}") from None

    def _step(self, actions: dict[str, RaggedArray]) -> StepResult:
        assert self._last is not None
        decoded = self._translation.decode(actions, self._last)
        try:
            observation, rewards, terminated, truncated, info = self.venv.step(decoded)
        except Exception as error:
            explain_lane(self.venv, self._where, "step", error)
            raise
        observation = checked_dicts(self.venv.single_observation_space, observation, f"{self._name}.step")
        numbers = lane_rewards(self._where, rewards, self.num_envs)
        terminated = lane_flags(f"{self._name}.step", "terminated", terminated, self.num_envs)
        truncated = lane_flags(f"{self._name}.step", "truncated", truncated, self.num_envs)
        info = _merged_lanes(info, self.num_envs)
        batch, info = self._after_step(observation, terminated | truncated, info)
        return batch, numbers, terminated, truncated, info

    def _after_step(
        self, observation: Any, ended: NDArray[np.bool_], info: dict[str, Any]
    ) -> tuple[EntityBatch, dict[str, Any]]:
        """The batch to act on next, and the infos with the final observations of ended lanes."""
        if not ended.any():
            return self._batch(observation, info), info
        lanes = np.flatnonzero(ended)
        space = self.venv.single_observation_space
        if self._inside is AutoresetMode.SAME_STEP:
            if "final_obs" not in info:
                raise ObservationError(
                    f"{self._name}: info: expected 'final_obs' where an episode ended (autoreset mode"
                    " SAME_STEP), got none"
                )
            final = stack(space, [info["final_obs"][lane] for lane in lanes])
            sources = self._sources(info.get("final_info", {}), lanes)
            info["final_obs"] = self._translation.batch(final, len(lanes), sources=sources, ended=True)
            info["_final_obs"] = ended.copy()
            return self._batch(observation, info), info
        if not self._reset_ended:
            return self._batch(observation, info, ended).without_actors(ended), info
        final_obs = self._translation.batch(
            select(space, observation, lanes), len(lanes), sources=self._sources(info, lanes), ended=True
        )
        options = {"reset_mask": ended.copy()}
        if self.venv is not self.venv.unwrapped:
            options = _KeptOptions(options)
            info = deepcopy(info)  # wrappers put arrays into it that their reset changes
        with explained_reset(self.venv, self._where):
            observation, reset_info = self.venv.reset(options=options)
        observation = checked_dicts(space, observation, f"{self._name}.reset")
        reset_info = _merged_lanes(reset_info, self.num_envs)
        merged = _merged(info, reset_info, ended)
        batch = self._batch(observation, _forgotten(merged, reset_info, ended))
        merged.update(final_obs=final_obs, _final_obs=ended.copy(), final_info=info, _final_info=ended.copy())
        return batch, merged

    def _batch(
        self, observation: Any, info: Mapping[str, Any], ended: NDArray[np.bool_] | bool = False
    ) -> EntityBatch:
        mask, present = None, None
        if self._translation.mask_method:
            mask = list(self.venv.unwrapped.call("action_masks"))  # type: ignore[attr-defined]
        elif self._translation.mask_in_info and MASK in info:
            mask, present = info[MASK], info.get(f"_{MASK}")
        sources = self._sources(info, range(self.num_envs))
        return self._translation.batch(observation, self.num_envs, mask, present, sources, ended)

    def _sources(self, info: Mapping[str, Any], lanes: Collection[int]) -> dict[str, Sequence[Any]]:
        """Return the sources that functions of the view read, for `lanes`."""
        sources: dict[str, Sequence[Any]] = {}
        if "env" in self._translation.sources:
            envs = self.venv.unwrapped.envs  # type: ignore[attr-defined]
            sources["env"] = [given_env(envs[lane]) for lane in lanes]
        if "info" in self._translation.sources:
            sources["info"] = [_lane_info(info, lane, self.num_envs) for lane in lanes]
        return sources

    def set_progress(self, fraction: float) -> None:
        """Pass the progress of training on to the environments that have a method `set_progress`."""
        if isinstance(self.venv.unwrapped, SyncVectorEnv):  # others have no environments here
            for env in self.venv.unwrapped.envs:
                pass_progress(env, fraction)

    def _render(self) -> tuple[Any, ...] | None:
        return self.venv.render()

    def close_extras(self, **kwargs: Any) -> None:
        self.venv.close(**kwargs)


def wrap_vec(
    venv: VectorEnv[Any, Any, Any],
    view: View | None = None,
    *,
    action_mask: MaskSource = "auto",
    actions: PerEntity | Mapping[str, PerEntity] | None = None,
) -> WrappedVectorEnv:
    """Make an entity vector environment of a Gymnasium vector environment.

        venv = ez.wrap_vec(gymnasium.make_vec("CartPole-v1", num_envs=64, vectorization_mode="sync"))

    Args:
        venv: any vector environment with Gymnasium's interface; on autoreset see `WrappedVectorEnv`.
        view, action_mask, actions: as for `wrap`. Views see the observations of all lanes at once.

    Raises:
        ViewError: the view doesn't fit the observation space; the message names a view that would. Or `venv`
            can't return observations of that space (see `check_shared_memory`).
        TypeError: `venv` is no vector environment, or is one of entities already.
    """
    if not isinstance(venv, VectorEnv):
        hint = "Use wrap for a single environment"
        raise TypeError(f"wrap_vec: expected a gymnasium.vector.VectorEnv, got {venv!r}. {hint}")
    if not hasattr(venv, "single_observation_space"):
        hint = "SuperSuit's have none: give the PettingZoo game itself to entitize.from_pettingzoo"
        raise TypeError(f"wrap_vec: {type(venv).__name__}: expected a single_observation_space. {hint}")
    return WrappedVectorEnv(venv, view, action_mask, actions)


def _resets_single_lanes(venv: VectorEnv[Any, Any, Any], mode: AutoresetMode) -> bool:
    """Return true if ended lanes must be reset from outside, and can be."""
    if mode is AutoresetMode.DISABLED:
        return True
    base = venv.unwrapped
    # Without shared memory Gymnasium's workers (1.4) reset once more after a masked reset.
    obeys = isinstance(base, SyncVectorEnv) or (isinstance(base, AsyncVectorEnv) and base.shared_memory)
    return mode is AutoresetMode.NEXT_STEP and obeys


class _KeptOptions(dict[str, Any]):
    """Options that can still be asked for when they were popped.

    `SyncVectorEnv` (Gymnasium 1.4) takes the mask out of the dict in which the wrappers around it look for it
    afterwards, so that `RecordEpisodeStatistics` would forget the statistics of all lanes. The environments
    inside get the same dict: it no longer lists the mask.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self._popped: dict[str, Any] = {}

    def pop(self, key: str, *default: Any) -> Any:
        if super().__contains__(key):
            self._popped[key] = super().pop(key)
        return self._popped.get(key, *default)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self._popped

    def __missing__(self, key: str) -> Any:
        return self._popped[key]

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key, self._popped.get(key, default))

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


def _example(venv: VectorEnv[Any, Any, Any]) -> tuple[gymnasium.Env[Any, Any] | None, bool]:
    """One of the environments inside, to ask for names, and whether it was made for that."""
    base = venv.unwrapped
    if isinstance(base, SyncVectorEnv):
        return base.envs[0], False
    if isinstance(base, AsyncVectorEnv):
        return base.env_fns[0](), True
    return None, False


def _check_environments_are_here(name: str, venv: VectorEnv[Any, Any, Any], inside: AutoresetMode) -> None:
    """Check that a view can read the environment of each lane whenever the lane has an observation.

    Raises:
        ViewError: the environments are somewhere else, or reset before their last observation is read.
    """
    got = None
    if not isinstance(venv.unwrapped, SyncVectorEnv):
        got = f"{type(venv.unwrapped).__name__}, whose environments are elsewhere"
    elif inside is AutoresetMode.SAME_STEP:
        got = "autoreset mode SAME_STEP, in which an environment is reset before its last observation is read"
    if got is not None:
        raise ViewError(
            f"{name}: a Function view with source='env': expected a SyncVectorEnv with autoreset mode"
            f" NEXT_STEP or DISABLED, got {got}. Use source='info', or entitize.make_vec with a function that"
            " makes wrapped environments"
        )


def _lane_info(info: Mapping[str, Any], lane: int, num_envs: int) -> dict[str, Any]:
    """Return one lane's info of merged ones, with numbers of NumPy as the environment may have given them."""
    own: dict[str, Any] = {}
    for key, values in info.items():
        flags = info.get(f"_{key}")
        if key in FINAL or is_lane_mask(key, info) or (flags is not None and not flags[lane]):
            continue
        is_nested = isinstance(values, Mapping)
        own[key] = _lane_info(values, lane, num_envs) if is_nested else lane_values(values, num_envs)[lane]
    return own


def _merged_lanes(info: Any, num_envs: int) -> dict[str, Any]:
    """Return infos in Gymnasium's vector layout, which may be a list with one dict for each lane."""
    if not isinstance(info, list):
        return info
    merged = merge_infos(dict(enumerate(info)), num_envs)
    if "final_obs" in merged:  # of a Dict space too, one observation for each lane
        merged["final_obs"] = [own.get("final_obs") for own in info]
    return merged


def _vector_name(venv: VectorEnv[Any, Any, Any], example: gymnasium.Env[Any, Any] | None) -> str:
    if example is not None:
        return env_name(example)
    return venv.spec.id if venv.spec is not None else type(venv.unwrapped).__name__


def _merged(step: Mapping[str, Any], reset: Mapping[str, Any], ended: NDArray[np.bool_]) -> dict[str, Any]:
    """Merged infos of a step, with those of a reset in place of them in the ended lanes.

    What only the step says (such as a wrapper's statistics of the episode) stays.
    """
    merged = dict(step)
    for key, value in reset.items():
        if is_lane_mask(key, reset):
            continue
        flag = f"_{key}"
        there = np.asarray(reset.get(flag, ended), bool)
        if key not in step:
            merged[key], merged[flag] = value, there
        elif isinstance(value, Mapping) and isinstance(step[key], Mapping):
            merged[key], merged[flag] = _merged(step[key], value, ended), there | step.get(flag, ~ended)
        else:
            merged[key] = _replaced(_column(step[key], len(ended)), _column(value, len(ended)), there)
            merged[flag] = np.where(ended, there, step.get(flag, ~ended))
    return merged


def _forgotten(
    merged: Mapping[str, Any], reset: Mapping[str, Any], ended: NDArray[np.bool_]
) -> dict[str, Any]:
    """Return merged infos without what only the step said of the ended lanes, not of their new episode."""
    kept = dict(merged)
    for key, value in merged.items():
        if is_lane_mask(key, merged):
            continue
        if key not in reset:
            kept[f"_{key}"] = np.asarray(merged.get(f"_{key}", ~ended), bool) & ~ended
        elif isinstance(value, Mapping):
            kept[key] = _forgotten(value, reset[key], ended)
    return kept


def _column(value: Any, num_envs: int) -> NDArray[Any]:
    """Return what merged infos have under a key with an entry for each lane."""
    values = lane_values(value, num_envs)
    if isinstance(values, np.ndarray):
        return values
    column = np.full(num_envs, None, object)
    for lane, own in enumerate(values):
        column[lane] = own
    return column


def _replaced(old: NDArray[Any], new: NDArray[Any], lanes: NDArray[np.bool_]) -> NDArray[Any]:
    """`old` with the rows of `new` in `lanes`; as objects where the two don't agree in type or shape."""
    agree = old.dtype == new.dtype and old.shape == new.shape
    result = old.copy() if agree else old.astype(object)
    if agree or result.shape == new.shape:
        result[lanes] = new[lanes]
        return result
    result = np.full(len(lanes), None, object)
    for lane, is_new in enumerate(lanes):
        result[lane] = new[lane] if is_new else old[lane]
    return result
