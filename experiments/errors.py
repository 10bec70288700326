"""Errors caused by command-line input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..suggestions import unknown


class UserError(Exception):
    """An error of the user's input; the command line prints its message and exits with code 2."""


@contextmanager
def user_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Raise exceptions of these kinds as `UserError` with the same message."""
    try:
        yield
    except kinds as error:
        raise UserError(str(error)) from error


def check_known(what: str, name: str, known: Iterable[str]) -> None:
    """Check that `name` is one of the `known`.

    Raises:
        UserError: it is not; the message has the nearest known name, or all of them.
    """
    names = list(known)
    if name not in names:
        raise UserError(unknown(what, name, names))


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any], now: str) -> str:
    """Return the settings that differ with both values, in words; empty if none does.

    Args:
        now: follows our value, "was asked for", say; "there" follows theirs.
    """
    return "; ".join(
        f"{name} is {_shown(theirs, name)} there, {_shown(ours, name)} {now}"
        for name in sorted({*theirs, *ours})
        if theirs.get(name) != ours.get(name)
    )


def _shown(settings: Mapping[str, Any], name: str) -> str:
    return repr(settings[name]) if name in settings else "not set"
