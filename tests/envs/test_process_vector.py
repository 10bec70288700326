"""`ProcessVectorEnv`: the same results as in one process, and no orphans whatever happens."""

from __future__ import annotations

import enum
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest

from facts import raises
from waiting import wait_until


def environment_class() -> Any:
    """A class that is pickled by value, because the workers can't import the tests."""

    class Growing(ez.EntityEnv):
        """Has more and more entities, says so in its infos now and then, and meets the fate it is given."""

        def __init__(self, fate: str = "", log: Any = None) -> None:
            self.fate, self.log = fate, log
            self.action_space = ez.EntityActionSpace(
                {"Go": ez.Categorical(2), "Eat": ez.SelectEntity(), "Nap": ez.GlobalCategorical(2)},
                optional=True,
            )
            self.observation_space = ez.EntitySpace(
                {"Cell": ["x", "y"]}, self.action_space, ["age"], hidden=True
            )

        def _reset(self, options: dict[str, Any]) -> ez.Observation:
            self.age = 0
            return self._look()

        def _step(self, actions: dict[str, Any]) -> Any:
            self.age += 1
            if self.age == 3 and self.fate == "raise":
                raise ValueError("out of luck")
            if self.age == 3 and self.fate == "die":
                os.kill(os.getpid(), 9)
            info: dict[str, Any] = {"age": self.age} if self.age % 3 == 0 else {}
            if self.fate == "unpicklable":
                info["odd"] = threading.Lock()
            return self._look(), self.np_random.random(), self.age >= 9, False, info

        def _look(self) -> ez.Observation:
            count = int(self.np_random.integers(2**self.age))
            return ez.Observation(
                entities={"Cell": self.np_random.random((count, 2))},
                globals=[self.age],
                visible={"Cell": np.arange(count) % 2 == 0},
                actions={
                    "Go": ez.actions.CategoricalMask(),
                    "Eat": ez.actions.SelectEntityMask(
                        actor_types=["Cell"] if count else [], actee_types=["Cell"]
                    ),
                    **({"Nap": ez.actions.GlobalCategoricalMask()} if count % 2 else {}),
                },
            )

        def close(self) -> None:
            if self.log:
                with open(self.log, "a") as file:
                    file.write("closed\n")

    return Growing


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def wait_for_the_end_of(pids: Iterable[int]) -> None:
    wait_until(lambda: not any(alive(pid) for pid in pids))


def pids_of(envs: ez.vector.ProcessVectorEnv) -> list[int]:
    assert envs.worker_pids and all(alive(pid) for pid in envs.worker_pids)
    return list(envs.worker_pids)


def blocks_of(envs: ez.vector.ProcessVectorEnv) -> set[str]:
    """The names of the shared memory that the workers have mapped."""
    maps = [Path(f"/proc/{pid}/maps").read_text() for pid in envs.worker_pids]
    return set(re.findall(r"/dev/shm/(\S+)", "".join(maps)))


@pytest.mark.parametrize("make_class", [environment_class, lambda: ez.games.MineSweeper])
def test_results_are_those_of_one_process(
    make_class: Callable[[], Any], same_info: Callable[[Any, Any], bool]
) -> None:
    env_fns = [partial(make_class())] * 5
    local = ez.vector.ListVectorEnv(env_fns)
    with ez.vector.ProcessVectorEnv(env_fns, num_workers=2) as envs:
        assert envs.single_observation_space == local.single_observation_space
        assert (envs.num_envs, envs.metadata) == (5, local.metadata)
        results, expected = envs.reset(seed=3), local.reset(seed=3)
        kept = []
        rng = np.random.default_rng(0)
        for _ in range(25):
            assert results[0].equals(expected[0])
            assert same_info(results[-1], expected[-1])
            kept.append((results[0], expected[0]))
            actions = ez.envs.sample_actions(envs.single_action_space, results[0], rng)  # type: ignore[attr-defined]
            results, expected = envs.step(actions), local.step(actions)  # type: ignore[assignment]
            for mine, other in zip(results[1:4], expected[1:4], strict=True):
                assert mine.dtype == other.dtype
                assert np.array_equal(mine, other)
        assert all(batch.equals(other) for batch, other in kept)  # batches stay valid
        processes, blocks = pids_of(envs), blocks_of(envs)
    wait_for_the_end_of(processes)
    assert blocks and not any(Path("/dev/shm", name).exists() for name in blocks)


@pytest.fixture
def same_info() -> Callable[[Any, Any], bool]:
    def same(one: Any, other: Any) -> bool:
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
        if isinstance(one, ez.EntityBatch):
            return one.equals(other)
        return bool(np.array_equal(one, other))

    return same


def test_it_keeps_the_rules_and_refuses_illegal_actions() -> None:
    with ez.vector.ProcessVectorEnv(
        [partial(ez.games.MineSweeper, render_mode="rgb_array")] * 4, num_workers=2
    ) as envs:
        with pytest.raises(gymnasium.error.ResetNeeded):
            envs.step({})
        ez.check_entity_env(envs, num_steps=40)
        frames = envs.render()
        assert frames is not None
        assert [frame.shape for frame in frames] == [(96, 112, 3)] * 4
    envs.close()
    with raises(gymnasium.error.ClosedEnvironmentError, "ProcessVectorEnv", "closed"):
        envs.reset()


@pytest.mark.parametrize(
    ("fate", "steps", "facts", "indices", "closed"),
    [
        ("die", 3, ("envs [2, 3]", "SIGKILL", "step"), (2, 3), 2),
        ("raise", 3, ("env 2 (Growing)", "ValueError", "step", "out of luck"), (2,), 4),
        ("unpicklable", 1, ("envs [2, 3]", "raised", "'odd'"), (2, 3), 4),
    ],
)
def test_when_a_worker_fails_in_a_step_its_envs_are_named_and_all_others_closed(
    tmp_path: Path, fate: str, steps: int, facts: tuple[str, ...], indices: tuple[int, ...], closed: int
) -> None:
    log = tmp_path / "log"
    growing = environment_class()
    fates = ["", "", fate, ""]
    envs = ez.vector.ProcessVectorEnv([partial(growing, fate=f, log=str(log)) for f in fates], num_workers=2)
    envs.reset(seed=0)
    pids, blocks = pids_of(envs), blocks_of(envs)
    for _ in range(steps - 1):
        envs.step({})
    with raises(ez.WorkerError, *facts) as caught:
        envs.step({})
    assert caught.value.env_indices == indices
    assert log.read_text().count("closed") == closed
    wait_for_the_end_of(pids)
    assert not any(Path("/dev/shm", name).exists() for name in blocks)
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        envs.step({})
    if fate == "raise":
        assert "in _step" in "".join(caught.value.__notes__)  # the worker's traceback


def test_errors_of_an_engine_that_has_died_are_told() -> None:
    class Broken(environment_class()):  # type: ignore[misc]
        render_mode = "rgb_array"

        def render(self) -> Any:
            raise BrokenPipeError("the renderer has died")

    with ez.vector.ProcessVectorEnv([partial(Broken)], num_workers=1) as envs:
        envs.reset(seed=0)
        with raises(ez.WorkerError, "BrokenPipeError", "the renderer has died"):
            envs.render()


@pytest.mark.parametrize("num_workers", [None, 1])
def test_classes_of_a_script_are_the_same_in_workers(num_workers: int | None) -> None:
    class Level(enum.Enum):
        EASY = 0
        HARD = 1

    class Leveled(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(0, 1, (2,))
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            return np.zeros(2, np.float32), {"hard": options["level"] is Level.HARD, "level": Level.EASY}

        def step(self, action: Any) -> Any:
            return np.zeros(2, np.float32), 0.0, False, False, {"level": Level.HARD}

    with ez.make_vec(Leveled, 2, num_workers=num_workers) as envs:
        _, info = envs.reset(seed=0, options={"level": Level.HARD})
        assert info["hard"].tolist() == [True, True] and info["level"].tolist() == [Level.EASY] * 2
        *_, info = envs.step(envs.action_space.sample())
        assert info["level"].tolist() == [Level.HARD] * 2


def test_an_environment_that_cannot_be_made_is_named() -> None:
    with raises(ez.WorkerError, "env 1", "ZeroDivisionError", "made"):
        ez.vector.ProcessVectorEnv([ez.games.MineSweeper, lambda: 1 // 0], num_workers=1)  # type: ignore[list-item]


def test_workers_with_different_spaces_are_an_error() -> None:
    with raises(ez.WorkerError, "env 1", "observation space", "env 0"):
        ez.vector.ProcessVectorEnv([ez.games.MineSweeper, environment_class()], num_workers=2)


def test_what_cannot_work_is_refused_before_a_process_is_started() -> None:
    with raises(ValueError, "num_workers", "2 envs", 3):
        ez.vector.ProcessVectorEnv([ez.games.MineSweeper] * 2, num_workers=3)
    lock = threading.Lock()
    with raises(TypeError, "env 1", "env_fn", "pickle"):
        ez.vector.ProcessVectorEnv([ez.games.MineSweeper, lambda: lock], num_workers=1)  # type: ignore[list-item, return-value]


def test_an_environment_that_is_forgotten_ends_its_workers() -> None:
    envs = ez.vector.ProcessVectorEnv([ez.games.MineSweeper], num_workers=1)
    pids = pids_of(envs)
    del envs
    wait_for_the_end_of(pids)


PARENT = """
import os, re, signal
import entitize as ez

if __name__ == "__main__":
    envs = ez.make_vec("MineSweeper", 2, num_workers=2)
    envs.reset(seed=0)
    print(*envs.worker_pids)
    maps = [open(f"/proc/{pid}/maps").read() for pid in envs.worker_pids]
    print(*set(re.findall(r"/dev/shm/(\\S+)", "".join(maps))), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_survives_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    paths = os.pathsep.join([str(Path(ez.__file__).parent.parent), *sys.path])
    # The workers inherit stdout, so this returns when they have ended; the limit is there in case they don't.
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=120,
        check=False,
    )
    assert done.returncode == -9
    pids, names = (line.split() for line in done.stdout.splitlines())
    assert len(pids) == len(names) == 2
    wait_until(lambda: not any(alive(int(pid)) for pid in pids))
    wait_until(lambda: not any(Path("/dev/shm", name).exists() for name in names))
