"""Command-line flags as frozen dataclasses, over a configuration file where one is named."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TypeVar, cast

import tyro

from .errors import UserError

T = TypeVar("T")


def parse(kind: type[T], command: str, arguments: Sequence[str], default: T | None = None) -> T:
    """`arguments` as the dataclass `kind`; help and unknown flags end the program as tyro does (code 0 or 2).

    Raises:
        UserError: values that don't go together, or are out of their range.
    """
    try:
        value = tyro.cli(
            kind,
            prog=f"entitize {command}",
            args=list(arguments),
            default=default,
            config=(tyro.conf.AvoidSubcommands,),  # optional sections (translation) are the file's to give
        )
        return cast(T, value)
    except (ValueError, TypeError) as error:  # a dataclass refused the values
        raise UserError(str(error)) from error


def peek(arguments: Sequence[str], *names: str) -> list[str | None]:
    """The values of the flags `names` before everything is parsed, because they say what the defaults are."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in names:
        parser.add_argument(f"--{name}", nargs="?")
    found, _ = parser.parse_known_args(list(arguments))
    return [getattr(found, name) for name in names]
