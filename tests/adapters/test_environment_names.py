"""Environments by name, as packages of others register them, and options that belong elsewhere."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.evaluation import RandomActor
from mpe2 import simple_tag_v3

from facts import raises
from processes import run

MOON = """
import entitize as ez

ez.register_vec("{space}", "{module}:make_moons", names=["north"], env_entry_point="{module}:make_moon")

def make_moons(name, num_envs=1, **options):
    return ez.make_vec("CherryPick", num_envs, **options)

def make_moon(name, **options):
    return ez.make("CherryPick", **options)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module of somebody else that registers "<Module>/north" when it is imported."""
    name = f"moon_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MOON.format(space=name.title(), module=name))
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


def test_a_package_of_others_is_imported_where_its_name_stands_before_the_id(package: str) -> None:
    env_id = f"{package}:{package.title()}/north"
    with ez.make_vec(env_id, 2) as venv:
        assert venv.num_envs == 2 and "Cherry" in venv.single_observation_space.entities
    with ez.make(env_id) as env:
        assert "Cherry" in env.observation_space.entities  # type: ignore[attr-defined]
    with raises(gymnasium.error.NameNotFound, "sout", "north"):
        ez.make_vec(f"{package}:{package.title()}/sout", 2)


def test_a_namespace_has_one_entry_point() -> None:
    with raises(ValueError, "Procgen", "registered"):
        ez.register_vec("Procgen", "nowhere:nothing")
    ez.register_vec("Procgen", "entitize.adapters.procgen:make_vec", ez.procgen.GAMES)
    with ez.make_vec("Procgen/coinrun", 1) as venv:
        assert venv.num_envs == 1


@pytest.mark.parametrize("engine", ["Atari", "Griddly", "ViZDoom", "MicroRTS", "Procgen"])
def test_the_name_of_an_engine_is_no_game(engine: str) -> None:
    with raises(gymnasium.error.NameNotFound, engine):
        ez.make_vec(engine, 1)


def test_a_versioned_id_may_be_one_of_a_package() -> None:
    with raises(gymnasium.error.NameNotFound, "package:Unheard-Empty-8x8-v0"):
        ez.make("Unheard-Empty-8x8-v0")


@pytest.mark.parametrize(
    "env_id", ["Griddly/Zelda", "Atari/Pong", "Procgen/coinrun", "MicroRTS/basesWorkers8x8"]
)
def test_one_environment_takes_no_number_of_environments(env_id: str) -> None:
    with raises(TypeError, "num_envs", "make_vec"):
        ez.make(env_id, num_envs=2)


@pytest.mark.parametrize("make", [ez.griddly.GriddlyVectorEnv, ez.griddly.GriddlyEnv])
def test_options_of_make_vec_are_named_as_such(make: Any) -> None:
    pytest.importorskip("griddly")
    with raises(TypeError, "num_workers", "make_vec"):
        make("Zelda", num_workers=2)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("env_id", ["Atari/Pong", "Procgen/coinrun", "MineSweeper"])
def test_negative_seeds_are_refused_at_once(env_id: str, num_workers: int) -> None:
    with raises(ValueError, "seed", -1):
        ez.make_vec(env_id, 2, num_workers=num_workers, seed=-1)


def test_a_list_of_types_is_a_list() -> None:
    pytest.importorskip("griddly")
    for wrong in (3, {"wall": 1}, "wall"):
        with raises(TypeError, "exclude", repr(wrong)):
            ez.make_vec("Griddly/Zelda", 1, exclude=wrong)


@pytest.mark.parametrize("function", ["parallel_env", "env"])
def test_games_of_pettingzoo_have_a_lane_for_each_agent(function: str) -> None:
    name, view = f"mpe2.simple_tag_v3:{function}", ez.views.Vector(name="Seen")
    make = partial(getattr(simple_tag_v3, function), max_cycles=9)
    with (
        ez.make_vec(name, num_envs=2, view={"view": "Vector", "name": "Seen"}, max_cycles=9) as mine,
        ez.from_pettingzoo(make, view=view, num_envs=2) as its,
    ):
        assert mine.agents == its.agents  # type: ignore[attr-defined]
        assert mine.vector_spec is not None and mine.vector_spec.id == name
        assert mine.single_observation_space == its.single_observation_space
        returns = [
            ez.evaluate(RandomActor(venv.single_action_space), venv, 12).returns for venv in (mine, its)
        ]
    assert returns[0].tolist() == returns[1].tolist()
    with raises(TypeError, name, "make_vec"):
        ez.make(name)


@pytest.mark.parametrize(
    ("venv_class", "name"),
    [
        (ez.atari.AtariVectorEnv, "Pong"),
        (ez.griddly.GriddlyVectorEnv, "Zelda"),
        (ez.microrts.MicroRTSVectorEnv, "basesWorkers8x8"),
        (ez.procgen.ProcgenVectorEnv, "coinrun"),
        (ez.vizdoom.ViZDoomVectorEnv, "basic"),
    ],
)
def test_classes_refuse_negative_seeds_when_they_are_made(venv_class: Any, name: str) -> None:
    with raises(ValueError, "seed", -1):
        venv_class(name, seed=-1)


@pytest.mark.parametrize("env_id", ["MineSweeper", "CartPole-v1", "Procgen/coinrun"])
def test_wrappers_are_put_on_by_a_function(env_id: str) -> None:
    with raises(TypeError, "wrappers", "function"):
        ez.make_vec(env_id, wrappers=[gymnasium.wrappers.TimeLimit])
    limited = partial(gymnasium.wrappers.TimeLimit, max_episode_steps=3)
    with ez.make_vec(lambda: limited(ez.make(env_id)), num_envs=2) as venv:
        assert venv.num_envs == 2


class Old:
    """As the old gym's environments."""

    def reset(self) -> list[float]:
        return [0.0]

    def step(self, action: int) -> tuple[list[float], float, bool, dict[str, Any]]:
        return [0.0], 0.0, False, {}


def test_environments_of_the_old_gym_are_sent_to_shimmy() -> None:
    for make in (lambda: ez.wrap(Old()), lambda: ez.make(Old)):  # type: ignore[arg-type]
        with raises(TypeError, "Old", "old gym", "shimmy"):
            make()


def test_a_game_of_pettingzoo_that_exists_already_has_a_function_of_its_own() -> None:
    game = ez.to_pettingzoo(ez.games.MultiSnakeAgents(2), layout="flat", maxima=8, illegal="replace")
    for make in (ez.make_vec, ez.make):
        with raises(TypeError, type(game).__name__, "from_pettingzoo"):
            make(game)


def test_a_misspelt_option_of_make_vec_itself_is_named() -> None:
    class Swarm(ez.games.CherryPick):
        def __init__(self, num_drones: int = 3) -> None:
            super().__init__()

    @functools.wraps(Swarm)
    def outer(extra: int = 0, **options: Any) -> Any:
        return Swarm(**options)

    with ez.make_vec(outer, 2, extra=3, num_drones=2) as venv:
        assert venv.num_envs == 2
    with raises(TypeError, "Swarm", "'num_env'", "'num_envs'"):
        ez.make_vec(Swarm, num_env=3)
    with raises(TypeError, "Swarm", "'num_drone'", "'num_drones'"):
        ez.make_vec(Swarm, num_drone=3)


@pytest.mark.parametrize(
    ("env_id", "package", "extra"),
    [("Atari/Pong", "ale_py", "atari"), ("ViZDoom/basic", "vizdoom", "vizdoom")],
)
def test_a_package_is_imported_only_for_its_ids_and_its_extra_is_named(
    env_id: str, package: str, extra: str
) -> None:
    code = (
        f"import sys, entitize as ez; ez.make_vec('Xor'); print({package!r} in sys.modules)\n"
        f"sys.modules[{package!r}] = None\n"
        f"try: ez.make_vec({env_id!r})\n"
        "except ImportError as error: print(error)\n"
    )
    is_imported, error = run([sys.executable, "-c", code]).stdout.split("\n", 1)
    assert is_imported == "False" and f"entitize[{extra}]" in error


FIELD = """
import os

import entitize as ez
import numpy as np

def make_field(num_envs, cats=3):
    return Field(num_envs, cats)

def make_any(num_envs, **options):
    return Field(num_envs, **options)

def make_itself(num_envs, num_workers, worker_timeout=None):
    return Field(num_envs, num_workers)

class Field(ez.vector.EntityVectorEnv):
    def __init__(self, num_envs, cats=3):
        self.num_envs, self.cats = num_envs, cats
        self.single_action_space = ez.EntityActionSpace({"go": ez.GlobalCategorical(2)})
        self.single_observation_space = ez.EntitySpace({"Cat": ["x"]}, self.single_action_space)

    def _look(self):
        ones = np.ones(self.num_envs, np.int64)
        actors = ez.RaggedArray.from_lengths(-ones, ones)
        x = np.repeat(self.x, self.cats)[:, None].astype(np.float32)
        cats = {"Cat": ez.RaggedArray.from_lengths(x, self.cats * ones)}
        mask = ez.batch.ActionMask(actors, actors.with_values(np.ones((self.num_envs, 2), bool)))
        return ez.EntityBatch(cats, np.zeros((self.num_envs, 0), np.float32), {"go": mask})

    def _reset(self, seeds, options):
        self.x = np.array(seeds)
        return self._look(), {}

    def _step(self, actions):
        self.x = self.x + actions["go"].values
        off, pid = np.zeros(self.num_envs, bool), np.full(self.num_envs, os.getpid())
        return self._look(), self.x.astype(np.float32), off, off.copy(), {"pid": pid}
"""


@pytest.mark.parametrize("name", ["make_field", "make_any", "Field"])
def test_a_vector_environment_of_ones_own_is_shared_between_processes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"field_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(FIELD)
    monkeypatch.chdir(tmp_path)
    actions = {"go": np.array([0, 1, 0, 1, 1])}
    with ez.make_vec(f"{module}:{name}", 5, cats=2, num_workers=2, worker_timeout=30) as venv:
        assert isinstance(venv, ez.vector.ShardedVectorEnv) and venv.worker_timeout == 30
        venv.reset(seed=4)
        batch, rewards, *_, info = venv.step(actions)
    assert len(set(info["pid"].tolist())) == 2 and os.getpid() not in info["pid"]
    with ez.make_vec(f"{module}:{name}", 5, cats=2) as alone:
        alone.reset(seed=4)
        expected, *_ = alone.step(actions)
    assert batch.equals(expected) and rewards.tolist() == [4, 6, 6, 8, 9]
    with raises(TypeError, "cots", "cats"):
        ez.make_vec(f"{module}:make_field", 5, cots=2, num_workers=2)
    with ez.make_vec(f"{module}:make_itself", 5, num_workers=2) as venv:
        assert venv.cats == 2  # type: ignore[attr-defined]
