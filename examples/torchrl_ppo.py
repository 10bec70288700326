"""RogueNet in TorchRL: its environments, its collector, its PPO loss.

python examples/torchrl_ppo.py
"""

from __future__ import annotations

import argparse

import entitize as ez
import gymnasium
import torch
from tensordict import TensorDict
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModuleBase,
)
from torch.distributions import Categorical, Independent
from torchrl.collectors import Collector
from torchrl.envs import GymEnv, RewardSum, SerialEnv, TransformedEnv
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

COURIERS = {
    "env_id": "couriers:Couriers",
    "maxima": {"Courier": 2, "Parcel": 8},
    "max_actors": {"fetch": 2},
    "flat_actions": True,
}
BATCH, MINIBATCH, EPOCHS = 1024, 256, 4


def make_env() -> GymEnv:
    return GymEnv("entitize/Padded-v0", categorical_action_encoding=True, **COURIERS)


class Network(TensorDictModuleBase):
    """RogueNet as a module of TorchRL; it writes the logits of each courier's choice, and the value."""

    def __init__(self, observation_space: gymnasium.Space) -> None:
        super().__init__()
        self.in_keys, self.out_keys = list(observation_space), ["logits", "state_value"]
        self.net = ez.PaddedActorCritic(observation_space, d_model=32, n_layer=1)

    def forward(self, data: TensorDict) -> TensorDict:
        logits, values = self.net(dict(data.select(*self.in_keys).reshape(-1).items()))
        couriers = len(self.net.num_choices)
        return data.update(
            {"logits": logits.view(*data.shape, couriers, -1), "state_value": values.view(*data.shape, 1)}
        )


def choices_of_couriers(logits: torch.Tensor) -> Independent:
    return Independent(Categorical(logits=logits), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_480)
    options = parser.parse_args()
    torch.set_num_threads(1)  # more make small networks slower
    torch.manual_seed(1)

    env = TransformedEnv(SerialEnv(16, make_env), RewardSum())
    env.set_seed(1)
    network = Network(gymnasium.make("entitize/Padded-v0", **COURIERS).observation_space)
    sampling = ProbabilisticTensorDictModule(
        ["logits"],
        ["action"],
        distribution_class=choices_of_couriers,
        return_log_prob=True,
        log_prob_key="action_log_prob",
    )
    actor = ProbabilisticTensorDictSequential(network, sampling)
    collector = Collector(
        env, actor, frames_per_batch=BATCH, total_frames=options.steps, auto_register_policy_transforms=False
    )
    # RogueNet does not run under vmap and holds its parameters itself.
    advantages = GAE(gamma=0.99, lmbda=0.95, value_network=network, deactivate_vmap=True)
    loss = ClipPPOLoss(actor, network, functional=False, entropy_coeff=0.01, normalize_advantage=True)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.003, eps=1e-5)

    returns = []
    for rollout in collector:
        episodes = rollout["next", "episode_reward"][rollout["next", "done"]]
        returns.append(float(episodes.mean()))
        rollout = rollout.exclude("state_value")  # GAE computes it, of the next observations too
        with torch.no_grad():
            advantages(rollout)
        steps = rollout.reshape(-1)
        network.train()  # the statistics of the inputs take in what is learned from
        for _ in range(EPOCHS):
            for indices in torch.randperm(len(steps)).split(MINIBATCH):
                losses = loss(steps[indices])
                optimizer.zero_grad()
                sum(losses[name] for name in ("loss_objective", "loss_critic", "loss_entropy")).backward()
                torch.nn.utils.clip_grad_norm_(network.parameters(), 0.5)
                optimizer.step()
        network.eval()  # and come into force
    collector.shutdown()
    print(f"untrained {returns[0]:.2f}, trained {returns[-1]:.2f} parcels")


if __name__ == "__main__":
    main()
