"""Evaluation of policies: whole episodes, evenly over the environments, with confidence intervals."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import nn

from ..envs import (
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    EntityVectorEnv,
    sample_actions,
    validate_actions,
)
from ..envs.errors import whole_number
from ..envs.seeds import EVALUATION_SEED
from ..envs.vector import PlayFunction
from ..envs.vector.episode_counts import episode_quota
from ..envs.vector.vector_checks import POLICY_FIRST, check_autoreset, check_fits, check_vector_env
from ..policies import ActingPolicy, ActResult, frozen_weights
from .lanes import EpisodeStatistics, active_lanes
from .runs.guard import check_lanes

__all__ = [
    "EpisodeResults",
    "Interval",
    "RandomActor",
    "bootstrap_interval",
    "evaluate",
    "wilson_interval",
]

#: Episodes of a lane, per episode asked for, after which a lane of its game must have been active.
_MOST_ENDS = 100
#: Steps without an end of any episode after which there is a warning.
MANY_STEPS = 100_000


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


@dataclass(frozen=True, eq=False)
class EpisodeResults:
    """n finished episodes, ordered by environment and then by time."""

    returns: NDArray[np.float64]  # (n,)
    lengths: NDArray[np.int64]  # (n,), in steps at which the environment was active
    lanes: NDArray[np.int64]  # (n,), the environment that each was played in
    #: (n,), equal for what the lanes of one game played at the same time; by default all differ.
    games: NDArray[np.int64] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.games is None:
            object.__setattr__(self, "games", np.arange(len(self.returns)))

    def __repr__(self) -> str:
        lengths = f"mean length {self.lengths.mean():.1f}" if len(self.lengths) else "none"
        mean = f"mean return {self.interval()}, " if len(self.returns) else ""
        return f"EpisodeResults({len(self.returns)} episodes: {mean}{lengths})"

    def interval(self, level: float = 0.95) -> Interval:
        """Mean return with its bootstrap interval, in which the episodes of a game count as one piece."""
        return bootstrap_interval(self.returns, level, groups=self.games)


@dataclass(frozen=True)
class Interval:
    """A mean and the bounds of its confidence interval; NaN where there is none, as of a single value."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        bounds = self.bounds(", ")
        return f"{self.mean:.2f} [{bounds}]" if bounds else f"{self.mean:.2f}"

    def bounds(self, between: str) -> str:
        """Return both bounds as text, with two digits; "" where there is no interval."""
        return "" if math.isnan(self.low) else f"{self.low:.2f}{between}{self.high:.2f}"


def evaluate(
    policy: ActingPolicy | PlayFunction,
    venv: EntityVectorEnv,
    episodes: int,
    deterministic: bool = False,
    seed: int = EVALUATION_SEED,
) -> EpisodeResults:
    """Play `episodes` whole episodes from a fresh reset and return their returns and lengths.

    How many episodes each environment plays is fixed beforehand (as evenly as `episodes` allows), and all are
    played to their end.
    Where environments are inactive for a while, episodes are separated as by `EpisodeStatistics`. In those of
    `past_self_play` neither the steps count nor the results of the games.

    Args:
        policy: acts; put into evaluation mode meanwhile if it is a module. Or a function `f(batch, rng)` that
            returns the actions, such as a bot of your own.
        venv: is reset with `seed`; the episodes of each environment must end by themselves.
        deterministic: take the most probable actions instead of sampling.
        seed: of the environments and of the sampling. Environment i gets seed + i, so another evaluation is
            an independent one where its seed is `venv.num_envs` or more away.

    Raises:
        TypeError: `policy` or `venv` is something else, or `episodes` no whole number.
        ValueError: `episodes` is less than 1, `seed` is negative, the policy has other actions or features
            than the environments, `venv` doesn't reset in the step that ends an episode, or an agent never
            joins its game.
        NonFiniteError: a reward is NaN or infinite.
        ActionError: a function returned actions that are not allowed.
    """
    check_vector_env("evaluate: venv", venv, POLICY_FIRST)
    policy = acting_policy("evaluate", policy, venv)
    check_fits("evaluate", policy, venv)
    check_autoreset("evaluate", venv)
    quota = episode_quota(episodes, venv.num_envs)
    uncounted = getattr(venv, "uncounted", nullcontext)  # of `PastSelfPlay`
    with evaluating(policy), uncounted():
        played = _play(policy, venv, quota, deterministic, seed)
    lane_games = np.arange(venv.num_envs) if venv.lane_games is None else venv.lane_games
    games = np.unique(lane_games, return_inverse=True)[1]
    rows = [
        (*episode, lane, games[lane] + k * venv.num_envs)
        for lane, done in enumerate(played)
        for k, episode in enumerate(done)
    ]
    returns, lengths, lanes, played_in = map(np.array, zip(*rows, strict=True))
    return EpisodeResults(returns.astype(np.float64), lengths, lanes, played_in)


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
    got = f"the class {policy.__name__}" if isinstance(policy, type) else f"a {type(policy).__name__}"
    raise TypeError(f"{where}: expected a policy with a method act, or a function, got {got}{hint}")


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


def _play(
    policy: ActingPolicy, venv: EntityVectorEnv, quota: NDArray[np.int64], deterministic: bool, seed: int
) -> list[list[tuple[float, int]]]:
    """Return (return, length) of the first `quota` episodes of each environment."""
    statistics = EpisodeStatistics(venv.num_envs)
    played: list[list[tuple[float, int]]] = [[] for _ in quota]
    missing = int(quota.sum())
    was_active, ends = np.zeros(venv.num_envs, bool), np.zeros(venv.num_envs, np.int64)
    batch, info = venv.reset(seed=seed)  # first, as it checks the seed
    rng = np.random.default_rng(seed)
    steps = 0
    while missing:
        if steps == MANY_STEPS and not ends.any():
            warn_endless("evaluate", venv.num_envs)
        steps += 1
        acted = policy.act(batch, rng, deterministic)
        active = active_lanes(info)
        was_active |= True if active is None else active
        batch, rewards, terminated, truncated, info = venv.step(acted.actions)
        check_lanes("reward", rewards)
        for lane, episode_return, length in statistics.record(rewards, terminated | truncated, active):
            ends[lane] += 1
            _check_peers(venv, lane, ends[lane], quota, was_active)
            if len(played[lane]) < quota[lane]:
                played[lane].append((episode_return, length))
                missing -= 1
    return played


def warn_endless(where: str, num_envs: int) -> None:
    """Warn that no episode has ended in `MANY_STEPS` steps."""
    warnings.warn(
        f"{where}: no episode has ended in {MANY_STEPS:,} steps of {num_envs} environments. It plays until"
        " they do: end them in the game, or by gymnasium.wrappers.TimeLimit",
        stacklevel=4,
    )


def _check_peers(
    venv: EntityVectorEnv, lane: int, ends: int, quota: NDArray[np.int64], was_active: NDArray[np.bool_]
) -> None:
    """Check, after the `ends`-th episode of a lane, that the other lanes of its game play at all.

    Raises:
        ValueError: one of them was never active, such as an agent that never joins its game.
    """
    if venv.lane_games is None or ends < _MOST_ENDS * max(1, quota[lane]):
        return
    absent = np.flatnonzero((venv.lane_games == venv.lane_games[lane]) & ~was_active & (quota > 0))
    if len(absent):
        raise ValueError(
            f"evaluate: lane {absent[0]}: expected an episode, got none in {ends} episodes of lane {lane} in"
            " the same game: it was never active. Does its agent join the game?"
        )


def bootstrap_interval(
    values: ArrayLike,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    groups: ArrayLike | None = None,
) -> Interval:
    """Mean of `values` (n,) with its percentile bootstrap confidence interval (Efron 1979).

    A single value has no interval: its bounds are NaN.

    Args:
        groups: (n,) a number for each value, equal for values that depend on each other, such as the returns
            of the players of a game: whole groups are drawn (the cluster bootstrap, Davison and Hinkley 1997,
            section 3.8). None: values are independent.

    Raises:
        ValueError: there are no values, or one is not finite, or `level` is not between 0 and 1, or there are
            no `resamples`, or `groups` has another length.
        TypeError: `resamples` is no whole number.
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
        raise ValueError(f"values: expected a list of finite numbers, got shape {values.shape}: {values}")
    _check_level(level)
    whole_number("bootstrap_interval: resamples", resamples)
    group_of = np.arange(len(values)) if groups is None else np.unique(groups, return_inverse=True)[1]
    if group_of.shape != values.shape:
        raise ValueError(f"groups: expected one of each of {len(values)} values, got shape {group_of.shape}")
    sums, counts = np.bincount(group_of, values), np.bincount(group_of)
    if len(sums) == 1:
        return Interval(float(values.mean()), math.nan, math.nan)
    rng = np.random.default_rng(seed)
    size = max(1, 2**17 // len(sums))  # resamples that fit into the processor's cache
    means = []
    for done in range(0, resamples, size):
        drawn = rng.integers(0, len(sums), (min(size, resamples - done), len(sums)))
        means.append(sums[drawn].mean(1) / counts[drawn].mean(1))
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values.mean()), float(low), float(high))


def wilson_interval(successes: float, trials: float, level: float = 0.95) -> Interval:
    """The share `successes / trials` with its score confidence interval (Wilson 1927).

    An effective number of trials need not be whole.

    Raises:
        ValueError: there are no trials, more successes than trials or fewer than none, or `level` is not
            between 0 and 1.
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(
            f"successes: expected 0 to {trials} of at least one trial, got {successes} of {trials}"
        )
    _check_level(level)
    z = NormalDist().inv_cdf((1 + level) / 2)
    share = successes / trials
    centre = (share + z**2 / (2 * trials)) / (1 + z**2 / trials)
    half = z * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2) / (1 + z**2 / trials)
    # Rounding must not leave the share outside, nor the bounds outside of 0 and 1.
    return Interval(share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)))


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level}")
