"""The page in a real browser: it loads without a network, an agent plays, a person takes over."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import onnxruntime
import pytest
import yaml

from browser import Browser

HERE = Path(__file__).parent
WEB = HERE.parents[1] / "web"
GAMES = ("multi_snake", "meteors")
pytestmark = pytest.mark.skipif(not (WEB / "vendor").is_dir(), reason="needs onnxruntime-web: make web")


@pytest.mark.parametrize("game", GAMES)
def test_an_agent_plays_and_no_request_leaves(game: str, browser: Browser, address: str) -> None:
    browser.open("about:blank")
    browser.requests()
    browser.open(f"{address}/index.html?game={game}")
    browser.wait("document.querySelectorAll('#entities tr').length > 1")
    first = browser.run("return document.getElementById('numbers').textContent")
    browser.wait(f"document.getElementById('numbers').textContent != {json.dumps(first)}")
    rows = "[...document.querySelectorAll('#actions tr')]"
    probabilities = browser.run(f"return {rows}.map((row) => Number(row.children[2].textContent))")
    actions = 4 if game == "multi_snake" else 5
    sums = np.reshape(probabilities, (-1, actions)).sum(1)
    np.testing.assert_allclose(sums, 1, atol=0.03)
    asked = browser.requests()
    assert f"{address}/agents/{game}.onnx" in asked
    assert all(url.startswith((address, "data:", "blob:")) for url in asked), asked
    assert not browser.errors()


def test_a_person_takes_over(browser: Browser, address: str) -> None:
    browser.open(f"{address}/index.html?game=meteors")
    browser.wait("document.querySelectorAll('#entities tr').length > 1")
    press = "dispatchEvent(new KeyboardEvent(arguments[0], {key: arguments[1], cancelable: true}))"
    browser.run(press, "keydown", "ArrowLeft")
    browser.wait("document.getElementById('numbers').textContent.includes('you')")
    place = "Number(document.querySelector('#entities td:nth-child(2)').textContent.split(',')[0])"
    browser.wait(f"{place} < 1")  # the wall on the left
    browser.run(press, "keyup", "ArrowLeft")
    browser.press(" ")
    browser.wait("document.getElementById('numbers').textContent.includes('the agent')")


def played(browser: Browser, address: str, game: str, episodes: int) -> np.ndarray:
    """Scores of whole episodes in the browser."""
    browser.open(f"{address}/index.html?game={game}&episodes={episodes}")
    browser.wait("document.getElementById('results').textContent", seconds=300)
    results = json.loads(browser.run("return document.getElementById('results').textContent"))
    print(f"{game}: {results['milliseconds']:.2f} ms per decision")
    assert len(results["scores"]) == episodes
    return np.array(results["scores"])


def check_same_mean(a: np.ndarray, b: np.ndarray) -> None:
    error = np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    assert abs(a.mean() - b.mean()) < 4 * error, f"{a.mean():.3f} and {b.mean():.3f}, error {error:.3f}"


@pytest.mark.parametrize("game", GAMES)
def test_an_agent_scores_as_in_python(game: str, browser: Browser, address: str) -> None:
    in_python = {"multi_snake": multi_snake_in_python, "meteors": meteors_in_python}[game]
    check_same_mean(played(browser, address, game, 100), in_python(100))


class Player:
    """The agent of a game, by ONNX Runtime."""

    def __init__(self, game: str) -> None:
        self._session = onnxruntime.InferenceSession(WEB / "agents" / f"{game}.onnx")
        self._rng = np.random.default_rng(0)

    def moves(self, entities: Mapping[str, Any], actors: int, **others: np.ndarray) -> np.ndarray:
        inputs = {node.name: node.shape for node in self._session.get_inputs()}
        feeds: dict[str, np.ndarray] = {
            place: np.reshape(entities[place.partition("/")[2]], (-1, shape[1])).astype(np.float32)
            for place, shape in inputs.items()
            if place.startswith("entities/")
        }
        feeds["actions/move/actors"] = np.arange(actors)
        feeds["actions/move/mask"] = np.ones((actors, inputs["actions/move/mask"][1]), np.int8)
        (logits,) = self._session.run(["actions/move/logits"], feeds | others)
        return (logits + self._rng.gumbel(size=logits.shape)).argmax(1)


def multi_snake_in_python(episodes: int) -> np.ndarray:
    options = yaml.safe_load((WEB / "agents" / "multi_snake.yaml").read_text())["env"]["kwargs"]
    env, player, scores = gymnasium.make("entitize/MultiSnake-v0", **options), Player("multi_snake"), []
    for seed in range(episodes):
        observation, _ = env.reset(seed=seed)
        score, is_over = 0.0, False
        while not is_over:
            heads = len(observation["entities"]["SnakeHead"])
            chosen = player.moves(observation["entities"], heads, globals=observation["globals"])
            observation, reward, terminated, truncated, _ = env.step({"move": chosen})
            score, is_over = score + float(reward), terminated or truncated
        scores.append(score)
    return np.array(scores)


def meteors_in_python(episodes: int) -> np.ndarray:
    """The game runs in Node, the agent in Python."""
    player = Player("meteors")
    labels = json.loads((WEB / "agents" / "meteors.json").read_text())["spaces"]["actions"]["move"]["choices"]
    command = ["node", str(HERE / "play_meteors.mjs"), str(episodes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as game:
        assert game.stdin is not None
        assert game.stdout is not None
        for line in game.stdout:
            told = json.loads(line)
            if "scores" in told:
                return np.array(told["scores"])
            moves = [labels[player.moves(entities, 1)[0]] for entities in told]
            print(json.dumps(moves), file=game.stdin, flush=True)
    raise AssertionError("the game ended without scores")
