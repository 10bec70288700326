"""Flags of the commands that play a trained agent: `eval`, `play`, `record` and `card`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import tyro

from ..envs import EntityVectorEnv
from ..experiments import (
    EnvChoice,
    EnvConfig,
    EvalConfig,
    Pairs,
    TrainConfig,
    UserError,
    check_at_least,
    make_whole_games,
    read_agent_config,
)
from ..experiments.environments import LISTEN
from ..experiments.listening import stored_space
from ..experiments.networks import load_player
from ..experiments.own_bots import is_bot
from ..policies import ActingPolicy
from ..trainers import RandomActor, thread_count


@dataclass(frozen=True, kw_only=True)
class AgentFlags:
    """The agent that plays, and its environments."""

    run: tyro.conf.Positional[Path]
    """The run folder; or a bot, module:function, which needs --env.id."""
    deterministic: bool = False
    """Take the most probable action instead of sampling."""
    seed: int | None = None
    """Seed of environments and actions (default: that of the run's configuration)."""
    checkpoint: Path | None = None
    """A checkpoint folder (default: the run's newest)."""
    env: EnvChoice = field(default_factory=EnvChoice)
    kwargs: Pairs = field(default_factory=dict)
    """Options of the environment that differ from training, e.g. opponents=workerRushAI side=1."""

    def __post_init__(self) -> None:
        check_at_least(self, 0, "seed")

    @property
    def path(self) -> Path:
        """The checkpoint, or the run whose newest one is meant."""
        return self.checkpoint or self.run

    def config(self) -> TrainConfig:
        """Return the run's configuration, in the chosen environment.

        Raises:
            UserError: see `read_agent_config`; or a bot is without an environment.
        """
        if is_bot(self.run):
            if self.checkpoint is not None:
                raise UserError(
                    f"--checkpoint: expected a run folder with it, got the bot {self.run}. Remove it"
                )
            if self.env.id is None:
                raise UserError(f"{self.run}: expected the environment that it plays in, --env.id, got none")
            return TrainConfig(env=EnvConfig(self.env.id, view=self.env.view))
        return read_agent_config(self.run, self.env)

    def read(self) -> tuple[TrainConfig, EvalConfig]:
        """Return the run's configuration, and its evaluation as these flags change it.

        In no more lanes than training had, where other programs must bring the games.
        """
        config = self.config()
        settings = config.eval
        if config.env.id == LISTEN:
            settings = replace(settings, num_envs=min(settings.num_envs, config.env.num_envs))
        seed = config.eval.seed if self.seed is None else self.seed
        is_deterministic = config.eval.deterministic or self.deterministic
        return config, replace(settings, seed=seed, deterministic=is_deterministic)

    @contextmanager
    def environments(
        self, config: TrainConfig, env: EnvConfig, make: Callable[..., EntityVectorEnv] | None = None
    ) -> Iterator[EntityVectorEnv]:
        """Make `env` (with `make_whole_games`) as the agent observes it, with its training's thread count.

        Raises:
            UserError: see `stored_space` and `make_whole_games`.
        """
        space = stored_space(config, self.path)
        make = make or partial(make_whole_games, trained=config.env)
        with thread_count(config.ppo.num_threads), make(env, **space) as venv:
            yield venv

    def load(self, venv: EntityVectorEnv, is_random: bool = False) -> ActingPolicy:
        """Return the agent for `venv`, or the random policy.

        Raises:
            UserError: see `load_player`.
        """
        if is_random:
            return RandomActor(venv.single_action_space)
        return load_player(self.path, venv)
