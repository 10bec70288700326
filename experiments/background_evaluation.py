"""Evaluation while training goes on, by a process of low priority that plays checkpoints one after the other.

python -m entitize.experiments.background_evaluation RUN CHECKPOINT RESULT
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from ..files import parse_json, replace_file
from ..trainers import (
    PPO,
    RunFolder,
    bootstrap_interval,
    checkpoint_paths,
    evaluate,
    is_due,
    step_of,
    thread_count,
    write_checkpoint,
)
from ..trainers.runs import delete_checkpoint
from ..trainers.runs.trainer_state import capture
from .config import read_run_config
from .environments import held_out, make_environments
from .errors import UserError
from .networks import load_agent

#: The niceness of the process: training goes first.
_NICENESS = 10
#: Of `metrics.jsonl`: the mean return of an evaluation.
EVAL_RETURN = "eval/episodic_return"


class BackgroundEvaluation:
    """A callback of `PPO` that has a checkpoint evaluated every `every` environment steps.

    Checkpoints wait in `eval/` of the run folder until they were played. The results go into the metrics of
    the run at the step of the checkpoint; the best checkpoint is kept in `best/`. Neither depends on when an
    evaluation ends: checkpoints are played in order, all of them, with the same seed.
    """

    def __init__(
        self, folder: RunFolder, every: int, step: int, console: Console, stop: threading.Event
    ) -> None:
        self.folder, self.every, self.console, self.stop = folder, every, console, stop
        self._step = step
        self._waiting = folder.path / "eval"
        self._process: subprocess.Popen[bytes] | None = None
        self._latest: dict[str, float] = {}
        for path in checkpoint_paths(self._waiting):
            if step_of(path) > step:  # of a part of the run that is trained again
                delete_checkpoint(path)

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
                self._say(f"{waiting} checkpoints are still to be evaluated")
            while not self.stop.is_set() and checkpoint_paths(self._waiting):
                self._poll(wait=True)
        finally:
            if self._process is not None:
                self._process.kill()
                self._process.communicate()
            self.folder.close()

    def _poll(self, wait: bool = False) -> None:
        """Take in a result that is ready; start the next evaluation if none is running."""
        paths = checkpoint_paths(self._waiting)
        if self._process is not None and (wait or self._process.poll() is not None):
            errors = self._process.communicate()[1].decode(errors="replace").strip()
            failed, self._process = self._process.returncode != 0, None
            self._take_in(paths.pop(0), errors if failed else None)
        if self._process is None and paths:
            arguments = self.folder.path, paths[0], self._result(paths[0])
            command = [sys.executable, "-m", __name__, *map(str, arguments)]
            # In a session of its own: Ctrl-C is for the training.
            self._process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
            )

    def _say(self, line: str) -> None:
        self.console.print(line, highlight=False, soft_wrap=True)

    def _result(self, checkpoint: Path) -> Path:
        return checkpoint.with_suffix(".json")

    def _take_in(self, checkpoint: Path, errors: str | None) -> None:
        result = self._result(checkpoint)
        if errors is not None:
            reason = errors.splitlines()[-1] if errors else "it was killed"
            self._say(f"the evaluation of step {step_of(checkpoint):,} failed: {reason}")
            delete_checkpoint(checkpoint)
            return
        self._latest = parse_json(result.read_bytes())
        self.folder.log(step_of(checkpoint), self._latest)
        self._keep_if_best(checkpoint, self._latest)
        result.unlink()

    def _keep_if_best(self, checkpoint: Path, found: Mapping[str, float]) -> None:
        """Move the checkpoint to `best/` if no earlier one had a higher mean return; else delete it."""
        best = self.folder.path / "best"
        record = best / "evaluation.json"
        if record.exists() and parse_json(record.read_bytes())[EVAL_RETURN] >= found[EVAL_RETURN]:
            delete_checkpoint(checkpoint)
            return
        kept = best / "checkpoints"
        kept.mkdir(parents=True, exist_ok=True)
        earlier = checkpoint_paths(kept)
        shutil.rmtree(kept / checkpoint.name, ignore_errors=True)
        checkpoint.rename(kept / checkpoint.name)
        content = {"step": step_of(checkpoint), **found}
        replace_file(record, json.dumps(content, indent=1).encode())
        for path in earlier:
            if path.name != checkpoint.name:
                delete_checkpoint(path)


def measure(run: Path, checkpoint: Path) -> dict[str, float]:
    """Play whole episodes as the configuration of the run says.

    Raises:
        UserError: the environments can't be made, or the checkpoint can't be read.
    """
    config = read_run_config(run)
    env, _ = held_out(config.env, config.eval)
    with make_environments(env) as venv, thread_count(1):
        policy, settings = load_agent(checkpoint, venv.single_observation_space), config.eval
        played = evaluate(policy, venv, settings.episodes, settings.deterministic, settings.seed)
    interval = bootstrap_interval(played.returns)
    return {
        EVAL_RETURN: interval.mean,
        "eval/episodic_return_low": interval.low,
        "eval/episodic_return_high": interval.high,
        "eval/episodic_length": float(played.lengths.mean()),
        "eval/episodes": float(len(played.returns)),
    }


def main(run: str, checkpoint: str, result: str) -> int:
    """Evaluate a checkpoint and write the result; returns the exit code."""
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    try:
        found = measure(Path(run), Path(checkpoint))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    replace_file(Path(result), json.dumps(found).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
