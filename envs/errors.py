"""Errors that name their place: env, entity type, feature or action."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from inspect import signature
from typing import Any, TypeVar

import gymnasium
import numpy as np

from ..suggestions import did_you_mean, nearest

__all__ = ["ActionError", "ConformanceError", "ObservationError", "WorkerError"]

#: The largest number that engines in C take.
MOST_INT = 2**31 - 1

Options = TypeVar("Options")

#: What to do about an entity environment whose observations a wrapper replaced.
REPLACED_OBSERVATIONS = (
    "A wrapper replaced the observations of an entity environment. Remove it (FlattenObservation, for"
    " example): networks read entities as they are. For one flat array, use"
    " entitize.to_gymnasium(env, 'flat', maxima=…) in its place"
)


class ObservationError(ValueError):
    """An environment returned an observation that its space does not allow, or other values than it must."""


class ObsError(ObservationError):
    """Objects that can't be an `Obs`, which does not know its environment."""

    def of(self, where: str) -> ObservationError:
        """Return the same error, raised at the same place, of the environment `where`."""
        return ObservationError(f"{where}: {self}").with_traceback(self.__traceback__)


class ActionError(ValueError):
    """An action that the observation does not allow: unknown name, wrong length, illegal choice.

    No environment has moved when it is raised.
    """


class WorkerError(RuntimeError):
    """An environment of a vector environment raised, or its worker process died; all have been closed.

    `env_indices` says which lanes it was.
    """

    def __init__(self, message: str, env_indices: Sequence[int] = ()) -> None:
        super().__init__(message, tuple(env_indices))
        self.env_indices = tuple(env_indices)

    def __str__(self) -> str:
        return str(self.args[0])


class ConformanceError(AssertionError):
    """`check_entity_env` found an environment that breaks the rules of entity environments."""


def whole_number(where: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Return `value` if it is a whole number of at least `least` and, if given, at most `most`.

    Raises:
        TypeError: it is something else than a whole number.
        ValueError: it is out of this range.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{where}: expected a whole number, got {value!r}")
    if value < least or (most is not None and value > most):
        wanted = f"at least {least}" if most is None else f"{least} to {most}"
        raise ValueError(f"{where}: expected {wanted}, got {value}")
    return int(value)


def check_left_out(where: str, **arguments: Any) -> None:
    """Check that arguments of `sample` which a space has no use for are None, as Gymnasium's spaces do.

    Raises:
        gymnasium.error.Error: one is given.
    """
    for name, value in arguments.items():
        if value is not None:
            raise gymnasium.error.Error(f"{where}.sample: {name}: expected None, got {value!r}")


def reset_option(where: str, options: Mapping[str, Any], name: str) -> Any:
    """Return the option `name` of a `reset`, or None.

    Others are ignored, as Gymnasium's environments do: PettingZoo's tests pass one that no environment has.

    Raises:
        ValueError: an option looks like a misspelt `name`.
    """
    for other in options:
        if other != name and nearest(other, [name], 1, 0.6):
            raise ValueError(f"{where}: reset: expected the option {name!r}, got {other!r}")
    return options.get(name)


def seconds_or_none(where: str, value: Any) -> float | None:
    """Return `value` if it is a positive number of seconds, or None for no limit.

    Raises:
        ValueError: it is something else.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
        raise ValueError(f"{where}: expected a positive number of seconds or None, got {value!r}")
    return float(value)


#: Options that `make_vec` takes for every engine.
_OF_MAKE_VEC = ("num_envs", "num_workers", "worker_timeout")


def check_option_names(
    where: str, names: Iterable[str], known: Iterable[str], elsewhere: Sequence[str] = ()
) -> None:
    """Check that all `names` of options are known.

    Args:
        elsewhere: names that another function takes, to be suggested too.

    Raises:
        TypeError: one is not; the nearest is suggested.
    """
    known = list(known)
    for name in names:
        if name not in known:
            # In Python's words: Gymnasium and TorchRL look for them when they try which options there are.
            hint = did_you_mean(name, [*known, *elsewhere], 1)
            if name in elsewhere and name in _OF_MAKE_VEC:
                hint = ", which is an option of make_vec"
            raise TypeError(f"{where}: got an unexpected keyword argument {name!r}{hint}")


def checked_options(
    where: str, kind: type[Options], options: Mapping[str, Any], caller: Callable[..., Any] | None = None
) -> Options:
    """Return keyword arguments as an object of the dataclass `kind`, which checks their ranges.

    Args:
        caller: what takes the options; the nearest name may be one of its other arguments, or of `make_vec`.

    Raises:
        TypeError, ValueError: an unknown option, with the nearest one; or what `kind` raises, behind `where`.
    """
    dataclass: Any = kind
    others = [*signature(caller).parameters, *_OF_MAKE_VEC] if caller else []
    names = [field.name for field in fields(dataclass)]
    check_option_names(where, options, names, others)
    try:
        return kind(**options)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where}: {error}") from None


def named_kind(value: object) -> str:
    """Return a value for an error: "the class Snake" for a class, "a Snake" for an object of it."""
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def one_of(where: str, value: Any, known: Iterable[Any]) -> None:
    """Check that `value` is one of `known`.

    Raises:
        ValueError: it is not; the nearest names are suggested.
    """
    known = list(known)
    if value not in known:
        hint = did_you_mean(value, known) if isinstance(value, str) else ""
        raise ValueError(f"{where}: expected one of {', '.join(map(repr, known))}, got {value!r}{hint}")


def whole_options(options: Any, **ranges: tuple[int, int | None]) -> None:
    """Make attributes of a dataclass Python's whole numbers, in `ranges` (least, most or None).

    None stays where it is the default, or where the type of the attribute names it.

    Raises:
        TypeError, ValueError: one is not; see `whole_number`.
    """
    for name, (least, most) in ranges.items():
        value, kind = getattr(options, name), type(options)
        is_optional = getattr(kind, name) is None or "None" in str(kind.__dataclass_fields__[name].type)
        if value is not None or not is_optional:
            object.__setattr__(options, name, whole_number(name, value, least, most))


def check_flags(options: object, *names: str) -> None:
    """Check that these attributes of `options` are True or False, or None where that is the default.

    Raises:
        TypeError: one is not.
    """
    for name in names:
        value, may_be_none = getattr(options, name), getattr(type(options), name, False) is None
        if not isinstance(value, bool) and not (value is None and may_be_none):
            choices = "True, False or None" if may_be_none else "True or False"
            raise TypeError(f"{name}: expected {choices}, got {value!r}")


def positive_number(where: str, value: Any) -> float:
    """Return `value` if it is a number above 0.

    Raises:
        TypeError: it is no number.
        ValueError: it is not above 0.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{where}: expected a number, got {value!r}")
    if not value > 0:
        raise ValueError(f"{where}: expected a positive number, got {value}")
    return float(value)


def reset_needed(where: str, call: str) -> gymnasium.error.ResetNeeded:
    """The error to raise where `call` ("step()") came before the first reset or after an episode's end."""
    return gymnasium.error.ResetNeeded(f"{where}: call reset() before {call}")


class NoPicturesError(ValueError, TypeError):
    """An environment without pictures got a render mode. SB3's `make_vec_env` does without at a TypeError."""


def check_render_mode(where: str, render_mode: str | None, modes: Sequence[str]) -> None:
    """Refuse a render mode that is neither None nor one of `modes`.

    Raises:
        NoPicturesError: there are no modes.
        ValueError: it is something else.
    """
    if render_mode is not None and not modes:
        raise NoPicturesError(f"{where}: render_mode: expected None (no pictures), got {render_mode!r}")
    one_of(f"{where}: render_mode", render_mode, (None, *modes))


def no_render_mode(where: str) -> ValueError:
    """The error to raise where an environment without a render mode is to be rendered."""
    return ValueError(
        f"{where}: no render_mode to render with: expected a render mode, got None. Pass render_mode="
    )
