"""`ShardedVectorEnv`: vector environments in worker processes, with the results of one in this process."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.envs.vector.native_arrays import global_choice
from entitize.envs.vector.workers import shares

from facts import raises, warns

SNAKES: dict[str, Any] = {"num_snakes": 2, "board_size": 5, "max_steps": 20, "render_mode": "rgb_array"}


@pytest.fixture(scope="module")
def snakes() -> Iterator[ez.EntityVectorEnv]:
    """Three games of two snakes, each a lane that is idle once it is dead, in two processes."""
    with ez.make_vec("MultiSnake/lanes", 6, num_workers=2, **SNAKES) as envs:
        assert isinstance(envs, ez.vector.ShardedVectorEnv)
        yield envs


def assert_same(one: Any, other: Any) -> None:
    """Two infos, or parts of them, are alike, dtypes included."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, ez.EntityBatch):
        assert one.equals(other)
    else:
        assert one.dtype == other.dtype and np.array_equal(one, other)


@pytest.mark.parametrize("seed", [3, [5, None, 7, 8, None, 10]])
def test_results_are_those_of_one_process(snakes: ez.EntityVectorEnv, seed: Any) -> None:
    assert isinstance(snakes, ez.vector.ShardedVectorEnv)
    assert [len(lanes) for lanes in snakes.worker_lanes] == [2, 4]  # games are not split
    with ez.make_vec("MultiSnake/lanes", 6, **SNAKES) as local:
        assert snakes.single_observation_space == local.single_observation_space
        assert (snakes.num_envs, snakes.metadata) == (6, local.metadata)
        for envs in (snakes, local):
            envs.reset(seed=1)
        results, expected = snakes.reset(seed=seed), local.reset(seed=seed)
        kept, ended, idle = [], 0, 0
        rng = np.random.default_rng(0)
        for _ in range(110):
            assert results[0].equals(expected[0])
            assert_same(results[-1], expected[-1])
            kept.append((results[0], expected[0]))
            ended, idle = ended + ("final_obs" in results[-1]), idle + results[-1]["inactive"].sum()
            actions = ez.envs.sample_actions(snakes.single_action_space, results[0], rng)  # type: ignore[attr-defined]
            results, expected = snakes.step(actions), local.step(actions)  # type: ignore[assignment]
            for mine, other in zip(results[1:4], expected[1:4], strict=True):
                assert_same(mine, other)
        assert ended and idle
        assert all(batch.equals(other) for batch, other in kept)  # batches stay valid
        assert np.array_equal(np.stack(snakes.render() or ()), np.stack(local.render() or ()))


def test_workers_are_neither_copied_nor_pickled(snakes: ez.EntityVectorEnv) -> None:
    snakes.reset(seed=1)
    for copied in (copy.deepcopy, pickle.dumps):
        with raises(TypeError, "worker processes", "num_workers=0"):
            copied(snakes)
    snakes.reset(seed=1)


def test_lanes_that_meet_in_one_game_are_known(snakes: ez.EntityVectorEnv) -> None:
    with ez.make_vec("MultiSnake/lanes", 6, **SNAKES) as one:
        assert one.lane_games is not None and snakes.lane_games is not None
        assert snakes.lane_games.tolist() == one.lane_games.tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forked children")
def test_a_forked_child_leaves_the_workers_to_its_parent() -> None:
    venv = ez.make_vec("MultiSnake/lanes", 4, num_workers=2, **SNAKES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork of several threads
        child = os.fork()
    if child == 0:
        del venv
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(venv.reset(seed=1)[0]) == 4
    venv.close()


def test_it_keeps_the_rules(snakes: ez.EntityVectorEnv) -> None:
    ez.check_entity_env(snakes, num_steps=30)


def test_an_illegal_action_moves_no_lane(snakes: ez.EntityVectorEnv) -> None:
    with ez.make_vec("MultiSnake/lanes", 6, **SNAKES) as local:
        batches = [envs.reset(seed=2)[0] for envs in (snakes, local)]
        with raises(ez.ActionError, "env 5", "action 'move'"):
            snakes.step({"move": batches[0].actions["move"].actors.with_values(np.array([0, 0, 0, 0, 0, 4]))})
        with raises(ValueError, "2 seeds", "6 envs"):
            snakes.reset(seed=[1, 2])  # type: ignore[arg-type]
        with raises(ValueError, "seed", "negative", -1):
            snakes.reset(seed=-1)
        legal = {"move": batches[0].actions["move"].actors.with_values(np.zeros(6, np.int64))}
        assert snakes.step(legal)[0].equals(local.step(legal)[0])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_seed_of_make_vec_is_that_of_the_first_reset(num_workers: int) -> None:
    with ez.make_vec("Xor", 2, seed=3, num_workers=num_workers) as venv, ez.make_vec("Xor", 2) as seeded:
        assert venv.reset()[0].equals(seeded.reset(seed=3)[0])


def test_what_cannot_work_is_refused() -> None:
    with raises(ValueError, "num_workers", "4 envs", 5):
        ez.make_vec("MultiSnake", 4, num_workers=5)
    with raises(ValueError, "num_workers", "2 games", 3):
        ez.make_vec("MultiSnake/lanes", 4, num_workers=3)
    with raises(TypeError, "num_workers", "whole number", 1.5):
        ez.make_vec("MultiSnake", 4, num_workers=1.5)
    with raises(ValueError, "num_snakes", 2, 3):
        ez.make_vec("MultiSnake/lanes", 3, num_workers=1)
    with raises(ValueError, "0 env_fns", "0 numbers of lanes"):
        ez.vector.ShardedVectorEnv([], [])


def test_what_an_environment_refuses_is_raised_as_in_one_process() -> None:
    with raises(ValueError, "max_steps", 1, 0) as caught:
        ez.make_vec("MultiSnake", 4, num_workers=1, max_steps=0)
    assert "native.py" in caught.value.__notes__[0]  # the worker's traceback
    with raises(TypeError, "env_fn", "envs 0 to 2", "EntityVectorEnv", "3 lanes"):
        ez.vector.ShardedVectorEnv([partial(ez.make_vec, "MultiSnake", 2)], [3])


def odd_environment() -> Any:
    """A class that is pickled by value, because the workers can't import the tests."""

    class Odd(ez.EntityVectorEnv):
        """Does what it is told by `set_progress`: warns at 0.25 and raises at 0.75."""

        def __init__(self, num_envs: int) -> None:
            self.num_envs = num_envs
            self.single_action_space = ez.EntityActionSpace({"Go": ez.GlobalCategorical(2)}, optional=True)
            self.single_observation_space = ez.EntitySpace({}, self.single_action_space, ["lane"])
            self.progress = 0.0

        def look(self) -> ez.EntityBatch:
            lanes = self.first_lane + np.arange(self.num_envs, dtype=np.float32)
            free = global_choice(np.ones((self.num_envs, 2), bool))
            return ez.EntityBatch({}, lanes[:, None], {"Go": free}, {})

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return self.look(), {"seed": np.full(self.num_envs, -1 if seed is None else seed)}

        def step(self, actions: Any) -> Any:
            if self.progress == 0.25:
                warnings.warn(f"lane {self.first_lane} is odd", FutureWarning, stacklevel=2)
            if self.progress == 0.75 and self.first_lane:
                raise ArithmeticError("out of luck")
            info = {"heavy": np.full(self.num_envs, 2.5), "_heavy": np.ones(self.num_envs, bool)}
            nothing = np.zeros(self.num_envs, bool)
            return (
                self.look(),
                np.zeros(self.num_envs, np.float32),
                nothing,
                nothing,
                {"nested": info if self.first_lane else {}},
            )

        def set_progress(self, fraction: float) -> None:
            self.progress = fraction

    return Odd


def test_warnings_and_progress_get_through_and_errors_name_the_lanes() -> None:
    odd = odd_environment()
    envs = ez.vector.ShardedVectorEnv([partial(odd, 1), partial(odd, 2)], [1, 2], seed=10)
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step({})
    batch, info = envs.reset()
    assert batch.globals[:, 0].tolist() == [0, 1, 2]
    assert info["seed"].tolist() == [10, 11, 11]  # of each environment's first lane
    assert envs.reset()[1]["seed"].tolist() == [-1, -1, -1]
    nested = envs.step({})[-1]["nested"]
    assert nested["heavy"].tolist() == [0, 2.5, 2.5] and nested["_heavy"].tolist() == [False, True, True]
    envs.set_progress(0.25)
    with warns(FutureWarning, "is odd") as caught:
        envs.step({})
    assert {str(warning.message) for warning in caught} == {"lane 0 is odd", "lane 1 is odd"}
    assert {warning.filename for warning in caught} == {__file__}
    with raises(ValueError, "render_mode"):
        envs.render()
    envs.set_progress(0.75)
    with raises(ez.WorkerError, "envs [1, 2]", "ArithmeticError") as failed:
        envs.step({})
    assert failed.value.env_indices == (1, 2) and isinstance(failed.value.__cause__, ArithmeticError)
    assert "out of luck" in failed.value.__notes__[0]
    for call in (envs.reset, envs.render, partial(envs.step, {}), partial(envs.set_progress, 1.0)):
        with raises(gymnasium.error.ClosedEnvironmentError, "ShardedVectorEnv", "closed"):
            call()


def changing_columns() -> Any:
    """A class, pickled by value likewise, whose infos are others at every step."""

    class Changing(odd_environment()):  # type: ignore[misc]
        """Says in `step` what it was told in `said`, with as many rows as it has lanes."""

        steps = 0

        def said(self, step: int, rows: int, first: int) -> dict[str, Any]:
            lanes = np.arange(first, first + rows)
            words = np.array([None, *(f"lane {lane}" for lane in lanes)], object)[1:]
            infos: list[dict[str, Any]] = [
                {"heavy": lanes * 0.5},
                {"heavy": lanes * 1.5},
                {"light": lanes.astype(np.uint8) * 3, "heavy": np.outer(lanes, [1, 2, 3]).astype(np.int16)},
                {},
                {"flag": lanes % 2 == 0, "word": words, "heavy": lanes + 2.5},
                {"flag": lanes % 2 == 1, "complex": lanes * 1j, "of all": np.arange(7)},
                {"large": np.outer(lanes, np.arange(5000.0))},
            ]
            return infos[step % len(infos)]

        def step(self, actions: Any) -> Any:
            self.steps += 1
            info = self.said(self.steps, self.num_envs, self.first_lane)
            return (*super().step(actions)[:4], info)

    return Changing


def test_infos_get_through_whatever_is_in_them() -> None:
    changing = changing_columns()
    with ez.vector.ShardedVectorEnv([partial(changing, 1), partial(changing, 2)], [1, 2], seed=10) as envs:
        envs.reset()
        for step in range(1, 16):
            assert_same(envs.step({})[-1], changing(3).said(step, 3, 0))


def test_a_worker_that_dies_while_the_parent_waits_is_an_error() -> None:
    envs = ez.vector.ShardedVectorEnv([partial(odd_environment(), 1)] * 2, [1, 1])
    envs.reset(seed=0)
    pid = envs.worker_pids[1]
    os.kill(pid, signal.SIGSTOP)  # the step will not be answered
    timer = threading.Timer(0.2, os.kill, (pid, signal.SIGKILL))
    timer.start()
    with raises(ez.WorkerError, "envs [1]", "SIGKILL", "step"):
        envs.step({})
    timer.join()
    assert envs.closed


def test_a_worker_that_hangs_is_an_error_that_names_it() -> None:
    envs = ez.vector.ShardedVectorEnv(
        [partial(odd_environment(), 1), partial(odd_environment(), 2)],
        [1, 2],
        worker_timeout=60,
    )
    envs.reset(seed=0)
    envs.step({})  # the first one would have ten times as long
    envs.worker_timeout = 0.5
    pids = envs.worker_pids
    os.kill(pids[-1], signal.SIGSTOP)
    with raises(ez.WorkerError, "envs [1, 2]", pids[-1], "0.5 s", "step") as caught:
        envs.step({})
    assert caught.value.env_indices == (1, 2)
    assert envs.closed
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    with raises(gymnasium.error.ClosedEnvironmentError, "WorkerError"):
        envs.step({})


@pytest.mark.parametrize("limit", [0, -1.0, float("nan")])
def test_a_worker_timeout_must_be_positive(limit: float) -> None:
    with raises(ValueError, "worker_timeout"):
        ez.make_vec("MultiSnake", 2, num_workers=1, worker_timeout=limit)
    with ez.make_vec("MultiSnake", 2, num_workers=1) as envs, raises(ValueError, "worker_timeout"):
        envs.worker_timeout = limit  # type: ignore[attr-defined]


def test_a_key_press_ends_a_worker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entitize.envs.vector.workers.worker_pool.GRACE", 0.1)
    envs = ez.vector.ShardedVectorEnv([partial(odd_environment(), 1)], [1])
    envs.reset(seed=0)
    (pid,) = envs.worker_pids
    os.kill(pid, signal.SIGINT)  # the terminal's Ctrl-C reaches the workers too, which leave it to the parent
    envs.step({})
    os.kill(pid, signal.SIGSTOP)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        envs.step({})
    timer.join()
    assert envs.closed
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


# -- parts --------------------------------------------------------------------------------------------------


def test_shares_are_even_and_leave_nobody_out() -> None:
    assert shares([1] * 5, 2) == [range(2), range(2, 5)]
    assert shares([2, 2, 1, 1, 1, 1], 2) == [range(2), range(2, 6)]
    assert shares([1, 1, 8], 3) == [range(1), range(1, 2), range(2, 3)]
    assert shares([8, 1, 1], 3) == [range(1), range(1, 2), range(2, 3)]
    rng = np.random.default_rng(0)
    for _ in range(100):
        sizes = rng.integers(1, 4, rng.integers(1, 9)).tolist()
        runs = shares(sizes, int(rng.integers(1, len(sizes) + 1)))
        assert all(runs) and [item for run in runs for item in run] == list(range(len(sizes)))


def test_infos_are_joined_lane_by_lane() -> None:
    def shape(rows: int, columns: int) -> np.ndarray:
        return np.ones((rows, columns), np.float32)

    def objects(*values: Any) -> np.ndarray:
        column = np.full(len(values), None, object)
        column[:] = values
        return column

    joined = ez.vector.join_infos(
        [
            {"raw": shape(2, 3), "odd": shape(2, 1), "version": "1", "outcome": objects("win", None)},
            {"raw": shape(1, 3), "odd": shape(1, 2), "flag": np.array([True])},
        ],
        [2, 1],
    )
    assert joined["raw"].shape == (3, 3) and joined["raw"].dtype == np.float32
    assert [row.shape for row in joined["odd"]] == [(1,), (1,), (2,)]
    assert joined["outcome"].tolist() == ["win", None, None]
    assert joined["flag"].tolist() == [False, False, True]
    assert joined["version"] == "1"


def test_seeds_of_lanes_count_from_the_one_given() -> None:
    assert ez.vector.lane_seeds(None, 2) == [None, None]
    assert ez.vector.lane_seeds(np.int64(4), 3) == [4, 5, 6]
    assert ez.vector.lane_seeds([4, None], 2) == [4, None]


def test_workers_ignore_interrupts_and_do_not_block_them() -> None:
    with ez.make_vec("MultiSnake", 2, num_workers=1) as envs:
        envs.reset(seed=0)
        status = Path(f"/proc/{envs.worker_pids[0]}/status").read_text()
    masks = {
        line.split(":")[0]: int(line.split()[1], 16)
        for line in status.splitlines()
        if line.startswith(("SigIgn", "SigBlk"))
    }
    interrupt = 1 << (signal.SIGINT - 1)
    assert masks["SigIgn"] & interrupt and not masks["SigBlk"] & interrupt
