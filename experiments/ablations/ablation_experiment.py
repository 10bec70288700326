"""`entitize experiment ablation STUDY`: every variant of a study in its games."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from ..config import TrainConfig
from ..config_file import plain
from ..errors import UserError
from ..queue.queue_flags import QueueFlags, configured, names, read_base
from ..queue.training_jobs import TrainingJob
from .studies import Study, ablation_config, find_study, read_studies


@dataclass(frozen=True, kw_only=True)
class AblationArguments(QueueFlags):
    """Train the variants of a study: one run for each game, variant and seed.

    Example: entitize experiment ablation pooling --games heist,maze --out runs/pooling -- --env.num-envs 32.
    `entitize experiment ablation` lists the studies. The same command continues after a stop or a kill. Flags
    after `--` are those of `entitize train`.
    """

    study: tyro.conf.Positional[str]
    """The study, e.g. chunk_size."""
    games: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="A,B")] = ()
    """Games (default: those of the study), or all that the study allows."""
    variants: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="A,B")] = ()
    """Variants (default: all)."""


def listing() -> str:
    """The studies, what they ask, and where."""
    lines = ["usage: entitize experiment ablation STUDY --out DIR [OPTIONS] [-- FLAGS OF TRAIN]"]
    for name, study in read_studies().items():
        others = [variant for variant in study.variants if variant != study.baseline]
        variants = f"{study.baseline}, beside {', '.join(others)}"
        lines += ["", f"{name}: {study.question}", f"    {variants}; {', '.join(study.games)}"]
    return "\n".join(lines)


def ablation_jobs(chosen: AblationArguments, train_flags: Sequence[str] = ()) -> list[TrainingJob]:
    """The runs that are asked for.

    Raises:
        UserError: there is no such study, game, variant or flag, or a flag says what is the study's to say.
    """
    study = find_study(chosen.study)
    games = names("game", chosen.games or study.games, study.allowed_games())
    variants = names("variant", chosen.variants or ["all"], study.variants)
    base = _base(chosen.study, study, train_flags)
    jobs = []
    for seed in range(chosen.seeds):
        for game in games:
            for variant in variants:
                config = ablation_config(chosen.study, game, variant, base)
                jobs.append(TrainingJob(game, variant, seed, configured(config, config.env.id, seed, chosen)))
    return jobs


def _base(name: str, study: Study, train_flags: Sequence[str]) -> TrainConfig:
    """The configuration that the variants change, with flags of `entitize train` over it."""
    base = read_base(study.config, train_flags)
    before, after = plain(read_base(study.config, ())), plain(base)
    for key in sorted(study.changes()):
        if _value(before, key) != _value(after, key):
            raise UserError(f"{key} is what the study {name} sets, so it can't be given after --")
    return base


def _value(data: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key; None if it does not exist."""
    value: Any = data
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
