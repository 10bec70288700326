"""`entitize train`: train a network by flags and a configuration file."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
from rich.console import Console

from ..adapters.environment_resolver import resolve
from ..adapters.programs.protocol import TOKEN
from ..experiments import (
    Actors,
    EnvChoice,
    TrainArguments,
    TrainConfig,
    UserError,
    find_config,
    parse,
    read_config,
    read_run_config,
    train,
    with_flags_over_file,
)
from ..experiments.arguments import peek
from ..experiments.config import read_agent_config, run_of, with_sections_of_flags
from ..experiments.config_file import read_yaml
from ..experiments.environments import LISTEN
from ..experiments.errors import user_errors
from ..experiments.network_options import is_own
from ..trainers import RankError, RunLockedError, say
from ..trainers.stopping import stop_on_signals


def main(arguments: Sequence[str]) -> int:
    """Parse and run the command; returns 130 where Ctrl-C or SIGTERM ended it before its time, else 0."""
    _check_run_folder(*peek(arguments, "run"))
    base = with_sections_of_flags(_base_config(arguments), arguments)
    chosen = parse(TrainArguments, "train", arguments, TrainArguments(base))
    settings = with_flags_over_file(chosen.settings, base)
    _check_together(chosen, settings, base)
    if chosen.resume is not None:
        _tell_of_changes(base.env.kwargs, settings.env.kwargs)
    if chosen.token is not None:
        # Not an option, which would be written into the run folder.
        os.environ[TOKEN] = chosen.token
    actors = None if chosen.ray is None else Actors(chosen.ray, chosen.ray_staleness, chosen.ray_timeout)
    run = chosen.resume or chosen.run or default_run_folder(settings)
    stop = threading.Event()
    with user_errors(RankError, RunLockedError), stop_on_signals(stop):
        is_resumed, given = chosen.resume is not None, _network_flags(arguments)
        train(
            settings,
            run,
            resume=is_resumed,
            stop=stop,
            detail=chosen.progress,
            given=given,
            actors=actors,
        )
    return 130 if stop.is_set() else 0


def _tell_of_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Say which options of the environment a resumed run changes: its reports take all steps for the new."""
    names = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    if names:
        was, are = (
            ", ".join(f"{name}={options[name]}" if name in options else f"{name} not set" for name in names)
            for options in (before, now)
        )
        hint = "Reports take the whole run for one with the new options; --init-from begins another run"
        say(Console(), f"options of the environment change: {was} before, {are} from now on. {hint}")


def _check_run_folder(name: str | None) -> None:
    """Check the word after `--run`.

    Raises:
        UserError: it is empty, as where a shell's variable is not set, or is no text.
    """
    if name == "":
        raise UserError("--run: expected the name of a folder, got an empty one")
    try:
        (name or "").encode()
    except UnicodeEncodeError as error:
        raise UserError(f"--run: expected a name in UTF-8, got {name!r}") from error


def _base_config(arguments: Sequence[str]) -> TrainConfig:
    """Return the configuration that the flags change: of a file, of a run to resume, or the default.

    Raises:
        UserError: two flags name the environment or the configuration, or what they name is not there.
    """
    names = "init_from", "config", "resume", "env.id", "game", "listen"
    start, config, resume, *sources = peek(arguments, *names)
    env_id, game, address = sources
    if len([name for name in sources if name is not None]) > 1:
        raise UserError("--env.id, --game and --listen each name the environment: give one of them")
    if config is not None and resume is not None:
        raise UserError("a resumed run has its configuration: give --resume or --config, not both")
    base = TrainConfig()
    if resume is not None:
        base = read_run_config(Path(resume), EnvChoice(env_id or game or (address and LISTEN)))
    elif config is not None:
        base = read_config(TrainConfig, find_config(config))
    start = start or base.init_from
    if start and resume is None and not any(sources) and not (config and _names_env(find_config(config))):
        base = _in_environment_of(Path(start), base)
    if game is not None:
        _check_game(game)
        return replace(base, env=replace(base.env, id=game))
    if address is not None:
        # Options of the file are for the games that connect, unless it names another environment.
        is_theirs = base.env.id == LISTEN or (config is not None and not _names_env(find_config(config)))
        options = {**(base.env.kwargs if is_theirs else {}), "address": address}
        return replace(base, env=replace(base.env, id=LISTEN, kwargs=options))
    return base


def _in_environment_of(start: Path, base: TrainConfig) -> TrainConfig:
    """Return `base` in the environment of the run that training starts from, with its network if that is a
    class of the user.

    Raises:
        UserError: there is no such run, or it does not say which environment it was trained in.
    """
    try:
        begun = read_agent_config(run_of(start), EnvChoice())
    except UserError as error:
        raise UserError(f"init_from: {error}") from error
    env = replace(begun.env, kwargs={**begun.env.kwargs, **base.env.kwargs})
    if base.env.num_envs != TrainConfig().env.num_envs:
        env = replace(env, num_envs=base.env.num_envs)
    evaluation = replace(base.eval, kwargs={**begun.eval.kwargs, **base.eval.kwargs})
    network = begun.network if is_own(begun.network) else base.network
    return replace(base, env=env, eval=evaluation, network=network)


def _names_env(config: Path) -> bool:
    """Return whether a configuration file has `env.id`."""
    env = (read_yaml(config) or {}).get("env") or {}
    return "id" in env


def _check_together(chosen: TrainArguments, settings: TrainConfig, base: TrainConfig) -> None:
    """Check flags that depend on each other.

    Raises:
        UserError: two of them exclude each other, or one is without the one that it belongs to.
    """
    listens = settings.env.id == LISTEN
    if chosen.token is not None and not listens:
        raise UserError("--token: expected it together with --listen, got it without. Remove it")
    if settings.eval.every is not None and listens:
        raise UserError("--eval.every: expected an environment that can be made again, got --listen")
    if chosen.resume is not None and chosen.run is not None:
        raise UserError("a resumed run stays in its folder: give --resume or --run, not both")
    if chosen.resume is not None and settings.init_from != base.init_from:
        raise UserError(
            "a resumed run continues from its own checkpoint: give --resume or --init-from, not both"
        )
    for flag in ("ray_staleness", "ray_timeout"):
        if chosen.ray is None and getattr(chosen, flag) != getattr(TrainArguments, flag):
            name = flag.replace("_", "-")
            raise UserError(f"--{name}: expected it together with --ray, got it without. Remove it")
    if chosen.ray is not None and listens:
        raise UserError("--ray: expected environments that actors can make, got --listen")


def _network_flags(arguments: Sequence[str]) -> set[str]:
    """Return the options of RogueNet that have a flag, such as "d_model" of `--net.d-model 32`."""
    names = [re.split(r"[.=]", word)[1] for word in arguments if word.startswith("--net.")]
    return {name.removeprefix("no-").replace("-", "_") for name in names}


def _check_game(game: str) -> None:
    """Check that `game` names a `Program`, so that the error says how to make it one.

    Raises:
        UserError: it does not.
    """
    with user_errors(gymnasium.error.Error):
        makers = resolve(game)
    if not makers.is_program:
        raise UserError(
            f"--game {game}: expected a function decorated with"
            " @ez.program(entities=[...], actions={...}), got something else. Environments go with --env.id"
        )


def default_run_folder(config: TrainConfig) -> Path:
    """Return runs/<environment>-<time>."""
    name = re.split(r"[/:]", config.env.id)[-1]
    return Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
