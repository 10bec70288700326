"""Evaluation under several settings of the environment: `entitize eval RUN --vary nrobots=1,2,4`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from .named_values import named_values, read_series, show_series

#: Lists of values on the command line: `--vary width=6,12 nmines=5,20`, values as in YAML.
Series = Annotated[dict[str, Any], named_values("NAME=VALUE,VALUE", read_series, show_series)]


def check_series(series: Mapping[str, Any]) -> None:
    """Check that every option has a list of values, all of one length.

    Raises:
        ValueError: one has not; the message names it.
    """
    for name, values in series.items():
        if not isinstance(values, (list, tuple)) or not values:
            raise ValueError(f"vary.{name} must be a list of values, got {values!r}")
    lengths = {name: len(values) for name, values in series.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"options that vary together need as many values each: {told}")


def settings_of(series: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """The settings, one after the other: {a: [1, 2], b: [3, 4]} are {a: 1, b: 3} and {a: 2, b: 4}.

    Without options there is one, and it is empty.
    """
    if not series:
        return [{}]
    return [dict(zip(series, values, strict=True)) for values in zip(*series.values(), strict=True)]
