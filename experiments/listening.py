"""Runs of games that connect (`--listen`): their spaces, and lines that say that games are missing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ..envs import EntityVectorEnv
from ..policies import METADATA, CheckpointError, checkpoint_paths, newest_checkpoint, read_metadata
from ..policies.checkpoint import malformed_means, network_spaces
from ..trainers import say
from .config import TrainConfig
from .environments import LISTEN
from .errors import user_errors

if TYPE_CHECKING:
    from ..adapters.programs import ListeningVectorEnv

#: Seconds without a game, or with too few of them, after which a line says so.
ALONE = 5.0


def stored_space(config: TrainConfig, path: Path) -> dict[str, Any]:
    """Return the option `space` for environments of games that connect: that of the agent in `path`.

    There is none (the first game declares it) for other environments, and in a run without a checkpoint.

    Raises:
        UserError: the checkpoint can't be read.
    """
    if config.env.id != LISTEN:
        return {}
    folder = path / "checkpoints"
    if not os.path.isfile(path / METADATA) and not (os.path.isdir(folder) and checkpoint_paths(folder)):
        return {}
    with user_errors(CheckpointError):
        checkpoint = newest_checkpoint(path)
        metadata = read_metadata(checkpoint)
        with malformed_means(f"checkpoint {checkpoint} does not describe spaces"):
            return {"space": network_spaces(metadata)[1]}


@contextmanager
def saying_that_no_game_is_there(
    env_id: str, venv: object, console: Console, seconds: float = ALONE
) -> Iterator[None]:
    """Print a line each time that no game has been connected to `venv` for some seconds."""
    games = _listening(env_id, venv)
    if games is None:
        yield
        return
    has_ended = threading.Event()

    def watch() -> None:
        since, is_said = time.monotonic(), False
        while not has_ended.wait(seconds / 10):
            if games.num_connected:
                since, is_said = time.monotonic(), False
            elif not is_said and time.monotonic() - since >= seconds:
                say(console, f"no game is connected: waiting for one on ws://{games.address}")
                is_said = True

    thread = threading.Thread(target=watch, name="no game", daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


@contextmanager
def saying_how_many_are_missing(env_id: str, venv: EntityVectorEnv) -> Iterator[None]:
    """Say after some seconds how many games have not connected: every lane's episodes are waited for."""
    games = _listening(env_id, venv.unwrapped)
    if games is None:
        yield
        return

    def tell() -> None:
        if games.num_connected < games.num_envs:
            counts = f"{games.num_connected} of {games.num_envs} lanes have a game"
            say(Console(stderr=True), f"{counts}: connect more, or start again with --num-envs")

    timer = threading.Timer(ALONE, tell)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _listening(env_id: str, venv: object) -> ListeningVectorEnv | None:
    """Return `venv` if games connect to it, else None."""
    if env_id != LISTEN:
        return None
    from ..adapters.programs import ListeningVectorEnv

    assert isinstance(venv, ListeningVectorEnv)
    return venv
