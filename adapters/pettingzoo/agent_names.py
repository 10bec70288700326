"""Agents' names and kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...envs.multi_agent import kind_of
from ...suggestions import nearest_or_known


def resolve(names: Sequence[str], agents: Sequence[str], what: str) -> list[str]:
    """Return the agents that `names` refer to, by name or by kind, in the order of `agents`.

    Raises:
        ValueError: an unknown agent or kind; `what` says where the name was given.
    """
    kinds = [kind_of(agent) for agent in agents]
    for name in names:
        if name not in agents and name not in kinds:
            raise ValueError(
                f"{what}: expected agents or kinds of agents, got the unknown agent or kind"
                f" {name!r}{nearest_or_known(name, [*agents, *kinds])}"
            )
    return [agent for agent, kind in zip(agents, kinds, strict=True) if agent in names or kind in names]


def group_agents(agents: Sequence[str], alike: Callable[[str, str], bool]) -> dict[str, list[str]]:
    """Group agents that are alike. A group is named after its kinds, or after its first agent if names clash.

    Args:
        alike: returns True if two agents belong together.
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
    """Return True if two agents' spaces (or views) are identical or equal."""
    return one is other or bool(one == other)


def repeated(agents: Sequence[str]) -> str | None:
    """Return the first agent that appears twice; None if there is none."""
    return next((agent for i, agent in enumerate(agents) if agent in agents[:i]), None)
