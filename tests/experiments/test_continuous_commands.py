"""The commands with an environment of continuous actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from entitize.envs import (
    Continuous,
    ContinuousMask,
    EntityActionSpace,
    EntityEnv,
    EntitySpace,
    GlobalContinuous,
    GlobalContinuousMask,
    Observation,
)
from entitize.experiments import read_run_config

Run = Callable[..., tuple[int, str, str]]

FLAGS = (
    *("--env.id", "Drift-v0", "--env.num-envs", "2", "--net.d-model", "8", "--net.n-layer", "1"),
    *("--ppo.num-steps", "8", "--ppo.minibatch-size", "16", "--ppo.update-epochs", "1"),
    *("--eval.episodes", "3", "--eval.num-envs", "2"),
)


class Drift(EntityEnv):
    """Boats are to stay near 0 in a current; after five steps the episode ends."""

    def __init__(self, highest: float = 1.0) -> None:
        self.action_space = EntityActionSpace(
            {"Row": Continuous(-0.5, 0.5), "Pump": GlobalContinuous([0, -2], [highest, 2])}
        )
        self.observation_space = EntitySpace({"Boat": ["x", "y"]}, self.action_space)

    def _reset(self, options: dict[str, Any]) -> Observation:
        self._places = self.np_random.normal(size=(int(self.np_random.integers(1, 4)), 2))
        self._time = 0
        return self._look()

    def _step(self, actions: dict[str, Any]) -> Any:
        self._places[:, 0] += actions["Row"].values[:, 0]
        self._places[:, 1] += 0.1 * actions["Pump"].values.sum()
        self._time += 1
        return self._look(), -float(np.abs(self._places).mean()), False, self._time == 5, {}

    def _look(self) -> Observation:
        masks = {"Row": ContinuousMask(actor_types=["Boat"]), "Pump": GlobalContinuousMask()}
        return Observation(entities={"Boat": self._places.astype(np.float32)}, actions=masks)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    gymnasium.register("Drift-v0", entry_point=Drift)
    yield
    del gymnasium.registry["Drift-v0"]


def test_train_resume_eval_and_play_know_continuous_actions(entitize: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    code, out, err = entitize(
        "train", *FLAGS, "--run", run, "--net.squash", "--net.log-std-init", -0.5, "--ppo.total-timesteps", 32
    )
    assert (code, err) == (0, "") and "32/32 steps" in out
    net = read_run_config(run).net
    assert net.squash and net.log_std_init == -0.5
    assert entitize("train", "--resume", run, "--ppo.total-timesteps", 48)[0] == 0
    code, out, err = entitize("eval", run, "--random", "--deterministic")
    assert (code, err) == (0, "") and "random policy" in out
    code, out, err = entitize("play", run, "--out", tmp_path / "play.gif")
    assert (code, err) == (0, "") and out.startswith(f"{tmp_path / 'play.gif'}: 5 steps on seed")
    code, out, err = entitize("info", "--run", run)
    assert (code, err) == (0, "") and "Pump: GlobalContinuous([0.0, -2.0], [1.0, 2.0])" in out


def test_info_counts_the_heads_of_continuous_actions(entitize: Run) -> None:
    code, out, err = entitize("info", "Drift-v0", "--net.d-model", 8)
    assert (code, err) == (0, "")
    counts = {" ".join(line.split()[:-1]): line.split()[-1] for line in out.splitlines() if line}
    assert counts["action heads weights"] == str(8 * 3)
    assert counts["action heads biases"] == counts["action heads standard deviations"] == "3"
    assert counts["action heads"] == str(8 * 3)


def test_squashing_what_has_no_bounds_is_told(entitize: Run, tmp_path: Path) -> None:
    code, _, err = entitize(
        "train", *FLAGS, "--env.kwargs", "highest=.inf", "--net.squash", "--run", tmp_path / "run"
    )
    assert code == 2
    assert all(fact in err for fact in ("net: action 'Pump'", "squash=True", "number 0", "inf"))
    assert err.count("\n") == 1
