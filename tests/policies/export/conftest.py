"""A space with all kinds of actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from entitize.envs import (
    Categorical,
    Continuous,
    EntityActionSpace,
    EntitySpace,
    GlobalCategorical,
    GlobalContinuous,
    MultiCategorical,
    SelectEntity,
)

FEATURES = {
    "Player": ("x", "y", "cos", "sin", "angle", "health"),
    "Enemy": ("y", "x", "angle", "cos", "sin", "kind"),
    "Food": ("x", "y"),
    "Wall": (),
    "a/b.c%": ("joy",),
}
ORDER = MultiCategorical(
    {"kind": ["wait", "move", "build"], "where": 4, "what": 3},
    uses={"move": ["where"], "build": ["where", "what"]},
)


@pytest.fixture
def make_space() -> Callable[..., EntitySpace]:
    def make(with_globals: bool = True, hidden: bool = False) -> EntitySpace:
        actions: dict[str, Any] = {
            "move": Categorical(["up", "down", "left", "right"]),
            "fire": SelectEntity(),
            "order": ORDER,
            "steer": Continuous([-1.0, 2.0], [1.0, 7.0]),
        }
        if with_globals:
            actions |= {"mode": GlobalCategorical(3), "speed": GlobalContinuous(-3.0, 0.5)}
        names = ("time", "score") if with_globals else ()
        return EntitySpace(FEATURES, EntityActionSpace(actions), names, hidden)

    return make
