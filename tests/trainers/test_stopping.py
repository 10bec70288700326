"""Ctrl-C, SIGTERM and a full disk: nothing is lost, in this process and in one with worker processes."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from entitize.trainers import PPO, MetricsError, PPOConfig, checkpoint_paths, read_metrics, step_of

from facts import raises
from waiting import wait_until

CONFIG = PPOConfig(total_timesteps=144, num_steps=6, minibatch_size=12, update_epochs=1)
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def usual_handlers() -> Iterator[None]:
    """Handlers as in a program of its own: `ray.init`, in a test before, leaves one for SIGTERM."""
    before = dict(zip(SIGNALS, handlers(), strict=True))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def handlers() -> list[Any]:
    return [signal.getsignal(number) for number in SIGNALS]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_training_after_the_update_at_hand(
    toy_policy: Any, toy_venv: Any, tmp_path: Path, number: signal.Signals
) -> None:
    before = handlers()
    trainer = PPO(toy_policy(), toy_venv(4), CONFIG, tmp_path)
    collect = trainer.collect

    def interrupted() -> Any:
        if trainer.step == 24:
            signal.raise_signal(number)
        return collect()

    trainer.collect = interrupted  # type: ignore[method-assign]
    expected = KeyboardInterrupt if number == signal.SIGINT else SystemExit
    with pytest.raises(expected) as caught:
        trainer.train()
    if isinstance(caught.value, SystemExit):
        assert caught.value.code == 128 + signal.SIGTERM
    assert handlers() == before
    assert [line["step"] for line in read_metrics(tmp_path / "metrics.jsonl")] == [24, 48]
    assert step_of(checkpoint_paths(tmp_path / "checkpoints")[-1]) == 48

    resumed = PPO(toy_policy(), toy_venv(4), CONFIG, tmp_path, resume=True)
    resumed.train()
    assert (resumed.step, resumed.updates) == (144, 6)


def test_a_second_signal_ends_at_once(toy_policy: Any, toy_venv: Any, tmp_path: Path) -> None:
    trainer = PPO(toy_policy(), toy_venv(4), CONFIG, tmp_path)

    def collect() -> Any:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)

    trainer.collect = collect  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert not checkpoint_paths(tmp_path / "checkpoints")


def test_metrics_that_do_not_fit_on_the_disk_end_training_and_leave_the_folder_whole(
    toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    """Files may not grow here: the system writes a part of a line and refuses the rest, as on a full disk."""
    trainer = PPO(toy_policy(), toy_venv(4), CONFIG, tmp_path)
    metrics = tmp_path / "metrics.jsonl"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def full(trainer: PPO, _: Any) -> None:
        if trainer.step == 48:
            resource.setrlimit(resource.RLIMIT_FSIZE, (metrics.stat().st_size + 50, limits[1]))

    trainer.callbacks.append(full)
    try:
        with raises(MetricsError, str(tmp_path)):
            trainer.train()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [line["step"] for line in read_metrics(metrics)] == [24] and metrics.read_text().endswith("\n")

    trainer.train()
    assert [line["step"] for line in read_metrics(metrics)] == [24, 72, 96, 120, 144]
    assert step_of(checkpoint_paths(tmp_path / "checkpoints")[-1]) == 144
    resumed = PPO(toy_policy(), toy_venv(4), CONFIG, tmp_path, resume=True)
    assert resumed.step == 144


def test_handlers_of_a_program_are_kept(toy_policy: Any, toy_venv: Any) -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        trainer = PPO(toy_policy(), toy_venv(4), CONFIG)
        trainer.callbacks.append(lambda trainer, metrics: signal.raise_signal(signal.SIGTERM))
        trainer.train(48)
        assert (trainer.step, received) == (48, [signal.SIGTERM, signal.SIGTERM])
    finally:
        signal.signal(signal.SIGTERM, before)


PROGRAM = """
import sys
import entitize as ez

if __name__ == "__main__":
    with ez.make_vec("MultiSnake", 4, num_workers=2) as venv:
        policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
        config = ez.PPOConfig(total_timesteps=10**9, num_steps=8, minibatch_size=32)
        ez.PPO(policy, venv, config, sys.argv[1]).train()
"""
COMMAND = (
    *(
        "-m",
        "entitize",
        "train",
        "--env.id",
        "MultiSnake",
        "--env.num-envs",
        "4",
        "--env.kwargs",
        "num_workers=2",
    ),
    *("--net.d-model", "8", "--net.n-layer", "1", "--ppo.num-steps", "8", "--ppo.minibatch-size", "32"),
    *("--ppo.total-timesteps", "1000000000", "--run"),
)


@contextmanager
def training(kind: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Give a process group that has trained for some updates, and its run folder."""
    script, run = folder / "program.py", folder / "run"
    script.write_text(PROGRAM)
    words = [str(script)] if kind == "program" else COMMAND
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        [sys.executable, *words, str(run)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        metrics = run / "metrics.jsonl"
        wait_until(
            lambda: process.poll() is not None or (metrics.exists() and len(read_metrics(metrics)) > 2)
        )
        assert process.poll() is None, process.communicate()[0]
        yield process, run
    finally:
        process.kill()
        process.wait()


def last_steps(run: Path) -> tuple[int, float]:
    """Return the steps of the last checkpoint and of the last line of metrics."""
    return step_of(checkpoint_paths(run / "checkpoints")[-1]), read_metrics(run / "metrics.jsonl")[-1]["step"]


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="groups of processes are POSIX's")
@pytest.mark.parametrize("kind", ["program", "command"])
def test_a_group_of_processes_that_is_told_to_end_keeps_everything(kind: str, tmp_path: Path) -> None:
    """As service managers and schedulers of clusters send SIGTERM: to the workers, too."""
    with training(kind, tmp_path) as (process, run):
        os.killpg(process.pid, signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == (143 if kind == "program" else 130), output
    saved, logged = last_steps(run)
    assert saved == logged
    assert not re.search("Traceback|Error|leaked", output), output


@pytest.mark.full
@pytest.mark.parametrize("kind", ["program", "command"])
def test_a_signal_keeps_everything_where_nobody_reads_the_output(kind: str, tmp_path: Path) -> None:
    """As of Ctrl-C in `… 2>&1 | tee log`, which ends tee, too."""
    with training(kind, tmp_path) as (process, run):
        assert process.stdout is not None
        process.stdout.close()
        process.send_signal(signal.SIGINT)
        process.wait(60)
    saved, logged = last_steps(run)
    assert saved == logged
