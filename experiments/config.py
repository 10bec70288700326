"""Configuration of a run: environment, network, PPO and evaluation, each a frozen dataclass.

`entitize train` takes these fields from a YAML file, then from flags (`--ppo.learning-rate 0.003`); the help
text of a flag is the line below its field.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from ..policies.rogue_net import RogueNetConfig
from ..trainers import PPOConfig
from .env_config import EnvConfig, EvalConfig, Pairs
from .errors import UserError
from .network_options import ROGUE_NET, Network, check_options
from .run_opponents import OpponentsConfig

#: Configurations that come with the package.
CONFIGS = Path(__file__).parent / "configs"
#: Name of the resolved configuration in a run folder.
RUN_CONFIG = "config.yaml"


@dataclass(frozen=True)
class TrainConfig:
    """A training run."""

    env: EnvConfig = field(default_factory=EnvConfig)
    network: Network = ROGUE_NET
    """RogueNet, one of the published networks of μRTS (with the option features=planes), or Procgen's
    ImpalaNet (with features=pixels)."""
    net: RogueNetConfig = field(default_factory=RogueNetConfig)
    init_from: str | None = None
    """Start from the network of this run folder or checkpoint, with its options and input statistics."""
    baseline: Pairs = field(default_factory=dict)
    """Options of another network than RogueNet, e.g. composite=all; μRTS sets height and width itself."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    opponents: OpponentsConfig | None = None
    """Learned opponents: snapshots of the policy, where lanes play each other."""
    max_minutes: float | None = None
    """Time limit of training in minutes, earlier parts of a resumed run included; annealing ends with it."""

    def __post_init__(self) -> None:
        check_options(self.network, self.net, self.baseline)
        if self.max_minutes is not None and not self.max_minutes > 0:
            raise ValueError(f"max_minutes must be positive, got {self.max_minutes}")


def config_names() -> list[str]:
    """The configurations that come with the package."""
    return sorted(path.stem for path in CONFIGS.glob("*.yaml"))


def find_config(name: str) -> Path:
    """A YAML file by its path, or one that comes with the package by its name (`procgen`).

    Raises:
        UserError: there is neither.
    """
    if Path(name).is_file():
        return Path(name)
    if name in config_names():
        return CONFIGS / f"{name}.yaml"
    names = ", ".join(config_names())
    raise UserError(f"there is no file {name}, and the configurations that come along are {names}")


def with_flags_over_file(flags: TrainConfig, file: TrainConfig) -> TrainConfig:
    """Options of environments and network given as flags add to the file's instead of replacing them all."""
    env = replace(flags.env, kwargs={**file.env.kwargs, **flags.env.kwargs})
    evaluation = replace(flags.eval, kwargs={**file.eval.kwargs, **flags.eval.kwargs})
    return replace(flags, env=env, eval=evaluation, baseline={**file.baseline, **flags.baseline})
