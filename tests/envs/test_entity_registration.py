"""Making environments by name, with Gymnasium and with `make_vec`."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.envs import register_games
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from facts import raises, warns

GAMES = [f"entitize/{name}-v0" for name in ez.games.GAMES]


def test_importing_the_package_registers_the_games_and_stays_light() -> None:
    program = (
        "import sys, entitize, gymnasium\n"
        f"assert all(game in gymnasium.registry for game in {GAMES})\n"
        "heavy = {'numba', 'llvmlite', 'torch', 'procgen', 'entitize.ragged'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "entitize.make_vec('Xor').reset()\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_registering_twice_is_silent() -> None:
    register_games()


def test_every_public_name_of_envs_can_be_had_and_is_public_where_it_says() -> None:
    from entitize import envs

    for name in envs.__all__:
        assert getattr(envs, name).__name__ == name
    assert set(envs.__all__) <= set(dir(envs))
    with raises(AttributeError, "'EntityEnvironment'"):
        _ = envs.EntityEnvironment


@pytest.mark.parametrize("env_id", GAMES)
def test_gymnasium_makes_a_working_environment(env_id: str) -> None:
    env = gymnasium.make(env_id)
    observation, _ = env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(20):
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample(mask=observation))  # type: ignore[arg-type]
        assert observation in env.observation_space
        if terminated or truncated:
            observation, _ = env.reset()
    spec = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())  # type: ignore[union-attr]
    again = gymnasium.make(spec)
    assert again.observation_space == env.observation_space
    env.close()


@pytest.mark.parametrize("env_id", GAMES)
def test_gymnasium_makes_a_vector_environment_of_ours(env_id: str) -> None:
    envs = gymnasium.make_vec(env_id, num_envs=3)
    assert isinstance(envs, ez.EntityVectorEnv)
    assert envs.num_envs == 3
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert envs.spec is not None
    assert envs.spec.id == env_id
    assert envs.spec.to_json()
    batch, _ = envs.reset(seed=0)
    envs.action_space.seed(0)
    envs.step(envs.action_space.sample(mask=batch))
    envs.close()
    envs.close()


def test_options_reach_the_environments() -> None:
    assert gymnasium.make("entitize/MineSweeper-v0", width=9).unwrapped.width == 9  # type: ignore[attr-defined]
    envs = ez.make_vec("MineSweeper", 2, nmines=3, orbital_cannon=False)
    assert envs.reset()[0].entities["Mine"].lengths.tolist() == [3, 3]
    gymnasium.register("test/Sweep-v1", entry_point=ez.games.MineSweeper)
    try:
        with ez.make_vec("test/Sweep-v1", 2, num_workers=1, width=9) as workers:
            assert isinstance(workers, ez.vector.ProcessVectorEnv)
    finally:
        del gymnasium.registry["test/Sweep-v1"]


def play(envs: Any) -> list[Any]:
    """The features of the first entities and the rewards, over a few steps with the same legal actions."""
    observation, _ = envs.reset(seed=2)
    seen: list[Any] = []
    for _ in range(4):
        seen.append([rows.tolist() for rows in observation["entities"]["Robot"]])
        actors = [len(part) for part in observation["actions"]["Move"]["actors"]]
        nobody = np.zeros(0, np.int64)
        actions = {
            "Fire Orbital Cannon": tuple(nobody for _ in actors),
            "Move": tuple(np.full(n, 4) for n in actors),
        }
        observation, rewards, *_ = envs.step(actions)
        seen.append(rewards.tolist())
    envs.close()
    return seen


def test_gymnasiums_own_vector_environments_take_our_environments() -> None:
    env_fns = [partial(gymnasium.make, "entitize:entitize/MineSweeper-v0")] * 2
    there = play(SyncVectorEnv(env_fns))
    # Shared memory has a fixed size, so Gymnasium's workers must pickle what is ragged.
    assert play(AsyncVectorEnv(env_fns, shared_memory=False, context="spawn")) == there
    batch, _ = ez.vector.ListVectorEnv([ez.games.MineSweeper] * 2).reset(seed=2)
    assert [rows.tolist() for rows in batch.entities["Robot"]] == there[0]


def sized(name: str, num_envs: int, **options: Any) -> ez.EntityVectorEnv:
    return ez.vector.ListVectorEnv([partial(ez.games.MineSweeper, width=len(name), **options)] * num_envs)


def no_entity_env(num_envs: int) -> Any:
    return "nonsense"


def test_namespaces_and_ids_have_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    import types

    module = types.ModuleType("arena_of_the_tests")
    module.sized, module.no_entity_env = sized, no_entity_env  # type: ignore[attr-defined]
    module.fixed = partial(sized, "eight888")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "arena_of_the_tests", module)
    ez.register_vec("Arena", "arena_of_the_tests:sized", names=["seven77", "nine99999"])
    ez.register_vec("Arena/eight", "arena_of_the_tests:fixed")
    ez.register_vec("Arena/odd", "arena_of_the_tests:no_entity_env")
    ez.register_vec("Open", "arena_of_the_tests:sized")
    module.one = lambda name, **options: ez.games.MineSweeper(width=len(name), **options)  # type: ignore[attr-defined]
    ez.register_vec("Both", "arena_of_the_tests:sized", env_entry_point="arena_of_the_tests:one")

    def width(env_id: str, **options: Any) -> int:
        envs = ez.make_vec(env_id, 2, **options)
        assert envs.num_envs == 2
        return envs.envs[0].width  # type: ignore[attr-defined, no-any-return]

    assert width("Arena/seven77") == 7
    assert width("Arena/eight", height=4) == 8
    assert width("Open/anything") == 8
    assert width("Both/five5") == 5
    assert ez.make("Both/five5", height=3).unwrapped.width == 5  # type: ignore[attr-defined]
    with raises(gymnasium.error.NameNotFound, "'Arena/sevn77'", "'Arena/seven77'"):
        ez.make_vec("Arena/sevn77")
    with raises(gymnasium.error.NameNotFound, "'opn/anything'", "'Open/anything'"):
        ez.make_vec("opn/anything")
    with raises(gymnasium.error.NameNotFound, "'qqqq'"):
        ez.make_vec("qqqq")
    with raises(TypeError, "Arena/odd", "'nonsense'", "vector environment"):
        ez.make_vec("Arena/odd")
    with raises(TypeError, "Arena/seven77", "make_vec"):
        ez.make("Arena/seven77")


@pytest.mark.parametrize(
    ("env_id", "suggestion"),
    [
        ("MineSweper", "MineSweeper"),
        ("entitize/MineSweeper-v9", "entitize/MineSweeper-v0"),
        ("entitize/Xro-v0", "entitize/Xor-v0"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(env_id: str, suggestion: str) -> None:
    for make in (ez.make, ez.make_vec):
        with raises(gymnasium.error.NameNotFound, f"'{env_id}'", f"'{suggestion}'") as told:
            make(env_id)
        assert str(told.value).count(" or ") <= 2


def test_gymnasium_environments_without_a_vector_entry_point_are_listed() -> None:
    gymnasium.register(
        "test/Sweep-v0", entry_point=lambda **options: ez.games.MineSweeper(**options), max_episode_steps=3
    )
    try:
        envs = ez.make_vec("test/Sweep-v0", 2, nmines=2)
        batch, _ = envs.reset(seed=0)
        for _ in range(3):
            defused = batch.actions["Move"].actors.with_values(np.full(4, 4))
            batch, *_, truncated, _ = envs.step({"Move": defused})
        assert truncated.all()
    finally:
        del gymnasium.registry["test/Sweep-v0"]


def test_impossible_requests_are_refused() -> None:
    with raises(ValueError, "num_envs", 1, 0):
        ez.make_vec("Xor", 0)
    with raises(ValueError, "'nonsense'", "'module:function'"):
        ez.register_vec("Nonsense", "nonsense")


@pytest.fixture
def my_game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the current folder, with environments of Gymnasium and of entities."""
    (tmp_path / "game_of_mine.py").write_text(
        "import entitize as ez, gymnasium\n"
        "from entitize.envs.games import MineSweeper\n"
        "def cart(): return gymnasium.make('CartPole-v1')\n"
        "def carts(num_envs): return ez.make_vec('CartPole-v1', num_envs)\n"
        "def lanes(): return carts(2)\n"
        "game = MineSweeper()\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "game_of_mine", raising=False)
    return "game_of_mine"


SOURCES = [
    "CartPole-v1",
    "{m}:cart",
    "MineSweeper",
    "entitize/MineSweeper-v0",
    "{m}:MineSweeper",
    ez.games.MineSweeper,
]


@pytest.mark.parametrize("source", [*SOURCES, "Acrobot-v1", "{m}:carts"], ids=str)
def test_ids_functions_and_modules_make_entity_vector_environments(source: Any, my_game: str) -> None:
    source = source.format(m=my_game) if isinstance(source, str) else source
    with ez.make_vec(source, 3) as venv:
        assert isinstance(venv, ez.EntityVectorEnv) and venv.num_envs == 3
        assert venv.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
        batch, _ = venv.reset(seed=0)
        venv.step(ez.actions.sample_actions(venv.single_action_space, batch, np.random.default_rng(0)))


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_ids_functions_and_modules_make_single_entity_environments(source: Any, my_game: str) -> None:
    env = ez.make(source.format(m=my_game) if isinstance(source, str) else source)
    assert isinstance(env.observation_space, ez.EntitySpace)
    assert env.observation_space.contains(env.reset(seed=0)[0])
    env.close()


def test_a_view_says_how_a_gymnasium_environment_becomes_entities() -> None:
    for view in (ez.views.Rows(name="Cart"), {"view": "Rows", "name": "Cart"}):
        for made in (ez.make, ez.make_vec):
            with raises(ez.views.ViewError, "CartPole"):
                made("CartPole-v1", view=view)
    for view in (ez.views.Vector(name="Cart"), {"view": "Vector", "name": "Cart"}):
        env = ez.make("CartPole-v1", view=view)
        venv = ez.make_vec("CartPole-v1", 2, view=view)
        assert (
            list(env.observation_space.entities) == list(venv.single_observation_space.entities) == ["Cart"]
        )
    with raises(TypeError, "MineSweeper", "view"):
        ez.make("MineSweeper", view=ez.views.Vector())


@pytest.mark.parametrize(
    ("source", "kind", "facts"),
    [
        ("game_of_mein:cart", gymnasium.error.NameNotFound, ["'game_of_mein'", "'game_of_mine'"]),
        ("{m}:cat", gymnasium.error.NameNotFound, ["'{m}'", "'cat'", "'cart'"]),
        ("./towers:Towers", gymnasium.error.NameNotFound, ["module name such as 'towers'", "'./towers'"]),
        ("towers.py:Towers", gymnasium.error.NameNotFound, ["module name such as 'towers'", "'towers.py'"]),
        ("games/towers.py:Towers", gymnasium.error.NameNotFound, ["such as 'games.towers'"]),
        ("/games/towers.py:Towers", gymnasium.error.NameNotFound, ["such as 'towers'"]),
        (".towers:Towers", gymnasium.error.NameNotFound, ["module name such as 'towers'", "'.towers'"]),
        (":Towers", gymnasium.error.NameNotFound, ["module name such as", "got ''"]),
        ("./towers:Towers-v0", gymnasium.error.NameNotFound, ["module name such as 'towers'", "'./towers'"]),
        ("no_such_module:Some-v0", gymnasium.error.NameNotFound, ["'no_such_module'"]),
        ("{m}:game", TypeError, ["{m}:game", "function"]),
        ("math:pi", TypeError, ["math:pi", "function"]),
        ("{m}:lanes", TypeError, ["{m}:lanes", "num_envs"]),
        (3, TypeError, ["3", "'module:function'"]),
    ],
)
def test_what_is_no_environment_is_an_error(source: Any, kind: Any, facts: list[str], my_game: str) -> None:
    facts = [fact.format(m=my_game) for fact in facts]
    source = source.format(m=my_game) if isinstance(source, str) else source
    with raises((kind, ez.WorkerError), *facts):
        ez.make_vec(source, 2)


def test_a_class_that_is_registered_again_replaces_the_first() -> None:
    class First(ez.games.CherryPick):
        pass

    class Second(ez.games.CherryPick):
        pass

    try:
        ez.register_env("Again-v0", First)
        ez.register_env("Again-v0", First)  # no warning
        assert isinstance(gymnasium.make("Again-v0").unwrapped, First)
        with warns(UserWarning, "Again-v0"):
            ez.register_env("Again-v0", Second)
        assert isinstance(gymnasium.make("Again-v0").unwrapped, Second)
        with raises(ValueError, "module:function", "First"):
            ez.register_vec("Again", First)  # type: ignore[arg-type]
    finally:
        gymnasium.registry.pop("Again-v0", None)
