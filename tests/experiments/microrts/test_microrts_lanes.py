from __future__ import annotations

from typing import Any

import pytest
from entitize.experiments import EnvConfig, EvalConfig, boards_of, held_out, make_environments, with_lanes

MIX = {"coacAI": 18, "randomBiasedAI": 2, "lightRushAI": 2, "workerRushAI": 2}


def lanes(num_envs: int, trained: int = 24, **kwargs: Any) -> dict[str, Any]:
    env = with_lanes(EnvConfig("MicroRTS/basesWorkers8x8", trained, kwargs), num_envs)
    assert env.num_envs == num_envs
    return env.kwargs


@pytest.mark.parametrize(
    ("num_envs", "expected"),
    [(24, [18, 2, 2, 2]), (48, [36, 4, 4, 4]), (12, [9, 1, 1, 1]), (8, [6, 1, 1, 0]), (1, [1, 0, 0, 0])],
)
def test_bots_keep_their_shares(num_envs: int, expected: list[int]) -> None:
    assert lanes(num_envs, opponents=MIX) == {"opponents": dict(zip(MIX, expected, strict=True))}


def test_bots_given_lane_by_lane_do_too() -> None:
    assert lanes(2, 4, opponents=["coacAI", "passiveAI"] * 2) == {"opponents": {"coacAI": 1, "passiveAI": 1}}
    assert lanes(2, opponents="coacAI", max_steps=9) == {"opponents": "coacAI", "max_steps": 9}


def test_lanes_of_self_play_stay_pairs() -> None:
    assert lanes(4, 8, selfplay=4, opponents={"coacAI": 4}) == {"selfplay": 2, "opponents": {"coacAI": 2}}
    assert lanes(3, 8, selfplay=8, opponents={}) == {"selfplay": 2, "opponents": None}  # then coacAI plays


def test_other_environments_only_get_another_number() -> None:
    env = EnvConfig("MineSweeper", 24, {"opponents": MIX})
    assert with_lanes(env, 3) == EnvConfig("MineSweeper", 3, {"opponents": MIX})


def test_there_are_no_more_workers_than_games() -> None:
    assert lanes(6, 8, selfplay=8, num_workers=4) == {"selfplay": 6, "num_workers": 3}
    assert lanes(6, 8, num_workers=4) == {"num_workers": 4}
    alone = with_lanes(EnvConfig("MineSweeper", 8, {"num_workers": 2}), 1)
    assert alone.kwargs == {"num_workers": 0}
    with make_environments(alone) as venv:
        assert venv.num_envs == 1


def test_an_agent_is_judged_against_the_bots_that_it_was_trained_against() -> None:
    training = EnvConfig("MicroRTS/basesWorkers8x8", 24, {"opponents": MIX, "max_steps": 50})
    judged, told = held_out(training, EvalConfig(episodes=12, kwargs={"max_steps": 100}))
    assert told == "seed 1000003"
    assert judged.kwargs["max_steps"] == 100
    with make_environments(judged) as venv:
        bots = [game.bot for game in venv.games]  # type: ignore[attr-defined]
    assert {bot: bots.count(bot) for bot in MIX} == {
        "coacAI": 9,
        "randomBiasedAI": 1,
        "lightRushAI": 1,
        "workerRushAI": 1,
    }


def test_the_boards_are_the_map_or_the_several_that_are_given() -> None:
    assert [board.size for board in boards_of("MicroRTS/basesWorkers16x16", {})] == ["16x16"]
    boards = boards_of("MicroRTS/basesWorkers16x16", {"maps": ["NoWhereToRun9x8", "basesWorkers8x8"]})
    assert [board.size for board in boards] == ["9x8", "8x8"]
