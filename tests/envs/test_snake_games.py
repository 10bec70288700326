"""MultiSnake: the central game against the reference, the lanes against plain Python, and how they look."""

from __future__ import annotations

from collections import deque
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.ragged import RaggedArray
from gymnasium.utils.env_checker import data_equivalence
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import raises
from peers import entity_gym_module

DELTAS = ((0, 1), (0, -1), (-1, 0), (1, 0))
UP, DOWN, LEFT, RIGHT = range(4)
Cell = tuple[int, int]


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    num_snakes = draw(st.integers(1, 4))
    longest = draw(st.integers(2, 5))
    smallest = int(np.ceil(np.sqrt(num_snakes * (longest + 1))))
    return {
        "num_snakes": num_snakes,
        "max_snake_length": longest,
        "board_size": draw(st.integers(smallest, smallest + 2)),
        "max_steps": draw(st.integers(5, 40)),
    }


def cells_of(venv: Any, game: int, snake: int) -> list[Cell]:
    """The cells (x, y) of a snake, tail first, read from the state."""
    ring, across = venv.segments.shape[2], venv.board_size + 2
    places = [(venv.tails[game, snake] + i) % ring for i in range(venv.lengths[game, snake])]
    return [(cell % across - 1, cell // across - 1) for cell in map(int, venv.segments[game, snake, places])]


def food_of(venv: Any, game: int) -> list[tuple[Cell, int]]:
    """The food on the board, with its colour, in order."""
    across = venv.board_size + 2
    return [
        ((int(cell) % across - 1, int(cell) // across - 1), int(colour))
        for cell, colour in venv.food[game]
        if cell >= 0
    ]


def way(start: Cell, goal: Cell, barred: set[Cell], size: int) -> int | None:
    """The first move of a shortest way from `start` to `goal`; breadth first."""
    queue: deque[tuple[Cell, int | None]] = deque([(start, None)])
    seen = set(barred) | {start}
    while queue:
        cell, first = queue.popleft()
        if cell == goal:
            return first
        for move, (dx, dy) in enumerate(DELTAS):
            to = (cell[0] + dx, cell[1] + dy)
            if to not in seen and 0 <= to[0] < size and 0 <= to[1] < size:
                seen.add(to)
                queue.append((to, move if first is None else first))
    return None


def hunting_moves(
    venv: Any, game: int, rng: np.random.Generator, snakes: list[int], carelessness: float = 0.15
) -> list[int]:
    """A move for each of `snakes`: towards its food where there is a way, and now and then a random one."""
    bodies = {snake: cells_of(venv, game, snake) for snake in snakes}
    taken = {cell for cells in bodies.values() for cell in cells}
    food = food_of(venv, game)
    moves = []
    for snake in snakes:
        goals = [cell for cell, colour in food if colour == snake]
        others = {cell for cell, colour in food if colour != snake}
        head = bodies[snake][-1]
        barred = taken | others
        move = way(head, goals[0], barred, venv.board_size) if goals else None
        if move is None:  # somewhere free, to wait for a way
            sides = [(head[0] + dx, head[1] + dy) for dx, dy in DELTAS]
            fine = [
                m for m, c in enumerate(sides) if c not in barred and 0 <= min(c) <= max(c) < venv.board_size
            ]
            move = fine[0] if fine else 0
        moves.append(int(rng.integers(4)) if rng.random() < carelessness else move)
        dx, dy = DELTAS[moves[-1]]
        cell = (head[0] + dx, head[1] + dy)
        if cell not in goals or len(bodies[snake]) == venv.max_snake_length:
            taken.discard(bodies[snake][0])  # the tail moves on before the next snake moves
        taken.add(cell)
    return moves


# -- one player, against the reference ----------------------------------------------------------------------


def reference_game(venv: Any, game: int) -> Any:
    """The reference's game in the state of ours, which leaves new food off the board."""
    module = entity_gym_module("examples.multi_snake")

    class Unfed(module.MultiSnake):  # type: ignore[misc, name-defined]
        def _spawn_food(self, color: int) -> None:
            self.food.append(module.Food(color, (-1, -1)))

    theirs = Unfed(
        board_size=venv.board_size,
        num_snakes=venv.num_snakes,
        max_snake_length=venv.max_snake_length,
        max_steps=10**6,
    )
    theirs.reset()
    for snake in theirs.snakes:
        snake.segments = cells_of(venv, game, snake.color)
    theirs.food = [module.Food(colour, cell) for cell, colour in food_of(venv, game)]
    return theirs


def assert_shows(batch: ez.EntityBatch, lane: int, observation: Any) -> None:
    for name, rows in batch.entities.items():
        expected = np.array(observation.features[name], np.float32).reshape(-1, 3)
        assert np.array_equal(rows[lane], expected), name
    assert batch.globals[lane].tolist() == observation.global_features
    assert batch.actions["move"].actors[lane].tolist() == observation.ids["SnakeHead"]


@given(options=options(), seed=st.integers(0, 2**32))
def test_one_player_plays_the_references_game(options: dict[str, Any], seed: int) -> None:
    venv, rng = ez.make_vec("MultiSnake", 2, **options), np.random.default_rng(seed)
    venv.starts_over = False
    batch, _ = venv.reset(seed=seed)
    theirs = reference_game(venv, 1)
    assert_shows(batch, 1, theirs.observe())
    num_snakes = options["num_snakes"]
    for _ in range(options["max_steps"]):
        moves = [hunting_moves(venv, game, rng, list(range(num_snakes))) for game in (0, 1)]
        batch, rewards, terminated, truncated, _ = venv.step({"move": RaggedArray.from_arrays(moves)})
        actors, labels = theirs.observe().ids["SnakeHead"], ["up", "down", "left", "right"]
        order = entity_gym_module("env").CategoricalAction(
            actors=actors,
            indices=np.array(moves[1], np.int64),
            index_to_label=labels,
        )
        observation = theirs.act({"move": order})
        # New food is where ours is, on a cell that is free.
        segments = {cell for snake in theirs.snakes for cell in snake.segments}
        for food, (cell, colour) in zip(theirs.food, food_of(venv, 1), strict=True):
            assert food.color == colour
            if food.position == (-1, -1):
                assert cell not in segments
                assert cell not in [other.position for other in theirs.food]
                assert max(cell) < venv.board_size and min(cell) >= 0
                food.position = cell
        assert_shows(batch, 1, theirs.observe())
        assert rewards[1] == pytest.approx(observation.reward)
        assert terminated[1] == observation.done
        assert truncated[1] == (theirs.step >= options["max_steps"] and not observation.done)
        if (terminated | truncated).any():
            return


def test_a_hunter_gets_the_full_return_unless_snakes_corner_each_other() -> None:
    for num_snakes, games, expected in ((1, 40, 1.0), (3, 20, 0.9)):
        venv = ez.make_vec("MultiSnake", games, num_snakes=num_snakes, board_size=8, max_snake_length=4)
        venv.reset(seed=2)
        rng = np.random.default_rng(0)
        returns, is_over = np.zeros(games), np.zeros(games, bool)
        while not is_over.all():
            moves = [hunting_moves(venv, game, rng, list(range(num_snakes)), 0.0) for game in range(games)]
            _, rewards, terminated, truncated, _ = venv.step({"move": RaggedArray.from_arrays(moves)})
            returns += np.where(is_over, 0, rewards)
            is_over |= terminated | truncated
        assert returns.max() == pytest.approx(1.0)
        assert returns.mean() >= expected - 1e-6


# -- a player for each snake, against plain Python ----------------------------------------------------------


class PlainGame:
    """The rules of `SnakeLanesVectorEnv` for one game, with lists. Food comes from outside."""

    def __init__(self, venv: Any, game: int) -> None:
        self.size, self.full = venv.board_size, venv.max_snake_length
        self.snakes = {snake: cells_of(venv, game, snake) for snake in range(venv.num_snakes)}
        self.food: dict[int, Cell | None] = {colour: cell for cell, colour in food_of(venv, game)}
        self.ended: list[int] = []

    def bury(self) -> None:
        for snake in self.ended:
            del self.snakes[snake], self.food[snake]
        self.ended = []

    def step(self, moves: dict[int, int]) -> dict[int, float]:
        """Carry out the moves of some snakes; returns the rewards of those that live."""
        targets = {}
        for snake, move in moves.items():
            (x, y), (dx, dy) = self.snakes[snake][-1], DELTAS[move]
            targets[snake] = (x + dx, y + dy)
        taken = [cell for cells in self.snakes.values() for cell in cells]
        rewards = dict.fromkeys(self.snakes, 0.0)
        eaten = [owner for owner, cell in self.food.items() if cell in targets.values()]
        for snake, target in targets.items():
            others_food = [cell for owner, cell in self.food.items() if owner != snake]
            dies = (
                not (0 <= target[0] < self.size and 0 <= target[1] < self.size)
                or target in taken
                or list(targets.values()).count(target) > 1
                or target in others_food
            )
            self.snakes[snake].append(target)
            if target == self.food[snake] and not dies:
                rewards[snake] = 1 / (self.full - 1)
            else:
                self.snakes[snake].pop(0)
            if dies or len(self.snakes[snake]) == self.full:
                self.ended.append(snake)
        for owner in eaten:
            self.food[owner] = None
        return rewards

    def shown_to(self, me: int, num_snakes: int) -> dict[str, list[Any]]:
        """What a snake sees."""
        rows: dict[str, list[Any]] = {
            name: [] for name in ("Head", "Body", "Food", "Other Head", "Other Body", "Other Food")
        }
        for colour in range(num_snakes):
            snake = (me + colour) % num_snakes
            if snake in self.snakes:
                prefix, last = ("Other ", (colour,)) if colour else ("", ())
                *body, head = self.snakes[snake]
                rows[f"{prefix}Head"].append((*head, *last))
                rows[f"{prefix}Body"] += [(*cell, *last) for cell in body]
                cell = self.food[snake]
                rows[f"{prefix}Food"] += [] if cell is None else [(*cell, *last)]
        return rows


def assert_sees(batch: ez.EntityBatch, lane: int, rows: dict[str, list[Any]], step: int) -> None:
    for name, array in batch.entities.items():
        assert [tuple(row) for row in array[lane].tolist()] == rows[name], name
    assert batch.globals[lane].tolist() == [step]
    assert batch.actions["move"].actors[lane].tolist() == ([0] if rows["Head"] else [])


@given(options=options(), seed=st.integers(0, 2**32))
def test_every_snake_plays_by_the_rules(options: dict[str, Any], seed: int) -> None:
    num_snakes = options["num_snakes"]
    venv, rng = ez.make_vec("MultiSnake/lanes", 2 * num_snakes, **options), np.random.default_rng(seed)
    batch, info = venv.reset(seed=seed)
    plain = PlainGame(venv, 1)
    for step in range(1, options["max_steps"] + 1):
        orders: list[list[int]] = [[] for _ in range(2 * num_snakes)]
        for game in (0, 1):
            living = [s for s in range(num_snakes) if not info["inactive"][game * num_snakes + s]]
            for snake, move in zip(living, hunting_moves(venv, game, rng, living), strict=True):
                orders[game * num_snakes + snake] = [move]
        moves = {snake: orders[num_snakes + snake][0] for snake in plain.snakes if orders[num_snakes + snake]}
        living = list(plain.snakes)
        expected = plain.step(moves)
        batch, rewards, terminated, truncated, info = venv.step(
            {"move": RaggedArray.from_arrays(orders, dtype=np.int64, inner_shape=())}
        )
        is_over = len(plain.ended) == len(living) or step == options["max_steps"]
        last = [lane for lane in np.flatnonzero(terminated | truncated) if lane >= num_snakes]
        if not is_over:  # new food is where ours is, on a cell that is free
            taken = [cell for cells in plain.snakes.values() for cell in cells]
            for cell, colour in food_of(venv, 1):
                if colour in plain.food and plain.food[colour] is None:
                    assert cell not in taken
                    assert cell not in plain.food.values()
                    plain.food[colour] = cell
        for snake in range(num_snakes):
            lane = num_snakes + snake
            assert rewards[lane] == pytest.approx(expected.get(snake, 0.0))
            assert terminated[lane] == (snake in plain.ended)
            assert truncated[lane] == (is_over and snake in living and snake not in plain.ended)
            if lane in last and not is_over:
                final = len(info["final_obs"]) - len(last) + last.index(lane)
                assert_sees(info["final_obs"], final, plain.shown_to(snake, num_snakes), step)
        if is_over:  # the next game has started
            assert not info["inactive"][num_snakes:].any()
            assert (batch.globals[num_snakes:] == 0).all()
            return
        plain.bury()
        nothing: dict[str, list[Any]] = {name: [] for name in batch.entities}
        for snake in range(num_snakes):
            is_idle = snake not in plain.snakes
            assert info["inactive"][num_snakes + snake] == is_idle
            rows = nothing if is_idle else plain.shown_to(snake, num_snakes)
            assert_sees(batch, num_snakes + snake, rows, 0 if is_idle else step)


def board(snakes: list[list[Cell]], food: list[Cell], **options: Any) -> Any:
    """A game in a written-out state: the segments of each snake, tail first, and the food of each.

    It does not start over.
    """
    venv = ez.make_vec(
        "MultiSnake/lanes", len(snakes), num_snakes=len(snakes), **{"board_size": 6, **options}
    )
    venv.reset(seed=0)
    across = venv.board_size + 2
    state = venv.get_state()
    inside = [cell for cell in range(across**2) if 0 < cell % across < across - 1]
    state["taken"][0, [cell for cell in inside if 0 < cell // across < across - 1]] = 0
    for snake, cells in enumerate(snakes):
        numbers = [(y + 1) * across + x + 1 for x, y in cells]
        state["segments"][0, snake, : len(cells)] = numbers
        state["tails"][0, snake], state["lengths"][0, snake] = 0, len(cells)
        state["taken"][0, numbers] += 1
        x, y = food[snake]
        state["food"][0, snake] = ((y + 1) * across + x + 1, snake)
    venv.set_state(state)
    venv.starts_over = False
    return venv


FAR: list[Cell] = [(5, 5), (5, 4), (5, 3)]


@pytest.mark.parametrize(
    ("snakes", "moves", "die"),
    [
        ([[(0, 0)], [(3, 3)]], [LEFT, UP], [True, False]),  # into the wall
        ([[(1, 1)], [(2, 0), (2, 1), (2, 2)]], [RIGHT, UP], [True, False]),  # into a body
        ([[(1, 0)], [(2, 0), (2, 1)]], [RIGHT, UP], [True, False]),  # onto a tail that moves on
        ([[(1, 1)], [(3, 1)]], [RIGHT, LEFT], [True, True]),  # head on
        ([[(1, 1)], [(2, 1)]], [RIGHT, LEFT], [True, True]),  # through each other
        ([[(1, 1), (1, 2), (2, 2), (2, 1)], [(4, 1)]], [LEFT, UP], [True, False]),  # onto its own tail
        ([[(5, 3)], [(0, 0)]], [UP, UP], [True, False]),  # onto the other's food
        ([[(0, 0)], [(3, 3)], [(3, 1)]], [UP, DOWN, UP], [False, True, True]),
    ],
)
def test_snakes_die_of_collisions(snakes: list[list[Cell]], moves: list[int], die: list[bool]) -> None:
    venv = board(snakes, FAR[: len(snakes)])
    order = RaggedArray.from_lengths(np.array(moves), np.ones(len(moves), np.int64))
    batch, rewards, terminated, _, _ = venv.step({"move": order})
    assert terminated.tolist() == die
    assert not rewards.any()
    assert batch.entities["Head"].lengths.tolist() == [not dead for dead in die]


def test_a_snake_that_has_reached_full_length_has_won_and_leaves() -> None:
    venv = board([[(0, 0), (1, 0)], [(3, 3)]], [(2, 0), (5, 4)], max_snake_length=3)
    batch, rewards, terminated, _, info = venv.step({"move": RaggedArray.from_arrays([[RIGHT], [UP]])})
    assert terminated.tolist() == [True, False]
    assert rewards.tolist() == [0.5, 0.0]
    assert info["final_obs"].entities["Body"][0].tolist() == [[0, 0], [1, 0]]
    assert batch.entities["Other Head"].lengths.tolist() == [0, 0]
    venv.step({"move": RaggedArray.from_arrays([[], [UP]], dtype=np.int64)})
    assert venv.taken[0].sum() == 4 * 8 - 4 + 1  # wall and one snake: the cells of the winner are free


# -- as agents ----------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(options=options(), seed=st.integers(0, 2**32))
def test_the_agents_play_the_games_of_the_lanes(options: dict[str, Any], seed: int) -> None:
    game = ez.games.MultiSnakeAgents(**options)
    venv, rng = ez.make_vec("MultiSnake/lanes", options["num_snakes"], **options), np.random.default_rng(seed)
    space = game.observation_space("snake_0")
    batch, info = venv.reset(seed=seed)
    observations, infos = game.reset(seed=seed)
    assert game.agents == game.possible_agents == [f"snake_{i}" for i in range(options["num_snakes"])]
    assert infos == {agent: {} for agent in game.agents}
    while game.agents:
        lanes = {agent: game.possible_agents.index(agent) for agent in game.agents}
        assert sorted(lanes.values()) == np.flatnonzero(~info["inactive"]).tolist()
        for agent, lane in lanes.items():
            assert space.problem(observations[agent]) is None
            expected = ez.envs.unbatch_observation(space, batch, lane)
            assert data_equivalence(observations[agent], expected, True)
        living = list(lanes.values())
        moves = dict(zip(living, hunting_moves(venv, 0, rng, living), strict=True))
        orders = [[moves[lane]] if lane in moves else [] for lane in range(options["num_snakes"])]
        batch, rewards, terminated, truncated, info = venv.step(
            {"move": RaggedArray.from_arrays(orders, dtype=np.int64, inner_shape=())}
        )
        observations, *parts, infos = game.step({agent: {"move": [moves[lanes[agent]]]} for agent in lanes})
        for part, array in zip(parts, (rewards, terminated, truncated), strict=True):
            assert part == {agent: array[lane] for agent, lane in lanes.items()}
        ended = np.flatnonzero(terminated | truncated).tolist()
        for agent, lane in lanes.items():
            if lane in ended:
                expected = ez.envs.unbatch_observation(space, info["final_obs"], ended.index(lane))
                assert data_equivalence(observations[agent], expected, True)
        assert game.agents == [agent for agent, lane in lanes.items() if lane not in ended]
    with raises(gymnasium.error.ResetNeeded, "MultiSnakeAgents", "reset()"):
        game.step({})


def test_wrong_actions_of_agents_are_refused_by_name_and_move_nothing() -> None:
    game, untouched = (ez.games.MultiSnakeAgents(3, board_size=6) for _ in range(2))
    for one in (game, untouched):
        one.reset(seed=0)
    others = {"snake_0": {"move": [0]}, "snake_1": {"move": [0]}, "snake_2": {"move": [0]}}
    for actions, facts in (
        (
            {"snake_3": {"move": [0]}},
            ("agent 'snake_3'", "dead or unknown", "snake_0, snake_1, snake_2"),
        ),
        (
            {"snake_1": {"move": [4]}},
            ("agent 'snake_1'", "action 'move'", "actor 0 (Head 0 at x=0, y=2)", "choice 4"),
        ),
        ({"snake_1": {"jump": [0]}}, ("agent 'snake_1'", "action 'jump'", "'move'")),
        ({"snake_2": 3}, ("agent 'snake_2'", "dict", "int")),
        ({"snake_2": {"move": [0, 1]}}, ("agent 'snake_2'", "action 'move'", 1, 2)),
        ({"snake_2": {}}, ("agent 'snake_2'", "action 'move'", 1)),
    ):
        with raises(ez.ActionError, *facts):
            game.step({**others, **actions})
    with raises(ez.ActionError, "'snake_1'", "'move'", 1):
        game.step({agent: action for agent, action in others.items() if agent != "snake_1"})
    mine, theirs = game.step(others), untouched.step(others)
    for agent in others:
        assert data_equivalence(mine[0][agent], theirs[0][agent], True)
    assert mine[1:] == theirs[1:]
    game.close()
    game.close()


def test_pictures_show_snakes_food_and_wall() -> None:
    game = ez.games.MultiSnakeAgents(2, board_size=5, max_snake_length=3, render_mode="rgb_array")
    observations, _ = game.reset(seed=1)
    picture = game.render()
    assert picture is not None
    assert (picture.shape, picture.dtype) == ((7 * 16, 7 * 16, 3), np.uint8)

    def colour(row: Any) -> tuple[int, ...]:
        x, y = (int(part) for part in row[:2])
        return tuple(picture[(5 - y) * 16 + 5, (x + 1) * 16 + 5].tolist())

    seen = observations["snake_0"]["entities"]
    assert colour(seen["Head"][0]) == colour(seen["Food"][0])
    assert colour(seen["Other Head"][0]) == colour(seen["Other Food"][0])
    assert len({colour(seen["Head"][0]), colour(seen["Other Head"][0]), tuple(picture[0, 0].tolist())}) == 3
    frames = ez.make_vec("MultiSnake", 2, render_mode="rgb_array")
    frames.reset(seed=0)
    assert [frame.shape for frame in frames.render() or ()] == [(192, 192, 3)] * 2
    lanes = ez.make_vec("MultiSnake/lanes", 4, render_mode="rgb_array")
    lanes.reset(seed=0)
    pictures = lanes.render() or ()
    assert [np.array_equal(pictures[0], other) for other in pictures] == [True, True, False, False]
    with raises(ValueError, "render_mode"):
        ez.games.MultiSnakeAgents().render()
