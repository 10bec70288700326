"""μRTS in this process and a worker, each with a JVM of its own: the games of one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import entitize as ez
import numpy as np
import pytest

from facts import raises, warns

BOARD = "basesWorkers8x8"
#: Lanes 0 and 1 are this process's, 2 to 4 the worker's.
OPTIONS: dict[str, Any] = {
    "opponents": {"workerRushAI": 2, "randomBiasedAI": 1},
    "selfplay": 2,
    "side": "both",
    "maps": [BOARD, "FourBasesWorkers8x8"],
    "max_steps": 40,
    "render_mode": "rgb_array",
}


def saboteur() -> Any:
    """Makes environments whose `set_progress` takes away a game's bot. Pickled by value: workers can't import
    the tests."""

    def make_env(**options: Any) -> ez.microrts.MicroRTSVectorEnv:
        env = ez.microrts.MicroRTSVectorEnv(**options)

        def set_progress(fraction: float) -> None:
            if fraction < len(env.games):
                env.engine.columns.bots.array[int(fraction)] = None  # Java raises where it is called

        env.set_progress = set_progress  # type: ignore[method-assign]
        return env

    return make_env


class Cache:
    """Keeps one environment for all tests, for as long as none closes it."""

    env: Any = None

    def get(self) -> ez.vector.ShardedVectorEnv:
        if self.env is None or self.env.closed:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("entitize.adapters.microrts.make.MicroRTSVectorEnv", saboteur())
                self.env = ez.make_vec(f"MicroRTS/{BOARD}", 5, num_workers=2, seed=3, **OPTIONS)
        assert isinstance(self.env, ez.vector.ShardedVectorEnv)
        return self.env


@pytest.fixture(scope="module")
def cache() -> Iterator[Cache]:
    cache = Cache()
    yield cache
    if cache.env is not None:
        cache.env.close()


@pytest.fixture
def workers(cache: Cache) -> ez.vector.ShardedVectorEnv:
    return cache.get()


@pytest.fixture(scope="module")
def local() -> Iterator[ez.EntityVectorEnv]:
    with ez.make_vec(f"MicroRTS/{BOARD}", 5, **OPTIONS) as env:
        assert isinstance(env, ez.microrts.MicroRTSVectorEnv)
        yield env


def assert_same(info: dict[str, Any], expected: dict[str, Any]) -> None:
    assert info.keys() == expected.keys()
    for key, value in info.items():
        if isinstance(value, ez.EntityBatch):
            assert value.equals(expected[key])
        else:
            assert value.dtype == expected[key].dtype and np.array_equal(value, expected[key])


def test_the_games_are_those_of_one_process(
    workers: ez.vector.ShardedVectorEnv, local: ez.EntityVectorEnv
) -> None:
    assert np.array_equal(workers.lane_games, local.lane_games)  # type: ignore[arg-type]
    assert [list(lanes) for lanes in workers.worker_lanes] == [[0, 1], [2, 3, 4]]
    assert workers.single_observation_space == local.single_observation_space
    assert workers.metadata == local.metadata
    results, expected = workers.reset(seed=5), local.reset(seed=5)
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(110):
        assert results[0].equals(expected[0])
        assert_same(results[-1], expected[-1])
        ends += "final_obs" in results[-1]
        actions = ez.envs.sample_actions(workers.single_action_space, results[0], rng)  # type: ignore[attr-defined]
        results, expected = workers.step(actions), local.step(actions)  # type: ignore[assignment]
        assert all(np.array_equal(*pair) for pair in zip(results[1:4], expected[1:4], strict=True))
    assert ends >= 2
    frames = [np.stack(env.render() or ()) for env in (workers, local)]
    assert np.array_equal(*frames)


def test_a_bot_that_raises_is_reported_with_its_lane(workers: ez.vector.ShardedVectorEnv) -> None:
    workers.reset(seed=0)
    workers.step({})
    workers.set_progress(1.0)  # the second game of the second worker, that of lane 3
    with warns(UserWarning, "env 3", "workerRushAI", "raised"):
        _, _, terminated, truncated, info = workers.step({})
    assert truncated.tolist() == [False, False, False, True, False] and not terminated.any()
    assert "workerRushAI" in info["bot_error"][3] and info["_bot_error"].tolist() == truncated.tolist()
    assert info["outcome"].tolist() == [None, None, None, "draw", None]
    assert len(info["final_obs"]) == 1 and info["raw_rewards"].shape == (5, 6)
    assert not workers.step({})[3].any()


def test_an_illegal_order_moves_no_game(
    workers: ez.vector.ShardedVectorEnv, local: ez.EntityVectorEnv
) -> None:
    batch, _ = workers.reset(seed=1)
    local.reset(seed=1)
    actors = batch.actions["order"].actors
    orders = np.zeros((actors.num_items, 7), np.int64)
    illegal = orders.copy()
    illegal[-1, 0] = 3  # nobody has anything to return yet
    with raises(ez.ActionError, "env 4", "action 'order'"):
        workers.step({"order": actors.with_values(illegal)})
    steps = [env.step({"order": actors.with_values(orders)})[0] for env in (workers, local)]
    assert steps[0].equals(steps[1])


def test_a_worker_that_is_killed_is_an_error_that_names_its_lanes(
    workers: ez.vector.ShardedVectorEnv,
) -> None:
    workers.reset(seed=0)
    pid = workers.worker_pids[-1]
    os.kill(pid, signal.SIGINT)  # Java leaves Ctrl-C to the parent too
    workers.step({})
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ez.WorkerError) as caught:
        for _ in range(1000):  # the signal may arrive after a step
            workers.step({})
    sentence = str(caught.value)
    assert sentence.startswith("envs [2, 3, 4]: their worker process was killed by SIGKILL in step")
    assert caught.value.env_indices == (2, 3, 4) and workers.closed


def test_games_are_planned_for_all_lanes_before_they_are_shared() -> None:
    games = ez.microrts.plan_games(
        [BOARD, "FourBasesWorkers8x8"], 9, 4, ["coacAI", *["passiveAI"] * 4], "both"
    )
    for cut in range(len(games) + 1):
        parts = [ez.microrts.plan_arguments(run) for run in (games[:cut], games[cut:]) if run]
        again = [
            game
            for part in parts
            for game in ez.microrts.plan_games(
                part["maps"], part["num_envs"], part["selfplay"], part["opponents"], part["side"]
            )
        ]
        assert [(g.map.name, g.bot, g.side) for g in again] == [(g.map.name, g.bot, g.side) for g in games]


@pytest.mark.parametrize(
    ("opponents", "lanes"),
    [
        ({"coacAI": 18, "randomBiasedAI": 2, "lightRushAI": 2, "workerRushAI": 2}, [10, 14]),
        ("passiveAI", [12, 12]),
        ({"naiveMCTSAI": 2, "workerRushAI": 22}, [1, 23]),
    ],
)
def test_processes_get_as_much_to_do(
    opponents: Any, lanes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[list[int]] = []

    def sharded(env_fns: Any, num_lanes: list[int], *rest: Any) -> Any:
        given.append(num_lanes)
        return SimpleNamespace()

    monkeypatch.setattr("entitize.envs.vector.sharded_vector.ShardedVectorEnv", sharded)
    ez.microrts.make_vec(BOARD, 24, opponents=opponents, num_workers=2)
    assert given == [lanes]


def test_a_search_that_is_counted_is_not_taken_for_a_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[int]] = []
    monkeypatch.setattr(
        "entitize.envs.vector.sharded_vector.ShardedVectorEnv", lambda *args: given.append(args[1])
    )
    opponents = {"naiveMCTSAI": 2, "workerRushAI": 22}
    ez.microrts.make_vec(BOARD, 24, opponents=opponents, num_workers=2, search_iterations=1)
    assert given == [[11, 13]]


def test_games_are_not_split() -> None:
    with raises(ValueError, "num_workers", 1, 2, 3):
        ez.make_vec(f"MicroRTS/{BOARD}", 4, selfplay=4, num_workers=3)
    with raises(ValueError, "num_workers", 1, 4, -1):
        ez.make_vec(f"MicroRTS/{BOARD}", 4, num_workers=-1)
    with raises(ValueError, "bot", "'coacAi'", "'coacAI'"):
        ez.make_vec(f"MicroRTS/{BOARD}", 4, opponents="coacAi", num_workers=2)
    with raises(ValueError, "side", "2 lanes", "[0, 2]"):
        ez.make_vec(f"MicroRTS/{BOARD}", 2, side=[0, 2])


SCRIPT = f"""
import entitize as ez

if __name__ == "__main__":
    envs = ez.make_vec("MicroRTS/{BOARD}", 2, num_workers=2, opponents="workerRushAI")
    envs.reset(seed=0)
    envs.step({{}})
    print("played")
"""


def test_an_exit_does_not_hang_on_workers(tmp_path: Any) -> None:
    script = tmp_path / "play.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "played\n", ""), done
