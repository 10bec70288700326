"""Agents without torch against the torch engine: the same decisions, and clear words about what is wrong."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize import RogueNet, load_agent, make_vec
from entitize.envs import (
    ActionMask,
    EntityActionSpace,
    EntityBatch,
    EntityEnv,
    EntitySpace,
    Observation,
    ObservationError,
    batch_observations,
    space_schema,
    unbatch_observation,
)
from entitize.policies import frozen_weights
from entitize.ragged import RaggedArray
from entitize.trainers import (
    PPO,
    CheckpointError,
    PPOConfig,
    checkpoint_paths,
    evaluate,
    load_policy,
    write_checkpoint,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from facts import raises

ORDER = ez.MultiCategorical(
    {"kind": ["wait", "move", "build"], "where": 4, "what": 3},
    uses={"move": ["where"], "build": ["where", "what"]},
)
ACTIONS: dict[str, Any] = {
    "move": ez.Categorical(["north", "south", "stay"]),
    "mode": ez.GlobalCategorical(3),
    "order": ORDER,
    "aim": ez.SelectEntity(),
    "steer": ez.Continuous([-1.0, 0.0], [1.0, 3.0]),
    "speed": ez.GlobalContinuous(-3.0, 0.5),
}
#: torch refuses some of these as names of modules.
TYPES = {"type": ["x", "y"], "values": [], "dotted.name": ["x"], "100%": [f"f{i}" for i in range(17)]}


class Go(Enum):
    LEFT = 0
    RIGHT = 1


def make_space(
    types: int = 4, actions: Any = ACTIONS, globals_: int = 2, hidden: bool = False
) -> EntitySpace:
    chosen = EntityActionSpace({name: ACTIONS[name] for name in actions})
    entities = dict(list(TYPES.items())[:types])
    return EntitySpace(entities, chosen, [f"g{i}" for i in range(globals_)], hidden)


def make_observations(space: EntitySpace, steps: int, seed: int, most: int = 5) -> list[dict[str, Any]]:
    """Random steps with at most `most` entities of the first type; who is hidden is named by no mask."""
    space.seed(seed)
    observations: list[dict[str, Any]] = []
    while len(observations) < steps:
        observation = space.sample()
        if "type" in space.entities and len(observation["entities"]["type"]) > most:
            continue
        parts = observation["actions"].values()
        named = any(len(part.get(side, ())) for part in parts for side in ("actors", "actees"))
        for flags in observation.get("visible", {}).values():
            flags[:] = flags | named
        observations.append(observation)
    return observations


def save(net: RogueNet, folder: Path) -> Path:
    metadata = {
        "spaces": space_schema(net.observation_space),
        "policy": {"class": "RogueNet", "config": net.config},
    }
    return write_checkpoint(folder / "checkpoints", 1, {"policy": net.state_dict()}, metadata)


def make_pair(
    space: EntitySpace, folder: Path, most: int = 5, **options: Any
) -> tuple[ez.runtime.Agent, RogueNet]:
    """A random network on the torch engine, and an agent of its checkpoint."""
    torch.manual_seed(0)
    net = RogueNet(space, space.actions, engine="torch", **options)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    net.update_normalization(batch_observations(space, make_observations(space, 5, 3, most)))
    return load_agent(save(net, folder), seed=0), net


def assert_same(got: dict[str, RaggedArray], wanted: dict[str, RaggedArray], exactly: bool) -> None:
    assert list(got) == list(wanted)
    for name, array in wanted.items():
        np.testing.assert_array_equal(got[name].offsets, array.offsets)
        assert got[name].dtype == array.dtype
        if exactly and array.dtype.kind == "i":
            np.testing.assert_array_equal(got[name].values, array.values, err_msg=name)
        np.testing.assert_allclose(got[name].values, array.values, rtol=2e-5, atol=2e-5, err_msg=name)


def assert_alike(got: dict[str, NDArray[np.float32]], wanted: dict[str, torch.Tensor]) -> None:
    assert list(got) == list(wanted)
    for name, found in wanted.items():
        np.testing.assert_allclose(got[name], found.detach().numpy(), rtol=2e-5, atol=2e-5, err_msg=name)


@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data())
def test_decisions_are_those_of_the_torch_engine(data: st.DataObject, tmp_path_factory: Any) -> None:
    def draw(strategy: Any) -> Any:
        return data.draw(strategy)

    actions = draw(st.lists(st.sampled_from(list(ACTIONS)), unique=True))
    space = make_space(draw(st.integers(1, 4)), actions, draw(st.integers(0, 2)), draw(st.booleans()))
    options = {
        "d_model": draw(st.sampled_from([8, 20])),
        "n_layer": draw(st.integers(0, 2)),
        "global_features": draw(st.sampled_from(["entity", "concat"])),
        "squash": "steer" in actions and draw(st.booleans()),
        "translation": draw(
            st.sampled_from([None, {"reference": "type", "position": ["x"], "keep_reference": False}])
        ),
        "fourier": draw(st.sampled_from([None, {"features": ["x"], "wavelengths": [3, 7]}])),
        "relative_position": draw(st.sampled_from([None, {"position": ["x"], "extent": [3]}])),
        **draw(st.sampled_from([{}, {"separate_value_net": True, "value_d_model": 12}])),
    }
    most = 1 if options["translation"] else 5  # one origin in a step
    agent, net = make_pair(space, tmp_path_factory.mktemp("pair"), most, **options)
    observations = make_observations(space, draw(st.integers(0, 8)), draw(st.integers(0, 99)), most)
    batch = batch_observations(space, observations)
    for deterministic in (False, True):
        got = agent.act(batch, np.random.default_rng(1), deterministic)
        wanted = net.act(batch, np.random.default_rng(1), deterministic)
        assert_same(got.actions, wanted.actions, True)
        assert_same(got.raw, wanted.raw, True)
        assert_same(got.log_probs, wanted.log_probs, False)
        np.testing.assert_allclose(got.values, wanted.values, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(agent.value(batch), net.value(batch), rtol=2e-5, atol=2e-5)
    assert_alike(agent.log_probs(batch), net.log_probs(batch))
    for step, observation in enumerate(observations):
        alone = agent.act(observation, np.random.default_rng(step))
        row = net.act(batch.gather([step]), np.random.default_rng(step))
        assert_same({name: RaggedArray.from_arrays([v]) for name, v in alone.items()}, row.actions, True)
        np.testing.assert_allclose(agent.value(observation), wanted.values[[step]], rtol=2e-5, atol=2e-5)
        assert_alike(agent.log_probs(observation), net.log_probs(batch.gather([step])))


def test_without_a_generator_an_agent_draws_from_its_own(tmp_path: Path) -> None:
    space = make_space()
    path = save(RogueNet(space, space.actions), tmp_path)
    observation = next(o for o in make_observations(space, 20, 0) if len(o["actions"]["order"]["actors"]) > 2)
    orders = [[agent.act(observation)["order"].tolist() for _ in range(5)] for agent in
              (load_agent(path, seed=1), load_agent(path, seed=1), load_agent(path, seed=2))]  # fmt: skip
    assert orders[0] == orders[1] != orders[2]
    agent = load_agent(path)
    assert agent.act(observation, deterministic=True)["order"].tolist() == (
        agent.act(observation, deterministic=True)["order"].tolist()
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: Any) -> Path:
    """A short run of PPO."""
    path: Path = tmp_path_factory.mktemp("run")
    with make_vec("entitize/MineSweeper-v0", num_envs=4) as venv:
        policy = RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
        PPO(policy, venv, PPOConfig(total_timesteps=64, num_steps=8, checkpoint_interval=32), path).train()
    return path


def test_an_agent_of_a_run_plays_as_the_trained_network(run: Path) -> None:
    agent, net = ez.load_agent(run), load_policy(run)
    assert agent.observation_space == net.observation_space and agent.action_space == net.action_space
    with make_vec("entitize/MineSweeper-v0", num_envs=3) as venv:
        results = [evaluate(player, venv, episodes=6, seed=4) for player in (agent, net)]
    np.testing.assert_array_equal(results[0].returns, results[1].returns)
    np.testing.assert_array_equal(results[0].lengths, results[1].lengths)
    older = checkpoint_paths(run / "checkpoints")[0]
    assert isinstance(load_agent(older), ez.runtime.Agent)


def test_an_agent_plays_an_environment_by_its_plain_observations(run: Path) -> None:
    import gymnasium

    agent = ez.load_agent(run, seed=0)
    with gymnasium.make("entitize/MineSweeper-v0") as env:
        observation, _ = env.reset(seed=0)
        for _ in range(20):
            observation, _, terminated, truncated, _ = env.step(agent.act(observation))
            if terminated or truncated:
                observation, _ = env.reset()


def test_acting_needs_no_torch(run: Path) -> None:
    program = (
        "import sys, gymnasium, entitize as ez\n"
        "agent = ez.load_agent(sys.argv[1])\n"
        "observation, _ = gymnasium.make('entitize/MineSweeper-v0').reset(seed=0)\n"
        "action = agent.act(observation)\n"
        "agent.value(observation)\n"
        "batch, _ = ez.make_vec('entitize/MineSweeper-v0', num_envs=2).reset(seed=0)\n"
        "agent.act(batch, deterministic=True)\n"
        "print(sorted(action), [name for name in sys.modules if name.split('.')[0] == 'torch'])"
    )
    result = subprocess.run([sys.executable, "-c", program, run], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == f"{sorted(load_agent(run).action_space)} []"


# -- an author's own observations ----------------------------------------------------------------------------


class Hunt(EntityEnv):
    def __init__(self) -> None:
        self.action_space = EntityActionSpace({"go": ez.Categorical(Go), "mood": ez.GlobalCategorical(2)})
        self.observation_space = EntitySpace({"Cat": ["x"], "Mouse": ["x"]}, self.action_space)

    def _reset(self, options: Any) -> Observation:
        raise NotImplementedError

    def _step(self, actions: Any) -> Any:
        raise NotImplementedError


def hunt(*cats: str, mouse: float = 2.0) -> Observation:
    return Observation(
        {"Cat": [[float(i)] for i in range(2)], "Mouse": [[mouse]]},
        ids={"Cat": ["Tom", "Kit"]},
        actions={"go": ez.actions.CategoricalMask(actor_ids=list(cats), mask=[[False, True]] * len(cats))},
    )


@pytest.fixture
def hunter(tmp_path: Path) -> ez.runtime.Agent:
    env = Hunt()
    return load_agent(save(RogueNet(env.observation_space, env.action_space), tmp_path), seed=0)


def test_orders_come_back_with_the_ids_of_the_observation(hunter: ez.runtime.Agent) -> None:
    decided = hunter.act(hunt("Kit", "Tom"))
    assert list(decided) == ["go"], "nobody asked for a mood"
    go = decided["go"]
    assert isinstance(go, ez.actions.CategoricalAction)
    assert go.actors == ["Kit", "Tom"] and go.labels == ["RIGHT", "RIGHT"]


def test_the_value_is_of_any_observation_that_act_takes(hunter: ez.runtime.Agent) -> None:
    value = hunter.value(hunt("Tom"))
    assert value.shape == (1,) and np.isfinite(value).all()
    with raises(ObservationError, "Dog"):
        hunter.value(Observation({"Dog": [[0.0]]}))


def test_a_game_gets_a_member_of_its_own_enum(hunter: ez.runtime.Agent) -> None:
    assert hunter.choose(hunt("Tom"), Go) is Go.RIGHT
    with raises(ObservationError, "action 'go'", 2, 1):
        hunter.choose(hunt("Tom", "Kit"), Go)
    with raises(TypeError, "Other (UP)", 0, "'go'"):
        hunter.choose(hunt("Tom"), Enum("Other", ["UP"]))


def test_a_global_choice_is_a_member_too(tmp_path: Path) -> None:
    @ez.entity
    class Player:
        x: float

    spaces = ez.declare(entities=[Player], actions={"go": ez.GlobalCategorical(Go)})
    agent = load_agent(save(RogueNet(*spaces), tmp_path))
    assert agent.choose(ez.Obs(Player(1.0), actions={"go": [Go.LEFT]}), Go) is Go.LEFT


# -- what is wrong -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (lambda o: o["entities"].pop("Cat"), ["'entities'", "'Cat'"]),
        (lambda o: o["entities"].update(Dog=0), ["'entities'", "unknown", "'Dog'"]),
        (
            lambda o: o["entities"].update(Cat=np.zeros((1, 2), np.float32)),
            ["entity type 'Cat' (x)", "(1, 2)"],
        ),
        (lambda o: o["entities"].update(Cat=np.zeros((1, 1))), ["'Cat' (x)", "float64"]),
        (lambda o: o["entities"].update(Cat=[[1.0]]), ["'Cat'", "list"]),
        (lambda o: o["entities"]["Mouse"].fill(np.nan), ["'Mouse'", "feature 'x'", 0, "nan"]),
        (lambda o: o["actions"]["go"].pop("actors"), ["action 'go'", "'actors'"]),
        (lambda o: o["actions"]["go"].update(mask=np.ones((1, 3), np.int8)), ["action 'go'", "'mask'"]),
        (
            lambda o: o["actions"]["go"].update(actors=np.zeros(2, np.int64)),
            ["action 'go'", "'actors'", "twice"],
        ),
        (lambda o: o["actions"].pop("mood"), ["'actions'", "'mood'"]),
        (lambda o: o.pop("entities"), ["observation", "'entities'"]),
        (lambda o: o["actions"]["mood"].update(mask=np.ones((2, 2), np.int8)), ["action 'mood'"]),
        (lambda o: o.update(visible={"Cat": np.zeros(1, np.int8)}), ["observation", "'visible'"]),
        (lambda o: o.update(globals=np.zeros(0, np.float32)), ["observation", "'globals'"]),
        (lambda o: o.update(entity=o["entities"]), ["observation", "'entity'", "'entities'"]),
        (lambda o: o["actions"]["go"].update(actees=np.zeros(1, np.int64)), ["action 'go'", "'actees'"]),
        (lambda o: o["actions"]["mood"].update(actors=np.zeros(1, np.int64)), ["action 'mood'", "'actors'"]),
    ],
)
def test_a_wrong_observation_is_an_error_that_names_the_culprit(
    hunter: ez.runtime.Agent, change: Any, facts: list[object]
) -> None:
    good = {
        "entities": {"Cat": np.zeros((1, 1), np.float32), "Mouse": np.ones((1, 1), np.float32)},
        "actions": {
            "go": {"actors": np.zeros(1, np.int64), "mask": np.ones((1, 2), np.int8)},
            "mood": {"mask": np.ones((1, 2), np.int8)},
        },
    }
    hunter.act(good)
    change(good)
    for ask in (hunter.act, hunter.value):
        with raises(ObservationError, *facts):
            ask(good)


def test_a_flag_of_an_unknown_type_is_an_error(tmp_path: Path) -> None:
    space = make_space(2, ["move"], hidden=True)
    agent, _ = make_pair(space, tmp_path)
    (observation,) = make_observations(space, 1, 0)
    agent.act(observation)
    observation["visible"]["typ"] = np.zeros(1, np.int8)
    with raises(ObservationError, "'visible'", "'typ'"):
        agent.act(observation)


def test_masks_and_actors_that_do_not_fit_are_errors(hunter: ez.runtime.Agent) -> None:
    def observe(actor: int, flags: list[int]) -> dict[str, Any]:
        return {
            "entities": {"Cat": np.zeros((1, 1), np.float32), "Mouse": np.ones((1, 1), np.float32)},
            "actions": {
                "go": {"actors": np.array([actor]), "mask": np.array([flags], np.int8)},
                "mood": {"mask": np.ones((0, 2), np.int8)},
            },
        }

    with raises(ObservationError, "'go'", 2, 5):
        hunter.act(observe(5, [1, 1]))
    with raises(ObservationError, "action 'go'", "mask"):
        hunter.act(observe(0, [0, 0]))
    for actor, flags in ((5, [1, 1]), (0, [0, 0]), (0, [7, 1]), (0, [-1, 1])):
        with raises(ObservationError, "'go'"):
            hunter.act(observe(actor, flags))
    twice = observe(0, [1, 1])
    twice["actions"]["go"] = {"actors": np.array([0, 0]), "mask": np.ones((2, 2), np.int8)}
    with raises(ObservationError, "'go'", "actors"):
        hunter.act(twice)
    with raises(ObservationError, "the game", "entity type 'Mouse'", "feature 'x'", 0, "inf"):
        hunter.act(hunt("Tom", mouse=np.inf))
    assert len(hunter.act(observe(1, [0, 1]))["mood"]) == 0


def test_types_of_different_batches_do_not_mix(hunter: ez.runtime.Agent) -> None:
    space = hunter.observation_space
    batch = batch_observations(space, make_observations(space, 3, 0))
    mixed = EntityBatch({**batch.entities, "Cat": batch.entities["Cat"][:2]}, batch.globals, batch.actions)
    with raises(ValueError, "entity type 'Cat'", 2, 3):
        hunter.act(mixed)


def test_an_agent_reads_wider_spaces(tmp_path: Path) -> None:
    space = make_space(2, ["move"], 1)
    agent, _ = make_pair(space, tmp_path)
    wide = EntitySpace({"new": ["q"], "type": ["y", "z", "x"], "values": []}, space.actions, ["h", "g0"])
    observation = {
        "entities": {
            "new": np.ones((2, 1), np.float32),
            "type": np.array([[2, 9, 1]], np.float32),
            "values": np.zeros((1, 0), np.float32),
        },
        "globals": np.array([7, 3], np.float32),
        "actions": {"move": {"actors": np.array([2]), "mask": np.ones((1, 3), np.int8)}},
    }
    narrow = {
        "entities": {"type": np.array([[1, 2]], np.float32), "values": np.zeros((1, 0), np.float32)},
        "globals": np.array([3], np.float32),
        "actions": {"move": {"actors": np.array([0]), "mask": np.ones((1, 3), np.int8)}},
    }
    value = agent.value(narrow)
    agent.adapt_to(wide)
    np.testing.assert_allclose(agent.value(observation), value, rtol=1e-5)
    assert agent.act(observation, deterministic=True)["move"].shape == (1,)
    agent.adapt_to(space)
    np.testing.assert_array_equal(agent.value(narrow), value)
    with raises(ValueError, "entity type 'values'"):
        agent.adapt_to(EntitySpace({"type": ["x", "y"]}, space.actions, ["g0"]))
    with raises(TypeError, "EntitySpace", "list"):
        agent.adapt_to(["type"])  # type: ignore[arg-type]
    kept = {name: list(features) for name, features in space.entities.items()}
    with raises(ValueError, "actions", "'move'", "'jump'"):
        agent.adapt_to(EntitySpace(kept, EntityActionSpace({"jump": space.actions["move"]}), ["g0"]))
    with raises(ValueError, "actions", "'move'", "'fly'"):
        agent.adapt_to(EntitySpace(kept, EntityActionSpace({"move": ez.Categorical(["fly"])}), ["g0"]))


def test_a_new_type_does_not_act(tmp_path: Path) -> None:
    space = EntitySpace({"Cat": ["x"]}, EntityActionSpace({"go": ez.Categorical(["on", "back"])}))
    agent, _ = make_pair(space, tmp_path)
    agent.adapt_to(EntitySpace({"Cat": ["x"], "Dog": ["x"]}, space.actions))
    rows, ids = {"Cat": [[1.0]], "Dog": [[1.0], [2.0]]}, {"Cat": ["Tom"], "Dog": ["Rex", "Ace"]}

    def act(*actors: str) -> Any:
        mask = ez.actions.CategoricalMask(actor_ids=actors)
        return agent.act(ez.Observation(rows, ids=ids, actions={"go": mask}))

    assert act("Tom")["go"].actors == ["Tom"]
    with raises(ez.ObservationError, "'go'", "types that the network knows", "entity 2"):
        act("Tom", "Ace")


# -- checkpoints ---------------------------------------------------------------------------------------------


def test_corrupt_and_foreign_checkpoints_are_refused(tmp_path: Path) -> None:
    space = make_space(1, ["move"], 0)
    path = save(RogueNet(space, space.actions), tmp_path)
    content = (path / "policy.safetensors").read_bytes()
    (path / "policy.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with raises(CheckpointError, "policy.safetensors", "changed"):
        load_agent(path)
    (path / "checkpoint.json").unlink()
    with raises(CheckpointError, path, "checkpoint.json"):
        load_agent(path)
    with raises(CheckpointError, "checkpoint", tmp_path / "nowhere"):
        load_agent(tmp_path / "nowhere")
    sound = save(RogueNet(space, space.actions), tmp_path / "sound")
    with raises(CheckpointError, sound.parent, "the newest in it", sound.name):
        load_agent(sound.parent)
    for seed in (-1, "a", 1.5):
        with raises(ValueError, "seed", seed):
            load_agent(sound, seed)  # type: ignore[arg-type]
    (tmp_path / "empty" / "checkpoints").mkdir(parents=True)
    with raises(CheckpointError, tmp_path / "empty", "no checkpoint"):
        load_agent(tmp_path / "empty")
    net = RogueNet(space, space.actions)
    net.config["d_model"] = 24
    with raises(CheckpointError, "wider", "(24, 2)", "(16, 2)"):
        load_agent(save(net, tmp_path / "wider"))
    net.config["d_modell"] = 16
    with raises(CheckpointError, "misspelt", "d_modell"):
        load_agent(save(net, tmp_path / "misspelt"))


def test_what_the_kernels_can_not_run_runs_on_torch(tmp_path: Path, monkeypatch: Any) -> None:
    space = make_space(2, ["move", "aim"], 1)
    agent, net = make_pair(space, tmp_path, pooling="mean")
    batch = batch_observations(space, make_observations(space, 4, 1))
    got, wanted = (player.act(batch, np.random.default_rng(0)) for player in (agent, net.eval()))
    assert got.actions == wanted.actions
    observation = unbatch_observation(space, batch, 2)
    assert set(agent.act(observation)) == {"move", "aim"}
    np.testing.assert_allclose(agent.value(observation), wanted.values[[2]], rtol=1e-5)
    assert_alike(agent.log_probs(batch), net.log_probs(batch))

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "torch" else found(name, *more)
    )
    with raises(ImportError, "torch", "pooling", "pip install 'entitize"):
        load_agent(tmp_path)


# -- rollouts ------------------------------------------------------------------------------------------------


def test_parameters_are_read_once_while_they_are_constant() -> None:
    space = make_space(2, ["move"], 1)
    net = RogueNet(space, space.actions, engine="fused")
    with torch.no_grad():
        net.value_head.proj.weight.add_(1.0)
    batch = batch_observations(space, make_observations(space, 3, 1))
    before = net.value(batch)
    assert net.engine.name == "fused"

    def move(amount: float) -> None:
        with torch.no_grad():
            net.value_head.proj.bias.add_(amount)

    with frozen_weights(net):
        np.testing.assert_array_equal(net.value(batch), before)
        move(4.0)  # against the promise, to see what is read
        np.testing.assert_array_equal(net.value(batch), before)
        move(-4.0)
        net.update_normalization(batch)
        moved = net.value(batch)
        assert not np.array_equal(moved, before), "the statistics have moved"
        move(4.0)
        np.testing.assert_array_equal(net.value(batch), moved)
    np.testing.assert_allclose(net.value(batch), moved + 4.0, rtol=1e-5)
    move(4.0)
    np.testing.assert_allclose(net.value(batch), moved + 8.0, rtol=1e-5)
    with frozen_weights(net):
        np.testing.assert_allclose(net.value(batch), moved + 8.0, rtol=1e-5)
    with frozen_weights(object()):  # whatever knows nothing of it
        pass


def test_masks_of_batches_are_checked_as_before(hunter: ez.runtime.Agent) -> None:
    space = hunter.observation_space
    batch = batch_observations(space, make_observations(space, 2, 0))
    mask = batch.actions["go"]
    wrong = ActionMask(mask.actors, mask.mask.with_values(np.ones((mask.mask.num_items, 3), bool)))
    with raises(ValueError, "action 'go'", "mask", "shape"):
        hunter.act(EntityBatch(batch.entities, batch.globals, {**batch.actions, "go": wrong}))


def test_an_entity_that_can_be_selected_twice_is_an_error(tmp_path: Path) -> None:
    space = make_space(2, ["aim"], globals_=0)
    agent, _ = make_pair(space, tmp_path)
    rows = {"type": np.zeros((2, 2), np.float32), "values": np.zeros((0, 0), np.float32)}

    def observe(*actees: int) -> dict:
        aim = {"actors": np.array([0]), "actees": np.array(actees), "mask": np.ones(len(actees), np.int8)}
        return {"entities": rows, "actions": {"aim": aim}}

    agent.act(observe(0, 1))
    with raises(ObservationError, "action 'aim'", "actees", "twice"):
        agent.act(observe(1, 1))


def test_a_game_may_ask_for_the_most_probable_member(tmp_path: Path) -> None:
    @ez.entity
    class Player:
        x: float

    torch.manual_seed(0)
    net = ez.RogueNet(*ez.declare(entities=[Player], actions={"go": ez.Categorical(Go)}))
    agent = load_agent(ez.save_policy(net, tmp_path / "net"), seed=0)
    seen = ez.Obs(Player(1.0))
    assert {agent.choose(seen, Go) for _ in range(50)} == {agent.act(seen, Go) for _ in range(50)} == set(Go)
    assert len({agent.choose(seen, Go, deterministic=True) for _ in range(50)}) == 1
    assert len({agent.act(seen, Go, deterministic=True) for _ in range(50)}) == 1
