"""RogueNet in RLlib: an RLModule of its new API stack, trained by its PPO.

RLlib asks for an older Gymnasium than other examples, so it gets an environment of its own:

    python -m venv rllib && rllib/bin/pip install 'ray[rllib]==2.60.0' '.[train]'
    rllib/bin/python examples/rllib_ppo.py
"""

from __future__ import annotations

import argparse
from typing import Any

import entitize as ez
import gymnasium
import ray
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchMultiCategorical
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.tune.registry import register_env
from torch import Tensor

COURIERS = {
    "env_id": "couriers:Couriers",
    "maxima": {"Courier": 2, "Parcel": 8},
    "max_actors": {"fetch": 2},
    "flat_actions": True,
}


class RogueNetModule(TorchRLModule, ValueFunctionAPI):
    """RogueNet as an RLModule; masked choices have very low logits."""

    def setup(self) -> None:
        self.net = ez.PaddedActorCritic(self.observation_space, **self.model_config["net"])
        self.action_dist_cls = TorchMultiCategorical.get_partial_dist_cls(
            space=self.action_space, input_lens=self.net.num_choices
        )

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Tensor]:
        return {Columns.ACTION_DIST_INPUTS: self.net(batch[Columns.OBS])[0]}

    def _forward_train(self, batch: dict[str, Any], **_: Any) -> dict[str, Tensor]:
        logits, values = self.net(batch[Columns.OBS])
        return {Columns.ACTION_DIST_INPUTS: logits, Columns.EMBEDDINGS: values}  # for compute_values

    def compute_values(self, batch: dict[str, Any], embeddings: Tensor | None = None) -> Tensor:
        if embeddings is not None:
            return embeddings
        self.eval()  # asked for before an update: the statistics of the inputs come into force
        return self.net(batch[Columns.OBS])[1]


def make_env(config: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    return gymnasium.make("entitize/Padded-v0", **config)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_480)
    options = parser.parse_args()

    torch.set_num_threads(1)  # more make small networks slower
    ray.init(address="local", num_cpus=2, include_dashboard=False)
    register_env("padded", make_env)
    config = (
        PPOConfig()
        .environment("padded", env_config=COURIERS)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=16)
        .rl_module(
            rl_module_spec=RLModuleSpec(RogueNetModule, model_config={"net": {"d_model": 32, "n_layer": 1}})
        )
        .training(train_batch_size=1024, minibatch_size=256, num_epochs=4, lr=0.003)
        .debugging(seed=1)
    )
    algorithm = config.build_algo()
    returns = []
    for _ in range(max(1, options.steps // 1024)):
        results = algorithm.train()
        returns.append(results["env_runners"]["episode_return_mean"])
    algorithm.stop()
    ray.shutdown()
    print(f"untrained {returns[0]:.2f}, trained {returns[-1]:.2f} parcels")


if __name__ == "__main__":
    main()
