"""`to_pettingzoo`: games of entities behind PettingZoo's two interfaces."""

import pickle
import subprocess
import sys
import warnings
from functools import partial
from types import SimpleNamespace
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils import parallel_to_aec

from facts import raises

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PettingZoo's tests import a game in the old way
    from pettingzoo.test import (
        api_test,
        max_cycles_test,
        parallel_api_test,
        parallel_seed_test,
        render_test,
        seed_test,
    )

ROBOT = ez.EntityActionSpace({"move": ez.Categorical(["stay", "left", "right"]), "aim": ez.SelectEntity()})
SCOUT = ez.EntityActionSpace(
    {"thrust": ez.Continuous([-1, 0], [1, 2]), "horn": ez.GlobalCategorical(["off", "on"])}
)
NO_OP = ez.EntityActionSpace(dict(ROBOT.items()), optional=True)
SPACES = {
    "robot": ez.EntitySpace({"Robot": ["x", "me"], "Scout": ["x", "y"]}, ROBOT, ["time"]),
    "scout": ez.EntitySpace({"Scout": ["x", "y"]}, SCOUT, hidden=True),
}
PATIENT = ez.EntitySpace(SPACES["robot"].entities, NO_OP, ["time"])


class Arena(ez.pettingzoo.MultiAgentEnv):
    """Two kinds of agents who see different things and do different things, and die at random.

    A robot sees itself, some other robots and the scouts; who is alone aims at nobody. After `length` steps
    those who are left are truncated. It remembers what it was told.
    """

    metadata = {"name": "arena_v0", "render_modes": ["rgb_array", "ansi", "human"], "render_fps": 5}  # noqa: RUF012

    def __init__(
        self, kinds: str = "rrss", length: int = 12, danger: float = 0.15, render_mode: str | None = None
    ) -> None:
        names = {"r": "robot", "s": "scout"}
        self.possible_agents = [f"{names[kind]}_{i}" for i, kind in enumerate(kinds)]
        self.agents: list[str] = []
        self.render_mode = render_mode
        self.length, self.danger = length, danger
        self.rng = np.random.default_rng()
        self.told: list[Any] = []

    def observation_space(self, agent: str) -> ez.EntitySpace:
        return SPACES[agent.split("_")[0]]

    def action_space(self, agent: str) -> ez.EntityActionSpace:
        return self.observation_space(agent).actions

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents, self.time = list(self.possible_agents), 0
        return {a: self.look(a) for a in self.agents}, {a: {"time": 0} for a in self.agents}

    def step(self, actions: Any) -> Any:
        if not self.agents:
            raise gymnasium.error.ResetNeeded("Arena: call reset()")
        self.told.append(actions)
        self.time += 1
        acted = self.agents
        dead = {a: bool(self.rng.random() < self.danger) for a in acted}
        over = {a: self.time >= self.length and not dead[a] for a in acted}
        seen = {a: self.look(a) for a in acted}
        rewards = {a: float(sum(np.sum(order) for order in actions.get(a, {}).values())) for a in acted}
        self.agents = [a for a in acted if not dead[a] and not over[a]]
        return seen, rewards, dead, over, {a: {"time": self.time} for a in acted}

    def render(self) -> Any:
        return {"rgb_array": np.zeros((4, 5, 3), np.uint8), "ansi": str(self.agents)}.get(self.render_mode)  # type: ignore[arg-type]

    def look(self, agent: str) -> dict[str, Any]:
        rng = self.rng
        scouts = rng.random((rng.integers(1, 5), 2), np.float32)
        if agent.startswith("scout"):
            actors = np.arange(len(scouts))[:1]
            shown = (rng.random(len(scouts)) < 0.5).astype(np.int8)
            shown[0] = 1
            horn = np.array([[1, self.time % 2]], np.int8)[: int(rng.integers(2))]
            masks = {"thrust": {"actors": actors, "mask": np.zeros((1, 0), np.int8)}, "horn": {"mask": horn}}
            return {"entities": {"Scout": scouts}, "visible": {"Scout": shown}, "actions": masks}
        robots = rng.random((rng.integers(1, 4), 2), np.float32)
        barred = np.ones((1, 3), np.int8)
        barred[0, rng.integers(3)] = 0
        actees = len(robots) + np.arange(len(scouts))
        pairs = np.ones(len(scouts), np.int8)
        pairs[0] = len(scouts) == 1
        return {
            "entities": {"Robot": robots, "Scout": scouts},
            "globals": np.array([self.time], np.float32),
            "actions": {
                "move": {"actors": np.zeros(1, np.int64), "mask": barred},
                "aim": {"actors": np.zeros(1, np.int64), "actees": actees, "mask": pairs},
            },
        }


#: Layout -> its options, and the kinds of agents it can be asked for.
LAYOUTS: dict[str, dict[str, Any]] = {
    "ragged": {},
    "padded": {"maxima": {"Robot": 2, "Scout": 3}, "beyond": "drop", "max_actors": {"move": 1, "aim": 2}},
    "flat": {"maxima": 4},
}

#: PettingZoo's tests sample without masks, which the fixed layouts refuse by default.
UNMASKED: dict[str, dict[str, Any]] = {
    "ragged": {},
    "padded": {"illegal": "replace"},
    "flat": {"illegal": "replace"},
}


def made(api: str, layout: str = "ragged", kinds: str = "rrss", **options: Any) -> Any:
    if layout == "flat":
        kinds = kinds.replace("s", "r")  # a scout's actions are choices and numbers, which flat can't hold
    game = {name: options.pop(name) for name in ("length", "danger", "render_mode") if name in options}
    return ez.to_pettingzoo(Arena(kinds, **game), api, layout, **{**LAYOUTS[layout], **options})  # type: ignore[call-overload]


@pytest.fixture(autouse=True)
def _advice() -> Any:
    """PettingZoo's tests advise by warnings: that observations are no arrays, that agents differ, …"""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"pettingzoo\.test")
        yield


def sampled(env: Any) -> dict[str, Any]:
    """An action for every agent in play; legal ones in the ragged layout."""
    return {agent: env.action_space(agent).sample() for agent in env.agents}


each_layout = pytest.mark.parametrize("layout", LAYOUTS)


@each_layout
def test_pettingzoos_own_tests_pass(layout: str) -> None:
    build = partial(made, layout=layout, **UNMASKED[layout])
    parallel_api_test(build("parallel"), num_cycles=60)
    api_test(build("aec"), num_cycles=60)
    parallel_seed_test(partial(build, "parallel"), num_cycles=20)
    seed_test(partial(build, "aec"), num_cycles=20)


@each_layout
def test_max_cycles_and_rendering_are_pettingzoos(layout: str) -> None:
    build = partial(made, layout=layout, danger=0.0, length=100, **UNMASKED[layout])
    max_cycles_test(SimpleNamespace(parallel_env=partial(build, "parallel"), env=partial(build, "aec")))
    render_test(partial(made, "aec", layout, **UNMASKED[layout]))


def test_a_window_that_pettingzoos_test_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    render_test(
        lambda render_mode: ez.to_pettingzoo(ez.games.MultiSnakeAgents(render_mode=render_mode), "aec")
    )


@each_layout
def test_a_finished_game_steps_without_actions(layout: str) -> None:
    """As PettingZoo's own games: SuperSuit's `black_death_v3` steps once more after the last agent's end."""
    env = made("parallel", layout, length=3, **UNMASKED[layout])
    with raises(gymnasium.error.ResetNeeded, "reset()"):
        env.step({})
    seen, _ = env.reset(seed=0)
    while env.agents:
        spaces = {agent: env.action_space(agent) for agent in env.agents}
        masks = {agent: {"mask": seen[agent]} if layout == "ragged" else {} for agent in env.agents}
        seen, *_ = env.step({agent: space.sample(**masks[agent]) for agent, space in spaces.items()})
    assert env.step({}) == ({}, {}, {}, {}, {})
    with raises(gymnasium.error.ResetNeeded, "reset()"):
        env.step({"robot_0": None})
    assert env.reset(seed=0)[0]


@each_layout
def test_spaces_are_the_same_objects_and_hold_what_is_seen(layout: str) -> None:
    env = made("parallel", layout, **UNMASKED[layout])
    assert isinstance(env, ParallelEnv)
    for agent in env.possible_agents:
        assert env.observation_space(agent) is env.observation_space(agent)
        assert env.action_space(agent) is env.action_space(agent)
        env.action_space(agent).seed(3)
    for episode in range(4):
        seen, _ = env.reset(seed=episode)
        while env.agents:
            acted = env.agents
            seen, rewards, dead, over, infos = env.step(sampled(env))
            assert all(env.observation_space(a).contains(seen[a]) for a in acted)
            assert all(list(part) == acted for part in (seen, rewards, dead, over, infos))
            assert env.agents == [a for a in acted if not dead[a] and not over[a]]


def test_the_ragged_face_shows_the_game_as_it_is() -> None:
    env, game = made("parallel"), Arena()
    assert env.observation_space("robot_0") is SPACES["robot"]
    assert env.action_space("scout_3") == SCOUT
    assert data_equivalence(env.reset(seed=5), game.reset(seed=5))
    while game.agents:
        seen = {a: game.look(a) for a in game.agents}  # draws, so the other game draws too
        assert data_equivalence(seen, {a: env.game.look(a) for a in env.agents})
        actions = sampled(env)
        assert data_equivalence(env.step(actions), game.step(actions))
    assert env.agents == []


@each_layout
def test_taking_turns_gives_the_same_game_as_acting_at_once(layout: str) -> None:
    """PettingZoo's own conversion is the reference."""
    build = partial(made, layout=layout, **UNMASKED[layout])
    env, reference = build("aec"), parallel_to_aec(build("parallel"))
    assert isinstance(env, AECEnv)
    ends = 0
    for episode in range(6):
        for each in (env, reference):
            each.reset(seed=episode)
        for agent in env.possible_agents:
            env.action_space(agent).seed(episode)
        while reference.agents:
            assert set(env.agents) == set(reference.agents)
            agent = env.agent_selection
            assert agent == reference.agent_selection
            (seen, reward, *rest), (expected, *others) = env.last(), reference.last()
            assert data_equivalence((seen, *rest), (expected, *others[1:]))
            assert reward == others[0]
            assert env.rewards == reference.rewards
            done = env.terminations[agent] or env.truncations[agent]
            ends += done
            action = None if done else env.action_space(agent).sample()
            env.step(action)
            reference.step(action)
        assert env.agents == []
    assert ends >= 6 * 4
    with raises(gymnasium.error.ResetNeeded, "arena_v0", "reset()"):
        env.step(None)


def test_legal_samples_reach_the_game_and_actions_that_are_left_out_are_refused() -> None:
    env = made("parallel")
    seen, _ = env.reset(seed=1)
    actions = {a: env.action_space(a).sample(mask=seen[a]) for a in env.agents}
    aims_only = {"aim": actions["robot_0"]["aim"]}
    for left_out in ({a: actions[a] for a in env.agents[1:]}, {**actions, "robot_0": None}):
        with raises(ez.ActionError, "arena_v0", "agent 'robot_0'", "'move'", 1):
            env.step(left_out)
    assert env.game.told == []
    env.step(actions)
    assert data_equivalence(env.game.told[-1], actions)
    turns = made("aec")
    turns.reset(seed=1)
    for left_out in (None, {}, aims_only):
        with raises(ez.ActionError, "arena_v0", "agent 'robot_0'", "'move'", 1):
            turns.step(left_out)
    turns.step(turns.action_space("robot_0").sample())
    assert turns.agent_selection == "robot_1"


@pytest.mark.parametrize("layout", ["padded", "flat"])
def test_an_agent_without_an_action_is_refused_in_the_fixed_layouts_too(layout: str) -> None:
    env = made("parallel", layout, **UNMASKED[layout])
    env.reset(seed=1)
    actions = sampled(env)
    with raises(ez.ActionError, "arena_v0", "agent 'robot_1'", "'move'", 1):
        env.step({agent: action for agent, action in actions.items() if agent != "robot_1"})
    assert env.game.told == []
    env.step(actions)


def test_agents_with_a_no_op_may_be_left_out() -> None:
    class Patient(Arena):
        def observation_space(self, agent: str) -> ez.EntitySpace:
            return PATIENT

    env = ez.to_pettingzoo(Patient("rr"))
    env.reset(seed=1)
    env.step({"robot_0": None})
    assert env.game.told == [{}]


def test_padded_choices_become_orders_and_forbidden_ones_are_counted() -> None:
    env = made("parallel", "padded", kinds="rr", illegal="replace")
    seen, _ = env.reset(seed=2)
    barred = seen["robot_0"]["actions/move/mask"][0].argmin()
    action = {"move": np.array([barred]), "aim": np.array([0, 0])}
    *_, infos = env.step({"robot_0": action, "robot_1": action})
    assert infos["robot_0"]["illegal_choices"] >= 1
    assert "illegal_choices" in infos["robot_1"]
    assert set(infos["robot_1"]["dropped"]) == {"Robot", "Scout"}
    told = env.game.told[-1]["robot_0"]
    assert told["move"].tolist() == [0 if barred else 1]
    strict = made("parallel", "padded", kinds="rr")
    seen, _ = strict.reset(seed=2)
    with raises(ez.ActionError, "arena_v0", "agent 'robot_0'", "action 'move'", "not allowed"):
        strict.step({"robot_0": action, "robot_1": action})
    assert strict.game.told == []
    legal = {
        agent: {name: look[f"actions/{name}/mask"].argmax(1) for name in ("move", "aim")}
        for agent, look in seen.items()
    }
    strict.step(legal)  # it goes on


def test_flat_masks_are_where_pettingzoo_looks_for_them() -> None:
    env = made("parallel", "flat", kinds="rr")
    _, infos = env.reset(seed=4)
    for _ in range(30):
        if not env.agents:
            _, infos = env.reset()
        actions = {a: env.action_space(a).sample(infos[a]["action_mask"]) for a in env.agents}
        *_, infos = env.step(actions)
        assert all(info["illegal_choices"] == 0 for info in infos.values())

    class Choosers(Arena):
        def observation_space(self, agent: str) -> ez.EntitySpace:
            return ez.EntitySpace({"Robot": ["x"]}, ez.EntityActionSpace({"go": ez.GlobalCategorical(3)}))

        def look(self, agent: str) -> dict[str, Any]:
            robots = self.rng.random((2, 1), np.float32)
            return {
                "entities": {"Robot": robots},
                "actions": {"go": {"mask": np.array([[0, 1, 0]], np.int8)}},
            }

    one = ez.to_pettingzoo(Choosers("r"), layout="flat", maxima=2)
    _, infos = one.reset(seed=1)
    assert one.action_space("robot_0") == gymnasium.spaces.Discrete(3)
    assert infos["robot_0"]["action_mask"].tolist() == [0, 1, 0]


def test_an_entity_environment_is_a_game_of_one() -> None:
    env, alone = (
        ez.to_pettingzoo(gymnasium.make("entitize/MineSweeper-v0")),
        gymnasium.make("entitize/MineSweeper-v0"),
    )
    assert env.possible_agents == ["agent_0"]
    seen, _ = env.reset(seed=3)
    expected, _ = alone.reset(seed=3)
    for _ in range(30):
        assert data_equivalence(seen["agent_0"], expected)
        if not env.agents:
            (seen, _), (expected, _) = env.reset(), alone.reset()
        action = alone.action_space.sample(mask=expected)
        seen, rewards, dead, over, _ = env.step({"agent_0": action})
        expected, *rest, _ = alone.step(action)
        assert [rewards["agent_0"], dead["agent_0"], over["agent_0"]] == rest
    parallel_api_test(env, 30)
    api_test(ez.to_pettingzoo(gymnasium.make("entitize/Xor-v0"), "aec"), 30)


@each_layout
def test_faces_can_be_pickled_and_named(layout: str) -> None:
    env = made("aec", layout, **UNMASKED[layout])
    env.reset(seed=1)
    other = pickle.loads(pickle.dumps(env))
    assert str(env) == str(other) == env.metadata["name"] == "arena_v0"
    assert env.metadata["is_parallelizable"]
    for _ in range(3):
        assert data_equivalence(env.last()[0], other.last()[0])
        action = env.action_space(env.agent_selection).sample()
        env.step(action)
        other.step(action)


# -- what goes wrong -----------------------------------------------------------------------------------------


def test_acting_after_death_or_under_a_wrong_name_is_refused_and_the_game_goes_on() -> None:
    env = made("parallel")
    env.reset(seed=0)
    while len(env.agents) == 4:
        env.step(sampled(env))
    dead = next(a for a in env.possible_agents if a not in env.agents)
    with raises(ez.ActionError, "arena_v0", f"agent '{dead}'", "ended"):
        env.step({dead: {}})
    with raises(ez.ActionError, "arena_v0", "agent 'robot_9'", "robot_0, robot_1, scout_2"):
        env.step({"robot_9": {}})
    with raises(ez.ActionError, "arena_v0", f"agent '{env.agents[0]}'", "dict", "int"):
        env.step({env.agents[0]: 3})
    with raises(ez.ActionError, "dict", "list"):
        env.step([])
    with raises(ez.ActionError, "agent 'x'"):
        env.observation_space("x")
    steps = len(env.game.told)
    env.step(sampled(env))
    assert len(env.game.told) == steps + 1


@pytest.mark.parametrize(
    ("layout", "action", "facts"),
    [
        ("ragged", {"move": [7]}, ["action 'move'", 7]),
        ("ragged", {"move": [0, 0]}, ["action 'move'", 1, "choice"]),
        ("ragged", {"fly": [0]}, ["unknown", "action 'fly'"]),
        ("padded", {"move": [0]}, ["Dict"]),
    ],
)
def test_in_turns_an_illegal_action_is_told_to_who_made_it(
    layout: str, action: Any, facts: list[object]
) -> None:
    env = made("aec", layout, kinds="rr")
    env.reset(seed=0)
    with raises(ez.ActionError, "arena_v0", "agent 'robot_0'", *facts):
        env.step(action)
    assert env.agent_selection == "robot_0"
    env.step(env.action_space("robot_0").sample())
    assert env.agent_selection == "robot_1"
    with raises(ez.ActionError, "agent 'nobody'"):
        env.observe("nobody")


def test_in_turns_a_dead_agent_is_stepped_with_none_only() -> None:
    env = made("aec")
    env.reset(seed=0)
    for agent in env.agent_iter():
        if env.terminations[agent]:
            with raises(ez.ActionError, "arena_v0", f"agent '{agent}'", "ended", None):
                env.step({})
            break
        env.step(env.action_space(agent).sample())
    env.step(None)
    assert agent not in env.agents


def test_steps_need_a_reset() -> None:
    for api in ("parallel", "aec"):
        env = made(api)
        with raises(gymnasium.error.ResetNeeded, "arena_v0", "reset()"):
            env.step({})


BROKEN: dict[str, tuple[Any, list[object]]] = {
    "twice": (lambda g, p: setattr(g, "agents", ["robot_0", "robot_0"]), ["agent 'robot_0'", "twice"]),
    "revived": (
        lambda g, p: setattr(g, "agents", ["robot_7"]),
        ["agent 'robot_7'"],
    ),
    "missing": (lambda g, p: p[1].pop("robot_1"), ["agent 'robot_1'", "reward"]),
    "extra": (lambda g, p: p[0].update(ghost_0={}), ["agent 'ghost_0'", "observation"]),
    "endless": (lambda g, p: p[2].update(robot_0=True), ["agent 'robot_0'", "after"]),
    "vanished": (lambda g, p: g.agents.remove("robot_0"), ["agent 'robot_0'", "without"]),
    "nan": (lambda g, p: p[1].update(robot_0=np.nan), ["agent 'robot_0'", "reward", "nan"]),
    "unrewarded": (lambda g, p: p[1].update(robot_0=None), ["agent 'robot_0'", "reward", "None"]),
    "blind": (lambda g, p: p[0].update(robot_0=None), ["agent 'robot_0'", "observation", "None"]),
    "partly blind": (lambda g, p: p[0].update(robot_0={}), ["agent 'robot_0'", "observation", "'actions'"]),
    "uninformed": (lambda g, p: p[4].update(robot_0=None), ["agent 'robot_0'", "info", "None"]),
    "four": (lambda g, p: p.pop(), ["step", 5, 4]),
    "no infos": (lambda g, p: p.__setitem__(4, None), ["step", "info", "dict", "None"]),
    "one flag": (lambda g, p: p.__setitem__(2, False), ["step", "termination", "dict", "False"]),
}


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("layout", [{}, {"layout": "flat", "maxima": 9, "illegal": "replace"}])
def test_a_game_that_breaks_the_rules_is_told_so(how: str, layout: dict[str, Any]) -> None:
    breakage, facts = BROKEN[how]

    class Broken(Arena):
        def step(self, actions: Any) -> Any:
            parts = list(super().step(actions))
            breakage(self, parts)
            return tuple(parts)

    env = ez.to_pettingzoo(Broken("rr", danger=0.0), **layout)
    env.reset(seed=0)
    with raises(ez.ObservationError, "arena_v0", *facts):
        env.step(sampled(env))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step({})
    env.reset(seed=0)
    assert env.agents == ["robot_0", "robot_1"]


def test_an_exception_of_the_game_says_where_it_came_from() -> None:
    class Crash(Arena):
        def step(self, actions: Any) -> Any:
            raise ZeroDivisionError("out of ammunition")

    env = ez.to_pettingzoo(Crash())
    env.reset(seed=0)
    with pytest.raises(ZeroDivisionError) as caught:
        env.step(sampled(env))
    assert caught.value.__notes__ == ["raised by arena_v0 in step, behind to_pettingzoo"]
    assert env.agents == []


def test_too_many_entities_name_the_agent() -> None:
    env = ez.to_pettingzoo(Arena("rr"), layout="padded", maxima=1)
    with raises(ez.ObservationError, "arena_v0", "agent 'robot_", "entities of type '"):
        for seed in range(20):
            env.reset(seed=seed)


@pytest.mark.parametrize(
    ("options", "error", "facts"),
    [
        ({"api": "serial"}, ValueError, ["api", "'parallel'", "'aec'", "'serial'"]),
        ({"layout": "round"}, ValueError, ["layout", "'ragged', 'padded'", "'flat'", "'round'"]),
        ({"maxima": 3}, ValueError, ["maxima", "padded", "flat"]),
        ({"illegal": "replace"}, ValueError, ["illegal", "padded", "flat"]),
        ({"max_cycles": 0}, ValueError, ["max_cycles", 1, 0]),
        ({"layout": "padded"}, ValueError, ["Arena", "agent 'robot_0'", "maxima="]),
        ({"layout": "padded", "maxima": {"Robot": 1, "Cat": 2}}, ValueError, ["maxima", "'Cat'"]),
        (
            {"layout": "padded", "maxima": {"Robot": 1}},
            ValueError,
            ["agent 'robot_0'", "maxima"],
        ),
        ({"layout": "flat", "maxima": 4}, ValueError, ["Arena", "agent 'scout_2'"]),
    ],
)
def test_options_that_do_not_fit_are_told(options: dict[str, Any], error: type, facts: list[object]) -> None:
    with raises(error, *facts):
        ez.to_pettingzoo(Arena(), **options)


def test_only_games_of_entities_are_taken() -> None:
    with raises(TypeError, "MultiAgentEnv", "CartPole"):
        ez.to_pettingzoo(gymnasium.make("CartPole-v1"))
    twins = Arena("rr")
    twins.possible_agents = ["robot_0", "robot_0"]
    with raises(ValueError, "Arena", "agent 'robot_0'", "twice", "possible_agents"):
        ez.to_pettingzoo(twins)
    twins.possible_agents = []
    with raises(ValueError, "Arena", "possible_agents"):
        ez.to_pettingzoo(twins)


def test_without_pettingzoo_the_extra_is_named() -> None:
    program = "import sys; sys.modules['pettingzoo'] = None; import entitize; entitize.to_pettingzoo"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (
        "ImportError: to_pettingzoo: PettingZoo is not installed: pip install 'entitize[pettingzoo]'"
        in result.stderr
    )
