"""Configuration of a run: environment, network, PPO and evaluation, each a frozen dataclass.

`entitize train` takes these fields from a YAML file, then from flags (`--ppo.learning-rate 0.003`); the help
text of a flag is the line below its field. A run folder has them in `config.yaml`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import tyro

from ..envs import named_code
from ..policies import METADATA, RUN_CONFIG
from ..policies.checkpoint import checkpoint_paths
from ..policies.rogue_net import RogueNetConfig
from ..suggestions import did_you_mean
from ..trainers import Detail, PPOConfig, TrackerName
from .arguments import Pairs
from .config_file import ConfigError, read_plain, read_yaml, value_of
from .environments import EnvConfig, EvalConfig
from .errors import UserError
from .network_options import NETWORKS, ROGUE_NET, check_network_options, is_own

#: Configurations that come with the package.
CONFIGS = Path(__file__).parent / "configs"


@dataclass(frozen=True)
class OpponentsConfig:
    """Learned opponents where lanes play each other; in a file, `opponents: {}` takes all defaults."""

    interval: int = 100_000
    """Environment steps between two snapshots of the learner."""
    latest_share: float = 0.8
    """Share of the games in which the learner plays all sides itself."""
    max_size: int = 20
    """Number of opponents to keep; of the snapshots, those that are spread most evenly over the history."""
    weighting: Literal["uniform", "hard", "variance"] = "uniform"
    """Probabilities of opponents: equal, higher for those that win, or higher for those of equal strength."""
    checkpoints: tuple[str, ...] = ()
    """Run folders (their newest checkpoint) or checkpoints of earlier runs, as further opponents."""

    def __post_init__(self) -> None:
        if self.interval < 1:
            raise ValueError(f"interval: expected at least 1, got {self.interval}")
        if not 0 <= self.latest_share <= 1:
            raise ValueError(f"latest_share: expected a number from 0 to 1, got {self.latest_share}")
        if self.max_size <= len(self.checkpoints):
            raise ValueError(
                f"max_size: expected room for a snapshot beside the {len(self.checkpoints)} checkpoints,"
                f" got {self.max_size}"
            )


@dataclass(frozen=True)
class TrainConfig:
    """A training run."""

    env: EnvConfig = field(default_factory=EnvConfig)
    network: str = ROGUE_NET
    """RogueNet; a published network of μRTS (with the option features=planes): TransformerNet, GridNet,
    ImpalaGridNet, UnitActionNet; Procgen's ImpalaNet (with features=pixels); or one of your own,
    module:Class (docs/own-training.md)."""
    net: RogueNetConfig = field(default_factory=RogueNetConfig)
    init_from: str | None = None
    """Start from the network of this run folder or checkpoint, with its options and input statistics; in its
    environment, unless --env.id or --config names another."""
    baseline: Pairs = field(default_factory=dict)
    """Options of another network than RogueNet, e.g. composite=all; μRTS sets height and width itself."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    opponents: OpponentsConfig | None = None
    """Learned opponents: snapshots of the policy, where lanes play each other."""
    max_minutes: float | None = None
    """Time limit of training in minutes, earlier parts of a resumed run included; annealing ends with it."""
    track: TrackerName | None = None
    """Send the metrics to Weights & Biases or trackio as well."""

    def __post_init__(self) -> None:
        check_network_options(self.network, self.net, self.baseline)
        if self.max_minutes is not None and not self.max_minutes > 0:
            raise ValueError(f"max_minutes: expected a number above 0, got {self.max_minutes}")


def config_names() -> list[str]:
    """Return the names of the configurations of the package."""
    return sorted(path.stem for path in CONFIGS.glob("*.yaml"))


def find_config(name: str) -> Path:
    """Return the path of a configuration: a YAML file, or the name of one of the package (`procgen`).

    Raises:
        UserError: there is neither.
    """
    if Path(name).is_file():
        return Path(name)
    if name in config_names():
        return CONFIGS / f"{name}.yaml"
    known = config_names()
    hint = did_you_mean(name, known)
    raise UserError(f"configuration: expected a file or one of {', '.join(known)}, got {name!r}{hint}")


def with_flags_over_file(flags: TrainConfig, file: TrainConfig) -> TrainConfig:
    """Options of environments and network given as flags add to the file's instead of replacing them all."""
    env = replace(flags.env, kwargs={**file.env.kwargs, **flags.env.kwargs})
    evaluation = replace(flags.eval, kwargs={**file.eval.kwargs, **flags.eval.kwargs})
    return replace(flags, env=env, eval=evaluation, baseline={**file.baseline, **flags.baseline})


#: Optional sections of the network: they have keys without defaults.
_OF_FILES = ("fourier", "translation", "relative_position")


def with_sections_of_flags(config: TrainConfig, flags: Sequence[str]) -> TrainConfig:
    """Return `config` with the optional section that flags such as `--opponents.interval` change.

    Raises:
        UserError: the section is one that only a file can have.
    """
    given = {word.replace("-", "_") for word in flags if word.startswith("--")}
    for name in _OF_FILES:
        flag = next((flag for flag in given if flag.startswith(f"__net.{name}.")), None)
        if flag is not None and getattr(config.net, name) is None:
            raise UserError(
                f"--{flag[2:]}: expected a configuration (--config) with the section {name} in net, got"
                " none: flags change its keys, they can't begin it. See docs/how-roguenet-works.md"
            )
    if config.opponents is None and any(flag.startswith("__opponents.") for flag in given):
        return replace(config, opponents=OpponentsConfig())
    return config


_CONFIG_HELP = f"A YAML file, or the name of a configuration of the package: {', '.join(config_names())}."


@dataclass(frozen=True)
class TrainArguments:
    """Train a network with PPO. Flags override the configuration file, which overrides the defaults shown.

    Example: entitize train --config procgen --env.id Procgen/coinrun --run runs/coinrun
    --ppo.total-timesteps 1_000_000 (without this flag the configuration takes 25 million steps,
    half an hour to some hours).
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
    ray: int | None = None
    """Play in so many actors of Ray (docs/scaling.md); a resumed run may have others."""
    ray_staleness: int = 0
    """With --ray: updates that actors may be behind. 0: they wait for each; 1: they play meanwhile."""
    ray_timeout: float = 300.0
    """With --ray: seconds that an actor may take for a rollout, before it is started again."""
    progress: Detail = "short"
    """Lines of progress: none, short, or full (episode length, losses and shares of time as well)."""


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
    """View that turns observations of a Gymnasium environment into entities (default: the run's)."""


def read_run_config(run: Path, env: EnvChoice | None = None) -> TrainConfig:
    """Return the configuration of a run, in the environment `env` if given.

    Raises:
        UnknownEnvError: neither the run folder nor `env` says which environment it is.
        UserError: `run` is not a run folder, its configuration can't be read, or it is that of a card which
            names functions, and `env` does not confirm them.
    """
    return _config_of(run, _read_data(run), env or EnvChoice())


def read_agent_config(path: Path, env: EnvChoice) -> TrainConfig:
    """Return `read_run_config`; of a network that was saved alone, the default configuration in `env`.

    `entitize.save_policy` and `entitize.sb3.export_policy` save such networks.

    Raises:
        UserError: see `read_run_config`.
    """
    holds_network = (path / METADATA).is_file() or checkpoint_paths(path / "checkpoints")
    if holds_network and not (path / RUN_CONFIG).exists():
        return _config_of(path, {"env": {"id": None}}, env)
    return read_run_config(path, env)


def _config_of(run: Path, data: Any, env: EnvChoice) -> TrainConfig:
    if isinstance(data, Mapping):
        if env.id is None and is_card(run):
            named = [data.get("env"), data.get("eval")]
            id_ = value_of(data, "env.id") or "ENVIRONMENT"
            check_names_no_code(run / RUN_CONFIG, named, f"--env.id {quote(str(id_))}")
        data = _with_environment(run, data, env)
        _check_network(run, data)
    return _as_config(run, data)


def is_card(run: Path) -> bool:
    """Return True if `run` is a folder of `entitize card`, which may come from others."""
    return (run / METADATA).is_file() and (run / RUN_CONFIG).is_file()


def run_of(path: Path) -> Path:
    """Return the run folder of a checkpoint in its `checkpoints` or `best`; other folders as they are."""
    run = path.resolve()
    if run.parent.name == "checkpoints" and (run / METADATA).is_file() and not is_card(run):
        run = run.parent.parent
    if run.name == "best" and not (run / RUN_CONFIG).is_file() and (run.parent / RUN_CONFIG).is_file():
        run = run.parent
    return path if run == path.resolve() else run


def check_names_no_code(path: Path, data: Any, flag: str) -> None:
    """Check that `data`, read from `path`, names no functions or modules.

    Making an environment of it would import and call them. `flag` is how the user confirms them.

    Raises:
        UserError: one is named.
    """
    if named := named_code(data):
        raise UserError(
            f"{path} names code of this machine, which may be anything: {', '.join(map(repr, named))}."
            f" If you know it, confirm it with {flag}"
        )


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
    if data is None:
        raise UserError(f"{path} is empty: the run's configuration is lost")
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
        if isinstance(data.get("eval"), Mapping):  # whose options are those of the other environment
            kept = {name: value for name, value in data["eval"].items() if name not in ("kwargs", "vary")}
            data = {**data, "eval": kept}
    if "id" in env and env["id"] is None:
        raise UnknownEnvError(
            f"{run} does not say which environment it was trained in: Python made it, and not by"
            " entitize.make_vec with a name, or saved the network alone, or it was cloned from recordings of"
            " an environment that is code. Name it: --env.id module:function"
        )
    if chosen.view:
        env = {**env, "view": chosen.view}
    return {**data, "env": env}


def _check_network(run: Path, data: Mapping[str, Any]) -> None:
    network = data.get("network", ROGUE_NET)
    if not isinstance(network, str):
        return
    if is_own(network) and is_card(run):
        raise UserError(
            f"{run / RUN_CONFIG} names code of this machine, which may be anything: {network!r}. Expected a"
            f" network of the library: {', '.join(NETWORKS)}"
        )
    if network not in NETWORKS and not is_own(network):
        raise UserError(
            f"{run}: the network is a {network}, which only Python can load: expected module:Class, or one of"
            f" {', '.join(NETWORKS)}. Use entitize.evaluate"
        )
