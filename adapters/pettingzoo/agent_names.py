"""Agents' names: their kinds, and how users refer to them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def kind_of(agent: str) -> str:
    """The kind that an agent's name speaks of: "adversary" of "adversary_0"; else the name itself."""
    head, _, tail = str(agent).rpartition("_")
    return head if head and tail.isdigit() else str(agent)


def near(name: str, known: Iterable[str]) -> str:
    """What to say about an unknown name: the known ones like it, else all of them."""
    known = [str(one) for one in known]
    close = difflib.get_close_matches(str(name), known, 3)
    if close:
        return f"; perhaps you mean {' or '.join(map(repr, close))}"
    return f"; known: {', '.join(map(repr, known))}"


def resolve(names: Sequence[str], agents: Sequence[str], what: str) -> list[str]:
    """The agents that `names` speak of, by name or by kind, in the order of `agents`.

    Raises:
        ValueError: there is no such agent and no such kind; `what` says where the name was given.
    """
    kinds = [kind_of(agent) for agent in agents]
    for name in names:
        if name not in agents and name not in kinds:
            raise ValueError(f"{what}: there is no agent or kind {name!r}{near(name, [*agents, *kinds])}")
    return [agent for agent, kind in zip(agents, kinds, strict=True) if agent in names or kind in names]


def group_agents(agents: Sequence[str], alike: Callable[[str, str], bool]) -> dict[str, list[str]]:
    """Agents that are alike, under the name of their kinds; where two groups have the same, of their first.

    Args:
        alike: whether two agents belong together.
    """
    groups: list[list[str]] = []
    for agent in agents:
        for members in groups:
            if alike(members[0], agent):
                members.append(agent)
                break
        else:
            groups.append([agent])
    names = ["_".join(dict.fromkeys(kind_of(agent) for agent in members)) for members in groups]
    if len(set(names)) < len(names):
        names = [str(members[0]) for members in groups]
    return dict(zip(names, groups, strict=True))


def same(one: Any, other: Any) -> bool:
    """Whether two agents' things (spaces, views) are the same or equal."""
    return one is other or bool(one == other)
