"""Features from the annotated fields of an author's class.

Shape alphabet: n entities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from enum import Enum
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from ..suggestions import listed
from .actions.array_checks import all_finite, as_float32, real_numbers


@dataclass(frozen=True)
class Scale:
    """Multiplies a field's numbers, so that they come near to 1: `hp: Annotated[int, ez.Scale(1 / 100)]`."""

    factor: float


@dataclass(frozen=True)
class FieldColumns:
    """The features of one field.

    Attributes:
        names: the features' names, "" for the field's own.
        write: from the field's values in n entities to rows (n, len(names)).
    """

    names: tuple[str, ...]
    write: Callable[[Sequence[Any]], NDArray[np.float32]]

    def first_wrong(self, values: Sequence[Any]) -> tuple[int, str] | None:
        """Return the place of the first value that can't be written alone, and why; None: all can."""
        for place, value in enumerate(values):
            try:
                self.write([value])
            except (TypeError, ValueError) as error:
                return place, str(error)
        return None


def class_columns(
    cls: type, where: str, namespace: Mapping[str, Any], scale: float = 1.0
) -> dict[str, FieldColumns]:
    """Return the features of each annotated field of a class.

    Args:
        where: what error messages call the class.
        namespace: names that its annotations may use besides those of its module.
        scale: multiplies all numbers.

    Raises:
        TypeError: an annotation that is no feature, or that names something unknown.
    """
    try:
        hints = get_type_hints(cls, None, dict(namespace), include_extras=True)
    except NameError as error:
        raise TypeError(f"{where}: an annotation of {cls.__name__} cannot be read: {error}") from None
    return {
        field: _columns(annotation, f"{where}.{field}", namespace, scale)
        for field, annotation in hints.items()
        if not field.startswith("_") and get_origin(annotation) is not ClassVar
    }


def _columns(annotation: Any, where: str, namespace: Mapping[str, Any], scale: float) -> FieldColumns:
    """Return the features of an annotated type; `where` names the field in errors."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        for note in arguments[1:]:
            scale *= note.factor if isinstance(note, Scale) else 1.0
        return _columns(arguments[0], where, namespace, scale)
    if origin is Literal:
        return _one_hot([(value, f"={value}") for value in arguments])
    if origin in (Union, UnionType) and NoneType in arguments and len(arguments) == 2:
        inner = next(argument for argument in arguments if argument is not NoneType)
        return _optional(_columns(inner, where, namespace, scale))
    if origin is tuple and arguments and Ellipsis not in arguments:
        parts = [_columns(part, f"{where}[{i}]", namespace, scale) for i, part in enumerate(arguments)]
        return _several({f"_{i}": part for i, part in enumerate(parts)}, len(arguments))
    if isinstance(annotation, type):
        if issubclass(annotation, Enum):
            return _one_hot([(member, f"={member.name}") for member in annotation])
        if issubclass(annotation, bool | np.bool_ | int | float | np.integer | np.floating):
            return _number(scale)
        if is_dataclass(annotation) or (issubclass(annotation, tuple) and hasattr(annotation, "_fields")):
            return _nested(annotation, where, namespace, scale)
    raise TypeError(
        f"{where}: expected a type that can be a feature, got {_shown(annotation)}. {_advice(annotation)}"
    )


def _shown(annotation: Any) -> str:
    return (
        annotation.__name__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)
    )


def _advice(annotation: Any) -> str:
    origin = get_origin(annotation) or annotation
    if origin is str:
        return "Use a Literal[...] or an Enum with its possible values"
    if origin in (list, set, dict, tuple, frozenset, Sequence):
        return "Use a tuple of fixed length, or an entity type if the number of items varies"
    return (
        "Use numbers, bool, Enum, Literal, tuples of fixed length or dataclasses of these; "
        "fields with a leading underscore are ignored"
    )


def _number(scale: float) -> FieldColumns:
    def write(values: Sequence[Any]) -> NDArray[np.float32]:
        column = real_numbers(values).astype(np.float64)
        if column.shape != (len(values),):
            raise ValueError(f"expected one number per entity, got values of shape {column.shape[1:]}")
        written = as_float32(column * scale)[:, None]
        if not all_finite(written):
            wrong = np.flatnonzero(~np.isfinite(written))
            raise ValueError(f"expected a finite number (float32), got {values[wrong[0]]!r}")
        return written

    return FieldColumns(("",), write)


def _one_hot(named: Sequence[tuple[Any, str]]) -> FieldColumns:
    """Return columns of values, each with its name."""
    # 1 == True and 0 == False, so the type is part of a literal's identity.
    index = {(type(value), value): i for i, (value, _) in enumerate(named)}

    def write(values: Sequence[Any]) -> NDArray[np.float32]:
        rows = np.zeros((len(values), len(index)), np.float32)
        for row, value in enumerate(values):
            try:
                rows[row, index[type(value), value]] = 1
            except (KeyError, TypeError):
                known = listed([known for known, _ in named])
                raise ValueError(f"expected one of {known}, got {value!r:.200}") from None
        return rows

    return FieldColumns(tuple(name for _, name in named), write)


def _optional(columns: FieldColumns) -> FieldColumns:
    def write(values: Sequence[Any]) -> NDArray[np.float32]:
        present = np.array([value is not None for value in values], bool)
        rows = np.zeros((len(values), 1 + len(columns.names)), np.float32)
        rows[:, 0] = present
        if present.any():
            rows[present, 1:] = columns.write([value for value in values if value is not None])
        return rows

    return FieldColumns(("?", *columns.names), write)


def _several(parts: Mapping[str, FieldColumns], length: int) -> FieldColumns:
    names = tuple(prefix + name for prefix, part in parts.items() for name in part.names)

    def write(values: Sequence[Any]) -> NDArray[np.float32]:
        wrong = [value for value in values if len(value) != length]
        if wrong:
            raise ValueError(f"expected {length} items, got {wrong[0]!r:.200}")
        return np.concatenate(
            [part.write([v[i] for v in values]) for i, part in enumerate(parts.values())], 1
        )

    return FieldColumns(names, write)


def _nested(cls: type, where: str, namespace: Mapping[str, Any], scale: float) -> FieldColumns:
    parts = class_columns(cls, where, namespace, scale)
    names = tuple(f".{field}{name}" for field, part in parts.items() for name in part.names)

    def write(values: Sequence[Any]) -> NDArray[np.float32]:
        wrong = [value for value in values if not isinstance(value, cls)]
        if wrong:
            raise ValueError(f"expected a {cls.__name__}, got {wrong[0]!r:.200}")
        columns = [part.write(list(map(attrgetter(field), values))) for field, part in parts.items()]
        return np.concatenate(columns, 1)

    return FieldColumns(names, write)
