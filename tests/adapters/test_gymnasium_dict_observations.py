"""Observations of a Dict space that are dataclasses or namedtuples, as Jumanji's are."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from entitize import make_vec, views, wrap, wrap_vec
from entitize.envs import ObservationError
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from facts import raises


class Place(NamedTuple):
    x: Any
    y: Any


class Seen(NamedTuple):
    action_mask: Any
    place: Any
    items: Any


@dataclass
class SeenToo:
    action_mask: Any
    items: Any
    place: Any
    more: str = "not in the space"


FORMS: dict[str, Callable[..., Any]] = {"namedtuple": Seen, "dataclass": SeenToo, "dict": dict}
NUMBER = spaces.Box(-1, 1, (), np.float32)
SPACE = spaces.Dict(
    action_mask=spaces.MultiBinary(3),
    items=spaces.Box(-1, 1, (4, 2), np.float32),
    place=spaces.Dict(x=NUMBER, y=NUMBER),
)


class Named(gymnasium.Env[Any, Any]):
    """Observations of some form, four steps long."""

    observation_space: spaces.Space[Any] = SPACE
    action_space = spaces.Discrete(3)

    def __init__(self, form: Callable[..., Any] = Seen, place: Callable[..., Any] = Place) -> None:
        self.form, self.place = form, place

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._look(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self._look(), 1.0, self.steps == 4, False, {}

    def _look(self) -> Any:
        random = self.np_random
        place = self.place(x=random.random(dtype=np.float32), y=random.random(dtype=np.float32))
        items = random.random((4, 2), np.float32)
        return self.form(action_mask=np.array([1, 0, self.steps % 2], np.int8), place=place, items=items)


@pytest.mark.parametrize("place", [dict, Place])
@pytest.mark.parametrize("form", FORMS)
def test_fields_are_read_like_the_keys_of_a_dict(form, place):
    env, plain = wrap(Named(FORMS[form], place)), wrap(Named(dict, dict))
    assert env.observation_space == plain.observation_space
    seen, expected = env.reset(seed=3)[0], plain.reset(seed=3)[0]
    for _ in range(4):
        np.testing.assert_equal(seen, expected)
        seen, expected = (one.step({"action": 0})[0] for one in (env, plain))
    np.testing.assert_equal(seen, expected)


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("form", ["namedtuple", "dataclass"])
def test_lanes_read_fields_too(form, mode):
    def play(one: Callable[..., Any], place: Callable[..., Any]) -> list[Any]:
        inside = SyncVectorEnv([partial(Named, one, place)] * 3, autoreset_mode=mode)
        venv = wrap_vec(RecordEpisodeStatistics(inside))
        batch, _ = venv.reset(seed=2)
        batches = [batch]
        for _ in range(10):
            actions = {"action": batch.actions["action"].actors.with_values(np.zeros(3, np.int64))}
            batch, _, _, _, info = venv.step(actions)
            batches += [batch, *([info["final_obs"]] if "final_obs" in info else [])]
        venv.close()
        return batches

    batches = play(FORMS[form], Place)
    assert len(batches) == 13
    assert all(mine.equals(theirs) for mine, theirs in zip(batches, play(dict, dict), strict=True))


def test_functions_get_the_environment_itself():
    view = views.Function(lambda seen, env: {"Clock": [[env.steps]]}, {"Clock": ["steps"]}, source="env")
    venv = wrap_vec(SyncVectorEnv([Named] * 2), view)
    batch, _ = venv.reset(seed=2)
    assert batch.entities["Clock"].values.tolist() == [[0], [0]]


def test_environments_by_function_read_fields():
    venv = make_vec(Named, num_envs=2)
    batch, _ = venv.reset(seed=2)
    assert len(batch) == 2 and batch.entities["items"].num_items == 8
    venv.close()


class Engine(VectorEnv[Any, Any, Any]):
    """A native vector environment with a namedtuple of batched arrays, as engines in JAX have it."""

    num_envs, metadata = 2, {"autoreset_mode": AutoresetMode.NEXT_STEP}
    single_observation_space, single_action_space = SPACE, spaces.Discrete(3)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        place = Place(np.zeros(2, np.float32), np.ones(2, np.float32))
        return Seen(np.ones((2, 3), np.int8), place, np.zeros((2, 4, 2), np.float32)), {}

    def step(self, actions: Any) -> Any:
        return self.reset()[0], np.zeros(2), np.array([True, False]), np.zeros(2, bool), {}


def test_batched_observations_may_have_fields():
    venv = wrap_vec(Engine())
    batch, _ = venv.reset()
    batch, *_ = venv.step(venv.action_space.sample(mask=batch))
    assert batch.entities["place/y"].values.tolist() == [[1], [1]]
    assert batch.entities["items"].lengths.tolist() == [4, 4]


class Parts(NamedTuple):
    action_mask: Any
    items: Any


@pytest.mark.parametrize("shown", [Parts(np.ones(3), np.zeros((4, 2))), np.zeros(3), "text", 3])
def test_other_objects_are_refused(shown):
    class Odd(Named):
        def _look(self) -> Any:
            return shown

    with raises(ObservationError, "Odd", "observation"):
        wrap(Odd()).reset()
    with raises(ObservationError, "Odd", "'place'", type(shown).__name__):
        wrap_vec(SyncVectorEnv([Odd])).reset()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_workers_need_dicts():
    venv = wrap_vec(AsyncVectorEnv([Named]))
    with raises(ObservationError, "Named", "AsyncVectorEnv", "Seen", "dict"):
        venv.reset()
    venv.close()
