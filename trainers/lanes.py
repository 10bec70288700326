"""Lanes of vector environments: which are active (see `EntityVectorEnv`), and their episodes.

Shape alphabet: E environments (lanes).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..envs import EntityBatch
from ..envs.vector.episode_counts import count_step
from ..envs.vector.infos import inactive_flags
from ..ragged import RaggedArray


def active_lanes(info: Mapping[str, Any]) -> NDArray[np.bool_] | None:
    """The environments (E,) that are active in the batch that came with `info`; None: all are."""
    inactive = inactive_flags(info)
    if inactive is None:
        return None
    active = ~np.asarray(inactive, bool)
    return None if active.all() else active


@dataclass(frozen=True, eq=False)
class Shown:
    """Observations of E lanes, and which lanes are active."""

    batch: EntityBatch
    active: NDArray[np.bool_] | None = None  # (E,); None: all are

    @classmethod
    def of(cls, batch: EntityBatch, info: Mapping[str, Any]) -> Shown:
        """Make one of a vector environment's observations and infos."""
        return cls(batch, active_lanes(info))

    def active_steps(self) -> EntityBatch:
        """The steps of the environments that are active."""
        return self.batch if self.active is None else self.batch.gather(np.flatnonzero(self.active))

    def for_all(self, actions: Mapping[str, RaggedArray]) -> Mapping[str, RaggedArray]:
        """Actions of the environments that are active as actions of all, with none for the inactive ones."""
        if self.active is None:
            return actions
        before = np.zeros(len(self.active) + 1, np.int64)  # how many are active before each environment
        np.cumsum(self.active, out=before[1:])
        return {
            name: RaggedArray.unchecked(chosen.values, chosen.offsets[before])
            for name, chosen in actions.items()
        }


class EpisodeStatistics:
    """Follows the episodes of `num_envs` environments; what is unfinished is remembered, not counted.

    Which steps and ends count is the rule of `count_step`. Rewards count when they come, inactive or not.
    """

    #: Episodes that the means are taken over, as in CleanRL and Stable-Baselines3.
    WINDOW = 100

    def __init__(self, num_envs: int) -> None:
        self.running_returns = np.zeros(num_envs)  # (E,) float64
        self.running_lengths = np.zeros(num_envs, np.int64)  # (E,)
        self.num_envs = num_envs
        self.finished = 0
        self._recent: deque[tuple[float, int, float]] = deque(maxlen=self.WINDOW)  # with the success

    def record(
        self,
        rewards: NDArray[Any],
        ended: NDArray[np.bool_],
        active: NDArray[np.bool_] | None = None,
        successes: NDArray[np.floating] | None = None,
    ) -> list[tuple[int, float, int]]:
        """Take in a step's rewards (E,) and ends (E,).

        Args:
            active: which environments were active (E,); None: all.
            successes: of the episodes that ended (E,), NaN without an answer, see `ended_successes`.

        Returns:
            (environment, return, length) of each episode that ended.
        """
        self.running_returns += rewards
        lanes, lengths = count_step(self.running_lengths, ended, active)
        done = list(zip(lanes.tolist(), self.running_returns[lanes].tolist(), lengths.tolist(), strict=True))
        self.running_returns[ended] = 0
        self.finished += len(done)
        for lane, episode_return, length in done[-self.WINDOW :]:
            success = math.nan if successes is None else float(successes[lane])
            self._recent.append((episode_return, length, success))
        return done

    def forget_running(self, lanes: NDArray[np.bool_] | None = None) -> None:
        """Let `lanes` (E,) start new episodes, None for all; what was unfinished never counts."""
        chosen = slice(None) if lanes is None else lanes
        self.running_returns[chosen] = 0
        self.running_lengths[chosen] = 0

    def summary(self) -> dict[str, float]:
        """Means over the last `WINDOW` episodes, under CleanRL's names, and the spread of their returns.

        Empty before the first episode ends. The success rate is that of the episodes that report one.
        """
        if not self._recent:
            return {}
        returns, lengths, successes = map(np.array, zip(*self._recent, strict=True))
        reported = successes[~np.isnan(successes)]
        return {
            "charts/episodic_return": float(np.mean(returns)),
            "charts/episodic_return_std": float(np.std(returns)),
            "charts/episodic_return_min": float(min(returns)),
            "charts/episodic_return_max": float(max(returns)),
            "charts/episodic_length": float(np.mean(lengths)),
            **({"charts/success_rate": float(np.mean(reported))} if len(reported) else {}),
        }

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for `restore`."""
        return {
            "running_returns": self.running_returns,
            "running_lengths": self.running_lengths,
            "finished": np.array([self.finished]),
            "recent_returns": np.array([r for r, _, _ in self._recent], np.float64),
            "recent_lengths": np.array([n for _, n, _ in self._recent], np.int64),
            "recent_successes": np.array([s for _, _, s in self._recent], np.float64),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from `state()`; running episodes only if there are as many environments as there were."""
        if len(state["running_returns"]) == len(self.running_returns):
            self.running_returns[:] = state["running_returns"]
            self.running_lengths[:] = state["running_lengths"]
        self.finished = int(state["finished"][0])
        columns = (state[f"recent_{name}"].tolist() for name in ("returns", "lengths", "successes"))
        self._recent = deque(zip(*columns, strict=True), maxlen=self.WINDOW)
