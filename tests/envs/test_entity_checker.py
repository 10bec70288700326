"""`check_entity_env` finds each kind of broken environment, and says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.envs import batch_observations, validate_actions
from gymnasium.vector import AutoresetMode

from facts import raises, warns

Result = tuple[ez.EntityBatch, Any, Any, Any, dict[str, Any]]


class Plain(gymnasium.Env[Any, Any]):
    """A correct entity environment that is no `EntityEnv`, to be broken in one place."""

    observation_space: ez.EntitySpace
    action_space: ez.EntityActionSpace

    def __init__(self, optional: bool = False) -> None:
        actions = {"Go": ez.Categorical(2), "Nap": ez.GlobalCategorical(2)}
        self.action_space = ez.EntityActionSpace(actions, optional=optional)
        self.observation_space = ez.EntitySpace({"Cat": ["x"], "Mouse": ["x"]}, self.action_space, ["time"])
        self.over = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.over, self.time, self.at = False, 0, float(self.np_random.integers(9))
        return self.look(), {}

    def step(self, action: Any) -> Any:
        if self.over:
            raise gymnasium.error.ResetNeeded("over")
        self.validate(action)
        self.move(action)
        self.over = self.time >= 4
        return self.look(), self.at, self.over, False, {}

    def validate(self, action: Any) -> None:
        ragged = {
            name: ez.RaggedArray.from_arrays([np.atleast_1d(order)], dtype=np.int64)
            for name, order in action.items()
        }
        validate_actions(
            self.observation_space, batch_observations(self.observation_space, [self.look()]), ragged
        )

    def move(self, action: Any) -> None:
        self.time += 1
        for choice in action.get("Go", ()):
            self.at += 2 * int(choice) - 1

    def look(self) -> dict[str, Any]:
        return {
            "entities": {"Cat": np.array([[self.at]], np.float32), "Mouse": np.zeros((0, 1), np.float32)},
            "globals": np.array([self.time], np.float32),
            "actions": {
                "Go": {"actors": np.array([0]), "mask": np.array([[1, self.time % 2]], np.int8)},
                "Nap": {"mask": np.array([[1, 0]], np.int8)},
            },
        }


@pytest.mark.parametrize("optional", [False, True])
def test_the_environment_to_be_broken_is_whole(optional: bool) -> None:
    ez.check_entity_env(Plain(optional), 30)


class Looking(Plain):
    """Breaks its observations once the game is under way."""

    def __init__(self, damage: Callable[[dict[str, Any]], Any]) -> None:
        super().__init__()
        self.damage = damage

    def look(self) -> dict[str, Any]:
        observation = super().look()
        if self.time == 2:
            self.damage(observation)
        return observation

    def validate(self, action: Any) -> None:
        pass


DAMAGE: dict[tuple[str, ...], Callable[[dict[str, Any]], Any]] = {
    ("entity type 'Cat'", "float32 (n, 1)", "got float32 (1, 2)"): lambda o: o["entities"].update(
        Cat=np.zeros((1, 2), np.float32)
    ),
    ("entity type 'Cat'", "float32 (n, 1)", "got float64 (1, 1)"): lambda o: o["entities"].update(
        Cat=np.zeros((1, 1))
    ),
    ("entity type 'Cat'", "feature 'x'", "entity 0", "nan"): lambda o: o["entities"]["Cat"].fill(np.nan),
    ("'entities'", "unknown", "'Dog'"): lambda o: o["entities"].update(Dog=1),
    ("action 'Go'", "'mask'", "int8 (1, 2)", "got int8 (2, 2)"): lambda o: o["actions"]["Go"].update(
        mask=np.ones((2, 2), np.int8)
    ),
    ("action 'Go'", "row 0", "'mask'"): lambda o: o["actions"]["Go"]["mask"].fill(0),
    ("action 'Go'", "'actors'", "entity 1", "1 entities"): lambda o: o["actions"]["Go"]["actors"].fill(1),
}


@pytest.mark.parametrize("facts", DAMAGE)
def test_broken_observations_are_found(facts: tuple[str, ...]) -> None:
    with raises(ez.errors.ConformanceError, "Looking: step", *facts):
        ez.check_entity_env(Looking(DAMAGE[facts]), 30)


def reused(env: Plain) -> None:
    rows = np.zeros((1, 1), np.float32)

    def look() -> dict[str, Any]:
        observation = Plain.look(env)
        rows[:] = observation["entities"]["Cat"]
        return {**observation, "entities": {**observation["entities"], "Cat": rows}}

    env.look = look  # type: ignore[method-assign]


def unseeded(env: Plain) -> None:
    rng = np.random.default_rng()

    def reset(*, seed: int | None = None, options: Any = None) -> Any:
        Plain.reset(env, seed=seed)
        env.at = float(rng.random())
        return env.look(), {}

    env.reset = reset  # type: ignore[method-assign]


def goes_on(env: Plain) -> None:
    def step(action: Any) -> Any:
        env.over = False
        return Plain.step(env, action)

    env.step = step  # type: ignore[method-assign]


def moved_by_illegal_actions(env: Plain) -> None:
    def validate(action: Any) -> None:
        env.at += 1
        Plain.validate(env, action)
        env.at -= 1

    env.validate = validate  # type: ignore[method-assign]


def needs_orders(env: Plain) -> None:
    env.action_space.optional = True

    def validate(action: Any) -> None:
        if not len(action.get("Go", ())):
            raise ez.ActionError("I want to go")
        Plain.validate(env, action)

    env.validate = validate  # type: ignore[method-assign]


def takes_less(env: Plain) -> None:
    def validate(action: Any) -> None:
        if "Nap" in action:
            Plain.validate(env, action)

    env.validate = validate  # type: ignore[method-assign]


def names_nothing(env: Plain) -> None:
    def validate(action: Any) -> None:
        if not action:
            raise ez.ActionError("something is missing")
        Plain.validate(env, action)

    env.validate = validate  # type: ignore[method-assign]


def refuses(env: Plain) -> None:
    def validate(action: Any) -> None:
        raise ez.ActionError("not today")

    env.validate = validate  # type: ignore[method-assign]


def accepts(env: Plain) -> None:
    env.validate = lambda action: None  # type: ignore[method-assign]


def panics(env: Plain) -> None:
    def validate(action: Any) -> None:
        try:
            Plain.validate(env, action)
        except ez.ActionError as error:
            raise KeyError("what?") from error

    env.validate = validate  # type: ignore[method-assign]


def returning(**changes: Any) -> Callable[[Plain], None]:
    """Changes one part of what `step` returns."""

    def damage(env: Plain) -> None:
        def step(action: Any) -> Any:
            parts = dict(
                zip(
                    ("observation", "reward", "terminated", "truncated", "info"),
                    Plain.step(env, action),
                    strict=True,
                )
            )
            return tuple({**parts, **changes}.values())

        env.step = step  # type: ignore[method-assign]

    return damage


def short(env: Plain) -> None:
    env.step = lambda action: Plain.step(env, action)[:4]  # type: ignore[method-assign]


def other_actions(env: Plain) -> None:
    env.action_space = ez.EntityActionSpace({"Go": ez.Categorical(3)})


def other_space(env: Plain) -> None:
    env.observation_space = gymnasium.spaces.Discrete(2)  # type: ignore[assignment]


BREAKAGE: list[tuple[Callable[[Plain], None], tuple[object, ...]]] = [
    (reused, ("step", "arrays", "returned before")),
    (unseeded, ("same seed", "reset", "entities/Cat")),
    (goes_on, ("step after the end", "gymnasium.error.ResetNeeded")),
    (moved_by_illegal_actions, ("illegal action", "ActionError", "unchanged", "step 1")),
    (needs_orders, ("step({})", "no error", "ActionError", "I want")),
    (takes_less, ("without action 'Nap'", "ActionError", "no error")),
    (names_nothing, ("step({})", "ActionError", "'Go'", "something is missing")),
    (refuses, ("a legal action", "not today")),
    (accepts, ("'Go+Nap+'", "ActionError", "no error")),
    (panics, ("'Go+Nap+'", "ActionError", "KeyError('what?')")),
    (returning(reward=float("inf")), ("step", "reward", "inf", "finite")),
    (returning(reward="much"), ("step", "reward", "'much'", "number")),
    (returning(terminated=1), ("step", "terminated", 1, "bool")),
    (returning(truncated=None), ("step", "truncated", "None", "bool")),
    (returning(info=None), ("step", "info", "dict", "NoneType")),
    (short, ("step", "tuple of 5", "tuple of 4")),
    (other_actions, ("observation space", "'0', '1', '2'")),
    (other_space, ("observation space", "EntitySpace", "Discrete(2)")),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "facts"), BREAKAGE)
def test_broken_environments_are_found(damage: Callable[[Plain], None], facts: tuple[object, ...]) -> None:
    env = Plain()
    damage(env)
    with raises(ez.errors.ConformanceError, "Plain: ", *facts):
        ez.check_entity_env(env, 30)


class Coin(ez.EntityEnv):
    """A correct `EntityEnv`: guess how the coin fell."""

    def __init__(self) -> None:
        self.action_space = ez.EntityActionSpace({"Guess": ez.GlobalCategorical(2)})
        self.observation_space = ez.EntitySpace({"Coin": ["side"]}, self.action_space)

    def _reset(self, options: Any) -> ez.Observation:
        self.side = int(self.np_random.integers(2))
        return self._look()

    def _step(self, actions: Any) -> Any:
        return self._look(), float(bool(actions) and actions["Guess"].choice == self.side), True, False, {}

    def _look(self) -> ez.Observation:
        return ez.Observation(
            entities={"Coin": [[self.side]]}, actions={"Guess": ez.actions.GlobalCategoricalMask()}
        )


def test_an_authors_wrong_observation_is_found() -> None:
    ez.check_entity_env(Coin(), 30)

    class Sloppy(Coin):
        def _look(self) -> ez.Observation:
            observation = super()._look()
            return ez.Observation(entities={"Coin": [[0, 1]]}, actions=observation.actions)

    with raises(ez.errors.ConformanceError, "Sloppy: entity type 'Coin'", "(1, 2)", "(n, 1)"):
        ez.check_entity_env(Sloppy())


class Masked(ez.EntityEnv):
    """Gives the masks that it is made with, from step `start` on."""

    def __init__(self, masks: Any, start: int = 0) -> None:
        self.masks, self.start = masks, start
        self.action_space = ez.EntityActionSpace({"go": ez.Categorical(2), "build": ez.Categorical(2)})
        self.observation_space = ez.EntitySpace({"Ant": ["x"]}, self.action_space)

    def _reset(self, options: Any) -> ez.Observation:
        self.time = 0
        return self._look()

    def _step(self, actions: Any) -> Any:
        self.time += 1
        return self._look(), 0.0, False, False, {}

    def _look(self) -> ez.Observation:
        masks = {name: ez.actions.CategoricalMask() for name in self.masks if self.time >= self.start}
        return ez.Observation({"Ant": [[0]]}, actions=masks)


def test_masks_that_are_left_out_are_found() -> None:
    with raises(ez.errors.ConformanceError, "Masked: ", "actors", "'go'", "'build'", "steps", "got none"):
        ez.check_entity_env(Masked(()), 20)
    with raises(ez.errors.ConformanceError, "'go'", "'build'"):
        ez.check_entity_env(ez.vector.ListVectorEnv([lambda: Masked(())] * 2), 20)


def test_an_action_that_never_has_an_actor_is_a_warning() -> None:
    with warns(UserWarning, "Masked: ", "in 20 steps", "'build'"):
        ez.check_entity_env(Masked(["go"]), 20)


def test_actors_may_be_rare() -> None:
    ez.check_entity_env(Masked(["go", "build"], start=50), 20)


@pytest.mark.parametrize("hidden", [0, 1, 2])
def test_hidden_entities_that_act_or_are_selected_are_found(hidden: int) -> None:
    class Spy(ez.EntityEnv):
        def __init__(self) -> None:
            self.action_space = ez.EntityActionSpace(
                {"Look": ez.SelectEntity(), "Nap": ez.GlobalCategorical(2)}
            )
            self.observation_space = ez.EntitySpace({"Cat": []}, self.action_space, hidden=True)

        def _reset(self, options: dict[str, Any]) -> ez.Observation:
            look = ez.actions.SelectEntityMask(actor_ids=["Tom"], actee_ids=["Kitty"])
            return ez.Observation(
                {"Cat": np.zeros((3, 0))},
                ids={"Cat": ["Tom", "Kitty", "Felix"]},
                visible={"Cat": np.arange(3) != hidden},
                actions={"Look": look, "Nap": ez.actions.GlobalCategoricalMask()},
            )

        def _step(self, actions: dict[str, Any]) -> Any:
            return self._reset({}), 0.0, True, False, {}

    if hidden == 2:
        ez.check_entity_env(Spy())
    else:
        with raises(ez.errors.ConformanceError, "Spy", "'Look'", ("actor", "actee")[hidden], str(hidden)):
            ez.check_entity_env(Spy())


def test_an_environment_without_actions_has_no_actors() -> None:
    class Film(Masked):
        def __init__(self) -> None:
            super().__init__(())
            self.action_space = ez.EntityActionSpace({})
            self.observation_space = ez.EntitySpace({"Ant": ["x"]}, self.action_space)

    ez.check_entity_env(ez.vector.ListVectorEnv([Film]), 5)  # Gymnasium refuses it alone


def test_what_only_gymnasium_finds_is_found() -> None:
    class Shared(Coin):
        shared: dict[str, Any] = {"list": []}  # noqa: RUF012 - that is the mistake

        def step(self, action: Any) -> Any:
            return (*super().step(action)[:4], self.shared)

        def _step(self, actions: Any) -> Any:
            return (*super()._step(actions)[:2], False, False, {})

    with raises(ez.errors.ConformanceError, "Shared", "gymnasium's check_env", "infos"):
        ez.check_entity_env(Shared())

    class OldFashioned(Coin):
        def seed(self, seed: int) -> None:
            """Gymnasium warns of it."""

    with raises(ez.errors.ConformanceError, "OldFashioned", "gymnasium's check_env", "`seed` function"):
        ez.check_entity_env(OldFashioned())


def test_an_environment_that_says_it_is_nondeterministic_may_be() -> None:
    class Dice(Coin):
        def _reset(self, options: Any) -> Any:
            self.np_random = np.random.default_rng()
            return super()._reset(options)

    gymnasium.register("test/Dice-v0", entry_point=lambda **options: Dice(**options), nondeterministic=True)
    try:
        env = gymnasium.make("test/Dice-v0")
        with raises(ez.errors.ConformanceError, "gymnasium's check_env", "random"):
            ez.check_entity_env(env, 30)  # our own checks pass it; Gymnasium's still compare the generators
    finally:
        del gymnasium.registry["test/Dice-v0"]


def test_an_environment_without_spaces_is_found() -> None:
    env = Plain()
    del env.observation_space
    with raises(ez.errors.ConformanceError, "Plain", "observation space", "EntitySpace", "None"):
        ez.check_entity_env(env)


def test_only_environments_can_be_checked() -> None:
    with raises(TypeError, "gymnasium.Env", "EntityVectorEnv", "int"):
        ez.check_entity_env(3)  # type: ignore[arg-type]


class BrokenVector(ez.vector.ListVectorEnv):
    """A vector environment that is broken by changing what it returns."""

    def __init__(self, damage: Callable[[Result], Any], **metadata: Any) -> None:
        super().__init__([lambda: ez.games.MineSweeper(max_steps=5)] * 3)
        self.damage = damage
        self.metadata.update(metadata)

    def step(self, actions: Any) -> Any:
        result = super().step(actions)
        return self.damage(result)


def with_batch(change: Callable[[ez.EntityBatch], ez.EntityBatch]) -> Callable[[Result], Result]:
    return lambda result: (change(result[0]), *result[1:])


def without(key: str) -> Callable[[Result], Result]:
    return lambda result: (*result[:4], {name: part for name, part in result[4].items() if name != key})


def idle(lanes: Any) -> Callable[[Result], Result]:
    return lambda result: (*result[:4], {**result[4], "inactive": lanes})


def poisoned(batch: ez.EntityBatch) -> ez.EntityBatch:
    batch.entities["Robot"].values[-1, 0] = np.nan
    return batch


def barred(batch: ez.EntityBatch) -> ez.EntityBatch:
    batch.actions["Move"].mask.values[0] = False
    return batch


BROKEN_VECTORS: list[tuple[Callable[[Result], Any], tuple[object, ...]]] = [
    (with_batch(poisoned), ("step: env ", "entity type 'Robot'", "feature 'x'", "nan")),
    (with_batch(barred), ("step: env 0", "action 'Move'", "row 0", "'mask'")),
    (with_batch(lambda b: b[:2]), ("step", "2 steps", 3)),
    (lambda r: (r[0], r[1].astype(np.float64), *r[2:]), ("step", "rewards", "float32")),
    (lambda r: (r[0], r[1] + np.float32("nan"), *r[2:]), ("env 0", "reward", "finite")),
    (lambda r: (*r[:2], list(r[2]), *r[3:]), ("step", "terminated", "bool")),
    (without("_final_obs"), ("info['_final_obs']",)),
    (without("final_obs"), ("info['final_obs']", "EntityBatch", 3)),
    (idle(np.ones(3, bool)), ("step: env 0", "inactive", "action 'Move'")),
    (idle([False] * 3), ("step: info['inactive']", "bool (3,)")),
]


@pytest.mark.parametrize(("damage", "facts"), BROKEN_VECTORS)
def test_broken_vector_environments_are_found(
    damage: Callable[[Result], Any], facts: tuple[object, ...]
) -> None:
    with raises(ez.errors.ConformanceError, "BrokenVector: ", *facts):
        ez.check_entity_env(BrokenVector(damage), 30)


def test_a_last_observation_that_is_broken_is_of_the_lane_that_ended() -> None:
    class Third(BrokenVector):
        """Lane 2 ends at its second step, and the others later."""

        def __init__(self, damage: Callable[[Result], Any]) -> None:
            super().__init__(damage)
            self.envs[2].unwrapped.max_steps = 2

    def spoil(result: Result) -> Result:
        if "final_obs" in result[4]:
            assert result[4]["_final_obs"].tolist() == [False, False, True]
            poisoned(result[4]["final_obs"])
        return result

    with raises(ez.errors.ConformanceError, "info['final_obs']: env 2", "'Robot'", "nan"):
        ez.check_entity_env(Third(spoil), 30)


@pytest.mark.parametrize(
    ("mode", "facts"),
    [
        ("SameStep", ("metadata['autoreset_mode']", "AutoresetMode", "'SameStep'")),
        (AutoresetMode.NEXT_STEP, ("metadata['final_obs']", "SAME_STEP")),
    ],
)
def test_a_false_autoreset_mode_is_found(mode: Any, facts: tuple[object, ...]) -> None:
    with raises(ez.errors.ConformanceError, *facts):
        ez.check_entity_env(BrokenVector(lambda result: result, autoreset_mode=mode))


def test_a_vector_environment_that_hands_out_its_own_buffers_is_found() -> None:
    kept: list[ez.EntityBatch] = []

    def reuse(batch: ez.EntityBatch) -> ez.EntityBatch:
        kept.append(batch)
        return kept[0]

    with raises(ez.errors.ConformanceError, "step", "arrays", "returned before"):
        ez.check_entity_env(BrokenVector(with_batch(reuse)))


def test_a_vector_environment_that_ignores_its_seed_is_found() -> None:
    class Unseeded(ez.vector.ListVectorEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return super().reset(options=options)

    with raises(ez.errors.ConformanceError, "Unseeded", "same seed", "reset"):
        ez.check_entity_env(Unseeded([ez.games.MineSweeper] * 2), 30)


def test_the_former_name_of_inactive_lanes_warns_and_names_the_new_one() -> None:
    flags = np.array([True, False])
    with warns(DeprecationWarning, "idle", "inactive"):
        assert ez.vector.inactive_lanes({"idle": flags}, 2).tolist() == [True, False]
    with warns(DeprecationWarning, "idle_lanes", "inactive_lanes"):
        former = ez.vector.idle_lanes  # type: ignore[attr-defined]
    assert former({"inactive": flags}, 2).tolist() == [True, False]
    assert former({}, 2).tolist() == [False, False]
