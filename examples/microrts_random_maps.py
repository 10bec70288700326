"""Write random maps of μRTS, alike for both players.

    python examples/microrts_random_maps.py maps --count 60 --seed 1
    python examples/microrts_random_maps.py far --count 60 --seed 1 --least 16 --apart 16

A network that learns on a few maps learns them by heart; here each one is new. A map has 8 to 24 columns and
rows; one or two bases per player, each with workers and resources near it; now and then barracks and walls.
What belongs to the upper left player comes again, turned by 180 degrees, for the other one. `--least` and
`--apart` leave out small maps and those on which the players begin near each other. The files' names are
printed; give them to `maps` of the environment.
"""

from __future__ import annotations

import argparse
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

#: Hitpoints of each type, as in the engine's maps.
HITPOINTS = {"Resource": 1, "Base": 10, "Barracks": 4, "Worker": 1}


def is_connected(cells: NDArray[np.bool_]) -> bool:
    """Return True if steps up, down, left and right lead from each of the `cells` to each other one."""
    reached = np.zeros_like(cells)
    reached.flat[cells.argmax()] = True
    while True:
        wider = np.pad(reached, 1)
        near = wider[:-2, 1:-1] | wider[2:, 1:-1] | wider[1:-1, :-2] | wider[1:-1, 2:] | reached
        grown = near & cells
        if np.array_equal(grown, reached):
            return np.array_equal(reached, cells)
        reached = grown


class Drawing:
    """A map that is being drawn: every mark is made twice, the second time turned by 180 degrees."""

    def __init__(self, height: int, width: int, rng: np.random.Generator) -> None:
        self.rng = rng
        self.walls = np.zeros((height, width), bool)
        self.taken = np.zeros((height, width), bool)
        self.units: list[tuple[str, int, int, int]] = []  # type, player, y, x

    def free(self, y: int, x: int) -> bool:
        """Return True if a cell and its counterpart are on the map, free, and not the same."""
        height, width = self.taken.shape
        if not (0 <= y < height and 0 <= x < width) or (2 * y, 2 * x) == (height - 1, width - 1):
            return False
        return not self.taken[y, x]

    def place(self, kind: str, y: int, x: int) -> None:
        height, width = self.taken.shape
        other = height - 1 - y, width - 1 - x
        for player, place in enumerate(((y, x), other)):
            self.taken[place] = True
            self.units.append((kind, -1 if kind == "Resource" else player, *place))

    def near(self, kind: str, y: int, x: int, reach: int, count: int) -> None:
        """Place up to `count` things of a kind on free cells at most `reach` from a cell."""
        for _ in range(count):
            for _ in range(20):
                dy, dx = self.rng.integers(-reach, reach + 1, 2).tolist()
                if self.free(y + dy, x + dx):
                    self.place(kind, y + dy, x + dx)
                    break

    def wall(self) -> None:
        """Draw a straight wall of 2 to 6 cells, unless it would part the free cells from each other."""
        height, width = self.taken.shape
        y, x = int(self.rng.integers(height)), int(self.rng.integers(width))
        dy, dx = [(0, 1), (1, 0)][self.rng.integers(2)]
        added = np.zeros_like(self.walls)
        for step in range(int(self.rng.integers(2, 7))):
            if self.free(y + step * dy, x + step * dx):
                added[y + step * dy, x + step * dx] = True
        added |= added[::-1, ::-1]
        if is_connected(~(self.walls | added)):
            self.walls |= added
            self.taken |= added

    def tree(self) -> ElementTree.ElementTree:
        height, width = self.walls.shape
        root = ElementTree.Element("rts.PhysicalGameState", width=str(width), height=str(height))
        ElementTree.SubElement(root, "terrain").text = "".join("01"[int(wall)] for wall in self.walls.flat)
        players = ElementTree.SubElement(root, "players")
        for player in range(2):
            ElementTree.SubElement(players, "rts.Player", ID=str(player), resources="5")
        units = ElementTree.SubElement(root, "units")
        for number, (kind, player, y, x) in enumerate(self.units):
            stock = "20" if kind == "Resource" else "0"
            facts = {"type": kind, "ID": str(number), "player": str(player), "x": str(x), "y": str(y)}
            facts |= {"resources": stock, "hitpoints": str(HITPOINTS[kind])}
            ElementTree.SubElement(units, "rts.units.Unit", facts)
        return ElementTree.ElementTree(root)


def random_map(rng: np.random.Generator) -> ElementTree.ElementTree:
    """Return a random map."""
    size = int(rng.integers(8, 25))
    height, width = (size, size) if rng.random() < 0.8 else rng.integers(8, 25, 2).tolist()
    drawing = Drawing(height, width, rng)
    while True:  # the first base is nearer to the upper left corner than to the other one
        y, x = rng.integers((height, width)).tolist()
        if y / (height - 1) + x / (width - 1) < 0.8 and drawing.free(y, x):
            break
    bases = [(y, x)]
    drawing.place("Base", y, x)
    if rng.random() < 0.3:
        drawing.near("Base", y, x, 5, 1)
        bases = [place[2:] for place in drawing.units if place[:2] == ("Base", 0)]
    for base in bases:
        drawing.near("Resource", *base, 3, int(rng.integers(1, 4)))
        drawing.near("Worker", *base, 2, int(rng.integers(1, 3)))
    if rng.random() < 0.2:
        drawing.near("Barracks", y, x, 3, 1)
    if rng.random() < 0.4:
        for _ in range(int(rng.integers(1, size // 4 + 1))):
            drawing.wall()
    return drawing.tree()


def is_far(tree: ElementTree.ElementTree, least: int, apart: int) -> bool:
    """Return True if both sides have `least` cells, and `apart` steps lie between the players' bases."""
    root = tree.getroot()
    assert root is not None
    units = [unit.attrib for unit in root.iter("rts.units.Unit") if unit.get("type") == "Base"]
    mine, theirs = (
        [(int(u["y"]), int(u["x"])) for u in units if u["player"] == player] for player in ("0", "1")
    )
    steps = min(abs(y - v) + abs(x - u) for y, x in mine for v, u in theirs)
    return min(int(root.attrib["width"]), int(root.attrib["height"])) >= least and steps >= apart


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=int, default=0, help="cells of the shorter side")
    parser.add_argument("--apart", type=int, default=0, help="steps between the players' bases")
    chosen = parser.parse_args()
    rng = np.random.default_rng(chosen.seed)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for number in range(chosen.count):
        file, drawn = chosen.folder / f"random-{chosen.seed}-{number}.xml", random_map(rng)
        if is_far(drawn, chosen.least, chosen.apart):
            drawn.write(file)
            print(file)


if __name__ == "__main__":
    main()
