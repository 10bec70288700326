"""The tables of the games, one per file. A new game needs its file and a line here."""

from __future__ import annotations

import importlib

from ....envs.errors import one_of
from ..game import AtariGame

#: Name of the game, as in Gymnasium's "ALE/<game>-v5" -> its module here, which has it as `GAME`.
GAMES = {
    "Asterix": "asterix",
    "Bowling": "bowling",
    "Boxing": "boxing",
    "Breakout": "breakout",
    "DemonAttack": "demon_attack",
    "Freeway": "freeway",
    "IceHockey": "ice_hockey",
    "Kangaroo": "kangaroo",
    "MsPacman": "ms_pacman",
    "Pong": "pong",
    "Seaquest": "seaquest",
    "Skiing": "skiing",
    "SpaceInvaders": "space_invaders",
    "Tennis": "tennis",
}


def find_game(name: str) -> AtariGame:
    """Return the table of a game.

    Raises:
        ValueError: there is none; all names are listed, and the nearest is suggested.
    """
    one_of("Atari: game", name, GAMES)
    game: AtariGame = importlib.import_module(f".{GAMES[name]}", __package__).GAME
    return game
