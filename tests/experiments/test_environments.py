from __future__ import annotations

import entitize as ez
import numpy as np
import pytest
from entitize import make_vec
from entitize.experiments import (
    EnvConfig,
    EvalConfig,
    UserError,
    held_out,
    make_environments,
    make_whole_games,
    with_lanes,
)
from entitize.experiments.environments import evaluation_env

from facts import raises


def levels_seen(env: EnvConfig, steps: int = 60) -> set[int]:
    """The levels that Procgen's lanes are in while the random policy plays."""
    seen: set[int] = set()
    with make_environments(env) as venv:
        actor = ez.evaluation.RandomActor(venv.single_action_space)
        rng = np.random.default_rng(0)
        batch, info = venv.reset(seed=0)
        for _ in range(steps):
            seen |= set(info["level_seed"].tolist())
            batch, _, _, _, info = venv.step(actor.act(batch, rng).actions)
    return seen


def test_held_out_levels_lie_behind_the_training_range() -> None:
    training = EnvConfig("Procgen/bigfish", 4, {"num_levels": 50, "start_level": 7})
    judged, told = held_out(training, EvalConfig(episodes=8, num_envs=8))
    assert told == "levels from 57 on, which training did not see"
    assert levels_seen(training) <= set(range(7, 57))
    assert min(levels_seen(judged)) >= 57
    assert judged.num_envs == 8


def test_where_training_draws_from_all_levels_evaluation_says_that_it_does_too() -> None:
    training = EnvConfig("Procgen/bigfish", 4, {"num_levels": 0, "distribution_mode": "hard"})
    judged, told = held_out(training, EvalConfig())
    assert told == "levels drawn from all, as in training"
    assert judged.kwargs == training.kwargs


def test_where_training_begins_later_evaluation_does_too() -> None:
    training = EnvConfig("Procgen/bigfish", 8, {"start_level": 2**31 - 20})
    judged, told = held_out(training, EvalConfig(episodes=8, num_envs=8))
    assert told == f"levels drawn from all from {2**31 - 20} on, as in training"
    assert min(levels_seen(judged)) >= 2**31 - 20


def test_sequential_levels_leave_the_training_range() -> None:
    training = EnvConfig("Procgen/maze", 1, {"num_levels": 3, "use_sequential_levels": True})
    assert "did not see" not in held_out(training, EvalConfig())[1]


def test_levels_of_a_function_of_ones_own_may_be_those_of_training() -> None:
    training = EnvConfig("my_game:make", 4, {"num_levels": 200})
    assert "training may have seen" in held_out(training, EvalConfig())[1]
    others = EvalConfig(kwargs={"start_level": 200, "num_levels": 0})
    assert "training may have seen" not in held_out(training, others)[1]


def test_procgen_under_its_gymnasium_name_has_held_out_levels_too() -> None:
    judged, _ = held_out(EnvConfig("entitize/Procgen-maze-v0", 4, {"num_levels": 10}), EvalConfig())
    assert judged.kwargs["start_level"] == 10


def test_levels_that_the_configuration_names_are_taken() -> None:
    judged, _ = held_out(
        EnvConfig("Procgen/bigfish", 4, {"num_levels": 50}),
        EvalConfig(kwargs={"start_level": 1000, "num_levels": 10}),
    )
    assert judged.kwargs == {"start_level": 1000, "num_levels": 10}


def test_the_configuration_may_say_how_many_levels_are_held_out() -> None:
    judged, told = held_out(
        EnvConfig("Procgen/bigfish", 4, {"num_levels": 50}), EvalConfig(kwargs={"num_levels": 10})
    )
    assert judged.kwargs == {"start_level": 50, "num_levels": 10}
    assert told == "levels from 50 on, which training did not see"


def test_a_part_of_the_levels_of_training_is_told() -> None:
    judged, told = held_out(EnvConfig("Procgen/bigfish", 4), EvalConfig(kwargs={"num_levels": 10}))
    assert judged.kwargs == {"num_levels": 10}
    assert told.startswith("10 levels from 0 on")


def test_asked_for_all_levels_evaluation_says_that_those_of_training_are_among_them() -> None:
    training = EnvConfig("Procgen/bigfish", 4, {"num_levels": 5, "start_level": 7})
    judged, told = held_out(training, EvalConfig(kwargs={"num_levels": 0}))
    assert judged.kwargs == {"num_levels": 0, "start_level": 7}
    assert "did not see" not in told and "training" in told
    few, told = evaluation_env(training, EvalConfig(), "training", {"num_levels": 3})
    assert few.kwargs == {"num_levels": 3, "start_level": 7} and told == "3 levels from 7 on"
    _, told = evaluation_env(training, EvalConfig(), "training", {"num_levels": 0})
    assert told == "levels drawn from all from 7 on"
    _, told = evaluation_env(training, EvalConfig(), "training", {"distribution_mode": "hard"})
    assert told == "the training levels"


def test_no_number_of_workers_is_no_workers() -> None:
    judged, _ = held_out(EnvConfig("MineSweeper", 4, {"num_workers": None}), EvalConfig(episodes=2))
    assert judged.num_envs == 2 and judged.kwargs == {"num_workers": None}


def test_other_environments_get_the_seed_and_no_more_lanes_than_episodes() -> None:
    judged, told = held_out(EnvConfig("MineSweeper", 32), EvalConfig(episodes=5, num_envs=64, seed=9))
    assert judged == EnvConfig("MineSweeper", 5)
    assert told == "seed 9"


@pytest.mark.parametrize(
    ("env", "facts"),
    [
        (EnvConfig("Procgen/coinrum"), ["'Procgen/coinrum'", "'Procgen/coinrun'"]),
        (EnvConfig("Procgen/coinrun", 1, {"distribution_mode": "soft"}), ["distribution_mode", "'soft'"]),
        (EnvConfig("Procgen/coinrun", 1, {"num_level": 3}), ["'num_level'", "'num_levels'"]),
        (EnvConfig("CartPole-v1", view={"view": "Rows"}), ["CartPole-v1", "columns"]),
        (EnvConfig("MineSweeper", view={"view": "Rows"}), ["MineSweeper", "view"]),
    ],
)
def test_an_environment_that_cannot_be_made_is_an_error(env: EnvConfig, facts: list[str]) -> None:
    with raises(UserError, *facts):
        make_environments(env)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "gymnasium.envs.classic_control:CartPoleEnv"])
def test_environments_of_gymnasium_are_wrapped(env_id: str) -> None:
    with make_environments(EnvConfig(env_id, 2, view={"view": "Vector", "name": "Cart"})) as venv:
        assert list(venv.single_observation_space.entities) == ["Cart"]


def test_the_random_actor_takes_only_allowed_actions() -> None:
    with make_vec("MineSweeper", num_envs=4) as venv:
        actor, rng = ez.evaluation.RandomActor(venv.single_action_space), np.random.default_rng(1)
        batch, _ = venv.reset(seed=1)
        for _ in range(50):
            actions = actor.act(batch, rng).actions
            choices = actions["Move"].values
            assert batch.actions["Move"].mask.values[np.arange(len(choices)), choices].all()
            batch = venv.step(actions)[0]


def test_evaluations_play_whole_games_where_several_lanes_meet_in_one() -> None:
    trained = EnvConfig("MultiSnake/lanes", 6, {"num_snakes": 3})
    env, _ = held_out(trained, EvalConfig(episodes=64))
    with make_whole_games(env, trained) as venv:
        assert venv.num_envs == 66
    with make_whole_games(with_lanes(trained, 1), trained) as venv:
        assert venv.num_envs == 3
    with raises(UserError, "num_snakes", 3, 1):
        make_whole_games(with_lanes(trained, 1), EnvConfig("MultiSnake/lanes", 6, {"num_snakes": 0}))


def test_a_game_whose_name_begins_like_an_engine_has_no_levels() -> None:
    env, _ = held_out(EnvConfig("ProcgenMaze-v0", 4, {"num_levels": 3}), EvalConfig())
    assert env.kwargs == {"num_levels": 3}
