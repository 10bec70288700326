"""The generators of the lanes, against plain Python and the published numbers."""

from __future__ import annotations

import numpy as np
import pytest
from entitize.envs.randomness import STATE_WORDS, below, draw_first, next_word, seed_lane, uniform
from hypothesis import given
from hypothesis import strategies as st

WORD = (1 << 64) - 1
Words = list[int]


def plain_seeds(seed: int) -> Words:
    """SplitMix64 in Python's whole numbers."""
    words = []
    for _ in range(STATE_WORDS):
        seed = (seed + 0x9E3779B97F4A7C15) & WORD
        mixed = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & WORD
        words.append(mixed ^ (mixed >> 31))
    return words


def plain_next(state: Words) -> int:
    """xoshiro256** in Python's whole numbers."""

    def turned(word: int, places: int) -> int:
        return ((word << places) | (word >> (64 - places))) & WORD

    result = (turned((state[1] * 5) & WORD, 7) * 9) & WORD
    shifted = (state[1] << 17) & WORD
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = turned(state[3], 45)
    return result


def seeded(seed: int) -> np.ndarray:
    state = np.zeros(STATE_WORDS, np.uint64)
    seed_lane(state, np.uint64(seed))
    return state


def test_the_generators_give_the_numbers_that_their_authors_publish() -> None:
    assert seeded(1234567).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
    ]
    state = np.array([1, 2, 3, 4], np.uint64)
    assert [int(next_word(state)) for _ in range(4)] == [11520, 0, 1509978240, 1215971899390074240]


@given(seed=st.integers(0, WORD))
def test_words_are_those_of_the_plain_generator(seed: int) -> None:
    state, words = seeded(seed), plain_seeds(seed)
    assert state.tolist() == words
    assert [int(next_word(state)) for _ in range(10)] == [plain_next(words) for _ in range(10)]


@given(seed=st.integers(0, WORD), bound=st.one_of(st.integers(1, 100), st.integers(1, 2**32 - 1)))
def test_whole_numbers_below_a_bound_are_drawn_by_rejection(seed: int, bound: int) -> None:
    state, words = seeded(seed), plain_seeds(seed)
    for _ in range(10):
        while True:  # of the 2**32 halves, the first 2**32 % bound (by low part) would be one too many
            product = (plain_next(words) >> 32) * bound
            if product % 2**32 >= 2**32 % bound:
                break
        assert below(state, bound) == product >> 32


@pytest.mark.parametrize("bound", [1, 2, 7, 100])
def test_all_whole_numbers_below_a_bound_are_equally_likely(bound: int) -> None:
    state = seeded(5)
    counts = np.bincount([below(state, bound) for _ in range(200 * bound)], minlength=bound)
    assert len(counts) == bound
    chi_squared = ((counts - 200) ** 2 / 200).sum()
    assert chi_squared < bound + 4 * np.sqrt(2 * bound)


@given(seed=st.integers(0, WORD))
def test_uniform_numbers_are_the_upper_53_bits(seed: int) -> None:
    state, words = seeded(seed), plain_seeds(seed)
    assert [float(uniform(state)) for _ in range(5)] == [(plain_next(words) >> 11) / 2**53 for _ in range(5)]


@given(seed=st.integers(0, WORD), size=st.integers(1, 8), data=st.data())
def test_the_first_items_are_a_sample_of_all(seed: int, size: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, size))
    items = np.arange(size)
    draw_first(seeded(seed), items, count)
    assert sorted(items) == list(range(size))


def test_every_order_of_a_sample_is_equally_likely() -> None:
    state, seen = seeded(9), np.zeros((4, 4))
    for _ in range(2400):
        items = np.arange(4)
        draw_first(state, items, 2)
        seen[items[0], items[1]] += 1
    assert not seen.diagonal().any()
    assert abs(seen[~np.eye(4, dtype=bool)] - 200).max() < 60  # 12 pairs, a standard deviation of 14
