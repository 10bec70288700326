"""Options of observations, actions and the engine, checked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import vizdoom

from ...envs.errors import MOST_INT, check_flags, one_of, positive_number, whole_options
from ...suggestions import did_you_mean

ACTIONS = ("groups", "single")


@dataclass(frozen=True)
class DoomOptions:
    """Options of `ViZDoomVectorEnv`.

    Raises:
        TypeError, ValueError: an option that is out of its range, by name.
    """

    frame_skip: int = 4  # tics of the game (35 are a second) per step
    visible_only: bool = True  # only objects on the screen; False: all objects of the level
    effects: bool = False  # also blood, corpses, bullet puffs and smoke
    walls: bool = False  # the level's lines, as entities
    wall_distance: float = 1024.0  # walls farther away are left out, in units of the map; inf: none is
    #: "groups": one choice for each group of buttons that exclude each other; "single": one button at a time
    actions: str = "groups"
    deltas: bool = True  # use the scenario's delta buttons, as continuous actions
    variables: Sequence[str] = ()  # game variables as further global features, by the engine's names
    skill: int | None = None  # 1 (easiest) to 5; None: the scenario's
    map: str | None = None  # the level, e.g. "map02"; None: the scenario's
    timeout: int | None = None  # tics after which an episode is truncated, 0: never; None: the scenario's
    iwad: str | Path | None = (
        None  # path of the game's data, e.g. doom2.wad; None: Freedoom, or the scenario's
    )
    game_args: str = ""  # further arguments of the engine's command line
    #: "160x120" and so on: of the labels and of what `render` returns; None: the smallest, or with a
    #: render_mode 320x240
    resolution: str | None = None

    def __post_init__(self) -> None:
        check_flags(self, "visible_only", "effects", "walls", "deltas")
        for name in ("map", "resolution"):
            if not isinstance(getattr(self, name), str | None):
                raise TypeError(f"{name}: expected a text or None, got {getattr(self, name)!r}")
        if not isinstance(self.game_args, str):
            raise TypeError(f"game_args: expected a text, got {self.game_args!r}")
        if not isinstance(self.iwad, str | Path | None):
            raise TypeError(f"iwad: expected a path or None, got {self.iwad!r}")
        whole_options(self, frame_skip=(1, 1000), skill=(1, 5), timeout=(0, MOST_INT))
        one_of("actions", self.actions, ACTIONS)
        positive_number("wall_distance", self.wall_distance)
        names = self.variables
        if (
            isinstance(names, str)
            or not isinstance(names, Sequence)
            or not all(isinstance(n, str) for n in names)
        ):
            raise TypeError(f"variables: expected a list of names, got {names!r}")
        object.__setattr__(self, "variables", tuple(name.upper() for name in self.variables))
        for name in self.variables:
            if name not in vizdoom.GameVariable.__members__:
                hint = did_you_mean(name, vizdoom.GameVariable.__members__)
                raise ValueError(f"variables: expected names of game variables, got {name!r}{hint}")
        if self.iwad is not None and not Path(self.iwad).is_file():
            raise ValueError(f"iwad: expected the path of a file, got {str(self.iwad)!r}: no such file")
        self.screen(False)

    def screen(self, render: bool) -> vizdoom.ScreenResolution:
        """Return the engine's resolution. `render`: frames will be rendered."""
        text = self.resolution or ("320x240" if render else "160x120")
        known = vizdoom.ScreenResolution.__members__
        name = f"RES_{text.upper()}"
        if not re.fullmatch(r"\d+X\d+", text.upper()) or name not in known:
            sizes = [member.removeprefix("RES_").lower() for member in known]
            raise ValueError(f"resolution: expected one of {', '.join(sizes)}, got {text!r}")
        return known[name]
