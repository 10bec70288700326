"""Games with loops of their own as vector environments: what they ask, how they end, what they do wrong."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.programs import GameStopped, ProgramVectorEnv, make_vec

import chase
from chase import Cat, Mouse, Move
from facts import mentions, raises
from waiting import wait_until


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before]
    assert not [thread.name for thread in left if thread.name.startswith("game ")]


def program(main: Callable[[Any], object], **spaces: Any) -> ez.Program:
    return ez.Program(main, **{"entities": [Cat, Mouse], "actions": {"move": Move}, **spaces})


def go(venv: ez.EntityVectorEnv, move: Any) -> Any:
    """Step all active lanes with one move."""
    label = list(Move).index(move)
    mask = venv.action_space.sample()["move"]
    return venv.step({"move": mask.with_values(np.full(mask.num_items, label))})


def test_a_program_keeps_the_rules_of_vector_environments() -> None:
    with ez.make_vec(chase.main, num_envs=3) as venv:
        ez.check_entity_env(venv, 30)


def test_rewards_are_differences_of_scores_and_the_last_one_counts() -> None:
    def main(agent: Any) -> None:
        for score in (7.0, 7.5, 10.0):
            agent.act(ez.Obs(Cat(score), score=score), Move)
        agent.game_over(score=9.0)

    with ez.make_vec(program(main)) as venv:
        batch, info = venv.reset(seed=0)
        assert batch.entities["Cat"].values.tolist() == [[7.0]] and info == {}
        seen = [go(venv, Move.LEFT)[1:4] for _ in range(6)]
    assert [float(rewards[0]) for rewards, *_ in seen] == [0.5, 2.5, -1.0] * 2
    assert [bool(terminated[0]) for _, terminated, _ in seen] == [False, False, True] * 2
    assert not any(truncated[0] for *_, truncated in seen)


def test_rewards_can_be_given_and_an_episode_can_be_cut_off_with_a_last_observation() -> None:
    def main(agent: Any) -> None:
        agent.act(ez.Obs(Cat(1.0), reward=99.0), Move)  # of no decision
        agent.act(ez.Obs(Cat(2.0), reward=3.0), Move)
        agent.game_over(ez.Obs(Cat(3.0), reward=4.0), truncated=True)

    with ez.make_vec(program(main), 2) as venv:
        venv.reset(seed=0)
        assert go(venv, Move.LEFT)[1].tolist() == [3.0, 3.0]
        batch, rewards, terminated, truncated, info = go(venv, Move.LEFT)
    assert rewards.tolist() == [4.0, 4.0]
    assert truncated.all() and not terminated.any() and info["_final_obs"].all()
    assert info["final_obs"].entities["Cat"].values.tolist() == [[3.0], [3.0]]
    assert batch.entities["Cat"].values.tolist() == [[1.0], [1.0]]


def test_one_entity_a_global_action_or_several_actors_decide() -> None:
    class Speed(Enum):
        SLOW = 0
        FAST = 1

    got: list[Any] = []

    def main(agent: Any) -> None:
        cats = [Cat(1.0), Cat(2.0)]
        got.append(agent.act(ez.Obs(cats[0], Mouse(0.0), score=0), Move))
        got.append(agent.act(ez.Obs(cats, actions={"move": cats}), Move))
        got.append(agent.act(ez.Obs(cats), Speed))
        got.append(agent.choose(ez.Obs(cats, actions={"move": [cats[1]]}), Move))
        got.append(agent.act(ez.Obs(cats, actions={"move": cats, "speed": Speed})))
        agent.game_over(score=1)

    actions = {"move": Move, "speed": ez.GlobalCategorical([s.name for s in Speed])}
    with ez.make_vec(program(main, actions=actions)) as venv:
        batch, _ = venv.reset(seed=0)
        for _ in range(5):
            rng = np.random.default_rng(0)
            batch, *_ = venv.step(ez.actions.sample_actions(venv.single_action_space, batch, rng))
    first, members, speed, chosen, both = got[:5]
    assert isinstance(first, Move) and isinstance(speed, Speed) and isinstance(chosen, Move)
    assert [cat.x for cat in members] == [1.0, 2.0] and set(members.values()) <= set(Move)
    assert len(both["move"].labels) == 2 and both["speed"].label in ("SLOW", "FAST")


def test_nobody_acts_where_the_list_of_actors_is_empty() -> None:
    got: list[Any] = []

    def main(agent: Any) -> None:
        cat, mouse = Cat(1.0), Mouse(0.0)
        got.append(agent.act(ez.Obs(cat, mouse, score=0, actions={"move": []}), Move))
        with raises(ez.ObservationError, "'move'", "0 actors", 1):
            agent.choose(ez.Obs(cat, mouse, score=0, actions={"move": []}), Move)
        got.append(agent.act(ez.Obs([cat], mouse, actions={"move": {}}), Move))
        got.append(agent.act(ez.Obs(cat, mouse), Move))
        agent.game_over(score=1)

    with ez.make_vec(program(main)) as venv:
        batch, _ = venv.reset(seed=0)
        actors = []
        for _ in range(4):
            actors.append(batch.actions["move"].actors.num_items)
            batch, *_ = go(venv, Move.LEFT)
    assert actors == [0, 0, 0, 1]
    assert got[:3] == [{}, {}, Move.LEFT]


def test_what_decides_is_an_enum_for_an_observation() -> None:
    def main(agent: Any) -> None:
        for wrong in ("move", Move.LEFT, Move.LEFT.value):
            with raises(TypeError, "Enum", repr(wrong)):
                agent.act(ez.Obs(Cat(1.0), score=0), wrong)
        with raises(TypeError, "ez.Obs", "Cat"):
            agent.act(Cat(1.0), Move)
        agent.act(ez.Obs(Cat(2.0), score=0), Move)
        agent.game_over(score=1)

    with ez.make_vec(program(main)) as venv:
        batch, _ = venv.reset(seed=0)
        assert batch.entities["Cat"].values.tolist() == [[2.0]]


def test_a_seed_repeats_the_games() -> None:
    with ez.make_vec(chase.main, num_envs=4) as venv:
        first, _ = venv.reset(seed=3)
        again, _ = venv.reset(seed=3)
        other, _ = venv.reset(seed=4)
    assert first.equals(again) and not first.equals(other)


@pytest.mark.full
def test_worker_processes_play_the_same_games() -> None:
    with ez.make_vec("chase:main", 4, num_workers=2) as split, ez.make_vec("chase:main", 4) as whole:
        ours, theirs = split.reset(seed=1)[0], whole.reset(seed=1)[0]
        for _ in range(20):
            assert ours.equals(theirs)
            rng = np.random.default_rng(0)
            actions = ez.actions.sample_actions(whole.single_action_space, theirs, rng)
            (ours, *_), (theirs, *_) = split.step(actions), whole.step(actions)


def test_a_slow_game_is_inactive_and_does_not_hold_the_others() -> None:
    gate = threading.Event()

    def main(agent: Any) -> None:
        while True:
            agent.act(ez.Obs(Cat(0.0), score=0.0), Move)
            if agent.rng.bit_generator.seed_seq.entropy == 1:  # lane 1 of seed 0
                gate.wait(20)
            agent.act(ez.Obs(Cat(1.0), score=2.0), Move)
            agent.game_over(score=3.0)

    with ez.make_vec(program(main), 3, max_wait=0.5) as venv:
        venv.reset(seed=0)
        batch, rewards, *_, info = go(venv, Move.LEFT)
        assert info["inactive"].tolist() == [False, True, False]
        assert rewards.tolist() == [2.0, 0.0, 2.0]
        assert batch.actions["move"].actors.lengths.tolist() == [1, 0, 1]
        gate.set()
        rewards_of_slow, ended = 0.0, False
        for _ in range(200):
            batch, rewards, terminated, _, info = go(venv, Move.LEFT)
            rewards_of_slow += float(rewards[1])
            ended = bool(terminated[1])
            if ended:
                break
        assert ended and rewards_of_slow == 3.0


@pytest.mark.full
def test_the_game_of_a_worker_process_is_named_by_its_lane() -> None:

    def broken(agent: Any) -> None:
        agent.act(ez.Obs(Cat(float(agent.rng.bit_generator.seed_seq.entropy)), score=0), Move)
        if agent.rng.bit_generator.seed_seq.entropy == 3:
            raise OSError("no disk")
        chase.play(agent, agent.rng)

    with ez.make_vec(program(broken), 4, num_workers=2) as venv:
        venv.reset(seed=0)
        with raises(ez.WorkerError, "game 3", "OSError") as failure:
            go(venv, Move.LEFT)
    assert 3 in failure.value.env_indices


# -- programs that go wrong ----------------------------------------------------------------------------------


def failing(main: Callable[[Any], object], *facts: object, **options: Any) -> ez.WorkerError:
    """Play until a game fails; the error mentions `facts` and the function."""
    with (
        ez.make_vec(program(main), 2, **options) as venv,
        raises(ez.WorkerError, f"{main.__name__}", *facts) as failure,
    ):
        venv.reset(seed=0)
        for _ in range(5):
            go(venv, Move.LEFT)
    assert venv.closed
    return failure.value


def test_a_game_that_raises_is_named_with_the_line() -> None:
    def broken(agent: Any) -> None:
        agent.act(ez.Obs(Cat(0.0), score=0), Move)
        raise KeyError("lives")

    error = failing(broken, "game", "KeyError", "lives", f"{Path(__file__).name}:")
    assert isinstance(error.__cause__, KeyError) and error.env_indices[0] in (0, 1)


def test_a_game_that_exits_does_not_end_the_process() -> None:
    def leaving(agent: Any) -> None:
        sys.exit(3)

    failing(leaving, "SystemExit", 3)


def test_a_game_must_not_return_in_an_episode_or_without_a_question() -> None:
    def hasty(agent: Any) -> None:
        agent.act(ez.Obs(Cat(0.0), score=0), Move)

    def silent(agent: Any) -> None:
        agent.game_over(score=1)

    failing(hasty, "returned", "game_over")
    failing(silent, "returned", "act")


def test_a_game_that_hangs_is_named_and_ended() -> None:
    def busy(agent: Any) -> None:
        while True:
            time.sleep(0.01)

    failing(busy, "game 0", 0.2, timeout=0.2)


def test_a_game_that_hangs_is_named_by_its_lane_before_its_worker_process_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def main(agent: Any) -> None:
        while True:
            agent.act(ez.Obs(Cat(0.0), score=0), Move)
            while agent.questions == 3 and agent.rng.bit_generator.seed_seq.entropy == 1:
                time.sleep(0.01)

    with ez.make_vec(program(main), 3, timeout=1.5) as venv:
        venv.first_lane = 4  # as in a worker
        venv.reset(seed=0)
        with raises(ez.WorkerError, "game 5", 1.5) as failure:
            for _ in range(5):
                go(venv, Move.LEFT)
    assert failure.value.env_indices == (5,) and "game 4" not in str(failure.value)

    made: list[Any] = []
    monkeypatch.setattr(
        "entitize.adapters.programs.vector_env.share_lanes", lambda *_, **options: made.append(options)
    )
    make_vec(chase.main, 4, 2, timeout=90.0)
    make_vec(chase.main, 4, 2, timeout=None)
    assert made[0]["worker_timeout"] > made[0]["timeout"] == 90.0 and made[1]["worker_timeout"] is None


def test_a_game_must_ask_as_declared() -> None:
    @ez.entity
    class Wall:
        x: float

    class Other(Enum):
        UP = 0

    def wall(agent: Any) -> None:
        agent.act(ez.Obs(Cat(0.0), Wall(1.0), score=0), Move)

    def other(agent: Any) -> None:
        agent.act(ez.Obs(Cat(0.0), score=0), Other)

    def lacking(agent: Any) -> None:
        cat = Cat(0.0)
        agent.act(ez.Obs(cat, score=0, actions={"move": {cat: [Other.UP]}}))

    def nobody(agent: Any) -> None:
        agent.act(ez.Obs([Cat(0.0), Cat(1.0)], score=0), Move)

    failing(wall, "'Wall'", "'Cat'", "'Mouse'")
    failing(other, "Other", "UP", "'move'")
    failing(lacking, "UP", "LEFT", "'move'")
    failing(nobody, "'move'", "actions=")


def test_a_hidden_entity_cannot_act() -> None:
    @ez.program(entities=[Cat, Mouse], actions={"move": Move}, hidden=True)
    def ghost(agent: Any) -> None:
        cat, mouse = Cat(0.0), Mouse(1.0)
        for hidden in ([mouse], [cat]):
            agent.act(ez.Obs(cat, mouse, score=0, hidden=hidden), Move)

    with ez.make_vec(ghost) as venv:
        venv.reset(seed=0)
        with raises(ez.WorkerError, "game 0", "ghost", "'move'", "hidden", "test_programs.py"):
            venv.step(venv.action_space.sample())


def test_scores_must_be_finite_numbers_and_there_must_be_some() -> None:
    def infinite(agent: Any) -> None:
        agent.act(ez.Obs(Cat(0.0), score=np.inf), Move)

    def both(agent: Any) -> None:
        agent.act(ez.Obs(Cat(0.0), score=1, reward=2), Move)

    def none(agent: Any) -> None:
        agent.act(ez.Obs(Cat(0.0)), Move)
        agent.game_over()

    def mixed(agent: Any) -> None:
        agent.act(ez.Obs(Cat(0.0), score=1), Move)
        agent.game_over(reward=1)

    failing(mixed, "score", "reward", "before")
    failing(infinite, "score", "inf")
    failing(both, "score", "reward")
    failing(none, "score", "reward", "neither")


def test_each_episode_has_scores_or_rewards_of_its_own() -> None:
    def turns(agent: Any) -> None:
        agent.act(ez.Obs(Cat(0.0), score=5), Move)
        agent.game_over(score=7)
        agent.act(ez.Obs(Cat(0.0)), Move)
        agent.game_over(reward=3)

    def scores(agent: Any) -> None:
        agent.act(ez.Obs(Cat(0.0), score=5), Move)
        agent.game_over(score=7)
        agent.act(ez.Obs(Cat(0.0)), Move)
        agent.game_over(score=4)

    def forgets(agent: Any) -> None:
        agent.act(ez.Obs(Cat(0.0), score=5), Move)
        agent.game_over(score=7)
        agent.act(ez.Obs(Cat(0.0)), Move)
        agent.game_over()

    with ez.make_vec(program(turns)) as venv:
        venv.reset(seed=0)
        assert [go(venv, Move.LEFT)[1].tolist() for _ in range(4)] == [[2.0], [3.0]] * 2
    with ez.make_vec(program(scores)) as venv:
        venv.reset(seed=0)
        assert [go(venv, Move.LEFT)[1].tolist() for _ in range(4)] == [[2.0], [4.0]] * 2
    with ez.make_vec(program(forgets)) as venv:
        venv.reset(seed=0)
        assert go(venv, Move.LEFT)[1].tolist() == [2.0]
        with raises(ez.WorkerError, "score", "reward", "neither"):
            go(venv, Move.LEFT)


def test_classes_and_actions_without_declarations_are_refused() -> None:
    with raises(TypeError, "Bird", "x, y", "types"):

        @ez.entity
        class Bird:
            x = 0.0
            y = 0.0

    with raises(TypeError, "Fish", "types"):

        @ez.entity
        class Fish:
            def __init__(self, x: float) -> None:
                self.x = x

    with raises(TypeError, "'move'", "LEFT"):
        program(chase.play, actions={"move": ["LEFT", "RIGHT"]})
    with raises(TypeError, "program", "None"):
        ProgramVectorEnv(None)  # type: ignore[arg-type]
    for options in ({"num_envs": 0}, {"max_wait": 0.0}, {"timeout": -1}):
        with pytest.raises(ValueError, match=mentions(*options)):
            ez.make_vec(chase.main, **options)


# -- the end -------------------------------------------------------------------------------------------------


def test_the_end_of_training_unwinds_every_game() -> None:
    events: list[str] = []

    def main(agent: Any) -> None:
        try:
            while True:
                try:
                    agent.act(ez.Obs(Cat(0.0), score=0), Move)
                except Exception:  # a game's own safety net, which the end must pass
                    events.append("swallowed")
        except GameStopped:
            events.append("stopped")
            raise
        finally:
            events.append("closed")

    with ez.make_vec(program(main), 5) as venv:
        venv.reset(seed=0)
        go(venv, Move.LEFT)
        venv.reset()
        assert events.count("stopped") == 5
    assert events.count("stopped") == events.count("closed") == 10 and "swallowed" not in events


def test_an_environment_that_is_forgotten_ends_its_games() -> None:
    venv = ez.make_vec(chase.main, 2)
    venv.reset(seed=0)
    del venv
    wait_until(lambda: not any(thread.name.startswith("game ") for thread in threading.enumerate()))


def test_two_threads_of_a_game_cannot_ask_at_the_same_time() -> None:
    def main(agent: Any) -> None:
        refused: list[BaseException] = []

        def second() -> None:
            while not refused:
                try:
                    agent.act(ez.Obs(Cat(2.0), score=0), Move)
                except (RuntimeError, GameStopped) as error:
                    refused.append(error)

        agent.act(ez.Obs(Cat(0.0), score=0), Move)
        asking = threading.Thread(target=second, name="game's own")
        asking.start()
        while not refused:
            try:
                agent.act(ez.Obs(Cat(1.0), score=0), Move)
            except RuntimeError as error:
                refused.append(error)
        asking.join()
        raise refused[0]

    failing(main, "RuntimeError", "one question")


def test_an_agent_that_is_asked_by_another_thread_of_the_game() -> None:
    def main(agent: Any) -> None:
        asking = threading.Thread(target=chase.play, args=(agent, agent.rng), name="game's own")
        asking.start()
        asking.join()

    with ez.make_vec(program(main), 2) as venv:
        venv.reset(seed=0)
        for _ in range(30):
            go(venv, Move.RIGHT)
        threading.excepthook, before = lambda arguments: None, threading.excepthook
        try:
            venv.close()
        finally:
            threading.excepthook = before
