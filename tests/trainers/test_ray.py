"""Rollouts from Ray actors: as one process with all their environments would collect them."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.trainers import PPO, PPOConfig, read_metrics

from facts import raises
from local_actors import LocalRollouts
from waiting import wait_until

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def running_ray() -> Iterator[None]:
    """Ray as a user has started it: actors of all tests are there, which is faster than starting it anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")
        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=40)
    yield
    ray.shutdown()


def network() -> ez.RogueNet:
    torch.manual_seed(0)
    with ez.make_vec("MultiSnake", 1) as venv:
        return ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=16, n_layer=1)


def test_ray_actors_collect_what_actors_of_this_process_do_without_torch(running_ray: None) -> None:
    config = PPOConfig(num_steps=8, minibatch_size=32, normalize_rewards=True)
    policies = network(), network()
    with (
        ez.distributed.RayRollouts("MultiSnake", policies[0], 2, num_envs=4) as rollouts,
        LocalRollouts("MultiSnake", policies[1], 2, 4) as local,
    ):
        trainers = PPO(policies[0], rollouts, config), PPO(policies[1], local, config)
        for _ in range(3):
            ours, theirs = (trainer.collect() for trainer in trainers)
            assert ours.observations.equals(theirs.observations)
            np.testing.assert_array_equal(ours.advantages, theirs.advantages)
            one, other = (trainer.update() for trainer in trainers)
            assert one == other
        assert [has_torch for _, has_torch in processes(rollouts)] == [False, False]
    assert ray.is_initialized(), "it is the user's"


def processes(rollouts: ez.distributed.RayRollouts) -> list[tuple[int, bool]]:
    return [actor.call("process")(300) for actor in rollouts.actors]


def test_actors_that_are_killed_are_started_again_and_no_step_is_missing(running_ray: None) -> None:
    policy, kills, updates = network(), 0, 0
    chance = random.Random(os.environ.get("ENTITIZE_KILLS", "few"))
    wanted = int(os.environ.get("ENTITIZE_KILLS", 2))
    config = PPOConfig(num_steps=16, minibatch_size=64, total_timesteps=10**9)
    rollouts = ez.distributed.RayRollouts("MultiSnake", policy, 2, num_envs=4, staleness=1, max_restarts=100)
    with rollouts:
        stop = threading.Event()

        def kill_at_random() -> None:
            nonlocal kills
            while kills < wanted and not stop.is_set():
                time.sleep(2 * chance.random())
                with contextlib.suppress(Exception):  # it may be starting, or ended by us
                    pid, _ = chance.choice(rollouts.actors).call("process")(60)
                    time.sleep(0.5 * chance.random())
                    os.kill(pid, signal.SIGKILL)
                    kills += 1

        def count(trainer: PPO, metrics: dict[str, float]) -> bool:
            nonlocal updates
            updates += 1
            assert trainer.step == 64 * updates and np.isfinite(metrics["losses/loss"])
            return rollouts.restarts >= wanted or not killer.is_alive()

        trainer = PPO(policy, rollouts, config, callbacks=[count])
        killer = threading.Thread(target=kill_at_random)
        killer.start()
        try:
            metrics = trainer.train(progress=False)
        finally:
            stop.set()
            killer.join()
        assert kills == wanted and metrics["charts/actor_restarts"] >= wanted - 1
        assert metrics["charts/episodic_length"] <= trainer.step / 4


def test_an_environment_that_an_actor_cannot_make_is_an_error_that_names_it(running_ray: None) -> None:
    with raises(ez.distributed.ActorError, "actor 0", "NameNotFound", "no_such_game"):
        ez.distributed.RayRollouts("no_such_game:make", network(), 1)
    assert ray.is_initialized()


TRAIN = (
    *(
        sys.executable,
        "-m",
        "entitize",
        "train",
        "--env.id",
        "MultiSnake",
        "--env.num-envs",
        "4",
        "--ray",
        "2",
    ),
    *("--net.d-model", "8", "--net.n-layer", "1", "--ppo.num-steps", "8", "--ppo.minibatch-size", "16"),
)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(ez.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


def descendants(pid: int) -> list[int]:
    """Processes that `pid` started, and theirs."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def is_running(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_a_learner_that_is_killed_leaves_no_process_and_its_run_resumes(tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = ("--run", str(run), "--ppo.total-timesteps", "1000000000", "--ppo.checkpoint-interval", "32")
    told = tmp_path / "told.txt"
    with told.open("w") as file:
        learner = subprocess.Popen([*TRAIN, *options], env=ENVIRONMENT, stdout=file, stderr=file)
    wait_until(lambda: learner.poll() is not None or list(run.glob("checkpoints/step_*")))
    assert learner.poll() is None, told.read_text()
    started = descendants(learner.pid)
    assert len(started) >= 4, "Ray and two actors"
    learner.kill()
    learner.wait()
    wait_until(lambda: not any(map(is_running, started)))
    step = read_metrics(run / "metrics.jsonl")[-1]["step"]
    command = [*TRAIN[:4], "--resume", str(run), "--ray", "1", "--ppo.total-timesteps", str(step + 32)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0 and "resumed at step" in done.stdout, done.stderr
    assert "environments of 1 actor," in done.stdout
    lines = [line for line in done.stderr.splitlines() if "samples/s" not in line and line.strip()]
    assert not lines, "nothing but progress is printed"
    assert read_metrics(run / "metrics.jsonl")[-1]["step"] >= step


#: A cluster of two machines, both of which are this one; the second leaves while PPO trains.
CLUSTER = """
import entitize as ez
from ray.cluster_utils import Cluster
import os, ray

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
second = cluster.add_node(num_cpus=1)
os.environ["RAY_ADDRESS"] = cluster.address
venv = ez.make_vec("MultiSnake")
spaces = venv.single_observation_space, venv.single_action_space
policy = ez.RogueNet(*spaces, d_model=8, n_layer=1, n_head=1)
with ez.distributed.RayRollouts("MultiSnake", policy, num_actors=2, num_envs=4) as rollouts:
    ppo = ez.PPO(policy, rollouts, ez.PPOConfig(num_steps=8, minibatch_size=32))
    ppo.train(4 * 8 * 2, progress=False)
    print("machines", len(ray.nodes()), "steps", ppo.step, "lost", rollouts.restarts)
    cluster.remove_node(second, allow_graceful=False)
    ppo.train(4 * 8 * 4, progress=False)
    print("steps", ppo.step, "lost", rollouts.restarts)
cluster.shutdown()
"""


def test_a_machine_that_leaves_the_cluster_is_survived() -> None:
    pytest.importorskip("ray.cluster_utils")
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    result = subprocess.run(
        [sys.executable, "-c", CLUSTER],
        capture_output=True,
        text=True,
        env={**os.environ, **quiet},
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert "machines 2" in result.stdout
    (before, after) = re.findall(r"steps (\d+) lost (\d+)", result.stdout)
    assert before == ("64", "0")
    assert after[0] == "128" and after[1] in ("1", "2"), "Ray may start an actor on a machine that has left"
