"""`evaluate`: a policy plays whole episodes, evenly over the environments."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ...envs import (
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    EntityVectorEnv,
    sample_actions,
    validate_actions,
)
from ...envs.errors import named_kind
from ...envs.seeds import EVALUATION_SEED
from ...envs.vector import PlayFunction
from ...envs.vector.episode_counts import episode_quota
from ...envs.vector.infos import SUCCESS, ended_values
from ...envs.vector.vector_checks import POLICY_FIRST, check_autoreset, check_fits, check_vector_env
from ...envs.vector.wrapper import uncounted
from ...policies import ActingPolicy, ActResult, frozen_weights
from ..lanes import EpisodeStatistics, active_lanes
from ..runs.guard import check_batch, check_lanes
from .results import EpisodeResults
from .running_games import RunningGames

#: Episodes of a lane, per episode asked for, after which one of its game that was never active is left out.
_MOST_ENDS = 100
#: Steps without an end of an episode after which there is a warning: longer than episodes of Atari.
MANY_STEPS = 30_000


class RandomActor:
    """A policy that samples uniformly from the allowed actions: the baseline to compare with."""

    def __init__(self, action_space: EntityActionSpace) -> None:
        if not isinstance(action_space, EntityActionSpace):
            raise TypeError(
                f"RandomActor: expected an EntityActionSpace, got a {type(action_space).__name__}"
            )
        self.action_space = action_space

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        """Sample an action for every actor; without log-probabilities, and with values of 0."""
        return ActResult(sample_actions(self.action_space, batch, rng), {}, np.zeros(len(batch), np.float32))


class _FunctionActor:
    """A function of a batch and a generator as a policy."""

    def __init__(self, function: PlayFunction, space: EntitySpace, where: str) -> None:
        self._function, self._space, self._where = function, space, where

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        actions = self._function(batch, rng)
        names = [f"{self._where}: observation {i}" for i in range(len(batch))]
        checked = validate_actions(self._space, batch, actions, names)
        return ActResult(checked, {}, np.zeros(len(batch), np.float32))


def evaluate(
    policy: ActingPolicy | PlayFunction,
    venv: EntityVectorEnv,
    episodes: int,
    deterministic: bool = False,
    seed: int = EVALUATION_SEED,
    info_keywords: Sequence[str] = (),
) -> EpisodeResults:
    """Play `episodes` whole episodes from a fresh reset and return their returns and lengths.

    How many episodes each environment plays is fixed beforehand (as evenly as `episodes` allows), and all are
    played to their end. A lane whose agent has not joined its game in a hundred times as many episodes of
    another one is left out, with a warning.
    Where environments are inactive for a while, episodes are separated as by `EpisodeStatistics`. In those of
    `past_self_play` neither the steps count nor the results of the games.

    Args:
        policy: acts; put into evaluation mode meanwhile if it is a module. Or a function `f(batch, rng)` that
            returns the actions, such as a bot of your own.
        venv: is reset with `seed`; the episodes of each environment must end by themselves.
        deterministic: take the most probable actions instead of sampling.
        seed: of the environments and of the sampling. Environment i gets seed + i, so another evaluation is
            an independent one where its seed is `venv.num_envs` or more away.
        info_keywords: what to keep of the infos of the episodes' last steps, such as "level_seed" or
            "outcome", as `infos` of the result: beside "is_success", for the success rate. A key that no
            episode has is left out, with a warning.

    Raises:
        TypeError: `policy` or `venv` is something else, or `episodes` no whole number.
        ValueError: `episodes` is less than 1, `seed` is negative, the policy has other actions or features
            than the environments, `venv` doesn't reset in the step that ends an episode, or no agent that is
            asked for joins its game.
        NonFiniteError: a feature or a reward is NaN or infinite.
        ActionError: a function returned actions that are not allowed.
    """
    check_vector_env("evaluate: venv", venv, POLICY_FIRST)
    policy = acting_policy("evaluate", policy, venv)
    check_fits("evaluate", policy, venv)
    check_autoreset("evaluate", venv)
    if isinstance(info_keywords, str):
        raise TypeError(
            f"evaluate: info_keywords: expected a list of names, got the string {info_keywords!r}"
        )
    keys = tuple(dict.fromkeys((*info_keywords, SUCCESS)))
    quota = episode_quota(episodes, venv.num_envs)
    with evaluating(policy), uncounted(venv):
        played = _play(policy, venv, quota, deterministic, seed, keys)
    rows = [(*episode, lane) for lane, done in enumerate(played) for episode in done]
    if not rows:
        raise ValueError(
            f"evaluate: {episodes} episodes: expected some of agents that join their games, got none"
        )
    returns, lengths, infos, played_in, lanes = zip(*rows, strict=True)
    numbers = np.array(lengths), np.array(lanes), np.array(played_in)
    given = [key for key in keys if any(info[key] is not None for info in infos)]
    for key in set(keys) - {*given, SUCCESS}:
        warnings.warn(f"evaluate: info_keywords: no episode's last info has {key!r}", stacklevel=2)
    columns = {key: _column([info[key] for info in infos]) for key in given}
    return EpisodeResults(np.array(returns, np.float64), *numbers, columns)


def _column(values: Sequence[Any]) -> NDArray[Any]:
    """Return values of infos as an array (n,): of numbers or bools if all are, else of objects."""
    if all(isinstance(value, bool | int | float | np.bool_ | np.number) for value in values):
        return np.array(values)
    column = np.full(len(values), None, object)
    for row, value in enumerate(values):
        column[row] = value.item() if isinstance(value, np.generic) else value
    return column


def acting_policy(where: str, policy: ActingPolicy | PlayFunction, venv: EntityVectorEnv) -> ActingPolicy:
    """Return a policy, or a function that plays in `venv`, as a policy.

    Raises:
        TypeError: it is neither; the message says where an object that holds a policy has it.
    """
    if isinstance(policy, ActingPolicy):
        return policy
    if callable(policy) and not isinstance(policy, nn.Module | type):
        return _FunctionActor(policy, venv.single_observation_space, where)
    hint = ". Use its attribute network" if hasattr(policy, "network") else ""
    hint = ". Use its policy.network" if hasattr(getattr(policy, "policy", None), "network") else hint
    raise TypeError(
        f"{where}: expected a policy with a method act, or a function, got {named_kind(policy)}{hint}"
    )


@contextmanager
def evaluating(policy: ActingPolicy) -> Iterator[None]:
    """Put a policy that is a module into evaluation mode meanwhile; its weights stay as they are."""
    was_training = isinstance(policy, nn.Module) and policy.training
    if isinstance(policy, nn.Module):
        policy.eval()
    try:
        with frozen_weights(policy):
            yield
    finally:
        if isinstance(policy, nn.Module):
            policy.train(was_training)


class _GameNumbers:
    """Counts the games of lanes.

    Attributes:
        current: (E,) the number of the game that each lane is in.
    """

    def __init__(self, venv: EntityVectorEnv, active: NDArray[np.bool_] | None) -> None:
        lane_games = np.arange(venv.num_envs) if venv.lane_games is None else venv.lane_games
        self._games = RunningGames(np.unique(lane_games, return_inverse=True)[1])
        self._games.begin(slice(None), True if active is None else active)
        self.current = self._games.game_of.copy()

    def follow(self, ended: NDArray[np.bool_], active: NDArray[np.bool_] | None) -> None:
        """Process a step: which lanes ended (E,), and which are active after it (E,); None: all."""
        now = np.ones_like(ended) if active is None else active
        over = self._games.follow(ended, now)
        if over.any():
            lanes = np.flatnonzero(over[self._games.game_of])
            self.current[lanes] += len(over)
            self._games.begin(lanes, now[lanes])


def _play(
    policy: ActingPolicy,
    venv: EntityVectorEnv,
    quota: NDArray[np.int64],
    deterministic: bool,
    seed: int,
    keys: Sequence[str],
) -> list[list[tuple[float, int, dict[str, Any], int]]]:
    """Return (return, length, values of `keys`, game) of the first `quota` episodes of each environment."""
    statistics = EpisodeStatistics(venv.num_envs)
    played: list[list[tuple[float, int, dict[str, Any], int]]] = [[] for _ in quota]
    left, ends, begun = quota.copy(), *np.zeros((2, venv.num_envs), np.int64)
    was_active, warned = np.zeros((2, venv.num_envs), bool)
    batch, info = venv.reset(seed=seed)  # first, as it checks the seed
    games = _GameNumbers(venv, active_lanes(info))
    rng = np.random.default_rng(seed)
    steps = 0
    while left.any():
        if steps % max(1, MANY_STEPS // 100) == 0:
            late = (steps - begun >= MANY_STEPS) & (left > 0) & ~warned
            if late.any():
                warn_endless("evaluate", "episode", f" of env {late.argmax()}")
            warned |= late
        steps += 1
        active = active_lanes(info)
        acted = _act(policy, venv, batch, active, rng, deterministic)
        was_active |= True if active is None else active
        batch, rewards, terminated, truncated, info = venv.step(acted.actions)
        check_lanes("reward", rewards)
        begun[terminated | truncated] = steps
        for lane, episode_return, length in statistics.record(rewards, terminated | truncated, active):
            ends[lane] += 1
            if venv.lane_games is not None and ends[lane] >= _MOST_ENDS * max(1, quota[lane]):
                _leave_out_absent(venv.lane_games, lane, ends[lane], left, was_active)
            if left[lane]:
                values = {key: ended_values(info, key, [lane], venv.num_envs)[0] for key in keys}
                played[lane].append((episode_return, length, values, int(games.current[lane])))
                left[lane] -= 1
        games.follow(terminated | truncated, active_lanes(info))
    return played


def _act(
    policy: ActingPolicy,
    venv: EntityVectorEnv,
    batch: EntityBatch,
    active: NDArray[np.bool_] | None,
    rng: np.random.Generator,
    deterministic: bool,
) -> ActResult:
    """Act; if a feature is not finite, the error names it, whether or not the policy fails on it."""

    def check_features() -> None:
        lanes = np.arange(venv.num_envs) if active is None else np.flatnonzero(active)
        check_batch(batch.gather(lanes), venv.single_observation_space, venv.num_envs, lanes)

    try:
        acted = policy.act(batch, rng, deterministic)
    except Exception:
        check_features()
        raise
    values: Any = acted.values  # a policy of one's own may have none
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and not np.isfinite(values).all():
        check_features()
    return acted


def warn_endless(where: str, what: str, whose: str = "") -> None:
    """Warn that no episode (or game, as `what` says) has ended in `MANY_STEPS` steps."""
    warnings.warn(
        f"{where}: no {what}{whose} has ended in {MANY_STEPS:,} steps. It plays until they do: end them in"
        " the game, or by gymnasium.wrappers.TimeLimit",
        stacklevel=4,
    )


def _leave_out_absent(
    games: NDArray[np.int64], lane: int, ends: int, left: NDArray[np.int64], was_active: NDArray[np.bool_]
) -> None:
    """Ask for no episodes of lanes whose agents have not joined their game in `ends` episodes of `lane`."""
    absent = (games == games[lane]) & ~was_active & (left > 0)
    if absent.any():
        warnings.warn(
            f"evaluate: lane {absent.argmax()}: expected an episode, got none in {ends} episodes of lane"
            f" {lane} in the same game: it was never active, and is left out. Does its agent join the game?",
            stacklevel=4,
        )
        left[absent] = 0
