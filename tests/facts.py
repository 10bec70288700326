"""What tests ask of error messages: facts, in any order and any wording."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from numbers import Real
from typing import TypeVar

import pytest

E = TypeVar("E", bound=BaseException)


def raises(
    exception: type[E] | tuple[type[E], ...], fact: object, *facts: object
) -> AbstractContextManager[pytest.ExceptionInfo[E]]:
    """`pytest.raises` for an exception whose message mentions each fact (see `mentions`).

    Example:
        with raises(ValueError, "action 'Move'", "expected 3", "got 2"):
            env.step({"Move": [0, 1]})
    """
    return pytest.raises(exception, match=mentions(fact, *facts))


def warns(
    category: type[Warning] | tuple[type[Warning], ...], fact: object, *facts: object
) -> AbstractContextManager[pytest.WarningsRecorder]:
    """`pytest.warns` for a warning whose message mentions each fact (see `mentions`)."""
    return pytest.warns(category, match=mentions(fact, *facts))


def mentions(*facts: object) -> str:
    """Pattern of a message that contains each of `facts`, for `re.search`.

    Strings must occur as they are; numbers must stand alone (3 is not found in "13" or "3.5").
    """
    return "".join(rf"(?=[\s\S]*{_pattern(fact)})" for fact in facts)


def _pattern(fact: object) -> str:
    escaped = re.escape(str(fact))
    if isinstance(fact, Real):
        return rf"(?<![\w.]){escaped}(?!\w|\.\d)"
    return escaped
