"""The small games follow the reference's, step by step: same state, same actions, same observations."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.envs import sample_actions, unbatch_observation
from hypothesis import given, settings
from hypothesis import strategies as st

NUM_ENVS = 3
Plain = dict[str, Any]


def reference(name: str) -> ModuleType:
    """A module of the entity_gym package, whose import warns of its age."""
    pytest.importorskip("ragged_buffer", reason="entity_gym needs it, and no build is for Python 3.12")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(f"entity_gym.{name}")


# -- the original game in the state that an observation shows -----------------------------------------------


def cherry_pick(seen: Plain, num_cherries: int) -> Any:
    game = reference("examples.cherry_pick").CherryPick(num_cherries=num_cherries)
    game.reset()
    game.cherries = seen["entities"]["Cherry"][:, 0].tolist()
    return game


def pick_matching_balls(seen: Plain, **options: Any) -> Any:
    module = reference("examples.pick_matching_balls")
    game = module.PickMatchingBalls(**options)
    rows = seen["entities"]["Ball"]
    colors = rows[:, :6].argmax(1) if options.get("one_hot") else rows[:, 0].astype(int)
    game.balls = [module.Ball(int(color)) for color in colors]
    return game


def multi_armed_bandit(seen: Plain) -> Any:
    game = reference("examples.multi_armed_bandit").MultiArmedBandit()
    game.reset()
    return game


def not_hotdog(seen: Plain) -> Any:
    game = reference("examples.not_hotdog").NotHotdog()
    game.reset()
    thing = seen["entities"]["Object"]
    game.hotdog_object = not len(thing)
    game.is_hotdog = int(thing[0, 0]) if len(thing) else 1
    return game


def xor(seen: Plain, **options: Any) -> Any:
    game = reference("examples.xor").Xor()
    game.bit1, game.bit2 = seen["entities"]["Bit"][:, 0].tolist()
    game.negate = float(seen["globals"][0])
    return game


def count(seen: Plain, masked_choices: int) -> Any:
    game = reference("examples.count").Count(masked_choices)
    game.count = len(seen["entities"]["Bean"])
    return game


def floor_is_lava(seen: Plain) -> Any:
    module = reference("examples.floor_is_lava")
    game = module.FloorIsLava()
    game.lava = [module.Lava(x, y) for x, y in seen["entities"]["Lava"].tolist()]
    game.high_ground = module.HighGround(*seen["entities"]["HighGround"][0].tolist())
    game.player = module.Player(*seen["entities"]["Player"][0].tolist())
    return game


def rock_paper_scissors(seen: Plain, cheat: bool) -> Any:
    module = reference("examples.rock_paper_scissors")
    game = module.RockPaperScissors(cheat)
    game.opponent = module.Opponent(*seen["entities"]["Opponent"][0].tolist())
    return game


def treasure_hunt(seen: Plain) -> Any:
    game = reference("examples.tutorial").TreasureHunt()
    game.reset()
    game.traps, game.treasure = (
        [(int(x), int(y)) for x, y in seen["entities"][name]] for name in ("Trap", "Treasure")
    )
    return game


GAMES: dict[str, tuple[Callable[..., Any], st.SearchStrategy[dict[str, Any]]]] = {
    "CherryPick": (
        cherry_pick,
        st.fixed_dictionaries({"num_cherries": st.integers(1, 6).map(lambda n: 2 * n)}),
    ),
    "PickMatchingBalls": (
        pick_matching_balls,
        st.fixed_dictionaries(
            {"max_balls": st.integers(3, 9), "one_hot": st.booleans(), "randomize": st.booleans()}
        ),
    ),
    "MultiArmedBandit": (multi_armed_bandit, st.just({})),
    "NotHotdog": (not_hotdog, st.just({})),
    "Xor": (xor, st.just({"negate": True})),
    "Count": (count, st.fixed_dictionaries({"masked_choices": st.integers(1, 10)})),
    "FloorIsLava": (floor_is_lava, st.just({})),
    "RockPaperScissors": (rock_paper_scissors, st.fixed_dictionaries({"cheat": st.booleans()})),
    "TreasureHunt": (treasure_hunt, st.just({})),
}
#: Names that differ from the reference's.
ENTITIES, ACTIONS = {"Bit": "Input"}, {"Answer": "output"}


# -- comparing ----------------------------------------------------------------------------------------------


def their_actions(game: Any, seen: Plain, chosen: dict[str, np.ndarray]) -> dict[str, Any]:
    """Our choices for an observation as the reference's."""
    module = reference("env.environment")
    last, actions = game.last_seen, {}
    for ours, choices in chosen.items():
        name = ACTIONS.get(ours, ours)
        kind = game.action_space()[name]
        if isinstance(kind, module.GlobalCategoricalActionSpace):
            actions[name] = module.GlobalCategoricalAction(int(choices[0]), kind.index_to_label[choices[0]])
        elif isinstance(kind, module.CategoricalActionSpace):
            actors = last._actor_indices(name, game.obs_space()).tolist()
            actions[name] = module.CategoricalAction(actors, choices, kind.index_to_label)
        else:
            by_index = last.index_to_id(game.obs_space())
            mask = last.actions[name]
            actions[name] = module.SelectEntityAction(mask.actor_ids, [by_index[i] for i in choices])
    return actions


def assert_same(game: Any, theirs: Any, seen: Plain, is_final: bool) -> None:
    """What the original shows is what we observe."""
    obs_space = game.obs_space()
    for name in obs_space.entities:  # the reference miscounts actors behind a type whose entities lack ids
        theirs.ids.setdefault(name, [(name, i) for i in range(len(theirs.features[name]))])
    for ours, rows in seen.get("entities", {}).items():
        name = ENTITIES.get(ours, ours)
        shown = theirs.features[name]
        assert len(rows) == len(shown)
        assert np.array_equal(rows, np.array(shown, np.float32).reshape(rows.shape))
        if "visible" in seen:
            visible = theirs.visible.get(name, [True] * len(rows))
            assert seen["visible"][ours].tolist() == list(map(int, visible))
    assert seen.get("globals", np.zeros(0)).tolist() == list(theirs.global_features)
    for ours, part in seen["actions"].items():
        name = ACTIONS.get(ours, ours)
        if "actors" not in part:
            assert part["mask"].all() and len(part["mask"]) == 1
            continue
        if "actees" in part:
            assert part["actees"].tolist() == theirs._actee_indices(name, obs_space).tolist()
        if "actees" not in part or len(part["actees"]):  # we let nobody choose among nothing
            assert part["actors"].tolist() == theirs._actor_indices(name, obs_space).tolist()
        mask = getattr(theirs.actions[name], "mask", None)
        if mask is None and not (is_final and name == "count"):  # Count's mask stays until the next episode
            assert part["mask"].all()


@pytest.mark.parametrize("name", GAMES)
@settings(max_examples=8)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_the_original_goes_the_same_way(name: str, data: st.DataObject, seed: int) -> None:
    start, options = GAMES[name][0], data.draw(GAMES[name][1])
    venv = ez.make_vec(name, NUM_ENVS, **options)
    space, rng = venv.single_observation_space, np.random.default_rng(seed)
    batch, _ = venv.reset(seed=seed)
    games: list[Any] = [None] * NUM_ENVS
    for _ in range(40):
        seen = [unbatch_observation(space, batch, lane) for lane in range(NUM_ENVS)]
        for lane in range(NUM_ENVS):
            if games[lane] is None:
                games[lane] = start(seen[lane], **options)
                games[lane].last_seen = observe(games[lane], seen[lane])
                assert_same(games[lane], games[lane].last_seen, seen[lane], False)
        actions = sample_actions(space.actions, batch, rng)
        batch, rewards, terminated, truncated, info = venv.step(actions)
        finals = iter(range(NUM_ENVS))
        for lane, game in enumerate(games):
            chosen = {action: order[lane] for action, order in actions.items()}
            theirs = game.act(their_actions(game, seen[lane], chosen))
            assert rewards[lane] == pytest.approx(theirs.reward, rel=1e-6, abs=1e-7)
            assert terminated[lane] == theirs.done
            ended = terminated[lane] or truncated[lane]
            shown = (info["final_obs"], next(finals)) if ended else (batch, lane)
            assert_same(game, theirs, unbatch_observation(space, *shown), bool(ended))
            game.last_seen = theirs
            if ended:
                games[lane] = None


def observe(game: Any, seen: Plain) -> Any:
    """The original's observation; some of its games want to be told what is observed."""
    kind = type(game).__name__
    if kind == "Count":
        return game.observe(game.obs_space(), seen["actions"]["count"]["mask"].astype(bool))
    return game.observe(*[game.obs_space()] * (kind in ("Xor", "FloorIsLava", "RockPaperScissors")))
