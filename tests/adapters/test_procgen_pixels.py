"""Procgen's pixels: frames, ends and infos against the engine's own and against those of the entities."""

from __future__ import annotations

import warnings

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.ragged import RaggedArray
from gymnasium.utils.env_checker import check_env

from facts import raises


def acts(choices):
    return {"act": RaggedArray.from_lengths(np.array(choices, np.int64), np.ones(len(choices), np.int64))}


def test_frames_are_those_that_the_engine_draws_for_agents(game):
    engine = ez.procgen.import_engine()(
        num=3, env_name=game, distribution_mode="easy", rand_seed=3, num_threads=0
    )
    rng = np.random.default_rng(1)
    with ez.procgen.make_vec(game, 3, features="pixels") as venv:
        batch, _ = venv.reset(seed=3)
        assert batch in venv.observation_space
        kept = []
        for _ in range(25):
            drawn = engine.observe()[1]["rgb"]
            np.testing.assert_array_equal(batch.frames.values, drawn)
            kept.append((batch.frames, drawn))
            choices = rng.integers(0, 15, 3)
            engine.act(choices.astype(np.int32))
            batch = venv.step(acts(choices))[0]
    engine.close()
    for frames, drawn in kept:  # batches stay as they were
        np.testing.assert_array_equal(frames.values, drawn)


@pytest.mark.parametrize(
    ("game", "options"),
    [("maze", {}), ("starpilot", {}), ("maze", {"use_sequential_levels": True, "distribution_mode": "easy"})],
)
def test_rewards_ends_and_infos_are_those_of_the_entities(game, options):
    rng = np.random.default_rng(0)
    ends = truncations = completed = 0
    with (
        ez.procgen.make_vec(game, 6, num_threads=1, **options) as venv,
        ez.procgen.make_vec(game, 6, features="pixels", **options) as pixels,
    ):
        infos = [env.reset(seed=4)[1] for env in (venv, pixels)]
        for step in range(620 if (game, options) == ("maze", {}) else 300):
            for key in ("level_seed", "level_complete"):
                np.testing.assert_array_equal(infos[0][key], infos[1][key])
                assert infos[0][key].dtype == infos[1][key].dtype
            orders = acts(rng.integers(0, 15, 6))
            if step == 80:  # the episodes are abandoned
                infos = [env.reset()[1] for env in (venv, pixels)]
                continue
            one, other = venv.step(orders), pixels.step(orders)
            for mine, others in zip(one[1:4], other[1:4], strict=True):
                np.testing.assert_array_equal(mine, others, strict=True)
            infos = [one[4], other[4]]
            ends, truncations = ends + one[2].sum(), truncations + one[3].sum()
            completed += infos[0]["level_complete"].sum()
    assert (ends if game == "starpilot" else completed) > 0
    assert game == "starpilot" or options or truncations > 0


@pytest.mark.parametrize("sequential", [False, True])
def test_what_ends_late_is_truncated_unless_the_level_was_completed(sequential):
    rng, times = np.random.default_rng(0), np.zeros(32)
    late = early = completed = 0
    with ez.procgen.ProcgenVectorEnv(
        "coinrun", 32, features="pixels", use_sequential_levels=sequential
    ) as venv:
        venv.reset(seed=1)
        venv._limits = np.full(32, 60)  # the engine's own limit is 1,000 steps
        for _ in range(300):
            _, _, terminated, truncated, info = venv.step(acts(rng.choice([7, 8], 32)))
            ended, complete, times = terminated | truncated, info["level_complete"], times + 1
            np.testing.assert_array_equal(truncated, ended & ~complete & (times >= 60))
            late, early = late + truncated.sum(), early + terminated.sum()
            completed += (complete & (times >= 60)).sum()
            times[ended | complete] = 0
    assert late > 0 and early > 0 and completed > 0


def test_states_are_fetched_when_episodes_start_and_never_after(monkeypatch):
    fetched = []
    fill = ez.procgen.StateBuffer.fill
    monkeypatch.setattr(
        ez.procgen.StateBuffer, "fill", lambda self, engine: (fetched.append(1), fill(self, engine))[1]
    )
    with ez.procgen.make_vec("coinrun", 2, features="pixels") as venv:
        for resets in (1, 2):
            venv.reset()
            for _ in range(5):
                venv.step(acts([0, 7]))
            assert len(fetched) == resets


def test_the_action_is_global_and_a_step_without_one_does_nothing():
    with (
        ez.procgen.make_vec("bigfish", 2, features="pixels") as venv,
        ez.procgen.make_vec("bigfish", 2, features="pixels") as other,
    ):
        assert venv.single_action_space == ez.EntityActionSpace(
            {"act": ez.GlobalCategorical(ez.procgen.ACTIONS)}
        )
        batch, _ = venv.reset(seed=1)
        assert batch.actions["act"].actors.values.tolist() == [-1, -1]
        assert batch.num_entities == 0 and batch.globals.shape == (2, 0)
        other.reset(seed=1)
        for _ in range(5):
            noop = venv.step({})[0]
            assert noop.equals(other.step(acts([ez.procgen.ACTIONS.index("noop")] * 2))[0])


def test_drawing_is_pretty_unless_it_is_told_to_be_plain():
    looks = []
    for options in ({}, {"use_backgrounds": False}, {"use_monochrome_assets": True}):
        with ez.procgen.make_vec("starpilot", 1, features="pixels", **options) as venv:
            looks.append(venv.reset(seed=1)[0].frames.values)
    assert (looks[0] != looks[1]).mean() > 0.2 and (looks[0] != looks[2]).any()


def test_options_of_entities_are_refused_with_pixels():
    with raises(ValueError, "features='pixels'", "chunk_size", "whole_map"):
        ez.procgen.make_vec("maze", 1, features="pixels", chunk_size=3, whole_map=True)
    with raises(ValueError, "'default', 'reference', 'pixels'", "'pixel'"):
        ez.procgen.make_vec("maze", 1, features="pixel")
    with raises(ValueError, "features='pixels'", "states"):
        ez.procgen.StateDecoder("maze", options=ez.procgen.ViewOptions("pixels"))


def test_a_rendered_frame_is_the_large_one_and_the_camera_counts_pixels():
    with ez.procgen.ProcgenVectorEnv("fruitbot", 2, features="pixels", render_mode="rgb_array") as venv:
        with pytest.raises(gymnasium.error.ResetNeeded):
            venv.camera(0)
        venv.reset(seed=1)
        assert [frame.shape for frame in venv.render()] == [(512, 512, 3)] * 2
        assert venv.camera(1) == (0, 64, 64, -64)


def test_the_single_environment_shows_frames():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # check_env warns of what the spaces of all entity envs are
        env = gymnasium.make("entitize/Procgen-leaper-v0", features="pixels")
        check_env(env.unwrapped, skip_render_check=True)
    observation, _ = env.reset(seed=3)
    assert observation["frame"].shape == (64, 64, 3) and observation["frame"].dtype == np.uint8
    assert set(observation) == {"actions", "frame"}
    face = ez.to_gymnasium(env)
    seen, _ = face.reset(seed=3)
    np.testing.assert_array_equal(seen["frame"], observation["frame"])
    assert seen in face.observation_space
    face.close()
