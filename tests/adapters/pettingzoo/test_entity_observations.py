"""Games with entity observations in `from_pettingzoo`: pictures, and what is wrong in an observation."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest

from facts import raises

ACTIONS = ez.EntityActionSpace({"go": ez.GlobalCategorical(2)})


class Painters(ez.pettingzoo.MultiAgentEnv):
    """Two agents who see their number, and a picture of it where there is a size; `wrong` changes it."""

    metadata = {"name": "painters_v0", "render_modes": []}  # noqa: RUF012

    def __init__(self, frames: tuple[Any, Any] = (None, None), wrong: Any = None) -> None:
        self.possible_agents = ["a_0", "a_1"]
        self.agents: list[str] = []
        self.wrong = wrong
        self._spaces = {
            agent: ez.EntitySpace({"T": ["x"]}, ACTIONS, ["g"], frame=frame)
            for agent, frame in zip(self.possible_agents, frames, strict=True)
        }

    def observation_space(self, agent: str) -> ez.EntitySpace:
        return self._spaces[agent]

    def action_space(self, agent: str) -> ez.EntityActionSpace:
        return ACTIONS

    def _look(self) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for number, agent in enumerate(self.agents):
            part: dict[str, Any] = {
                "entities": {"T": np.full((1, 1), number, np.float32)},
                "globals": np.zeros(1, np.float32),
                "actions": {"go": {"mask": np.ones((1, 2), np.int8)}},
            }
            frame = self._spaces[agent].frame
            if frame is not None:
                part["frame"] = np.full(frame, number + 1, np.uint8)
            if self.wrong is not None:
                self.wrong(part)
            seen[agent] = part
        return seen

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents = list(self.possible_agents)
        return self._look(), {agent: {} for agent in self.agents}

    def step(self, actions: Any) -> Any:
        none = dict.fromkeys(self.agents, False)
        return self._look(), dict.fromkeys(self.agents, 0.0), none, none, {agent: {} for agent in self.agents}


@pytest.mark.parametrize("frames", [((4, 5, 3), (4, 5, 3)), ((4, 5, 3), None)])
def test_pictures_are_passed_on(frames: tuple[Any, Any]) -> None:
    with ez.from_pettingzoo(ez.to_pettingzoo(Painters(frames))) as venv:
        batch, _ = venv.reset(seed=1)
        assert venv.single_observation_space.frame == (4, 5, 3)
        assert batch.frames is not None
        shown = [np.unique(picture).tolist() for picture in batch.frames]
    assert shown == [[1], [2 if frames[1] else 0]]
    with raises(ez.views.ViewError, "frame", "(2, 2, 1)", "(4, 5, 3)"):
        ez.from_pettingzoo(ez.to_pettingzoo(Painters(((4, 5, 3), (2, 2, 1)))))


@pytest.mark.parametrize(
    ("wrong", "facts"),
    [
        (lambda part: part["entities"]["T"].fill(np.nan), ("'T'", "feature 'x'", "finite")),
        (lambda part: part["globals"].fill(np.nan), ("global feature 'g'", "finite")),
        (lambda part: part["actions"]["go"]["mask"].fill(0), ("'go'", "at least one allowed")),
    ],
)
def test_what_is_wrong_in_an_observation_is_named(wrong: Any, facts: tuple[str, ...]) -> None:
    with (
        ez.from_pettingzoo(ez.to_pettingzoo(Painters(wrong=wrong))) as venv,
        raises(ez.ObservationError, "game 0", "'a_0'", *facts),
    ):
        venv.reset(seed=1)


def test_a_seed_may_be_a_number_of_numpy() -> None:
    seen: list[Any] = []

    class Seeded(Painters):
        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            seen.append(seed)
            return super().reset(seed, options)

    with ez.from_pettingzoo(lambda: ez.to_pettingzoo(Seeded()), num_envs=2) as venv:
        venv.reset(seed=np.int64(3))
    assert seen[-2:] == [3, 4] and all(type(seed) is int for seed in seen[-2:])
