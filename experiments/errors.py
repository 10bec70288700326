"""Errors caused by command-line input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..suggestions import nearest


class UserError(Exception):
    """One clear sentence for the person at the keyboard; the command line prints it and exits with code 2."""


def unknown(what: str, name: str, known: Iterable[str], where: str = "") -> UserError:
    """Return the error of an unknown name: it suggests the nearest known one, or lists them all."""
    names = list(known)
    near = nearest(name, names, 1, 0.6)
    hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(names)}"
    return UserError(f"unknown {what} {name!r}{where}: {hint}")


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any], now: str) -> str:
    """In which settings what is on the disk differs from what is asked for; empty where in none.

    Args:
        now: stands behind our value, "was asked for", say.
    """
    return "; ".join(
        f"{name} is {_told(theirs, name)} there, {_told(ours, name)} {now}"
        for name in sorted({*theirs, *ours})
        if theirs.get(name) != ours.get(name)
    )


def _told(settings: Mapping[str, Any], name: str) -> str:
    return repr(settings[name]) if name in settings else "not set"
