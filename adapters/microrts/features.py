"""Names of each entity type's features, in the order of the kernels."""

from __future__ import annotations

from .java.records import ACTIONS, UNIT_TYPES

#: Entity types, in the order of the papers: own units come first, so that actors are the first entities.
TYPES = ("Own", "Enemy", "Resource")

_COUNTS = ("0", "1", "2", "3", "4_or_more")

#: The engine's own planes; ownership is seen from the lane's player.
PLANES = (
    *(f"hit_points_{n}" for n in _COUNTS),
    *(f"resources_{n}" for n in _COUNTS),
    *(f"owner_{who}" for who in ("none", "own", "enemy")),
    *(f"type_{name}" for name in ("none", *UNIT_TYPES)),
    *(f"action_{name}" for name in ACTIONS),
)

#: features="planes": the cell and its planes, for every type.
PLANE_FEATURES = ("x", "y", *PLANES)

#: features="planes29": what later versions of the engine add; a cell is free unless it is a wall,
#: also with a unit on it.
TERRAIN = ("terrain_free", "terrain_wall")
#: The features of an entity with features="planes29".
PLANE29_FEATURES = (*PLANE_FEATURES, *TERRAIN)
#: The planes of a cell without unit; walls have them beside their own.
EMPTY_PLANES = ("hit_points_0", "resources_0", "owner_none", "type_none", "action_none")

DIRECTIONS = ("up", "right", "down", "left")

#: The cells that a unit may attack, relative to its own, which is in the middle.
ATTACKED = tuple(f"{x:+d},{y:+d}" for y in range(-3, 4) for x in range(-3, 4))

#: features="units": a unit of either player. `target_x` and `target_y` say, relative to the unit, which cell
#: its action is about (0 where there is none); `time_left` is in ticks until the action is done.
UNIT_FEATURES = (
    "x",
    "y",
    "hit_points",
    "resources",
    "time_left",
    "target_x",
    "target_y",
    *(f"is_{name}" for name in UNIT_TYPES[1:]),
    *(f"action_{name}" for name in ACTIONS),
    *(f"direction_{name}" for name in DIRECTIONS),
    *(f"produces_{name}" for name in UNIT_TYPES[1:]),
)

#: features="units": a resource field.
RESOURCE_FEATURES = ("x", "y", "resources")

#: features="units": a cell that no unit can enter.
WALL_FEATURES = ("x", "y")

#: `step` is the share of the time limit that is over. Stockpiles are exact.
GLOBAL_FEATURES = ("step", "own_resources", "enemy_resources")
