"""ONNX files give what torch gives: at steps of all games, of kept runs, and with any number of entities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import onnxruntime
import pytest
import torch
from entitize import RogueNet, export_onnx
from entitize.envs import (
    Continuous,
    EntityBatch,
    EntitySpace,
    EntityVectorEnv,
    SelectEntity,
    batch_observations,
    unbatch_observation,
)
from entitize.experiments import EnvChoice, make_environments, read_run_config

Arrays = dict[str, np.ndarray]

RESULTS = Path(__file__).parents[3] / "experiments" / "results"
GAMES = sorted(name for name in gymnasium.registry if name.startswith("entitize/") and "Padded" not in name)
SOME_GAMES = ["CherryPick", "MineSweeper", "MultiSnake", "PickMatchingBalls", "RockPaperScissors", "Xor"]
XY = ("x", "y")
TURN = {"rotation_vector": ("cos", "sin")}

OPTIONS: list[dict[str, Any]] = [
    {},
    {"n_layer": 0},
    {"separate_value_net": True, "value_d_model": 8, "value_n_layer": 1},
    {"global_features": "concat"},
    {"composite": "all"},
    {"squash": True, "log_std_init": -0.5},
    {"pooling": "mean"},
    {"pooling": "max"},
    {"pooling": "meanmax"},
    {"fourier": {"features": XY, "wavelengths": (2, 4, 8.3)}},
    {"translation": {"reference": "Player", "position": XY}},
    {"translation": {"reference": "Player", "position": XY, "add_distance": True, **TURN}},
    {
        "translation": {
            "reference": "Player",
            "position": XY,
            "rotation_angle": "angle",
            "keep_reference": False,
        }
    },
    {
        "translation": {"reference": "Player", "position": XY, "keep_reference": False, **TURN},
        "fourier": {"features": XY, "wavelengths": (5,)},
        "global_features": "concat",
    },
    {"relative_position": {"extent": (3, 2), "position": XY}},
    {
        "relative_position": {
            "extent": (3, 2),
            "position": XY,
            "scale": 0.7,
            "per_entity_values": True,
            "exclude": ("Food",),
            "value_gate": None,
        }
    },
    {
        "relative_position": {
            "extent": (8,),
            "position": XY,
            "radial": True,
            "rotation_angle": "angle",
            "interpolate": True,
            "value_gate": "gelu",
        }
    },
    {"relative_position": {"extent": (8,), "position": XY, "radial": True, "value_gate": "sigmoid", **TURN}},
    {"relative_position": {"extent": (5,), "position": XY, "distance": True, "value_gate": "linear"}},
    {
        "relative_position": {
            "extent": (8, 5),
            "position": XY,
            "distance": True,
            "radial": True,
            "interpolate": True,
            "key_projection": True,
            "value_projection": True,
        },
        "separate_value_net": True,
    },
    {
        "relative_position": {
            "extent": (8, 5),
            "position": XY,
            "distance": True,
            "radial": True,
            "per_entity_values": True,
            "key_projection": True,
            "value_projection": True,
            "per_entity_projections": True,
        }
    },
]


def flat(observation: Mapping[str, Any], place: str = "") -> Arrays:
    """The arrays of an observation dict by their places."""
    result: Arrays = {}
    for key, part in observation.items():
        result |= flat(part, f"{place}{key}/") if isinstance(part, Mapping) else {f"{place}{key}": part}
    return result


class OnnxNet:
    """A file, run by ONNX Runtime on observation dicts."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def __call__(self, observation: Mapping[str, Any]) -> Arrays:
        arrays = flat(observation)
        names = [node.name for node in self.session.get_outputs()]
        feeds = {node.name: arrays[node.name] for node in self.session.get_inputs()}
        return dict(zip(names, self.session.run(names, feeds), strict=True))


def by_torch(net: RogueNet, step: EntityBatch) -> Arrays:
    """What the file is to give at one step, by the modules of torch."""
    with torch.no_grad():
        x, rows, value = net.encode(net.inputs.prepare(step))
        found: Arrays = {"value": value.numpy()}
        for name, action in net.action_space.items():
            head: Any = net.action_heads[name]
            mask, place = step.actions[name], f"actions/{name}"
            if isinstance(action, SelectEntity):
                actors, actees = (rows.of_entities(part, name) for part in (mask.actors, mask.actees))
                queries, keys = head.query_proj(x[actors]), head.key_proj(x[actees])
                logits = queries @ keys.T / math.sqrt(queries.shape[1])
            else:
                logits = head.proj(x[head.actor_rows(rows, mask)])
            if isinstance(action, Continuous):
                found |= {f"{place}/mean": logits.numpy(), f"{place}/log_std": head.log_std.numpy()}
            else:
                allowed = torch.from_numpy(mask.mask.values.reshape(tuple(logits.shape)))
                found[f"{place}/logits"] = logits.masked_fill(~allowed, -1e9).numpy()
    return found


@pytest.fixture
def check_steps(tmp_path: Path) -> Callable[..., int]:
    """Check that a file gives what torch gives at all steps of some batches; return how many steps."""

    def check(net: RogueNet, batches: Iterator[EntityBatch], source: Any = None) -> int:
        onnx_net = OnnxNet(export_onnx(net if source is None else source, tmp_path / "net.onnx").path)
        steps = 0
        for batch in batches:
            for b in range(len(batch)):
                step = batch.gather([b])
                found = onnx_net(unbatch_observation(net.observation_space, step, 0))
                expected = by_torch(net, step)
                assert found.keys() == expected.keys()
                for place, numbers in expected.items():
                    if place.endswith("/mean") and not len(numbers):
                        continue  # a global action that is absent at this step
                    assert found[place].shape == numbers.shape, place
                    np.testing.assert_allclose(found[place], numbers, 1e-5, 1e-5, err_msg=place)
                steps += 1
        return steps

    return check


def lively(net: RogueNet, batch: EntityBatch) -> RogueNet:
    """`net` with statistics and parameters that are not those of a fresh one."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    net.update_normalization(batch)
    return net


def random_step(
    space: EntitySpace, count: int, rng: np.random.Generator, single: str | None = None
) -> EntityBatch:
    """A step with `count` entities of each type (at most one of type `single`)."""
    counts = {name: min(count, 1) if name == single else count for name in space.entities}
    total = sum(counts.values())
    observation: dict[str, Any] = {
        "entities": {
            name: rng.normal(1, 2, (counts[name], len(features))).astype(np.float32)
            for name, features in space.entities.items()
        },
        "actions": {name: action.sample_mask(total, rng) for name, action in space.actions.items()},
    }
    if space.global_features:
        observation["globals"] = rng.normal(size=len(space.global_features)).astype(np.float32)
    if space.hidden:
        acts = np.zeros(total, bool)
        for part in observation["actions"].values():
            for side in ("actors", "actees"):
                acts[part.get(side, [])] = True
        flags = np.split(
            (acts | (rng.random(total) < 0.5)).astype(np.int8), np.cumsum(list(counts.values()))[:-1]
        )
        observation["visible"] = dict(zip(counts, flags, strict=True))
    return batch_observations(space, [observation])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_any_number_of_entities(
    options: dict[str, Any], make_space: Callable[..., EntitySpace], check_steps: Callable[..., int]
) -> None:
    single = options.get("translation", {}).get("reference")
    rng = np.random.default_rng(0)
    for hidden in (False, True):
        for with_globals in (True, False):
            space = make_space(with_globals, hidden)
            torch.manual_seed(0)
            net = RogueNet(space, space.actions, **options)
            lively(net, random_step(space, 20, rng, single))
            counts = (0, 1, 3, 100 if "relative_position" in options or with_globals else 500)
            check_steps(net, (random_step(space, count, rng, single) for count in counts))


@pytest.mark.parametrize("angles", [8, 12, 16])
@pytest.mark.parametrize("turn", [{}, TURN], ids=["", "turned"])
def test_positions_on_a_grid_fall_into_the_same_buckets(
    angles: int, turn: dict[str, Any], make_space: Callable[..., EntitySpace], check_steps: Callable[..., int]
) -> None:
    """Many angles lie between two buckets there."""
    space, rng = make_space(), np.random.default_rng(0)
    encoding = {"extent": (angles, 4), "position": XY, "radial": True, "distance": True, **turn}
    net = lively(RogueNet(space, space.actions, relative_position=encoding), random_step(space, 20, rng))
    steps = []
    for _ in range(20):
        observation = unbatch_observation(space, random_step(space, 4, rng), 0)
        for name, rows in observation["entities"].items():
            for i, feature in enumerate(space.entities[name]):
                if feature in XY:
                    rows[:, i] = rng.integers(-4, 5, len(rows))
                if feature in ("cos", "sin"):
                    rows[:, i] = feature == "cos"
        steps.append(batch_observations(space, [observation]))
    check_steps(net, steps)


def played(venv: EntityVectorEnv, policy: Any, steps: int) -> Iterator[EntityBatch]:
    rng = np.random.default_rng(0)
    batch, _ = venv.reset(seed=0)
    for _ in range(steps):
        yield batch
        batch, *_ = venv.step(policy.act(batch, rng).actions)


@pytest.mark.parametrize(("games", "total"), [(SOME_GAMES, 30), (GAMES, 1000)], ids=["some", "all"])
def test_steps_of_every_game(games: list[str], total: int, check_steps: Callable[..., int]) -> None:
    steps = 0
    for game in games:
        with ez.make_vec(game, num_envs=2) as venv:
            torch.manual_seed(0)
            net = RogueNet(venv.single_observation_space, venv.single_action_space, engine="torch")
            lively(net, venv.reset(seed=1)[0])
            steps += check_steps(net, played(venv, net, -(-total // (2 * len(games)))))
    assert steps >= total


@pytest.mark.parametrize(
    "name",
    [
        "positions_1m/runs/maze/cells_2_to_32/0",
        "procgen_25m/runs/starpilot/roguenet/0",
        "procgen_2m/runs/coinrun/roguenet_normalized/1",
        "entropy_2m/runs/jumper/ent_01/1",
        "microrts_8x8",
    ],
)
def test_steps_of_kept_runs(name: str, check_steps: Callable[..., int]) -> None:
    run = RESULTS / name
    net = ez.load_policy(run)
    assert isinstance(net, RogueNet)
    env = replace(read_run_config(run, EnvChoice()).env, num_envs=24 if name == "microrts_8x8" else 2)
    with make_environments(env) as venv:
        assert check_steps(net, played(venv, net, 4), run) >= 8
