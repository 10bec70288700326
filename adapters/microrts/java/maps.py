"""The maps that come with the engine."""

from __future__ import annotations

import functools
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .jvm import engine_folder
from .names import unknown


@dataclass(frozen=True)
class Map:
    """One map: its file, and what does not change while it is played."""

    name: str
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


@functools.cache
def find_map(name: str) -> Map:
    """The map of that name ("basesWorkers16x16").

    Raises:
        ValueError: there is none; the nearest name is given. Or the engine can't load it.
        EngineMissingError: gym-microrts is not installed.
    """
    files = _files(engine_folder())
    if name not in files:
        raise ValueError(unknown("map", name, files))
    root = ElementTree.parse(files[name]).getroot()
    if any(unit.tag != "rts.units.Unit" for unit in root.iterfind("units/*")):
        raise ValueError(f"MicroRTS can't play the map {name!r}: the engine no longer reads its file format")
    width, height = int(root.attrib["width"]), int(root.attrib["height"])
    terrain = "".join((root.findtext("terrain") or "").split())
    cells = np.flatnonzero(np.array(list(terrain)) == "1")
    walls = np.stack([cells % width, cells // width], 1).astype(np.int32)
    return Map(name, files[name], width, height, walls)
