"""What tests ask of error messages: facts, in any order and any wording."""

from __future__ import annotations

import re


def mentions(*facts: object) -> str:
    """A pattern for `pytest.raises(match=...)`: the message names each of `facts`.

    Strings must occur as they are; numbers must stand alone (3 is not found in "13" or "3.5").
    """
    return "".join(rf"(?=[\s\S]*{_pattern(fact)})" for fact in facts)


def _pattern(fact: object) -> str:
    escaped = re.escape(str(fact))
    if isinstance(fact, int | float):
        return rf"(?<![\w.]){escaped}(?!\w|\.\d)"
    return escaped
