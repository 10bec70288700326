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
from typing import IO, Any

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
from .environments import EnvConfig, held_out, make_whole_games
from .errors import UserError
from .networks import load_network

#: The niceness of the process: training goes first.
_NICENESS = 10
#: Seconds between two checks of an evaluation that training waits for.
_PAUSE = 0.1
#: Options of environments that change no result.
_OF_PROCESSES = ("num_workers", "worker_timeout")
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
        self._waiting, self._best = folder.path / "eval", BestCheckpoint(folder)
        self._has_trained = False
        self._evaluation: _Evaluation | None = None
        self.latest: dict[str, float] = {}  # metrics of the last evaluation that has ended
        for path in checkpoint_paths(self._waiting):
            if step_of(path) > step:  # of a part of the run that is trained again
                delete_checkpoint(path)
        # A training that was killed after it had logged a result evaluates that checkpoint again.
        lines = read_metrics(folder.metrics) if checkpoint_paths(self._waiting) else []
        self._logged = {int(line["step"]) for line in lines if EVAL_RETURN in line and line["step"] <= step}

    def __call__(self, trainer: PPO, metrics: dict[str, float]) -> None:
        before, self._step = self._step, trainer.step
        if not self._has_trained:  # only now: a resume may be refused, or have nothing left to train
            self._has_trained = True
            self._best.forget_after(before)
        if is_due(before, trainer.step, self.every):
            tensors, metadata = capture(trainer)
            write_checkpoint(self._waiting, trainer.step, {"policy": tensors["policy"]}, metadata)
        self._poll()

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
            self._best.tidy()
            self.folder.close()

    def _poll(self) -> None:
        """Take in a result that is ready; start the next evaluation if none is running."""
        if self._evaluation is not None and self._evaluation.has_ended:
            ended, self._evaluation = self._evaluation, None
            self._take_in(ended)
        waiting = checkpoint_paths(self._waiting)
        if self._evaluation is None and waiting:
            self._evaluation = _Evaluation(self.folder.path, waiting[0])

    def _say(self, line: str) -> None:
        say(self.console, line)

    def _take_in(self, ended: _Evaluation) -> None:
        checkpoint = ended.checkpoint
        try:
            self.latest, settings = ended.result()
        except UserError as error:
            self._say(f"the evaluation of step {step_of(checkpoint):,} failed: {error}")
        else:
            if step_of(checkpoint) not in self._logged:
                self.folder.log(step_of(checkpoint), self.latest)
            self._best.keep_if_best(checkpoint, self.latest, settings)
        if checkpoint.exists():
            delete_checkpoint(checkpoint)


class BestCheckpoint:
    """The folder `best/` of a run: the checkpoint with the highest mean return, and `evaluation.json`.

    While the run has no checkpoint as late as the best one, it continues from before it if it is killed.
    Until then the best ones of before are kept as well.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder, self._path = folder, folder.path / "best"
        self._record, self._checkpoints = self._path / "evaluation.json", self._path / "checkpoints"

    def keep_if_best(self, checkpoint: Path, found: Mapping[str, float], settings: Any) -> None:
        """Move a checkpoint here if no earlier one, evaluated in the same way, has a higher mean return."""
        content = {"step": step_of(checkpoint), **found, "settings": settings}
        known = [one for one in self._entries() if _same(one.get("settings", settings), settings)]
        is_best = not known or content == _plain(known[0]) or known[0][EVAL_RETURN] < found[EVAL_RETURN]
        if not is_best or not checkpoint.exists():
            return
        self._checkpoints.mkdir(parents=True, exist_ok=True)
        # In this order, a kill in between leaves the checkpoint waiting, which is then kept at the resume.
        self._write([content, *(one for one in known if one["step"] != content["step"])])
        shutil.rmtree(self._checkpoints / checkpoint.name, ignore_errors=True)
        checkpoint.rename(self._checkpoints / checkpoint.name)
        self.tidy()

    def forget_after(self, step: int) -> None:
        """Forget checkpoints after `step`, from which the run is trained again."""
        entries = self._entries()
        kept = [one for one in entries if one["step"] <= step]
        if entries and not kept:
            shutil.rmtree(self._path)
        elif kept != entries:
            self._write(kept)
            self.tidy()

    def tidy(self) -> None:
        """Delete the checkpoints before the best one, if no resume can need them any more."""
        entries = self._entries()
        if not entries:
            return
        later = [p for p in checkpoint_paths(self._folder.checkpoints) if step_of(p) >= entries[0]["step"]]
        if later and len(entries) > 1:
            entries = entries[:1]
            self._write(entries)
        steps = {one["step"] for one in entries}
        for path in checkpoint_paths(self._checkpoints):
            if step_of(path) not in steps:
                delete_checkpoint(path)

    def _entries(self) -> list[dict[str, Any]]:
        """Return what is known of the best checkpoint, and of those before it, the best first."""
        if not self._record.exists():
            return []
        best = parse_json(self._record.read_bytes())
        return [_plain(best), *best.get("before", [])]

    def _write(self, entries: list[dict[str, Any]]) -> None:
        before = {"before": entries[1:]} if len(entries) > 1 else {}
        replace_file(self._record, json.dumps({**entries[0], **before}, indent=1).encode())


def _plain(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "before"}


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

    def result(self) -> tuple[dict[str, float], Any]:
        """Return the metrics and the settings, once the process has ended.

        Raises:
            UserError: it failed; the message is the last line that it wrote.
        """
        output, errors = _content(self._output), _content(self._errors).decode(errors="replace").strip()
        self._close()
        if self._process.returncode:
            raise UserError(errors.splitlines()[-1] if errors else "it was killed")
        found = parse_json(output)
        return found["metrics"], found["settings"]

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


def _same(one: Any, other: Any) -> bool:
    """Return True if two settings lead to the same results: processes don't change these."""
    return _without_workers(one) == _without_workers(other)


def _without_workers(settings: Any) -> Any:
    if not settings:
        return settings
    env, *rest = settings
    kwargs = {name: value for name, value in env["kwargs"].items() if name not in _OF_PROCESSES}
    return [{**env, "kwargs": kwargs}, *rest]


def evaluate_checkpoint(run: Path, checkpoint: Path) -> tuple[dict[str, float], Any]:
    """Play whole episodes as the configuration of the run says; return the metrics, and what it says.

    Raises:
        UserError: the environments can't be made, or the checkpoint can't be read.
    """
    config = read_run_config(run)
    env, episodes, deterministic, seed = _settings_of(config)
    with make_whole_games(env, config.env) as venv, thread_count(1):
        policy = load_network(checkpoint, venv.single_observation_space)
        played = evaluate(policy, venv, episodes, deterministic, seed)
    interval = played.interval()
    bounds = {"eval/episodic_return_low": interval.low, "eval/episodic_return_high": interval.high}
    metrics = {
        EVAL_RETURN: interval.mean,
        **({} if math.isnan(interval.low) else bounds),  # a single episode or game has none
        "eval/episodic_length": float(played.lengths.mean()),
        "eval/episodes": float(len(played.returns)),
        **({} if played.success_rate is None else {"eval/success_rate": played.success_rate.mean}),
    }
    return metrics, plain((env, episodes, deterministic, seed))


def main(run: str, checkpoint: str) -> int:
    """Evaluate a checkpoint and write the result; returns the exit code."""
    at_end_of_input(lambda: os._exit(1))  # the training is gone, and the result useless
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    output = os.dup(1)
    os.dup2(2, 1)  # what environments print is no part of the result
    try:
        metrics, settings = evaluate_checkpoint(Path(run), Path(checkpoint))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    with open(output, "w") as file:
        json.dump({"metrics": metrics, "settings": settings}, file, default=str)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
