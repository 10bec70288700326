"""RogueNet in Stable-Baselines3: its PPO trains on entities.

python examples/sb3_ppo.py
"""

from __future__ import annotations

import argparse

import entitize as ez
import torch
from stable_baselines3.common.evaluation import evaluate_policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--out", default="couriers_sb3.zip")
    options = parser.parse_args()

    torch.set_num_threads(1)  # more make small networks slower
    venv, arena = (ez.sb3.make_vec("couriers:Couriers", num_envs=16) for _ in range(2))
    model = ez.sb3.PPO(
        venv,
        n_steps=64,
        batch_size=256,
        learning_rate=0.003,
        policy_kwargs={"d_model": 32, "n_layer": 1},
        seed=1,
    )
    before, _ = evaluate_policy(model, arena, n_eval_episodes=64, deterministic=False)
    model.learn(options.steps)
    after, _ = evaluate_policy(model, arena, n_eval_episodes=64, deterministic=False)
    print(f"untrained {before:.2f}, trained {after:.2f} parcels")
    model.save(options.out)
    venv.close()
    arena.close()


if __name__ == "__main__":
    main()
