"""`entitize search`: find hyper-parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Annotated

import tyro

from ..adapters.procgen import GAMES
from ..experiments import TrainConfig, check_at_least, parse
from ..experiments.arguments import Names, split_names
from ..experiments.errors import user_errors
from ..experiments.queue import QueueFlags, configured, places, read_base, split_train_flags
from ..experiments.search import BEST, SearchSettings, read_parameters, run_search
from ..experiments.search.settings import Pruner
from .report import write_report

#: Flags of `entitize train` that the search sets.
_OWN_FLAGS = ("--run", "--resume", "--config", "--progress", "--ppo.seed", "--ppo.device")
#: `--param` with this name lists the games of each trial.
_GAMES = "env.id"


@dataclass(frozen=True, kw_only=True)
class SearchArguments(QueueFlags):
    """Search hyper-parameters: trials that Optuna proposes, trained in a queue, with a report at the end.

    Example: entitize search mine_sweeper --param ppo.learning_rate=log:1e-4..3e-2 --param net.d_model=16,32
    --trials 32 --jobs 2 --out runs/search -- --env.num-envs 32.
    The same command continues after a stop or a kill; `entitize report FOLDER` writes the report at any
    time. Flags after `--` are those of `entitize train`.
    """

    config: tyro.conf.Positional[str]
    """A YAML file, or the name of a configuration of the package."""
    param: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME=RANGE")] = ()
    """A setting and its values: LOW..HIGH, log:LOW..HIGH, int:LOW..HIGH, int:log:LOW..HIGH or A,B,C."""
    trials: int = 32
    """Trials to finish, pruned ones and those of earlier commands in the folder included."""
    games: Names = ()
    """Games that each trial trains on (default: the environment of the configuration); several only of
    Procgen: the objective is the mean of normalized returns."""
    seeds: int = 1
    """Runs per trial and game, with the seeds 0, 1, ..."""
    pruner: Pruner = "median"
    """Stop trials early whose running return is below the median of the others (median), or not in the better
    half at a quarter and at half of the steps (asha); or none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "trials")


def main(arguments: Sequence[str]) -> int:
    """Parse and run the command; returns the exit code."""
    words, train_flags = split_train_flags(arguments)
    chosen = parse(SearchArguments, "search", words)
    device, processes = places(chosen)
    settings = search_settings(chosen, train_flags)
    code = run_search(settings, chosen.out, trials=chosen.trials, processes=processes, device=device)
    if code != 130:
        write_report(chosen.out, chosen.out / "report")
        print(chosen.out / "report" / "report.html")
        if (chosen.out / BEST).exists():
            best = quote(str(chosen.out / BEST))
            print(f"entitize train --config {best} trains the best configuration")
    return code


def search_settings(chosen: SearchArguments, train_flags: Sequence[str] = ()) -> SearchSettings:
    """Return the settings of the search that is asked for.

    Raises:
        UserError: a configuration, parameter or flag does not exist, or the games' returns can't be averaged.
    """
    words, games = list(chosen.param), list(chosen.games)
    for word in chosen.param:
        name, _, values = word.partition("=")
        if name.strip() == _GAMES:
            with user_errors(ValueError):
                games += split_names([values])
            words.remove(word)
    base = read_base(chosen.config, train_flags, _OWN_FLAGS)
    base = configured(base, base.env.id, base.ppo.seed, chosen)
    ids = _ids(games, base)
    base = configured(base, ids[0], base.ppo.seed, chosen)
    return SearchSettings(base, tuple(read_parameters(words, base)), ids, chosen.seeds, chosen.pruner)


def _ids(games: Sequence[str], base: TrainConfig) -> tuple[str, ...]:
    """Return the environments of a trial; games of Procgen need no namespace."""
    ids = [f"Procgen/{name}" if name in GAMES else name for name in games]
    return tuple(dict.fromkeys(ids)) or (base.env.id,)
