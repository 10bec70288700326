"""Command-line flags as frozen dataclasses, over a configuration file where one is named."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar, cast

import tyro

from ..suggestions import ELSEWHERE
from .config_file import yaml_value
from .errors import UserError, user_errors

T = TypeVar("T")


#: The last parts of the names of flags that take several words: `Pairs`, `Series` and `Names`.
_LISTS = ("kwargs", "view", "vary", "baseline", "bots", "games", "maps", "net", "nets", "options", "variants")


def check_at_least(flags: Any, least: int, *names: str) -> None:
    """Check that the flags of these names are `least` or more, or None.

    Raises:
        ValueError: one is not.
    """
    for name in names:
        value = getattr(flags, name)
        if value is not None and not value >= least:
            raise ValueError(f"--{name.replace('_', '-')}: expected at least {least}, got {value}")


def parse(kind: type[T], command: str, arguments: Sequence[str], default: T | None = None) -> T:
    """Parse `arguments` as the dataclass `kind`; help and unknown flags end the program with code 0 or 2.

    Raises:
        UserError: values that don't go together, or are out of their range.
    """
    _check_names(arguments)
    with user_errors(ValueError, TypeError):  # a dataclass refused the values
        value = tyro.cli(
            kind,
            prog=f"entitize {command}",
            args=_joined(arguments),
            default=default,
            config=(tyro.conf.AvoidSubcommands,),  # only files have optional sections (translation)
        )
        return cast(T, value)


#: Of the options that have other names elsewhere: those of the network.
_OF_NET = ("d_model", "n_layer", "n_head")


def _check_names(arguments: Sequence[str]) -> None:
    """Refuse hyper-parameters by the names of other libraries.

    Raises:
        UserError: there is one; the message has its name here.
    """
    for word in arguments:
        section, _, name = word.partition("=")[0].rpartition(".")
        here = ELSEWHERE.get(name.replace("-", "_"))
        if section in ("--ppo", "--net") and here not in (None, "num_envs"):
            meant = f"--{'net' if here in _OF_NET else 'ppo'}.{here.replace('_', '-')}"
            raise UserError(f"unknown option {section}.{name}; did you mean {meant}?")


def _joined(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with the words of a repeated list flag together: tyro takes the last alone."""
    groups: list[list[str]] = []
    lists: dict[str, list[str]] = {}
    for word in arguments:
        if word.startswith("--") or not groups:
            flag, equals, value = word.partition("=")
            groups.append([flag, value] if equals and _is_list(flag) else [word])
        else:
            groups[-1].append(word)
    joined: list[list[str]] = []
    for group in groups:
        flag, words = group[0], group[1:]
        if flag == "--":
            lists = {}
        if _is_list(flag) and words:
            if flag in lists:
                lists[flag].extend(words)
                continue
            lists[flag] = group
        joined.append(group)
    return [word for group in joined for word in group]


def _is_list(flag: str) -> bool:
    return flag.rpartition(".")[2].removeprefix("--") in _LISTS


def peek(arguments: Sequence[str], *names: str) -> list[str | None]:
    """Return the values of the flags `names` before the others are parsed, because they set the defaults."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in names:
        parser.add_argument(f"--{name}", f"--{name.replace('_', '-')}", nargs="?", dest=name)
    found, _ = parser.parse_known_args(list(arguments))
    return [getattr(found, name) for name in names]


def named_values(metavar: str, read: Callable[[str], Any], show: Callable[[Any], str]) -> Any:
    """Return the tyro type that reads words of the form `metavar` into a dict.

    Args:
        read: makes the value of the text after the `=`; raises ValueError.
        show: the other way.
    """

    def from_words(words: list[str]) -> dict[str, Any]:
        values = {}
        for word in words:
            name, equals, text = word.partition("=")
            if not equals:
                raise ValueError(f"expected {metavar.lower()}, got {word!r}")
            try:
                values[name] = read(text)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        return values

    return tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar=metavar,
        instance_from_str=from_words,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda value: [f"{name}={show(part)}" for name, part in value.items()],
    )


#: A dict on the command line: `--env.kwargs num_levels=200 distribution_mode=easy`, values as in YAML.
Pairs = Annotated[dict[str, Any], named_values("NAME=VALUE", yaml_value, str)]


def split_names(words: Sequence[str]) -> tuple[str, ...]:
    """Return the names in words such as "maze,heist".

    Raises:
        ValueError: the words have none.
    """
    names = tuple(name.strip() for word in words for name in word.split(",") if name.strip())
    if words and not names:
        raise ValueError(f"expected at least one name, got {' '.join(words)!r}")
    return names


#: Names on the command line, with commas or spaces between them: `--maps A,B` or `--maps A B`.
Names = Annotated[
    tuple[str, ...],
    tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar="A,B",
        instance_from_str=split_names,
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=list,
    ),
]


def _values(text: str) -> list[Any]:
    words = text.split(",")
    if not all(map(str.strip, words)):  # YAML would read it as null
        raise ValueError(f"expected values separated by commas, got {text!r}")
    return [yaml_value(word) for word in words]


#: Lists of values on the command line: `--vary width=6,12 nmines=5,20`, values as in YAML.
Series = Annotated[
    dict[str, Any],
    named_values(
        "NAME=VALUE,VALUE",
        read=_values,
        show=lambda values: ",".join(map(str, values)),
    ),
]
