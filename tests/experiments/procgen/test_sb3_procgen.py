"""The example for Stable-Baselines3 runs from the command line and leaves what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import entitize as ez
import numpy as np
from stable_baselines3 import PPO


def test_the_example_trains_evaluates_and_exports(tmp_path: Path) -> None:
    size = "--timesteps 128 --num-envs 4 --num-steps 16 --batch-size 32 --evaluations 2 --eval-episodes 2"
    command = [
        sys.executable,
        "-W",
        "error",
        str(Path(__file__).parents[3] / "examples" / "sb3_procgen.py"),
        "--game",
        "chaser",
    ]
    result = subprocess.run(
        [*command, *size.split(), "--no-progress", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "chaser, unseen levels: " in result.stdout and "over 2 episodes" in result.stdout
    assert (tmp_path / "best_model.zip").is_file() and len(list(tmp_path.glob("checkpoints/*.zip"))) == 2
    model, network = PPO.load(tmp_path / "last_model"), ez.load_policy(tmp_path / "network")
    assert model.num_timesteps == 128
    batch, _ = ez.make_vec("Procgen/chaser", num_envs=3, distribution_mode="easy").reset(seed=1)
    acts = [net.act(batch, np.random.default_rng(0)) for net in (model.policy.network.eval(), network)]
    assert acts[0].actions == acts[1].actions
