"""`entitize warm-up`: compile the kernels that training with an environment needs."""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tyro
from rich.console import Console

from ..experiments import EnvConfig, Pairs, TrainConfig, parse, train
from ..policies.rogue_net import RogueNetConfig
from ..ragged.compiled import cache_folder
from ..trainers import PPOConfig

#: Enough for the kernels that only large batches use.
_LANES, _STEPS = 16, 16


@dataclass(frozen=True)
class WarmUpArguments:
    """Compile the kernels that training with an environment needs, and keep them in the cache folder.

    Example: entitize warm-up Procgen/coinrun
    """

    env: tyro.conf.Positional[str] = EnvConfig().id
    """An environment, e.g. Procgen/bigfish."""
    kwargs: Pairs = field(default_factory=dict)
    """Options of the environment, e.g. features=planes."""
    net: RogueNetConfig = field(default_factory=RogueNetConfig)
    """Options of the network: some have kernels of their own."""


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command: one update of PPO in a temporary run folder."""
    chosen = parse(WarmUpArguments, "warm-up", arguments)
    config = TrainConfig(
        env=EnvConfig(id=chosen.env, kwargs=chosen.kwargs, num_envs=_LANES),
        net=chosen.net,
        ppo=PPOConfig(num_steps=_STEPS, total_timesteps=_LANES * _STEPS),
    )
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        train(config, Path(folder) / "run", console=Console(file=io.StringIO()), detail="none")
    seconds = time.perf_counter() - began
    print(f"{chosen.env}: kernels ready after {seconds:.0f} s, in {cache_folder() or 'no folder'}")
