"""The checker for games of several agents: what it accepts, and what it finds."""

from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest

from facts import raises


class Tag(ez.pettingzoo.MultiAgentEnv):
    """One runs, the others catch; who is caught is out, and the runner wins when it is late."""

    metadata = {"name": "tag_v0", "render_modes": []}  # noqa: RUF012
    possible_agents = ["runner_0", "catcher_0", "catcher_1"]  # noqa: RUF012
    catching = ez.EntityActionSpace({"catch": ez.SelectEntity()})
    running = ez.EntityActionSpace({"run": ez.Continuous([-1, -1], [1, 1])})
    seen = {  # noqa: RUF012
        "catcher": ez.EntitySpace({"Player": ["x", "y"]}, catching),
        "runner": ez.EntitySpace({"Player": ["x", "y"]}, running),
    }

    def __init__(self) -> None:
        self.agents: list[str] = []
        self.rng = np.random.default_rng()

    def observation_space(self, agent: str) -> ez.EntitySpace:
        return self.seen[agent.split("_")[0]]

    def action_space(self, agent: str) -> ez.EntityActionSpace:
        return self.observation_space(agent).actions

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents, self.time = list(self.possible_agents), 0
        return self.look(self.agents), {agent: {} for agent in self.agents}

    def look(self, agents: list[str]) -> dict[str, Any]:
        self.players = self.rng.random((3, 2), np.float32)
        me = np.zeros(1, np.int64)
        masks = {
            "catcher": {
                "catch": {"actors": me, "actees": np.array([1, 2]), "mask": np.array([0, 1], np.int8)}
            },
            "runner": {"run": {"actors": me, "mask": np.zeros((1, 0), np.int8)}},
        }
        return {
            a: {
                "entities": {"Player": self.players.copy()},
                "actions": {
                    name: {key: array.copy() for key, array in part.items()}
                    for name, part in masks[a.split("_")[0]].items()
                },
            }
            for a in agents
        }

    def step(self, actions: Any) -> Any:
        if not self.agents:
            raise gymnasium.error.ResetNeeded("Tag: call reset()")
        for agent in {**actions, **dict.fromkeys(self.agents)}:
            if agent not in self.agents:
                raise ez.ActionError(f"Tag: {agent!r} does not play")
            space, action = self.action_space(agent), actions.get(agent, {})
            if action.keys() != space.spaces.keys():
                raise ez.ActionError(f"Tag: {agent!r} must choose {list(space.spaces)}, got {action}")
            for name, order in action.items():
                if len(order) != 1 or not space[name].contains_choices(np.asarray(order)):
                    raise ez.ActionError(f"Tag: {agent!r} can't do {name!r}: {order}")
                if name == "catch" and order[0] != 2:
                    raise ez.ActionError("Tag: only the second can be caught")
        self.time += 1
        acted = self.agents
        out = {a: a != "runner_0" and bool(self.rng.random() < 0.2) for a in acted}
        late = dict.fromkeys(acted, self.time == 9)
        self.agents = [a for a in acted if not out[a] and not late[a]]
        return self.look(acted), dict.fromkeys(acted, 1.0), out, late, {a: {"time": self.time} for a in acted}


def test_games_of_several_agents_keep_the_rules() -> None:
    ez.pettingzoo.check_multi_agent_env(Tag, 40)
    ez.pettingzoo.check_multi_agent_env(Tag(), 15, seed=3)


def lazy(self: Any, agents: list[str]) -> dict[str, Any]:
    seen = Tag.look(self, agents)
    return {a: {**part, "entities": {"Player": self.players.astype(np.float64)}} for a, part in seen.items()}


def stale(self: Any, agents: list[str]) -> dict[str, Any]:
    seen = Tag.look(self, agents)
    for part in seen.values():
        part["entities"]["Player"] = self.seen_before
        self.seen_before += 1
    return seen


def forgetful(self: Any, actions: Any) -> Any:
    parts = Tag.step(self, actions)
    parts[1].pop("runner_0", None)
    return parts


def patient(self: Any, actions: Any) -> Any:
    """Runners who leave out their action stand still."""
    if "runner_0" in self.agents:
        actions = {**actions, "runner_0": {"run": [[0.0, 0.0]], **actions.get("runner_0", {})}}
    return Tag.step(self, actions)


@pytest.mark.parametrize(
    ("methods", "facts"),
    [
        (
            {"look": lazy},
            ["Broken", "reset", "agent 'runner_0'", "entity type 'Player'", "float32"],
        ),
        (
            {"look": stale, "seen_before": np.zeros((3, 2), np.float32)},
            ["Broken", "step", "arrays"],
        ),
        ({"step": forgetful}, ["tag_v0", "agent 'runner_0'", "reward"]),
        (
            {"step": patient},
            ["Broken", "agent 'runner_0'", "without action 'run'", "ActionError"],
        ),
        ({"possible_agents": ["catcher_0", "catcher_0"]}, ["Broken", "agent 'catcher_0'", "twice"]),
        (
            {"action_space": lambda self, agent: Tag.running},
            ["Broken", "agent 'catcher_0'", "observation space"],
        ),
        (
            dict.fromkeys(["observation_space", "action_space"], lambda self, agent: Tag.running),
            ["Broken", "agent 'runner_0'", "spaces"],
        ),
    ],
)
def test_what_a_game_of_several_agents_breaks_is_named(methods: dict[str, Any], facts: list[str]) -> None:
    broken = type("Broken", (Tag,), methods)
    with raises(ez.errors.ConformanceError, *facts):
        ez.pettingzoo.check_multi_agent_env(broken, 10)
