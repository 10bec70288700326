"""The small native games: how they start, what their optimum is, what they refuse.

That they follow the rules of the originals is tested in `test_small_games_reference.py`.
"""

from __future__ import annotations

from collections import deque
from statistics import NormalDist
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.envs import sample_actions, unbatch_observation
from entitize.ragged import RaggedArray
from hypothesis import given
from hypothesis import strategies as st

from facts import raises

Plain = dict[str, Any]

#: Every game and option.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("CherryPick", {}),
    ("CherryPick", {"num_cherries": 3}),
    ("Count", {}),
    ("Count", {"masked_choices": 1}),
    ("FloorIsLava", {}),
    ("MaskedBandit", {}),
    ("MaskedBandit", {"num_arms": 30}),
    ("MultiArmedBandit", {}),
    ("NotHotdog", {}),
    ("PickMatchingBalls", {}),
    ("PickMatchingBalls", {"max_balls": 5, "one_hot": True, "randomize": True}),
    ("RockPaperScissors", {}),
    ("RockPaperScissors", {"cheat": True}),
    ("TreasureHunt", {}),
    ("TreasureHunt", {"max_steps": 7}),
    ("Xor", {}),
    ("Xor", {"answer": "actor", "negate": True}),
]
variants = pytest.mark.parametrize(("name", "options"), VARIANTS)


@variants
def test_a_lanes_game_depends_on_its_own_seed_alone(name: str, options: dict[str, Any]) -> None:
    many, one = ez.make_vec(name, 5, **options), ez.make_vec(name, 1, **options)
    batch, _ = many.reset(seed=7)
    expected, _ = one.reset(seed=7 + 3)
    rng = np.random.default_rng(0)
    for _ in range(40):
        assert batch[3:4].equals(expected)
        actions = sample_actions(many.single_action_space, batch, rng)
        batch, rewards, terminated, truncated, _ = many.step(actions)
        expected, *rest, _ = one.step({action: order[3:4] for action, order in actions.items()})
        assert [part.tolist() for part in rest] == [[x[3].item()] for x in (rewards, terminated, truncated)]


@variants
def test_a_saved_game_goes_on_as_it_would_have(name: str, options: dict[str, Any]) -> None:
    first: Any = ez.make_vec(name, 4, **options)
    second: Any = ez.make_vec(name, 4, **options)
    rng = np.random.default_rng(1)
    batch, _ = first.reset(seed=1)
    for _ in range(5):
        batch, *_ = first.step(sample_actions(first.single_action_space, batch, rng))
    second.reset(seed=2)
    assert second.set_state(first.get_state()).equals(batch)
    for _ in range(40):
        actions = sample_actions(first.single_action_space, batch, rng)
        batch, *rest, _ = first.step(actions)
        again, *others, _ = second.step(actions)
        assert again.equals(batch)
        assert all(np.array_equal(*pair) for pair in zip(rest, others, strict=True))


# -- perfect players, which show that the optimum that a game states can be reached -------------------------


def towards(start: Any, barred: set[Any], goals: set[Any]) -> int:
    """The first move of a shortest way from `start` to one of `goals`: breadth first."""
    first_moves: dict[Any, int] = {}
    queue = deque([start])
    while queue:
        cell = queue.popleft()
        if cell in goals:
            return first_moves[cell]
        for move, (dx, dy) in enumerate(((0, 1), (0, -1), (-1, 0), (1, 0))):
            to = (cell[0] + dx, cell[1] + dy)
            if to not in barred and to != start and to not in first_moves and max(map(abs, to)) <= 10:
                first_moves[to] = first_moves.get(cell, move)
                queue.append(to)
    raise AssertionError(f"there is no way from {start} to {goals} around {barred}")


def hunt(seen: Plain) -> int:
    cells = {name: {tuple(row) for row in rows.tolist()} for name, rows in seen["entities"].items()}
    return towards(tuple(seen["globals"].tolist()), cells["Trap"], cells["Treasure"])


def climb(seen: Plain) -> int:
    way = seen["entities"]["HighGround"][0] - seen["entities"]["Player"][0]
    return [(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)].index(tuple(way.tolist()))


def match(seen: Plain) -> int:
    """The first ball that is left of the commonest colour, or at the end of any."""
    colors, selected = seen["entities"]["Ball"][:, 0], seen["entities"]["Ball"][:, 6] == 1
    wanted = np.bincount(colors.astype(int)).argmax()
    left = np.flatnonzero(~selected & (colors == wanted))
    return int(left[0]) if len(left) else int(np.flatnonzero(~selected)[0])


def is_hotdog(seen: Plain) -> int:
    return len(seen["entities"]["Hotdog"]) or int(seen["entities"]["Object"][0, 0])


PLAYERS: dict[str, tuple[str, Any]] = {
    "CherryPick": ("Pick Cherry", lambda seen: seen["entities"]["Cherry"][:, 0].argmax()),
    "Count": ("count", lambda seen: len(seen["entities"]["Bean"])),
    "FloorIsLava": ("move", climb),
    "MaskedBandit": ("Pull", lambda seen: np.flatnonzero(seen["actions"]["Pull"]["mask"][0])[-1]),
    "MultiArmedBandit": ("pull", lambda seen: 0),
    "NotHotdog": ("classify", is_hotdog),
    "PickMatchingBalls": ("Pick Ball", match),
    "TreasureHunt": ("move", hunt),
    "Xor": ("Answer", lambda seen: seen["entities"]["Bit"].sum() % 2),
}


def returns_of(name: str, episodes: int, action: str, player: Any, **options: Any) -> np.ndarray:
    """The returns of at least `episodes` episodes that `player` plays, by observation -> choice."""
    venv = ez.make_vec(name, 64, **options)
    space = venv.single_observation_space
    batch, _ = venv.reset(seed=0)
    returns: list[float] = []
    running = np.zeros(64)
    while len(returns) < episodes:
        choices = [player(unbatch_observation(space, batch, lane)) for lane in range(64)]
        order = RaggedArray.from_lengths(np.array(choices, np.int64), np.ones(64, np.int64))
        batch, rewards, terminated, truncated, _ = venv.step({action: order})
        assert not truncated.any()
        running += rewards
        returns += running[terminated].tolist()
        running[terminated] = 0
    return np.array(returns)


@pytest.mark.parametrize("name", PLAYERS)
def test_a_perfect_player_reaches_the_optimum_in_every_episode(name: str) -> None:
    optimum = 5 if name == "TreasureHunt" else 1
    assert returns_of(name, 200, *PLAYERS[name]) == pytest.approx(optimum, abs=1e-5)


def test_paper_is_the_best_throw_and_one_that_is_seen_is_always_beaten() -> None:
    for throw, expected in enumerate((0.4, 1.0, 0.6)):  # twice the probability of what it beats
        mean = returns_of("RockPaperScissors", 6400, "throw", lambda seen, t=throw: t).mean()
        assert mean == pytest.approx(expected, abs=0.05)

    def cheat(seen: Plain) -> int:
        assert seen["visible"] == {"Player": [1], "Opponent": [1]}
        return int(seen["entities"]["Opponent"][0].argmax() + 1) % 3

    assert returns_of("RockPaperScissors", 200, "throw", cheat, cheat=True).min() == 2


# -- how episodes start -------------------------------------------------------------------------------------


def starts(name: str, count: int = 4000, **options: Any) -> ez.EntityBatch:
    return ez.make_vec(name, count, **options).reset(seed=3)[0]


def assert_shares(values: Any, expected: dict[Any, float]) -> None:
    """`values` occur as often as `expected`, to 5 standard deviations, and nothing else occurs."""
    found, counts = np.unique(np.asarray(values), return_counts=True)
    assert set(found.tolist()) <= set(expected)
    shares = dict(zip(found.tolist(), counts / counts.sum(), strict=True))
    for value, p in expected.items():
        assert abs(shares.get(value, 0) - p) <= 5 * np.sqrt(p * (1 - p) / counts.sum())


def evenly(values: Any) -> dict[Any, float]:
    return {value: 1 / len(values) for value in values}


def test_cherries_are_normal_and_the_better_half_adds_up_to_one() -> None:
    for num_cherries in (2, 3, 10):
        rows = starts("CherryPick", 2000, num_cherries=num_cherries).entities["Cherry"].values
        qualities = np.sort(rows.reshape(2000, num_cherries).astype(np.float64), axis=1)
        assert qualities[:, -(num_cherries // 2) :].sum(1) == pytest.approx(1, abs=1e-5)
        spread = np.sqrt(1 - 1 / num_cherries)  # of a normal number minus the mean of all
        residuals = (qualities - qualities.mean(1, keepdims=True)) / spread
        for p in (0.01, 0.1, 0.5, 0.9, 0.99):
            assert np.mean(residuals < NormalDist().inv_cdf(p)) == pytest.approx(p, abs=0.015)


def test_balls_have_six_colours_and_their_number_can_vary() -> None:
    batch = starts("PickMatchingBalls", max_balls=8, randomize=True)
    balls = batch.entities["Ball"]
    assert_shares(balls.lengths, evenly(range(3, 9)))
    assert_shares(balls.values[:, 0], evenly(range(6)))
    assert (balls.values[:, :6] == balls.values[:, :1]).all() and not balls.values[:, 6].any()
    one_hot = starts("PickMatchingBalls", max_balls=8, one_hot=True).entities["Ball"]
    assert (one_hot.lengths == 8).all()
    assert np.unique(one_hot.values, axis=0).tolist() == [*np.eye(7)[5::-1].tolist()]
    assert_shares(one_hot.values[:, :6].argmax(1), evenly(range(6)))


def test_half_of_the_things_are_hotdogs_and_half_of_those_show_it_by_their_type() -> None:
    things = starts("NotHotdog").entities
    kinds = [
        "Hotdog" if len(hotdog) else f"Object {thing[0, 0]:.0f}"
        for hotdog, thing in zip(things["Hotdog"], things["Object"], strict=True)
    ]
    assert_shares(kinds, {"Hotdog": 0.25, "Object 1": 0.25, "Object 0": 0.5})


def test_bits_are_independent() -> None:
    batch = starts("Xor", negate=True)
    words = batch.entities["Bit"].values.reshape(-1, 2) @ [1, 2] + 4 * batch.globals[:, 0]
    assert_shares(words, evenly(range(8)))
    assert_shares(starts("Xor").entities["Bit"].values.reshape(-1, 2) @ [1, 2], evenly(range(4)))


@pytest.mark.parametrize("masked_choices", [1, 4, 10])
def test_the_number_of_beans_is_allowed_and_the_others_half_of_the_time(masked_choices: int) -> None:
    batch = starts("Count", masked_choices=masked_choices)
    beans = batch.entities["Bean"].lengths
    allowed = batch.actions["count"].mask.values
    assert_shares(beans, evenly(range(masked_choices)))
    assert allowed[np.arange(len(beans)), beans].all()
    assert not allowed[:, masked_choices:].any()
    wrong = np.arange(10)[None, :masked_choices] != beans[:, None]
    if masked_choices > 1:
        assert_shares(allowed[:, :masked_choices][wrong], {True: 0.5, False: 0.5})
        # Of all sizes of the sample equally likely, the whole range is allowed by the greatest, and by the
        # next one where the number left out is the right one.
        share = 1 / (masked_choices + 1) * (1 + 1 / masked_choices)
        everything = allowed[:, :masked_choices].all(1)
        assert_shares(everything, {True: share, False: 1 - share})


def test_every_tile_around_the_player_can_be_lava_or_high_ground() -> None:
    batch = starts("FloorIsLava")
    players, lava = batch.entities["Player"], batch.entities["Lava"]
    assert_shares(lava.lengths, evenly(range(8)))
    places = players.values
    assert np.abs(places).max() <= 1000 and (places == places.round()).all()
    for p in (0.1, 0.5, 0.9):
        assert np.mean(places < 2001 * p - 1000.5, axis=0) == pytest.approx(p, abs=0.03)

    def tiles(rows: Any, origins: Any) -> Any:
        return (rows - origins) @ [3, 1]

    around = evenly([tile for tile in range(-4, 5) if tile])
    high = tiles(batch.entities["HighGround"].values, places)
    assert_shares(high, around)
    hot = tiles(lava.values, lava.broadcast(places))
    assert_shares(hot, around)
    safe = lava.broadcast(high)
    assert (hot != safe).all()
    assert all(len(set(row)) == len(row) for row in lava.with_values(hot.astype(np.int64)))


def test_the_opponent_throws_rock_half_of_the_time() -> None:
    batch = starts("RockPaperScissors")
    throws = batch.entities["Opponent"].values
    assert (throws.sum(1) == 1).all()
    assert_shares(throws.argmax(1), {0: 0.5, 1: 0.3, 2: 0.2})
    assert not batch.visible["Opponent"].values.any() and batch.visible["Player"].values.all()


def test_traps_and_treasures_lie_on_different_cells_and_not_on_the_origin() -> None:
    batch = starts("TreasureHunt")
    assert not batch.globals.any()
    cells = np.concatenate(
        [batch.entities[name].values.reshape(-1, 5, 2) for name in ("Trap", "Treasure")], axis=1
    ) @ [11, 1]
    assert all(len(set(row)) == 10 for row in cells.tolist())
    field = evenly([cell for cell in range(-60, 61) if cell])
    assert_shares(cells[:, :5], field)
    assert_shares(cells[:, 5:], field)


def test_any_arms_but_none_can_be_open() -> None:
    batch = starts("MaskedBandit", num_arms=3)
    is_open = batch.actions["Pull"].mask.values
    assert_shares(is_open @ [1, 2, 4], evenly(range(1, 8)))
    assert batch.globals[:, 0].tolist() == is_open.sum(1).tolist()


# -- rules that the reference does not have -----------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1), num_arms=st.integers(2, 6))
def test_the_bandit_pays_for_the_highest_open_arm_only(seed: int, num_arms: int) -> None:
    env = gymnasium.make("entitize/MaskedBandit-v0", num_arms=num_arms).unwrapped
    observation, _ = env.reset(seed=seed)
    is_open = observation["actions"]["Pull"]["mask"][0]
    best = int(np.flatnonzero(is_open)[-1])
    for arm in np.flatnonzero(is_open):
        env.reset(seed=seed)
        assert env.step({"Pull": int(arm)})[1:4] == (float(arm == best), True, False)
    for arm in np.flatnonzero(is_open == 0):
        env.reset(seed=seed)
        with pytest.raises(ez.ActionError):
            env.step({"Pull": int(arm)})


@pytest.mark.parametrize("answer", ["global", "actor"])
def test_xor_pays_for_the_right_answer(answer: Any) -> None:
    env = gymnasium.make("entitize/Xor-v0", answer=answer).unwrapped
    for seed in range(20):
        bits = env.reset(seed=seed)[0]["entities"]["Bit"][:, 0].astype(int).tolist()
        rewards = []
        for choice in (0, 1):
            observation, _ = env.reset(seed=seed)
            assert observation["actions"]["Answer"].get("actors", "nobody") in ("nobody", [0])
            *_, reward, terminated, truncated, _ = env.step({"Answer": [choice]})
            assert (terminated, truncated) == (True, False)
            rewards.append(reward)
        assert rewards == ([0, 1] if bits[0] != bits[1] else [1, 0])


@pytest.mark.parametrize("name", sorted({name for name, _ in VARIANTS}))
def test_an_action_that_is_left_out_is_refused_by_name_and_changes_nothing(name: str) -> None:
    venv, other = ez.make_vec(name, 2), ez.make_vec(name, 2)
    batch, _ = venv.reset(seed=0)
    other.reset(seed=0)
    actions = sample_actions(venv.single_action_space, batch, np.random.default_rng(0))
    action = next(name for name, part in batch.actions.items() if part.actors.num_items)
    second_lane = RaggedArray.from_lengths(actions[action].values[1:], [0, 1])
    for left_out in ({}, {action: second_lane}):
        with raises(ez.ActionError, "env 0", f"action {action!r}", 1):
            venv.step(left_out)
    after, expected = venv.step(actions), other.step(actions)
    assert after[0].equals(expected[0]) and np.array_equal(after[1], expected[1])


def test_a_treasure_hunt_is_cut_off_after_its_last_step() -> None:
    venv = ez.make_vec("TreasureHunt", 2, max_steps=3)
    batch, _ = venv.reset(seed=0)
    move = {"move": batch.actions["move"].actors.with_values(np.full(2, 2))}  # meets no trap
    ends = [venv.step(move)[2:4] for _ in range(6)]
    assert not any(terminated.any() for terminated, _ in ends)
    assert [truncated.all() for _, truncated in ends] == [False, False, True] * 2


@pytest.mark.parametrize(
    ("name", "options", "facts"),
    [
        ("CherryPick", {"num_cherries": 1}, ("num_cherries", 2, 1)),
        ("Count", {"masked_choices": 0}, ("masked_choices", 1, 10, 0)),
        ("Count", {"masked_choices": 11}, ("masked_choices", 1, 10, 11)),
        ("MaskedBandit", {"num_arms": 1}, ("num_arms", 2, 30, 1)),
        ("MaskedBandit", {"num_arms": 31}, ("num_arms", 2, 30, 31)),
        ("PickMatchingBalls", {"max_balls": 2}, ("max_balls", 3, 2)),
        ("TreasureHunt", {"max_steps": 0}, ("max_steps", 1, 0)),
        ("Xor", {"answer": "both"}, ("answer", "'global'", "'actor'", "'both'")),
        ("NotHotdog", {"render_mode": "rgb_array"}, ("render_mode", "'rgb_array'")),
    ],
)
def test_impossible_options_are_refused(
    name: str, options: dict[str, Any], facts: tuple[object, ...]
) -> None:
    with raises(ValueError, *facts):
        ez.make_vec(name, 2, **options)


@pytest.mark.parametrize("value", ["x", 2.5, float("nan"), True])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("CherryPick", ("num_cherries",)),
        ("Count", ("masked_choices",)),
        ("MaskedBandit", ("num_arms",)),
        ("MineSweeper", ("width", "height", "nmines", "nrobots", "cooldown_period", "max_steps")),
        ("Minefield", ("max_mines", "max_steps")),
        ("MoveToOrigin", ("max_steps",)),
        ("MultiSnake", ("board_size", "num_snakes", "max_snake_length", "max_steps")),
        ("MultiSnake/lanes", ("board_size", "num_snakes", "max_snake_length", "max_steps")),
        ("PickMatchingBalls", ("max_balls",)),
        ("TreasureHunt", ("max_steps",)),
    ],
)
def test_counts_are_whole_numbers(name: str, options: tuple[str, ...], value: object) -> None:
    for option in options:
        with raises(TypeError, f"{option}: expected a whole number", repr(value)):
            ez.make_vec(name, 2, **{option: value})
