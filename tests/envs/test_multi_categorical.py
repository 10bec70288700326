"""Composite orders: the space against slow Python, and every part of an environment that knows them."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.envs import (
    ActionError,
    MultiCategorical,
    MultiCategoricalAction,
    MultiCategoricalMask,
    Observation,
    ObservationError,
    batch_observations,
    sample_actions,
    unbatch_observation,
    validate_actions,
)
from entitize.ragged import RaggedArray
from hypothesis import given
from hypothesis import strategies as st

from facts import mentions, raises

UNIT = MultiCategorical(
    {"kind": ["wait", "move", "build"], "where": ["north", "south"], "what": 3},
    uses={"move": ["where"], "build": ["where", "what"]},
)
SPACE = ez.EntitySpace({"Unit": ["x"], "Rock": []}, ez.EntityActionSpace({"order": UNIT}, optional=True))


def flags(kinds: str, where: str, what: str) -> list[int]:
    """A row of UNIT's mask, from strings of 0 and 1."""
    return [int(flag) for flag in kinds + where + what]


@st.composite
def spaces(draw: st.DrawFn) -> MultiCategorical:
    """Up to four components of up to four choices, and any uses."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    components = {f"c{m}": size for m, size in enumerate(sizes)}
    others = list(components)[1:]
    uses = {
        str(kind): [name for name in others if draw(st.booleans())]
        for kind in range(sizes[0])
        if draw(st.booleans())
    }
    return MultiCategorical(components, uses if draw(st.booleans()) else None)


def legal_orders(action: MultiCategorical, row: Any) -> Iterator[tuple[int, ...]]:
    """All orders that a row of the mask allows, 0 where a component is not used: by brute force."""
    allowed = [row[start:stop] for start, stop in itertools.pairwise(action.offsets.tolist())]
    names = list(action.components)
    for order in itertools.product(*(range(len(part)) for part in allowed)):
        kind = action.components[names[0]][order[0]]
        if allowed[0][order[0]] and all(
            allowed[m][choice] if names[m] in action.uses[kind] else choice == 0
            for m, choice in enumerate(order)
            if m > 0
        ):
            yield order


# -- the space -----------------------------------------------------------------------------------------------


def test_a_space_says_where_its_components_are_and_who_uses_them() -> None:
    assert UNIT.sizes.tolist() == [3, 2, 3] and UNIT.offsets.tolist() == [0, 3, 5, 8]
    assert UNIT.num_choices == 8 and UNIT.item_shape == (3,) and UNIT.names == ("kind", "where", "what")
    assert UNIT.kinds == ("wait", "move", "build") and UNIT.components["what"] == ("0", "1", "2")
    assert UNIT.used.tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert UNIT.uses == {"wait": (), "move": ("where",), "build": ("where", "what")}
    assert UNIT.labels(np.array([1, 1, 2])) == {"kind": "move", "where": "south"}
    free = MultiCategorical({"a": 2, "b": 3})
    assert free.used.all() and free.uses == {"0": ("b",), "1": ("b",)}
    assert MultiCategorical({"a": 2}).used.tolist() == [[True], [True]]


def test_equal_components_and_uses_make_equal_spaces() -> None:
    parts = {"kind": ["wait", "move", "build"], "where": ["north", "south"], "what": ["0", "1", "2"]}
    same = MultiCategorical(parts, {"build": ("what", "where"), "move": ["where"], "wait": []})
    assert same == UNIT and hash(same) == hash(UNIT)
    assert MultiCategorical(parts) != UNIT
    assert MultiCategorical({"kind": 2, "a": 2, "b": 2}) != MultiCategorical({"kind": 2, "b": 2, "a": 2})
    assert eval(repr(UNIT)) == UNIT


@pytest.mark.parametrize(
    ("components", "uses", "error", "facts"),
    [
        ({}, None, TypeError, ("components", "dict", "{}")),
        (["kind"], None, TypeError, ("components", "dict", "['kind']")),
        ({"kind": 0}, None, ValueError, ("component 'kind'", "at least one choice")),
        ({"kind": []}, None, ValueError, ("component 'kind'", "at least one choice")),
        ({"kind": ["a", "a"]}, None, ValueError, ("component 'kind'", "repeat", "'a'")),
        ({"kind": "ab"}, None, TypeError, ("component 'kind'", "list of strings", "'ab'")),
        ({1: 2}, None, TypeError, ("components", "strings", 1)),
        ({"k": ["a"], "m": 2}, {"b": ["m"]}, ValueError, ("uses", "kind 'b'", "'a'")),
        (
            {"k": ["a"], "m": 2},
            {"a": ["n"]},
            ValueError,
            ("uses of 'a'", "component 'n'", "'m'"),
        ),
        ({"k": ["a"]}, {"a": ["k"]}, ValueError, ("uses of 'a'", "component 'k'", "none")),
        ({"k": ["a"], "m": 2}, {"a": "m"}, TypeError, ("uses of 'a'", "list of strings", "'m'")),
    ],
)
def test_impossible_spaces_are_refused(
    components: Any, uses: Any, error: type[Exception], facts: tuple[object, ...]
) -> None:
    with raises(error, *facts):
        MultiCategorical(components, uses)


def test_contains_looks_at_shape_dtype_and_range() -> None:
    assert UNIT.contains(np.array([[0, 1, 2], [2, 0, 0]])) and UNIT.contains(np.zeros((0, 3), np.int64))
    for wrong in (
        np.zeros(3, int),
        np.zeros((1, 2), int),
        np.zeros((1, 3)),
        np.array([[0, 2, 0]]),
        [[0, 0, 0]],
    ):
        assert not UNIT.contains(wrong)
    assert not UNIT.contains(np.array([[0, 0, -1]]))
    assert UNIT.sample().shape == (0, 3)


@pytest.mark.parametrize(
    ("row", "facts"),
    [
        (flags("100", "00", "000"), None),
        (flags("110", "01", "000"), None),
        (flags("111", "01", "100"), None),
        (flags("000", "11", "111"), ("row 0", "'mask'", "'kind'")),
        (flags("110", "00", "000"), ("row 0", "'mask'", "'move'", "'where'")),
        (flags("111", "10", "000"), ("row 0", "'mask'", "'build'", "'what'")),
        ([2] + [1] * 7, ("'mask'", 0, 1, 2)),
        ([1] * 7, ("'mask'", "int8 (1, 8)", "int8 (1, 7)")),
    ],
)
def test_a_mask_must_allow_a_whole_order_of_each_allowed_kind(
    row: list[int], facts: tuple[object, ...] | None
) -> None:
    part = {"actors": np.array([0]), "mask": np.array([row], np.int8)}
    problem = UNIT.mask_problem(part, 1)
    assert problem is None if facts is None else re.search(mentions(*facts), problem or "")
    part["mask"] = np.array([flags("100", "00", "000"), row][: 1 + (len(row) == 8)], np.int8)
    outside = UNIT.mask_problem({**part, "actors": np.array([3])}, 3)
    assert re.search(mentions("'actors'", "entity 3", "3 entities"), outside or "")
    assert re.search(mentions("'actors'", "missing"), UNIT.mask_problem({"mask": part["mask"]}, 1) or "")


@given(action=spaces(), seed=st.integers(0, 2**32 - 1))
def test_random_masks_are_legal_and_random_orders_are_among_those_they_allow(
    action: MultiCategorical, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    part = action.sample_mask(6, rng)
    assert action.mask_problem(part, 6) is None
    mask = part["mask"].astype(bool)
    action.seed(seed)
    orders = action.sample(mask=part)
    assert orders.shape == (len(mask), len(action.names)) and orders.dtype == np.int64
    for row, order in zip(mask, orders, strict=True):
        assert tuple(order) in set(legal_orders(action, row))
    assert action.contains(orders) and action.legal(orders, mask).all()


@given(action=spaces(), seed=st.integers(0, 2**32 - 1))
def test_legality_and_mending_are_those_of_slow_python(action: MultiCategorical, seed: int) -> None:
    rng = np.random.default_rng(seed)
    mask = action.sample_mask(8, rng)["mask"].astype(bool)
    orders = rng.integers(-1, action.sizes + 1, (len(mask), len(action.names)))
    mended, count = action.replace_illegal(orders, action.one_step(np.arange(len(mask)), mask))
    assert count == np.count_nonzero(~action.legal(orders, mask))
    for row, order, mend in zip(mask, orders, mended, strict=True):
        allowed = [row[start:stop] for start, stop in itertools.pairwise(action.offsets.tolist())]
        expected: list[bool] = []
        repaired: list[int] = []
        for m, name in enumerate(action.names):
            exists = 0 <= order[m] < len(allowed[m])
            fine = exists and bool(allowed[m][order[m]])
            kind = action.kinds[order[0] if 0 <= order[0] < len(action.kinds) else 0]
            expected.append(fine if m == 0 or name in action.uses[kind] else exists)
            first = int(np.argmax(allowed[m]))
            if m == 0 or name in action.uses[action.kinds[repaired[0]]]:
                repaired.append(order[m] if fine else first)
            else:
                repaired.append(order[m] if exists else first)
        assert action.legal(order[None], row[None])[0].tolist() == expected
        assert mend.tolist() == repaired
        if not all(expected):
            name = action.names[expected.index(False)]
            assert action.illegal_in_words(order, row).startswith(f"component {name!r}")
    assert action.legal(mended, mask).all()


def test_kinds_are_drawn_alike_and_then_the_choices_of_what_they_use() -> None:
    row = flags("111", "11", "101")
    batch = batch_observations(SPACE, [step(["100", "00", "000"], row)] * 12_000)
    drawn = sample_actions(SPACE.actions, batch, np.random.default_rng(0))["order"].values.reshape(-1, 2, 3)
    assert (drawn[:, 0] == 0).all(), "the other unit may only wait"
    counts = Counter(map(tuple, drawn[:, 1].tolist()))
    legal = set(legal_orders(UNIT, row))
    assert counts.keys() == legal
    for order in legal:
        expected = 12_000 / 3 / {0: 1, 1: 2, 2: 4}[order[0]]
        assert abs(counts[order] - expected) < 5 * np.sqrt(expected)


# -- batches -------------------------------------------------------------------------------------------------


def step(*rows: Any) -> dict[str, Any]:
    """An observation with a rock and one unit per row of the mask, all of which act."""
    mask = [flags(*row) if isinstance(row[0], str) else row for row in rows]
    return {
        "entities": {"Unit": np.zeros((len(rows), 1), np.float32), "Rock": np.zeros((1, 0), np.float32)},
        "actions": {
            "order": {
                "actors": np.arange(len(rows)),
                "mask": np.array(mask, np.int8).reshape(-1, 8),
            }
        },
    }


STEPS = [
    step(["100", "00", "000"], ["110", "01", "000"]),
    step(),
    step(["111", "11", "101"], ["001", "10", "010"], ["111", "11", "111"]),
]


def test_observations_with_composite_masks_batch_pad_store_and_come_back(same_data: Any) -> None:
    assert all(SPACE.contains(observation) for observation in STEPS)
    batch = batch_observations(SPACE, STEPS)
    assert batch.actions["order"].mask.values.shape == (5, 8)
    for b, observation in enumerate(STEPS):
        assert same_data(unbatch_observation(SPACE, batch, b), observation)
    layout = ez.batch.PaddedLayout(SPACE, {"Unit": 3, "Rock": 2})
    padded = layout.pad(batch)
    assert padded["actions/order/mask"].shape == (3, 5, 8)
    assert layout.observation_space.contains({name: array[0] for name, array in padded.items()})
    actions = sample_actions(SPACE.actions, batch, np.random.default_rng(0))
    flat = layout.pad_actions(batch, actions)
    assert flat["order"].shape == (3, 5, 3) and flat["order"].dtype == np.int64
    for b, chosen in enumerate(actions["order"]):
        assert flat["order"][b, : len(chosen)].tolist() == chosen.tolist()
    buffer = ez.batch.EntityBatchBuffer(SPACE)
    buffer.append(batch)
    buffer.append(batch)
    assert buffer.gather([3, 2]).equals(batch.gather([0, 2]))
    assert ez.envs.no_actions(SPACE.actions, 2)["order"].inner_shape == (3,)


def test_a_mask_without_a_whole_order_can_not_be_sampled_from() -> None:
    batch = batch_observations(SPACE, [step(), step(["110", "00", "000"])])
    with raises(ObservationError, "env 1", "action 'order'", "'move'", "'where'"):
        sample_actions(SPACE.actions, batch, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("order", "facts"),
    [
        (
            [2, 0, 1],
            (
                *("env 2", "action 'order'", "actor 0 (Unit 0)", "component 'what'", "kind 'build'"),
                *("'what' of kind 'build': 1", "expected one of 0, 2"),
            ),
        ),
        (
            [3, 0, 0],
            ("env 2", "action 'order'", "actor 0 (Unit 0)", "component 'kind'", "choice 3", "0 to 2"),
        ),
        ([0, 0, -1], ("env 2", "actor 0 (Unit 0)", "component 'what'", "choice -1", "0 to 2")),
    ],
)
def test_illegal_orders_are_refused_by_component(order: list[int], facts: tuple[object, ...]) -> None:
    batch = batch_observations(SPACE, STEPS)
    orders = RaggedArray(np.array([order, [2, 0, 1], [0, 1, 2]]), [0, 0, 0, 3])
    with raises(ActionError, *facts):
        validate_actions(SPACE, batch, {"order": orders})
    with raises(ActionError, 2, 3, "Unit 0", "Unit 1", "Unit 2"):
        validate_actions(SPACE, batch, {"order": RaggedArray(orders.values[1:], [0, 0, 0, 2])})


def test_components_without_use_may_hold_anything_and_steps_may_order_nothing() -> None:
    batch = batch_observations(SPACE, STEPS)
    orders = RaggedArray(np.array([[0, 1, 2], [2, 0, 1], [1, 1, 0]], np.int32), [0, 0, 0, 3])
    checked = validate_actions(SPACE, batch, {"order": orders})["order"]
    assert checked.dtype == np.int64 and checked.values.tolist() == orders.values.tolist()
    assert checked.lengths.tolist() == [0, 0, 3]
    for wrong, got in (
        (orders.with_values(orders.values[:, :2]), "int32 of shape (2,)"),
        (orders.with_values(orders.values.astype(float)), "float64 of shape (3,)"),
    ):
        with raises(ActionError, "action 'order'", "3 integers (kind, where, what)", got):
            validate_actions(SPACE, batch, {"order": wrong})
    with raises(ActionError, "action 'order'", "2 steps", 3):
        validate_actions(SPACE, batch, {"order": orders[1:]})


def test_the_checker_tries_a_barred_choice_of_every_component() -> None:
    batch = batch_observations(SPACE, STEPS)
    legal = sample_actions(SPACE.actions, batch, np.random.default_rng(0))
    tried = dict(ez.actions.illegal_actions(SPACE, batch, legal))
    for component, facts in (
        ("kind", ("1 ('move')", "expected one of 0 ('wait')")),
        ("where", ("kind 'move'", "0 ('north')", "expected one of 1 ('south')")),
        ("what", ("kind 'build': 1", "expected one of 0, 2")),
    ):
        actions = tried[f"action 'order' with a masked choice of component {component!r}"]
        with raises(ActionError, f"component {component!r}", *facts):
            validate_actions(SPACE, batch, actions)
    assert len(tried) == 6
    for what, actions in tried.items():
        with pytest.raises(ActionError):
            validate_actions(SPACE, batch, actions)
            pytest.fail(f"{what} was accepted")


# -- environments --------------------------------------------------------------------------------------------


class Site(ez.EntityEnv):
    """Units move up and down and leave stones; at the edges they can't go further, and stones run out."""

    def __init__(self) -> None:
        self.observation_space = SPACE
        self.action_space = SPACE.actions
        self.received: list[Any] = []

    def _reset(self, options: dict[str, Any]) -> Observation:
        self.units = self.np_random.integers(0, 3, int(self.np_random.integers(1, 4))).tolist()
        self.rocks, self.steps = 0, 0
        return self._look()

    def _step(self, actions: dict[str, Any]) -> Any:
        order = actions["order"]
        self.received.append(order)
        reward = 0.0
        for name, labels in zip(order.actors, order.labels, strict=True):
            unit = int(name[1:])
            if "where" in labels:
                self.units[unit] += 1 if labels["where"] == "north" else -1
                assert 0 <= self.units[unit] <= 2, "the mask forbids it"
            if labels["kind"] == "build":
                self.rocks += 1
                reward += int(labels["what"])
        self.steps += 1
        return self._look(), reward, self.steps == 6, False, {}

    def _look(self) -> Observation:
        ids = [f"u{i}" for i in range(len(self.units))]
        acting = [i for i in range(len(self.units)) if (i + self.steps) % 3]
        mask = []
        for i in acting:
            up, down, stones = self.units[i] < 2, self.units[i] > 0, self.rocks < 3
            mask.append([True, True, stones, up, down, *([stones] * 3)])
        rows = [[place] for place in self.units]
        return Observation(
            {"Unit": rows, "Rock": np.zeros((self.rocks, 0))},
            actions={"order": MultiCategoricalMask([ids[i] for i in acting], mask=mask)} if acting else {},
            ids={"Unit": ids},
        )


def test_an_author_gets_the_orders_with_ids_and_labels() -> None:
    env = Site()
    seen, _ = env.reset(seed=5)
    assert SPACE.contains(seen)
    actors = seen["actions"]["order"]["actors"].tolist()
    assert actors == [i for i in range(len(env.units)) if i % 3]
    env.step({"order": [[2, int(env.units[i] == 2), 1] for i in actors]})
    (order,) = env.received
    assert isinstance(order, MultiCategoricalAction) and order.actors == [f"u{i}" for i in actors]
    assert order.choices.shape == (len(actors), 3)
    assert [labels["kind"] for labels in order.labels] == ["build"] * len(actors)
    env.step({})
    assert env.received[-1].actors == [] and env.received[-1].labels == []


def test_wrong_orders_are_refused_with_ids_and_leave_the_environment_alone() -> None:
    env = Site()
    env.reset(seed=1)
    while len(env.units) < 3:
        env.reset()
    env.units[1] = 2
    for _ in range(3):
        seen, *_ = env.step({})
    assert seen["actions"]["order"]["actors"].tolist() == [1, 2]
    for given_, facts in (
        (
            [[1, 0, 0], [0, 0, 0]],
            ("action 'order'", "actor 'u1'", "component 'where'", "kind 'move'", "0 ('north')"),
        ),
        ([[5, 0, 0], [0, 0, 0]], ("action 'order'", "actor 'u1'", "component 'kind'", "choice 5", "0 to 2")),
        ([[0, 0, 0]], ("action 'order'", 2, "'u1', 'u2'", 1)),
        ([0, 0], ("action 'order'", "(n, 3)", "int64 (2,)")),
        ([[0.5, 0, 0]] * 2, ("action 'order'", "integers", "float64 (2, 3)")),
    ):
        with raises(ActionError, *facts):
            env.step({"order": given_})
    assert env.steps == 3
    env.step({"order": np.array([[0, 1, 2], [0, 0, 0]])})


@pytest.mark.parametrize(
    ("mask", "facts"),
    [
        (
            ez.actions.CategoricalMask(),
            ("action 'order'", "MultiCategoricalMask", "got CategoricalMask"),
        ),
        (
            MultiCategoricalMask(mask=[[1] * 8, flags("010", "00", "111")]),
            ("action 'order'", "actor 'b'", "'move'", "'where'"),
        ),
        (MultiCategoricalMask(mask=[[0] * 8, [1] * 8]), ("actor 'a'", "'kind'")),
        (MultiCategoricalMask(mask=[[1] * 7] * 2), ("mask", "(2, 7)", "(2, 8)")),
        (MultiCategoricalMask(["c"]), ("action 'order'", "actor id 'c'", "'a', 'b'")),
    ],
)
def test_an_author_s_wrong_mask_is_named(scripted: Any, mask: Any, facts: tuple[object, ...]) -> None:
    observation = Observation({"Unit": [[0], [1]]}, actions={"order": mask}, ids={"Unit": ["a", "b"]})
    with raises(ObservationError, *facts):
        scripted(SPACE, observation).reset()


def test_a_mask_left_out_allows_everything(scripted: Any) -> None:
    observation = Observation(
        {"Unit": [[0], [1]]}, actions={"order": MultiCategoricalMask(actor_types=["Unit"])}
    )
    seen, _ = scripted(SPACE, observation).reset()
    assert seen["actions"]["order"]["mask"].tolist() == [[1] * 8] * 2
    nobody, _ = scripted(SPACE, Observation({"Unit": [[0]]})).reset()
    assert nobody["actions"]["order"]["mask"].shape == (0, 8)


def test_such_an_environment_conforms_alone_and_in_numbers() -> None:
    ez.check_entity_env(Site(), 40)
    ez.check_entity_env(ez.vector.ListVectorEnv([Site] * 3), 40)


@pytest.mark.full
def test_processes_step_it_as_a_list_does() -> None:
    rng = np.random.default_rng(0)
    with (
        ez.vector.ListVectorEnv([Site] * 3) as one,
        ez.vector.ProcessVectorEnv([Site] * 3, num_workers=1) as other,
    ):
        batch, _ = one.reset(seed=1)
        other.reset(seed=1)
        for _ in range(8):
            actions = sample_actions(one.single_action_space, batch, rng)
            (batch, rewards, *_), (same, others, *_) = one.step(actions), other.step(actions)
            assert batch.equals(same)
            np.testing.assert_array_equal(rewards, others)
