"""`Rules`: a game's description in GDY, with observers of ours added to it.

The engine's *entity observer* reports the objects with the features that the file asks for. Ours asks for
all, of the whole board, or where the cells have the rest, of the avatar's cell. The engine's *vector
observer* reports channels of the board's cells, in a twentieth of the time, but variables as bytes, and of
objects in one cell the owner and direction of the lowest alone. In many games only the avatar has these. Both
observers are added to the text, so that the engine reads the rest as its author wrote it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from .behaviours import Behaviours

#: The names of the entity observer, and of the vector observer.
OBSERVER, CELLS = "Entitize", "EntitizeCells"
_ROTATION = re.compile(r"\brot\b")
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class AvatarWindow:
    """The part of the board that an avatar observes: around it."""

    width: int
    height: int
    offset_x: int
    offset_y: int
    is_rotated: bool  # turns with the avatar, which faces upwards in it


@dataclass(frozen=True)
class Sprite:
    """A picture of an object, or of a wall one for each way in which it joins its neighbours."""

    images: tuple[str, ...]  # files
    tiling: str = ""


@dataclass(frozen=True)
class Rules:
    """A game's description, as far as the adapter uses it."""

    name: str
    path: Path
    text: str  # the file with the observer
    objects: dict[str, tuple[str, ...]]  # type -> its variables
    turns: bool  # objects can have a direction
    variables: tuple[str, ...]  # of the game itself
    num_players: int
    avatar: str | None  # the type that a player commands; None: all own objects that can do something
    window: AvatarWindow | None
    num_levels: int
    time_limits: tuple[tuple[str, int], ...]  # conditions on the number of steps that end a game as it stands
    behaviours: Behaviours
    heights: dict[str, int]  # of the types; an object above another hides it
    sprites: dict[str, tuple[Sprite, ...]]  # of the types, by the number of what an object shows
    tile_size: tuple[int, int]
    background: str | None
    image_folder: str | None  # None: that of the package

    @property
    def has_cells(self) -> bool:
        """True if no object has variables, but the avatar of an only player.

        Then the vector observer reports all of an object that is alone in its cell, but these variables.
        """
        with_variables = [name for name, variables in self.objects.items() if variables]
        return not with_variables or (with_variables == [self.avatar] and self.num_players == 1)

    @property
    def stays_plain(self) -> bool:
        """True if no object gets an owner or a direction but the avatar of an only player."""
        return self.num_players == 1 and self.avatar is not None and self.behaviours.stay_plain(self.avatar)

    @property
    def avatar_has_variables(self) -> bool:
        """True if objects are read from cells, but for variables of the avatar."""
        return self.has_cells and self.avatar is not None and bool(self.objects[self.avatar])

    @property
    def observes_avatar(self) -> bool:
        """True if the entity observer reports the objects in the avatar's cell alone.

        It does so for the avatar's variables, or for its direction above other objects.
        """
        return self.avatar_has_variables or (self.has_cells and self.stays_plain and self.turns)

    @property
    def reported(self) -> tuple[str, ...]:
        """Names of the numbers that are reported of each object before its variables."""
        return ("x", "y", "z", *(("dx", "dy") if self.turns else ()), "player")

    def is_time_limit(self, step: int) -> bool:
        """Return true if a time limit of the game ends it after this many steps."""
        return any(_COMPARE[name](step, limit) for name, limit in self.time_limits)


_COMPARE = {
    "eq": lambda step, limit: step == limit,
    "gt": lambda step, limit: step > limit,
    "gte": lambda step, limit: step >= limit,
}
#: The same conditions with the number first.
_TURNED = {"eq": "eq", "lt": "gt", "lte": "gte"}


def read_rules(path: Path) -> Rules:
    """Read a game's file.

    Raises:
        ValueError: it is no game in GDY.
    """
    try:
        return _parse(path, path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"Griddly: {path}: expected a game in GDY (Environment, Actions and Objects): {error!r}"
        ) from error


def _parse(path: Path, text: str) -> Rules:
    loader = _Loader(text)
    node = loader.get_single_node()
    game = loader.construct_document(node)
    environment = game["Environment"]
    objects = {item["Name"]: _names(item.get("Variables")) for item in game["Objects"]}
    player = environment.get("Player") or {}
    levels = environment.get("Levels") or []
    # By the command "rot", or because a level says so ("A/U").
    turns = bool(_ROTATION.search(text)) or any("/" in str(level) for level in levels)
    rules = Rules(
        name=str(environment.get("Name", path.stem)),
        path=path,
        text="",
        objects=objects,
        turns=turns,
        variables=_names(environment.get("Variables")),
        num_players=int(player.get("Count", 1)),
        avatar=player.get("AvatarObject"),
        window=_window(player, turns),
        num_levels=len(levels),
        time_limits=tuple(_time_limits(environment.get("Termination") or {})),
        behaviours=Behaviours.of(game.get("Actions") or ()),
        heights={item["Name"]: int(item.get("Z", 0)) for item in game["Objects"]},
        sprites={item["Name"]: _sprites(item) for item in game["Objects"]},
        **_board(environment),
    )
    return replace(rules, text=_with_observers(text, node, _observers(rules)))


def _sprites(item: Mapping[str, Any]) -> tuple[Sprite, ...]:
    found = (item.get("Observers") or {}).get("Sprite2D") or []
    return tuple(
        Sprite(tuple(_listed(sprite.get("Image"))), str(sprite.get("TilingMode", "")))
        for sprite in _listed(found)
    )


def _board(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the board is drawn."""
    observer = (environment.get("Observers") or {}).get("Sprite2D") or {}
    size = _listed(observer.get("TileSize", 24))
    return {
        "tile_size": (int(size[0]), int(size[-1])),
        "background": observer.get("BackgroundTile"),
        "image_folder": (observer.get("ResourceConfig") or {}).get("ImagePath"),
    }


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _names(variables: Any) -> tuple[str, ...]:
    return tuple(str(variable["Name"]) for variable in variables or ())


def _window(player: Mapping[str, Any], turns: bool) -> AvatarWindow | None:
    observer = player.get("Observer") or {}
    if not player.get("AvatarObject") or not observer.get("TrackAvatar"):
        return None
    if not observer.get("Width") or not observer.get("Height"):
        return None
    return AvatarWindow(
        width=int(observer["Width"]),
        height=int(observer["Height"]),
        offset_x=int(observer.get("OffsetX", 0)),
        offset_y=int(observer.get("OffsetY", 0)),
        is_rotated=bool(observer.get("RotateWithAvatar")) and turns,
    )


def _time_limits(termination: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the conditions on the number of steps among those that end a game without a winner."""
    for condition in termination.get("End") or ():
        for part in condition.get("Conditions", [condition]):
            for name, values in part.items():
                match values:
                    case ["_steps", int(limit)] if name in _COMPARE:
                        yield name, limit
                    case [int(limit), "_steps"] if name in _TURNED:
                        yield _TURNED[name], limit


def _observers(rules: Rules) -> list[str]:
    names = list(rules.objects)
    whole_board = {  # these would be the player's own else
        "TrackAvatar": False,
        "RotateWithAvatar": False,
        **dict.fromkeys(("Width", "Height", "OffsetX", "OffsetY"), 0),
    }
    avatars_cell = {**whole_board, "TrackAvatar": True, "Width": 1, "Height": 1}
    entities = {
        "Type": "ENTITY",
        "IncludeRotation": names if rules.turns else [],
        "IncludePlayerId": names,
        "IncludeMasks": False,
        "VariableMapping": {name: list(variables) for name, variables in rules.objects.items() if variables},
    }
    cells = {
        "Type": "VECTOR",
        "IncludePlayerId": True,
        "IncludeRotation": rules.turns,
        "IncludeVariables": False,
    }
    both = {
        OBSERVER: entities | (avatars_cell if rules.observes_avatar else whole_board),
        CELLS: cells | whole_board,
    }
    return [f"{name}: {json.dumps(options)}" for name, options in both.items()]  # JSON is YAML


def _with_observers(text: str, node: Any, added: list[str]) -> str:
    """Return the file with these observers among those of its environment."""
    environment = _value(node, "Environment")
    observers = _value(environment, "Observers")
    if not isinstance(observers, yaml.MappingNode) or not observers.value:
        # An empty entry is replaced by ours: of two, the engine reads the first.
        return _insert(text, environment, [f"Observers: {{{', '.join(added)}}}"])
    return _insert(text, observers, added)


def _value(node: Any, name: str) -> Any:
    return next((value for key, value in node.value if key.value == name), None)


def _insert(text: str, node: Any, entries: list[str]) -> str:
    """Return the text with further entries at the head of a mapping."""
    mark = node.value[0][0].start_mark
    lines = text.splitlines(keepends=True)
    line = lines[mark.line]
    separator = ", " if node.flow_style else "\n" + " " * mark.column
    lines[mark.line] = separator.join([line[: mark.column] + entries[0], *entries[1:], line[mark.column :]])
    return "".join(lines)
