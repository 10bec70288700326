"""The networks that `entitize train` knows: RogueNet, and the published ones of μRTS and Procgen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal

import torch

from ..envs import EntityVectorEnv
from ..policies.baselines import GridNet, ImpalaGridNet, ImpalaNet, TransformerNet, UnitActionNet
from ..policies.baselines.config import (
    BaselineConfig,
    GridConfig,
    ImpalaConfig,
    ImpalaNetConfig,
    MapConfig,
    TransformerConfig,
)
from ..policies.loading import AnyNetwork
from ..policies.rogue_net import RogueNet, RogueNetConfig
from .config_file import read_section
from .errors import UserError
from .microrts.microrts_lanes import board_of, is_microrts

if TYPE_CHECKING:
    from .config import TrainConfig

Network = Literal["RogueNet", "TransformerNet", "GridNet", "ImpalaGridNet", "UnitActionNet", "ImpalaNet"]
ROGUE_NET: Literal["RogueNet"] = "RogueNet"

#: The others: name -> class and its options.
BASELINES: dict[str, tuple[Any, type[BaselineConfig]]] = {
    "TransformerNet": (TransformerNet, TransformerConfig),
    "GridNet": (GridNet, GridConfig),
    "ImpalaGridNet": (ImpalaGridNet, ImpalaConfig),
    "UnitActionNet": (UnitActionNet, ImpalaConfig),
    "ImpalaNet": (ImpalaNet, ImpalaNetConfig),
}


def check_options(network: str, net: RogueNetConfig, baseline: Mapping[str, Any]) -> None:
    """Check that options are given for the chosen network only, and that it has them.

    Raises:
        ValueError: there is no such network, or an option is unknown, wrong, or of a network that isn't used.
    """
    if network == ROGUE_NET:
        if baseline:
            raise ValueError(
                f"baseline gives {', '.join(baseline)}, but the network is RogueNet, whose options are in net"
            )
        return
    if network not in BASELINES:
        raise ValueError(f"network is {network!r}, expected one of RogueNet, {', '.join(BASELINES)}")
    default = RogueNetConfig()
    given = [field.name for field in fields(net) if getattr(net, field.name) != getattr(default, field.name)]
    if given:
        raise ValueError(
            f"net gives {', '.join(given)}, but the network is {network}, whose options are in baseline"
        )
    try:
        size = {"height": 1, "width": 1} if _reads_maps(network) else {}
        baseline_options(network, {**size, **baseline})
    except UserError as error:
        raise ValueError(str(error)) from error


def _reads_maps(network: str) -> bool:
    return issubclass(BASELINES[network][1], MapConfig)


def baseline_options(network: str, options: Mapping[str, Any]) -> BaselineConfig:
    """The options of a published network, their types checked.

    Raises:
        UserError: one is unknown, missing, of the wrong type or out of its range.
    """
    return read_section(BASELINES[network][1], options, "baseline")


def make_policy(config: TrainConfig, venv: EntityVectorEnv) -> AnyNetwork:
    """A fresh network for `venv`; the weights follow from the seed of the configuration.

    Raises:
        UserError: the network's options don't go together or with `venv`.
    """
    torch.manual_seed(config.ppo.seed)
    spaces = venv.single_observation_space, venv.single_action_space
    if config.network == ROGUE_NET:
        try:
            return RogueNet(*spaces, **config.net.to_dict())
        except (ValueError, TypeError) as error:
            raise UserError(f"net: {error}") from error
    options = baseline_options(config.network, _with_size(config))
    try:
        return BASELINES[config.network][0](*spaces, **options.to_dict())
    except (ValueError, TypeError) as error:
        hint = ""
        if config.network == "ImpalaNet":
            hint = " (Procgen shows its pixels with the option features=pixels)"
        elif is_microrts(config.env.id) and config.env.kwargs.get("features") != "planes":
            hint = " (μRTS shows its planes with the option features=planes)"
        raise UserError(f"{config.network}: {error}{hint}") from error


def _with_size(config: TrainConfig) -> dict[str, Any]:
    """The options of the network; where it reads maps, height and width of that of μRTS unless given."""
    options = dict(config.baseline)
    if not _reads_maps(config.network):
        return options
    if is_microrts(config.env.id):
        board = board_of(config.env.id, config.env.kwargs)
        for name, size in (("height", board.height), ("width", board.width)):
            if options.setdefault(name, size) < size:
                raise UserError(f"baseline: {name} {options[name]} is less than that of {board.name}, {size}")
    missing = [name for name in ("height", "width") if name not in options]
    if missing:
        words = " ".join(f"{name}=…" for name in missing)
        raise UserError(f"{config.network} must be told the size of the map: --baseline {words}")
    return options
