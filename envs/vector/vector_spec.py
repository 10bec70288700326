"""`VectorSpec`: the arguments that `make_vec` was given, in plain values for a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class VectorSpec:
    """Arguments of `make_vec` that make the same vector environment again."""

    id: str
    """The environment: an id, or "module:function"."""
    num_envs: int
    kwargs: dict[str, Any] = field(default_factory=dict)
    """Options of the environment: bools, numbers, strings, lists and dicts."""
    view: dict[str, Any] = field(default_factory=dict)
    """The view's options, likewise; empty: chosen by the observation space."""


def plain_values(value: Any) -> Any:
    """Return `value` as bools, numbers, strings, lists and dicts.

    Raises:
        TypeError: it holds another kind of value, for instance a function.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [plain_values(part) for part in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain_values(part) for key, part in value.items()}
    raise TypeError(f"options: expected bools, numbers, strings, lists and dicts, got {value!r}")
