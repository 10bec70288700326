"""`entitize card`: an agent as a folder to share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from ..experiments import (
    RANDOM,
    UserError,
    check_at_least,
    check_new_folder,
    evaluation_env,
    parse,
    write_card,
)
from ..experiments.config import read_run_outline
from ..experiments.errors import user_errors
from ..experiments.network_options import is_own
from ..experiments.reports.document import counted
from ..policies import newest_checkpoint
from ..trainers import CheckpointError
from .agent_flags import AgentFlags
from .evaluate import TableRow, judge, results_table


@dataclass(frozen=True, kw_only=True)
class CardArguments(AgentFlags):
    """Write a folder for model hubs: an agent's weights, configuration, spaces, and a card with its returns.

    The agent is evaluated first, as by `entitize eval`. `load_agent` and the commands read the folder.

    Example: entitize card runs/bigfish --out bigfish
    """

    out: Path
    """The folder to write, new or empty."""
    episodes: int | None = None
    """Episodes to play (default: the number in the run's configuration)."""
    title: str | None = None
    """Name of the agent (default: the name of the folder)."""
    license: str | None = None
    """Licence of the weights, as model hubs write it: mit, apache-2.0 (default: the card names none)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "episodes")


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command."""
    chosen = parse(CardArguments, "card", arguments)
    check_new_folder(chosen.out)
    read_run_outline(chosen.run)  # a network that was saved alone has no training to describe
    config, settings = chosen.read()
    if is_own(config.network):
        raise UserError(f"card: expected a network of the library, which others have, got {config.network}")
    settings = replace(settings, episodes=chosen.episodes or settings.episodes)
    settings = replace(settings, kwargs={**settings.kwargs, **chosen.kwargs}, vary={})
    config = replace(config, eval=settings)  # so that `eval` of the folder plays the same
    env, levels = evaluation_env(config.env, settings, "held-out", {})
    title = chosen.title or chosen.out.resolve().name
    if title == RANDOM:
        raise UserError(f"--title: expected another name than that of the random policy, got {title!r}")
    try:  # once: a running training writes others meanwhile
        checkpoint = newest_checkpoint(chosen.path)
    except CheckpointError as error:
        raise UserError(str(error)) from error
    chosen = replace(chosen, checkpoint=checkpoint)
    with chosen.environments(config, env) as venv:
        agents = {title: chosen.load(venv), RANDOM: chosen.load(venv, is_random=True)}
        results = judge(agents, venv, settings)
    actions = "the most probable actions" if settings.deterministic else "sampled actions"
    options = "".join(f" {name}={value}" for name, value in settings.kwargs.items())
    seed = "" if str(settings.seed) in levels else f"; seed {settings.seed}"
    episodes = counted(settings.episodes, "whole episode")
    protocol = (
        f"{episodes} in {counted(env.num_envs, 'environment')} ({levels}{options}), a fixed number in each,"
        f" with {actions}{seed}. `entitize eval` plays the same episodes."
    )
    with user_errors(CheckpointError):
        write_card(chosen.run, checkpoint, chosen.out, config, results, protocol, title, chosen.license)
    rows: list[TableRow] = [(name, {}, result) for name, result in results.items()]
    Console().print(results_table(title, f"{config.env.id}, {levels}", rows))
    print(f"{chosen.out}: written")
