"""`entitize clone`: a network that learns what recorded play did."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from ..datasets import DatasetError, EntityDataset
from ..experiments import (
    ROGUE_NET,
    TrainConfig,
    UserError,
    find_config,
    load_network,
    make_rogue_net,
    parse,
    read_config,
)
from ..experiments.arguments import peek
from ..experiments.errors import user_errors
from ..policies import CheckpointError, newest_checkpoint, read_metadata
from ..policies.loading import AnyNetwork
from ..policies.rogue_net import RogueNetConfig
from ..trainers import NonFiniteError, RunLockedError
from ..trainers.cloning import BehaviorCloning, BehaviorCloningConfig
from ..trainers.learners.optimizer import find_device


@dataclass(frozen=True)
class CloneArguments:
    """Train RogueNet to choose the actions of recorded play (behaviour cloning).

    Example: entitize clone plays/ --run runs/clone --net.d-model 32
    """

    data: tyro.conf.Positional[tuple[Path, ...]]
    """The folders of the recorded play; `entitize record` writes one."""
    run: Path | None = None
    """The folder of this run (default: runs/clone-<time>)."""
    resume: bool = False
    """Continue the run in --run, with its network and hyper-parameters."""
    config: str | None = None
    """Take the network of this training configuration, a YAML file or a name (microrts); flags change it."""
    init_from: Path | None = None
    """Start from the network of this run instead of a fresh one; the options --net are then not used."""
    net: RogueNetConfig = field(default_factory=RogueNetConfig)
    cloning: BehaviorCloningConfig = field(default_factory=BehaviorCloningConfig)

    def __post_init__(self) -> None:
        if not self.data:
            raise ValueError("name at least one folder of recorded play")
        if self.resume and self.run is None:
            raise ValueError("--resume needs the folder of the run: --run")
        if self.config is not None and self.init_from is not None:
            raise ValueError("--config and --init-from each give the network: give one of them")


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command."""
    config, run_before = peek(arguments, "config", "run")
    default = None if config is None else CloneArguments(tyro.MISSING, config=config, net=_network_of(config))
    if "--resume" in arguments and run_before is not None:
        default = _arguments_of(Path(run_before)) or default
    chosen = parse(CloneArguments, "clone", arguments, default)
    run = chosen.run or Path("runs") / f"clone-{time.strftime('%Y%m%d-%H%M%S')}"

    def show(trainer: BehaviorCloning, metrics: dict[str, float]) -> None:
        print(describe(trainer, metrics), flush=True)

    with user_errors(ValueError):
        find_device("cpu" if chosen.cloning.device == "auto" else chosen.cloning.device)
    try:
        dataset = EntityDataset(*chosen.data)
        trainer = BehaviorCloning(
            _network(chosen, dataset), dataset, chosen.cloning, run, resume=chosen.resume, callbacks=[show]
        )
        learned, held_out = len(trainer.demonstrations.learned), len(trainer.demonstrations.held_out)
        resumed = f", resumed after epoch {trainer.epoch}" if chosen.resume else ""
        folders = ", ".join(map(str, chosen.data))
        print(f"{folders}: {learned:,} steps to learn from, {held_out:,} held out, in {run}{resumed}")
        trainer.train()
    except FileExistsError as error:
        raise UserError(
            f"{run} contains a run already: continue it with --resume, or name another"
        ) from error
    except (DatasetError, CheckpointError, NonFiniteError, RunLockedError, OSError) as error:
        raise UserError(str(error)) from error
    print(f"checkpoints in {run / 'checkpoints'}")


def _arguments_of(run: Path) -> CloneArguments | None:
    """Return the options that a run was started with; None: it has no checkpoint with such."""
    try:
        metadata = read_metadata(newest_checkpoint(run))
        net = metadata["policy"]["config"] if metadata["policy"]["class"] == ROGUE_NET else {}
        cloning = BehaviorCloningConfig(**metadata["cloning"])
        return CloneArguments(tyro.MISSING, net=RogueNetConfig(**net), cloning=cloning)
    except (CheckpointError, KeyError, TypeError, ValueError):
        return None  # opening the run raises the error


def _network_of(config: str) -> RogueNetConfig:
    """Return the network of a training configuration.

    Raises:
        UserError: there is no such configuration, or its network is no RogueNet.
    """
    settings = read_config(TrainConfig, find_config(config))
    if settings.network != ROGUE_NET:
        raise UserError(f"--config {config}: network: expected {ROGUE_NET}, got {settings.network}")
    return settings.net


def describe(trainer: BehaviorCloning, metrics: dict[str, float]) -> str:
    """One line for an epoch: likelihoods, and the accuracy per action on held-out steps."""
    parts = [
        f"epoch {trainer.epoch}/{trainer.config.epochs}",
        f"{metrics['charts/SPS']:,.0f} samples/s",
        f"log-likelihood {metrics['losses/log_likelihood']:.3f}",
    ]
    for key, value in metrics.items():
        kind, _, name = key.removeprefix("held_out/").partition("/")
        if key == "held_out/log_likelihood":
            parts.append(f"held out {value:.3f}")
        elif kind == "accuracy":
            parts.append(f"{name} {100 * value:.1f} %")
        elif kind == "error":
            parts.append(f"{name} ±{value:.3g}")
    return "  ".join(parts)


def _network(chosen: CloneArguments, dataset: EntityDataset) -> AnyNetwork:
    if chosen.init_from is not None:
        return load_network(chosen.init_from, dataset.space)
    return make_rogue_net(dataset.space, chosen.net, chosen.cloning.seed)
