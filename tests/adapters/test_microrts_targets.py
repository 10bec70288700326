"""`targets="entities"`: attacks, harvests and returns aimed at entities, over the real engine."""

from __future__ import annotations

import math
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.microrts.java import ACTIONS, COMPONENT_SIZES
from entitize.adapters.microrts.kernels.target_kernels import targeted_order

from facts import raises

HARVEST, RETURN, ATTACK = (ACTIONS.index(name) for name in ("harvest", "return", "attack"))
STARTS = np.cumsum((0, *COMPONENT_SIZES))  # where each component's columns start in the engine's mask
AROUND = ((0, -1), (1, 0), (0, 1), (-1, 0))  # up, right, down, left
UNTARGETED = ("none", "move", "produce")
SEEN = ("Own", "Enemy", "Resource")

#: Per actor with a target (entity index), per target the engine's order: its kind and parameter.
Targets = dict[int, dict[int, tuple[int, int]]]

#: The component of an order that says which cell a kind is about.
PARAMETER = {HARVEST: 2, RETURN: 3, ATTACK: 6}

#: Workers that harvest and return, and units that shoot three cells far.
MIXED = {
    "maps": ["basesWorkers8x8", "melee8x8Mixed6"],
    "num_envs": 5,
    "opponents": "workerRushAI",
    "selfplay": 2,
    "side": "both",
}


def make(**options: Any) -> ez.microrts.MicroRTSVectorEnv:
    options = {"opponents": "passiveAI", **options}
    env = ez.make_vec("MicroRTS/basesWorkers8x8", options.pop("num_envs", 1), **options)
    assert isinstance(env, ez.microrts.MicroRTSVectorEnv)
    return env


def engine_masks(env: ez.microrts.MicroRTSVectorEnv) -> np.ndarray:
    """What the engine's own mask buffer says (games, height, width, 78), asked for once more."""
    env.engine.read()
    masks = env.engine.masks.copy()
    env.engine.masks[:] = 0
    return masks


def slow_targets(batch: ez.EntityBatch, lane: int, masks: np.ndarray) -> Targets:
    """What a lane's units may be aimed at, as the `masks` of its game say (height, width, 78)."""
    cells = [tuple(map(int, row[:2])) for name in SEEN for row in batch.entities[name][lane]]
    entity_at = {cell: index for index, cell in enumerate(cells)}
    found: Targets = {}
    for actor in batch.actions["order"].actors[lane].tolist():
        x, y = cells[actor]
        parts = np.split(masks[y, x], STARTS[1:-1])
        choices = [
            (kind, d, (x + dx, y + dy)) for kind in (HARVEST, RETURN) for d, (dx, dy) in enumerate(AROUND)
        ]
        choices += [(ATTACK, a, (x + a % 7 - 3, y + a // 7 - 3)) for a in range(49)]
        for kind, parameter, cell in choices:
            if parts[PARAMETER[kind]][parameter]:  # there is something to be seen wherever a mask allows it
                found.setdefault(actor, {})[entity_at[cell]] = (kind, parameter)
    return found


def slow_orders(
    batch: ez.EntityBatch, actions: dict[str, ez.RaggedArray], env: ez.microrts.MicroRTSVectorEnv
) -> ez.RaggedArray:
    """The orders of the cells variant that mean the same, unit by unit."""
    masks, rows = engine_masks(env), []
    for lane in range(len(batch)):
        targets = slow_targets(batch, lane, masks[env.engine.lane_game[lane]])
        actors = batch.actions["target"].actors[lane].tolist()
        chosen = dict(zip(actors, actions["target"][lane].tolist(), strict=True))
        for actor, order in zip(
            batch.actions["order"].actors[lane].tolist(), actions["order"][lane].tolist(), strict=True
        ):
            kind, move, produce, product = order
            wide = [ACTIONS.index(UNTARGETED[kind]), move, 0, 0, produce, product, 0]
            if chosen.get(actor, actor) != actor:
                kind, parameter = targets[actor][chosen[actor]]
                wide = [kind] + [0] * 6
                wide[PARAMETER[kind]] = parameter
            rows.append(wide)
    return batch.actions["order"].actors.with_values(np.array(rows, np.int64).reshape(-1, 7))


def without_actions(batch: ez.EntityBatch) -> ez.EntityBatch:
    return ez.EntityBatch(batch.entities, batch.globals, {})


def test_orders_are_only_those_that_are_not_aimed_at_an_entity() -> None:
    with make(targets="entities") as env:
        order, target = env.single_action_space.values()
        assert order.components == {
            "kind": UNTARGETED,
            "move": ("up", "right", "down", "left"),
            "produce": ("up", "right", "down", "left"),
            "produce_type": ("resource", "base", "barracks", "worker", "light", "heavy", "ranged"),
        }
        assert order.uses == {"none": (), "move": ("move",), "produce": ("produce", "produce_type")}
        assert target == ez.SelectEntity()
    with raises(ValueError, "targets", "'cells', 'entities'", "'units'"):
        make(targets="units")


@pytest.mark.parametrize(
    "options",
    [{}, {"features": "planes", "mask_reserved": False}, {"partial_observability": True, "frame_skip": 2}],
)
def test_targets_are_what_the_engines_masks_and_the_cells_say(options: dict[str, Any]) -> None:
    kinds = set()
    with make(**MIXED, **options, targets="entities") as env:
        batch, _ = env.reset(seed=4)
        env.action_space.seed(4)
        for _ in range(150):
            masks, part = engine_masks(env), batch.actions["target"]
            assert part.actees is not None
            for lane in range(env.num_envs):
                expected = slow_targets(batch, lane, masks[env.engine.lane_game[lane]])
                assert part.actors[lane].tolist() == list(expected)
                union = set(expected).union(*expected.values())
                assert part.actees[lane].tolist() == sorted(union)
                allowed = part.mask[lane].reshape(len(expected), len(union))
                for (actor, targets), row in zip(expected.items(), allowed, strict=True):
                    assert part.actees[lane][row].tolist() == sorted({actor, *targets})
                    kinds |= {kind for kind, _ in targets.values()}
            batch = env.step(env.action_space.sample(mask=batch))[0]
    assert kinds == {HARVEST, RETURN, ATTACK}


def test_the_mask_of_an_order_is_the_engines_without_aimed_kinds() -> None:
    columns = [0, 1, 4, *range(6, 10), *range(18, 29)]
    with make(**MIXED) as cells, make(**MIXED, targets="entities") as entities:
        whole, part = (env.reset(seed=1)[0].actions["order"] for env in (cells, entities))
        assert part.actors == whole.actors
        assert np.array_equal(part.mask.values, whole.mask.values[:, columns])
        assert part.mask.values.flags.c_contiguous


@pytest.mark.parametrize("features", ["units", "planes"])
def test_a_play_goes_as_with_cells(features: str) -> None:
    """Both variants from the same seed; every legal target is a legal order, and every step is the same."""
    kinds = set()
    options = {**MIXED, "features": features, "max_steps": 120}
    with make(**options) as cells, make(**options, targets="entities") as entities:
        one, other = cells.reset(seed=7)[0], entities.reset(seed=7)[0]
        entities.action_space.seed(7)
        for _ in range(200):
            assert without_actions(one).equals(without_actions(other))
            masks = engine_masks(entities)
            for lane in range(len(other)):
                whole = one.actions["order"]
                legal = dict(zip(whole.actors[lane].tolist(), whole.mask[lane], strict=True))
                game = entities.engine.lane_game[lane]
                for actor, targets in slow_targets(other, lane, masks[game]).items():
                    for kind, parameter in targets.values():
                        column = PARAMETER[kind]
                        assert legal[actor][kind] and legal[actor][STARTS[column] + parameter]
            actions = entities.action_space.sample(mask=other)
            orders = slow_orders(other, actions, entities)
            kinds |= set(orders.values[:, 0].tolist())
            one, *results = cells.step({"order": orders})
            other, *others = entities.step(actions)
            for result, expected in zip(others[:3], results[:3], strict=True):
                assert np.array_equal(result, expected)
            assert np.array_equal(others[3]["raw_rewards"], results[3]["raw_rewards"])
    assert kinds == set(range(6))


def test_who_can_not_be_seen_is_no_target() -> None:
    """The worker stands beside a resource field, and then its players go blind."""
    with make(partial_observability=True, targets="entities") as env:
        batch, _ = env.reset(seed=0)
        actors = batch.actions["order"].actors
        batch = env.step({"order": actors.with_values(np.array([[1, 0, 0, 0], [0, 0, 0, 0]]))})[0]
        for _ in range(10):
            batch = env.step({})[0]
        part = batch.actions["target"]
        resource = int(batch.entities["Own"].num_items + batch.entities["Enemy"].num_items)
        assert part.actees is not None
        assert part.actors.values.tolist() == [0] and part.actees.values.tolist() == [0, resource]
        env.observer.sight[:] = 0
        part = env.step({})[0].actions["target"]
        assert engine_masks(env)[0, 0, 1, HARVEST]
        assert part.actees is not None
        assert part.actors.num_items == part.actees.num_items == part.mask.num_items == 0


# -- orders that follow from targets ------------------------------------------------------------------------


def test_attack_comes_before_harvest_and_that_before_return() -> None:
    width = 8
    at, right = 3 * width + 3, 3 * width + 4
    mask = np.zeros(78, bool)
    assert targeted_order(mask, width, at, right) == (0, 0)
    mask[[RETURN, STARTS[3] + 1]] = True
    assert targeted_order(mask, width, at, right) == (RETURN, 1)
    mask[[HARVEST, STARTS[2] + 1]] = True
    assert targeted_order(mask, width, at, right) == (HARVEST, 1)
    mask[[ATTACK, STARTS[6] + 25]] = True
    assert targeted_order(mask, width, at, right) == (ATTACK, 25)
    mask[STARTS[6] :] = True
    assert targeted_order(mask, width, at, at) == (0, 0)  # nobody is aimed at itself
    assert targeted_order(mask, width, at, 6 * width) == (ATTACK, 6 * 7)  # three to the left, three down
    assert targeted_order(mask, width, at, 3 * width + 7) == (0, 0)  # out of reach


def harvesting(env: ez.microrts.MicroRTSVectorEnv) -> ez.EntityBatch:
    """Games in which own unit 0, a worker, stands below the upper edge beside a resource field, entity 4."""
    batch, _ = env.reset(seed=0)
    rows = np.zeros((batch.actions["order"].actors.num_items, 4), np.int64)
    rows[::2, 0] = UNTARGETED.index("move")  # up
    batch = env.step({"order": batch.actions["order"].actors.with_values(rows)})[0]
    while 0 not in batch.actions["order"].actors[0]:
        batch = env.step({})[0]
    return batch


def test_a_target_overrides_the_order_and_oneself_does_not() -> None:
    with make(targets="entities") as env:
        for chosen, has_order, action in (
            (4, True, "harvest"),
            (4, False, "harvest"),
            (0, True, "move"),
            (0, False, "none"),
            (None, True, "move"),
        ):
            batch = harvesting(env)
            actions = {}
            if has_order:
                down = np.array([[1, 2, 0, 0], [0, 0, 0, 0]])
                actions["order"] = batch.actions["order"].actors.with_values(down)
            if chosen is not None:
                actions["target"] = batch.actions["target"].actors.with_values(np.array([chosen]))
            env.step(actions)
            doing = {(unit[3], unit[4]): int(unit[7]) for unit in env.observer.units_of(0)}[1, 0]
            assert ACTIONS[max(doing, 0)] == action


def test_choices_of_other_integers_are_taken() -> None:
    with make(targets="entities") as env:
        batch = harvesting(env)
        field = np.array([4], np.int32)
        _, rewards, *_ = env.step({"target": batch.actions["target"].actors.with_values(field)})
        assert rewards.tolist() == [1]  # a harvest


def test_illegal_choices_are_refused_and_the_game_stays_as_it_was() -> None:
    with make(targets="entities", num_envs=2) as env, make(targets="entities", num_envs=2) as twin:
        harvesting(twin)
        batch = harvesting(env)
        order, target = batch.actions["order"].actors, batch.actions["target"].actors
        assert target.lengths.tolist() == [1, 1] and order.lengths.tolist() == [2, 2]
        waiting = np.zeros((4, 4), np.int64)
        harvest = target.with_values(np.array([4, 4]))
        wrong: list[tuple[dict[str, Any], list[object]]] = [
            (
                {"target": target.with_values(np.array([4, 2]))},
                ["env 1", "action 'target'", "actor 0", "(Own 0 at x=1, y=0)", "entity 2", "4 (Resource 0"],
            ),
            ({"target": target.with_values(np.array([99, 0]))}, ["env 0", "entity 99", "not allowed"]),
            ({"target": order.with_values(np.zeros(4, np.int64))}, ["env 0", "action 'target'"]),
            ({"target": harvest.with_values(np.ones(2))}, ["action 'target'", "integers"]),
            ({"aim": harvest}, ["unknown", "'aim'", "'order', 'target'"]),
        ]
        # An order must be legal also where a target overrides it.
        for row, mistake in (
            ([1, 0, 0, 0], ["component 'move'", "kind 'move'", 0]),  # over the upper edge
            ([3, 0, 0, 0], ["component 'kind'", 3]),
            ([0, 0, 0, -1], ["component 'produce_type'", -1]),
        ):
            rows = waiting.copy()
            rows[2] = row
            wrong.append(({"order": order.with_values(rows), "target": harvest}, ["env 1", *mistake]))
        for actions, facts in wrong:
            for full in (actions, {"order": order.with_values(waiting), "target": harvest, **actions}):
                with raises(ez.ActionError, *facts):
                    env.step(full)
        legal = {"order": order.with_values(waiting), "target": harvest}
        for actions in [legal] + [{}] * 30:
            results = [e.step(actions) for e in (env, twin)]
            assert results[0][0].equals(results[1][0])
            assert np.array_equal(results[0][1], results[1][1])


# -- training -----------------------------------------------------------------------------------------------


def test_training_runs() -> None:
    with make(**MIXED, targets="entities", max_steps=100) as env:
        space = env.single_observation_space
        policy = ez.RogueNet(space, space.actions, d_model=8, n_layer=1, n_head=1)
        config = ez.PPOConfig(num_steps=32, minibatch_size=80, update_epochs=1, anneal_lr=False)
        trainer = ez.PPO(policy, env, config)
        for _ in range(2):
            samples = trainer.collect()
            assert samples.observations.actions["target"].actors.num_items > 0
            metrics = trainer.update()
            losses = [value for name, value in metrics.items() if name.startswith("losses/")]
            assert len(losses) > 3 and all(map(math.isfinite, losses))


def test_the_log_probability_of_a_step_is_that_of_both_actions() -> None:
    with make(targets="entities") as env:
        space = env.single_observation_space
        policy = ez.RogueNet(space, space.actions, d_model=8, n_layer=1, n_head=1)
        batch = harvesting(env)
        acted = policy.act(batch, np.random.default_rng(0))
        assert acted.log_probs["order"].num_items == 2 and acted.log_probs["target"].num_items == 1
        evaluation = policy.evaluate(batch, acted.actions)
        for name, log_probs in acted.log_probs.items():
            np.testing.assert_allclose(evaluation.log_probs[name].detach(), log_probs.values, atol=1e-5)
        env.step(acted.actions)
