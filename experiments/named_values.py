"""Dicts on the command line: `--env.kwargs num_levels=200 distribution_mode=easy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tyro

from .config_file import number


def named_values(metavar: str, read: Callable[[str], Any], show: Callable[[Any], str]) -> Any:
    """Return the tyro type that reads words of the form `metavar` into a dict.

    Args:
        read: the value out of what stands behind the `=`; raises ValueError.
        show: the other way.
    """

    def from_words(words: list[str]) -> dict[str, Any]:
        for word in words:
            if "=" not in word:
                raise ValueError(f"{word!r} is not of the form {metavar.lower()}")
        return {name: read(value) for name, value in (word.split("=", 1) for word in words)}

    return tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar=metavar,
        instance_from_str=from_words,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda value: [f"{name}={show(part)}" for name, part in value.items()],
    )


def read_series(text: str) -> list[Any]:
    """Values as in YAML, with commas between them."""
    return [number(value) for value in text.split(",")]


def show_series(values: list[Any]) -> str:
    """The other way."""
    return ",".join(map(str, values))
