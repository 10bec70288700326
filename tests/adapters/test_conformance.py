"""`check_entity_env` over every adapter and every built-in game, and its sister over games of several agents.

Games are found by themselves: one that is registered is checked alone, in its own vector environment and in a
list; those of several agents wherever they are among the games. Each game is checked once for each way to
make it and each set of options: other files test what a game does.
"""

import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.adapters.pettingzoo.to_pettingzoo.checker import check_multi_agent_env
from entitize.envs import games
from entitize.envs.registration import _GAMES
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from facts import raises

views = ez.views
each_game = pytest.mark.parametrize("game", _GAMES)


def check(make: Callable[[], Any], steps: int = 25) -> None:
    env = make()
    try:
        ez.check_entity_env(env, steps)
    finally:
        env.close()


# -- built-in games ------------------------------------------------------------------------------------------


#: Games with the options under which they are checked, besides the defaults.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("CherryPick", {"num_cherries": 3}),
    ("Count", {"masked_choices": 1}),
    ("MaskedBandit", {"num_arms": 30}),
    ("MineSweeper", {"max_steps": 9, "cooldown_period": 1}),
    ("MineSweeper", {"max_steps": 6, "cooldown_period": 0, "render_mode": "rgb_array"}),
    ("MineSweeper", {"orbital_cannon": False}),
    ("Minefield", {"max_steps": 15, "width": 60.0, "render_mode": "rgb_array"}),
    ("MoveToOrigin", {"max_steps": 6}),
    ("MultiSnake", {"num_snakes": 1, "board_size": 3, "max_snake_length": 3, "max_steps": 8}),
    ("MultiSnake", {"num_snakes": 8, "max_steps": 12}),
    ("MultiSnake/lanes", {"num_snakes": 3, "board_size": 4, "max_snake_length": 3, "max_steps": 9}),
    ("PickMatchingBalls", {"max_balls": 5, "one_hot": True, "randomize": True}),
    ("RockPaperScissors", {"cheat": True}),
    ("TreasureHunt", {"max_steps": 7}),
    ("Xor", {"answer": "actor", "negate": True}),
]
GAMES = [*((game, {}) for game in _GAMES), *VARIANTS]
SINGLE = [(game, options) for game, options in GAMES if "/" not in game]
STEPS = 40


def name_of(case: Any) -> str:
    """The id of a parameter: a game, or its options."""
    return case if isinstance(case, str) else ",".join(f"{key}={value}" for key, value in case.items())


@pytest.mark.parametrize(("game", "options"), SINGLE, ids=name_of)
def test_a_game_keeps_the_rules(game: str, options: dict[str, Any]) -> None:
    """Defaults with Gymnasium's wrappers around them, variants without."""
    env = gymnasium.make(f"entitize/{game}-v0", **options)
    check(lambda: env.unwrapped if options else env, STEPS)


@pytest.mark.parametrize(("game", "options"), GAMES, ids=name_of)
def test_a_games_vector_environment_keeps_the_rules(game: str, options: dict[str, Any]) -> None:
    check(partial(ez.make_vec, game, num_envs=6 if "/" in game else 3, **options), STEPS)


@each_game
def test_gymnasium_makes_the_same_vector_environment(game: str) -> None:
    with ez.make_vec(game, 2) as ours, gymnasium.make_vec(f"entitize/{game}-v0", num_envs=2) as theirs:
        assert type(ours) is type(theirs)
        assert ours.single_observation_space == theirs.single_observation_space


@each_game
def test_a_game_in_a_list_keeps_the_rules(game: str) -> None:
    check(partial(ez.vector.ListVectorEnv, [partial(gymnasium.make, f"entitize/{game}-v0")] * 2))


@pytest.mark.parametrize("game", ["MineSweeper", "Xor"])
def test_games_in_processes_keep_the_rules(game: str) -> None:
    lanes = [partial(gymnasium.make, f"entitize/{game}-v0")] * 2
    check(partial(ez.vector.ProcessVectorEnv, lanes, num_workers=1), 10)


@pytest.mark.parametrize("module", [module.name for module in pkgutil.iter_modules(games.__path__)])
def test_a_modules_games_of_several_agents_keep_the_rules(module: str) -> None:
    found = importlib.import_module(f"{games.__name__}.{module}")
    for value in vars(found).values():
        if (
            inspect.isclass(value)
            and issubclass(value, ez.pettingzoo.MultiAgentEnv)
            and not inspect.isabstract(value)
        ):
            check_multi_agent_env(value, 25)


# -- adapters ------------------------------------------------------------------------------------------------


def positions(observation: Any) -> dict[str, Any]:
    return {"Cart": observation[None, :2], "Pole": observation[None, 2:]}


WRAPPED: dict[str, Callable[[], Any]] = {
    "auto": lambda: ez.wrap(gymnasium.make("CartPole-v1")),
    "names": lambda: ez.wrap(gymnasium.make("Taxi-v4")),
    "continuous": lambda: ez.wrap(gymnasium.make("Pendulum-v1")),
    "tuple": lambda: ez.wrap(gymnasium.make("Blackjack-v1")),
    "slices": lambda: ez.wrap(gymnasium.make("CartPole-v1"), views.Vector({"Cart": 2, "Pole": 2})),
    "function": lambda: ez.wrap(
        gymnasium.make("CartPole-v1"),
        views.Function(positions, {"Cart": ["x", "v"], "Pole": ["angle", "spin"]}),
    ),
    "time limit": lambda: gymnasium.wrappers.TimeLimit(ez.wrap(gymnasium.make("CliffWalking-v1")), 7),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_wrapped_environments_keep_the_rules(name: str) -> None:
    check(WRAPPED[name])


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_wrapped_vector_environments_keep_the_rules(mode: AutoresetMode) -> None:
    lanes = [partial(gymnasium.make, "CartPole-v1")] * 3
    check(lambda: ez.wrap_vec(SyncVectorEnv(lanes, autoreset_mode=mode)))


@pytest.mark.parametrize(
    ("layout", "game", "options"),
    [
        (
            "ragged",
            "Xor",
            {},
        ),  # MineSweeper's ragged face takes sequences, which wrap does not know as actions
        ("padded", "MineSweeper", {"maxima": 5}),
        ("flat", "MineSweeper", {"maxima": 5}),
    ],
)
def test_what_to_gymnasium_makes_keeps_the_rules_when_it_is_wrapped_again(
    layout: Any, game: str, options: Any
) -> None:
    check(lambda: ez.wrap(ez.to_gymnasium(gymnasium.make(f"entitize/{game}-v0"), layout, **options)), 8)


@pytest.mark.parametrize("game", ["bigfish", "bossfight", "coinrun", "starpilot"])
def test_procgen_keeps_the_rules(game: str) -> None:
    check(partial(gymnasium.make, f"entitize/Procgen-{game}-v0"), 60)
    check(partial(ez.make_vec, f"Procgen/{game}", num_envs=3), 60)


def test_ours_from_entity_gym_and_back_keeps_the_rules() -> None:
    pytest.importorskip("ragged_buffer", reason="entity_gym needs it, and no build is for Python 3.12")
    check(
        lambda: ez.from_entity_gym(
            lambda: ez.to_entity_gym(gymnasium.make("entitize/MineSweeper-v0"), seed=1)
        )
    )


# -- the checker for games of several agents -----------------------------------------------------------------


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
    check_multi_agent_env(Tag, 40)
    check_multi_agent_env(Tag(), 15, seed=3)


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
        check_multi_agent_env(broken, 10)


@pytest.fixture(autouse=True)
def _old_names() -> Iterator[None]:
    """Gymnasium says so of environments of which there is a newer version."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*out of date.*")
        yield
