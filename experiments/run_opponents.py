"""Past selves as opponents, for `entitize train`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..envs import EntityVectorEnv
from ..policies.policy import Policy
from ..trainers import OpponentPool, PastSelfPlay, past_self_play


@dataclass(frozen=True)
class OpponentsConfig:
    """Learned opponents where lanes play each other; in a file, `opponents: {}` takes all defaults."""

    interval: int = 100_000
    """Environment steps after which the learner goes into the pool once more."""
    latest_share: float = 0.8
    """Share of the games in which the learner plays all sides itself."""
    max_size: int = 20
    """How many opponents are kept; of past selves those that stay spread over the history."""
    weighting: Literal["uniform", "hard", "variance"] = "uniform"
    """How opponents are drawn: all alike, rather those that win, or rather those of equal strength."""
    checkpoints: tuple[str, ...] = ()
    """Run folders (their newest checkpoint) or checkpoints of earlier runs, as further opponents."""

    def __post_init__(self) -> None:
        if self.interval < 1:
            raise ValueError(f"interval must be positive, got {self.interval}")
        if not 0 <= self.latest_share <= 1:
            raise ValueError(f"latest_share must lie between 0 and 1, got {self.latest_share}")
        if self.max_size <= len(self.checkpoints):
            raise ValueError(
                f"max_size must leave a place for a past self beside the {len(self.checkpoints)} checkpoints,"
                f" got {self.max_size}"
            )


def with_opponents(
    config: OpponentsConfig, venv: EntityVectorEnv, policy: Policy, run: Path, seed: int
) -> PastSelfPlay:
    """`venv`, in which past selves of `policy` play, as `config` says; they are kept in the folder `run`.

    Raises:
        ValueError: no lanes meet in a game, or a checkpoint is of an agent that can't play here.
        CheckpointError: a checkpoint is missing, corrupt or foreign.
    """
    pool = OpponentPool(
        policy,
        folder=run / "opponents",
        checkpoints=config.checkpoints,
        max_size=config.max_size,
        weighting=config.weighting,
    )
    return past_self_play(venv, pool, latest_share=config.latest_share, interval=config.interval, seed=seed)
