"""`Painter`: pictures of boards, from the sprites of a game's file.

Griddly's own renderers need a Vulkan driver, without which they end the process. This one needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .library import package_folder
from .rules import Rules, Sprite

if TYPE_CHECKING:
    from PIL.Image import Image

#: Colours of players, and of types whose sprites are missing.
_COLORS = ("#4e79a7", "#e15759", "#59a14f", "#f28e2b", "#b07aa1", "#76b7b2", "#edc948", "#9c755f")
#: Quarter turns to the left of a sprite.
_TURNS = {"LEFT": 1, "DOWN": 2, "RIGHT": 3}
#: The neighbours by which a wall's sprite is chosen, and what each adds to its number: left, right, up, down.
_NEIGHBOURS = {"WALL_16": ((-1, 0, 1), (1, 0, 2), (0, -1, 4), (0, 1, 8)), "WALL_2": ((0, 1, 1),)}


class Painter:
    """Draws the states of one game.

    Args:
        rules: the game. Types without sprites, or whose files are missing, are squares; where several players
            play, a frame has the colour of an object's owner.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._kinds = list(rules.objects)
        folder = rules.image_folder
        self._folder = package_folder() / "resources" / "images" if folder is None else Path(folder)
        self._size = rules.tile_size
        self._tiles: dict[tuple[str, str], Image] = {}  # file and direction -> picture

    def paint(self, state: Mapping[str, Any], board: tuple[int, int]) -> NDArray[np.uint8]:
        """Return the picture (height, width, 3) of a state, as the engine's `get_state` returns it."""
        from PIL import Image, ImageDraw

        width, height = self._size
        picture = Image.new("RGB", (board[0] * width, board[1] * height))
        if self._rules.background is not None:
            tile = self._tile(self._rules.background, "UP", "#303030")
            for x in range(board[0]):
                for y in range(board[1]):
                    picture.paste(tile, (x * width, y * height), tile)
        draw = ImageDraw.Draw(picture)
        objects = [item for item in state["Objects"] if item["Name"] in self._rules.objects]
        places = {(item["Name"], *item["Location"]) for item in objects}
        for item in sorted(objects, key=lambda item: self._rules.heights[item["Name"]]):
            name, (x, y) = item["Name"], item["Location"]
            color = _COLORS[self._kinds.index(name) % len(_COLORS)]
            sprites = self._rules.sprites[name]
            sprite = sprites[min(item["RenderTileId"], len(sprites) - 1)] if sprites else Sprite(())
            file = sprite.images[_number(sprite, name, x, y, places)] if sprite.images else ""
            tile = self._tile(file, item["Orientation"], color)
            picture.paste(tile, (x * width, y * height), tile)
            if self._rules.num_players > 1 and item["PlayerId"]:
                corner = (x + 1) * width - 1, (y + 1) * height - 1
                owner = _COLORS[(item["PlayerId"] - 1) % len(_COLORS)]
                draw.rectangle((x * width, y * height, *corner), outline=owner, width=max(1, width // 12))
        return np.asarray(picture)

    def _tile(self, file: str, direction: str, color: str) -> Image:
        """Return a sprite, turned; a square where there is none."""
        from PIL import Image

        key = file or color, direction
        if key not in self._tiles:
            path = self._folder / file
            if file and path.is_file():
                image = Image.open(path).convert("RGBA").resize(self._size)
            else:
                image = Image.new("RGBA", self._size, color)
            self._tiles[key] = image.rotate(90 * _TURNS.get(direction, 0))
        return self._tiles[key]


def _number(sprite: Sprite, name: str, x: int, y: int, places: set[tuple[Any, ...]]) -> int:
    """Return which of its images a sprite shows: of walls, the one that joins them to their neighbours."""
    joined = [add for dx, dy, add in _NEIGHBOURS.get(sprite.tiling, ()) if (name, x + dx, y + dy) in places]
    return min(sum(joined), len(sprite.images) - 1)
