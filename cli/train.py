"""`entitize train`: train a network as flags and a configuration file say."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from ..experiments.arguments import parse, peek
from ..experiments.config import TrainConfig, find_config, read_run_config, with_flags_over_file
from ..experiments.config_file import read_config
from ..experiments.errors import UserError
from ..experiments.train_flags import TrainArguments
from ..experiments.training import train


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command."""
    config, resume = peek(arguments, "config", "resume")
    if config is not None and resume is not None:
        raise UserError("a resumed run has its configuration: give --resume or --config, not both")
    base = TrainConfig()
    if resume is not None:
        base = read_run_config(Path(resume))
    elif config is not None:
        base = read_config(TrainConfig, find_config(config))
    chosen = parse(TrainArguments, "train", arguments, TrainArguments(base))
    settings = with_flags_over_file(chosen.settings, base)
    if chosen.resume is not None:
        if chosen.run is not None:
            raise UserError("a resumed run stays in its folder: give --resume or --run, not both")
        train(settings, chosen.resume, resume=True)
    else:
        train(settings, chosen.run or default_run_folder(settings))


def default_run_folder(config: TrainConfig) -> Path:
    """runs/<environment>-<time>."""
    name = config.env.id.split("/")[-1]
    return Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
