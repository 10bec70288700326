"""Large gathers on several threads give what small ones do, wherever they may run."""

import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from entitize.ragged import RaggedArray, get_num_threads, set_num_threads, threads

from facts import raises


@pytest.fixture
def large() -> RaggedArray:
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 40, 4000)
    assert 20 * lengths.sum() > threads.PARALLEL_BYTES
    return RaggedArray.from_lengths(rng.standard_normal((lengths.sum(), 5), np.float32), lengths)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For each gather that goes to several threads, how many."""
    calls: list[int] = []

    def run_shares(bounds: list[int], run: threads.Run) -> None:
        calls.append(len(bounds) - 1)
        original(bounds, run)

    original = threads.run_shares
    monkeypatch.setattr(threads, "run_shares", run_shares)
    return calls


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = get_num_threads()
    set_num_threads(2)
    yield
    set_num_threads(before)


def shuffled(array: RaggedArray) -> tuple[np.ndarray, RaggedArray]:
    order = np.random.default_rng(1).permutation(len(array)) - 7  # some are negative
    return order, RaggedArray.from_arrays([array[k] for k in order.tolist()])


def test_a_large_gather_is_shared_out(large: RaggedArray, counted: list[int], two_threads: None) -> None:
    order, expected = shuffled(large)
    assert large.gather(order) == expected
    assert counted == [2]


@pytest.mark.parametrize("num_threads", [3, 7])
def test_any_number_of_threads_gives_the_same(
    large: RaggedArray, two_threads: None, num_threads: int
) -> None:
    set_num_threads(num_threads)
    order, expected = shuffled(large)
    assert large.gather(order) == expected


def test_one_sequence_that_is_all_of_it_is_gathered_on_threads(two_threads: None, counted: list[int]) -> None:
    array = RaggedArray.from_lengths(np.arange(400_000.0), [0, 400_000, 0])
    assert array.gather([2, 1, 0]) == RaggedArray.from_lengths(np.arange(400_000.0), [0, 400_000, 0])
    assert counted == [2]


def test_a_small_gather_is_not(large: RaggedArray, counted: list[int], two_threads: None) -> None:
    large.gather([1, 2, 3])
    assert counted == []


def test_one_thread_is_the_default(large: RaggedArray, counted: list[int]) -> None:
    assert get_num_threads() == 1
    order, expected = shuffled(large)
    assert large.gather(order) == expected
    assert counted == []


@pytest.mark.parametrize("number", [0, -1, 1.5])
def test_a_number_of_threads_that_makes_no_sense_is_refused(number: float) -> None:
    with raises(ValueError, "num_threads", number):
        set_num_threads(number)  # type: ignore[arg-type]
    assert get_num_threads() == 1


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
