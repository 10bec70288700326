"""Play that a game wrote into a file of messages becomes the dataset that recording the same play makes."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.programs import ListeningVectorEnv, MessageFile
from entitize.datasets import EntityDataset
from entitize.envs.spaces.space_schema import space_schema
from websockets.exceptions import ConnectionClosed

from facts import raises
from websocket_games import CHECKOUT, SPACES, client

Run = Callable[..., tuple[int, str, str]]
KINDS = {"kind": ["wait", "move"], "move": ["north", "south"]}
SPACE = ez.EntitySpace(
    SPACES["entities"],
    ez.EntityActionSpace(
        {
            "turn": ez.Categorical(["left", "right", "up"]),
            "speed": ez.GlobalCategorical(["slow", "fast"]),
            "order": ez.MultiCategorical(KINDS, {"move": ["move"]}),
            "target": ez.SelectEntity(),
            "push": ez.Continuous([-1, float("-inf")], [1, float("inf")]),
            "wind": ez.GlobalContinuous([0], [1]),
        }
    ),
    ["time"],
)


def messages(url: str, lines: list[str]) -> None:
    """Play four episodes with whatever is answered, and note the messages with the answers as chosen."""
    rng = np.random.default_rng(0)
    lines.append(json.dumps({"type": "hello", "protocol": 1, "spaces": space_schema(SPACE)}))
    with suppress(client.AgentError, ConnectionClosed), client.Agent.connect(url) as agent:
        for episode in range(4):
            for time in range(int(rng.integers(3, 9))):
                count = int(rng.integers(1, 4))
                cats = rng.normal(size=(count, 1)).tolist()
                mice = rng.normal(size=(2, 2)).tolist()
                actors = rng.permutation(count)[: rng.integers(0, count + 1)].tolist()
                asked = {name: {"actors": actors} for name in ("turn", "order", "push")}
                asked |= {"target": {"actors": actors, "actees": [count, count + 1]}}
                asked |= {name: {} for name in ("speed", "wind") if rng.random() < 0.7}
                score = {"score": time} if episode % 2 else {"reward": 0.5}
                seen = {
                    "entities": {"Cat": cats, "Mouse": mice},
                    "globals": [time],
                    "actions": asked,
                    **score,
                }
                answer = agent.act(**seen)
                for name, chosen in answer.items():
                    left_out = ("choices", "choice") if episode < 2 else ("labels", "label")
                    answer[name] = {key: part for key, part in chosen.items() if key not in left_out}
                lines.append(json.dumps({"type": "observe", **seen, "chosen": answer}))
            result = {"score": 9} if episode % 2 else {"reward": 1, "truncated": True}
            agent.game_over(**result)
            lines.append(json.dumps({"type": "game_over", **result}))
        agent.act({"Cat": [[0.0]]}, {"turn": {}}, globals=[0])  # so that the last end is seen


def test_a_file_gives_the_dataset_of_the_same_play(entitize: Run, tmp_path: Path) -> None:
    lines: list[str] = []
    with ListeningVectorEnv("127.0.0.1:0", 1, SPACE) as venv:
        game = threading.Thread(target=messages, args=(f"ws://{venv.address}", lines))
        game.start()
        ez.record(venv, None, tmp_path / "seen", episodes=4)
    game.join()
    file = tmp_path / "plays.jsonl"
    file.write_text("\n".join(lines))
    code, out, err = entitize("record", file, "--out", tmp_path / "read")
    assert code == 0 and "4 whole episodes" in out, err
    seen, read = (EntityDataset(tmp_path / name) for name in ("seen", "read"))
    assert read.space == SPACE and len(read.decisions) == len(lines) - 5
    ours, theirs = (dataset.gather(dataset.decisions) for dataset in (read, seen))
    for name, numbers in ours.numbers().items():
        np.testing.assert_array_equal(numbers, theirs.numbers()[name], err_msg=name)
    for name, rows in ours.observations.entities.items():
        np.testing.assert_array_equal(rows.offsets, theirs.observations.entities[name].offsets)
        np.testing.assert_array_equal(rows.values, theirs.observations.entities[name].values)
    np.testing.assert_array_equal(ours.observations.globals, theirs.observations.globals)
    for name, chosen in ours.actions.items():
        np.testing.assert_array_equal(chosen.offsets, theirs.actions[name].offsets)
        if name in ("push", "wind"):
            np.testing.assert_allclose(chosen.values, theirs.actions[name].values)
        else:
            np.testing.assert_array_equal(chosen.values, theirs.actions[name].values)


HELLO = {"type": "hello", "protocol": 1, "spaces": SPACES}
STEP = {
    "type": "observe",
    "entities": {"Cat": [[1]], "Mouse": [[1, 2]]},
    "actions": {"move": {"actors": [0], "mask": [[True, False]]}},
    "score": 0,
    "chosen": {"move": {"labels": ["LEFT"]}},
}
OVER = {"type": "game_over", "score": 1}
IDLE = {**STEP, "actions": {"move": {"actors": []}}}


def written(path: Path, *given: Any) -> Path:
    file = path / "plays.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in given))
    return file


def test_what_is_not_over_is_truncated(tmp_path: Path, entitize: Run) -> None:
    given = [HELLO, STEP, STEP, HELLO, STEP, OVER, OVER, "", STEP]
    code, *_ = entitize("record", written(tmp_path, *given), "--out", tmp_path / "plays")
    assert code == 0
    dataset = EntityDataset(tmp_path / "plays")
    steps = dataset.gather(dataset.decisions)
    assert steps.terminated.tolist() == [False, False, True, False]
    assert steps.truncated.tolist() == [False, True, False, True]
    code, *_ = entitize("record", tmp_path / "plays.jsonl", "--out", tmp_path / "one", "--episodes", 1)
    assert code == 0 and len(EntityDataset(tmp_path / "one").episodes) == 1


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        ([], ["hello"]),
        ([STEP], ["hello"]),
        (["not JSON"], ["line 1", "JSON"]),
        ([HELLO], ["observe"]),
        ([{**HELLO, "spaces": {}}, STEP], ["line 1", "spaces"]),
        ([HELLO, STEP, {**STEP, "chosen": None}], ["line 3", "chosen", "null"]),
        ([HELLO, STEP, {**STEP, "entities": {"Dog": [[1]]}}], ["line 3", "Dog", "Cat"]),
        ([HELLO, STEP, {**STEP, "entities": {"Cat": "x"}}], ["line 3", "Cat", "list", "x"]),
        ([HELLO, STEP, {**STEP, "score": "x"}], ["line 3", "score", "number", "x"]),
        ([HELLO, STEP, {**STEP, "dog": 1}], ["line 3", "dog"]),
        ([HELLO, "", {**STEP, "chosen": {"jump": {}}}], ["line 3", "jump", "move"]),
        ([HELLO, {**STEP, "chosen": {}}], ["line 2", "move"]),
        ([HELLO, {**STEP, "chosen": {"move": {"labels": ["UP"]}}}], ["line 2", "move", "LEFT", "UP"]),
        ([HELLO, {**STEP, "chosen": {"move": {"labels": ["RIGHT"]}}}], ["line 2", "move", "RIGHT", "LEFT"]),
        ([HELLO, {**STEP, "chosen": {"move": {"choices": [2]}}}], ["line 2", "move", 2]),
        ([HELLO, {**STEP, "chosen": {"move": {"choices": [0.5]}}}], ["line 2", "move", 0.5]),
        ([HELLO, {**STEP, "chosen": {"move": {"choices": [0, 0]}}}], ["line 2", "move", 1, 2]),
        ([HELLO, {**STEP, "chosen": {"move": {"choices": "0"}}}], ["line 2", "move"]),
        ([HELLO, {**STEP, "chosen": {"move": {"actors": [1], "choices": [0]}}}], ["line 2", "move", 0, 1]),
        ([HELLO, {**IDLE, "chosen": {"move": {"labels": ["UP", "UP"]}}}], ["line 2", "move", "UP"]),
        ([HELLO, STEP, {**IDLE, "chosen": {"move": {"choices": [7, 8]}}}], ["line 3", "move", 7, 8]),
        ([HELLO, STEP, {**IDLE, "chosen": {"move": {"actors": [0]}}}], ["line 3", "move", "actors"]),
        ([HELLO, STEP, {"type": "game_over", "score": "much"}], ["line 3", "score", "much"]),
        ([HELLO, STEP, {**OVER, "truncated": 1}], ["line 3", "truncated"]),
        ([HELLO, STEP, {**HELLO, "spaces": {**SPACES, "entities": {"Dog": ["x"]}}}], ["line 3", "Cat"]),
    ],
)
def test_a_line_that_cannot_be_used_is_named(
    lines: list[Any], facts: list[object], entitize: Run, tmp_path: Path
) -> None:
    code, _, err = entitize("record", written(tmp_path, *lines), "--out", tmp_path / "plays")
    assert code == 2 and all(str(fact) in err for fact in ["plays.jsonl", *facts]), err
    assert "Traceback" not in err


def test_an_action_without_actors_has_empty_lists_or_is_left_out(entitize: Run, tmp_path: Path) -> None:
    forms: list[Any] = [{}, {"move": {}}, {"move": {"actors": [], "choices": [], "labels": []}}]
    given = [HELLO, STEP, *({**IDLE, "chosen": chosen} for chosen in forms), OVER]
    code, out, err = entitize("record", written(tmp_path, *given), "--out", tmp_path / "plays")
    assert code == 0 and "4 steps" in out, err


def test_flags_of_agents_are_refused(entitize: Run, tmp_path: Path) -> None:
    file = written(tmp_path, HELLO, STEP, OVER)
    for flags in (["--random"], ["--steps", 3], ["--bots", "coacAI"], ["--num-envs", 2]):
        code, _, err = entitize("record", file, "--out", tmp_path / "plays", *flags)
        assert code == 2 and flags[0] in err
    with raises(OSError, "none.jsonl"):
        MessageFile(tmp_path / "none.jsonl")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_javascript_writes_such_a_file(entitize: Run, tmp_path: Path) -> None:
    script = tmp_path / "play.mjs"
    script.write_text(
        f"import {{ Recorder }} from {json.dumps(str(CHECKOUT / 'web' / 'entitize.js'))};\n"
        f"const recorder = new Recorder({json.dumps(SPACES)});\n"
        """
for (let step = 0; step < 3; step++) {
  const seen = { entities: { Cat: [[step]] }, actions: { move: { actors: [0] } }, score: step };
  const { move } = recorder.act(seen, { move: { labels: ["RIGHT"] } });
  if (move.labels[0] !== "RIGHT") throw new Error("expected what was chosen");
}
recorder.gameOver({ score: 5 });
process.stdout.write(recorder.text());
"""
    )
    file = tmp_path / "plays.jsonl"
    file.write_text(subprocess.run(["node", str(script)], capture_output=True, text=True, check=True).stdout)
    code, _, err = entitize("record", file, "--out", tmp_path / "plays")
    assert code == 0, err
    dataset = EntityDataset(tmp_path / "plays")
    steps = dataset.gather(dataset.decisions)
    assert steps.observations.entities["Cat"].values[:, 0].tolist() == [0, 1, 2]
    assert steps.actions["move"].values.tolist() == [1, 1, 1]
    assert steps.reward.tolist() == [1, 1, 3] and steps.terminated.tolist() == [False, False, True]
