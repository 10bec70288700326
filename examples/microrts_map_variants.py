"""Write variants of μRTS maps: the same bases elsewhere, further apart, mirrored.

    python examples/microrts_map_variants.py maps --maps basesWorkers8x8A basesWorkers16x16A --seed 1

A network that learns on a few maps learns them by heart. Each variant of a map is one of the four ways to
mirror and transpose it, in which both players still have the same view; has up to 4 rows and columns more at
each side, and up to 4 in the middle, between the players. Variant 0 is the map itself. The files' names are
printed, map by map; give them to `maps` of the environment.
"""

from __future__ import annotations

import argparse
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
from entitize.adapters.microrts import find_map
from numpy.typing import NDArray


def widened(grid: NDArray[np.str_], border: int, middle: int, axis: int) -> NDArray[np.str_]:
    """Add free lines at both ends of an axis, and copies of the middle line in the middle."""
    half = grid.shape[axis] // 2
    before, after = np.split(grid, [half], axis)
    copies = np.repeat(after.take([0], axis), middle, axis)
    shape = list(grid.shape)
    shape[axis] = border
    free = np.full(shape, "0")
    return np.concatenate([free, before, copies, after, free], axis)


def shift(place: int, size: int, lines: int) -> int:
    """Return how far so many lines in the middle move what lies at `place` of `size`."""
    return lines * (np.sign(2 * place + 1 - size) + 1) // 2


def variant(source: Path, rng: np.random.Generator) -> ElementTree.ElementTree:
    """Return a variant of the map in a file."""
    tree = ElementTree.parse(source)
    root = tree.getroot()
    assert root is not None
    width, height = int(root.attrib["width"]), int(root.attrib["height"])
    terrain = root.find("terrain")
    assert terrain is not None and terrain.text is not None
    grid = np.array(list(terrain.text.strip())).reshape(height, width)
    border, middle = rng.integers(0, 5, 2), rng.integers(0, 5, 2)
    middle -= (
        middle * (height % 2, width % 2) % 2
    )  # an odd number of lines stays odd, with the same in the middle
    is_mirrored, is_transposed = rng.random(2) < 0.5
    for axis in (0, 1):
        grid = widened(grid, border[axis], middle[axis], axis)
    for unit in root.iter("rts.units.Unit"):
        x, y = int(unit.attrib["x"]), int(unit.attrib["y"])
        x += border[1] + shift(x, width, middle[1])
        y += border[0] + shift(y, height, middle[0])
        if is_mirrored:
            x = grid.shape[1] - 1 - x
        if is_transposed:
            x, y = y, x
        unit.attrib.update(x=str(x), y=str(y))
    if is_mirrored:
        grid = grid[:, ::-1]
    if is_transposed:
        grid = grid.T
    root.attrib.update(width=str(grid.shape[1]), height=str(grid.shape[0]))
    terrain.text = "".join(grid.reshape(-1))
    return tree


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--maps", nargs="+", required=True)
    parser.add_argument("--variants", type=int, default=6, help="of each map, itself included")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    rng = np.random.default_rng(chosen.seed)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for number in range(chosen.variants):
        for name in chosen.maps:
            source = find_map(name).path
            file = chosen.folder / f"{name}-{number}.xml"
            tree = variant(source, rng) if number else ElementTree.parse(source)
            tree.write(file)
            print(file)


if __name__ == "__main__":
    main()
