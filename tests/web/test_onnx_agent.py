"""`OnnxAgent` in a real browser: it decides as in Python, and refuses what a trainer refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.adapters.programs import Limits, protocol
from entitize.envs.spaces.space_schema import space_from_schema
from scipy.stats import ks_2samp

from browser import Browser

WEB = Path(__file__).resolve().parents[2] / "web"
pytestmark = pytest.mark.skipif(not (WEB / "vendor").is_dir(), reason="needs onnxruntime-web: make web")

COMPONENTS = [["kind", ["wait", "move", "hit"]], ["way", ["north", "south"]], ["power", ["1", "2", "3"]]]
SPACES: dict[str, Any] = {
    "entities": {"Hero": ["x", "y"], "Relic": [], "Foe": ["x", "y", "life"]},
    "global_features": ["time"],
    "hidden": True,
    "actions": {
        "face": {"kind": "Categorical", "choices": ["left", "right", "up"]},
        "mood": {"kind": "GlobalCategorical", "choices": ["calm", "wild"]},
        "order": {
            "kind": "MultiCategorical",
            "components": COMPONENTS,
            "uses": {"wait": [], "move": ["way"], "hit": ["way", "power"]},
        },
        "target": {"kind": "SelectEntity"},
        "aim": {"kind": "Continuous", "low": [-1, 0], "high": [1, "inf"]},
        "wind": {"kind": "GlobalContinuous", "low": [-2], "high": [3]},
    },
}
TYPES: dict[str, list[str]] = SPACES["entities"]
SIZES = [len(choices) for _, choices in COMPONENTS]  # type: ignore[arg-type]
LOAD = """const { OnnxAgent } = await import("./onnx_agent.js");
    const { randomNumbers } = await import("./random.js");
    const agent = await OnnxAgent.load("made/kinds", randomNumbers(1));"""


@pytest.fixture(scope="module", params=[False, True], ids=["clipped", "squashed"])
def agent(request: pytest.FixtureRequest, made: Path) -> ez.Agent:
    """An untrained agent, whose files the browser finds as /made/kinds.onnx."""
    torch.manual_seed(0)
    schema = json.loads(json.dumps(SPACES))
    if request.param:  # squashed numbers have bounds
        schema["actions"]["aim"]["high"] = [1, 5]
    space = space_from_schema(schema)
    net = ez.RogueNet(space, space.actions, d_model=16, n_layer=2, squash=request.param)
    with torch.no_grad():  # decisions that differ from each other
        for parameter in net.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    ez.export_onnx(net, made / "kinds.onnx")
    return ez.load_agent(ez.save_policy(net, made / f"policy_{request.param}"), seed=0)


def in_browser(browser: Browser, address: str, program: str, *arguments: Any) -> Any:
    """Return what a program with an agent and these arguments returns: `agent` and `given`."""
    browser.open(f"{address}/index.html")
    script = f"return (async (given) => {{ {LOAD} {program} }})([...arguments])"
    return browser.run(script, *arguments)


def flags(rng: np.random.Generator, rows: int, sizes: list[int]) -> list[list[bool]]:
    """Masks that allow something of each component."""
    mask = []
    for _ in range(rows):
        parts = [rng.random(size) < 0.6 for size in sizes]
        for part in parts:
            part[rng.integers(len(part))] = True
        mask.append(np.concatenate([np.zeros(0, bool), *parts]).tolist())
    return mask


def step(rng: np.random.Generator) -> dict[str, Any]:
    """A random observation of the protocol."""
    counts = {name: int(rng.integers(0, 5)) for name in TYPES}
    visible = {name: rng.integers(0, 2, count).tolist() for name, count in counts.items()}
    shown = np.flatnonzero(np.concatenate(list(visible.values())))
    entities = {
        name: rng.normal(0, 3, (count, len(TYPES[name]))).round(3).tolist() for name, count in counts.items()
    }

    def some() -> list[int]:
        return rng.permutation(shown)[: rng.integers(0, len(shown) + 1)].tolist()

    face, order, target, aim, actees = some(), some(), some(), some(), some()
    actions: dict[str, Any] = {
        "face": {"actors": face, "mask": flags(rng, len(face), [3])},
        "mood": {"mask": flags(rng, 1, [2])[0]},
        "order": {"actors": order, "mask": flags(rng, len(order), SIZES)},
        "target": {"actors": target, "actees": actees, "mask": flags(rng, len(target), [len(actees)])}
        if actees
        else {"actors": []},
        "aim": {"actors": aim},
        "wind": {},
    }
    kept = {name: actions[name] for name in actions if rng.random() < 0.8}
    return {"entities": entities, "visible": visible, "globals": [float(rng.random())], "actions": kept}


def in_python(agent: ez.Agent, observation: dict[str, Any], deterministic: bool = True) -> dict[str, Any]:
    """Return the actions that a trainer would send."""
    seen = protocol.read_observation(agent.observation_space, observation, Limits())
    message: dict[str, Any] = json.loads(protocol.act_message(agent.act(seen, None, deterministic)))
    return message["actions"]  # type: ignore[no-any-return]


def test_every_kind_of_action_is_decided_as_in_python(
    agent: ez.Agent, browser: Browser, address: str
) -> None:
    rng = np.random.default_rng(0)
    steps = [step(rng) for _ in range(200)]
    program = """const told = [];
        for (const observation of given[0])
            told.push([await agent.act(observation, { deterministic: true }), agent.value]);
        return told;"""
    for observation, (actions, value) in zip(
        steps, in_browser(browser, address, program, steps), strict=True
    ):
        expected = in_python(agent, observation)
        assert set(actions) == set(expected)
        for name, action in expected.items():
            for part, wanted in action.items():
                if part == "values":
                    np.testing.assert_allclose(actions[name][part], wanted, rtol=1e-4, atol=1e-4)
                else:
                    assert actions[name][part] == wanted, (name, part)
        seen = protocol.read_observation(agent.observation_space, observation, Limits())
        np.testing.assert_allclose(value, agent.value(seen)[0], rtol=1e-4, atol=1e-4)


def test_actions_are_drawn_as_in_python(agent: ez.Agent, browser: Browser, address: str) -> None:
    observation = {
        "entities": {"Hero": [[1, 2]], "Foe": [[3, 4, 1], [0, 1, 2]]},
        "globals": [0.5],
        "actions": {name: {"actors": [0]} for name in ("face", "order", "target", "aim")} | {"mood": {}},
    }
    observation["actions"] |= {"wind": {}, "target": {"actors": [0], "actees": [1, 2]}}  # type: ignore[operator]
    count = 2000
    program = """const told = [];
        for (let i = 0; i < given[1]; i++) told.push(await agent.act(given[0]));
        return told;"""
    ours = in_browser(browser, address, program, observation, count)
    theirs = [in_python(agent, observation, False) for _ in range(count)]

    def share(told: list[Any], name: str, part: str, value: Any) -> float:
        return float(np.mean([action[name][part] == value for action in told]))

    for name, part in (
        *(("face", "choices"), ("mood", "choice"), ("order", "choices"), ("order", "labels")),
        ("target", "actees"),
    ):
        for value in {json.dumps(action[name][part]) for action in theirs}:
            shares = [share(told, name, part, json.loads(value)) for told in (ours, theirs)]
            error = np.sqrt(sum(s * (1 - s) for s in shares) / count)
            assert abs(shares[0] - shares[1]) <= 5 * error + 1e-3, (name, value, shares)
    told = ours[0]
    for name, choices in (("face", [[0], [1], [2]]), ("mood", [0, 1]), ("target", [[1], [2]])):
        part = {"face": "choices", "mood": "choice", "target": "actees"}[name]
        probabilities = np.ravel(told[name]["probabilities"])
        shares = [share(theirs, name, part, choice) for choice in choices]
        np.testing.assert_allclose(probabilities, shares, atol=5 / np.sqrt(count) / 2)
    for name in ("aim", "wind"):
        drawn = [np.array([np.ravel(a[name]["values"]) for a in told]) for told in (ours, theirs)]
        for one, other in zip(*(numbers.T for numbers in drawn), strict=True):
            assert ks_2samp(one, other, method="asymp").pvalue > 1e-4  # of the test of Kolmogorov and Smirnov


GOOD: dict[str, Any] = {
    "entities": {"Hero": [[10, 10], [1, 1]], "Foe": [[3, 4, 1], [5, 6, 1]]},
    "globals": [0.5],
    "visible": {"Foe": [1, 0]},
    "actions": {"face": {"actors": [0]}, "target": {"actor_types": ["Hero"], "actees": [2]}, "mood": {}},
}
ALL = [[True] * 3]
#: What replaces a part of `GOOD`, and what the error says; no facts: it is right.
CHANGES: list[tuple[dict[str, Any], list[object]]] = [
    ({}, []),
    ({"actions": {}}, []),
    ({"actions": {"face": {"actors": []}}}, []),
    ({"actions": {"face": {"actors": [], "mask": []}}}, []),
    ({"actions": {"face": {"actors": [1, 0], "mask": [[1, 0, 0], [True, False, True]]}}}, []),
    ({"visible": {}, "actions": {"face": {}, "target": {}, "order": {}, "aim": {}, "wind": {}}}, []),
    ({"actions": {"target": {"actors": []}}}, []),
    ({"score": 3}, []),
    ({"entities": {"Hero": [[True, 1], [1, 1]], "Foe": [[0, 1, 0]]}, "visible": {}}, []),
    ({"score": "3"}, ["score", '"3"']),
    ({"score": 1, "reward": 1}, ["score", "reward", "both"]),
    ({"reward": None}, ["reward", "null"]),
    ({"score": True}, ["score", "true"]),
    ({"entities": {"Hero": [[1e10, 1]]}, "visible": {}}, ["Hero", "x", 10000000000]),
    ({"entities": {"Hero": None}, "visible": {}}, ["Hero", "null"]),
    ({"actions": {"face": {"actors": None}}}, ["face", "null"]),
    ({"actions": {"face": {"actors": ["0"]}}}, ["face", '"0"']),
    ({"entities": {"Hero": [[10, 10]], "Foes": [[3, 4, 1]]}}, ["entities", "Foe", "Foes"]),
    ({"entities": {"Hero": [[10, 10, 10]]}, "visible": {}}, ["Hero", 2, "x, y", 3]),
    ({"entities": {"Hero": [10, 10]}, "visible": {}}, ["Hero"]),
    ({"entities": {"Hero": "none"}}, ["Hero", "list"]),
    ({"entities": {"Hero": [[10, None]]}, "visible": {}}, ["Hero", "null"]),
    ({"entities": {"Hero": [[10, "3"]]}, "visible": {}}, ["Hero", "3"]),
    ({"globals": []}, ["globals", "time"]),
    ({"visible": {"Foe": [1]}}, ["visible", "Foe", 2]),
    ({"visible": {"Hero": [0, 1]}}, ["face", "visible"]),
    ({"visible": {"Cat": [0]}}, ["visible", "Cat"]),
    ({"actions": {"faces": {}}}, ["actions", "face", "faces"]),
    ({"actions": {"face": {"actor": [0]}}}, ["face", "actors", "actor"]),
    ({"actions": {"face": {"actees": [0]}}}, ["face", "actors", "actees"]),
    ({"actions": {"face": None}}, ["face", "object"]),
    ({"actions": {"face": {"actors": [7]}}}, ["face", 7]),
    ({"actions": {"face": {"actors": [-1]}}}, ["face", -1]),
    ({"actions": {"face": {"actors": [0.5]}}}, ["face", 0.5]),
    ({"actions": {"face": {"actors": [0, 0]}}}, ["face", "twice"]),
    ({"actions": {"face": {"actors": [3]}}}, ["face", "visible"]),
    ({"actions": {"face": {"actors": [0], "actor_types": ["Hero"]}}}, ["face", "both"]),
    ({"actions": {"face": {"actor_types": ["Hera"]}}}, ["face", "Hero", "Hera"]),
    ({"actions": {"face": {"actors": [0], "mask": [[False] * 3]}}}, ["face", "allowed"]),
    ({"actions": {"face": {"actors": [0], "mask": [[True] * 4]}}}, ["face", "mask", 3, 4]),
    ({"actions": {"face": {"actors": [0], "mask": []}}}, ["face", "mask", 1]),
    ({"actions": {"face": {"actors": [0], "mask": [*ALL, *ALL]}}}, ["face", "mask", 1, 2]),
    ({"actions": {"face": {"actors": [0], "mask": [[1, 2, 0]]}}}, ["face", "mask", 2]),
    ({"actions": {"mood": {"mask": [[True, True]]}}}, ["mood", "mask"]),
    ({"actions": {"mood": {"actors": [0]}}}, ["mood", "actors"]),
    ({"actions": {"target": {"actors": [0], "actees": [3]}}}, ["target", "visible"]),
    ({"actions": {"target": {"actors": [0], "actees": []}}}, ["target", "allowed"]),
    ({"actions": {"target": {"actors": [0], "actees": [1], "mask": [[False]]}}}, ["target", "allowed"]),
    ({"actions": {"order": {"actors": [0], "mask": [[False] * 3 + [True] * 5]}}}, ["order", "kind"]),
    ({"actions": {"order": {"actors": [0], "mask": [[True] * 3 + [False] * 5]}}}, ["order", "way"]),
    ({"actions": {"order": {"actors": [0], "mask": [[True, False, False] + [False] * 5]}}}, []),
    ({"actions": {"aim": {"actors": [0], "mask": [[]]}}}, ["aim", "mask"]),
    ({"entitise": {}}, ["entitise"]),
]


@pytest.fixture(scope="module")
def told(agent: ez.Agent, browser: Browser, address: str) -> list[str]:
    """What the browser says to each of `CHANGES`."""
    program = """const told = [];
        for (const observation of given[0])
            told.push(await agent.act(observation).then(() => "no error", (error) => error.message));
        return told;"""
    answers: list[str] = in_browser(browser, address, program, [{**GOOD, **change} for change, _ in CHANGES])
    return answers


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_what_a_trainer_refuses_is_refused(number: int, agent: ez.Agent, told: list[str]) -> None:
    change, facts = CHANGES[number]
    observation = {**GOOD, **change}
    try:
        protocol.check_fields({"type": "observe", **observation})
        in_python(agent, observation)
        is_right = True
    except (ValueError, TypeError):
        is_right = False
    is_right &= "visible" not in facts  # a trainer refuses actors that are hidden,
    is_right &= "reward" not in facts  # and a score together with a reward
    assert (told[number] == "no error") == is_right == (not facts), told[number]
    assert all(str(fact) in told[number] for fact in facts), told[number]


def test_numbers_that_json_does_not_know_are_refused(agent: ez.Agent, browser: Browser, address: str) -> None:
    program = """const told = [];
        for (const x of [NaN, Infinity, 1e300, undefined]) {
            const asked = agent.act({ entities: { Hero: [[x, 1]] }, globals: [0] });
            told.push(await asked.then(() => "no error", (error) => error.message));
        }
        const rows = [new Float32Array([1, 2])];
        const [one, other] = await Promise.all([rows, rows].map((Hero) =>
            agent.act({ entities: { Hero }, globals: new Float32Array([0]), actions: { face: {} } })));
        agent.gameOver({ score: 3 });
        await agent.close();
        await agent.close();
        const closed = await agent.act({}).catch((error) => error.message);
        const missing = await OnnxAgent.load("made/none").catch((error) => error.message);
        return [...told, one.face.actors.length + other.face.actors.length, closed, missing];"""
    *messages, actors, closed, missing = in_browser(browser, address, program)
    assert actors == 2 and "closed" in closed and "made/none." in missing and "404" in missing
    for message, said in zip(messages, ("NaN", "Infinity", "1e+300", "undefined"), strict=True):
        assert all(fact in message for fact in ("Hero", "x", said)), message


def test_types_that_look_like_numbers_keep_their_places(made: Path, browser: Browser, address: str) -> None:
    """JavaScript puts such keys first, and numbers entities by the order of their types."""
    actions = ez.EntityActionSpace({"go": ez.Categorical(["left", "right"])})
    space = ez.EntitySpace({"Hero": ["x"], "7": ["x"]}, actions)
    ez.export_onnx(ez.RogueNet(space, actions, d_model=8, n_layer=1), made / "kinds.onnx")
    program = """const entities = { Hero: [[1]], 7: [[2], [3]] };
        const seen = { entities, actions: { go: { actor_types: ["Hero"] } } };
        return (await agent.act(seen)).go.actors;"""
    assert in_browser(browser, address, program) == [0]
