"""RogueNet on a Procgen game in Stable-Baselines3: a short file to copy.

    python examples/sb3_procgen.py --game bigfish --timesteps 1000000

Trains on `num_levels` levels, evaluates on levels that training does not see, and leaves in the folder `out`
the best and the last model, checkpoints, TensorBoard events, and the network as safetensors.
"""

from __future__ import annotations

from pathlib import Path

import torch
import tyro
from entitize import sb3
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CheckpointCallback, EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy


def train(
    game: str = "bigfish",
    timesteps: int = 1_000_000,
    num_envs: int = 64,
    num_steps: int = 256,
    batch_size: int = 2048,
    num_levels: int = 200,
    evaluations: int = 10,
    eval_episodes: int = 32,
    seed: int = 1,
    progress: bool = True,
    out: Path = Path("runs/sb3_procgen"),
) -> float:
    """Train RogueNet on a Procgen game with the PPO of Stable-Baselines3.

    Args:
        game: one of the 16.
        timesteps: environment steps to train for, over all environments.
        num_envs: environments in parallel.
        num_steps: steps of each environment per rollout.
        batch_size: environment steps per gradient step.
        num_levels: levels to train on; those behind them are for evaluation.
        evaluations: how often to evaluate and to save while training.
        eval_episodes: episodes per evaluation.
        seed: of everything.
        progress: show a progress bar.
        out: the folder of the results.

    Returns:
        the mean return on unseen levels after training.
    """
    torch.set_num_threads(1)  # more make small networks slower
    name = f"Procgen/{game}"
    venv = sb3.make_vec(name, num_envs, distribution_mode="easy", num_levels=num_levels)
    unseen = sb3.make_vec(name, 16, distribution_mode="easy", start_level=num_levels, num_levels=0)
    model = PPO(
        sb3.RogueNetPolicy,  # type: ignore[arg-type] # an actor-critic policy in all but its class
        venv,
        learning_rate=5e-4,
        n_steps=num_steps,
        batch_size=batch_size,
        n_epochs=3,
        gamma=0.999,
        ent_coef=0.01,
        rollout_buffer_class=sb3.RaggedRolloutBuffer,
        policy_kwargs={"d_model": 32, "n_layer": 2, "n_head": 2},
        tensorboard_log=str(out / "log"),
        seed=seed,
        device="cpu",
    )
    interval = max(1, timesteps // num_envs // evaluations)  # in steps of each environment
    callbacks = [
        EvalCallback(
            unseen, n_eval_episodes=eval_episodes, eval_freq=interval, best_model_save_path=str(out)
        ),
        CheckpointCallback(interval, str(out / "checkpoints")),
    ]
    model.learn(timesteps, callback=callbacks, progress_bar=progress)
    model.save(out / "last_model")
    sb3.export_policy(model, out / "network")  # for entitize.load_policy
    mean, deviation = evaluate_policy(model, unseen, n_eval_episodes=eval_episodes, deterministic=False)
    print(f"{game}, unseen levels: {mean:.2f} ± {deviation:.2f} over {eval_episodes} episodes")
    venv.close()
    unseen.close()
    return float(mean)  # type: ignore[arg-type]


if __name__ == "__main__":
    tyro.cli(train)
