"""The fused engine steps aside where something changes that code of the user's reads, wherever it is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.envs import EntityActionSpace, EntitySpace

SPACE = EntitySpace({"Cat": ["x"]}, EntityActionSpace({"go": ez.GlobalCategorical(3)}))
GLOBAL = {"bonus": 0.0}


class Schedule:
    """An object of the user's."""

    def __init__(self) -> None:
        self.steps = [0.0, 1.0]


class Biased(ez.RogueNet):
    """Adds the sum of what it keeps to its values."""

    of_class = 0.0

    def __init__(self, *spaces: Any, **options: Any) -> None:
        super().__init__(*spaces, **options)
        self.config["bonus"] = 0.0
        self.nested = {"parts": [(0.0,), {"more": 0.0}]}
        self.array = np.zeros(3)
        self.schedule = Schedule()

    def predict(self, prepared: Any) -> Any:
        kept = self.config["bonus"] + self.nested["parts"][1]["more"] + self.array.sum()  # type: ignore[index]
        return super().predict(prepared) + kept + self.schedule.steps[0] + self.of_class + GLOBAL["bonus"]


CHANGES: dict[str, Callable[[Any, float], None]] = {
    "config": lambda net, value: net.config.update(bonus=value),
    "nested": lambda net, value: net.nested["parts"][1].update(more=value),
    "array": lambda net, value: net.array.__setitem__(1, value),
    "object": lambda net, value: net.schedule.steps.__setitem__(0, value),
    "class": lambda net, value: setattr(Biased, "of_class", value),
    "global": lambda net, value: GLOBAL.update(bonus=value),
}


@pytest.mark.parametrize("place", CHANGES)
def test_what_code_of_ones_own_reads_may_change(place: str) -> None:
    batch = ez.batch.batch_observations(SPACE, [SPACE.sample() for _ in range(4)])
    net = Biased(SPACE, SPACE.actions, d_model=8, n_layer=1)
    before = net.value(batch)
    assert net.engine.name == "fused"
    try:
        CHANGES[place](net, 5.0)
        np.testing.assert_allclose(net.value(batch), before + 5, rtol=1e-5)
        assert net.engine.name == "torch"
    finally:
        CHANGES[place](net, 0.0)
    np.testing.assert_allclose(net.value(batch), before, rtol=1e-5)
    assert net.engine.name == "fused"


def test_what_is_kept_may_be_large_and_refer_to_itself() -> None:
    class Keeping(Biased):
        def __init__(self, *spaces: Any, **options: Any) -> None:
            super().__init__(*spaces, **options)
            self.history = list(range(100_000))
            self.circle: dict[str, Any] = {"scores": np.zeros(100_000)}
            self.circle["itself"] = self.circle
            self.schedule.steps.append(self.schedule)  # type: ignore[arg-type]
            self.table = [[0.0] * 100 for _ in range(100)]

    net = Keeping(SPACE, SPACE.actions, d_model=8, n_layer=1)
    batch = ez.batch.batch_observations(SPACE, [SPACE.sample() for _ in range(4)])
    for _ in range(3):
        net.value(batch)
        assert net.engine.name == "fused"
