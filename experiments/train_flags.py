"""Flags of `entitize train`, which `entitize experiment` takes as well."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from ..trainers.progress import Detail
from .config import TrainConfig, config_names

_CONFIG_HELP = f"A YAML file, or the name of a configuration of the package: {', '.join(config_names())}."


@dataclass(frozen=True)
class TrainArguments:
    """Train a network with PPO. Flags override the configuration file, which overrides the defaults shown.

    Example: entitize train --config procgen --env.id Procgen/coinrun --run runs/coinrun
    """

    settings: Annotated[TrainConfig, tyro.conf.arg(name="")] = field(default_factory=TrainConfig)
    config: Annotated[str | None, tyro.conf.arg(help=_CONFIG_HELP)] = None
    game: str | None = None
    """A game with a loop of its own, module:function (docs/programs.md); sets env.id."""
    listen: str | None = None
    """Train in games that connect by WebSocket at HOST:PORT (docs/protocol.md); sets env.id."""
    token: str | None = None
    """With --listen: what games must send; needed unless HOST is a loopback address (default: the
    environment variable ENTITIZE_TOKEN)."""
    run: Path | None = None
    """The folder of this run (default: runs/<environment>-<time>)."""
    resume: Path | None = None
    """Continue the run in this folder, with its configuration; flags may change it."""
    progress: Detail = "short"
    """Lines of progress: none, short, or full (episode length, losses and shares of time as well)."""
