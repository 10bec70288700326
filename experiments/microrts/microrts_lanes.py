"""Facts about μRTS for the commands: the size of its map, and how to change the number of lanes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...adapters.microrts.java.maps import Map, find_map
from ..env_config import EnvConfig

_NAMESPACE, _GYMNASIUM_ID = "MicroRTS/", "MicroRTS-v0"
#: The map of the Gymnasium id, where none is named.
_DEFAULT_MAP = "basesWorkers8x8"


def is_microrts(env_id: str) -> bool:
    """Return True if `entitize.make_vec` makes games of μRTS for this id."""
    return env_id.removeprefix("entitize/").startswith((_NAMESPACE, _GYMNASIUM_ID))


def board_of(env_id: str, kwargs: Mapping[str, Any]) -> Map:
    """The map of an environment that can be made, or the first of several, which are of one size."""
    named = env_id.removeprefix("entitize/")
    name = named.removeprefix(_NAMESPACE) if named.startswith(_NAMESPACE) else kwargs.get("map", _DEFAULT_MAP)
    return find_map(kwargs["maps"][0] if kwargs.get("maps") else name)


def with_lanes(env: EnvConfig, num_envs: int) -> EnvConfig:
    """`env` with `num_envs` lanes.

    Those of μRTS that play each other, and those that play each bot, keep their shares as far as whole lanes
    can; what is left goes to bots. There are no more worker processes than games, and none for one.
    """
    if num_envs == env.num_envs:
        return env
    kwargs = dict(env.kwargs)
    if is_microrts(env.id):
        if kwargs.get("selfplay"):
            kwargs["selfplay"] = kwargs["selfplay"] * num_envs // env.num_envs // 2 * 2
        bots = kwargs.get("opponents")
        if isinstance(bots, (Mapping, list, tuple)):
            counts = dict(bots) if isinstance(bots, Mapping) else Counter(bots)
            kwargs["opponents"] = _shares(counts, num_envs - kwargs.get("selfplay", 0))
    games = num_envs - kwargs.get("selfplay", 0) // 2 if is_microrts(env.id) else num_envs
    if kwargs.get("num_workers", 0) > games:
        kwargs["num_workers"] = games if games > 1 else 0
    return replace(env, num_envs=num_envs, kwargs=kwargs)


def _shares(counts: Mapping[str, int], total: int) -> dict[str, int] | None:
    """`total` in the proportions of `counts`: rounded down, and the rest to the largest remainders."""
    whole = sum(counts.values())
    if not whole:
        return None
    shares = {name: count * total // whole for name, count in counts.items()}
    by_remainder = sorted(counts, key=lambda name: counts[name] * total % whole, reverse=True)
    for name in by_remainder[: total - sum(shares.values())]:
        shares[name] += 1
    return shares
