"""`Overview`, and what the conformance checks return, against plain loops over single steps."""

from __future__ import annotations

from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.envs import Overview


def lines_of(overview: Overview) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in str(overview).splitlines())


def played(venv: Any, num_steps: int, seed: int) -> tuple[list[Any], list[Any]]:
    """Observations and results of random steps, drawn as `check_entity_env` does."""
    rng = np.random.default_rng(seed)
    batch, _ = venv.reset(seed=seed)
    batches, results = [batch], []
    for _ in range(num_steps):
        batch, *result, _ = venv.step(ez.actions.sample_actions(venv.single_action_space, batch, rng))
        batches.append(batch)
        results.append(result)
    return batches, results


def as_words(values: Any) -> str:
    least, most = (f"{value:.5g}" for value in (min(values), max(values)))
    return least if least == most else f"{least} to {most}"


def test_ranges_are_those_of_single_steps() -> None:
    found = lines_of(ez.check_entity_env(ez.make_vec("MineSweeper", num_envs=3), 60, seed=4))
    venv = ez.make_vec("MineSweeper", num_envs=3)
    batches, results = played(venv, 60, seed=4)
    space = venv.single_observation_space
    singles = [ez.envs.unbatch_observation(space, batch, lane) for batch in batches for lane in range(3)]
    for name, features in space.entities.items():
        rows = [single["entities"][name] for single in singles]
        words = f"{as_words([len(r) for r in rows])} at a time"
        columns = [
            f"{feature} {as_words([row[column] for r in rows for row in r])}"
            for column, feature in enumerate(features)
        ]
        assert found[name] == f"{words}; {', '.join(columns)}"
    for name in space.actions:
        actors = [len(single["actions"][name]["actors"]) for single in singles]
        assert found[f"action {name}"].startswith(as_words(actors) + " actor")
    lengths, returns, rewards = [], [], []
    for lane in range(3):
        length, total = 0, 0.0
        for reward, terminated, truncated in results:
            length, total = length + 1, total + reward[lane]
            rewards.append(reward[lane])
            if terminated[lane] or truncated[lane]:
                lengths.append(length)
                returns.append(total)
                length, total = 0, 0.0
    assert found["episodes"] == (
        f"{len(lengths)} ended, after {as_words(lengths)} steps, with returns of {as_words(returns)}"
    )
    share = sum(reward == 0 for reward in rewards) / len(rewards)
    assert found["rewards"] == f"{as_words(rewards)}, and 0 in {100 * share:.3g} % of the steps"


class Dull(ez.EntityEnv):
    """Two types, one of which never comes; nothing changes, and nothing ends."""

    def __init__(self) -> None:
        self.action_space = ez.EntityActionSpace({"go": ez.Categorical(2), "shout": ez.GlobalCategorical(2)})
        self.observation_space = ez.EntitySpace(
            {"A": ["x"], "B": ["x", "y"], "C": []}, self.action_space, ["time"]
        )

    def _reset(self, options: Any) -> ez.Observation:
        return self.look()

    def _step(self, actions: Any) -> Any:
        return self.look(), 0.0, False, False, {}

    def look(self) -> ez.Observation:
        masks = {"go": ez.envs.CategoricalMask(), "shout": ez.envs.GlobalCategoricalMask()}
        return ez.Observation({"A": [[2.5]], "C": np.zeros((3, 0))}, globals=[0.5], actions=masks)


def test_what_never_comes_or_changes_is_said() -> None:
    assert lines_of(ez.check_entity_env(Dull(), 5)) == {
        "A": "1 at a time; x always 2.5",
        "B": "never",
        "C": "3 at a time",
        "globals": "time always 0.5",
        "action go": "4 actors at a time",
        "action shout": "at every step",
        "rewards": "always 0",
        "episodes": "none ended in 5 steps",
    }


@pytest.mark.parametrize(("mode", "ends"), [("sync", 14), ("vector_entry_point", 12)])
def test_a_step_that_resets_is_no_step_of_an_episode(mode: Any, ends: int) -> None:
    venv = gymnasium.make_vec("CartPole-v1", 2, mode, max_episode_steps=4)
    found = lines_of(ez.check_entity_env(ez.wrap_vec(venv), 30))
    assert found["episodes"] == f"{ends} ended ({ends} truncated), after 4 steps, with returns of 4"


def test_inactive_lanes_show_nothing() -> None:
    space = ez.EntitySpace({"A": ["x"]}, ez.EntityActionSpace({"go": ez.Categorical(2)}))
    space.seed(0)
    rows = [space.sample() for _ in range(4)]
    overview = Overview(space, 4)
    assert repr(overview) == "Overview(0 steps, 0 episodes ended)"
    inactive = np.array([False, True, False, True])
    overview.observe(ez.envs.batch_observations(space, rows), inactive)
    values = [x for single in rows[::2] for x in single["entities"]["A"][:, 0]]
    many = as_words([len(single["entities"]["A"]) for single in rows[::2]])
    assert lines_of(overview)["A"] == f"{many} at a time; x {as_words(values)}"
    ends = np.array([True, True, False, False])
    overview.end_step(np.array([1, 2, 0, 0], np.float32), ends, ~ends, ~inactive)
    assert overview.num_steps == 2
    # Lane 1 had no step, so that no episode ends; its reward is one that came.
    assert lines_of(overview)["episodes"] == "2 ended (1 truncated), after 1 step, with returns of 0 to 1"
    assert lines_of(overview)["rewards"] == "0 to 2, and 0 in 50 % of the steps"
