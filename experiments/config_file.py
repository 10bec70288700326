"""YAML files as typed dataclasses: the keys of a file are exactly the fields of the dataclass."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from ..suggestions import nearest
from ..trainers.runs.yaml_numbers import NumberDumper, NumberLoader
from .errors import UserError

T = TypeVar("T")


class ConfigError(UserError):
    """A configuration file is wrong; the message names the file and the key."""


def read_config(kind: type[T], path: Path) -> T:
    """Return the dataclass `kind` that the YAML file `path` describes; missing keys keep their defaults.

    Raises:
        ConfigError: the file can't be read, a key is unknown (the nearest one is suggested) or a value is of
            the wrong type.
    """
    return read_plain(kind, read_yaml(path), path)


def read_plain(kind: type[T], data: Any, path: Path) -> T:
    """Return `read_config` of the data that `read_yaml` returned for `path`; None: empty."""
    try:
        value: T = _Reader(path, kind).read(kind, {} if data is None else data, ())
    except (ValueError, OverflowError, RecursionError) as error:  # of a number with 10,000 digits, say
        raise ConfigError(f"{path} can't be read: {error}") from error
    return value


def read_yaml(path: Path) -> Any:
    """Read the YAML file `path` as plain data; an empty file gives None.

    Raises:
        ConfigError: the file can't be read, is not YAML or has a key twice.
    """
    try:
        text = path.read_text("utf-8")
        data = yaml.load(text, _Loader)
        _check_aliases(data, 1000 + 100 * len(text))
        return data
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    except MemoryError as error:
        size = path.stat().st_size
        raise ConfigError(f"{path} can't be read: its {size} bytes exceed this machine's memory") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a text file: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {_problem(error)}") from error
    except (ValueError, OverflowError, RecursionError) as error:  # PyYAML's, of a date 2026-13-45, say
        raise ConfigError(f"{path} can't be read: {error}") from error


def _check_aliases(data: Any, most: int) -> None:
    """Check that the aliases of a YAML file expand to at most `most` values: ten lines can expand to more
    than the memory.

    Raises:
        ValueError: they expand to more, or are recursive.
    """
    sizes: dict[int, int] = {}  # by id; too large while a value contains itself

    def size(value: Any) -> int:
        if not isinstance(value, dict | list):
            return 1
        if id(value) not in sizes:
            sizes[id(value)] = most + 1
            sizes[id(value)] = 1 + sum(map(size, value.values() if isinstance(value, dict) else value))
        return sizes[id(value)]

    if size(data) > most:
        raise ValueError(f"its aliases (*name) repeat too much: expected at most {most} values, got more")


def read_section(kind: type[T], data: Mapping[str, Any], name: str) -> T:
    """Return the dataclass `kind` that `data`, the section `name` of a configuration, describes.

    Raises:
        ConfigError: as in `read_config`, without the name of a file.
    """
    value: T = _Reader(None, kind).read(kind, data, (name,))
    return value


def to_yaml(config: Any) -> str:
    """Return a dataclass, or plain data, as YAML that `read_config` or `read_yaml` reads back as equal."""
    return yaml.dump(plain(config), Dumper=NumberDumper, sort_keys=False)


def yaml_value(text: str) -> Any:
    """Return the value that YAML would read: `200` an int, `1e-3` a float, `true` a bool, `easy` a string.

    None is Python's as well, beside YAML's null: that is the word of the tables of options.

    Raises:
        ValueError: the text is not YAML.
    """
    if text == "None":
        return None
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ValueError(f"expected a value as in YAML, got {text!r}: {_problem(error)}") from error


def _problem(error: yaml.YAMLError) -> str:
    """Return the problem, with its place if that is known, in one line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return " ".join(str(error).split())


class _Loader(NumberLoader):
    """`NumberLoader` that refuses a key that is there twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # PyYAML refuses it below
            if key in keys:
                problem = f"the key {key!r} is there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            keys.add(key)
        return super().construct_mapping(node, deep)


class _Reader:
    """Builds dataclasses from plain data, of the file `path` if any; `where` is the path of keys so far."""

    def __init__(self, path: Path | None, root: type) -> None:
        self.path = path
        self.root = root

    def error(self, where: tuple[str, ...], problem: str) -> ConfigError:
        file = [] if self.path is None else [str(self.path)]
        keys = [".".join(where)] if where else []
        return ConfigError(": ".join([*file, *keys, problem]))

    def read(self, hint: Any, value: Any, where: tuple[str, ...]) -> Any:
        for option in _options(hint):
            if dataclasses.is_dataclass(option):
                if value is None and len(_options(hint)) > 1:
                    continue
                return self.dataclass(option, value, where)
            try:
                return self.simple(option, value, where)
            except _WrongType:
                continue
        raise self.error(where, f"expected {_name(hint)}, got {value!r}")

    def dataclass(self, kind: Any, value: Any, where: tuple[str, ...]) -> Any:
        if not isinstance(value, Mapping):
            raise self.error(where, f"expected a section with keys, got {value!r}")
        hints = get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        for key in value:
            if key not in names:
                raise self.error((), self.unknown((*where, str(key)), names))
        parts = {key: self.read(hints[key], part, (*where, key)) for key, part in value.items()}
        try:
            return kind(**parts)
        except (TypeError, ValueError) as error:
            raise self.error(where, str(error)) from error

    def unknown(self, where: tuple[str, ...], names: list[str]) -> str:
        """Return the error of an unknown key, with the nearest key of the same section, or else of any."""
        near = nearest(where[-1], names, 1, 0.6)
        suggestions = [".".join((*where[:-1], name)) for name in near]
        if not near:
            paths = {path.split(".")[-1]: path for path in _key_paths(self.root)}
            suggestions = [paths[name] for name in nearest(where[-1], paths, 1, 0.6)]
        hint = f"did you mean {suggestions[0]!r}?" if suggestions else f"known: {', '.join(map(repr, names))}"
        return f"unknown key {'.'.join(where)!r}; {hint}"

    def simple(self, hint: Any, value: Any, where: tuple[str, ...]) -> Any:
        """Return `value` as a type that is no dataclass, or raise `_WrongType`."""
        origin = get_origin(hint)
        if origin is Literal:
            fits, result = value in get_args(hint), value
        elif origin is tuple:
            fits = isinstance(value, (list, tuple))
            result = tuple(self.read(get_args(hint)[0], item, where) for item in value) if fits else ()
        elif origin is dict:
            fits = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
            result = dict(value) if fits else {}
        elif hint is float:
            fits = isinstance(value, (int, float)) and not isinstance(value, bool)
            result = float(value) if fits else 0.0
        elif hint is int:
            whole = isinstance(value, float) and value.is_integer()  # 25e6 is a fine number of steps
            fits = whole or (isinstance(value, int) and not isinstance(value, bool))
            result = int(value) if fits else 0
        elif hint is Path:
            fits, result = isinstance(value, str), Path(str(value))
        else:
            fits, result = isinstance(value, hint), value
        if not fits:
            raise _WrongType
        return result


class _WrongType(Exception):
    """The value is not of this one of the types of a field."""


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _name(hint: Any) -> str:
    def one(option: Any) -> str:
        if option is type(None):
            return "null"
        return option.__name__ if isinstance(option, type) and not get_args(option) else str(option)

    return " or ".join(map(one, _options(hint)))


def _key_paths(kind: Any, prefix: str = "") -> Iterator[str]:
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        yield prefix + field.name
        for option in _options(hints[field.name]):
            if dataclasses.is_dataclass(option):
                yield from _key_paths(option, f"{prefix}{field.name}.")


def plain(value: Any) -> Any:
    """Return a dataclass as new dicts, lists, numbers and strings, as in YAML."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return str(value) if isinstance(value, Path) else value


def value_of(data: Mapping[str, Any], name: str) -> Any:
    """Return the value of the dotted `name` in plain data; None if it does not exist."""
    value: Any = data
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def set_value(data: dict[str, Any], name: str, value: Any) -> None:
    """Set the value of the dotted `name` in plain data.

    A section that is missing, or that is a plain value, is made: `read_plain` reports it as an unknown key.
    """
    *sections, last = name.split(".")
    for section in sections:
        data[section] = dict(part) if isinstance(part := data.get(section), Mapping) else {}
        data = data[section]
    data[last] = value
