"""The process of one run of an experiment:

    python -m entitize.experiments.queue.run_child train FOLDER --device cpu
    python -m entitize.experiments.queue.run_child eval FOLDER --games 100 --fast

The queue that started it holds the other end of its standard input. When that end is closed, by the queue or
because the queue died, it stops: training after the current update, with a checkpoint; evaluation at once,
with the finished games kept. SIGTERM and Ctrl-C do the same.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...process import at_end_of_input
from ...trainers import RunLockedError, run_lock
from ..arguments import parse
from ..config import read_run_config
from ..errors import UserError
from ..training import train

#: The exit code if another process uses the run folder.
LOCKED = 75


def main(arguments: Sequence[str]) -> int:
    """Train or evaluate a run; returns the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("stage", choices=["train", "eval"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="auto")
    chosen, rest = parser.parse_known_args(list(arguments))
    try:
        if chosen.stage == "train":
            _train(chosen.folder, chosen.device)
        else:
            _evaluate(chosen.folder, rest)
    except RunLockedError as error:
        print(error, file=sys.stderr)
        return LOCKED
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _train(folder: Path, device: str) -> None:
    stop = threading.Event()
    at_end_of_input(stop.set)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: stop.set())
    config = read_run_config(folder)
    config = replace(config, ppo=replace(config.ppo, device=device))
    train(config, folder, resume=True, stop=stop)


def _evaluate(folder: Path, words: Sequence[str]) -> None:
    # With the packages that draw, which training starts without.
    from ..microrts.match_evaluation import evaluate_matches
    from ..microrts.match_plan import MicroRTSEvalArguments

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    at_end_of_input(lambda: os.kill(os.getpid(), signal.SIGINT))
    with run_lock(folder):
        evaluate_matches(parse(MicroRTSEvalArguments, "eval microrts", [str(folder), *words]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
