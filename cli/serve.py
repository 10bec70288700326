"""`entitize serve`: a trained agent decides for games that connect by WebSocket."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from ..adapters.programs import Limits, ListeningVectorEnv
from ..adapters.programs.protocol import TOKEN
from ..envs import EntityVectorEnv
from ..envs.errors import positive_number
from ..experiments import parse
from ..experiments.errors import user_errors
from ..policies import CheckpointError
from ..policies.runtime import Agent, load_agent
from ..trainers import Shown, say


@dataclass(frozen=True)
class ServeArguments:
    """Decide for games that connect by WebSocket, with a trained agent. docs/protocol.md has the messages.

    Example: entitize serve runs/chase --listen 127.0.0.1:7000
    """

    run: tyro.conf.Positional[Path]
    """The run folder, or a checkpoint folder."""
    listen: str = "127.0.0.1:7000"
    """Address for games to connect to, HOST:PORT."""
    token: str | None = None
    """Token that games must send; needed unless HOST is a loopback address (default: ENTITIZE_TOKEN)."""
    games: int = 64
    """Maximum number of games at the same time."""
    silence: float = Limits.silence
    """Seconds without a message after which a game loses its connection, such as one that is paused."""
    deterministic: bool = False
    """Take the most probable action instead of sampling."""
    seed: int | None = None
    """Seed of the actions."""


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command, until Ctrl-C or SIGTERM, which close the connections of the games."""
    chosen = parse(ServeArguments, "serve", arguments)
    if chosen.token is not None:
        os.environ[TOKEN] = chosen.token
    with user_errors(CheckpointError, ValueError, ImportError):
        agent = load_agent(chosen.run, chosen.seed)
        limits = Limits(silence=positive_number("--silence", chosen.silence))
        venv = ListeningVectorEnv(chosen.listen, chosen.games, agent.reads, max_wait=0.005, limits=limits)
    with venv:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        line = f"{chosen.run} decides on ws://{venv.address}"
        say(Console(), line)
        decide(agent, venv, chosen.deterministic)


def decide(
    agent: Agent,
    venv: EntityVectorEnv,
    deterministic: bool = False,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Answer the questions of all games with `agent` until `is_over`, which is asked after each step."""
    shown = Shown.of(*venv.reset())
    while not is_over():
        acted = agent.act(shown.active_steps(), None, deterministic)
        batch, *_, info = venv.step(shown.for_all(acted.actions))
        shown = Shown.of(batch, info)
