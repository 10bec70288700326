"""The hyper-parameters of a search: `--param NAME=RANGE`, read for configurations and for Optuna."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from ..config import TrainConfig
from ..config_file import plain, read_plain, set_value, value_of, yaml_value
from ..errors import UserError

#: What `--param` takes, for errors.
_FORMS = "NAME=LOW..HIGH, NAME=log:LOW..HIGH, NAME=int:LOW..HIGH or NAME=A,B,C"
#: Settings that a search determines itself.
_OWN = ("ppo.seed", "ppo.total_timesteps", "ppo.device", "max_minutes")
#: A place in a range, for a value that is not whole by chance.
_BETWEEN = 0.377


@dataclass(frozen=True)
class SearchParameter:
    """A setting and the values that the search may give it."""

    name: str  # dotted, as in a configuration file: "ppo.learning_rate"
    text: str  # the range as on the command line
    distribution: BaseDistribution

    def examples(self) -> list[Any]:
        """Return values that a configuration must accept: all choices, or ends and middle of a range."""
        found = self.distribution
        if isinstance(found, CategoricalDistribution):
            return list(found.choices)
        assert isinstance(found, IntDistribution | FloatDistribution)
        between = found.low + _BETWEEN * (found.high - found.low)
        return [found.low, found.high, *([between] if isinstance(found, FloatDistribution) else [])]

    def contains(self, value: Any) -> bool:
        """Return True if the search may choose `value`."""
        found = self.distribution
        if isinstance(found, CategoricalDistribution):
            return value in found.choices
        assert isinstance(found, IntDistribution | FloatDistribution)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and found.low <= value <= found.high


def read_parameters(words: Sequence[str], config: TrainConfig) -> list[SearchParameter]:
    """Return the parameters `NAME=RANGE` of a search over `config`.

    Raises:
        UserError: a word is malformed, a setting is unknown or of another type, or a range is empty.
    """
    found: dict[str, SearchParameter] = {}
    for word in words:
        parameter = _read(word, plain(config))
        if parameter.name in found:
            raise UserError(f"--param {parameter.name}: expected it once, got it twice")
        if parameter.name in _OWN:
            raise UserError(
                f"--param {parameter.name}: expected a setting of a trial, got one that the search sets"
            )
        for value in parameter.examples():
            with_values(config, {parameter.name: value})
        found[parameter.name] = parameter
    if not found:
        raise UserError(f"--param: expected at least one, got none. Give {_FORMS}")
    return list(found.values())


def with_values(config: TrainConfig, values: Mapping[str, Any]) -> TrainConfig:
    """Return `config` with the settings `values`, by dotted name.

    Raises:
        UserError: a setting is unknown (the nearest one is suggested), or its value is not allowed.
    """
    data = plain(config)
    for name, value in values.items():
        set_value(data, name, value)
    return read_plain(TrainConfig, data, Path(f"--param {' '.join(values)}"))


def _read(word: str, config: Mapping[str, Any]) -> SearchParameter:
    name, equals, text = word.partition("=")
    name, text = name.strip().replace("-", "_"), text.strip()
    if not equals or not text or not all(part.isidentifier() for part in name.split(".")):
        raise UserError(f"--param: expected {_FORMS}, got {word!r}")
    *kinds, values = text.split(":")
    is_range = ".." in values.lstrip(".") and "/" not in values
    if not kinds and not is_range:
        return SearchParameter(name, text, _choices(word, values))
    if len(set(kinds)) < len(kinds) or not {*kinds} <= {"int", "log"} or not is_range:
        raise UserError(f"--param: expected {_FORMS}, got {word!r}")
    is_int = "int" in kinds or type(value_of(config, name)) is int
    return SearchParameter(name, text, _range(word, values, is_int, "log" in kinds))


def _choices(word: str, text: str) -> CategoricalDistribution:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UserError(f"--param {word}: expected values separated by commas, got an empty one")
    values = [_value(part) for part in parts]
    if not all(value is None or isinstance(value, bool | int | float | str) for value in values):
        raise UserError(f"--param {word}: expected numbers, words, true, false or null, got {text!r}")
    if len({(isinstance(value, bool), value) for value in values}) < len(values):
        raise UserError(f"--param {word}: expected different values, got {text!r}")
    return CategoricalDistribution(values)


def _range(word: str, text: str, is_int: bool, is_log: bool) -> IntDistribution | FloatDistribution:
    low, high = (_value(part.strip()) if part.strip() else None for part in text.split("..", 1))
    wanted = "whole numbers" if is_int else "numbers"
    if not _is_number(low, is_int) or not _is_number(high, is_int):
        raise UserError(f"--param {word}: expected two {wanted} LOW..HIGH, got {text!r}")
    if not low < high:
        raise UserError(f"--param {word}: expected LOW below HIGH, got {low} and {high}")
    if is_log and low <= 0:
        raise UserError(f"--param {word}: expected LOW above 0 in a logarithmic range, got {low}")
    if is_int:
        return IntDistribution(int(low), int(high), log=is_log)
    return FloatDistribution(float(low), float(high), log=is_log)


def _value(text: str) -> Any:
    """Return what YAML would read; a list for text that is no YAML, which no setting may be."""
    try:
        return yaml_value(text)
    except ValueError:
        return [text]


def _is_number(value: Any, is_int: bool) -> TypeGuard[int | float]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return is_number and (not is_int or value == int(value))
