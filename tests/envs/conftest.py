"""Environments and spaces that the tests of `envs` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import entitize as ez
import numpy as np
import pytest


@pytest.fixture
def rich_space() -> ez.EntitySpace:
    """A space with a type without features, globals, hidden entities, each kind of action, and a no-op."""
    actions = ez.EntityActionSpace(
        {
            "Walk": ez.Categorical(["north", "south", "stay"]),
            "Aim": ez.SelectEntity(),
            "Alarm": ez.GlobalCategorical(["off", "on"]),
        },
        optional=True,
    )
    entities = {"Unit": ["x", "y", "health"], "Rock": [], "Food": ["x"]}
    return ez.EntitySpace(entities, actions, global_features=["time", "score"], hidden=True)


@pytest.fixture
def bare_space() -> ez.EntitySpace:
    """A space without entities, globals or hidden ones."""
    return ez.EntitySpace({}, ez.EntityActionSpace({"Pick": ez.GlobalCategorical(3)}))


class Scripted(ez.EntityEnv):
    """Returns the observations, and then the steps, that it was given; remembers the actions that it got."""

    def __init__(self, space: ez.EntitySpace, observation: Any, steps: Any = ()) -> None:
        self.observation_space = space
        self.action_space = space.actions
        self.first = observation
        self.steps = list(steps)
        self.received: list[dict[str, Any]] = []

    def _reset(self, options: dict[str, Any]) -> Any:
        self.options = options
        return self.first

    def _step(self, actions: dict[str, Any]) -> Any:
        self.received.append(actions)
        return self.steps.pop(0) if self.steps else (self.first, 0.0, False, False, {})


@pytest.fixture
def scripted() -> Callable[..., Scripted]:
    return Scripted


@pytest.fixture
def same_data() -> Callable[[Any, Any], bool]:
    """Whether two nests of dicts and arrays are equal, dtypes and shapes included."""

    def same(one: Any, other: Any) -> bool:
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
        return one.dtype == other.dtype and one.shape == other.shape and bool(np.array_equal(one, other))

    return same
