"""Names and options of the networks that `entitize train` knows: RogueNet and the published ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal

from ..policies.baselines.config import (
    BaselineConfig,
    GridConfig,
    ImpalaConfig,
    ImpalaNetConfig,
    MapConfig,
    TransformerConfig,
)
from ..policies.rogue_net import RogueNetConfig
from .config_file import read_section
from .errors import UserError

Network = Literal["RogueNet", "TransformerNet", "GridNet", "ImpalaGridNet", "UnitActionNet", "ImpalaNet"]
ROGUE_NET: Literal["RogueNet"] = "RogueNet"

#: The others, classes of `policies.baselines`: name -> options.
BASELINES: dict[str, type[BaselineConfig]] = {
    "TransformerNet": TransformerConfig,
    "GridNet": GridConfig,
    "ImpalaGridNet": ImpalaConfig,
    "UnitActionNet": ImpalaConfig,
    "ImpalaNet": ImpalaNetConfig,
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
        size = {"height": 1, "width": 1} if reads_maps(network) else {}
        baseline_options(network, {**size, **baseline})
    except UserError as error:
        raise ValueError(str(error)) from error


def reads_maps(network: str) -> bool:
    """Return True if a published network takes the height and width of the map as options."""
    return issubclass(BASELINES[network], MapConfig)


def baseline_options(network: str, options: Mapping[str, Any]) -> BaselineConfig:
    """The options of a published network, their types checked.

    Raises:
        UserError: one is unknown, missing, of the wrong type or out of its range.
    """
    return read_section(BASELINES[network], options, "baseline")
