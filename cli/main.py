"""The command line: `entitize COMMAND`, e.g. `entitize train`; `COMMANDS` lists them.

Each command is a module with `main(arguments)`, loaded when it is called, so that `--help` is quick.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from .. import __version__
from ..envs import ObservationError
from ..experiments import UserError
from ..experiments.errors import check_known, user_errors
from ..lazy import needs_extra
from ..process import EFFECTS, is_on

#: Command -> (its module, what it does).
COMMANDS = {
    "train": ("cli.train", "train a network with PPO"),
    "eval": ("cli.evaluate", "play whole episodes on held-out levels: returns with confidence intervals"),
    "report": ("cli.report", "report one run, an experiment, or several runs beside each other"),
    "play": ("cli.play", "write a video of an agent, or a page that shows why it acts (--html)"),
    "record": ("cli.record", "record what an agent plays, as a dataset"),
    "clone": ("cli.clone", "train a network to choose the actions of recorded play"),
    "export": ("cli.export", "write an agent's network as an ONNX file"),
    "card": ("cli.card", "write an agent as a folder for a model hub, with a card of its returns"),
    "replay": ("cli.replay", "play a dataset again and report the first step that differs"),
    "serve": ("cli.serve", "decide for games that connect by WebSocket"),
    "check": ("cli.check", "check that an environment follows the rules"),
    "experiment": (
        "cli.experiment",
        "train many runs in a queue that can be continued: procgen, microrts, ablation",
    ),
    "search": ("cli.search", "search hyper-parameters with trials that can be continued and pruned"),
    "warm-up": ("cli.warm_up", "compile the kernels that training needs, e.g. when an image is built"),
    "bench": ("cli.bench", "run the benchmarks (from a checkout)"),
    "info": ("cli.info", "print versions, an environment's spaces, or a network's size and cost"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code.

    0; 1 where a check found a fault; 2 for wrong arguments or files; 130 after Ctrl-C in a training, a search
    or an experiment.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # of characters that the terminal or file can't hold
    try:
        return _run(words)
    except (UserError, ObservationError) as error:
        print(f"entitize: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        print(f"entitize: this name is too long for the system: {error.filename}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("entitize: interrupted", file=sys.stderr)
        return 130


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0
    if words[0] == "--version":
        print(__version__)
        return 0
    command, *rest = words
    check_known("command", command, COMMANDS)
    with user_errors(ValueError):  # before a run starts, not in its first step
        for effect in EFFECTS:
            is_on(effect)
    try:
        module = importlib.import_module(f"entitize.{COMMANDS[command][0]}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("entitize"):
            raise
        needed = needs_extra(f"entitize {command}", error)
        if needed is error:
            raise
        raise UserError(str(needed)) from error
    return module.main(rest) or 0


def _help() -> str:
    lines = [f"  {name:10} {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: entitize COMMAND [OPTIONS]",
            "",
            "Entity-based reinforcement learning for Gymnasium.",
            "",
            *lines,
            "",
            "Example: entitize train --config procgen --env.id Procgen/coinrun --run runs/coinrun"
            " --ppo.total-timesteps 1_000_000",
            "(without the last flag it takes 25 million steps, which is half an hour to some hours).",
            "`entitize COMMAND --help` lists the options of a command.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
