"""`distances`: what the features say touches the player is what the engine lets the player touch."""

from __future__ import annotations

import entitize as ez
import numpy as np
import pytest
from entitize.envs import sample_actions

from facts import raises

ADDED = ("gap_x", "gap_y", "nearness")


def columns(venv, name):
    return [venv.single_observation_space.entities[name].index(column) for column in ADDED]


def test_fruit_is_eaten_when_and_only_when_both_gaps_close():
    venv = ez.procgen.ProcgenVectorEnv("fruitbot", 16, num_levels=0)
    batch, _ = venv.reset(seed=4)
    rng = np.random.default_rng(0)
    eaten, left_alone = 0, 0
    for _ in range(60):
        before = batch
        batch, rewards, terminated, *_ = venv.step(sample_actions(venv.single_action_space, batch, rng))
        for lane in np.flatnonzero(~terminated):
            touching, near = 0, 0
            for name in ("GoodObject", "BadObject"):
                gaps = batch.entities[name][lane][:, columns(venv, name)[:2]]
                # The engine takes away what the player touches within the step.
                touching += (gaps < -1e-5).all(1).sum()
                # A step moves the player by at most 0.85 cells.
                gaps = before.entities[name][lane][:, columns(venv, name)[:2]]
                near += (gaps < 0.086).all(1).sum()
            assert touching == 0
            assert rewards[lane] == 0 or near > 0
            eaten += rewards[lane] != 0
            left_alone += rewards[lane] == 0 and near > 0
    assert eaten > 5 and left_alone > 5
    venv.close()


def test_they_are_asked_for_or_the_games_table_has_them(game, dumps_of):
    dumps = dumps_of(game, "easy")
    full, bare, plain = (
        ez.procgen.StateDecoder(game, options=ez.procgen.ViewOptions(distances=choice))
        .decode_dumps(dumps)
        .batch
        for choice in (True, False, None)
    )
    np.testing.assert_array_equal(bare.globals, full.globals)
    for name, rows in bare.entities.items():
        others = full.entities[name]
        np.testing.assert_array_equal(rows.offsets, others.offsets)
        np.testing.assert_array_equal(rows.values, others.values[:, : rows.inner_shape[0]])
        assert plain.entities[name] == (others if ez.procgen.GAMES[game].distances else rows)
    assert ez.procgen.GAMES["fruitbot"].distances and not ez.procgen.GAMES["maze"].distances


@pytest.mark.parametrize(("distances", "expected"), [(None, ()), (False, ()), (True, ADDED)])
def test_reference_features_have_them_only_where_asked_for(distances, expected):
    def shown(**options):
        space = ez.procgen.StateDecoder(
            "starpilot", options=ez.procgen.ViewOptions("reference", **options)
        ).observation_space
        return space.entities["Flyer"]

    plain = shown()
    assert shown(distances=distances) == (*plain, *expected)


def test_pixels_and_what_is_no_choice_are_refused():
    with raises(ValueError, "features='pixels'", "distances"):
        ez.procgen.ViewOptions("pixels", distances=True)
    with raises(TypeError, "distances", None, False, True, "'far'"):
        ez.procgen.ViewOptions(distances="far")
