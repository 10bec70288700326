"""MultiSnake in JavaScript: the same start and the same actions give the same steps as in Python."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

HERE = Path(__file__).parent
MOVES = ("up", "down", "left", "right")

OPTIONS: list[dict[str, int]] = [
    {},
    {"num_snakes": 1, "max_snake_length": 5},
    {"num_snakes": 3, "board_size": 5, "max_snake_length": 4},
    {"num_snakes": 2, "board_size": 3, "max_snake_length": 3, "max_steps": 20},
    {"num_snakes": 8, "board_size": 8, "max_snake_length": 3},
]
IN_JAVASCRIPT = {
    "num_snakes": "numSnakes",
    "board_size": "boardSize",
    "max_snake_length": "maxLength",
    "max_steps": "maxSteps",
}


def careful_moves(observation: dict[str, Any], size: int, rng: np.random.Generator) -> np.ndarray:
    """Mostly towards the own food, and seldom into a wall or a segment, so that snakes grow."""
    parts = observation["entities"]
    taken = {tuple(row[:2]) for name in ("SnakeHead", "SnakeBody") for row in parts[name]}
    chosen = []
    for x, y, color in parts["SnakeHead"]:
        fx, fy = next(row[:2] for row in parts["Food"] if row[2] == color)
        cells = [(x, y + 1), (x, y - 1), (x - 1, y), (x + 1, y)]
        costs = [
            abs(cx - fx)
            + abs(cy - fy)
            + 100 * ((cx, cy) in taken or not (0 <= min(cx, cy) <= max(cx, cy) < size))
            for cx, cy in cells
        ]
        chosen.append(int(rng.integers(4)) if rng.random() < 0.05 else int(np.argmin(costs)))
    return np.array(chosen)


def plain(observation: dict[str, Any]) -> dict[str, Any]:
    return {
        "entities": {name: rows.tolist() for name, rows in observation["entities"].items()},
        "globals": observation["globals"].tolist(),
        "actions": {"move": {"actors": observation["actions"]["move"]["actors"].tolist()}},
    }


def episode(options: dict[str, int], seed: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What JavaScript is told of an episode, and what it is to give."""
    env = gymnasium.make("entitize/MultiSnake-v0", **options)
    rng = np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed)
    heads, food = (observation["entities"][name][:, :2].tolist() for name in ("SnakeHead", "Food"))
    placed, moves, score, is_over = [*heads, *food], [], 0.0, False
    steps = [{**plain(observation), "score": 0.0, "isOver": False}]
    while not is_over:
        before = observation["entities"]["Food"].tolist()
        action = careful_moves(observation, options.get("board_size", 10), rng)
        observation, reward, terminated, truncated, _ = env.step({"move": action})
        score, is_over = score + reward, terminated or truncated
        after = observation["entities"]["Food"].tolist()
        heads_now = {tuple(row[:2]) for row in observation["entities"]["SnakeHead"].tolist()}
        kept = [row for row in before if tuple(row[:2]) not in heads_now]  # food stays until a head comes
        placed += [row[:2] for row in after[len(kept) :]]
        moves.append([MOVES[choice] for choice in action])
        steps.append({**plain(observation), "score": score, "isOver": is_over})
    named = {IN_JAVASCRIPT[name]: value for name, value in options.items()}
    return {"options": named, "placed": placed, "moves": moves}, steps


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_javascript_steps_as_python() -> None:
    episodes = [episode(options, seed) for options in OPTIONS for seed in range(12)]
    assert max(steps[-1]["score"] for _, steps in episodes) > 0.9  # full-grown snakes are among them
    told = json.dumps([told for told, _ in episodes])
    command = ["node", str(HERE / "compare_snakes.mjs")]
    answer = subprocess.run(command, input=told, capture_output=True, text=True, timeout=120, check=True)
    lines = answer.stdout.splitlines()
    assert len(lines) == len(episodes)
    for line, (_, expected) in zip(lines, episodes, strict=True):
        found = json.loads(line)
        assert found["unused"] == 0
        for ours, theirs in zip(found["steps"], expected, strict=True):
            assert ours.pop("score") == pytest.approx(theirs.pop("score"), abs=1e-6)
            assert ours == theirs
