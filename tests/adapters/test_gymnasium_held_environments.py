"""Functions of views that read an environment which they were not given: found in specs and copies."""

import copy
import pickle
from collections.abc import Callable
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from entitize import views, wrap, wrap_vec
from gymnasium.vector import SyncVectorEnv

from facts import raises

ANGLE = {"Pole": ["angle"]}
raw = gymnasium.make("CartPole-v1")
road = gymnasium.make("CartPole-v1")


def pole(env: Any) -> dict[str, Any]:
    return {"Pole": [env.unwrapped.state[:1]]}


class Holder:
    def __init__(self, env: Any) -> None:
        self.held = env

    def __call__(self, observation: Any) -> Any:
        return pole(self.held)

    def rows(self, observation: Any) -> Any:
        return pole(self.held)


class Slotted:
    __slots__ = ("__held",)

    def __init__(self, env: Any) -> None:
        self.__held = env

    def __call__(self, observation: Any) -> Any:
        return pole(self.__held)


class Asker:
    def rows(self, observation: Any) -> Any:
        return self._again()

    def _again(self) -> Any:
        return self.state

    @property
    def state(self) -> Any:
        return pole(raw)


def global_variable(observation: Any) -> Any:
    return pole(raw)


def in_a_comprehension(observation: Any) -> Any:
    return next(pole(env) for env in [raw for _ in range(1)])


def in_a_lambda(observation: Any) -> Any:
    return (lambda: pole(raw))()


def by_a_helper(observation: Any) -> Any:
    return global_variable(observation)


def local_readers(env: Any) -> dict[str, Callable[[Any], Any]]:
    """Functions that hold `env`."""
    held, namespace = {"envs": [env]}, SimpleNamespace(env=env)

    def read() -> Any:
        return pole(env)

    def read_and_call_itself(times: int) -> Any:
        return read_and_call_itself(times - 1) if times else read()

    def with_default(observation: Any, e: Any = env) -> Any:
        return pole(e)

    def with_keyword_default(observation: Any, *, e: Any = env) -> Any:
        return pole(e)

    def with_a_cycle(observation: Any) -> Any:
        return read_and_call_itself(2)

    cached = lru_cache(read)
    return {
        "default": with_default,
        "keyword default": with_keyword_default,
        "items": lambda _: pole(held["envs"][0]),
        "closure": lambda _: read(),
        "cycle": with_a_cycle,
        "cache": lambda _: cached(),
        "namespace": lambda _: pole(namespace.env),
        "partial": partial(lambda e, _: pole(e), env),
        "partial of a partial": partial(partial(lambda _, box: pole(box[0])), box=[env]),
        "built-in method": lambda _, get=held.get: pole(get("envs")[0]),
        "callable object": Holder(env),
        "slots": Slotted(env),
        "method": Holder(env).rows,
    }


READERS = {
    **local_readers(raw),
    "global": global_variable,
    "comprehension": in_a_comprehension,
    "lambda": in_a_lambda,
    "helper": by_a_helper,
    "method of a method": Asker().rows,
}


@pytest.mark.parametrize("name", READERS)
def test_specs_and_copies_refuse_a_function_that_reads_the_wrapped_environment(name):
    env = wrap(raw, views.Function(READERS[name], ANGLE))
    seen, _ = env.reset(seed=1)
    assert seen["entities"]["Pole"][0] == raw.unwrapped.state[0].astype(np.float32)
    for spec in (env.spec, copy.deepcopy(env.spec), pickle.loads(pickle.dumps(env.spec))):
        with raises(views.ViewError, "reads the environment", "source='env'"):
            gymnasium.make(spec)
        with raises(TypeError, "JSON serializable"):
            spec.to_json()
    for again in (copy.deepcopy, pickle.dumps):
        with raises(views.ViewError, "CartPole-v1", "reads the environment", "copy"):
            again(env)


def test_copies_of_vector_environments_refuse_it_too():
    view = views.Function(global_variable, ANGLE)
    venv = wrap_vec(SyncVectorEnv([partial(gymnasium.make, "CartPole-v1")]), view)
    with raises(views.ViewError, "CartPole-v1", "reads the environment"):
        copy.deepcopy(venv)
    venv.close()


def of_the_argument(observation: Any, env: Any) -> Any:
    """`road` is an attribute here, and elsewhere a variable of this module."""
    env.unwrapped.road = env.unwrapped.state
    return {"Pole": [env.unwrapped.road[:1]]}


class Scale:
    """Something that a function may hold: numbers, functions, itself."""

    def __init__(self) -> None:
        self.factor, self.me, self.sources = 2.0, self, [np.ones(3), {"f": np.sin}]

    def __call__(self, observation: Any) -> Any:
        return {"Pole": [[self.factor * observation[2]]]}


def test_other_functions_are_copied_and_made_again():
    scale = Scale()
    inner = views.Function(of_the_argument, ANGLE, source="env")
    for view in (inner, views.Function(scale, ANGLE), views.Function(lambda o: scale(o), ANGLE)):
        env = wrap(gymnasium.make("CartPole-v1"), view)
        first, _ = env.reset(seed=1)
        for other in (copy.deepcopy(env), gymnasium.make(env.spec)):
            seen, _ = other.reset(seed=1)
            np.testing.assert_equal(seen, first)
            assert other.unwrapped is not env.unwrapped


def test_a_function_of_a_composite_view_is_found():
    space = gymnasium.spaces.Dict({"all": raw.observation_space})
    boxed = gymnasium.wrappers.TransformObservation(raw, lambda o: {"all": o}, space)
    env = wrap(boxed, views.Items({"all": views.Function(global_variable, ANGLE)}))
    with raises(views.ViewError, "reads the environment"):
        copy.deepcopy(env)
