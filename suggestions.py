"""Suggest the nearest known name for a misspelt one (floor 0: the standard library only)."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

Item = TypeVar("Item")

#: How many names, ids or choices an error lists.
MOST_LISTED = 10

#: Option of another library -> what it is called here.
ELSEWHERE = {
    # Stable-Baselines3, CleanRL, RLlib, TorchRL
    "n_steps": "num_steps",
    "rollout_length": "num_steps",
    "batch_size": "minibatch_size",
    "n_epochs": "update_epochs",
    "num_epochs": "update_epochs",
    "lr": "learning_rate",
    "clip_range": "clip_coef",
    "clip_param": "clip_coef",
    "clip_eps": "clip_coef",
    "lambda_": "gae_lambda",
    "lam": "gae_lambda",
    "lmbda": "gae_lambda",
    "entropy_coef": "ent_coef",
    "entropy_coeff": "ent_coef",
    "value_coef": "vf_coef",
    "normalize_advantage": "norm_adv",
    "n_envs": "num_envs",
    # torch, Hugging Face
    "hidden_size": "d_model",
    "hidden_dim": "d_model",
    "embed_dim": "d_model",
    "num_layers": "n_layer",
    "n_layers": "n_layer",
    "num_heads": "n_head",
    "n_heads": "n_head",
    "nhead": "n_head",
}


def nearest(name: object, known: Iterable[str], count: int = 3, cutoff: float = 0.5) -> list[str]:
    """Return the `count` names of `known` most similar to `name`, best first; case doesn't matter."""
    by_lower: dict[str, list[str]] = {}
    for candidate in map(str, known):
        by_lower.setdefault(candidate.lower(), []).append(candidate)
    found = difflib.get_close_matches(str(name).lower(), by_lower, count, cutoff)
    return [candidate for match in found for candidate in by_lower[match]][:count]


def did_you_mean(name: object, known: Iterable[str], count: int = 3) -> str:
    """Return "; did you mean 'x' or 'y'?" for an error about an unknown name, or "" where nothing is near."""
    near = nearest(name, known, count)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def nearest_or_known(name: object, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?", or where no name is near "; known: 'x', 'y'" with all names.

    Names of other libraries are known (`ELSEWHERE`). Of more than 20 names the nearest is suggested in any
    case.
    """
    known = list(dict.fromkeys(map(str, known)))
    if ELSEWHERE.get(str(name)) in known:
        return f"; did you mean {ELSEWHERE[str(name)]!r}?"
    near = nearest(name, known, 1, 0.5 if len(known) <= 20 else 0.0)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(map(repr, known))}"


def listed(items: Collection[Item], words: Callable[[Item], str] = repr, none: str = "none") -> str:
    """Return "'a', 'b'" for an error; of more than `MOST_LISTED` items the first, "… and 1,990 more"."""
    shown = ", ".join(words(item) for item in islice(items, MOST_LISTED))
    more = len(items) - MOST_LISTED
    return f"{shown}, … and {more:,} more" if more > 0 else shown or none


def numbered(number: int, name: str) -> str:
    """Return "2 ('left')", a choice or an entity by number and name; "2" where that is its name."""
    return str(number) if name.strip("'") == str(number) else f"{number} ({name})"


def expected_one_of(name: object, known: Collection[Any]) -> str:
    """Return "expected one of 'a', 'b'", with the nearest names too where not all are listed."""
    hint = did_you_mean(name, known) if len(known) > MOST_LISTED else ""
    return f"expected one of {listed(known)}{hint}"


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """Return "unknown `what` 'name'", with the nearest known name, or with all where nothing is near."""
    return f"unknown {what} {name!r}{nearest_or_known(name, known)}"


class KnownOptions:
    """Base of dataclasses of options: an unknown one is an error that suggests a known one."""

    if not TYPE_CHECKING:  # type checkers read the signature of the dataclass

        def __new__(cls, *args, **options):
            """Check the names of the options."""
            check_options(cls.__name__, cls.__init__, options)
            return super().__new__(cls)


def check_options(
    where: str, function: Callable[..., Any], options: Iterable[str], also: Iterable[str] = ()
) -> None:
    """Check that `function` takes these options, as far as its signature says.

    Args:
        also: names that may have been meant, beside those of the function.

    Raises:
        TypeError: it does not take one; the nearest name is suggested.
    """
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters  # a wrapper may take more
    except (TypeError, ValueError):  # a signature that can't be found out
        return
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for name in options:
        if name not in parameters:
            raise TypeError(f"{where}: {unknown('option', name, [*parameters, *also])}")
