"""The maps that come with the engine, and those in files of one's own."""

from __future__ import annotations

import functools
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ....suggestions import nearest_or_known
from .jvm import engine_folder
from .records import UNIT_TYPES

#: The types of units, as files name them.
_TYPES = tuple(name.capitalize() for name in UNIT_TYPES)


@dataclass(frozen=True)
class Map:
    """One map: its file, and what does not change while it is played."""

    name: str  # or the path as it was given
    path: Path
    width: int
    height: int
    walls: NDArray[np.int32]  # (n, 2): x and y of each wall

    @property
    def size(self) -> str:
        """Width and height, e.g. "8x8"."""
        return f"{self.width}x{self.height}"


@functools.cache
def _files(folder: Path) -> dict[str, Path]:
    return {path.stem: path for path in sorted((folder / "maps").rglob("*.xml"))}


def map_names() -> list[str]:
    """The names of all maps; one of them, melee4x4Mixed2, has a form that the engine no longer reads.

    Raises:
        EngineMissingError: gym-microrts is not installed.
    """
    return list(_files(engine_folder()))


def find_map(name: str) -> Map:
    """The map of that name ("basesWorkers16x16"), or in a file ("maps/mine.xml") of the engine's format.

    Raises:
        ValueError: there is none; the nearest name is given. Or the engine can't load it.
        EngineMissingError: gym-microrts is not installed.
    """
    if name.endswith(".xml"):
        return _read_map(name, Path(name).absolute())  # Java stays in the folder that it was started in
    return _named_map(name)


@functools.cache
def _named_map(name: str) -> Map:
    files = _files(engine_folder())
    if name not in files:
        raise ValueError(f"MicroRTS has no map {name!r}{nearest_or_known(name, files)}")
    return _read_map(name, files[name])


def _read_map(name: str, path: Path) -> Map:
    try:
        root = ElementTree.parse(path).getroot()
        width, height = int(root.attrib["width"]), int(root.attrib["height"])
        if width < 1 or height < 1:
            raise ValueError
    except OSError as error:
        raise ValueError(f"MicroRTS can't read the map {name!r}: {error.strerror}") from error
    except ElementTree.ParseError as error:
        raise ValueError(f"MicroRTS can't read the map {name!r}: it is no XML: {error}") from error
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"MicroRTS can't read the map {name!r}: width, height: expected whole numbers above 0, got"
            f" {root.get('width')}, {root.get('height')}"
        ) from error
    terrain = "".join((root.findtext("terrain") or "").split())
    cells = np.flatnonzero(np.array(list(terrain)) == "1")
    walls = np.stack([cells % width, cells // width], 1).astype(np.int32)
    board = Map(name, path, width, height, walls)
    problem = _problem(board, terrain, root)
    if problem:
        raise ValueError(f"MicroRTS can't play the map {name!r}: {problem}")
    return board


def _problem(board: Map, terrain: str, root: ElementTree.Element) -> str | None:
    """Return why the engine can't play a map, where the engine itself would not say so; None: it can."""
    if len(terrain) != board.width * board.height or not set(terrain) <= {"0", "1"}:
        return f"terrain: expected 0 or 1 for each of {board.size} cells, got {len(terrain)} characters"
    if [player.get("ID") for player in root.iterfind("players/*")] != ["0", "1"]:
        return "players: expected two, with ID 0 and 1"
    taken = set(map(tuple, board.walls.tolist()))
    ids: set[str | None] = set()
    for unit in root.iterfind("units/*"):
        where = f"unit {unit.get('ID')}"
        if unit.tag != "rts.units.Unit":
            return "the engine no longer reads its file format"
        if unit.get("type") not in _TYPES:
            return f"{where}: type: expected one of {', '.join(_TYPES)}, got {unit.get('type')!r}"
        if unit.get("player") not in ("-1", "0", "1"):
            return f"{where}: player: expected -1, 0 or 1, got {unit.get('player')!r}"
        place = unit.get("x", ""), unit.get("y", "")
        inside = all(text.isdecimal() for text in place)
        x, y = map(int, place) if inside else (0, 0)
        if not inside or x >= board.width or y >= board.height:
            return f"{where}: x, y: expected a cell of {board.size}, got {', '.join(place)}"
        if (x, y) in taken or unit.get("ID") in ids:
            return f"{where}: its ID, or its cell {x}, {y}, is another unit's or a wall's"
        taken.add((x, y))
        ids.add(unit.get("ID"))
    return None
