"""What to show of a state: the options of the adapter's observations, checked."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from .games import GAMES, Game

FEATURES = ("default", "reference")

#: Levels made for measuring exploration: one fixed level per game, in hard mode.
EXPLORATION_GAMES = ("coinrun", "caveflyer", "leaper", "jumper", "maze", "heist", "climber", "ninja")

#: The 15 actions of every game; which of them do something differs by game.
ACTIONS = (
    "left_down",
    "left",
    "left_up",
    "down",
    "noop",
    "up",
    "right_down",
    "right",
    "right_up",
    "d",
    "a",
    "w",
    "s",
    "q",
    "e",
)


def find_game(name: str) -> Game:
    """The game of that name.

    Raises:
        ValueError: there is none; the message says which name is nearest.
    """
    if name in GAMES:
        return GAMES[name]
    nearest = difflib.get_close_matches(str(name).lower(), GAMES, 1, 0.4)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    raise ValueError(f"Procgen has no game {name!r}{hint} The games are {', '.join(GAMES)}")


def check_mode(game: Game, mode: str) -> None:
    """Raise a ValueError where the engine has no such distribution mode for the game (it would abort the process)."""
    modes = game.modes + (("exploration",) if game.name in EXPLORATION_GAMES else ())
    if mode not in modes:
        raise ValueError(f"{game.name}: distribution_mode must be one of {', '.join(modes)}, not {mode!r}")


@dataclass(frozen=True)
class ViewOptions:
    """What an observation shows.

    Raises:
        ValueError: an option that is out of its range, by name.
    """

    features: str = "default"  # "default", or "reference": all 31 fields and the globals on each entity
    visible_only: bool = False  # keep what the pixels show
    chunk_size: int | None = None  # cells per side of a chunk of tiles; None: 5 (reference: 4 in Chaser)
    window: int = 5  # chunks per side around the player
    whole_map: bool = False  # chunks of all the map
    centred: bool | None = None  # chunks move with the player; None: yes (reference: no)
    skip_space: bool | None = None  # leave out chunks that are nothing but space; None: yes (reference: no)

    def __post_init__(self) -> None:
        if self.features not in FEATURES:
            raise ValueError(f"features must be one of {', '.join(FEATURES)}, not {self.features!r}")
        for name, value in (("chunk_size", self.chunk_size), ("window", self.window)):
            if value is not None and not 1 <= value <= 64:
                raise ValueError(f"{name} must be between 1 and 64, not {value!r}")

    @property
    def is_reference(self) -> bool:
        return self.features == "reference"
