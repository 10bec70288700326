"""Names and options of networks: RogueNet, the published ones, and a user's own, "module:Class"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ..policies.baselines.config import (
    BaselineConfig,
    GridConfig,
    ImpalaConfig,
    ImpalaNetConfig,
    MapConfig,
    TransformerConfig,
)
from ..policies.rogue_net import RogueNetConfig
from ..suggestions import unknown
from .config_file import read_section
from .errors import UserError

ROGUE_NET = "RogueNet"

#: The others, classes of `policies.baselines`: name -> options.
BASELINES: dict[str, type[BaselineConfig]] = {
    "TransformerNet": TransformerConfig,
    "GridNet": GridConfig,
    "ImpalaGridNet": ImpalaConfig,
    "UnitActionNet": ImpalaConfig,
    "ImpalaNet": ImpalaNetConfig,
}
#: The library's networks.
NETWORKS = (ROGUE_NET, *BASELINES)


@dataclass(frozen=True)
class ExperimentNetwork:
    """A network of experiments, whose reports call it `title`."""

    title: str
    network: str = ROGUE_NET
    procgen: str | None = None  # the configuration that trains it on Procgen's games
    microrts: str | None = None  # the configuration that trains it on maps of μRTS
    options: Mapping[str, Any] = field(default_factory=dict)  # over those of the configuration


#: Name in an experiment, of folders too -> the network; of several with one class the first is the usual one.
EXPERIMENT_NETWORKS = {
    "roguenet": ExperimentNetwork("RogueNet", procgen="procgen", microrts="microrts"),
    "roguenet_large": ExperimentNetwork("RogueNet, d_model 32", procgen="procgen_large"),
    "roguenet_reference": ExperimentNetwork(
        "RogueNet, the reference's settings", procgen="procgen_reference"
    ),
    "roguenet_normalized": ExperimentNetwork("RogueNet, normalized rewards"),
    "roguenet_fourier": ExperimentNetwork("RogueNet, normalized rewards, Fourier features"),
    "impala": ExperimentNetwork("IMPALA, ours", "ImpalaNet", procgen="procgen_impala"),
    "transformer": ExperimentNetwork(
        "TransformerNet, ours",
        "TransformerNet",
        microrts="microrts_transformer",
        options={"position": "one_hot"},
    ),
    "transformer_embedding": ExperimentNetwork(
        "TransformerNet, embedded, ours",
        "TransformerNet",
        microrts="microrts_transformer",
        options={"position": "embedding"},
    ),
    "gridnet": ExperimentNetwork("GridNet, ours", "GridNet", microrts="microrts_gridnet"),
    "uas": ExperimentNetwork("UAS, ours", "UnitActionNet", microrts="microrts_uas"),
}


def experiment_name(network: str) -> str:
    """Return the name in experiments of a network's class; of an unknown one the class."""
    return next((name for name, known in EXPERIMENT_NETWORKS.items() if known.network == network), network)


def network_title(name: str) -> str:
    """Return the title in reports of a network of an experiment; of an unknown one its name."""
    return EXPERIMENT_NETWORKS[name].title if name in EXPERIMENT_NETWORKS else name


def check_network_options(network: str, net: RogueNetConfig, baseline: Mapping[str, Any]) -> None:
    """Check that options are given for the chosen network only, and that it has them.

    What options a network of the user has only its class knows.

    Raises:
        ValueError: the network or an option is unknown, or an option is wrong or of another network.
    """
    if network == ROGUE_NET:
        if baseline:
            raise ValueError(
                f"baseline gives {', '.join(baseline)}, but the network is RogueNet, whose options are in net"
            )
        return
    if network not in BASELINES and not is_own(network):
        raise ValueError(unknown("network", network, [*NETWORKS, "module:Class"]))
    default = RogueNetConfig()
    given = [part.name for part in fields(net) if getattr(net, part.name) != getattr(default, part.name)]
    if given:
        raise ValueError(
            f"net gives {', '.join(given)}, but the network is {network}, whose options are in baseline"
        )
    if is_own(network):
        return
    try:
        size = {"height": 1, "width": 1} if reads_maps(network) else {}
        baseline_options(network, {**size, **baseline})
    except UserError as error:
        raise ValueError(str(error)) from error


def is_own(network: str) -> bool:
    """Return True if `network` names a class of the user, "module:Class"."""
    return ":" in network


def reads_maps(network: str) -> bool:
    """Return True if a published network takes the height and width of the map as options."""
    return issubclass(BASELINES[network], MapConfig)


def baseline_options(network: str, options: Mapping[str, Any]) -> BaselineConfig:
    """Return the options of a published network, their types checked.

    Raises:
        UserError: one is unknown, missing, of the wrong type or out of its range.
    """
    return read_section(BASELINES[network], options, "baseline")
