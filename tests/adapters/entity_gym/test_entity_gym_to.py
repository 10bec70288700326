"""`to_entity_gym`: ours in Entity Gym, its own checks, and the way there and back."""

from functools import partial
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.adapters.entity_gym import RandomStreams
from entitize.adapters.entity_gym import entity_gym as eg
from entity_gym.examples import ENV_REGISTRY, MineSweeper
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit
from ragged_buffer import RaggedBufferI64

from facts import raises

CANNON = partial(MineSweeper, orbital_cannon=True, cooldown_period=1, nmines=3)
ACTIONS = ez.EntityActionSpace(
    {
        "move": ez.Categorical(["stay", "go"]),
        "hit": ez.SelectEntity(),
        "horn": ez.GlobalCategorical(["off", "on"]),
    },
    optional=True,
)


class Yard(ez.EntityEnv):
    """Cats move, dogs hit cats by pairs, and there is a horn at times; it remembers what it was told."""

    def __init__(self, horn: bool = True) -> None:
        self.action_space = ACTIONS
        self.observation_space = ez.EntitySpace(
            {"Cat": ["x"], "Dog": ["x", "y"], "Post": []}, ACTIONS, ["time"], True
        )
        self.told: list[dict[str, Any]] = []
        self.always_horn = horn

    def _reset(self, options: dict[str, Any]) -> ez.Observation:
        self.time = 0
        return self._look()

    def _step(self, actions: dict[str, Any]) -> Any:
        self.told.append(actions)
        self.time += 1
        info = {"deep": {"time": self.time}, "name": "yard", "won": np.bool_(True), "array": np.zeros(3)}
        return self._look(), 0.5, self.time == 6, False, info

    def _look(self) -> ez.Observation:
        rng = self.np_random
        cats, dogs, posts = (int(n) for n in rng.integers((1, 0, 0), (4, 3, 3)))
        pairs = rng.random((dogs, cats)) < 0.5
        pairs[:, 0] = True
        masks: dict[str, Any] = {
            "move": ez.actions.CategoricalMask(
                actor_types=["Cat"], mask=[[True, i % 2 == 0] for i in range(cats)]
            ),
            "hit": ez.actions.SelectEntityMask(actor_types=["Dog"], actee_types=["Cat"], mask=pairs),
        }
        if self.always_horn or self.time % 2:
            masks["horn"] = ez.actions.GlobalCategoricalMask([self.time % 3 != 0, True])
        return ez.Observation(
            {
                "Cat": rng.normal(size=(cats, 1)),
                "Dog": rng.normal(size=(dogs, 2)),
                "Post": np.zeros((posts, 0)),
            },
            globals=[self.time],
            actions=masks,
            visible={"Post": np.zeros(posts)},
        )


#: Ours, from which everything goes there and back.
OURS: dict[str, Any] = {
    "Yard": Yard,
    "Yard with a horn at times": partial(Yard, horn=False),
    "MineSweeper": partial(gymnasium.make, "entitize/MineSweeper-v0"),
    "Xor": partial(gymnasium.make, "entitize/Xor-v0", answer="actor"),
    "CartPole": lambda: ez.wrap(gymnasium.make("CartPole-v1")),
}


def random_actions(env: Any, seen: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Legal actions for an observation of theirs."""
    actions: dict[str, Any] = {}
    for name, mask in seen.actions.items():
        space = env.action_space()[name]
        if isinstance(mask, eg.GlobalCategoricalActionMask):
            allowed = np.ones(len(space)) if mask.mask is None else np.asarray(mask.mask).reshape(-1)
            choice = int(rng.choice(np.flatnonzero(allowed)))
            actions[name] = eg.GlobalCategoricalAction(choice, space.index_to_label[choice])
        elif isinstance(mask, eg.CategoricalActionMask):
            choices = np.array([rng.choice(np.flatnonzero(row)) for row in mask.mask], np.int64)
            actions[name] = eg.CategoricalAction(mask.actor_ids, choices, space.index_to_label)
        else:
            shape = (len(mask.actor_ids), len(mask.actee_ids))
            pairs = np.ones(shape) if mask.mask is None else mask.mask
            actees = [mask.actee_ids[rng.choice(np.flatnonzero(row))] for row in pairs]
            actions[name] = eg.SelectEntityAction(mask.actor_ids, actees)
    return actions


@pytest.mark.parametrize("name", OURS)
def test_ours_passes_their_checks_and_shows_what_there_is(name: str) -> None:
    env, ours = ez.to_entity_gym(OURS[name](), seed=4), OURS[name]()
    checked, rng = eg.ValidatingEnv(env), np.random.default_rng(0)
    assert list(checked.obs_space().entities) == list(ours.observation_space.entities)
    assert checked.obs_space().global_features == list(ours.observation_space.global_features)
    seen, (plain, _) = checked.reset(), ours.reset(seed=4)
    for _ in range(30):
        assert all(np.array_equal(seen.features[t], rows) for t, rows in plain.get("entities", {}).items())
        assert np.array_equal(seen.global_features, plain.get("globals", []))
        assert list(seen.ids) == list(ours.observation_space.entities)
        actions = random_actions(checked, seen, rng)
        orders = {
            n: [a.index]
            if isinstance(a, eg.GlobalCategoricalAction)
            else getattr(a, "indices", getattr(a, "actees", None))
            for n, a in actions.items()
        }
        seen = checked.act(actions)
        plain, reward, terminated, truncated, _ = ours.step(orders)
        assert (seen.reward, seen.done) == (reward, terminated or truncated)
        if seen.done:
            seen, (plain, _) = checked.reset(), ours.reset()


@pytest.mark.parametrize("name", OURS)
def test_there_and_back_ours_is_the_same(name: str) -> None:
    there = ez.to_entity_gym(OURS[name](), seed=7)
    back, ours = ez.from_entity_gym(there), OURS[name]()
    there.seed = 7  # the look at what is hidden has used the first
    assert back.observation_space == ours.observation_space
    seen, (expected, _) = back.reset()[0], ours.reset(seed=7)
    ours.action_space.seed(1)
    for _ in range(30):
        assert data_equivalence(seen, expected, exact=True)
        action = ours.action_space.sample(mask=expected)
        seen, *rest, _ = back.step(action)
        expected, reward, terminated, truncated, _ = ours.step(action)
        assert rest == [reward, terminated or truncated, False]
        if terminated or truncated:
            (seen, _), (expected, _) = back.reset(), ours.reset()


@pytest.mark.parametrize("name", [*ENV_REGISTRY, "Cannon"])
def test_there_and_back_theirs_is_the_same(name: str) -> None:
    make = {**ENV_REGISTRY, "Cannon": CANNON}[name]
    back = eg.ValidatingEnv(ez.to_entity_gym(ez.from_entity_gym(make), seed=5))
    streams, rng = RandomStreams(5), np.random.default_rng(2)
    with RandomStreams(0).drawn_from():
        original = make()
    assert back.obs_space() == original.obs_space()
    assert back.action_space() == original.action_space()
    with streams.drawn_from():
        expected = original.reset()
    seen = back.reset()
    for _ in range(20):
        names = same_observation(seen, expected, original.obs_space())
        actions = random_actions(back, seen, rng)
        theirs = {n: translated(action, names) for n, action in actions.items()}
        for n, mask in expected.actions.items():  # what was left out because nobody could be selected
            if n not in theirs and not isinstance(mask, eg.GlobalCategoricalActionMask):
                theirs[n] = eg.SelectEntityAction([], [])
        seen = back.act(actions)
        with streams.drawn_from():
            expected = original.act(theirs)
            assert seen.done == expected.done
            assert seen.reward == pytest.approx(expected.reward)
            if seen.done:
                expected = original.reset()
        if seen.done:
            seen = back.reset()


def translated(action: Any, names: list[Any]) -> Any:
    """An action on entity indices as one on the original ids."""
    if isinstance(action, eg.GlobalCategoricalAction):
        return action
    actors = [names[i] for i in action.actors]
    if isinstance(action, eg.CategoricalAction):
        return eg.CategoricalAction(actors, action.indices, action.index_to_label)
    return eg.SelectEntityAction(actors, [names[i] for i in action.actees])


def same_observation(seen: Any, expected: Any, space: Any) -> list[Any]:
    """Compares all but the ids, and returns the original id of each entity."""
    names: list[Any] = []
    for name, entity in space.entities.items():
        given = expected.features.get(name, [])
        rows = np.array(given, np.float32).reshape(len(given), len(entity.features))
        assert np.array_equal(seen.features[name], rows)
        names += list(expected.ids.get(name, [None] * len(rows)))
        everything = np.ones(len(rows))
        assert np.array_equal(seen.visible.get(name, everything), expected.visible.get(name, everything))
    assert np.array_equal(seen.global_features, expected.global_features)
    assert seen.metrics == expected.metrics
    for name, mask in seen.actions.items():
        other = expected.actions[name]
        assert type(mask) is type(other)
        if isinstance(mask, eg.GlobalCategoricalActionMask):
            assert mask.mask is other.mask is None
        elif other.actor_ids is not None:
            assert [names[i] for i in mask.actor_ids] == list(other.actor_ids)
        if isinstance(mask, eg.CategoricalActionMask) and len(mask.actor_ids):
            assert np.array_equal(mask.mask, np.ones(mask.mask.shape) if other.mask is None else other.mask)
    return names


def test_their_vector_environment_takes_ours() -> None:
    venv = eg.EnvList(lambda: ez.to_entity_gym(Yard(), seed=3), 3)
    alone = [Yard() for _ in range(3)]
    batch = venv.reset(venv.obs_space())
    plain = [env.reset(seed=3)[0] for env in alone]
    for _ in range(12):
        for name in ("Cat", "Dog"):
            assert np.array_equal(
                batch.features[name].as_array(), np.concatenate([p["entities"][name] for p in plain])
            )
            assert batch.features[name].size1().tolist() == [len(p["entities"][name]) for p in plain]
        orders = [env.action_space.sample(mask=p) for env, p in zip(alone, plain, strict=True)]
        for lane, (actors, mask) in enumerate(
            (p["actions"]["move"]["actors"], p["actions"]["move"]["mask"]) for p in plain
        ):
            assert batch.action_masks["move"].actors[lane].as_array().reshape(-1).tolist() == actors.tolist()
            assert np.array_equal(batch.action_masks["move"].mask[lane].as_array(), mask)
        sent = {}
        for name in ACTIONS:
            choices = [order[name] for order in orders]
            if name == "hit":  # their actees are counted among those that can be selected
                choices = [
                    np.searchsorted(p["actions"]["hit"]["actees"], c)
                    for p, c in zip(plain, choices, strict=True)
                ]
            flat = np.concatenate(choices).astype(np.int64).reshape(-1, 1)
            sent[name] = RaggedBufferI64.from_flattened(flat, np.array([len(c) for c in choices], np.int64))
        batch = venv.act(sent, venv.obs_space())
        plain = []
        for lane, (env, order) in enumerate(zip(alone, orders, strict=True)):
            seen, reward, ended, _, _ = env.step(order)
            assert (batch.reward[lane], batch.done[lane]) == (reward, ended)
            plain.append(env.reset()[0] if ended else seen)
    venv.close()


def test_infos_become_metrics() -> None:
    env = ez.to_entity_gym(RecordEpisodeStatistics(TimeLimit(Yard(), 2)), seed=1)
    env.reset()
    assert env.act({}).metrics == {"deep/time": 1.0, "won": 1.0}
    last = env.act({})
    assert last.done  # truncated
    assert {"deep/time", "won", "episode/r", "episode/l", "episode/t"} == set(last.metrics)
    assert last.metrics["episode/l"] == 2.0


def test_a_masked_selection_is_an_error_or_becomes_a_legal_one_and_is_counted() -> None:
    env = ez.to_entity_gym(Yard(), illegal="replace")
    for seed in range(50):
        env.seed = seed
        seen = env.reset()
        mask = seen.actions["hit"]
        if mask.mask is not None and not mask.mask[0].all():
            break
    barred = mask.actee_ids[int(mask.mask[0].argmin())]
    action = {"hit": eg.SelectEntityAction(mask.actor_ids, [barred] * len(mask.actor_ids))}
    strict = ez.to_entity_gym(Yard(), seed=seed)
    strict.reset()
    with raises(ez.ActionError, "Yard", "action 'hit'", barred):
        strict.act(action)
    after = env.act(action)
    assert after.metrics["forbidden_selections"] >= 1
    assert env.env.told[0]["hit"].actees[0] == mask.actee_ids[0]


def test_actors_may_come_in_any_order() -> None:
    env = ez.to_entity_gym(Yard())
    actors: list[int] = []
    while len(actors) < 3:
        actors = env.reset().actions["move"].actor_ids
    env.act({"move": eg.CategoricalAction([2, 0, 1], np.array([1, 1, 0]), ["stay", "go"])})
    assert env.env.told[0]["move"].choices.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("actions", "facts"),
    [
        (
            {"fly": eg.GlobalCategoricalAction(0, "x")},
            ["Yard", "action 'fly'", "'move'", "'hit'", "'horn'"],
        ),
        (
            {"move": eg.CategoricalAction([9], np.array([0]), [])},
            ["Yard", "action 'move'", "actor 9"],
        ),
        (
            {"move": eg.CategoricalAction([0, 0], np.array([0, 0]), [])},
            ["action 'move'", "actor"],
        ),
        ({"move": eg.CategoricalAction([0, 1], np.array([0]), [])}, ["action 'move'", 1, 2]),
        ({"horn": eg.GlobalCategoricalAction(5, "x")}, ["action 'horn'", 5]),
        ({"hit": eg.SelectEntityAction([1], [99])}, ["actor 1"]),
    ],
)
def test_actions_that_there_are_not_are_refused(actions: Any, facts: list[object]) -> None:
    env = ez.to_entity_gym(Yard(), seed=2)
    with raises(gymnasium.error.ResetNeeded, "Yard", "reset()"):
        env.act({})
    env.reset()
    with raises(ez.ActionError, *facts):
        env.act(actions)
    env.act({})


def test_an_action_that_is_left_out_is_named() -> None:
    env = ez.to_entity_gym(gymnasium.make("entitize/Xor-v0"), seed=1)
    env.reset()
    with raises(ez.ActionError, "Xor", "action 'Answer'", 1):
        env.act({})
    env.act({"Answer": eg.GlobalCategoricalAction(0, "0")})


def test_an_actor_that_is_left_out_is_named() -> None:
    env = ez.to_entity_gym(Yard())
    while len(env.reset().actions["move"].actor_ids) < 2:
        pass
    with raises(ez.ActionError, "Yard", "action 'move'", "actor 1"):
        env.act({"move": eg.CategoricalAction([0], np.array([0]), [])})


def test_what_entity_gym_does_not_know_is_refused_by_name() -> None:
    class Steered(Yard):
        def __init__(self, action: ez.envs.ActionSpace) -> None:
            self.action_space = ez.EntityActionSpace({"steer": action})
            self.observation_space = ez.EntitySpace({"Cat": ["x"]}, self.action_space)

    for action in (ez.Continuous(-1, 1), ez.MultiCategorical({"kind": 2, "where": 3})):
        with raises(TypeError, "Steered", "action 'steer'", repr(action)):
            ez.to_entity_gym(Steered(action))
    with raises(TypeError, "CartPole-v1", "entity environment"):
        ez.to_entity_gym(gymnasium.make("CartPole-v1"))


def test_frames_and_closing_are_the_environments() -> None:
    inner = gymnasium.make("entitize/MineSweeper-v0", render_mode="rgb_array")
    env = ez.to_entity_gym(inner, seed=1)
    env.reset()
    assert np.array_equal(env.render(mode="rgb_array"), inner.render())
    env.close()
    env.close()
