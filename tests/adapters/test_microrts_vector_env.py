"""`MicroRTSVectorEnv` over the real engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.adapters.microrts.java import ACTIONS, HEADER, UNIT, UNIT_TYPES

from facts import mentions, raises, warns

BOARD = "basesWorkers8x8"
KIND, MOVE, HARVEST, RETURN, PRODUCE, PRODUCT, ATTACK = range(7)
UP, RIGHT, DOWN, LEFT = range(4)


def make(num_envs: int = 1, **options: Any) -> ez.microrts.MicroRTSVectorEnv:
    options.setdefault("opponents", "passiveAI")
    env = ez.make_vec(f"MicroRTS/{BOARD}", num_envs, **options)
    assert isinstance(env, ez.microrts.MicroRTSVectorEnv)
    return env


def records_of(env: ez.microrts.MicroRTSVectorEnv, game: int) -> list[dict[str, int]]:
    """The units that the engine has told of, by the names of their numbers."""
    return [dict(zip(UNIT, unit, strict=True)) for unit in env.observer.units_of(game).tolist()]


def orders(batch: ez.EntityBatch, **by_unit: tuple[int, ...]) -> dict[str, ez.RaggedArray]:
    """Orders for a batch of one lane: `unit_2` is the own unit with index 2; the rest waits."""
    actors = batch.actions["order"].actors
    rows = np.zeros((actors.num_items, 7), np.int64)
    for name, order in by_unit.items():
        rows[actors.values.tolist().index(int(name.removeprefix("unit_")))] = order
    return {"order": actors.with_values(rows)}


def order(kind: str, direction: int = 0, product: int = 0) -> tuple[int, ...]:
    row = [ACTIONS.index(kind), 0, 0, 0, 0, product, 0]
    row[ACTIONS.index(kind)] = direction
    return tuple(row)


def play_until_idle(env: ez.microrts.MicroRTSVectorEnv, batch: ez.EntityBatch, unit: int) -> ez.EntityBatch:
    """Wait until the own unit with index `unit` may be given an order again."""
    for _ in range(300):
        if unit in batch.actions["order"].actors.values:
            return batch
        batch = env.step({})[0]
    raise AssertionError(f"unit {unit} has not become idle")


# -- observations -------------------------------------------------------------------------------------------

#: The rows that the paper shows (Zwingenberger 2023, appendix B): the resource in the corner, and a worker
#: beside it that carries a resource and moves. The paper writes the owner as (own, neutral, enemy), where the
#: engine has (neutral, own, enemy), and the engine of its day gave resource fields no hit point.
PAPER_RESOURCE = "10000 00001 010 01000000 100000"
PAPER_WORKER = "01000 01000 100 00001000 010000"


def as_in_the_paper(row: np.ndarray) -> str:
    """An entity's planes in the paper's order."""
    bits = "".join(str(int(bit)) for bit in row)
    assert len(bits) == len(ez.microrts.PLANES) == 27
    hit_points, resources, owner, kind, action = bits[:5], bits[5:10], bits[10:13], bits[13:21], bits[21:]
    return " ".join([hit_points, resources, owner[1] + owner[0] + owner[2], kind, action])


def test_the_planes_are_those_of_the_papers_example() -> None:
    with make(features="planes") as env:
        batch, _ = env.reset(seed=0)
        # The worker (own unit 0, at 1, 1) goes up, takes from the corner, and goes on.
        for what in (order("move", UP), order("harvest", LEFT), order("move", RIGHT)):
            batch = play_until_idle(env, batch, 0)
            batch = env.step(orders(batch, unit_0=what))[0]
        worker, resource = batch.entities["Own"].values[0], batch.entities["Resource"].values[0]
        assert worker[:2].tolist() == [1, 0] and resource[:2].tolist() == [0, 0]
        assert as_in_the_paper(worker[2:]) == PAPER_WORKER
        assert as_in_the_paper(resource[2:]) == PAPER_RESOURCE.replace("10000", "01000", 1)


def test_units_tell_what_they_are_doing_and_for_how_long() -> None:
    with make() as env:
        batch, _ = env.reset(seed=0)
        base = order("produce", RIGHT, UNIT_TYPES.index("worker"))
        batch = env.step(orders(batch, unit_0=order("move", UP), unit_1=base))[0]
        own = [
            dict(zip(ez.microrts.UNIT_FEATURES, row, strict=True))
            for row in batch.entities["Own"].values.tolist()
        ]
        set_features = [{name for name, value in unit.items() if value} for unit in own]
        shared = {"x", "y", "hit_points", "time_left"}
        assert set_features[0] == shared | {"is_worker", "action_move", "direction_up", "target_y"}
        making = {"is_base", "action_produce", "direction_right", "target_x", "produces_worker"}
        assert set_features[1] == shared | making
        assert (own[0]["time_left"], own[0]["target_y"]) == (9, -1)
        assert (own[1]["time_left"], own[1]["hit_points"], own[1]["target_x"]) == (49, 10, 1)
        assert batch.globals[0].tolist() == [np.float32(1 / 2000), 5, 5]


@pytest.mark.parametrize("features", ["units", "planes"])
def test_entities_are_what_a_slow_loop_finds(features: str) -> None:
    with make(4, opponents="workerRushAI", selfplay=2, features=features, side=1) as env:
        batch, _ = env.reset(seed=3)
        env.action_space.seed(3)
        for _ in range(150):
            batch = env.step(env.action_space.sample(mask=batch))[0]
            for lane in range(4):
                game, player = env.engine.lane_game[lane], env.engine.lane_player[lane]
                units = sorted(records_of(env, game), key=lambda unit: (unit["y"], unit["x"]))
                groups = {
                    "Own": [unit for unit in units if unit["player"] == player],
                    "Enemy": [unit for unit in units if unit["player"] == 1 - player],
                    "Resource": [unit for unit in units if unit["player"] == -1],
                }
                for name, group in groups.items():
                    rows = batch.entities[name][lane]
                    expected = [slow_row(unit, features, name, player, env, game) for unit in group]
                    assert rows.tolist() == [list(map(float, row)) for row in expected]
                idle = [index for index, unit in enumerate(groups["Own"]) if unit["action"] == -1]
                assert batch.actions["order"].actors[lane].tolist() == idle


def slow_row(
    unit: dict[str, int], features: str, name: str, player: int, env: ez.microrts.MicroRTSVectorEnv, game: int
) -> list[int]:
    """One entity's features, one by one."""

    def one_hot(index: int, size: int) -> list[int]:
        return [int(k == index) for k in range(size)]

    place = [unit["x"], unit["y"]]
    if features == "planes":
        owner = {-1: 0, player: 1, 1 - player: 2}[unit["player"]]
        counts = one_hot(min(unit["hit_points"], 4), 5) + one_hot(min(unit["resources"], 4), 5)
        kind = one_hot(unit["type"] + 1, 8)
        return place + counts + one_hot(owner, 3) + kind + one_hot(max(unit["action"], 0), 6)
    if name == "Resource":
        return [*place, unit["resources"]]
    time = int(env.observer.time[game])
    action = max(unit["action"], 0)
    target, direction, product, left = [0, 0], -1, 0, 0
    if ACTIONS[action] == "attack":
        target = [unit["target_x"] - unit["x"], unit["target_y"] - unit["y"]]
    elif action:
        direction = unit["direction"]
        target = [[0, -1], [1, 0], [0, 1], [-1, 0]][direction]
    if ACTIONS[action] == "produce":
        product = unit["produced"]
    if action:
        left = unit["ends_at"] - time
    numbers = [*place, unit["hit_points"], unit["resources"], left, *target]
    kinds = one_hot(unit["type"], 7)[1:]
    return numbers + kinds + one_hot(action, 6) + one_hot(direction, 4) + one_hot(product, 7)[1:]


@pytest.mark.parametrize("mask_reserved", [True, False])
@pytest.mark.parametrize("frame_skip", [1, 3])
def test_masks_are_what_the_rules_say(mask_reserved: bool, frame_skip: int) -> None:
    maps = ["basesWorkers8x8Obstacle", "FourBasesWorkers8x8", "melee8x8Mixed6"]
    options = {"mask_reserved": mask_reserved, "frame_skip": frame_skip, "max_steps": 300}
    kinds_seen = np.zeros(6, bool)
    with make(5, maps=maps, opponents="lightRushAI", selfplay=2, side="both", **options) as env:
        batch, _ = env.reset(seed=2)
        env.action_space.seed(2)
        table = [env.engine.unit_types.getUnitType(kind) for kind in range(7)]
        for _ in range(120):
            for lane in range(5):
                game, player = env.engine.lane_game[lane], int(env.engine.lane_player[lane])
                walls = {tuple(cell) for cell in env.games[game].map.walls.tolist()}
                money = int(batch.globals[lane, 1])
                units = sorted(records_of(env, game), key=lambda unit: (unit["y"], unit["x"]))
                idle = [unit for unit in units if unit["player"] == player and unit["action"] == -1]
                masks = batch.actions["order"].mask[lane]
                for unit, mask in zip(idle, masks, strict=True):
                    expected = slow_mask(unit, units, table, money, walls, mask_reserved)
                    assert np.flatnonzero(mask).tolist() == sorted(expected)
                kinds_seen |= masks[:, :6].any(0)
            batch = env.step(env.action_space.sample(mask=batch))[0]
    assert kinds_seen.all()


def slow_mask(
    unit: dict[str, int],
    units: list[dict[str, int]],
    table: list[Any],
    money: int,
    walls: set[tuple[int, ...]],
    mask_reserved: bool,
) -> set[int]:
    """The columns that the rules of the game allow a unit, by looking around from it."""
    around = {UP: (0, -1), RIGHT: (1, 0), DOWN: (0, 1), LEFT: (-1, 0)}
    player, kind = unit["player"], table[unit["type"]]
    at = {(other["x"], other["y"]): other for other in units}
    blocked = walls | at.keys()
    if mask_reserved:
        for other in units:
            if ACTIONS[max(other["action"], 0)] in ("move", "produce"):
                dx, dy = around[other["direction"]]
                blocked = blocked | {(other["x"] + dx, other["y"] + dy)}
                if other["produced"] >= 0 and other["player"] == player:
                    money -= table[other["produced"]].cost
    cells = {d: (unit["x"] + dx, unit["y"] + dy) for d, (dx, dy) in around.items()}
    free = [d for d, (x, y) in cells.items() if 0 <= x < 8 and 0 <= y < 8 and (x, y) not in blocked]
    allowed = {0}
    if kind.canMove:
        allowed |= {1 for _ in free} | {6 + d for d in free}
    for d, cell in cells.items():
        beside = at.get(cell)
        if kind.canHarvest and beside and beside["type"] == 0 and unit["resources"] == 0:
            allowed |= {2, 10 + d}
        is_home = beside and beside["player"] == player and table[beside["type"]].isStockpile
        if kind.canHarvest and is_home and unit["resources"] > 0:
            allowed |= {3, 14 + d}
    for product in kind.getClass().getField("produces").get(kind):  # a method has that name too
        if product.cost <= money and free:
            allowed |= {4, 22 + int(product.ID)} | {18 + d for d in free}
    for other in units:
        dx, dy = other["x"] - unit["x"], other["y"] - unit["y"]
        if kind.canAttack and other["player"] == 1 - player and np.hypot(dx, dy) <= kind.attackRange:
            allowed |= {5, 29 + (dy + 3) * 7 + dx + 3}
    return allowed


def test_walls_are_entities() -> None:
    with ez.make_vec("MicroRTS/basesWorkers8x8Obstacle", 2, opponents="passiveAI") as env:
        batch, _ = env.reset(seed=0)
        assert batch.entities["Wall"].lengths.tolist() == [8, 8]
        walls = {tuple(cell) for cell in batch.entities["Wall"][0].tolist()}
        others = {
            tuple(c) for t in ("Own", "Enemy", "Resource") for c in batch.entities[t][0][:, :2].tolist()
        }
        assert len(walls) == 8 and not walls & others


# -- the engine's faults ------------------------------------------------------------------------------------


def test_a_reset_clears_the_step_counter() -> None:
    with make(max_steps=40) as env:
        env.reset(seed=0)
        for _ in range(25):
            env.step({})
        batch, _ = env.reset()
        assert batch.globals[0, 0] == 0
        ends = [bool(env.step({})[3][0]) for _ in range(40)]
        assert ends == [False] * 39 + [True]


def test_after_a_reset_every_entity_has_one_plane_of_each_kind() -> None:
    with make(2, features="planes", max_steps=5) as env:
        batch, _ = env.reset(seed=0)
        for _ in range(6):  # the sixth batch is after an autoreset
            for rows in batch.entities.values():
                parts = np.split(rows.values[:, 2:], [5, 10, 13, 21], 1)
                assert all((part.sum(1) == 1).all() for part in parts)
            batch = env.step({})[0]


def test_resources_are_nobodys_for_either_player() -> None:
    with make(3, selfplay=2, side=1, features="planes") as env:
        batch, _ = env.reset(seed=0)
        columns = {name: 2 + ez.microrts.PLANES.index(f"owner_{name}") for name in ("none", "own", "enemy")}
        for name, owner in (("Own", "own"), ("Enemy", "enemy"), ("Resource", "none")):
            rows = batch.entities[name].values
            assert (rows[:, columns[owner]] == 1).all() and len(rows) == 6
        bases = [batch.entities["Own"][lane][:, :2].tolist() for lane in range(3)]
        assert bases[0] == [[1, 1], [2, 1]] and bases[1] == bases[2] == [[5, 6], [6, 6]]


def test_under_partial_observability_a_lane_sees_what_its_units_see_now() -> None:
    with ez.make_vec(
        "MicroRTS/basesWorkers8x8", 3, opponents="POWorkerRush", selfplay=2, partial_observability=True
    ) as env:
        assert isinstance(env, ez.microrts.MicroRTSVectorEnv)
        sight = [env.engine.unit_types.getUnitType(kind).sightRadius for kind in range(7)]
        batch, _ = env.reset(seed=1)
        env.action_space.seed(1)
        assert env.single_observation_space.global_features == ("step", "own_resources")
        hidden = 0
        for _ in range(200):
            batch = env.step(env.action_space.sample(mask=batch))[0]
            for lane in range(3):
                units = records_of(env, env.engine.lane_game[lane])
                player = env.engine.lane_player[lane]
                mine = [unit for unit in units if unit["player"] == player]
                seen = [
                    unit
                    for unit in units
                    if any(
                        np.hypot(unit["x"] - eye["x"], unit["y"] - eye["y"]) <= sight[eye["type"]]
                        for eye in mine
                    )
                ]
                counts = [sum(unit["player"] == owner for unit in seen) for owner in (player, 1 - player, -1)]
                assert [len(batch.entities[name][lane]) for name in ("Own", "Enemy", "Resource")] == counts
                hidden += len(units) - len(seen)
        assert hidden > 0


def test_under_partial_observability_the_usual_bot_can_play() -> None:
    with ez.make_vec(f"MicroRTS/{BOARD}", 2, partial_observability=True) as env:
        env.reset(seed=0)
        for _ in range(3):
            _, _, terminated, truncated, info = env.step({})
            assert not (terminated | truncated).any() and "bot_error" not in info


def test_masks_leave_out_what_is_reserved_and_the_engine_would_drop() -> None:
    """The base is to place a worker on the cell that the worker is walking into."""
    with make(mask_reserved=False) as free, make() as strict:
        batches = [env.reset(seed=0)[0] for env in (free, strict)]
        # The worker at (1, 1) goes down, then right: under the base at (2, 1).
        for what in (order("move", DOWN), order("move", RIGHT)):
            index = 0 if what == order("move", DOWN) else 1  # in the order of the cells
            for k, env in enumerate((free, strict)):
                batches[k] = env.step(orders(batches[k], **{f"unit_{index}": what}))[0]
                for _ in range(9 if index == 0 else 0):
                    batches[k] = env.step({})[0]
        choices = 18 + np.array([UP, RIGHT, DOWN, LEFT])
        allowed = [batch.actions["order"].mask.values[0][choices].tolist() for batch in batches]
        assert allowed == [[True, True, True, True], [True, True, False, True]]
        base = order("produce", DOWN, UNIT_TYPES.index("worker"))
        batch = free.step(orders(batches[0], unit_0=base))[0]
        assert 0 in batch.actions["order"].actors.values  # dropped
        with raises(
            ez.ActionError,
            "env 0",
            "actor 0",
            "(Own 0 at x=2, y=1)",
            "component 'produce'",
            "kind 'produce'",
            "2",
        ):
            strict.step(orders(batches[1], unit_0=base))


def test_masks_leave_out_money_that_is_set_aside() -> None:
    with ez.make_vec("MicroRTS/TwoBasesWorkers8x8", opponents="passiveAI", max_steps=20) as env:
        assert isinstance(env, ez.microrts.MicroRTSVectorEnv)
        batch, _ = env.reset(seed=0)
        worker = UNIT_TYPES.index("worker")
        for _ in range(15):
            part = batch.actions["order"]
            money = batch.globals[0, 1]
            units = [unit for unit in records_of(env, 0) if unit["player"] == 0]
            spent = sum(env.observer.costs[unit["produced"]] for unit in units if unit["produced"] >= 0)
            assert spent <= money
            for mask in part.mask.values:
                for product in np.flatnonzero(mask[22:29]):
                    assert env.observer.costs[product] <= money - spent
            rows = np.zeros((part.actors.num_items, 7), np.int64)
            for k, mask in enumerate(part.mask.values):
                if mask[4] and mask[22 + worker] and not rows.any():  # one at a time: they share the money
                    rows[k] = order("produce", int(mask[18:22].argmax()), worker)
            batch = env.step({"order": part.actors.with_values(rows)})[0]
        assert spent > 0


# -- rewards and ends ---------------------------------------------------------------------------------------


def test_rewards_are_the_weighted_raw_ones() -> None:
    weights = {"gather": 2.0, "worker": 0.5}
    with make(reward_weights=weights) as env:
        batch, info = env.reset(seed=0)
        assert info["raw_rewards"].tolist() == [[0] * 6]
        base = order("produce", RIGHT, UNIT_TYPES.index("worker"))
        _, rewards, *_, info = env.step(orders(batch, unit_0=order("move", UP), unit_1=base))
        assert info["raw_rewards"].tolist() == [[0, 0, 1, 0, 0, 0]]
        assert rewards.tolist() == [0.5] and rewards.dtype == np.float32


def test_final_obs_is_the_last_state_of_a_game_that_the_time_ended() -> None:
    with make(3, opponents="workerRushAI", max_steps=30) as env:
        batch, _ = env.reset(seed=0)
        for step in range(1, 31):
            batch, _, terminated, truncated, info = env.step({})
            assert not terminated.any() and truncated.all() == (step == 30)
        assert info["final_obs"].globals[:, 0].tolist() == [1, 1, 1]
        assert batch.globals[:, 0].tolist() == [0, 0, 0]
        assert info["_final_obs"].all() and info["outcome"].tolist() == ["draw"] * 3
        # The worker rush has been on its way for 30 ticks.
        assert not np.array_equal(info["final_obs"].entities["Enemy"].values, batch.entities["Enemy"].values)


@pytest.mark.parametrize("side", [0, 1])
def test_a_game_that_is_lost_terminates_and_shows_the_last_state(side: int) -> None:
    with make(2, opponents="workerRushAI", side=side, reward_weights={"win_loss": 10}) as env:
        env.reset(seed=0)
        for _ in range(600):
            batch, rewards, terminated, truncated, info = env.step({})
            if terminated.any():
                break
        assert terminated.all() and not truncated.any()
        assert rewards.tolist() == [-10, -10] and info["outcome"].tolist() == ["loss", "loss"]
        assert info["final_obs"].entities["Own"].num_items == 0
        assert batch.entities["Own"].lengths.tolist() == [2, 2] and batch.globals[:, 0].tolist() == [0, 0]


def test_in_self_play_one_lane_wins_what_the_other_loses() -> None:
    """Lane 1 stands still; lane 0 sends all its workers, as chance has it."""
    with ez.make_vec("MicroRTS/melee4x4light2", 2, selfplay=2, max_steps=3000) as env:
        batch, _ = env.reset(seed=0)
        env.action_space.seed(0)
        for _ in range(3000):
            drawn = env.action_space.sample(mask=batch)["order"]
            batch, _, terminated, _, info = env.step(
                {"order": ez.RaggedArray.from_lengths(drawn[0], np.array([len(drawn[0]), 0]))}
            )
            if terminated.any():
                break
        assert terminated.tolist() == [True, True]
        assert info["raw_rewards"][:, 0].tolist() == [1, -1]
        assert info["outcome"].tolist() == ["win", "loss"]


def test_frames_are_skipped_and_their_rewards_added_up() -> None:
    with make(max_steps=10, frame_skip=4) as env:
        batch, _ = env.reset(seed=0)
        base = order("produce", RIGHT, UNIT_TYPES.index("worker"))
        batch, _, _, _, info = env.step(orders(batch, unit_1=base))
        assert batch.globals[0, 0] == np.float32(0.4) and info["raw_rewards"][0, 2] == 1
        assert not env.step({})[3].any()
        _, _, _, truncated, info = env.step({})
        assert truncated.all() and info["final_obs"].globals[0, 0] == 1


def test_the_limit_may_be_the_end_of_a_game_but_not_the_failure_of_a_bot() -> None:
    """A lane against a bot that has failed is cut off; the draw of the other ends there."""
    with make(2, max_steps=6, limit_is_end=True) as env:
        env.reset(seed=0)
        for _ in range(5):
            _, _, terminated, truncated, _ = env.step({})
            assert not (terminated | truncated).any()
        env.engine.columns.bots.array[1] = None
        with pytest.warns(UserWarning, match="NullPointerException"):
            _, _, terminated, truncated, info = env.step({})
        assert (terminated.tolist(), truncated.tolist()) == ([True, False], [False, True])
        assert info["outcome"].tolist() == ["draw", "draw"] and info["final_obs"].globals[0, 0] == 1


@pytest.mark.parametrize("watched", [True, False])
def test_a_bot_that_raises_ends_its_game_alone(watched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entitize.adapters.microrts.java.engine.may_hang", lambda name, partial: watched)
    with make(6, selfplay=2, opponents="workerRushAI") as env:
        assert (env.engine.watch is not None) == watched
        env.reset(seed=0)
        env.step({})
        for game in (1, 3):
            env.engine.columns.bots.array[game] = None  # Java raises where it is called
        with warns(UserWarning, "workerRushAI", "raised") as caught:
            batch, rewards, terminated, truncated, info = env.step({})
        for lane, warning in zip((2, 4), caught, strict=True):
            assert re.search(mentions(f"env {lane}", "workerRushAI", "raised"), str(warning.message))
        failed = np.array([False, False, True, False, True, False])
        assert np.array_equal(truncated, failed) and not terminated.any() and not rewards.any()
        assert info["outcome"].tolist() == [None, None, "draw", None, "draw", None]
        assert "workerRushAI" in info["bot_error"][2] and np.array_equal(info["_bot_error"], failed)
        assert np.array_equal(batch.globals[:, 0], np.where(failed, 0, np.float32(2 / 2000)))
        assert not env.step({})[3].any()


def test_a_game_between_lanes_that_raises_is_an_error_and_needs_a_reset() -> None:
    with make(4, selfplay=4) as env:
        env.reset(seed=0)
        env.engine.columns.states.array[1] = None  # Java raises where it is called
        with raises(RuntimeError, "MicroRTS", "game 1", "NullPointerException"):
            env.step({})
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step({})
        env.reset(seed=0)
        assert env.step({})[0].globals[:, 0].tolist() == [np.float32(1 / 2000)] * 4


# -- the rest -----------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_games() -> None:
    bots = ["workerRushAI", "randomBiasedAI", "randomAI", "lightRushAI"]

    def play(env: ez.microrts.MicroRTSVectorEnv) -> list[ez.EntityBatch]:
        batch, _ = env.reset(seed=11)
        env.action_space.seed(11)
        played = [batch]
        for _ in range(120):
            played.append(env.step(env.action_space.sample(mask=played[-1]))[0])
        return played

    with make(4, opponents=bots, max_steps=50) as one, make(4, opponents=bots, max_steps=50) as other:
        first, second, third = play(one), play(other), play(one)
    assert all(a.equals(b) and a.equals(c) for a, b, c in zip(first, second, third, strict=True))


def test_environments_get_their_own_rewards_in_whatever_order_or_thread_they_are_stepped() -> None:
    """The engine's clients share reward objects; its ids and its random generator are the process's."""

    def play(seed: int) -> Iterator[np.ndarray]:
        with make(6, opponents="randomBiasedAI", selfplay=2, max_steps=40) as env:
            batch, _ = env.reset(seed=seed)
            env.action_space.seed(seed)
            for _ in range(60):
                batch, _, _, _, info = env.step(env.action_space.sample(mask=batch))
                yield info["raw_rewards"]

    seeds = (1, 2)
    alone = [np.array(list(play(seed))) for seed in seeds]
    assert all(rewards[:, :2].any() and rewards[:, 2:].any() for rewards in alone)
    assert not np.array_equal(*alone)
    alternately = list(zip(*map(play, seeds), strict=True))
    with ThreadPoolExecutor(2) as pool:
        in_threads = list(pool.map(lambda seed: np.array(list(play(seed))), seeds))
    for k in range(2):
        assert np.array_equal([rewards[k] for rewards in alternately], alone[k])
        assert np.array_equal(in_threads[k], alone[k])


def test_maps_of_one_size_are_taken_in_turns() -> None:
    maps = ["basesWorkers8x8", "FourBasesWorkers8x8"]
    with make(4, maps=maps) as env:
        batch, _ = env.reset(seed=0)
        own = batch.entities["Own"].lengths
        assert own[0] == own[2] == 2 and own[1] == own[3] > 2
    with raises(ValueError, "map", "'basesWorkers8x9'"):
        ez.make_vec("MicroRTS/basesWorkers8x9", 4, maps=maps)


def test_a_picture_shows_every_unit_where_it_is() -> None:
    with make(2, render_mode="rgb_array", maps=["basesWorkers8x8Obstacle"]) as env:
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.render()
        env.reset(seed=0)
        frames = env.render()
        assert frames is not None and len(frames) == 2
        assert frames[0].shape == (192, 192, 3) and frames[0].dtype == np.uint8
        cells = frames[0].reshape(8, 24, 8, 24, 3).swapaxes(1, 2)
        busy = {
            (x, y) for y in range(8) for x in range(8) if (cells[y, x, 2:, 2:] != cells[y, x, 2, 2]).any()
        }
        assert busy == {(unit["x"], unit["y"]) for unit in records_of(env, 0)}
        env.step({})
        assert all(np.array_equal(*pair) for pair in zip(frames, env.render() or (), strict=True))
    with make() as plain, raises(ValueError, "render_mode"):
        plain.render()


def test_a_closed_environment_says_so() -> None:
    env = make()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step({})
    env.close()
    for call in (env.reset, lambda: env.step({})):
        with pytest.raises(gymnasium.error.ClosedEnvironmentError):
            call()


def test_the_engines_header_is_read_by_name() -> None:
    with make() as env:
        env.reset(seed=0)
        header = dict(zip(HEADER, env.engine.records[: len(HEADER)].tolist(), strict=True))
        assert header == {
            "time": 0,
            "is_over": 0,
            "winner": -1,
            "resources_0": 5,
            "resources_1": 5,
            "count": 6,
        }
