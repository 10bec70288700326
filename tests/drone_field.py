"""An environment with every kind of action, in numbers of actors that vary."""

from __future__ import annotations

from typing import Any

import numpy as np
from entitize import (
    Categorical,
    Continuous,
    EntityActionSpace,
    EntityEnv,
    EntitySpace,
    GlobalCategorical,
    GlobalContinuous,
    Observation,
    SelectEntity,
)
from entitize.envs import (
    CategoricalMask,
    ContinuousMask,
    GlobalCategoricalMask,
    GlobalContinuousMask,
    SelectEntityMask,
)

ACTIONS = EntityActionSpace(
    {
        "move": Categorical(["stay", "left", "right"]),
        "mine": SelectEntity(),
        "push": Continuous([-1, 0], [1, 2]),
        "horn": GlobalCategorical(["off", "on"]),
        "wind": GlobalContinuous(-2, 2),
    }
)


class Field(EntityEnv):
    """Drones and minerals in numbers that vary, and every kind of action; it remembers what it was told."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012

    def __init__(self, actions: list[str] | None = None, render_mode: str | None = None) -> None:
        names = list(ACTIONS) if actions is None else actions
        self.render_mode = render_mode
        self.action_space = EntityActionSpace({name: ACTIONS[name] for name in names})
        self.observation_space = EntitySpace(
            {"Drone": ["x", "y"], "Mineral": ["x", "y", "ore"]}, self.action_space, ["time"], hidden=True
        )
        self.told: list[dict[str, Any]] = []

    def _reset(self, options: dict[str, Any]) -> Observation:
        self.steps = 0
        return self._look()

    def _step(self, actions: dict[str, Any]) -> Any:
        self.told.append(actions)
        self.steps += 1
        return self._look(), 1.0, self.steps == 20, False, {"steps": self.steps}

    def render(self) -> Any:
        return np.zeros((4, 4, 3), np.uint8)

    def _look(self) -> Observation:
        drones, minerals = (int(n) for n in self.np_random.integers(0, 6, 2))
        ids = {"Drone": [f"d{i}" for i in range(drones)], "Mineral": [f"m{i}" for i in range(minerals)]}
        legal = np.arange(3) >= np.arange(drones)[:, None] % 3
        masks: dict[str, Any] = {
            "move": CategoricalMask(ids["Drone"][1:], mask=legal[1:]),
            "mine": SelectEntityMask(actor_ids=ids["Drone"][:2], actee_types=["Mineral"]),
            "push": ContinuousMask(actor_types=["Drone"]),
            "horn": GlobalCategoricalMask([self.steps % 2 == 0, True]),
            "wind": GlobalContinuousMask(),
        }
        if not minerals:
            del masks["mine"]
        if self.steps % 3 == 2:
            del masks["horn"]
        return Observation(
            {
                "Drone": self.np_random.normal(size=(drones, 2)),
                "Mineral": self.np_random.normal(size=(minerals, 3)),
            },
            globals=[self.steps],
            actions={name: mask for name, mask in masks.items() if name in self.action_space.spaces},
            ids=ids,
            visible={"Drone": np.arange(drones) > 0},
        )
