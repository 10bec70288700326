"""Infos of all lanes taken apart again."""

from __future__ import annotations

from typing import Any

import numpy as np
from entitize.envs import lane_infos
from entitize.envs.vector import merge_infos
from entitize.envs.vector.infos import present_infos, step_infos
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.one_of(st.integers(-9, 9), st.booleans(), st.text(max_size=3), st.none())
INFOS = st.dictionaries(
    st.sampled_from("abc"), st.one_of(VALUES, st.dictionaries(st.sampled_from("xy"), VALUES, min_size=1))
)


@given(st.lists(INFOS, min_size=1, max_size=4))
def test_what_was_merged_comes_apart(infos: list[dict[str, Any]]) -> None:
    for key in "abc":  # a key is a dict in all lanes or in none, as environments have it
        if not all(isinstance(info[key], dict) for info in infos if key in info):
            infos = [{k: v for k, v in info.items() if k != key or not isinstance(v, dict)} for info in infos]
    assert lane_infos(merge_infos(dict(enumerate(infos)), len(infos)), len(infos)) == infos


def test_arrays_of_lanes_and_what_is_said_of_all() -> None:
    info = {
        "level": np.array([3, 4]),
        "place": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "name": ["a", "b"],
        "version": "7",
        "_level": np.array([True, True]),
        "_odd": 1,
    }
    first, second = lane_infos(info, 2)
    assert type(first["level"]) is int and (first["level"], second["level"]) == (3, 4)
    np.testing.assert_array_equal(second["place"], [3.0, 4.0])
    assert (first["name"], second["name"], first["version"]) == ("a", "b", "7")
    assert first["_odd"] == second["_odd"] == 1 and "_level" not in first


def test_keys_that_are_no_text_have_masks_as_well() -> None:
    infos = [{5: 1, "deep": {7: 2}}, {5: 3}]
    assert lane_infos(merge_infos(dict(enumerate(infos)), 2), 2) == infos


def test_infos_of_a_step_are_the_final_ones_where_a_lane_has_ended_and_has_one() -> None:
    final = {"won": np.array([1, 0, 1, 1]), "idle": np.array([True] * 4)}
    info = {"level": np.arange(4), "final_info": final, "inactive": np.zeros(4, bool)}
    levels = [{"level": level} for level in range(4)]
    ended = np.array([True, True, True, False])
    assert step_infos(info, ended) == ([{"won": 1}, {"won": 0}, {"won": 1}, levels[3]], levels)
    info["_final_info"] = np.array([True, False, True, True])
    of_step, present = step_infos(info, ended)
    assert of_step == [{"won": 1}, levels[1], {"won": 1}, levels[3]] and present == levels
    assert [own is other for own, other in zip(of_step, present, strict=True)] == [False, True, False, True]
    assert present_infos(info, 4) == [{**level, "inactive": False} for level in levels]
