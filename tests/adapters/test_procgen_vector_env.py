"""The native vector environment: seeds, ends of episodes, options, errors."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import sys

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.envs import ActionError, EntityVectorEnv, concatenate_batches
from entitize.ragged import RaggedArray

from facts import raises

NOOP = ez.procgen.ACTIONS.index("noop")


def acts(choices):
    return {"act": RaggedArray.from_lengths(np.array(choices, np.int64), np.ones(len(choices), np.int64))}


def assert_same_batch(one, other):
    assert list(one.entities) == list(other.entities)
    for name, rows in one.entities.items():
        assert rows == other.entities[name]
    np.testing.assert_array_equal(one.globals, other.globals)


def play(venv, seed, num_steps, rng_seed=0):
    """Everything that a run returns."""
    rng = np.random.default_rng(rng_seed)
    batch, info = venv.reset(seed=seed)
    results = [(batch, info)]
    for _ in range(num_steps):
        results.append(venv.step(acts(rng.integers(0, 15, venv.num_envs))))
    return results


def columns(info):
    final = info.get("final_info", {})
    return np.array([*(column for name, column in info.items() if name != "final_info"), *final.values()])


def assert_same_run(one, other):
    for (batch, *numbers), (other_batch, *other_numbers) in zip(one, other, strict=True):
        assert_same_batch(batch, other_batch)
        for a, b in zip(numbers, other_numbers, strict=True):
            if isinstance(a, dict):
                assert a.keys() == b.keys()
                a, b = columns(a), columns(b)
            np.testing.assert_array_equal(a, b)


def test_the_same_seed_and_actions_give_identical_runs(game):
    with ez.procgen.make_vec(game, 3) as venv, ez.procgen.make_vec(game, 3, seed=9) as other:
        first = play(venv, 9, 60)
        assert_same_run(first, play(other, None, 60))  # the seed of the constructor
        assert_same_run(first, play(venv, 9, 60))  # after steps, in the same environment


@pytest.mark.parametrize("options", [{}, {"features": "pixels"}, {"use_sequential_levels": True}])
def test_final_infos_name_the_level_that_ended(options):
    with ez.procgen.make_vec("bossfight", 4, num_levels=3, **options) as venv:
        (_, info), *steps = play(venv, 1, 150)
        assert "final_info" not in info
        count, level = 0, info["level_seed"]
        for _, _, terminated, truncated, info in steps:
            ended = terminated | truncated
            count += ended.sum()
            assert ("final_info" in info) == ended.any()
            if ended.any():
                assert (info["_final_info"] == ended).all()
                assert (info["final_info"]["level_seed"] == level)[ended].all()
                assert (info["final_info"]["level_complete"] == info["level_complete"])[ended].all()
            level = info["level_seed"]
        assert count > 5


def test_results_of_each_level():
    with ez.procgen.make_vec("bossfight", 4, num_levels=3) as venv:
        random = ez.evaluation.RandomActor(venv.single_action_space)
        results = ez.evaluate(random, venv, 16, info_keywords=["level_seed"])
    assert set(results.split("level_seed")) == {0, 1, 2}


def test_a_copy_goes_on_by_itself_from_the_same_state():
    with ez.procgen.make_vec("starpilot", 9, num_threads=2) as venv:
        play(venv, 5, 20)
        twin, pickled = copy.deepcopy(venv), pickle.loads(pickle.dumps(venv))
        runs = []
        for each in (venv, twin, pickled):
            rng = np.random.default_rng(1)
            runs.append([each.step(acts(rng.integers(0, 15, 9))) for _ in range(80)])
        assert_same_run(runs[0], runs[1])
        assert_same_run(runs[0], runs[2])
        twin.close()
        pickled.close()


def test_other_seeds_give_other_levels():
    with ez.procgen.make_vec("coinrun", 8) as venv:
        seeds = [venv.reset(seed=seed)[1]["level_seed"].tolist() for seed in (1, 2, 1, 1 + 2**31)]
    assert seeds[0] == seeds[2] == seeds[3] != seeds[1]
    assert len(set(seeds[0])) == 8


@pytest.mark.parametrize("threads", [{"num_threads": 2}, {"engine_threads": 2}])
def test_threads_change_nothing(threads):
    with (
        ez.procgen.make_vec("bossfight", 9, num_threads=1) as venv,
        ez.procgen.make_vec("bossfight", 9, **threads) as other,
    ):
        assert_same_run(play(venv, 4, 80), play(other, 4, 80))


def test_reset_without_a_seed_starts_new_episodes_and_goes_on_with_the_levels():
    with ez.procgen.make_vec("maze", 4, num_levels=3, start_level=100) as venv:
        first = venv.reset(seed=1)[1]["level_seed"]
        venv.step(acts([7] * 4))
        levels = [venv.reset()[1]["level_seed"] for _ in range(10)]
    seen = {int(level) for some in (first, *levels) for level in some}
    assert seen == {100, 101, 102}


def test_without_a_number_of_levels_all_from_the_first_on_are_drawn():
    first = 2**31 - 5
    with ez.procgen.make_vec("maze", 16, start_level=first) as venv:
        assert set(venv.reset(seed=1)[1]["level_seed"].tolist()) == set(range(first, 2**31 - 1))


def test_reset_before_any_step_hands_out_the_levels_that_are_there():
    with ez.procgen.make_vec("maze", 4) as venv:
        first, info = venv.reset(seed=1)
        again, same_info = venv.reset()
        assert_same_batch(first, again)
        assert info["level_seed"].tolist() == same_info["level_seed"].tolist()


def test_batches_stay_as_they_were_after_further_steps():
    with ez.procgen.make_vec("bigfish", 4) as venv:
        batch, _ = venv.reset(seed=1)
        before = {name: rows.values.copy() for name, rows in batch.entities.items()}
        for _ in range(30):
            venv.step(acts([7] * 4))
        for name, rows in batch.entities.items():
            np.testing.assert_array_equal(rows.values, before[name])


def test_it_returns_what_the_engine_returns(game):
    """Rewards, ends and levels against `observe` and `get_info` of an engine that goes the same way."""
    engine = ez.procgen.import_engine()(
        num=4, env_name=game, distribution_mode="easy", rand_seed=3, num_threads=0
    )
    rng = np.random.default_rng(1)
    with ez.procgen.make_vec(game, 4) as venv:
        _, info = venv.reset(seed=3)
        for _ in range(150):
            choices = rng.integers(0, 15, 4)
            engine.act(choices.astype(np.int32))
            rewards, _, first = engine.observe()
            infos = engine.get_info()
            _, got, terminated, truncated, info = venv.step(acts(choices))
            np.testing.assert_array_equal(got, rewards)
            np.testing.assert_array_equal(terminated | truncated, first)
            assert not (terminated & truncated).any()
            assert info["level_seed"].tolist() == [i["level_seed"] for i in infos]
            assert info["level_complete"].tolist() == [bool(i["prev_level_complete"]) for i in infos]
            assert got.dtype == np.float32 and terminated.dtype == truncated.dtype == bool
    engine.close()


def test_the_time_limit_truncates():
    with ez.procgen.make_vec("maze", 3, num_threads=1) as venv:
        venv.reset(seed=2)
        for step in range(1, 1001):
            _, rewards, terminated, truncated, info = venv.step(acts([NOOP] * 3))
            assert not terminated.any() and not rewards.any() and not info["level_complete"].any()
            assert truncated.all() == truncated.any() == (step % 500 == 0)


def test_a_death_terminates_also_when_it_comes_early():
    with ez.procgen.make_vec("starpilot", 8) as venv:
        venv.reset(seed=2)
        ended = 0
        for _ in range(200):
            _, _, terminated, truncated, _ = venv.step(acts([NOOP] * 8))
            assert not truncated.any()
            ended += terminated.sum()
    assert ended > 4


def test_a_level_that_is_completed_terminates_and_says_so():
    with ez.procgen.make_vec("maze", 64) as venv:
        venv.reset(seed=0)
        rng = np.random.default_rng(0)
        completed = 0
        for _ in range(80):
            _, rewards, terminated, _, info = venv.step(acts(rng.choice([1, 3, 5, 7], 64)))
            np.testing.assert_array_equal(info["level_complete"], rewards > 0)
            np.testing.assert_array_equal(info["level_complete"], terminated)
            completed += terminated.sum()
    assert completed > 0


def test_sequential_levels_go_on_without_an_end():
    with ez.procgen.make_vec("maze", 64, use_sequential_levels=True) as venv:
        venv.reset(seed=0)
        rng = np.random.default_rng(0)
        completed = 0
        for _ in range(80):
            _, _, terminated, truncated, info = venv.step(acts(rng.choice([1, 3, 5, 7], 64)))
            assert not terminated.any() and not truncated.any()
            completed += info["level_complete"].sum()
    assert completed > 0


def test_an_empty_sequence_does_nothing():
    with ez.procgen.make_vec("maze", 2) as venv, ez.procgen.make_vec("maze", 2) as other:
        venv.reset(seed=3)
        other.reset(seed=3)
        for _ in range(10):
            batch, *_ = venv.step({"act": RaggedArray.from_arrays([[], [7]], dtype=np.int64, inner_shape=())})
            expected, *_ = other.step(acts([NOOP, 7]))
            assert_same_batch(batch, expected)


@pytest.mark.parametrize(
    ("actions", "facts"),
    [
        (acts([1, 2, 15]), ["env 2", "action 'act'", 15]),
        (acts([-1, 2, 3]), ["env 0", "action 'act'", -1]),
        (acts([1, 2]), ["action 'act'", 2, 3]),
        ({"act": RaggedArray.from_arrays([[1], [2, 3], [4]])}, ["env 1", "action 'act'"]),
        ({"jump": acts([1, 2, 3])["act"]}, ["'jump'"]),
    ],
)
def test_a_wrong_action_is_named_and_nobody_moves(actions, facts):
    with ez.procgen.make_vec("coinrun", 3) as venv, ez.procgen.make_vec("coinrun", 3) as other:
        venv.reset(seed=3)
        other.reset(seed=3)
        with raises(ActionError, *facts):
            venv.step(actions)
        assert_same_batch(venv.step(acts([7, 7, 7]))[0], other.step(acts([7, 7, 7]))[0])


def test_steps_and_frames_need_a_reset_first():
    with ez.procgen.make_vec("coinrun", 1, render_mode="rgb_array") as venv:
        with raises(gymnasium.error.ResetNeeded, "ProcgenVectorEnv", "reset()"):
            venv.step(acts([1]))
        with raises(gymnasium.error.ResetNeeded, "ProcgenVectorEnv", "reset()"):
            venv.render()
    with ez.procgen.make_vec("coinrun", 1) as venv:
        venv.reset(seed=1)
        with raises(ValueError, "render_mode"):
            venv.render()


def test_frames_are_of_the_lanes_and_change_nothing():
    with (
        ez.procgen.make_vec("coinrun", 2, render_mode="rgb_array") as venv,
        ez.procgen.make_vec("coinrun", 2) as other,
    ):
        venv.reset(seed=1)
        other.reset(seed=1)
        for _ in range(5):
            frames = venv.render()
            assert len(frames) == 2
            assert all(f.shape == (512, 512, 3) and f.dtype == np.uint8 and f.std() > 10 for f in frames)
            assert_same_batch(venv.step(acts([7, 8]))[0], other.step(acts([7, 8]))[0])
        assert not np.array_equal(frames[0], frames[1])


def test_it_is_an_entity_vector_env_that_says_it_has_no_final_observation():
    assert issubclass(ez.procgen.ProcgenVectorEnv, EntityVectorEnv)
    assert ez.procgen.ProcgenVectorEnv.metadata["final_obs"] is False
    assert ez.procgen.ProcgenVectorEnv.metadata["autoreset_mode"].name == "SAME_STEP"


def test_closing_twice_is_fine_and_ends_all():
    venv = ez.procgen.make_vec("coinrun", 2)
    venv.reset(seed=1)
    venv.close()
    venv.close()
    with raises(gymnasium.error.ClosedEnvironmentError, "ProcgenVectorEnv"):
        venv.reset()


@pytest.mark.parametrize(
    ("game", "options", "error", "facts"),
    [
        ("coinrum", {}, ValueError, ["game", "'coinrum'", "'coinrun'"]),
        ("chess", {}, ValueError, ["'chess'", "'bigfish', 'bossfight'"]),
        ("coinrun", {"num_envs": 0}, ValueError, ["num_envs", 1, 0]),
        (
            "coinrun",
            {"distribution_mode": "extreme"},
            ValueError,
            ["distribution_mode", "'easy', 'hard', 'exploration'", "'extreme'"],
        ),
        (
            "bigfish",
            {"distribution_mode": "exploration"},
            ValueError,
            ["bigfish", "distribution_mode", "'easy', 'hard'", "'exploration'"],
        ),
        ("coinrun", {"use_generated_assets": True}, ValueError, ["use_generated_assets"]),
        ("coinrun", {"num_levels": -1}, ValueError, ["num_levels", -1]),
        ("coinrun", {"num_levels": 5, "start_level": 2**31 - 3}, ValueError, ["start_level"]),
        ("coinrun", {"start_level": 2**31 - 1}, ValueError, ["start_level"]),
        ("coinrun", {"start_level": 0.5}, TypeError, ["start_level", 0.5]),
        (
            "coinrun",
            {"distribution_mode": "exploration", "num_levels": 3},
            ValueError,
            ["distribution_mode='exploration'", "num_levels", "start_level"],
        ),
        (
            "coinrun",
            {"features": "refrence"},
            ValueError,
            ["features", "'default', 'reference'", "'refrence'"],
        ),
        ("coinrun", {"window": 0}, ValueError, ["window", 0]),
        ("coinrun", {"chunk_size": 65}, ValueError, ["chunk_size", 65]),
        ("coinrun", {"visible_only": "yes"}, TypeError, ["visible_only", "'yes'"]),
        ("coinrun", {"visible": True}, TypeError, ["'visible'", "'visible_only'"]),
        ("coinrun", {"num_threads": 0}, ValueError, ["num_threads", 0]),
        ("coinrun", {"render_mode": "human"}, ValueError, ["'rgb_array'", "'human'"]),
    ],
)
def test_wrong_options_are_named(game, options, error, facts):
    with raises(error, *facts):
        ez.procgen.make_vec(game, **options)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "procgen.env", None)  # as if it were not installed
    with raises(ImportError, "pip install 'entitize[procgen]'"):
        ez.procgen.make_vec("coinrun")


def test_exploration_is_one_hard_level():
    with ez.procgen.make_vec("coinrun", 4, distribution_mode="exploration") as venv:
        _, info = venv.reset(seed=5)
    assert set(info["level_seed"].tolist()) == {1949448038}


@pytest.mark.parametrize("options", [{"features": "reference"}, {"visible_only": True}, {"whole_map": True}])
def test_view_options_reach_the_decoder(options):
    with ez.procgen.make_vec("ninja", 2, **options) as venv, ez.procgen.make_vec("ninja", 2) as plain:
        batch, _ = venv.reset(seed=5)
        other, _ = plain.reset(seed=5)
        different = any(
            batch.entities[name] != other.entities[name] for name in batch.entities if name in other.entities
        )
        assert different or list(batch.entities) != list(other.entities)


def test_after_a_state_that_cannot_be_read_lanes_need_a_reset():
    venv = ez.procgen.make_vec("coinrun", num_envs=2)
    venv.reset(seed=1)
    buffer = venv.engine.states
    fill = buffer.fill

    def fill_and_break(engine):
        fill(engine)
        buffer.data[buffer.starts[1]] ^= 0xFF

    buffer.fill = fill_and_break
    with raises(ez.procgen.ProcgenStateError, "serialize version"):
        venv.step(acts([NOOP, NOOP]))
    buffer.fill = fill
    with pytest.raises(gymnasium.error.ResetNeeded):
        venv.step(acts([NOOP, NOOP]))
    venv.reset()
    venv.step(acts([NOOP, NOOP]))
    venv.close()


def test_a_forked_process_steps_on_by_itself():
    venv = ez.make_vec("Procgen/coinrun", num_envs=16)  # so many that threads fetch their states
    batch, _ = venv.reset(seed=0)
    batch, *_ = venv.step(venv.action_space.sample(mask=batch))
    actions = venv.action_space.sample(mask=batch)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=lambda: theirs.send(venv.step(actions)[1]))
    child.start()
    assert ours.poll(60)
    np.testing.assert_array_equal(ours.recv(), venv.step(actions)[1])
    child.join()
    venv.close()


def test_each_worker_has_an_engine_that_is_seeded_by_its_first_lane():
    parts = [ez.procgen.make_vec("bigfish", num_lanes) for num_lanes in (1, 2)]
    with ez.procgen.make_vec("bigfish", 3, num_workers=2, seed=7) as envs:
        assert envs.metadata == parts[0].metadata
        results = [part.reset(seed=seed) for part, seed in zip(parts, (7, 8), strict=True)]
        batch, info = envs.reset()
        for choices in np.random.default_rng(0).integers(0, 15, (30, 3)):
            assert_same_batch(batch, concatenate_batches([result[0] for result in results]))
            for key in ("level_seed", "level_complete"):
                assert info[key].tolist() == [one for result in results for one in result[-1][key]]
            batch, *_, info = envs.step(acts(choices))
            results = [part.step(acts(c)) for part, c in zip(parts, np.split(choices, [1]), strict=True)]
    for part in parts:
        part.close()
