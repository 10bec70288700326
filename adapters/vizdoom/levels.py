"""The levels in the engine's files of game data (WAD)."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import vizdoom

from ...envs.errors import one_of

_PACKAGE = Path(vizdoom.__file__).parent
#: What the engine plays where no game data is named.
_DEFAULTS = ("doom2.wad", "freedoom2.wad")
#: A lump of this name follows the name of a level.
_FIRST_LUMPS = ("THINGS", "TEXTMAP")


def check_level(name: str, game: vizdoom.DoomGame, game_args: str) -> None:
    """Check that a level exists: the engine waits forever for one that does not.

    Files of another format than WAD, and those named in `game_args`, may have any level.

    Raises:
        ValueError: it does not exist; the nearest is suggested.
    """
    iwad = game.get_doom_game_path()
    places = [Path(iwad), _PACKAGE / Path(iwad).name] if iwad else [_PACKAGE / name for name in _DEFAULTS]
    iwads = [path for path in places if path.is_file()]
    scenario = game.get_doom_scenario_path()
    paths = [*([Path(scenario)] if scenario else []), *iwads]
    levels = [level_names(path) for path in paths if path.is_file()]
    if not iwads or None in levels or "-file" in game_args:
        return
    known = sorted({level.lower() for found in levels for level in found or ()})
    one_of("ViZDoom: map", name.lower(), known)


def level_names(path: Path) -> list[str] | None:
    """Return the names of the levels in a WAD file, in capitals; None for another format."""
    data = path.read_bytes()
    if data[:4] not in (b"IWAD", b"PWAD"):
        return None
    count, start = struct.unpack_from("<ii", data, 4)
    lumps = [data[entry + 8 : entry + 16] for entry in range(start, start + 16 * count, 16)]
    names = [lump.partition(b"\0")[0].decode("ascii", "replace").upper() for lump in lumps]
    return [name for name, following in pairwise(names) if following in _FIRST_LUMPS]
