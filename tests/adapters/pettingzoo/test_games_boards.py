"""The views of board games against the planes that the games themselves show."""

from __future__ import annotations

from typing import Any

import chess
import entitize as ez
import numpy as np
import pettingzoo
import pytest
from entitize.adapters.pettingzoo.games import ChessView, ConnectFourView, TicTacToeView
from hypothesis import given, settings
from hypothesis import strategies as st
from pettingzoo.classic.chess import chess_utils

from facts import raises

KINDS = ["pawn", "knight", "bishop", "rook", "queen", "king"]
MARKS: dict[str, tuple[type[ez.pettingzoo.GameView], Any]] = {
    "classic/tictactoe-v3": (TicTacToeView, lambda x, y: (round(x + 1), round(1 - y), (3, 3))),
    "classic/connect_four-v3": (
        ConnectFourView,
        lambda x, y: (round((1 - y) * 2.5), round((x + 1) * 3), (6, 7)),
    ),
}


def make(name: str, view: type[ez.pettingzoo.GameView]) -> tuple[Any, Any]:
    env = pettingzoo.make("aec", name)
    env.reset(seed=1)
    return env, view(env.unwrapped)


def play(env: Any, seed: int, moves: int) -> Any:
    """Random legal play; yields after each move."""
    rng = np.random.default_rng(seed)
    yield None
    for _ in range(moves):
        observation, _, terminated, truncated, _ = env.last()
        if terminated or truncated:
            return
        action = int(rng.choice(observation["action_mask"].nonzero()[0]))
        env.step(action)
        yield action


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), name=st.sampled_from(sorted(MARKS)))
def test_marks_make_up_the_planes_of_both_players_to_the_end(seed: int, name: str) -> None:
    kind, cell = MARKS[name]
    env, view = make(name, kind)
    count = -1
    for _ in play(env, seed, 100):
        count += 1
        for agent in env.possible_agents:
            seen = view.observe(agent)
            planes = env.unwrapped.observe(agent)["observation"]
            rebuilt = np.zeros_like(planes)
            for x, y, own in seen.entities["Mark"]:
                row, column, shape = cell(x, y)
                assert shape == planes.shape[:2]
                rebuilt[row, column, 0 if own else 1] += 1
            np.testing.assert_array_equal(rebuilt, planes)
            assert seen.entities["Mark"].shape == (count, 3)
            assert np.abs(seen.entities["Mark"]).max(initial=0) <= 1
            np.testing.assert_array_equal(view.observe_team((agent,)).entities["Mark"], seen.entities["Mark"])
    assert any(env.terminations.values())
    assert (view.observe_team(tuple(env.possible_agents)).entities["Mark"][:, 2] == 1).all()


def test_choices_of_tic_tac_toe_are_where_the_mark_comes() -> None:
    places = {"left": -1, "centre": 0, "right": 1, "bottom": -1, "middle": 0, "top": 1}
    for action in range(9):
        env, view = make("classic/tictactoe-v3", TicTacToeView)
        env.step(action)
        row, column = view.choices("player_1")[action].split()
        assert view.observe("player_1").entities["Mark"].tolist() == [[places[column], places[row], 1]]


def test_choices_of_connect_four_are_columns_from_the_left() -> None:
    for action in range(7):
        env, view = make("classic/connect_four-v3", ConnectFourView)
        env.step(action)
        assert view.choices("player_0")[action] == f"column {action + 1}"
        x, y, own = view.observe("player_1").entities["Mark"][0]
        assert (x, y, own) == (pytest.approx(action / 3 - 1), -1, 0)


def chess_planes(view: ChessView, agent: str) -> np.ndarray:
    """The first 20 planes (8, 8, 20) of an observation that shows these pieces; row 0 is the last rank."""
    seen = view.observe(agent)
    facts = dict(zip(view.global_features, seen.globals.tolist(), strict=True))
    planes = np.zeros((8, 8, 20), bool)
    # Upstream calls the first plane the queen's side, and shows the king's.
    rights = ("castle_kingside", "castle_queenside", "opponent_castle_kingside", "opponent_castle_queenside")
    for plane, right in enumerate((*rights, "black")):
        planes[..., plane] = facts[right]
    clock = round(facts["clock"] * 50)
    row = clock // 8 if facts["black"] else 7 - clock // 8
    planes[row, clock % 8, 5] = True
    planes[..., 6] = True
    for file, rank, own, *kind, en_passant in seen.entities["Piece"].tolist():
        column, up = round((file + 1) * 3.5), round((rank + 1) * 3.5)
        if en_passant:
            assert (up, kind.index(1)) == (3 if own else 4, 0), "a pawn that has advanced by two"
            up = 0 if own else 7
        assert sum(kind) == 1
        planes[7 - up, column, 7 + kind.index(1) + (0 if own else 6)] = True
    planes[..., 19] = facts["repeated"]
    return planes


def assert_chess_is_seen(env: Any, view: ChessView) -> None:
    for agent in env.possible_agents:
        planes = env.unwrapped.observe(agent)["observation"][..., :20]
        np.testing.assert_array_equal(chess_planes(view, agent), planes)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_pieces_make_up_the_planes_of_both_players(seed: int) -> None:
    env, view = make("classic/chess-v6", ChessView)
    for action in play(env, seed, 120):
        if action is not None:  # upstream shows an empty board before the first move
            assert_chess_is_seen(env, view)


def push(env: Any, moves: str) -> None:
    """Moves in UCI notation, through the game's own codes."""
    for move in moves.split():
        board = env.unwrapped.board
        chess_utils.legal_moves(board)
        side = chess.Move.from_uci(move) if board.turn else chess_utils.mirror_move(chess.Move.from_uci(move))
        env.step(chess_utils.moves_to_actions[side.uci()])


def test_castling_en_passant_and_repetition_are_seen() -> None:
    env, view = make("classic/chess-v6", ChessView)
    seen = {"rights": set(), "passed": 0, "repeated": 0}
    opening = "e2e4 a7a6 e4e5 d7d5 e5d6 e8d7 g1f3 d7e8 f1e2 a8a7 e1g1 a7a8 f1e1 a8a7 e1f1 a7a8 f1e1"
    for move in opening.split():
        push(env, move)
        assert_chess_is_seen(env, view)
        facts = dict(zip(view.global_features, view.observe("player_0").globals.tolist(), strict=True))
        seen["rights"].add(tuple(facts.values())[:4])
        seen["passed"] += view.observe("player_1").entities["Piece"][:, -1].sum()
        seen["repeated"] += facts["repeated"]
    assert {(1, 1, 1, 1), (1, 1, 0, 0), (0, 0, 0, 0)} <= seen["rights"]
    assert seen["passed"] == 2 and seen["repeated"] == 3


def test_the_first_mover_sees_all_pieces_at_once() -> None:
    _, view = make("classic/chess-v6", ChessView)
    for agent in ("player_0", "player_1"):
        pieces = view.observe(agent).entities["Piece"]
        assert pieces.shape == (32, 10)
        assert (pieces[pieces[:, 2] == 1][:, 1] < 0).all(), "one's own are near"


def test_a_team_sees_the_board_from_whites_side() -> None:
    env, view = make("classic/chess-v6", ChessView)
    push(env, "e2e4 e7e5")
    white, black, both = (
        view.observe_team(team) for team in (("player_0",), ("player_1",), ("player_0", "player_1"))
    )
    np.testing.assert_array_equal(white.entities["Piece"], view.observe("player_0").entities["Piece"])
    columns = [0, 1, *range(3, 10)]
    np.testing.assert_array_equal(white.entities["Piece"][:, columns], black.entities["Piece"][:, columns])
    assert (white.entities["Piece"][:, 2] + black.entities["Piece"][:, 2] == 1).all()
    assert (both.entities["Piece"][:, 2] == 1).all()
    assert white.globals[4] == 0 and black.globals[4] == 1 and both.globals[4] == 0


POSITIONS = [
    chess.STARTING_FEN,
    "rn2k3/P1P4P/8/3pP3/8/8/p1p4p/RN2K2R w KQq d6 0 1",
    "rn2k3/P1P4P/8/8/3pP3/8/p1p4p/RN2K2R b KQq e3 0 1",
    "4k3/8/8/3Q4/8/5N2/8/4K3 w - - 0 1",
    "4k3/8/1b3n2/3q4/8/8/8/4K3 b - - 0 1",
]


@pytest.mark.parametrize("position", POSITIONS)
def test_moves_are_called_as_in_uci_from_the_movers_side(position: str) -> None:
    env, view = make("classic/chess-v6", ChessView)
    env.unwrapped.board = chess.Board(position)
    player = 0 if env.unwrapped.board.turn else 1
    choices = view.choices(f"player_{player}")
    assert len(choices) == len(set(choices)) == 4672
    for action in chess_utils.legal_moves(env.unwrapped.board):
        move = chess_utils.action_to_move(env.unwrapped.board, action, player)
        if player:
            move = chess_utils.mirror_move(move)
        assert choices[action] == move.uci().removesuffix("q")


@pytest.mark.parametrize("kind", [TicTacToeView, ConnectFourView, ChessView])
def test_an_agent_that_the_game_does_not_have_is_named(kind: type[ez.pettingzoo.GameView]) -> None:
    names = {TicTacToeView: "tictactoe-v3", ConnectFourView: "connect_four-v3", ChessView: "chess-v6"}
    _, view = make(f"classic/{names[kind]}", kind)
    with raises(ValueError, "agent 'player_7'", "'player_1'"):
        view.observe("player_7")
