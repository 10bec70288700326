"""The views of MPE's scenarios against the vectors of numbers that the games themselves show.

Each scenario's vector is taken apart here, number by number, into the rows that one should see; rows and
vector then hold the same information: no number is left over, and no row holds what is not in the vector.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.pettingzoo.games import find_view

Rows = dict[str, list[tuple[float, ...]]]


class Vector:
    """Takes an agent's vector apart from front to back, into rows by type and globals."""

    def __init__(self, game: Any, agent: str) -> None:
        self.game = game
        self.world = game.world
        self.me = next(one for one in self.world.agents if one.name == agent)
        self.others = [one for one in self.world.agents if one is not self.me]
        self.numbers = game.observe(agent)
        self.at = 0
        self.rows: Rows = {}
        self.globals: tuple[float, ...] = ()

    def take(self, count: int = 2) -> tuple[float, ...]:
        self.at += count
        assert self.at <= len(self.numbers)
        return tuple(self.numbers[self.at - count : self.at].tolist())

    def add(self, kind: str, *row: float) -> None:
        self.rows.setdefault(kind, []).append(row)

    def places(self, count: int) -> list[tuple[float, ...]]:
        return [self.take() for _ in range(count)]

    def slots(self, everybody: Iterable[Any], limit: int | None) -> list[Any]:
        """Of whom the numbers in a part of the vector are: all, or the nearest."""
        them = list(everybody)
        if limit is None:
            return them
        return sorted(them, key=lambda one: np.linalg.norm(one.state.p_pos - self.me.state.p_pos))[:limit]


def role(one: Any) -> str:
    return "Adversary" if one.adversary else "Agent"


def simple(vector: Vector) -> None:
    vector.add("Agent", 0, 0, *vector.take(), 1)
    vector.add("Landmark", *vector.take())


def spread(vector: Vector) -> None:
    scenario = vector.game.scenario
    vector.add("Agent", 0, 0, *vector.take(), 1)
    vector.globals = vector.take()
    for place in vector.places(len(vector.slots(vector.world.landmarks, scenario.num_landmark_neighbors))):
        vector.add("Landmark", *place)
    pad_landmarks(vector)
    others = vector.slots(vector.others, scenario.num_agent_neighbors)
    for place in vector.places(len(others)):
        vector.add("Agent", *place, 0, 0, 0)
    padding = (scenario.num_agent_neighbors or len(others)) - len(others)
    silence = vector.take(2 * padding + 2 * (len(others) + padding))
    assert not any(silence), "nobody speaks"


def pad_landmarks(vector: Vector) -> None:
    limit = vector.game.scenario.num_landmark_neighbors
    if limit is not None:
        assert not any(vector.take(2 * max(limit - len(vector.world.landmarks), 0)))


def formation(vector: Vector) -> None:
    vector.add("Agent", 0, 0, *vector.take(), 1)
    vector.globals = vector.take()
    for _ in vector.world.landmarks:
        vector.add("Landmark", *vector.take())


def tag(vector: Vector) -> None:
    scenario = vector.game.scenario
    vector.add(role(vector.me), 0, 0, *vector.take(), 1)
    vector.globals = vector.take()
    for place in vector.places(len(vector.slots(vector.world.landmarks, scenario.num_landmark_neighbors))):
        vector.add("Obstacle", *place)
    pad_landmarks(vector)
    limit = scenario.num_agent_neighbors
    others = vector.slots(vector.others, limit)
    places = vector.places(len(others))
    padding = 0 if limit is None else limit - len(others)
    assert not any(vector.take(2 * padding))
    for other, place in zip(others, places, strict=True):
        velocity = (0.0, 0.0)
        if limit is not None or not other.adversary:
            velocity = vector.take()
        vector.add(role(other), *place, *velocity, 0)
    assert not any(vector.take(2 * padding))


def adversary(vector: Vector) -> None:
    """The goal is known by where it is."""
    scenario = vector.game.scenario
    goal = None if vector.me.adversary else vector.take()
    vector.add(role(vector.me), 0, 0, 0, 0, 1)
    places = vector.places(len(vector.slots(vector.world.landmarks, scenario.num_landmark_neighbors)))
    pad_landmarks(vector)
    for place in places if goal is None or goal in places else [*places, goal]:
        vector.add("Landmark", *place, place == goal)
    others = vector.slots(vector.others, scenario.num_agent_neighbors)
    for other, place in zip(others, vector.places(len(others)), strict=True):
        vector.add(role(other), *place, 0, 0, 0)
    if scenario.num_agent_neighbors is not None:
        assert not any(vector.take(2 * (scenario.num_agent_neighbors - len(others))))


def push(vector: Vector) -> None:
    vector.add(role(vector.me), 0, 0, *vector.take(), 1)
    goal = None
    if not vector.me.adversary:
        goal, colour = vector.take(), vector.take(3)
    places = vector.places(2)
    if goal is not None:
        assert vector.take(6) == tuple(np.float32([0.1, 0.9, 0.1, 0.1, 0.1, 0.9]).tolist())
        expected = [0.25, 0.25, 0.25]
        expected[places.index(goal) + 1] += 0.5
        np.testing.assert_allclose(colour, expected, err_msg="the colour says which landmark is the goal")
    for place in places:
        vector.add("Landmark", *place, place == goal)
    vector.add(role(vector.others[0]), *vector.take(), 0, 0, 0)


REFERENCE_COLOURS = np.float32([[0.75, 0.25, 0.25], [0.25, 0.75, 0.25], [0.25, 0.25, 0.75]])
SPEAKER_COLOURS = np.float32([[0.65, 0.15, 0.15], [0.15, 0.65, 0.15], [0.15, 0.15, 0.65]])


def reference(vector: Vector) -> None:
    velocity, places = vector.take(), vector.places(3)
    vector.add("Agent", 0, 0, *velocity, 1, *[0] * 10, *vector.take(3))
    vector.add("Agent", *[0] * 5, *vector.take(10), 0, 0, 0)
    for place, colour in zip(places, REFERENCE_COLOURS.tolist(), strict=True):
        vector.add("Landmark", *place, *colour)


def speaker_listener(vector: Vector) -> None:
    if vector.me.name == "speaker_0":
        vector.add("Speaker", 1, 0, 0, 0, *vector.take(3))
        return
    vector.add("Listener", 0, 0, *vector.take(), 1)
    for colour in SPEAKER_COLOURS.tolist():
        vector.add("Landmark", *vector.take(), *colour)
    vector.add("Speaker", 0, *vector.take(3), 0, 0, 0)


def crypto(vector: Vector) -> None:
    nothing = [0] * 4
    match vector.me.name:
        case "alice_0":
            vector.add("Alice", 1, *nothing, *vector.take(4), *vector.take(4))
        case "bob_0":
            vector.add("Bob", 1, *vector.take(4))
            vector.add("Alice", 0, *vector.take(4), *nothing, *nothing)
        case "eve_0":
            vector.add("Eve", 1)
            vector.add("Alice", 0, *vector.take(4), *nothing, *nothing)


def world_comm(vector: Vector) -> None:
    world = vector.world

    def extra(one: Any) -> tuple[float, ...]:
        return (float(one.leader),) if one.adversary else ()

    vector.add(role(vector.me), 0, 0, *vector.take(), 1, *extra(vector.me))
    own_place = vector.take()
    landmarks = vector.places(len(world.landmarks))
    num_obstacles = len(world.landmarks) - len(world.food) - len(world.forests)
    places = vector.places(len(vector.others))
    fleeing = [one for one in vector.others if not one.adversary]
    if vector.me.adversary:
        velocities = vector.places(len(fleeing))
        inside = vector.take(len(world.forests))
        vector.globals = (*own_place, *vector.take(4))
    else:
        inside = vector.take(len(world.forests))
        velocities = vector.places(len(fleeing))
        vector.globals = (*own_place, 0, 0, 0, 0)
    for other, place in zip(vector.others, places, strict=True):
        velocity = velocities[fleeing.index(other)] if other in fleeing else (0.0, 0.0)
        if place == (0, 0):  # hidden
            assert velocity == (0, 0)
        else:
            vector.add(role(other), *place, *velocity, 0, *extra(other))
    kinds = ["Obstacle"] * num_obstacles + ["Food"] * len(world.food)
    for kind, place in zip(kinds, landmarks, strict=False):
        vector.add(kind, *place)
    for is_inside, place in zip(inside, landmarks[len(kinds) :], strict=True):
        assert is_inside in (-1, 1)
        vector.add("Forest", *place, is_inside == 1)


def treasure(vector: Vector) -> None:
    world = vector.world
    kinds = len(world.treasure_types)
    vector.globals, velocity = vector.take(), vector.take()
    holding = vector.take(kinds) if vector.me.collector else ()
    accepted = set()
    for _ in vector.others:
        place, speed, accepts, holds = vector.take(), vector.take(), vector.take(kinds), vector.take(kinds)
        if any(accepts):
            vector.add("Deposit", *place, *speed, 0, *accepts)
            accepted.add(accepts.index(1))
        else:
            vector.add("Collector", *place, *speed, 0, *holds)
    if vector.me.collector:
        vector.add("Collector", 0, 0, *velocity, 1, *holding)
    else:  # it accepts what no other does
        vector.add("Deposit", 0, 0, *velocity, 1, *(kind not in accepted for kind in range(kinds)))
    for _ in world.landmarks:
        place, kind = vector.take(), vector.take(kinds)
        if any(kind):
            vector.add("Treasure", *place, *kind)


Taking = Callable[[Vector], None]
GAMES: list[tuple[str, dict[str, Any], Taking]] = [
    ("simple_v3", {}, simple),
    ("simple_spread_v3", {}, spread),
    ("simple_spread_v3", {"N": 1}, spread),
    ("simple_spread_v3", {"N": 5, "num_agent_neighbors": 2, "num_landmark_neighbors": 3}, spread),
    ("simple_spread_v3", {"N": 2, "num_agent_neighbors": 3, "num_landmark_neighbors": 4}, spread),
    ("simple_formation_v1", {}, formation),
    ("simple_line_v1", {"N": 3}, formation),
    ("simple_tag_v3", {}, tag),
    ("simple_tag_v3", {"num_good": 3, "num_adversaries": 2, "num_obstacles": 0}, tag),
    ("simple_tag_v3", {"num_good": 2, "num_agent_neighbors": 2, "num_landmark_neighbors": 1}, tag),
    ("simple_tag_v3", {"num_good": 2, "num_agent_neighbors": 6, "num_landmark_neighbors": 3}, tag),
    ("simple_adversary_v3", {}, adversary),
    ("simple_adversary_v3", {"N": 4}, adversary),
    ("simple_adversary_v3", {"N": 4, "num_agent_neighbors": 2, "num_landmark_neighbors": 1}, adversary),
    ("simple_adversary_v3", {"N": 2, "num_agent_neighbors": 3, "num_landmark_neighbors": 3}, adversary),
    ("simple_push_v3", {}, push),
    ("simple_reference_v3", {}, reference),
    ("simple_speaker_listener_v4", {}, speaker_listener),
    ("simple_crypto_v3", {}, crypto),
    ("simple_world_comm_v3", {}, world_comm),
    ("simple_world_comm_v3", {"num_good": 3, "num_forests": 4, "num_obstacles": 0}, world_comm),
    ("collect_treasure_v1", {}, treasure),
    ("collect_treasure_v1", {"num_collectors": 3, "num_deposits": 3, "num_treasures": 2}, treasure),
]


def make(name: str, **options: Any) -> tuple[Any, ez.pettingzoo.GameView]:
    env = importlib.import_module(f"mpe2.{name}").parallel_env(**options)
    env.reset(seed=1)
    view = find_view(env.unwrapped)
    assert view is not None
    return env, view(env.unwrapped)


def table(rows: Iterable[Iterable[float]]) -> np.ndarray:
    """Rows in an order of their own, as they are a set."""
    return np.array(sorted(map(tuple, rows)), np.float32)


def assert_same(vector: Vector, seen: ez.pettingzoo.GameObservation, view: ez.pettingzoo.GameView) -> None:
    assert vector.at == len(vector.numbers), "the whole vector is accounted for"
    assert vector.rows.keys() <= seen.entities.keys() == view.entities.keys()
    for kind, features in view.entities.items():
        expected, rows = vector.rows.get(kind, []), seen.entities[kind]
        assert rows.shape == (len(expected), len(features)) and rows.dtype == np.float32
        np.testing.assert_array_equal(table(rows), table(expected), err_msg=kind)
    np.testing.assert_array_equal(seen.globals, np.array(vector.globals, np.float32))
    assert len(view.global_features) == len(seen.globals)


def assert_ids_name_the_rows(
    vector: Vector, seen: ez.pettingzoo.GameObservation, view: ez.pettingzoo.GameView
) -> None:
    by_name = {one.name: one for one in vector.world.entities}
    me = vector.me.state.p_pos
    for kind, rows in seen.entities.items():
        assert len(seen.ids[kind]) == len(rows)
        for name, row in zip(seen.ids[kind], rows, strict=True):
            features = dict(zip(view.entities[kind], row.tolist(), strict=True))
            if "own" in features:
                assert features["own"] == (name == vector.me.name)
            if (features.get("x", 0), features.get("y", 0)) != (0, 0):
                place = (by_name[name].state.p_pos - me).astype(np.float32)
                assert (features["x"], features["y"]) == tuple(place.tolist())


@pytest.mark.parametrize(("name", "options", "taking"), GAMES)
def test_agents_see_what_their_vectors_say(name: str, options: dict[str, Any], taking: Taking) -> None:
    env, view = make(name, **options)
    rng = np.random.default_rng(5)
    for seed in (1, 2):
        env.reset(seed=seed)
        while env.agents:
            for agent in env.possible_agents:
                vector = Vector(env.unwrapped, agent)
                taking(vector)
                seen = view.observe(agent)
                assert_same(vector, seen, view)
                assert_ids_name_the_rows(vector, seen, view)
            env.step({a: int(rng.integers(env.action_space(a).n)) for a in env.agents})


def test_a_forest_hides_those_in_it_from_all_but_the_leader_and_their_neighbours() -> None:
    env, view = make("simple_world_comm_v3")
    world = env.unwrapped.world
    by_name = {one.name: one for one in world.agents}
    for number, one in enumerate(world.agents):  # far from all forests
        one.state.p_pos = np.array([5.0, number])
    for forest, place in zip(world.forests, ([0.0, 0.0], [-3.0, 0.0]), strict=True):
        forest.state.p_pos = np.array(place)
    by_name["agent_0"].state.p_pos = np.array([0.1, 0.0])
    by_name["adversary_0"].state.p_pos = np.array([-0.1, 0.0])
    by_name["agent_1"].state.p_pos = np.array([-3.0, 0.1])

    def seen_by(agent: str) -> set[object]:
        seen = view.observe(agent)
        return {*seen.ids["Agent"], *seen.ids["Adversary"]}

    everybody = set(by_name)
    assert seen_by("leadadversary_0") == everybody
    assert seen_by("agent_0") == seen_by("adversary_0") == {"agent_0", "adversary_0"}
    assert seen_by("agent_1") == {"agent_1"}
    assert seen_by("adversary_1") == everybody - {"agent_0", "agent_1", "adversary_0"}
    inside = {name: view.observe(name).entities["Forest"][:, 2].tolist() for name in by_name}
    assert inside["agent_0"] == [1, 0] and inside["agent_1"] == [0, 1] and inside["adversary_1"] == [0, 0]
    assert view.observe_team(("adversary_1", "agent_1")).entities["Forest"][:, 2].tolist() == [0, 1]


@pytest.mark.parametrize(("name", "options", "taking"), GAMES)
def test_a_team_sees_the_whole_field(name: str, options: dict[str, Any], taking: Taking) -> None:
    env, view = make(name, **options)
    rng = np.random.default_rng(6)
    for _ in range(4):
        env.step({a: int(rng.integers(env.action_space(a).n)) for a in env.agents})
    world = env.unwrapped.world
    team = tuple(env.agents[::2])
    seen = view.observe_team(team)
    rows = {
        name: dict(zip(view.entities[kind], row.tolist(), strict=True))
        for kind in seen.entities
        for name, row in zip(seen.ids[kind], seen.entities[kind], strict=True)
    }
    assert {agent.name for agent in world.agents} <= rows.keys()
    for one in world.entities:
        if one.name not in rows:
            assert name == "simple_crypto_v3" or not one.alive
            continue
        row = rows[one.name]
        assert row.get("own", 0) == (one.name in team)
        if "x" in row:
            assert (row["x"], row["y"]) == tuple(one.state.p_pos.astype(np.float32).tolist())
        if "vx" in row:
            assert (row["vx"], row["vy"]) == tuple(one.state.p_vel.astype(np.float32).tolist())
    assert not seen.globals[:2].any()


def row_of(seen: ez.pettingzoo.GameObservation, view: ez.pettingzoo.GameView, name: str) -> dict[str, float]:
    kind, at = next((kind, ids.index(name)) for kind, ids in seen.ids.items() if name in ids)
    return dict(zip(view.entities[kind], seen.entities[kind][at].tolist(), strict=True))


def test_a_team_knows_the_goal_if_a_member_does() -> None:
    env, view = make("simple_adversary_v3")
    goal = env.unwrapped.world.agents[0].goal_a.name
    for team, knows in ((("adversary_0",), False), (("agent_1",), True), (("adversary_0", "agent_0"), True)):
        seen = view.observe_team(team)
        for name in seen.ids["Landmark"]:
            assert row_of(seen, view, str(name))["goal"] == (knows and name == goal)


@pytest.mark.parametrize(
    ("team", "message", "goal", "key"),
    [
        (("alice_0",), False, True, True),
        (("bob_0",), True, False, False),
        (("eve_0",), True, False, False),
        (("alice_0", "bob_0"), True, True, True),
    ],
)
def test_a_team_hears_and_knows_what_its_members_do(
    team: tuple[str, ...], message: bool, goal: bool, key: bool
) -> None:
    env, view = make("simple_crypto_v3")
    env.step(dict.fromkeys(env.agents, 3))
    seen = view.observe_team(team)
    alice = row_of(seen, view, "alice_0")
    assert [alice[f"message_{bit}"] for bit in range(4)] == [0, 0, 0, message]
    assert sum(alice[f"goal_{bit}"] for bit in range(4)) == goal
    assert sum(alice[f"key_{bit}"] for bit in range(4)) == key
    assert sum(row_of(seen, view, "bob_0")[f"key_{bit}"] for bit in range(4)) == ("bob_0" in team)


def test_a_prey_team_does_not_hear_the_leader() -> None:
    env, view = make("simple_world_comm_v3")
    env.step({a: 10 if a == "leadadversary_0" else 0 for a in env.agents})  # stay, say 2
    assert view.observe_team(("agent_0", "agent_1")).globals.tolist() == [0] * 6
    assert view.observe_team(("agent_0", "adversary_0")).globals.tolist() == [0, 0, 0, 0, 1, 0]


@pytest.mark.parametrize("name", sorted({name for name, _, _ in GAMES}))
def test_choices_do_what_they_are_called(name: str) -> None:
    env, view = make(name)
    pushes = {"left": (-1, 0), "right": (1, 0), "down": (0, -1), "up": (0, 1), "stay": (0, 0)}
    for number, agent in enumerate(env.possible_agents):
        choices = view.choices(agent)
        assert choices is not None and len(choices) == env.action_space(agent).n
        for action, choice in enumerate(choices):
            env.reset(seed=1)
            env.step({other: action if other == agent else 0 for other in env.agents})
            body = env.unwrapped.world.agents[number]
            parts = choice.split(", ")
            if body.movable:
                assert tuple(np.sign(body.action.u)) == pushes[parts.pop(0)]
            if not body.silent:
                assert body.state.c.nonzero()[0].tolist() == [int(parts.pop().removeprefix("say "))]
            assert not parts


def test_continuous_actions_have_no_names() -> None:
    _, view = make("simple_tag_v3", continuous_actions=True)
    assert view.choices("agent_0") is None
