"""Options of observations and of the engine, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ...envs.errors import MOST_INT, check_flags, check_option_names, one_of, whole_options
from .games import GAMES, ProcgenGame

FEATURES = ("default", "reference", "pixels")

#: Levels made for measuring exploration: one fixed level per game, in hard mode.
EXPLORATION_GAMES = ("coinrun", "caveflyer", "leaper", "jumper", "maze", "heist", "climber", "ninja")

#: The 15 actions of every game; which of them do something differs by game.
ACTIONS = (
    *("left_down", "left", "left_up", "down", "noop", "up", "right_down", "right", "right_up"),
    *("d", "a", "w", "s", "q", "e"),
)


def find_game(name: str) -> ProcgenGame:
    """The game of that name.

    Raises:
        ValueError: there is none; the message says which name is nearest.
    """
    one_of("Procgen: game", name, GAMES)
    return GAMES[name]


@dataclass(frozen=True)
class ViewOptions:
    """Options of observations.

    Raises:
        TypeError, ValueError: an option that is out of its range, by name.
    """

    #: "default"; "reference": all 31 fields and the globals on each entity; "pixels": the frame, no entities
    features: str = "default"
    visible_only: bool = False  # keep what the pixels show
    distances: bool | None = None  # how far off entities' edges are; None: where the game's table says so
    chunk_size: int | None = None  # cells per side of a chunk of tiles; None: 5 (reference: 4 in Chaser)
    window: int = 5  # chunks per side around the player; with visible_only the view takes its place
    whole_map: bool = False  # chunks of all the map
    centred: bool | None = None  # chunks move with the player; None: yes (reference: no)
    player_tiles: int = 0  # cells to each side of the player whose tiles are features of the player; 0: none
    skip_space: bool | None = None  # leave out chunks that are nothing but space; None: yes (reference: no)

    def __post_init__(self) -> None:
        one_of("features", self.features, FEATURES)
        check_flags(self, "visible_only", "whole_map", "distances", "centred", "skip_space")
        whole_options(self, window=(1, 64), player_tiles=(0, 64), chunk_size=(1, 64))
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
        TypeError, ValueError: an option that is out of its range, by name.
    """

    distribution_mode: str = "easy"
    num_levels: int = 0  # how many different levels; 0: as many as there are
    start_level: int = 0  # the first of them
    use_sequential_levels: bool = False  # a completed level leads on to the one 997 further
    restrict_themes: bool = False  # one theme only: entities then have that theme's sizes
    debug_mode: int = 0  # in CoinRun it simplifies levels; the other games ignore it
    use_generated_assets: bool = False  # refused: the engine can't dump such states
    #: Drawing; it does not touch the game's logic. None: the cheapest; where frames are rendered or
    #: observed (with a render_mode, and with pixels) the prettiest.
    use_backgrounds: bool | None = None
    use_monochrome_assets: bool | None = None
    paint_vel_info: bool = False
    center_agent: bool = True
    engine_threads: int = 0  # threads of the engine's own that step the games; 0: the calling one

    def __post_init__(self) -> None:
        if self.use_generated_assets:
            raise ValueError(
                "use_generated_assets: expected False, got True: the engine aborts the process when it is"
                " asked for the state of a game with generated assets"
            )
        check_flags(self, "use_sequential_levels", "paint_vel_info", "center_agent", "restrict_themes")
        check_flags(self, "use_backgrounds", "use_monochrome_assets")
        whole_options(self, num_levels=(0, MOST_INT), debug_mode=(0, MOST_INT), engine_threads=(0, 256))
        whole_options(self, start_level=(0, MOST_INT - max(1, self.num_levels)))
        if self.distribution_mode == "exploration" and (self.num_levels or self.start_level):
            raise ValueError(
                "distribution_mode='exploration' is one fixed level: remove num_levels and start_level"
            )

    def check(self, game: ProcgenGame) -> None:
        """Raise a ValueError where the engine has no such distribution mode for the game."""
        modes, mode = game.modes, self.distribution_mode
        if game.name in EXPLORATION_GAMES:
            modes += ("exploration",)
        one_of(f"{game.name}: distribution_mode", mode, modes)

    def arguments(self, render: bool) -> dict[str, Any]:
        """Keyword arguments of `ProcgenGym3Env`. `render`: frames will be rendered."""
        arguments = asdict(self)
        arguments["num_threads"] = arguments.pop("engine_threads")
        del arguments["use_generated_assets"]
        if self.use_backgrounds is None:
            arguments["use_backgrounds"] = render
        if self.use_monochrome_assets is None:
            arguments["use_monochrome_assets"] = not render
        if self.distribution_mode == "exploration":
            del arguments["num_levels"], arguments["start_level"]
        elif self.start_level and not self.num_levels:  # the engine would draw from all levels
            arguments["num_levels"] = MOST_INT - self.start_level
        return arguments


def split_options(options: Mapping[str, Any]) -> tuple[ViewOptions, EngineOptions]:
    """Sort keyword arguments into the two.

    Raises:
        TypeError, ValueError: an option that neither knows, with the nearest one; or one that is out of its
            range, by name.
    """
    view, engine = ({f.name for f in fields(kind)} for kind in (ViewOptions, EngineOptions))
    check_option_names("Procgen", options, view | engine)
    return (
        ViewOptions(**{name: value for name, value in options.items() if name in view}),
        EngineOptions(**{name: value for name, value in options.items() if name in engine}),
    )
