"""Action masks inside observations, of composite actions, and views of what is no mask."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
from gymnasium import spaces
from mpe2 import simple_speaker_listener_v4
from pettingzoo import ParallelEnv

from facts import raises


class Masked(ParallelEnv[str, Any, Any]):
    """Observations with masks, of a composite action; an agent that may do nothing must still be stepped."""

    metadata = {"name": "masked_v0", "render_modes": []}  # noqa: RUF012 - PettingZoo's form
    render_mode = None
    possible_agents = ["dog_0", "dog_1"]  # noqa: RUF012 - PettingZoo's form

    def __init__(self) -> None:
        space = spaces.Dict({"observation": spaces.Box(0, 1, (2,)), "action_mask": spaces.MultiBinary(5)})
        self.space, self.actions = space, spaces.MultiDiscrete([2, 3])
        self.masks = {"dog_0": [0, 1, 1, 0, 1], "dog_1": [0, 0, 0, 0, 0]}
        self.told: Any = None

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.space

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self.actions

    def seen(self) -> dict[str, Any]:
        return {
            agent: {"observation": np.float32([0, 1]), "action_mask": np.int8(self.masks[agent])}
            for agent in self.agents
        }

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.agents = list(self.possible_agents)
        return self.seen(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        self.told = {agent: action.tolist() for agent, action in actions.items()}
        no = dict.fromkeys(self.agents, False)
        return self.seen(), dict.fromkeys(self.agents, 0.0), no, no, {agent: {} for agent in self.agents}


def test_masks_of_composite_actions_are_read_and_who_may_do_nothing_is_idle() -> None:
    game = Masked()
    venv = ez.from_pettingzoo(game)
    batch, info = venv.reset(seed=0)
    assert list(venv.single_observation_space.entities) == ["observation"]
    assert info["inactive"].tolist() == [False, True]
    assert batch.actions["action_0"].mask.values.tolist() == [[False, True]]
    assert batch.actions["action_1"].mask.values.tolist() == [[True, False, True]]
    with raises(ez.ActionError, "lane 0", "'dog_0'", "action 'action_1'", 1):
        venv.step({"action_0": batch.actions["action_0"].actors.with_values(np.array([1]))})
    assert game.told is None
    chosen = {"action_0": 1, "action_1": 2}
    venv.step({n: batch.actions[n].actors.with_values(np.array([c])) for n, c in chosen.items()})
    assert game.told == {"dog_0": [1, 2], "dog_1": [0, 0]}
    dogs = Masked()
    team = ez.from_pettingzoo(dogs, "team")
    seen, _ = team.reset(seed=0)
    assert seen["actions"]["action_1"]["actors"].tolist() == [0]
    assert seen["actions"]["action_1"]["mask"].tolist() == [[1, 0, 1]]
    with raises(ez.ActionError, "action 'action_0'", "'dog_0'", 1):
        team.step({"action_1": [2]})
    team.step({"action_0": [1], "action_1": [2]})
    assert dogs.told == {"dog_0": [1, 2], "dog_1": [0, 0]}


def test_an_observation_without_its_parts_is_told() -> None:
    game = Masked()
    venv = ez.from_pettingzoo(game)
    batch, _ = venv.reset(seed=0)
    venv.action_space.seed(0)
    game.seen = lambda: {agent: {"mask": 1} for agent in game.agents}  # type: ignore[method-assign]
    with raises(ez.ObservationError, "'dog_0'", "observation", "'observation'"):
        venv.step(venv.action_space.sample(mask=batch))


def test_a_mask_that_is_missing_is_told() -> None:
    game = Masked()
    venv = ez.from_pettingzoo(game, view=ez.views.Vector(name="Dog"))
    batch, _ = venv.reset(seed=0)
    venv.action_space.seed(0)
    maskless = {"observation": np.float32([0, 1])}
    game.seen = lambda: dict.fromkeys(game.agents, maskless)  # type: ignore[method-assign]
    with raises(ez.ObservationError, "game 0 (masked_v0)", "'dog_0'", "'action_mask'", "got ['observation']"):
        venv.step(venv.action_space.sample(mask=batch))


def test_views_see_the_part_of_an_observation_that_is_no_mask() -> None:
    venv = ez.from_pettingzoo(Masked(), view=ez.views.Vector(name="Dog", features=["left", "right"]))
    assert dict(venv.single_observation_space.entities) == {"Dog": ("left", "right")}
    speaker = ez.from_pettingzoo(simple_speaker_listener_v4.parallel_env(), view=ez.views.Vector(name="Bird"))
    assert list(speaker.single_observation_space.entities) == ["speaker", "listener"]
