"""Trains a few updates alone or as one of several ranks, and writes down what came of it.

    python rank_program.py ARGUMENT

The argument is a JSON list of trainings: `folder`, `game`, `lanes` of all ranks, `updates`, `engine`, and
options of `PPOConfig`, each perhaps a list of one for each rank. "cuda" is a pretended GPU.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.policies import ActResult
from entitize.ragged import concatenate
from entitize.trainers import process_group
from entitize.trainers.ranks import Ranks

sys.path.append(str(Path(__file__).parents[1]))
from pretend_gpu import pretend_gpu


class LaneByLane(ez.RogueNet):
    """Draws the actions of each lane from numbers of its own."""

    rngs: list[np.random.Generator]

    def act(self, batch: ez.EntityBatch, *args: Any, **kwargs: Any) -> ActResult:
        parts = [super(LaneByLane, self).act(batch[i : i + 1], rng) for i, rng in enumerate(self.rngs)]
        names = list(parts[0].actions)
        # Each lane acts alone, so that it does not matter which rank plays it.
        return ActResult(
            {name: concatenate([part.actions[name] for part in parts]) for name in names},
            {name: concatenate([part.log_probs[name] for part in parts]) for name in names},
            np.concatenate([part.values for part in parts]),
        )


def train(
    ranks: Ranks, folder: str, game: str, lanes: int, updates: int, engine: str = "auto", **options: Any
) -> None:
    for name, value in options.items():
        options[name] = value[ranks.rank] if isinstance(value, list) else value
    own = lanes // ranks.size
    venv = ez.make_vec(game, own)
    torch.manual_seed(ranks.rank)  # rank 0 gives the others its weights
    spaces = venv.single_observation_space, venv.single_action_space
    net = LaneByLane(*spaces, d_model=16, n_layer=1, engine=engine)
    net.rngs = [np.random.default_rng([7, ranks.rank * own + lane]) for lane in range(own)]
    ppo = ez.PPO(net, venv, ez.PPOConfig(**options))
    metrics = []
    for _ in range(updates):
        ppo.collect()
        metrics.append(ppo.update())
    path = Path(folder) / f"{ranks.size}_{ranks.rank}"
    arrays: dict[str, Any] = {name: tensor.cpu().numpy() for name, tensor in net.state_dict().items()}
    np.savez(path.with_suffix(".npz"), **arrays)
    told = {"metrics": metrics, "step": ppo.step, "finished": ppo.episodes.finished}
    path.with_suffix(".json").write_text(json.dumps(told))


if __name__ == "__main__":
    with process_group() as all_ranks:
        for training in json.loads(sys.argv[1]):
            is_gpu = training.get("device") == "cuda"
            with pretend_gpu(pytest.MonkeyPatch()) if is_gpu else nullcontext():
                train(all_ranks, **training)
