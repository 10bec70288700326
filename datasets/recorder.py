"""`Recorder`: a vector environment that records what is played in it; `record` plays."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..envs import EntityBatch, EntityVectorEnv, inactive_lanes, no_actions, sample_actions
from ..envs.errors import whole_number
from ..envs.seeds import lane_seeds
from ..envs.vector import GivenActions, PlayFunction, StepResult
from ..envs.vector.episode_counts import count_step, episode_quota
from ..envs.vector.infos import final_observations, step_infos
from ..envs.vector.vector_checks import check_autoreset, check_fits, check_vector_env
from ..envs.vector.vector_spec import VectorSpec
from ..envs.vector.wrapper import EntityVectorWrapper, uncounted
from ..ragged import RaggedArray
from .steps import Steps
from .writer import LANE_GAMES, DatasetWriter

#: Of the metadata: true where the recorded actions are a teacher's.
IS_TAUGHT = "taught"


class ActingPlayer(Protocol):
    """A policy, an agent, or anything with their `act`."""

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False, /) -> Any:
        """Choose an action for every actor of `batch`; an object with `actions`."""
        ...


class Recorder(EntityVectorWrapper):
    """Steps `venv` and records observations, actions and results.

        with ez.datasets.Recorder(venv, "plays") as venv:
            ...  # PPO, evaluate, or a loop of your own

    Closing it writes the last steps and closes `venv`. It does not save the state of the games: a run that is
    resumed starts new episodes.

    Args:
        venv: the vector environment; it resets its environments in the step that ends an episode.
        path: a folder that is new or empty.
        metadata: JSON-able facts about the recording, e.g. {"policy": "expert"}.
        steps_per_part: see `DatasetWriter`.
        teacher: chooses, of a batch, the actions that are recorded in place of those that are carried out.

    Raises:
        FileExistsError: the folder holds something.
        ValueError: `venv` does not reset in the step that ends an episode.
    """

    def __init__(
        self,
        venv: EntityVectorEnv,
        path: str | Path,
        metadata: Mapping[str, Any] | None = None,
        steps_per_part: int = 65_536,
        teacher: Callable[[EntityBatch], GivenActions] | None = None,
    ) -> None:
        check_autoreset("Recorder", venv)
        _check_free(metadata, {"num_envs", LANE_GAMES, IS_TAUGHT})
        super().__init__(venv)
        self.vector_spec = venv.vector_spec
        facts = {"num_envs": venv.num_envs, **(metadata or {})}
        if venv.lane_games is not None:
            facts[LANE_GAMES] = np.asarray(venv.lane_games).tolist()
        if venv.vector_spec is not None and "env" not in facts:  # which the command line says itself
            facts |= _env_facts(venv.vector_spec)
        if teacher is not None:
            facts[IS_TAUGHT] = True
        self._teacher = teacher
        self.writer = DatasetWriter(path, venv.single_observation_space, facts, steps_per_part)
        #: Which lanes are recorded (num_envs,) bool; may be changed between steps.
        self.recorded = np.ones(self.num_envs, bool)
        self._episodes = np.zeros(self.num_envs, np.int64)
        self._steps = np.zeros(self.num_envs, np.int32)
        self._next_episode = 0
        self._inactive = np.zeros(self.num_envs, bool)

    def _reset(self, seeds: Any, options: dict[str, Any] | None) -> tuple[EntityBatch, dict[str, Any]]:
        batch, info = self.venv.reset(seed=seeds, options=options)
        self._inactive = inactive_lanes(info, self.num_envs)
        self._start(np.arange(self.num_envs))
        return batch, info

    def _start(self, lanes: NDArray[np.int64]) -> None:
        self._episodes[lanes] = self._next_episode + np.arange(len(lanes))
        self._next_episode += len(lanes)
        self._steps[lanes] = 0

    def _step(self, actions: dict[str, RaggedArray]) -> StepResult:
        before = self._last
        assert before is not None
        # A teacher may look at the game itself, so it is asked before the step.
        chosen = actions if self._teacher is None else self._checked(self._teacher(before))
        result = self.venv.step_validated(actions)
        _, rewards, terminated, truncated, info = result
        ended = np.asarray(terminated | truncated)
        texts = [_text(own) for own in step_infos(info, ended)[0]]
        self._record(before, chosen, rewards, terminated, truncated, texts)
        self._steps += 1
        if ended.any():
            self._record_final(info, ended)
            self._start(np.flatnonzero(ended))
        self._inactive = inactive_lanes(info, self.num_envs)
        return result

    def _record(
        self,
        batch: EntityBatch,
        actions: Mapping[str, RaggedArray],
        rewards: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        infos: list[str | None],
    ) -> None:
        lanes = np.arange(self.num_envs)
        steps = Steps(
            batch,
            dict(actions),
            lane=lanes.astype(np.int32),
            episode=self._episodes.copy(),
            step=self._steps.copy(),
            reward=np.array(rewards, np.float32),
            terminated=np.array(terminated, bool),
            truncated=np.array(truncated, bool),
            final=np.zeros(self.num_envs, bool),
            inactive=self._inactive.copy(),
        )
        if not self.recorded.all():
            lanes = np.flatnonzero(self.recorded)
            steps, infos = steps.gather(lanes), [infos[lane] for lane in lanes]
        self.writer.append(steps, infos)

    def _record_final(self, info: Mapping[str, Any], ended: NDArray[np.bool_]) -> None:
        """Record the final observations of episodes that ended, where the environment returns them."""
        if (found := final_observations(info)) is None:
            return
        lanes, final = found
        kept = np.flatnonzero(self.recorded[lanes] & ended[lanes])
        if not len(kept):
            return
        lanes, count = lanes[kept], len(kept)
        nothing = np.zeros(count, bool)
        self.writer.append(
            Steps(
                final.gather(kept),
                no_actions(self.single_action_space, count),
                lane=lanes.astype(np.int32),
                episode=self._episodes[lanes],
                step=self._steps[lanes],
                reward=np.zeros(count, np.float32),
                terminated=nothing,
                truncated=nothing,
                final=~nothing,
                inactive=nothing,
            )
        )

    def close_extras(self, **kwargs: Any) -> None:
        """Write the last steps and close the recorded environment."""
        try:
            self.writer.close()
        finally:
            self.venv.close()


def record(
    venv: EntityVectorEnv,
    policy: ActingPlayer | PlayFunction | None,
    path: str | Path,
    *,
    episodes: int | None = None,
    steps: int | None = None,
    deterministic: bool = False,
    seed: int | None = 0,
    metadata: Mapping[str, Any] | None = None,
    teacher: ActingPlayer | PlayFunction | None = None,
) -> Path:
    """Play with `policy` from a fresh reset and record it; `venv` stays open.

    Args:
        venv: the vector environment.
        policy: a policy, an agent, or a function of a batch and a generator that returns actions. A torch
            module (`teacher`, too) is in evaluation mode meanwhile. None draws actions that the masks allow.
        path: the folder of the dataset, new or empty.
        episodes: how many whole episodes, as evenly over the lanes as possible.
        steps: in place of `episodes` how many steps in each lane.
        deterministic: take the most probable actions.
        seed: of the environments and of the policy's draws; None: from the operating system.
        metadata: JSON-able facts about the recording.
        teacher: chooses the actions that are recorded, while those of `policy` are carried out: so `policy`
            can learn what to do where it gets to (DAgger: Ross, Gordon and Bagnell 2011, arXiv 1011.0686). A
            policy or an agent teaches its most probable actions.

    Returns:
        the folder.

    Raises:
        TypeError: not exactly one of `episodes` and `steps` is given, or it is no whole number; or `metadata`
            holds what JSON does not.
        ValueError: it is not positive, `seed` is no seed of environments, or `metadata` names what the
            recording says itself.
        FileExistsError: the folder holds something.
    """
    if (episodes is None) == (steps is None):
        raise TypeError(f"record: expected either episodes or steps, got {episodes!r} and {steps!r}")
    _check_free(metadata, {"seed", "deterministic", "num_envs", LANE_GAMES, IS_TAUGHT})
    check_vector_env("record", venv, ". The environments come first, then the policy")
    if steps is not None:
        whole_number("record: steps", steps)
    lane_seeds(seed, venv.num_envs)  # checks it
    quota = None if episodes is None else episode_quota(episodes, venv.num_envs)
    act = _acting(policy, venv, deterministic)
    rng = np.random.default_rng(seed)
    training: list[Any] = [who for who in (policy, teacher) if getattr(who, "training", False)]  # modules
    plain_seed = int(seed) if isinstance(seed, np.integer) else seed  # as JSON holds it
    facts = {"seed": plain_seed, "deterministic": bool(deterministic), **(metadata or {})}
    recorder = Recorder(venv, path, facts, teacher=_teaching(teacher, venv, seed))
    with uncounted(venv):
        try:
            for module in training:
                module.eval()
            batch, info = recorder.reset(seed=seed)
            lengths, step = np.zeros(venv.num_envs, np.int64), 0
            if quota is not None:
                recorder.recorded = quota > 0
            while recorder.recorded.any() if steps is None else step < steps:
                active = ~inactive_lanes(info, venv.num_envs)
                batch, _, terminated, truncated, info = recorder.step(act(batch, rng))
                step += 1
                if quota is not None:
                    ended, _ = count_step(lengths, terminated | truncated, active)
                    quota[ended] -= 1
                    recorder.recorded = quota > 0
        except BaseException:
            recorder.writer.discard_empty()  # the same call may follow
            raise
        finally:
            for module in training:
                module.train()
            recorder.writer.close()
    return recorder.writer.path


def _acting(policy: Any, venv: EntityVectorEnv, deterministic: bool) -> PlayFunction:
    if policy is None:
        return lambda batch, rng: sample_actions(venv.single_action_space, batch, rng)
    if hasattr(policy, "act"):
        check_fits("record", policy, venv)
        return lambda batch, rng: policy.act(batch, rng, deterministic).actions
    if callable(policy):
        return policy
    raise TypeError(f"record: expected a policy with 'act', a function or None, got {policy!r}")


def _teaching(
    teacher: Any, venv: EntityVectorEnv, seed: int | None
) -> Callable[[EntityBatch], GivenActions] | None:
    if teacher is None:
        return None
    rng = np.random.default_rng(None if seed is None else [seed, 1])
    teach = _acting(teacher, venv, deterministic=True)
    return lambda batch: teach(batch, rng)


def _text(facts: Mapping[Any, Any]) -> str | None:
    """Return the plain facts of a lane's step as JSON; None where there are none."""
    kept = {key: value for key, value in facts.items() if isinstance(key, str) and _is_plain(value)}
    if not kept:
        return None
    try:
        return json.dumps(kept, default=_plain, allow_nan=False)
    except ValueError:  # JSON has no numbers that are not finite
        return json.dumps(_finite(json.loads(json.dumps(kept, default=_plain))))


def _is_plain(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf" and value.size <= 64
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return len(value) <= 64 and all(map(_is_plain, value))
    if isinstance(value, np.generic):
        return value.dtype.kind in "biufU"
    return value is None or isinstance(value, bool | int | float | str)


def _plain(value: Any) -> Any:
    """Return a plain value that JSON doesn't know as one that it knows."""
    if isinstance(value, Mapping):
        return dict(value)
    return float(value) if isinstance(value, np.floating) else value.tolist()  # longdouble has no other


def _finite(value: Any) -> Any:
    """Return a JSON value with None in place of numbers that are NaN or infinite."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _env_facts(spec: VectorSpec) -> dict[str, Any]:
    """Return what makes the environments again, for `entitize replay` and the run of a clone."""
    return {"env": spec.id, "kwargs": spec.kwargs, **({"view": spec.view} if spec.view else {})}


def _check_free(metadata: Mapping[str, Any] | None, own: set[str]) -> None:
    """Check that metadata names nothing that the recording says itself and `replay` goes by."""
    if taken := sorted(own & (metadata or {}).keys()):
        raise ValueError(f"metadata: expected other names than those of the recording, got {taken[0]!r}")
