"""`entitize info`: versions; the spaces of an environment; size and cost of a network."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import gymnasium
import tyro

from .. import __version__
from ..envs import EntitySpace
from ..experiments import ROGUE_NET, EnvConfig, Pairs, UserError, make_environments, parse
from ..experiments.errors import user_errors
from ..experiments.network_options import check_network_options
from ..policies.rogue_net import RogueNetConfig

_CORE = "numpy numba gymnasium torch safetensors tensorboard"
_OPTIONAL = "procgen-mirror gym3 gym-microrts ale-py vizdoom griddly pettingzoo stable-baselines3"
PACKAGES = (*_CORE.split(), *_OPTIONAL.split())

_NO_TORCH = "Size and cost of the network need torch: pip install 'entitize[train]'"


@dataclass(frozen=True)
class InfoArguments:
    """Print versions, the spaces of an environment, or the size and cost of a network.

    Example: entitize info Procgen/bigfish --net.d-model 32
    """

    env: tyro.conf.Positional[str | None] = None
    """An environment, e.g. Procgen/bigfish; or a run folder."""
    run: Path | None = None
    """A run folder, whose network is described; in the environment above if one is given."""
    kwargs: Pairs = field(default_factory=dict)
    """Options of the environment, e.g. features=planes."""
    network: str = ROGUE_NET
    """The network to describe: RogueNet, TransformerNet, GridNet, ImpalaGridNet, UnitActionNet, ImpalaNet, or
    module:Class."""
    net: RogueNetConfig = field(default_factory=RogueNetConfig)
    baseline: Pairs = field(default_factory=dict)
    """Options of another network than RogueNet."""


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command."""
    chosen = parse(InfoArguments, "info", arguments)
    if chosen.run is None and chosen.env is not None and _is_run(Path(chosen.env)):
        chosen = replace(chosen, env=None, run=Path(chosen.env))
    if chosen.run is not None:
        if chosen != InfoArguments(env=chosen.env, run=chosen.run):
            raise UserError("a run has its network: remove --kwargs, --network, --net and --baseline")
        if not _has_torch():
            raise UserError(_NO_TORCH)
        from ..experiments.network_summary import describe_run

        title, space, summary = describe_run(chosen.run, chosen.env)
        print(title, describe_space(space), summary, sep="\n\n")
    elif chosen.env is not None:
        try:
            print(_describe(chosen))
        except UserError as error:
            if not isinstance(error.__cause__, gymnasium.error.NameNotFound):
                raise
            raise UserError(f"{chosen.env} is no run folder (no config.yaml), and {error}") from error
    elif chosen != InfoArguments():
        raise UserError("name the environment that the network is for, e.g. MicroRTS/basesWorkers8x8")
    else:
        print(versions())


def _is_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in ("config.yaml", "checkpoints", "checkpoint.json"))


def _describe(chosen: InfoArguments) -> str:
    """Describe an environment, and the network if torch is installed."""
    with user_errors(ValueError):
        check_network_options(chosen.network, chosen.net, chosen.baseline)
    assert chosen.env is not None
    env = EnvConfig(chosen.env, num_envs=8, kwargs=chosen.kwargs)
    with make_environments(env) as venv:
        spaces = describe_space(venv.single_observation_space)
        if not _has_torch():
            return f"{spaces}\n\n{_NO_TORCH}"
        from ..experiments.network_summary import describe_network

        network = describe_network(env, chosen.network, chosen.net, chosen.baseline, venv)
        return f"{spaces}\n\n{network}"


def _has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


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
