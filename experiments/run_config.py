"""Read the configuration in a run folder, of `entitize train` or of `PPO` in Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from .arguments import Pairs
from .config import RUN_CONFIG, TrainConfig
from .config_file import ConfigError, read_plain, read_yaml
from .errors import UserError
from .network_options import ROGUE_NET, Network

#: Name of an environment that the run folder does not say.
UNNAMED = "unnamed environment"


class UnknownEnvError(UserError):
    """A run folder does not say which environment its agent was trained in."""


@dataclass(frozen=True)
class EnvChoice:
    """The environment of a run, where the run folder does not say it or another one is wanted."""

    id: str | None = None
    """The environment, e.g. my_game:make_env (default: the run's). Another one has its own options."""
    view: Pairs = field(default_factory=dict)
    """How observations of a Gymnasium environment become entities (default: as in the run)."""


def read_run_config(run: Path, env: EnvChoice | None = None) -> TrainConfig:
    """The configuration of a run, in the environment `env` if given.

    Raises:
        UnknownEnvError: neither the run folder nor `env` says which environment it is.
        UserError: `run` is not a run folder, or its configuration can't be read.
    """
    data = _read_data(run)
    if isinstance(data, Mapping):
        data = _with_environment(run, data, env or EnvChoice())
        _check_network(run, data)
    return _as_config(run, data)


def read_run_outline(run: Path) -> tuple[TrainConfig, str]:
    """Return the configuration of a run without the options of its network, and the network's name.

    The environment may have no name, and only Python may be able to load the network.

    Raises:
        UserError: `run` is not a run folder, or its configuration can't be read.
    """
    data = _read_data(run)
    network: str = ROGUE_NET
    if isinstance(data, Mapping):
        network = str(data.get("network", ROGUE_NET))
        data = {name: data[name] for name in data if name not in ("network", "net", "baseline")}
        if isinstance(data.get("env"), Mapping) and data["env"].get("id", "") is None:
            data["env"] = {**data["env"], "id": UNNAMED}
    return _as_config(run, data), network


def _read_data(run: Path) -> Any:
    """Return the plain data of a run's configuration in today's format."""
    path = run / RUN_CONFIG
    if not run.is_dir():
        raise UserError(f"{run}: expected a run folder, got no folder")
    if not path.is_file():
        raise UserError(f"{run}: expected a run folder, got a folder without {RUN_CONFIG}")
    data = read_yaml(path)
    return _in_todays_format(data) if isinstance(data, Mapping) else data


def _as_config(run: Path, data: Any) -> TrainConfig:
    try:
        return read_plain(TrainConfig, data, run / RUN_CONFIG)
    except ConfigError as error:
        raise UserError(f"{error}\n(expected the {RUN_CONFIG} of `entitize train` or of PPO)") from error


def _in_todays_format(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert the configuration that `PPO` of version 0.1 wrote: ppo, policy, spaces and num_envs."""
    if set(data) != {"ppo", "policy", "spaces", "num_envs"} or not isinstance(data["policy"], Mapping):
        return data
    network, options = data["policy"].get("class"), data["policy"].get("config")
    section = "net" if network == ROGUE_NET else "baseline"
    env = {"id": None, "num_envs": data["num_envs"]}
    return {"env": env, "network": network, section: options, "ppo": data["ppo"]}


def _with_environment(run: Path, data: Mapping[str, Any], chosen: EnvChoice) -> Mapping[str, Any]:
    """Return `data` with the chosen environment, and check that there is one."""
    env = data.get("env", {})
    if not isinstance(env, Mapping):
        return data
    if chosen.id is not None and chosen.id != env.get("id"):
        env = {"id": chosen.id, **({"num_envs": env["num_envs"]} if "num_envs" in env else {})}
    if "id" in env and env["id"] is None:
        raise UnknownEnvError(
            f"{run} does not say which environment it was trained in: Python made it, and not by"
            " entitize.make_vec with a name. Name it: --env.id module:function"
        )
    if chosen.view:
        env = {**env, "view": chosen.view}
    return {**data, "env": env}


def _check_network(run: Path, data: Mapping[str, Any]) -> None:
    network = data.get("network", ROGUE_NET)
    known = get_args(Network)
    if isinstance(network, str) and network not in known:
        raise UserError(
            f"{run}: the network is a {network}, which only Python can load: expected one of"
            f" {', '.join(known)}. Use entitize.evaluate"
        )
