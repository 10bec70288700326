"""A game with a loop of its own for tests: a cat chases mice along a line."""

from __future__ import annotations

from enum import Enum
from typing import Any

import entitize as ez
import numpy as np


@ez.entity
class Cat:
    x: float


@ez.entity
class Mouse:
    x: float


class Move(Enum):
    LEFT = -1
    RIGHT = 1


def play(agent: Any, rng: np.random.Generator, max_steps: int = 9) -> tuple[float, int]:
    """One episode: its score and its length. Each step costs 0.1, each mouse is worth 1."""
    cat, mice = Cat(0.0), [Mouse(float(rng.integers(1, 4))) for _ in range(rng.integers(1, 3))]
    score, steps = 5.0, 0  # the first score counts as no reward
    while mice and steps < max_steps:
        cat.x += agent.act(ez.Obs(cat, mice, score=score), Move).value
        caught = [mouse for mouse in mice if mouse.x == cat.x]
        mice = [mouse for mouse in mice if mouse not in caught]
        score += len(caught) - 0.1
        steps += 1
    agent.game_over(score=score)
    return score - 5.0, steps


@ez.program(entities=[Cat, Mouse], actions={"move": Move})
def main(agent: Any) -> tuple[float, int]:
    return play(agent, agent.rng)
