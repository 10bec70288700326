"""What the vector environment of μRTS says of wrong options."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.microrts import MicroRTSVectorEnv, Options

BOARD = "basesWorkers8x8"


def make(num_envs: int = 1, **options: Any) -> MicroRTSVectorEnv:
    options.setdefault("opponents", "passiveAI")
    env = ez.make_vec(f"MicroRTS/{BOARD}", num_envs, **options)
    assert isinstance(env, MicroRTSVectorEnv)
    return env


def test_wrong_names_are_told_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="no map 'basesWorker8x8'; did you mean 'basesWorkers8x8'"):
        ez.make_vec("MicroRTS/basesWorker8x8")
    with pytest.raises(ValueError, match=r"no map 'foo'; did you mean '[^,]*$"):  # one name, not all 144
        ez.make_vec("MicroRTS/foo", 1)
    with pytest.raises(ValueError, match="can't play the map 'melee4x4Mixed2': its file has a form that"):
        ez.make_vec("MicroRTS/melee4x4Mixed2")
    with pytest.raises(ValueError, match="no bot 'coacAi'; did you mean 'coacAI'"):
        make(opponents="coacAi")
    with pytest.raises(ValueError, match="no reward 'gathering'; did you mean 'gather'"):
        make(reward_weights={"gathering": 1})
    for wrong, right in (("feature", "features"), ("opponent", "opponents"), ("self_play", "selfplay")):
        with pytest.raises(TypeError, match=f"no option '{wrong}'; did you mean '{right}'"):
            make(**{wrong: "units"})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"maps": [BOARD, "basesWorkers16x16"]}, "basesWorkers8x8 is 8x8 and basesWorkers16x16 is 16x16"),
        ({"maps": ()}, "at least one map"),
        ({"maps": BOARD}, f"maps must be a list that names at least one map, not '{BOARD}'"),
        ({"opponents": {"coacAI", "passiveAI"}}, "opponents must be the name of a bot, a list with one"),
        ({"opponents": 5}, "opponents must be the name of a bot, a list with one .*, not 5"),
        ({"opponents": {"coacAI": 3}}, "opponents are given for 3 lanes, but 2 lanes play against bots"),
        ({"opponents": {"coacAI": -2}}, "'coacAI' must play a whole number of lanes"),
        ({"selfplay": 1}, "selfplay must be an even number of lanes from 0 to 2, not 1"),
        ({"selfplay": None}, "selfplay must be an even number of lanes from 0 to 2, not None"),
        ({"side": 2}, "side must be 0, 1 or 'both', not 2"),
        ({"side": 1.0}, "side must be 0, 1 or 'both', not 1.0"),
        ({"side": [0, 1.0]}, "side must be 0 or 1 for each of 2 lanes"),
        ({"seed": 1.5}, "a seed must be a whole number, or one for each env, not 1.5"),
        ({"features": "pixels"}, "features must be one of 'units', 'planes', 'planes29', not 'pixels'"),
        ({"max_steps": 0}, "max_steps must be a whole number of at least 1, not 0"),
        ({"mask_reserved": 1}, "mask_reserved must be True or False, not 1"),
        ({"reward_weights": [1, 2]}, "reward_weights must be 6 finite numbers"),
        ({"reward_weights": "shaped"}, "reward_weights must be 6 finite numbers .*, not 'shaped'"),
        ({"render_mode": "ansi"}, "render_mode must be one of None, 'rgb_array', 'human', got 'ansi'"),
    ],
)
def test_bad_options_are_told(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make(2, **options)


def test_numpys_whole_numbers_are_taken() -> None:
    two, one = np.int64(2), np.int32(1)
    with make(two, opponents={"passiveAI": two}, side=one, max_steps=two, frame_skip=one) as env:
        assert env.options == Options(max_steps=2) and [game.side for game in env.games] == [1, 1]
    with pytest.raises(ValueError, match=r"num_envs must be a whole number of at least 1, not 2\.0"):
        make(2.0)  # type: ignore[arg-type]
