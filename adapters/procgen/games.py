"""The table of the 16 games: entity types, tiles and global features of each.

Read off the engine's C++ source (openai/procgen, src/games) and checked by playing. Units: lengths count 10
cells as 1, velocities half a cell per step as 1, so that features are of about unit size in every game.

A type's ids are the values of the entity record's `type` field. What only decorates (trails, dust, explosions
that do no harm, the legend of what a feature says) is listed by id in `decoration` and left out of the
default features; an id that is in neither list goes to the type `Other`, so that nothing gets lost silently.
"""

from __future__ import annotations

from dataclasses import dataclass

from .decoder.features import (
    COSINE,
    EQUALS,
    LOOKUP,
    MOVE_X,
    MOVE_Y,
    RELATIVE,
    SINCE,
    SINE,
    SLOT_EQUALS,
    SLOT_RECENT,
    SLOT_REMAINING,
    Feature,
    field,
    ready,
    relative,
    slot,
)
from .decoder.layout import TAILS, DumpField

LENGTH = 0.1
SPEED = 2.0

EXPLOSION, TRAIL = 54, 59
SPACE = 100
WALL = 51

#: Features of whatever has a place: its position, and that relative to the player.
POSITION = (field("x", LENGTH), field("y", LENGTH), relative("x", LENGTH), relative("y", LENGTH))
#: Features of what moves to the left and right.
MOVING_X = (*POSITION, field("vx", SPEED), relative("vx", SPEED))
#: Features of what moves: position and velocity, and both relative to the player.
MOVING = (*POSITION, field("vx", SPEED), field("vy", SPEED), relative("vx", SPEED), relative("vy", SPEED))
PLAYER = (field("x", LENGTH), field("y", LENGTH), field("vx", SPEED), field("vy", SPEED))
HEADING = (
    Feature("heading_sine", SINE, field="rotation"),
    Feature("heading_cosine", COSINE, field="rotation"),
)
WIDTH = field("half_width", source="rx")
HEIGHT = field("half_height", source="ry")
WALL_WIDTH = field("half_width", LENGTH, source="rx")  # in the unit of positions
WALL_HEIGHT = field("half_height", LENGTH, source="ry")


@dataclass(frozen=True)
class EntityType:
    """A type of entities: those whose `type` field is one of `ids`, in the order of the dump."""

    name: str
    ids: tuple[int, ...]
    features: tuple[Feature, ...]
    #: Shown by an instrument of the game wherever it is (but not in memory mode), so never cropped.
    tracked: bool = False


@dataclass(frozen=True)
class TileKind:
    """A kind of tile: one column of the one-hot at each cell. `pixels` is the kind that it is drawn as."""

    name: str
    ids: tuple[int, ...]
    pixels: str = ""


@dataclass(frozen=True)
class ProcgenGame:
    """One game. Types come with the player first: the only actor, entity 0 of every dump."""

    name: str
    types: tuple[EntityType, ...]
    globals: tuple[Feature, ...] = ()
    tiles: tuple[TileKind, ...] = ()
    decoration: tuple[int, ...] = ()
    modes: tuple[str, ...] = ("easy", "hard")
    #: How many cells below and above the player an entity is still of use.
    sight: tuple[float, float] = (float("inf"), float("inf"))
    #: Whether entities also say how far their edges are from the player's, unless an option decides that.
    distances: bool = False
    #: Entities that are drawn only while something holds: type id -> slot of a flag, or of a vector's items
    #: of which the entity's image_theme picks one ("has_keys[]").
    drawn_while: tuple[tuple[int, str], ...] = ()

    @property
    def tail(self) -> tuple[DumpField, ...]:
        return TAILS[self.name]


def _types(player: tuple[Feature, ...], *others: EntityType) -> tuple[EntityType, ...]:
    return (EntityType("Player", (0,), player), *others)


#: Entities of an id that the tables don't know; only there if an engine other than 0.10.7 is used.
OTHER = EntityType("Other", (), (*MOVING, WIDTH, HEIGHT, field("type", 0.01)))

_THROW = (
    Feature("throw_x", MOVE_X, slot="last_move_action"),
    Feature("throw_y", MOVE_Y, slot="last_move_action"),
)
_SPACE = TileKind("space", (SPACE,))
_GROUND = (_SPACE, TileKind("wall", (15, 16)))
_KEY_COLOURS = tuple(
    Feature(colour, EQUALS, field="image_theme", parameter=theme)
    for theme, colour in enumerate(("blue", "green", "red"))
)

_HAS_KEY = Feature("has_key", LOOKUP, field="image_theme", slot="has_keys")
_IS_TARGET = Feature("is_target", LOOKUP, field="image_theme", slot="target_bools")
_IS_FAST = Feature("is_fast", EQUALS, field="type", parameter=8)
_RELATIVE_WIDTH = Feature("relative_half_width", RELATIVE, field="rx", scale=2.0)
_PATROL = field("patrol_x", LENGTH, source="climber_spawn_x", hidden=True)
_RELOAD = Feature("reload", SINCE, field="fire_time", scale=0.02, hidden=True)

_GAMES = (
    ProcgenGame(
        "bigfish",
        # A fish that is wider than the player is deadly, a narrower one is food.
        _types(
            (*PLAYER, WIDTH),
            EntityType("Fish", (2,), (*MOVING_X, WIDTH, HEIGHT, _RELATIVE_WIDTH)),
        ),
        globals=(slot("fish_eaten", 1 / 30),),
    ),
    ProcgenGame(
        "bossfight",
        _types(
            PLAYER,
            EntityType("Boss", (2,), (*MOVING, HEIGHT, field("health", 0.1, hidden=True))),
            EntityType("EnemyBullet", (4,), MOVING),
            EntityType("Barrier", (7,), (*POSITION, HEIGHT)),
            EntityType("PlayerBullet", (1,), POSITION),
        ),
        globals=(
            slot("shields_are_up"),
            Feature("boss_is_stunned", SLOT_RECENT, slot="damaged_until_time"),
            slot("round_num", 0.2, hidden=True),
            slot("num_rounds", 0.2, hidden=True),
            slot("curr_vel_timeout", 1 / 40, hidden=True),
            *(
                Feature(f"attack_mode_{mode}", SLOT_EQUALS, slot="attack_mode", parameter=mode, hidden=True)
                for mode in range(4)
            ),
            ready("last_fire_time", 3),
        ),
        decoration=(3, 5, 6, EXPLOSION),  # the shield (see shields_are_up), laser trails, reflected bullets
        drawn_while=((3, "shields_are_up"),),
    ),
    ProcgenGame(
        "caveflyer",
        _types(
            (*PLAYER, *HEADING, field("vrot", 4.0)),
            EntityType("Goal", (1,), POSITION),
            EntityType("Obstacle", (2,), POSITION),
            EntityType("Target", (3,), (*POSITION, field("health", 0.2, hidden=True))),
            EntityType("Enemy", (5,), MOVING),
            EntityType("PlayerBullet", (4,), MOVING),
        ),
        tiles=(_SPACE, TileKind("wall", (8,))),
        decoration=(9, EXPLOSION),  # exhaust
        modes=("easy", "hard", "memory"),
    ),
    ProcgenGame(
        "chaser",
        _types(
            PLAYER,
            EntityType("LargeOrb", (2,), POSITION),
            EntityType("EnemyEgg", (4,), (*POSITION, field("health", 0.02, hidden=True))),
            EntityType("Enemy", (6,), MOVING),
        ),
        globals=(
            Feature("enemies_are_weak", SLOT_RECENT, slot="eat_time", parameter=75),
            Feature("weakness_left", SLOT_REMAINING, slot="eat_time", scale=1 / 75, hidden=True),
            slot("orbs_collected", 0.01),
            slot("total_orbs", 0.01),
        ),
        tiles=(_SPACE, TileKind("wall", (5,)), TileKind("orb", (1002,))),
        modes=("easy", "hard", "extreme"),
    ),
    ProcgenGame(
        "climber",
        _types(
            PLAYER,
            EntityType("Coin", (1,), POSITION),
            EntityType("Enemy", (5,), (*MOVING_X, _PATROL)),
        ),
        globals=(slot("has_support"), slot("coin_quota", 0.2, hidden=True), slot("coins_collected", 0.2)),
        tiles=_GROUND,
    ),
    ProcgenGame(
        "coinrun",
        _types(
            PLAYER,
            EntityType("Saw", (2,), POSITION),
            EntityType("Enemy", (5,), MOVING_X),
            EntityType("Crate", (20,), POSITION),
        ),
        globals=(slot("has_support"), slot("is_on_crate")),
        # 19, the invisible barrier that turns enemies round, is space to the player.
        tiles=(
            TileKind("space", (SPACE, 19)),
            TileKind("wall", (15, 16)),
            TileKind("lava", (17, 18)),
            TileKind("goal", (1,)),
        ),
        decoration=(TRAIL,),
    ),
    ProcgenGame(
        "dodgeball",
        _types(
            PLAYER,
            EntityType("LavaWall", (1,), (*POSITION, WALL_WIDTH, WALL_HEIGHT)),
            EntityType("Enemy", (4,), (*MOVING, _RELOAD)),
            EntityType("Door", (5,), POSITION),
            EntityType("EnemyBall", (6,), MOVING),
            EntityType("PlayerBall", (3,), MOVING),
        ),
        globals=(
            Feature("door_is_open", SLOT_EQUALS, slot="num_enemies", parameter=0),
            slot("num_enemies", 0.2, hidden=True),
            *_THROW,
            ready("last_fire_time", 7),
        ),
        decoration=(8,),  # dust
        modes=("easy", "hard", "extreme", "memory"),
    ),
    ProcgenGame(
        "fruitbot",
        _types(
            PLAYER[:3],  # it climbs at a constant speed
            EntityType("Barrier", (1,), (*POSITION, WALL_WIDTH)),
            EntityType("BadObject", (4,), (*POSITION, WIDTH, HEIGHT)),
            EntityType("GoodObject", (7,), (*POSITION, WIDTH, HEIGHT)),
            EntityType("LockedDoor", (10,), (*POSITION, WALL_WIDTH)),
            EntityType("Lock", (11,), POSITION),
            EntityType("Key", (3,), POSITION),
        ),
        globals=(ready("last_fire_time", 8),),
        decoration=(12,),  # presents fill the last row of every level: the player's y says how far that is
        sight=(1.0, 10.0),  # it only ever moves up; the next wall and a half
        distances=True,  # without them it took the agent a million steps to see where walls end
    ),
    ProcgenGame(
        "heist",
        _types(
            PLAYER,
            EntityType("LockedDoor", (1,), (*POSITION, *_KEY_COLOURS, _HAS_KEY)),
            EntityType("Key", (2,), (*POSITION, *_KEY_COLOURS)),
            EntityType("Exit", (9,), POSITION),
        ),
        globals=tuple(slot(f"has_keys.{i}", label=f"has_{c.name}_key") for i, c in enumerate(_KEY_COLOURS)),
        tiles=(_SPACE, TileKind("wall", (WALL,))),
        decoration=(11,),  # the key ring: see has_keys
        modes=("easy", "hard", "memory"),
        drawn_while=((11, "has_keys[]"),),
    ),
    ProcgenGame(
        "jumper",
        _types(
            PLAYER,
            EntityType("Goal", (1,), POSITION, tracked=True),  # by the compass
            EntityType("Spike", (2,), POSITION),
        ),
        globals=(slot("has_support"), slot("jump_count", 0.5), ready("jump_time", 4)),
        tiles=(_SPACE, TileKind("wall", (6, 7))),
        decoration=(TRAIL,),
        modes=("easy", "hard", "memory"),
    ),
    ProcgenGame(
        "leaper",
        _types(
            PLAYER,
            EntityType("Log", (1,), MOVING_X),
            EntityType("Car", (4,), MOVING_X),
            EntityType("FinishLine", (5,), (field("y", LENGTH), relative("y", LENGTH))),
        ),
        tiles=(_SPACE, TileKind("road", (2,)), TileKind("water", (3,))),
        modes=("easy", "hard", "extreme"),
    ),
    ProcgenGame(
        "maze",
        _types(PLAYER[:2]),
        tiles=(_SPACE, TileKind("wall", (WALL,)), TileKind("goal", (2,))),
        modes=("easy", "hard", "memory"),
    ),
    ProcgenGame(
        "miner",
        _types(PLAYER[:2], EntityType("Exit", (6,), POSITION)),
        globals=(slot("diamonds_remaining", 0.1, hidden=True),),
        tiles=(
            _SPACE,
            TileKind("dirt", (9,)),
            TileKind("boulder", (1,)),
            TileKind("diamond", (2,)),
            TileKind("moving_boulder", (3,), pixels="boulder"),
            TileKind("moving_diamond", (4,), pixels="diamond"),
        ),
        modes=("easy", "hard", "memory"),
    ),
    ProcgenGame(
        "ninja",
        _types(
            (*PLAYER, field("faces_left", source="is_reflected")),
            EntityType("Goal", (1,), POSITION),
            EntityType("Explosion", (EXPLOSION,), (*POSITION, WIDTH)),  # deadly here
            EntityType("ThrowingStar", (7,), MOVING),
        ),
        globals=(slot("has_support"), slot("jump_charge"), ready("last_fire_time", 3)),
        tiles=(_SPACE, TileKind("wall", (20,)), TileKind("fire", (14,)), TileKind("bomb", (6,))),
    ),
    ProcgenGame(
        "plunder",
        _types(
            (PLAYER[0], PLAYER[2]),  # it moves along the bottom
            EntityType("Ship", (7,), (*MOVING_X, HEIGHT, _IS_TARGET)),
            EntityType("Panel", (6,), POSITION),
            EntityType("PlayerBullet", (1,), POSITION),
        ),
        globals=(
            slot("juice_left"),
            slot("targets_hit", 0.05),
            *(slot(f"lane_vels.{lane}", 4.0, hidden=True) for lane in range(5)),
            *(
                slot(f"lane_directions.{lane}", label=f"lane_to_right_{lane}", hidden=True)
                for lane in range(5)
            ),
            ready("last_fire_time", 3),
        ),
        decoration=(2, 3, EXPLOSION),  # the legend: see is_target
    ),
    ProcgenGame(
        "starpilot",
        _types(
            PLAYER,
            EntityType("Flyer", (4, 8), (*MOVING, field("health", 0.5, hidden=True), _IS_FAST)),
            EntityType("Bullet", (2, 3), MOVING),
            EntityType("Turret", (7,), (*MOVING_X, HEIGHT, field("health", 0.2, hidden=True))),
            EntityType("Meteor", (5,), MOVING_X),
            EntityType("FinishLine", (9,), POSITION),
            EntityType("PlayerBullet", (1,), MOVING_X),
        ),
        globals=(slot("cur_time", 1 / 500, hidden=True),),
        decoration=(6, EXPLOSION),  # clouds
        modes=("easy", "hard", "extreme"),
    ),
)

#: All games by name, in the order of the engine's list.
GAMES: dict[str, ProcgenGame] = {game.name: game for game in _GAMES}
