"""Networks of commands: fresh ones by a configuration, trained ones out of run folders."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch

from ..envs import EntitySpace, EntityVectorEnv
from ..policies import ActingPolicy, Policy, baselines, fit_to, space_read_by
from ..policies.loading import AnyNetwork
from ..policies.rogue_net import RogueNet, RogueNetConfig
from ..trainers import CheckpointError, checkpoint_paths, load_policy
from .config import TrainConfig
from .environments import boards_of, is_microrts
from .errors import UserError
from .network_options import ROGUE_NET, baseline_options, is_own, reads_maps
from .own_bots import is_bot, load_bot
from .own_networks import find_own_class, make_own_network, own_name_of

#: Name of the random policy in tables.
RANDOM = "random policy"


def initial_policy(
    config: TrainConfig, venv: EntityVectorEnv, run: Path, given: Collection[str] = ()
) -> tuple[AnyNetwork, TrainConfig]:
    """Return the network to train in the folder `run`, and the configuration with the options that it has.

    With `init_from` it is the network of that run; once `run` has checkpoints, its own. Options in `config`
    replace those of that network: all that differ from their defaults, and those whose names are `given`.

    Raises:
        UserError: there is no checkpoint, its network has other options than the configuration, or it does
            not fit `venv`.
    """
    if config.init_from is None:
        return make_policy(config, venv), config
    torch.manual_seed(config.ppo.seed % 2**64)  # torch takes no larger ones
    path = run if checkpoint_paths(run / "checkpoints") else Path(config.init_from)
    default = RogueNetConfig().to_dict()
    options = {
        name: value for name, value in config.net.to_dict().items() if value != default[name] or name in given
    }
    own = own_name_of(path)
    try:
        policy = _load(path, own, venv.single_observation_space, **options, **config.baseline)
    except (CheckpointError, TypeError, ValueError) as error:
        words = " ".join(f"{name}={value}" for name, value in options.items())
        hint = (
            f" (with these options of the configuration in place of its own: {words})"
            if words and path.exists()
            else ""
        )
        raise UserError(f"init_from: {path}, for {config.env.id}: {error}{hint}") from error
    kind = own or type(policy).__name__
    if config.network not in (ROGUE_NET, kind):
        raise UserError(f"init_from: {path}: expected a {config.network}, got a {kind}")
    if kind == ROGUE_NET:
        return policy, replace(config, net=policy.settings)
    return policy, replace(config, network=kind, net=RogueNetConfig(), baseline=dict(policy.config))


def unknown_parts(policy: Policy) -> list[str]:
    """Name the entity types and features that `policy` is shown and does not know (`RogueNet.adapt_to`)."""
    known, shown = policy.observation_space, space_read_by(policy)
    types = [f"entity type {name!r}" for name in shown.entities if name not in known.entities]
    features = [
        f"feature {feature!r} of {name!r}"
        for name, own in known.entities.items()
        for feature in shown.entities.get(name, ())
        if feature not in own
    ]
    global_features = [
        f"global feature {name!r}" for name in shown.global_features if name not in known.global_features
    ]
    return types + features + global_features


def _load(path: Path, own: str | None, space: EntitySpace | None, **options: Any) -> Any:
    """Load a network, of the class `own` if it is given, and fit it to `space`."""
    policy: Any = load_policy(path, network=None if own is None else find_own_class(own), **options)
    if space is not None:
        fit_to(policy, space)
    return policy


def make_rogue_net(space: EntitySpace, net: RogueNetConfig, seed: int) -> RogueNet:
    """Make a new RogueNet for `space`, whose weights follow from `seed`.

    Raises:
        UserError: the options don't go together or with `space`.
    """
    torch.manual_seed(seed % 2**64)  # torch takes no larger ones
    try:
        return RogueNet(space, space.actions, **net.to_dict())
    except (ValueError, TypeError) as error:
        raise UserError(f"net: {error}") from error


def make_policy(config: TrainConfig, venv: EntityVectorEnv) -> AnyNetwork:
    """Make a new network for `venv`; the weights follow from the seed of the configuration.

    Raises:
        UserError: the network's options don't go together or with `venv`.
    """
    spaces = venv.single_observation_space, venv.single_action_space
    if config.network == ROGUE_NET:
        return make_rogue_net(spaces[0], config.net, config.ppo.seed)
    torch.manual_seed(config.ppo.seed % 2**64)  # torch takes no larger ones
    if is_own(config.network):
        network: AnyNetwork = make_own_network(config.network, spaces[0], config.baseline)
        return network
    options = baseline_options(config.network, _with_size(config))
    try:
        return getattr(baselines, config.network)(*spaces, **options.to_dict())
    except (ValueError, TypeError) as error:
        hint = ""
        if config.network == "ImpalaNet":
            hint = " (Procgen has pixels with the option features=pixels)"
        elif is_microrts(config.env.id) and config.env.kwargs.get("features") != "planes":
            hint = " (μRTS has planes with the option features=planes)"
        where = "" if str(error).startswith(config.network) else f"{config.network}: "
        raise UserError(f"{where}{error}{hint}") from error


def _with_size(config: TrainConfig) -> dict[str, Any]:
    """Return the options of the network; if it reads maps, by default with the size of that of μRTS."""
    options = dict(config.baseline)
    if not reads_maps(config.network):
        return options
    if is_microrts(config.env.id):
        boards = boards_of(config.env.id, config.env.kwargs)
        for name in ("height", "width"):
            largest = max(boards, key=attrgetter(name))
            size = getattr(largest, name)
            if options.setdefault(name, size) < size:
                given = options[name]
                raise UserError(f"baseline: {name} {given} is less than that of {largest.name}, {size}")
    missing = [name for name in ("height", "width") if name not in options]
    if missing:
        words = " ".join(f"{name}=…" for name in missing)
        raise UserError(f"{config.network}: expected the size of the map, got none: --baseline {words}")
    return options


def load_player(path: Path, venv: EntityVectorEnv) -> ActingPolicy:
    """Return a bot of the user, "module:function", or the network of a run or checkpoint, for `venv`.

    Raises:
        UserError: see `load_bot` and `load_network`.
    """
    return load_bot(str(path), venv) if is_bot(path) else load_network(path, venv.single_observation_space)


def load_network(path: Path, space: EntitySpace | None = None) -> AnyNetwork:
    """Load the network of a run's newest checkpoint, or of a checkpoint folder, for environments of `space`.

    `space` may have more entity types and features than those that the network was trained with. Without it
    the network is for the spaces of its training.

    Raises:
        UserError: there is no checkpoint, it is corrupt or foreign, or needs what `space` doesn't have.
    """
    try:
        policy: AnyNetwork = _load(path, own_name_of(path), space)
    except CheckpointError as error:
        raise UserError(str(error)) from error
    except ValueError as error:
        raise UserError(f"the network of {path} does not fit the environments: {error}") from error
    return policy
