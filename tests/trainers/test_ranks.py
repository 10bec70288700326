"""Several processes train one policy: as one process with all their environments would."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.trainers import PPO, NonFiniteError, PPOConfig, Samples, read_metrics
from entitize.trainers.ranks import Ranks

import processes
from facts import raises
from waiting import PATIENCE, wait_until

PROGRAM = Path(__file__).with_name("rank_program.py")
# "--": or else torchrun takes `--run` for an option of its own, `--run-path`.
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "--", "entitize")
TRAIN = (
    *("-m", "entitize", "train", "--env.id", "MultiSnake", "--env.num-envs", "4"),
    *("--net.d-model", "8", "--net.n-layer", "1", "--ppo.num-steps", "8", "--ppo.minibatch-size", "16"),
)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(ez.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
ENVIRONMENT["PYTHONFAULTHANDLER"] = "1"  # says where a process was aborted


@contextmanager
def started(size: int, command: list[str]) -> Iterator[list[subprocess.Popen[str]]]:
    """Start a process for each rank, as `torchrun` does. None is left at the end of the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {**ENVIRONMENT, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)}
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                processes.started([sys.executable, *command], env={**shared, "RANK": str(rank)})
            )
            for rank in range(size)
        ]


TRAININGS: dict[str, dict[str, Any]] = {
    "one actor": {"game": "MultiSnake", "minibatch_size": 64, "normalize_rewards": True, "target_kl": 0.05},
    "starting policy": {"game": "CherryPick", "minibatch_size": 32, "start_kl_coef": 0.5},
    "several actors, minibatches that leave a rank out": {
        "game": "MineSweeper",
        "minibatch_size": 3,
        "num_steps": 4,
        "joint_log_prob": True,
    },
    "graphs, minibatches that leave a rank out": {
        "game": "MineSweeper",
        "minibatch_size": 3,
        "microbatch_size": 2,
        "engine": "graphs",
    },
    "a pretended GPU": {"game": "MultiSnake", "minibatch_size": 64, "device": "cuda"},
    "torch": {"game": "CherryPick", "minibatch_size": 24, "microbatch_size": 5, "engine": "torch"},
}


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of what came of each of `TRAININGS`, by one process and by two: all in the same three."""
    folder = tmp_path_factory.mktemp("trainings")
    plan = [
        {"lanes": 6, "updates": 3, "num_steps": 16, "seed": 3, "folder": str(folder / name), **options}
        for name, options in TRAININGS.items()
    ]
    for name in TRAININGS:
        (folder / name).mkdir()
    command = [str(PROGRAM), json.dumps(plan)]
    with started(1, command) as alone, started(2, command) as two:
        for process in (*alone, *two):
            errors = process.communicate(timeout=PATIENCE)[1]
            assert process.returncode == 0, errors
    return folder


def outcome(folder: Path, size: int) -> tuple[list[dict[str, Any]], list[dict[str, np.ndarray]]]:
    """What each of `size` ranks told, and its weights."""
    paths = [folder / f"{size}_{rank}" for rank in range(size)]
    told = [json.loads(path.with_suffix(".json").read_text()) for path in paths]
    return told, [dict(np.load(path.with_suffix(".npz"))) for path in paths]


@pytest.mark.parametrize("training", TRAININGS)
def test_two_ranks_learn_what_one_process_does(training: str, trainings: Path) -> None:
    (alone,), (expected,) = outcome(trainings / training, 1)
    told, weights = outcome(trainings / training, 2)
    assert told[0]["step"] == told[1]["step"] == alone["step"]
    assert told[0]["finished"] == told[1]["finished"] == alone["finished"] > 0
    for name, array in expected.items():
        np.testing.assert_array_equal(weights[0][name], weights[1][name], err_msg=name)
        np.testing.assert_allclose(weights[0][name], array, rtol=1e-5, atol=1e-5, err_msg=name)
    for ours, theirs in zip(told[0]["metrics"], alone["metrics"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)


GROUP_OF_COMPILED_CODE = """
from pathlib import Path
from entitize.trainers import process_group

def threads():
    return {(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()}

before = threads()
with process_group() as ranks:
    import torch._dynamo
    import torch.distributed.nn
    assert ranks.total(1) == [2]
    print(any("gloo" in name for name in threads() - before))
print(any("gloo" in name for name in threads() - before))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the threads' names from /proc")
def test_the_threads_of_a_group_end_with_it() -> None:
    with started(2, ["-c", GROUP_OF_COMPILED_CODE]) as ranks:
        for process in ranks:
            output, errors = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, errors
            assert output.split() == ["True", "False"]


def test_ranks_with_other_options_are_refused(tmp_path: Path) -> None:
    options = {"folder": str(tmp_path), "game": "MultiSnake", "lanes": 4, "updates": 1}
    with started(2, [str(PROGRAM), json.dumps([{**options, "learning_rate": [0.001, 0.01]}])]) as ranks:
        for process in ranks:
            errors = process.communicate(timeout=PATIENCE)[1]
            assert process.returncode
            assert all(word in errors for word in ("rank 1", "learning_rate", "0.001", "0.01")), errors


def test_environments_that_cannot_be_divided_are_refused(tmp_path: Path) -> None:
    with started(2, [*TRAIN, "--env.num-envs", "3", "--run", str(tmp_path / "run")]) as ranks:
        for process in ranks:
            errors = process.communicate(timeout=PATIENCE)[1]
            assert process.returncode == 2
            assert "num_envs" in errors and "multiple of the 2 ranks" in errors, errors
    assert not (tmp_path / "run").exists()


def test_torchrun_trains_a_run_that_one_process_resumes(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [*TORCHRUN, *TRAIN[2:], "--run", str(run), "--ppo.total-timesteps", "64"]
    done = processes.run(command, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("environments of 2 ranks") == 1, "rank 0 alone speaks"
    assert [line["step"] for line in read_metrics(run / "metrics.jsonl")] == [32, 64]
    command = [sys.executable, "-m", "entitize", "train", "--resume", str(run), "--ppo.total-timesteps", "96"]
    done = processes.run(command, env=ENVIRONMENT)
    assert done.returncode == 0 and "resumed at step 64" in done.stdout, done.stderr
    assert [line["step"] for line in read_metrics(run / "metrics.jsonl")] == [32, 64, 96]
    ez.load_agent(run)


def test_a_rank_that_is_killed_ends_the_others_and_the_run_resumes(tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = ("--ppo.total-timesteps", "1000000000", "--ppo.checkpoint-interval", "32")
    with started(2, [*TRAIN, "--run", str(run), *options]) as (first, second):
        wait_until(lambda: first.poll() is not None or list(run.glob("checkpoints/step_*")))
        assert first.poll() is None, first.communicate()
        second.kill()
        second.communicate()
        errors = first.communicate(timeout=PATIENCE)[1]
    assert first.returncode == 2
    assert "rank 0 of 2: another rank ended or hangs" in errors and "--resume" in errors, errors
    assert "Traceback" not in errors, errors
    step = read_metrics(run / "metrics.jsonl")[-1]["step"]
    with started(2, [*TRAIN[:3], "--resume", str(run), "--ppo.total-timesteps", str(step + 32)]) as ranks:
        outputs = [process.communicate(timeout=PATIENCE) for process in ranks]
        assert [process.returncode for process in ranks] == [0, 0], outputs
    assert "resumed at step" in outputs[0][0] and not outputs[1][0], outputs
    assert read_metrics(run / "metrics.jsonl")[-1]["step"] >= step


def trainer(seed: int, lanes: int = 4) -> PPO:
    venv = ez.make_vec("MultiSnake", lanes)
    net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    return PPO(net, venv, PPOConfig(num_steps=8, minibatch_size=16, seed=seed))


def test_a_group_that_only_gpus_can_talk_in_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_backend_config", lambda: "cuda:nccl")
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with raises(ValueError, "process group", "cuda:nccl", "gloo"):
        trainer(0)


def test_a_policy_of_several_ranks_is_trained_alone() -> None:
    one = trainer(0)
    Ranks(0, 2).share_statistics(one.policy)  # as an earlier trainer did, whose process group has ended
    alone = PPO(one.policy, one.venv, one.config)
    alone.collect()
    assert alone.update()["losses/entropy"] > 0


def test_a_trainer_learns_from_the_rollouts_of_others() -> None:
    learner, *others = (trainer(seed) for seed in range(3))
    for other in others:
        other.policy.load_state_dict(learner.policy.state_dict())
    parts = [other.collect() for other in others]
    whole = Samples.concatenate(parts)
    assert len(whole) == 64
    assert whole.gather(np.arange(32, 64)).observations.equals(parts[1].observations)
    metrics = learner.update(whole)
    assert learner.step == 64 and learner.updates == 1
    assert metrics["losses/approx_kl"] < 0.1 and np.isfinite(metrics["losses/loss"])
    own = learner.collect()
    learner.update(own)
    assert learner.step == 96, "the steps of its own rollout count once"
    with pytest.raises(RuntimeError):
        learner.update()


def test_a_rollout_that_nothing_was_learned_from_does_not_count() -> None:
    learner, rollout = trainer(0), trainer(1).collect()
    rollout.advantages[3] = np.nan
    with raises(NonFiniteError, "nan"):
        learner.update(rollout)
    with raises(ValueError, "samples", "Cherry"):
        learner.update(cherries())
    with raises(TypeError, "Samples", "list"):
        learner.update([])  # type: ignore[arg-type]
    assert learner.step == learner.updates == 0
    learner.update(trainer(1).collect())
    assert learner.step == 32


def cherries() -> Samples:
    venv = ez.make_vec("CherryPick", 2)
    net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    return PPO(net, venv, PPOConfig(num_steps=8)).collect()


def test_rollouts_of_other_actions_are_not_joined() -> None:
    with pytest.raises(ValueError):
        Samples.concatenate([trainer(0).collect(), cherries()])
    with pytest.raises(ValueError):
        Samples.concatenate([])
