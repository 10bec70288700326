"""`entitize card`: an agent as a folder to share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tyro
from rich.console import Console

from ..experiments.agents import RANDOM, RandomActor, load_agent
from ..experiments.arguments import parse
from ..experiments.card import write_card
from ..experiments.environments import held_out, make_environments
from ..experiments.errors import UserError
from ..experiments.run_config import EnvChoice, read_run_config
from ..trainers import CheckpointError
from ..trainers.threads import thread_count
from .evaluate import judge, override, results_table


@dataclass(frozen=True)
class CardArguments:
    """Write a folder for model hubs: an agent's weights, configuration, spaces, and a card with its returns.

    The agent is evaluated first, as by `entitize eval`. `load_agent` and the commands read the folder.

    Example: entitize card runs/bigfish --out bigfish
    """

    run: tyro.conf.Positional[Path]
    """The run folder."""
    out: Path
    """The folder to write, new or empty."""
    episodes: int | None = None
    """Episodes to play (default: the number in the run's configuration)."""
    seed: int | None = None
    """Seed of environments and actions (default: that of the run's configuration)."""
    deterministic: bool = False
    """Take the most probable action instead of sampling."""
    checkpoint: Path | None = None
    """A checkpoint folder (default: the run's newest)."""
    title: str | None = None
    """Name of the agent (default: the name of the folder)."""
    license: str = "mit"
    """Licence of the weights, as model hubs write it."""
    env: EnvChoice = field(default_factory=EnvChoice)

    def __post_init__(self) -> None:
        if self.episodes is not None and self.episodes < 1:
            raise ValueError(f"--episodes must be at least 1, got {self.episodes}")


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command."""
    chosen = parse(CardArguments, "card", arguments)
    if chosen.out.exists() and (not chosen.out.is_dir() or any(chosen.out.iterdir())):
        raise UserError(f"{chosen.out}: expected a new or empty folder for the card")
    config = read_run_config(chosen.run, chosen.env)
    settings = override(config.eval, chosen.episodes, chosen.seed, chosen.deterministic)
    env, told = held_out(config.env, settings)
    title = chosen.title or chosen.out.resolve().name
    with thread_count(config.ppo.num_threads), make_environments(env) as venv:
        agent = load_agent(chosen.checkpoint or chosen.run, venv.single_observation_space)
        agents = {title: agent, RANDOM: RandomActor(venv.single_action_space)}
        results = judge(agents, venv, settings)
    actions = "the most probable actions" if settings.deterministic else "sampled actions"
    protocol = (
        f"{settings.episodes} whole episodes in {env.num_envs} environments ({told}), a fixed number in each,"
        f" with {actions}; seed {settings.seed}. `entitize eval --episodes {settings.episodes}` repeats it."
    )
    try:
        write_card(
            *(chosen.run, chosen.checkpoint, chosen.out, config, agent, results, protocol, title),
            licence=chosen.license,
        )
    except CheckpointError as error:
        raise UserError(str(error)) from error
    Console().print(results_table(title, f"{config.env.id}, {told}", results))
    Console().print(f"{chosen.out}: written", highlight=False, soft_wrap=True)
