"""Options of observations and of the engine, checked."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from .games import GAMES, ProcgenGame

FEATURES = ("default", "reference", "pixels")

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


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(str(name).lower(), list(known), 1, 0.4)
    return f"; did you mean {near[0]!r}?" if near else "."


def find_game(name: str) -> ProcgenGame:
    """The game of that name.

    Raises:
        ValueError: there is none; the message says which name is nearest.
    """
    if name in GAMES:
        return GAMES[name]
    raise ValueError(f"Procgen has no game {name!r}{_nearest(name, GAMES)} The games are {', '.join(GAMES)}")


def _check_mode(game: ProcgenGame, mode: str) -> None:
    modes = game.modes + (("exploration",) if game.name in EXPLORATION_GAMES else ())
    if mode not in modes:
        raise ValueError(f"{game.name}: distribution_mode: expected one of {', '.join(modes)}, got {mode!r}")


def _check_choice(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if not any(value is choice or value == choice for choice in allowed):
        raise ValueError(f"{name}: expected one of {', '.join(map(repr, allowed))}, got {value!r}")


def _check_number(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name}: expected a whole number from {low} to {high}, got {value!r}")


@dataclass(frozen=True)
class ViewOptions:
    """Options of observations.

    Raises:
        ValueError: an option that is out of its range, by name.
    """

    #: "default"; "reference": all 31 fields and the globals on each entity; "pixels": the frame, no entities
    features: str = "default"
    visible_only: bool = False  # keep what the pixels show
    distances: bool | None = None  # how far off entities' edges are; None: where the game's table says so
    chunk_size: int | None = None  # cells per side of a chunk of tiles; None: 5 (reference: 4 in Chaser)
    window: int = 5  # chunks per side around the player; with visible_only the view takes its place
    whole_map: bool = False  # chunks of all the map
    centred: bool | None = None  # chunks move with the player; None: yes (reference: no)
    skip_space: bool | None = None  # leave out chunks that are nothing but space; None: yes (reference: no)

    def __post_init__(self) -> None:
        _check_choice("features", self.features, FEATURES)
        _check_choice("visible_only", self.visible_only, (False, True))
        _check_choice("distances", self.distances, (None, False, True))
        _check_choice("whole_map", self.whole_map, (False, True))
        _check_choice("centred", self.centred, (None, False, True))
        _check_choice("skip_space", self.skip_space, (None, False, True))
        _check_number("window", self.window, 1, 64)
        if self.chunk_size is not None:
            _check_number("chunk_size", self.chunk_size, 1, 64)
        given = [f.name for f in fields(self) if f.name != "features" and getattr(self, f.name) != f.default]
        if self.is_pixels and given:
            raise ValueError(f"features='pixels' uses the frame unchanged: remove {', '.join(given)}")

    @property
    def is_reference(self) -> bool:
        """True if entities have the reference trainer's features (`features="reference"`)."""
        return self.features == "reference"

    @property
    def is_pixels(self) -> bool:
        """True if observations are frames without entities (`features="pixels"`)."""
        return self.features == "pixels"


@dataclass(frozen=True)
class EngineOptions:
    """Options of the engine: levels and drawing; names and meanings are the engine's own.

    Every value is checked here, because the engine aborts the process on one that it does not like.

    Raises:
        ValueError: an option that is out of its range, by name.
    """

    distribution_mode: str = "easy"
    num_levels: int = 0  # how many different levels; 0: as many as there are
    start_level: int = 0  # the first of them
    use_sequential_levels: bool = False  # a level that is completed leads on to the next one
    #: Drawing; it does not touch the game's logic. None: the cheapest, or where somebody looks at it (with
    #: a render_mode, and with pixels) the prettiest.
    use_backgrounds: bool | None = None
    use_monochrome_assets: bool | None = None
    paint_vel_info: bool = False
    center_agent: bool = True
    restrict_themes: bool = False  # one theme only: entities then have that theme's sizes
    use_generated_assets: bool = False  # refused: the engine can't dump such states
    debug_mode: int = 0
    engine_threads: int = 0  # threads of the engine's own that step the games; 0: the calling one

    def __post_init__(self) -> None:
        if self.use_generated_assets:
            raise ValueError(
                "use_generated_assets: expected False, got True: the engine aborts the process when it is"
                " asked for the state of a game with generated assets"
            )
        for name in ("use_sequential_levels", "paint_vel_info", "center_agent", "restrict_themes"):
            _check_choice(name, getattr(self, name), (False, True))
        for name in ("use_backgrounds", "use_monochrome_assets"):
            _check_choice(name, getattr(self, name), (None, False, True))
        _check_number("num_levels", self.num_levels, 0, 2**31 - 1)
        _check_number("start_level", self.start_level, 0, 2**31 - 1 - self.num_levels)
        _check_number("debug_mode", self.debug_mode, 0, 2**31 - 1)
        _check_number("engine_threads", self.engine_threads, 0, 256)
        if self.distribution_mode == "exploration" and (self.num_levels or self.start_level):
            raise ValueError(
                "distribution_mode='exploration' is one fixed level: remove num_levels and start_level"
            )

    def check(self, game: ProcgenGame) -> None:
        """Raise a ValueError where the engine has no such distribution mode for the game."""
        _check_mode(game, self.distribution_mode)

    def arguments(self, game: ProcgenGame, render: bool) -> dict[str, Any]:
        """Keyword arguments of `ProcgenGym3Env`. `render`: somebody looks at what it draws."""
        cheap_images = game.images_are_cheaper and self.distribution_mode == "easy"
        backgrounds = render if self.use_backgrounds is None else self.use_backgrounds
        monochrome = (
            not (render or cheap_images) if self.use_monochrome_assets is None else self.use_monochrome_assets
        )
        levels = (
            {}
            if self.distribution_mode == "exploration"
            else {"num_levels": self.num_levels, "start_level": self.start_level}
        )
        return {
            "distribution_mode": self.distribution_mode,
            "use_sequential_levels": self.use_sequential_levels,
            "use_backgrounds": backgrounds,
            "use_monochrome_assets": monochrome,
            "paint_vel_info": self.paint_vel_info,
            "center_agent": self.center_agent,
            "restrict_themes": self.restrict_themes,
            "debug_mode": self.debug_mode,
            "num_threads": self.engine_threads,
            **levels,
        }


def split_options(options: Mapping[str, Any]) -> tuple[ViewOptions, EngineOptions]:
    """Sort keyword arguments into the two.

    Raises:
        TypeError: an option that neither knows; the message says which one is nearest.
        ValueError: an option that is out of its range, by name.
    """
    view, engine = ({f.name for f in fields(kind)} for kind in (ViewOptions, EngineOptions))
    for name in options:
        if name not in view | engine:
            raise TypeError(f"unknown option {name!r}{_nearest(name, view | engine)}")
    return (
        ViewOptions(**{name: value for name, value in options.items() if name in view}),
        EngineOptions(**{name: value for name, value in options.items() if name in engine}),
    )
