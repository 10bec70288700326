"""`entitize info`: versions, what an environment shows and takes, what a network costs."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import tyro
from rich.console import Console

from .. import __version__
from ..envs import EntitySpace, EntityVectorEnv, sample_actions
from ..experiments.agents import load_agent
from ..experiments.arguments import parse
from ..experiments.config import RUN_CONFIG, TrainConfig
from ..experiments.env_config import EnvConfig, Pairs
from ..experiments.environments import make_environments
from ..experiments.errors import UserError
from ..experiments.microrts.microrts_lanes import with_lanes
from ..experiments.network_options import ROGUE_NET, Network
from ..experiments.networks import make_policy
from ..experiments.run_config import EnvChoice, UnknownEnvError, read_run_config
from ..policies.loading import AnyNetwork
from ..policies.rogue_net import RogueNetConfig

PACKAGES = ("numpy", "numba", "gymnasium", "torch", "procgen-mirror", "gym3", "safetensors", "tensorboard")


@dataclass(frozen=True)
class InfoArguments:
    """Print versions, or the spaces of an environment and what a network for it costs, or those of a run."""

    env: tyro.conf.Positional[str | None] = None
    """An environment, e.g. Procgen/bigfish; or a run folder."""
    run: Path | None = None
    """A run folder, whose network is described in the environment above if one is given."""
    kwargs: Pairs = field(default_factory=dict)
    """Options of the environment, e.g. features=planes."""
    network: Network = ROGUE_NET
    """The network whose size and cost to tell."""
    net: RogueNetConfig = field(default_factory=RogueNetConfig)
    baseline: Pairs = field(default_factory=dict)
    """Options of another network than RogueNet."""


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command."""
    chosen = parse(InfoArguments, "info", arguments)
    console = Console(highlight=False, soft_wrap=True)
    if chosen.run is None and chosen.env is not None and (Path(chosen.env) / RUN_CONFIG).is_file():
        chosen = replace(chosen, env=None, run=Path(chosen.env))
    if chosen.run is not None:
        if chosen != InfoArguments(env=chosen.env, run=chosen.run):
            raise UserError("a run has its network: remove --kwargs, --network, --net and --baseline")
        _describe_run(console, chosen.run, chosen.env)
    elif chosen.env is not None:
        config = _chosen_config(chosen.env, chosen)
        with make_environments(config.env) as venv:
            _describe(console, make_policy(config, venv), venv)
    elif chosen != InfoArguments():
        raise UserError("name the environment that the network is for, e.g. MicroRTS/basesWorkers8x8")
    else:
        console.print(versions(), markup=False)


def _chosen_config(env: str, chosen: InfoArguments) -> TrainConfig:
    try:
        return TrainConfig(
            EnvConfig(env, num_envs=8, kwargs=chosen.kwargs),
            chosen.network,
            chosen.net,
            baseline=chosen.baseline,
        )
    except ValueError as error:
        raise UserError(str(error)) from error


def _describe_run(console: Console, run: Path, env: str | None) -> None:
    """Describe the network of a run; without its cost where the environment is not known."""
    try:
        config = read_run_config(run, EnvChoice(env))
    except UnknownEnvError:
        console.print(f"{run}: in an environment that the run folder does not name\n", markup=False)
        policy = load_agent(run)
        console.print(describe_space(policy.observation_space), policy.summary(), sep="\n\n", markup=False)
        return
    console.print(f"{run}: {config.env.id}\n", markup=False)
    with make_environments(with_lanes(config.env, 8)) as venv:
        _describe(console, load_agent(run, venv.single_observation_space), venv)


def _describe(console: Console, policy: AnyNetwork, venv: EntityVectorEnv) -> None:
    summary = str(policy.summary(mean_entities(venv)))
    console.print(describe_space(policy.observation_space), summary, sep="\n\n", markup=False)


def mean_entities(venv: EntityVectorEnv, steps: int = 100) -> dict[str, float]:
    """Return the mean number of entities per step and type, over `steps` steps of the random policy."""
    rng = np.random.default_rng(0)
    batch, _ = venv.reset(seed=0)
    totals = dict.fromkeys(batch.entities, 0)
    for _ in range(steps):
        for name, rows in batch.entities.items():
            totals[name] += rows.num_items
        batch = venv.step(sample_actions(venv.single_action_space, batch, rng))[0]
    return {name: round(total / (steps * venv.num_envs), 1) for name, total in totals.items()}


def versions() -> str:
    """Versions of Entitize, Python and what it stands on; a package that isn't there says so."""
    lines = [
        f"entitize {__version__}",
        f"python {platform.python_version()} on {platform.system()} {platform.machine()}",
    ]
    for name in PACKAGES:
        try:
            lines.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            lines.append(f"{name} is not installed")
    return "\n".join(lines)


def describe_space(space: EntitySpace) -> str:
    """Entity types with their features, the frame, global features and actions, one per line."""
    lines = ["Entities"] if space.entities else []
    lines += [
        f"  {name} ({len(features)}): {', '.join(features)}" for name, features in space.entities.items()
    ]
    if space.frame is not None:
        lines += ["Frame", f"  {' × '.join(map(str, space.frame))}"]
    if space.global_features:
        lines += ["Global features", f"  ({len(space.global_features)}): {', '.join(space.global_features)}"]
    lines.append("Actions")
    lines += [f"  {name}: {action!r}" for name, action in space.actions.spaces.items()]
    return "\n".join(lines)
