"""Sizes that a checkpoint declares, held against the weights that it stores, before anything is built.

A few bytes of JSON can name a network that fills the memory, or that takes hours to build. No such number can
be larger than the number of stored weights: each of them is a size of some weight matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..envs import SelectEntity
from ..envs.spaces.space_schema import check_schema
from .checkpoint import CheckpointError, StoredCheckpoint, stored_weights
from .inputs.translation import Translator
from .rogue_net.config import Translation, from_options

#: Sizes up to these need no weights.
_FREE_SIZE, _FREE_PARTS = 1024, 64
#: Characters in the names of Fourier features, for each weight.
_CHARACTERS = 256


def check_declared_sizes(checkpoint: StoredCheckpoint[Any]) -> None:
    """Check every size that the metadata of a checkpoint with a network declares.

    Raises:
        CheckpointError: a size for which there are too few weights or tensors; the message names it.
        KeyError, TypeError, AttributeError: the metadata does not describe spaces and a network.
    """
    check_schema(checkpoint.metadata["spaces"])
    stored = stored_weights(checkpoint).values()
    weights = max(_FREE_SIZE, sum(math.prod(tensor.shape) for tensor in stored))
    tensors = max(_FREE_PARTS, len(stored))
    for name, size, limit, unit in _sizes(checkpoint.metadata, weights, tensors):
        if size > limit:
            raise CheckpointError(
                f"checkpoint {checkpoint.path} does not describe a network: {name}: expected at most {limit},"
                f" which its {len(stored)} stored tensors can justify, got {_short(size)}{unit}"
            )


def _short(number: int) -> str:
    return str(number) if number < 10**15 else f"{float(number):.0e}" if number < 10**300 else "over 1e300"


def _sizes(metadata: Mapping[str, Any], weights: int, tensors: int) -> Iterator[tuple[str, int, int, str]]:
    """Yield each size: its name, the size, its limit, and a unit."""
    spaces, config = metadata["spaces"], metadata["policy"]["config"]
    yield "entities", len(spaces["entities"]), tensors, " types"
    yield "actions", len(spaces["actions"]), tensors, " actions"
    for name, features in spaces["entities"].items():
        yield f"entity type {name!r}", len(features), weights, " features"
    yield "global_features", len(spaces["global_features"]), weights, " features"
    if spaces.get("frame") is not None:
        yield "frame", _product(spaces["frame"]), 16 * weights, " numbers"
    for name, action in spaces["actions"].items():
        yield from _numbers(f"action {name!r}", action, weights)
        if action.get("components"):
            components = dict(action["components"])
            kinds = next(iter(components.values()))
            size = (kinds if isinstance(kinds, int) else len(kinds)) * len(components)
            yield f"action {name!r}: kinds times components", size, 16 * weights, ""
    for name in ("n_layer", "value_n_layer"):
        if isinstance(config.get(name), int):
            yield name, config[name], tensors, ""
    yield from _numbers("policy", _without_unweighted(config, spaces), weights)
    if {"height", "width"} <= config.keys():
        yield "height times width", _product((config["height"], config["width"])), 16 * weights, ""
    if config.get("relative_position"):  # the number of buckets is a product of these
        yield "relative_position: extent", len(config["relative_position"]["extent"]), _FREE_PARTS, " numbers"
    if config.get("fourier"):
        named = _fourier_features(spaces["entities"], config)
        number = len(config["fourier"]["wavelengths"])
        yield "fourier: features times wavelengths", len(named) * number, weights, ""
        characters = sum(map(len, named)) * number
        yield "fourier: names of features", characters, _CHARACTERS * weights, " characters"


def _fourier_features(entities: Mapping[str, Sequence[str]], config: Mapping[str, Any]) -> list[str]:
    """Return the features that get sines and cosines, of all entity types."""
    seen = {name: tuple(features) for name, features in entities.items()}
    if config.get("translation"):  # it may append a feature
        seen = Translator(from_options(Translation, config["translation"]), seen).entities
    chosen = set(config["fourier"]["features"])
    return [feature for features in seen.values() for feature in features if feature in chosen]


def _without_unweighted(config: Mapping[str, Any], spaces: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `config` without the numbers that are sizes of no weights.

    These are `relative_position.scale`, which earlier versions stored as an integer, and `d_qk` where no
    action selects entities.
    """
    rest = dict(config)
    if all(action["kind"] != SelectEntity.__name__ for action in spaces["actions"].values()):
        rest.pop("d_qk", None)
    relative = config.get("relative_position")
    if isinstance(relative, Mapping):
        rest["relative_position"] = {name: value for name, value in relative.items() if name != "scale"}
    return rest


def _product(sizes: Sequence[Any]) -> int:
    return math.prod(size for size in sizes if isinstance(size, int))


def _numbers(name: str, value: Any, limit: int) -> Iterator[tuple[str, int, int, str]]:
    """Yield the integers and the lengths of lists in nested JSON."""
    if isinstance(value, int):
        yield name, value, limit, ""
    elif isinstance(value, Mapping):
        for key, child in value.items():
            yield from _numbers(f"{name}: {key}", child, limit)
    elif isinstance(value, list):
        yield name, len(value), limit, " items"
        for child in value:
            yield from _numbers(name, child, limit)
