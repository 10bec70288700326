"""Large gathers on several threads give what small ones do, wherever they may run."""

import os
import threading

import numba
import numpy as np
import pytest
from entitize.ragged import RaggedArray, threads


@pytest.fixture
def large() -> RaggedArray:
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 40, 4000)
    return RaggedArray.from_lengths(rng.standard_normal((lengths.sum(), 5), np.float32), lengths)


@pytest.fixture
def counted(monkeypatch):
    """Counts the gathers that go to several threads."""
    calls = []
    original = threads.gather_items_in_threads
    monkeypatch.setattr(threads, "gather_items_in_threads", lambda *a: (calls.append(1), original(*a)))
    return calls


@pytest.fixture
def two_threads():
    before = numba.get_num_threads()
    if numba.config.NUMBA_NUM_THREADS > 1:
        numba.set_num_threads(2)
    yield
    numba.set_num_threads(before)


def shuffled(array):
    order = np.random.default_rng(1).permutation(len(array)) - 7  # some are negative
    return order, RaggedArray.from_arrays([array[k] for k in order.tolist()])


def test_a_large_gather_is_shared_out(large, counted, two_threads):
    order, expected = shuffled(large)
    assert large.gather(order) == expected
    assert len(counted) == (numba.config.NUMBA_NUM_THREADS > 1)


def test_a_small_gather_is_not(large, counted, two_threads):
    large.gather([1, 2, 3])
    assert counted == []


def test_one_thread_stays_one(large, counted, two_threads):
    numba.set_num_threads(1)
    order, expected = shuffled(large)
    assert large.gather(order) == expected
    assert counted == []


def test_a_second_caller_copies_by_itself(large, counted, two_threads):
    order, expected = shuffled(large)
    with threads._threads_in_use:
        assert large.gather(order) == expected
    assert counted == []


def test_gathers_may_run_in_python_threads(large, two_threads):
    order, expected = shuffled(large)
    wrong = []

    def work():
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
def test_a_forked_child_survives_a_large_gather(large, two_threads):
    order, expected = shuffled(large)
    large.gather(order)  # the parent's threads are running
    child = os.fork()
    if child == 0:
        os._exit(0 if large.gather(order) == expected else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
