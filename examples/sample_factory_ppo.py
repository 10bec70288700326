"""RogueNet in Sample-Factory: an encoder of its actor-critic, trained by its APPO.

Sample-Factory asks for an older Gymnasium than Entitize does, but runs with a newer one:

    python -m venv factory && factory/bin/pip install sample-factory==2.1.1
    factory/bin/pip install '.[train]'  # pip says that it replaces Gymnasium
    factory/bin/python examples/sample_factory_ppo.py
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.wrappers import TransformAction
from sample_factory.algo.utils.context import global_model_factory
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.model.encoder import Encoder
from sample_factory.train import run_rl
from torch import Tensor

COURIERS = {
    "env_id": "couriers:Couriers",
    "maxima": {"Courier": 2, "Parcel": 8},
    "max_actors": {"fetch": 2},
    "flat_actions": True,
    "illegal": "replace",  # Sample-Factory knows no masks
}


class RogueNetEncoder(Encoder):
    """RogueNet's rows; Sample-Factory puts its own heads behind them."""

    def __init__(self, cfg: Any, obs_space: gymnasium.Space[Any]) -> None:
        super().__init__(cfg)
        self.net = ez.PaddedRogueNet(obs_space, d_model=32, n_layer=1)

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        return self.net(observations)

    def get_out_size(self) -> int:
        return self.net.features_dim


def make_env(name: str, cfg: Any, env_config: Any, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    env = gymnasium.make("entitize/Padded-v0", **COURIERS)
    choices = spaces.Tuple([spaces.Discrete(n) for n in env.action_space.nvec])  # it knows no MultiDiscrete
    return TransformAction(env, np.array, choices)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--out", type=Path, default=Path("train_dir"))
    options = parser.parse_args()

    torch.set_num_threads(1)  # more make small networks slower
    register_env("couriers", make_env)
    global_model_factory().register_encoder_factory(RogueNetEncoder)
    arguments = {
        "env": "couriers",
        "experiment": "roguenet",
        "train_dir": options.out,
        "train_for_env_steps": options.steps,
        "device": "cpu",
        "serial_mode": True,
        "async_rl": False,
        "num_workers": 1,
        "num_envs_per_worker": 16,
        "worker_num_splits": 1,
        "rollout": 32,
        "batch_size": 512,
        "num_epochs": 4,
        "learning_rate": 0.003,
        "use_rnn": False,
        "normalize_input": False,  # it would change the flags; RogueNet normalizes its inputs itself
        "seed": 1,
    }
    flags = [f"--{name}={value}" for name, value in arguments.items()]
    run_rl(parse_full_cfg(parse_sf_args(flags)[0], flags))
    print(f"trained; see {options.out / 'roguenet'}")


if __name__ == "__main__":
    main()
