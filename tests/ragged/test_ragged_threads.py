"""Large gathers on several threads give what small ones do, wherever they may run."""

import os
import threading
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import pytest
from entitize.ragged import RaggedArray, threads
from entitize.ragged.copy_kernels import gather_items_in_threads


@pytest.fixture
def large() -> RaggedArray:
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 40, 4000)
    return RaggedArray.from_lengths(rng.standard_normal((lengths.sum(), 5), np.float32), lengths)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the gathers that go to several threads."""
    calls: list[int] = []

    def gather(*arguments: Any) -> None:
        calls.append(1)
        gather_items_in_threads(*arguments)

    monkeypatch.setattr(threads, "gather_items_in_threads", gather)
    return calls


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = numba.get_num_threads()
    numba.set_num_threads(min(2, before))
    yield
    numba.set_num_threads(before)


def shuffled(array: RaggedArray) -> tuple[np.ndarray, RaggedArray]:
    order = np.random.default_rng(1).permutation(len(array)) - 7  # some are negative
    return order, RaggedArray.from_arrays([array[k] for k in order.tolist()])


def test_a_large_gather_is_shared_out(large: RaggedArray, counted: list[int], two_threads: None) -> None:
    order, expected = shuffled(large)
    assert large.gather(order) == expected
    assert len(counted) == (numba.get_num_threads() > 1)


def test_a_small_gather_is_not(large: RaggedArray, counted: list[int], two_threads: None) -> None:
    large.gather([1, 2, 3])
    assert counted == []


def test_one_thread_stays_one(large: RaggedArray, counted: list[int], two_threads: None) -> None:
    numba.set_num_threads(1)
    order, expected = shuffled(large)
    assert large.gather(order) == expected
    assert counted == []


def test_a_second_caller_copies_by_itself(large: RaggedArray, counted: list[int], two_threads: None) -> None:
    order, expected = shuffled(large)
    with threads._threads_in_use:
        assert large.gather(order) == expected
    assert counted == []


def test_gathers_may_run_in_python_threads(large: RaggedArray, two_threads: None) -> None:
    order, expected = shuffled(large)
    wrong = []

    def work() -> None:
        for _ in range(20):
            if large.gather(order) != expected:
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_survives_a_large_gather(large: RaggedArray, two_threads: None) -> None:
    order, expected = shuffled(large)
    large.gather(order)  # the parent's threads are running
    child = os.fork()
    if child == 0:
        os._exit(0 if large.gather(order) == expected else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
