"""What the vector environment of μRTS says of wrong options."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest

from facts import raises

BOARD = "basesWorkers8x8"


def make(num_envs: int = 1, **options: Any) -> ez.microrts.MicroRTSVectorEnv:
    options.setdefault("opponents", "passiveAI")
    env = ez.make_vec(f"MicroRTS/{BOARD}", num_envs, **options)
    assert isinstance(env, ez.microrts.MicroRTSVectorEnv)
    return env


def test_wrong_names_are_told_with_the_nearest() -> None:
    with raises(ValueError, "map", "'basesWorker8x8'", "'basesWorkers8x8'"):
        ez.make_vec("MicroRTS/basesWorker8x8")
    with raises(ValueError, "map", "'foo'") as error:
        ez.make_vec("MicroRTS/foo", 1)
    assert "," not in str(error.value), "one name, not all 144"
    with raises(ValueError, "map 'melee4x4Mixed2'", "file"):
        ez.make_vec("MicroRTS/melee4x4Mixed2")
    with raises(ValueError, "bot", "'coacAi'", "'coacAI'"):
        make(opponents="coacAi")
    with raises(ValueError, "reward", "'gathering'", "'gather'"):
        make(reward_weights={"gathering": 1})
    for wrong, right in (("feature", "features"), ("opponent", "opponents"), ("self_play", "selfplay")):
        with raises(TypeError, f"'{wrong}'", f"'{right}'"):
            make(**{wrong: "units"})


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"maps": [BOARD, "basesWorkers8x9"]}, ["map", "'basesWorkers8x9'"]),
        ({"maps": ()}, ["maps", "()"]),
        ({"maps": BOARD}, ["maps", "list", f"'{BOARD}'"]),
        ({"opponents": {"coacAI", "passiveAI"}}, ["opponents", "list", "dict", "'passiveAI'"]),
        ({"opponents": 5}, ["opponents", "list", "dict", 5]),
        ({"opponents": {"coacAI": 3}}, ["opponents", "3 lanes", "2 lanes"]),
        ({"opponents": {"coacAI": -2}}, ["opponents", "'coacAI'", -2]),
        ({"selfplay": 1}, ["selfplay", "even", 0, 2, 1]),
        ({"selfplay": None}, ["selfplay", "even", 0, 2, None]),
        ({"side": 2}, ["side", 0, 1, "'both'", 2]),
        ({"side": 1.0}, ["side", 0, 1, "'both'", 1.0]),
        ({"side": [0, 1.0]}, ["side", 0, 1, "2 lanes", "[0, 1.0]"]),
        ({"seed": 1.5}, ["seed", 1.5]),
        ({"features": "pixels"}, ["features", "'units', 'planes', 'planes29'", "'pixels'"]),
        ({"max_steps": 0}, ["max_steps", 1, 0]),
        ({"search_iterations": 0}, ["search_iterations", 1, 0]),
        ({"search_iterations": -5, "num_workers": 2}, ["search_iterations", 1, -5]),
        ({"limit_is_end": 1}, ["limit_is_end", True, False, 1]),
        ({"mask_reserved": 1}, ["mask_reserved", True, False, 1]),
        ({"reward_weights": [1, 2]}, ["reward_weights", 6, "[1, 2]"]),
        ({"reward_weights": "shaped"}, ["reward_weights", 6, "'shaped'"]),
        ({"render_mode": "ansi"}, ["render_mode", "None, 'rgb_array', 'human'", "'ansi'"]),
    ],
)
def test_bad_options_are_told(options: dict[str, Any], facts: list[object]) -> None:
    with raises((TypeError, ValueError), *facts):
        make(2, **options)


def test_numpys_whole_numbers_are_taken() -> None:
    two, one = np.int64(2), np.int32(1)
    with make(two, opponents={"passiveAI": two}, side=one, max_steps=two, frame_skip=one) as env:
        assert env.options == ez.microrts.Options(max_steps=2) and [game.side for game in env.games] == [1, 1]
    with raises(TypeError, "num_envs", 2.0):
        make(2.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("num_maps", [1, 2, 3, 4])
@pytest.mark.parametrize("selfplay", [0, 2])
def test_both_sides_of_every_map_are_played(num_maps: int, selfplay: int) -> None:
    maps = [BOARD, "NoWhereToRun9x8", "basesWorkers12x12", "basesWorkers16x16"][:num_maps]
    lanes = 2 * num_maps
    games = ez.microrts.plan_games(maps, selfplay + lanes, selfplay, ["passiveAI"] * lanes, "both")
    played = [(game.map.name, game.side) for game in games if game.bot is not None]
    assert sorted(played) == sorted((name, side) for name in maps for side in (0, 1))
