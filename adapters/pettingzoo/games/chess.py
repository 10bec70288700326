"""Chess: every piece is an entity."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..game_view import GameObservation
from .known_game_view import KnownGameView, as_rows

KINDS = ("pawn", "knight", "bishop", "rook", "queen", "king")  # python-chess numbers them from 1
NUM_SQUARES = 64
#: Corners on which the rooks of (White king's side, White queen's side, Black's, Black's) stand.
ROOK_SQUARES = (7, 0, 63, 56)
MOVE_PLANES = 73  # AlphaZero's: 56 as a queen, 8 as a knight, 9 underpromotions


class ChessView(KnownGameView):
    """A board of chess.

    A player observes the board from its own side, as in its moves: Black's ranks are counted from Black's
    side, its files are not mirrored. A team observes it from White's side.

    - `Piece`: file and rank, from -1 (a, 1) to 1 (h, 8); own; the kind, one-hot; en_passant: 1 for a pawn
      that has just advanced by two.
    - Globals: castling rights of the two sides (own and the opponent's; White's and Black's for a team of
      both or none), black: 1 if the observing agent plays Black; clock: moves since the last capture or
      pawn move / 50; repeated: 1 where the position has been there before.

    Pieces are read from the board at any time, while the game's own observation is empty before the first
    move; earlier positions are not observed.
    """

    modules = ("pettingzoo.classic.chess.chess",)
    entities = {"Piece": ("file", "rank", "own", *KINDS, "en_passant")}  # noqa: RUF012 - never changed
    global_features = (
        "castle_kingside",
        "castle_queenside",
        "opponent_castle_kingside",
        "opponent_castle_queenside",
        "black",
        "clock",
        "repeated",
    )

    def observe(self, agent: str) -> GameObservation:
        player = self.number(agent)
        return self._observation({player}, black=player == 1, mirrored=player == 1)

    def observe_team(self, agents: tuple[str, ...]) -> GameObservation:
        players = {self.number(agent) for agent in agents}
        return self._observation(players, black=players == {1}, mirrored=False)

    def _observation(self, players: set[int], black: bool, mirrored: bool) -> GameObservation:
        board = self.game.board
        passed = _double_stepper(board.ep_square)
        rows = []
        for square, piece in board.piece_map().items():
            file, rank = square % 8, 7 - square // 8 if mirrored else square // 8
            row = [file / 3.5 - 1, rank / 3.5 - 1, float(_owner(piece) in players)]
            row += [float(kind == piece.piece_type) for kind in range(1, len(KINDS) + 1)]
            rows.append([*row, float(square == passed)])
        return GameObservation({"Piece": as_rows(rows, self.entities["Piece"])}, globals=self._globals(black))

    def _globals(self, black: bool) -> np.ndarray:
        board = self.game.board
        rights = [float(board.castling_rights >> square & 1) for square in ROOK_SQUARES]
        if black:
            rights = rights[2:] + rights[:2]
        repeated = self.game.board_history[0, 0, len(KINDS) * 2]  # upstream has looked for it
        state = [float(black), board.halfmove_clock // 2 / 50, float(repeated)]
        return np.array(rights + state, np.float32)

    def choices(self, agent: str) -> tuple[str, ...]:
        """Moves in UCI notation from the mover's side: Black's "e2e4" is its e7e5. A pawn that reaches the
        last rank becomes a queen; "a7a8n" makes it a knight. Codes that lead off the board are called
        "none 72"."""
        return move_names()


def _owner(piece: Any) -> int:
    return 0 if piece.color else 1


def _double_stepper(ep_square: int | None) -> int | None:
    """The square of the pawn that has just passed `ep_square`."""
    if ep_square is None:
        return None
    return ep_square + 8 if ep_square < NUM_SQUARES // 2 else ep_square - 8


@functools.cache
def move_names() -> tuple[str, ...]:
    """Names of the 8 × 8 × 73 moves: of the square's file, then rank, then the plane."""
    names = []
    for file in range(8):
        for rank in range(8):
            for plane, (right, up, piece) in enumerate(_planes()):
                to = file + right, rank + up
                legal = 0 <= to[0] < 8 and 0 <= to[1] < 8 and (not piece or rank == 6)
                code = (file * 8 + rank) * MOVE_PLANES + plane
                names.append(_square(file, rank) + _square(*to) + piece if legal else f"none {code}")
    return tuple(names)


def _planes() -> list[tuple[int, int, str]]:
    """For each plane the files to the right, the ranks up, and the piece that a pawn becomes."""
    around = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if (x, y) != (0, 0)]
    queen = [(x * far, y * far, "") for far in range(1, 8) for x, y in around]
    knight = [(x, y, "") for x in range(-2, 3) for y in range(-2, 3) if abs(x) + abs(y) == 3]
    return queen + knight + [(x, 1, piece) for x in (-1, 0, 1) for piece in "nbr"]


def _square(file: int, rank: int) -> str:
    return "abcdefgh"[file] + str(rank + 1)
