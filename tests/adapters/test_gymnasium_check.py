"""`check_entity_env` on wrapped environments of others: it names the right one."""

from typing import Any, ClassVar

import entitize as ez
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from facts import raises, warns


class Walker(gymnasium.Env[Any, Any]):
    """Somebody else's environment."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}
    observation_space = spaces.Box(0, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.episodes = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episodes += 1
        return self.np_random.random(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return self.np_random.random(2, np.float32), 0.0, False, False, {}

    def render(self) -> Any:
        return np.zeros((3, 3, 3), np.uint8)


class Worn(Walker):
    """BipedalWalker: now and then an episode is another one (in Box2D, by what earlier episodes left)."""

    def step(self, action: Any) -> Any:
        observation, *rest = super().step(action)
        return observation * np.float32(0.5 if self.episodes == 3 else 1), *rest


class Slow(Walker):
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"]}


class Modeless(Walker):
    metadata: ClassVar[dict[str, Any]] = {}


class Shown(Walker):
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["human"], "render_fps": 4}

    def render(self) -> Any:
        raise RuntimeError("no display")


@pytest.fixture
def wrapped(monkeypatch):
    def make(kind: type[Walker]) -> gymnasium.Env[Any, Any]:
        name = f"{kind.__name__}-v0"
        monkeypatch.setitem(gymnasium.registry, name, gymnasium.envs.registration.EnvSpec(name, kind))
        return ez.wrap(gymnasium.make(name))

    return make


def test_environments_that_are_nondeterministic_are_told_so(wrapped):
    with raises(ez.errors.ConformanceError, "Worn", "the same seed", "step 1", "nondeterministic=True"):
        ez.check_entity_env(wrapped(Worn), num_steps=10)


def test_a_missing_frame_rate_of_somebody_else_is_a_note(wrapped):
    with warns(UserWarning, "Slow", "render fps"):
        ez.check_entity_env(wrapped(Slow), num_steps=10)
    ez.check_entity_env(wrapped(Slow), num_steps=10, render=False)


@pytest.mark.parametrize("render", [True, False])
def test_missing_render_modes_of_somebody_else_are_a_note(wrapped, render):
    with warns(UserWarning, "render_modes"):  # gymnasium.make's own
        env = wrapped(Modeless)
    with warns(UserWarning, "Modeless-v0", "render_modes"):
        ez.check_entity_env(env, num_steps=10, render=render)


class Dynamics:
    """The unwrapped environment of another library, such as Jumanji."""


class ConvertedDynamics(Walker):
    """Gymnasium's interface to `Dynamics`."""

    @property
    def unwrapped(self) -> Any:
        return Dynamics()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.random = np.random.default_rng(seed)
        return self.random.random(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return self.random.random(2, np.float32), 0.0, False, False, {}


def test_checks_that_cannot_be_made_are_a_note():
    with warns(UserWarning, "Dynamics", "check_env", "unwrapped"):
        ez.check_entity_env(ez.wrap(ConvertedDynamics()), num_steps=10)


class Halved(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A user's wrapper, which records no arguments: no spec can make it again."""

    def step(self, action: Any) -> Any:
        observation, reward, *rest = self.env.step(action)
        return observation, float(reward) / 2, *rest


@pytest.mark.parametrize("render", [True, False])
def test_checks_that_need_an_environment_made_again_are_a_note(wrapped, render):
    env = ez.wrap(Halved(wrapped(Slow).env))
    with warns(UserWarning, "Slow-v0", "close", "render", "Halved", "RecordConstructorArgs"):
        ez.check_entity_env(env, num_steps=10, render=render)
    with raises(ez.errors.ConformanceError, "Worn", "the same seed"):
        ez.check_entity_env(ez.wrap(Halved(wrapped(Worn).env)), num_steps=10)


def test_registered_environments_are_named_by_their_id(wrapped):
    with raises(ez.errors.ConformanceError, "Worn-v0"):
        ez.check_entity_env(wrapped(Worn), num_steps=10)


def test_rendering_can_be_skipped(wrapped):
    with pytest.raises(RuntimeError, match="no display") as caught:
        ez.check_entity_env(wrapped(Shown), num_steps=10)
    assert "Shown" in caught.value.__notes__[0] and "--no-render" in caught.value.__notes__[0]
    ez.check_entity_env(wrapped(Shown), num_steps=10, render=False)


def test_lanes_have_the_name_of_their_environment():
    class Restless(Walker):
        def step(self, action: Any) -> Any:
            return np.random.default_rng().random(2, np.float32), 0.0, False, False, {}

    venv = ez.wrap_vec(gymnasium.vector.SyncVectorEnv([Restless] * 2))
    with raises(ez.errors.ConformanceError, "Restless", "the same seed"):
        ez.check_entity_env(venv, num_steps=10)


KINDS = {
    "Categorical": (ez.Categorical(2), ez.actions.CategoricalMask),
    "Continuous": (ez.Continuous(-1, 1), ez.actions.ContinuousMask),
    "SelectEntity": (ez.SelectEntity(), ez.actions.SelectEntityMask),
}


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_may_act_in_the_first_steps(kind):
    action, mask = KINDS[kind]

    class Late(ez.EntityEnv):
        action_space = ez.EntityActionSpace({"act": action})
        observation_space = ez.EntitySpace({"Cat": ["x"]}, action_space)

        def _reset(self, options: Any) -> Any:
            self.time = 0
            return self.look()

        def _step(self, actions: Any) -> Any:
            self.time += 1
            return self.look(), 0.0, self.time == 5, False, {}

        def look(self) -> ez.Observation:
            cats = [[self.time]] * (2 if self.time > 1 else 0)
            return ez.Observation({"Cat": np.float32(cats).reshape(-1, 1)}, actions={"act": mask()})

    ez.check_entity_env(Late(), num_steps=12)


@pytest.mark.parametrize(
    "use",
    [
        ez.check_entity_env,
        ez.wrap,
        lambda env: ez.wrap_vec(gymnasium.vector.SyncVectorEnv([lambda: env])),
        lambda env: ez.make_vec(lambda: env, 1),
        ez.to_gymnasium,
    ],
    ids=["check", "wrap", "wrap_vec", "make_vec", "to_gymnasium"],
)
@pytest.mark.parametrize("game", ["MultiSnake", "MineSweeper"])
def test_flattened_entity_environments_name_what_takes_their_place(game, use):
    flat = gymnasium.wrappers.FlattenObservation(ez.make(game))
    with raises(
        (ez.errors.ConformanceError, TypeError, ValueError), game, "FlattenObservation", "to_gymnasium"
    ):
        use(flat)
