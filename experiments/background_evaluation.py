"""Evaluation during training, by a process of low priority that plays checkpoints one after the other.

python -m entitize.experiments.background_evaluation RUN CHECKPOINT

The process writes its metrics to its standard output, as JSON, and ends when its standard input is closed.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rich.console import Console

from ..files import parse_json, replace_file
from ..process import at_end_of_input
from ..trainers import (
    PPO,
    RunFolder,
    checkpoint_paths,
    evaluate,
    is_due,
    read_metrics,
    say,
    step_of,
    thread_count,
    write_checkpoint,
)
from ..trainers.runs import delete_checkpoint
from ..trainers.runs.trainer_state import capture
from .config import TrainConfig, read_run_config
from .config_file import plain
from .environments import EnvConfig, held_out, make_environments
from .errors import UserError
from .networks import load_network

#: The niceness of the process: training goes first.
_NICENESS = 10
#: Seconds between two checks of an evaluation that training waits for.
_PAUSE = 0.1
#: Of `metrics.jsonl`: the mean return of an evaluation.
EVAL_RETURN = "eval/episodic_return"


class BackgroundEvaluation:
    """A callback of `PPO` that has a checkpoint evaluated every `every` environment steps.

    Checkpoints wait in `eval/` of the run folder until they were played. The results go into the metrics of
    the run at the step of the checkpoint; the best checkpoint is kept in `best/`. Neither depends on when an
    evaluation ends: checkpoints are played in order, all of them, with the same seed.
    """

    def __init__(
        self, folder: RunFolder, config: TrainConfig, step: int, console: Console, stop: threading.Event
    ) -> None:
        assert config.eval.every is not None
        self.folder, self.every, self.console, self.stop = folder, config.eval.every, console, stop
        self._step = step
        self._waiting, self._best = folder.path / "eval", folder.path / "best"
        # As JSON has it, to compare it with what was written.
        self._settings = parse_json(json.dumps(plain(_settings_of(config)), default=str).encode())
        self._forget_foreign_best()
        self._evaluation: _Evaluation | None = None
        self._latest: dict[str, float] = {}
        for path in checkpoint_paths(self._waiting):
            if step_of(path) > step:  # of a part of the run that is trained again
                delete_checkpoint(path)
        # A training that was killed after it had logged a result evaluates that checkpoint again.
        lines = read_metrics(folder.metrics) if checkpoint_paths(self._waiting) else []
        self._logged = {int(line["step"]) for line in lines if EVAL_RETURN in line and line["step"] <= step}

    def __call__(self, trainer: PPO, metrics: dict[str, float]) -> None:
        before, self._step = self._step, trainer.step
        if is_due(before, trainer.step, self.every):
            tensors, metadata = capture(trainer)
            write_checkpoint(self._waiting, trainer.step, {"policy": tensors["policy"]}, metadata)
        self._poll()
        metrics.update(self._latest)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Evaluate what still waits at the end; leave it to the resumed run after an error or `stop`."""
        try:
            yield
            waiting = len(checkpoint_paths(self._waiting))
            if waiting and not self.stop.is_set():
                self._say(f"checkpoints still to be evaluated: {waiting}. Ctrl-C leaves them to `--resume`")
            while (self._evaluation or checkpoint_paths(self._waiting)) and not self.stop.is_set():
                self._poll()
                self.stop.wait(_PAUSE)
        finally:
            if self._evaluation is not None:
                self._evaluation.end()
            self.folder.close()

    def _poll(self) -> None:
        """Take in a result that is ready; start the next evaluation if none is running."""
        if self._evaluation is not None and self._evaluation.has_ended:
            ended, self._evaluation = self._evaluation, None
            self._take_in(ended)
        waiting = checkpoint_paths(self._waiting)
        if self._evaluation is None and waiting:
            self._evaluation = _Evaluation(self.folder.path, waiting[0])

    def _forget_foreign_best(self) -> None:
        """Drop the best checkpoint if it is of a part that is trained again, or was evaluated otherwise."""
        record = self._best / "evaluation.json"
        if not record.exists():
            return
        found = parse_json(record.read_bytes())
        if found["step"] > self._step or found.get("settings", self._settings) != self._settings:
            shutil.rmtree(self._best)

    def _say(self, line: str) -> None:
        say(self.console, line)

    def _take_in(self, ended: _Evaluation) -> None:
        checkpoint = ended.checkpoint
        try:
            self._latest = ended.result()
        except UserError as error:
            self._say(f"the evaluation of step {step_of(checkpoint):,} failed: {error}")
        else:
            if step_of(checkpoint) not in self._logged:
                self.folder.log(step_of(checkpoint), self._latest)
            self._keep_if_best(checkpoint, self._latest)
        if checkpoint.exists():
            delete_checkpoint(checkpoint)

    def _keep_if_best(self, checkpoint: Path, found: Mapping[str, float]) -> None:
        """Move the checkpoint to `best/` if no earlier one had a higher mean return."""
        record = self._best / "evaluation.json"
        content = {"step": step_of(checkpoint), **found, "settings": self._settings}
        earlier_record = parse_json(record.read_bytes()) if record.exists() else content
        is_best = earlier_record == content or earlier_record[EVAL_RETURN] < found[EVAL_RETURN]
        if not is_best or not checkpoint.exists():
            return
        kept = self._best / "checkpoints"
        kept.mkdir(parents=True, exist_ok=True)
        earlier = checkpoint_paths(kept)
        # In this order, a kill in between leaves the checkpoint waiting, which is then kept at the resume.
        replace_file(record, json.dumps(content, indent=1).encode())
        shutil.rmtree(kept / checkpoint.name, ignore_errors=True)
        checkpoint.rename(kept / checkpoint.name)
        for path in earlier:
            if path.name != checkpoint.name:
                delete_checkpoint(path)


class _Evaluation:
    """A process that evaluates one checkpoint."""

    def __init__(self, run: Path, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        # Files: a pipe that is not read blocks the process once it is full.
        self._output, self._errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(run), str(checkpoint)],
            stdin=subprocess.PIPE,  # closed when this process ends, however it does
            stdout=self._output,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for the training
        )

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._close()

    def result(self) -> dict[str, float]:
        """Return the metrics, once the process has ended.

        Raises:
            UserError: it failed; the message is the last line that it wrote.
        """
        output, errors = _content(self._output), _content(self._errors).decode(errors="replace").strip()
        self._close()
        if self._process.returncode:
            raise UserError(errors.splitlines()[-1] if errors else "it was killed")
        return parse_json(output)

    def _close(self) -> None:
        self._process.communicate()
        self._output.close()
        self._errors.close()


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _settings_of(config: TrainConfig) -> tuple[EnvConfig, int, bool, int]:
    """Return all that the result of an evaluation depends on, beside the checkpoint."""
    env, _ = held_out(config.env, config.eval)
    return env, config.eval.episodes, config.eval.deterministic, config.eval.seed


def evaluate_checkpoint(run: Path, checkpoint: Path) -> dict[str, float]:
    """Play whole episodes as the configuration of the run says.

    Raises:
        UserError: the environments can't be made, or the checkpoint can't be read.
    """
    config = read_run_config(run)
    env, episodes, deterministic, seed = _settings_of(config)
    with make_environments(env) as venv, thread_count(1):
        policy = load_network(checkpoint, venv.single_observation_space)
        played = evaluate(policy, venv, episodes, deterministic, seed)
    interval = played.interval()
    bounds = {"eval/episodic_return_low": interval.low, "eval/episodic_return_high": interval.high}
    return {
        EVAL_RETURN: interval.mean,
        **({} if math.isnan(interval.low) else bounds),  # a single episode or game has none
        "eval/episodic_length": float(played.lengths.mean()),
        "eval/episodes": float(len(played.returns)),
    }


def main(run: str, checkpoint: str) -> int:
    """Evaluate a checkpoint and write the result; returns the exit code."""
    at_end_of_input(lambda: os._exit(1))  # the training is gone, and the result useless
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    output = os.dup(1)
    os.dup2(2, 1)  # what environments print is no part of the result
    try:
        found = evaluate_checkpoint(Path(run), Path(checkpoint))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    with open(output, "w") as file:
        json.dump(found, file)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
