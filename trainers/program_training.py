"""`train`: a network for a game with a loop of its own, in one call."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import torch

from ..adapters.environment_resolver import make_vec
from ..adapters.programs import Program
from ..adapters.programs.game import Main
from ..envs import ActionSpace
from ..envs.errors import check_option_names
from ..policies.rogue_net import RogueNet
from ..policies.runtime import Agent
from .compatibility import checked_config
from .config import PPOConfig
from .ppo import PPO, Callback
from .progress import Detail

#: Of the environment, which `train` takes too.
_OPTIONS = ("num_workers", "worker_timeout", "max_wait", "timeout")


@dataclass(frozen=True, eq=False)
class Trained:
    """The result of `train`."""

    agent: Agent
    """The agent that plays the game: `main(trained.agent)`."""
    policy: RogueNet
    """The network."""
    metrics: dict[str, float]
    """Those of the last update."""
    run_dir: Path | None
    """The run folder, for `ez.load_agent` and `entitize eval`."""

    def __repr__(self) -> str:
        episodic_return = self.metrics.get("charts/episodic_return")
        shown = "" if episodic_return is None else f", return {episodic_return:.2f}"
        return f"Trained({type(self.policy).__name__}{shown}, run_dir={self.run_dir})"


def train(
    main: Main | Program,
    *,
    entities: Sequence[type] | None = None,
    actions: Mapping[str, type[Enum] | ActionSpace] | None = None,
    num_games: int = 64,
    config: PPOConfig | None = None,
    run_dir: str | Path | None = None,
    network: Mapping[str, Any] | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    progress: bool | Detail = True,
    **options: Any,
) -> Trained:
    """Train a RogueNet by PPO inside a game with a loop of its own.

        trained = ez.train(main, entities=[Player, Enemy], actions={"move": Move})
        main(trained.agent)

    Args:
        main: the game, a function of an agent (see `ez.program`), or a `Program`.
        entities, actions: what it declares; None for a `Program`.
        num_games: how many games run at the same time.
        config: of PPO; None: the defaults. Its seed is also that of the network's weights and of the agent.
        run_dir: the run folder; None: nothing is written.
        network: options of `RogueNet`.
        resume, callbacks: see `PPO`. A resumed run needs the same options.
        progress: see `PPO.train`.
        options: of the environment: `num_workers`, `worker_timeout`, `max_wait`, `timeout`.

    Raises:
        TypeError: entities or actions are missing, or given for a `Program`; an entity or action can't be
            used (see `ez.declare`); an unknown option.
        WorkerError: a game raised, returned in the middle of an episode, or hangs; all have been ended.
        FileExistsError: `run_dir` holds a run already, and `resume` is false.
    """
    for name in options:
        if name in PPOConfig.__dataclass_fields__:
            raise TypeError(f"train: {name} is an option of PPO: config=PPOConfig({name}=…)")
    check_option_names("train", options, [*_OPTIONS, *inspect.signature(train).parameters])
    program = _program(main, entities, actions)
    if not isinstance(network, Mapping | None):
        raise TypeError(f"train: network: expected a dict of options of RogueNet, got {network!r}")
    config = checked_config(config)
    with make_vec(program, num_games, **options) as venv:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed % 2**64)
            policy = RogueNet(venv.single_observation_space, venv.single_action_space, **(network or {}))
        trainer = PPO(policy, venv, config, run_dir, resume=resume, callbacks=callbacks)
        metrics = trainer.train(progress=progress)
    policy.eval()
    agent = Agent(policy, policy.observation_space, config.seed)
    return Trained(agent, policy, metrics, None if run_dir is None else Path(run_dir))


def _program(
    main: Main | Program,
    entities: Sequence[type] | None,
    actions: Mapping[str, type[Enum] | ActionSpace] | None,
) -> Program:
    if isinstance(main, Program):
        if entities is not None or actions is not None:
            raise TypeError(
                "train: a Program has entities and actions: expected neither, got some. Remove them"
            )
        return main
    if entities is None or actions is None:
        raise TypeError(
            "train: expected entities=[...] and actions={...} for a function, got only one of them or none."
            " Or decorate the function with ez.program"
        )
    return Program(main, entities, actions)
