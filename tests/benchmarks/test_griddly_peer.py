"""Griddly's own environments of the benchmark report what ours observes."""

import importlib.util

import numpy as np
import pytest
from entitize.adapters.griddly import GriddlyVectorEnv

if importlib.util.find_spec("griddly") is None:  # importing it would import gym
    pytest.skip("needs griddly", allow_module_level=True)

from griddly_peer import GAMES, GriddlyPeers


@pytest.mark.parametrize("name", [*GAMES, "Push-Mania", "Foragers", "Partially-Observable-Zelda"])
@pytest.mark.filterwarnings("ignore")  # of gym
def test_peers_play_the_same_episodes(name: str) -> None:
    count = {"GriddlyRTS": 4, "Push-Mania": 4, "Foragers": 4}.get(name, 2)
    with GriddlyVectorEnv(name, count, max_steps=None) as venv:
        batch, info = venv.reset(seed=3)
        venv.action_space.seed(3)
        peers = GriddlyPeers(venv, info["episode_seed"])
        players = venv.rules.num_players
        for _ in range(40):
            actions = venv.action_space.sample(mask=batch)
            commands = venv.commands(actions)
            batch, _, terminated, _, info = venv.step(actions)
            results = peers.step(peers.prepare(commands, info["episode_seed"]))
            assert np.repeat([is_over for _, is_over in results], players).tolist() == terminated.tolist()
            observed = [part for parts, _ in results for part in (parts if players > 1 else [parts])]
            for lane, report in enumerate(observed):
                ours = {kind: len(rows[lane]) for kind, rows in batch.entities.items() if len(rows[lane])}
                theirs = {kind: len(rows) for kind, rows in report["Entities"].items()}
                theirs.pop("__global__", None)
                assert theirs == ours
                allowed = sum(sum(map(sum, rows)) - len(rows) for rows in report["ActorMasks"].values())
                assert allowed == batch.actions["action"].mask[lane][:, 1:].sum()
