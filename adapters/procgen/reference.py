"""`features="reference"`: what the Entity Neural Network project's integration showed, for comparison.

Each entity has all 31 fields of its record, unscaled, and the game's global numbers are copied onto each
entity. Tiles come as chunks of one-hots. The mistakes are not copied: there, maps were transposed and cut
off, and some types were called "???".
"""

from __future__ import annotations

from .decoder.features import Feature, field, slot
from .decoder.layout import ENTITY, TAILS
from .games import GAMES, OTHER, EntityType, TileKind

_TYPES: dict[str, str] = {
    "bigfish": "2 Fish",
    "bossfight": "1 PlayerBullet, 2 Boss, 3 Shields, 4 EnemyBullet, 5 LaserTrail, 6 ReflectedBullet,"
    " 7 Barrier, 54 Explosion",
    "caveflyer": "1 Goal, 2 Obstacle, 3 Target, 4 PlayerBullet, 5 Enemy, 9 Exhaust, 54 Explosion,"
    " 1003 Marker",
    "chaser": "2 LargeOrb, 3 EnemyWeak, 4 EnemyEgg, 6 Enemy, 7 Enemy2, 8 Enemy3, 1001 Marker",
    "climber": "1 Coin, 5 Enemy, 6 Enemy1, 7 Enemy2",
    "coinrun": "1 Goal, 2 Saw, 3 Saw2, 5 Enemy, 6 Enemy1, 7 Enemy2, 20 Crate, 59 Trail",
    "dodgeball": "1 LavaWall, 3 PlayerBall, 4 Enemy, 5 Door, 6 EnemyBall, 7 DoorOpen, 8 DustCloud,"
    " 10 OutOfBoundsWall",
    "fruitbot": "1 Barrier, 2 OutOfBoundsWall, 3 PlayerBullet, 4 BadObject, 7 GoodObject, 10 LockedDoor,"
    " 11 Lock, 12 Present",
    "heist": "1 LockedDoor, 2 Key, 9 Exit, 11 KeyOnRing",
    "jumper": "1 Goal, 2 Spike, 59 Trail",
    "leaper": "1 Log, 2 Road, 3 Water, 4 Car, 5 FinishLine",
    "maze": "",
    "miner": "5 Enemy, 6 Exit",
    "ninja": "1 Goal, 7 ThrowingStar, 54 Explosion",
    "plunder": "1 PlayerBullet, 2 TargetLegend, 3 TargetBackground, 6 Panel, 7 Ship, 54 Explosion",
    "starpilot": "1 PlayerBullet, 2 Bullet2, 3 Bullet3, 4 Flyer, 5 Meteor, 6 Cloud, 7 Turret, 8 FastFlyer,"
    " 9 FinishLine, 54 Explosion",
}

_TILES: dict[str, str] = {
    "caveflyer": "8 cave_wall, 100 space",
    "chaser": "5 maze_wall, 100 space, 1002 orb",
    "climber": "15 wall_mid, 16 wall_top, 19 enemy_barrier, 100 space",
    "coinrun": "1 goal, 15 wall_mid, 16 wall_top, 17 lava_mid, 18 lava_top, 19 enemy_barrier, 100 space",
    "heist": "51 wall, 100 space",
    "jumper": "6 cave_wall, 7 cave_wall_top, 100 space",
    "maze": "2 goal, 51 wall, 100 space",
    "miner": "1 boulder, 2 diamond, 3 moving_boulder, 4 moving_diamond, 9 dirt, 100 space",
    "ninja": "6 bomb, 9 player_jump, 12 player_right1, 13 player_right2, 14 fire, 20 wall_mid, 100 space",
}

#: Tiles that look like others on the screen -> the tile that they look like.
_DRAWN_AS = {"enemy_barrier": "space", "moving_boulder": "boulder", "moving_diamond": "diamond"}

#: Tail fields that it leaves out.
_LEFT_OUT = {"attack_modes", "free_cells", "is_space_vec", "has_keys", "image_permutation", "spawners"}


def _pairs(table: str) -> list[tuple[int, str]]:
    return [
        (int(number), name) for number, name in (pair.split() for pair in table.split(",") if pair.strip())
    ]


def reference_features(game: str) -> tuple[Feature, ...]:
    """The features of every entity of `game`: its record, then the game's numbers."""
    numbers: list[Feature] = []
    for part in TAILS[game]:
        if part.name in _LEFT_OUT:
            continue
        names = [f"{part.name}.{i}" for i in range(part.slots)] if part.is_vector else [part.name]
        numbers += [slot(name) for name in names]
    return (*(field(part.name) for part in ENTITY), *numbers)


def reference_types(game: str) -> tuple[EntityType, ...]:
    """The entity types of `game`, all with the same features; `Other` last."""
    features = reference_features(game)
    types = [EntityType("Player", (0,), features)]
    tracked = {name for kind in GAMES[game].types if kind.tracked for name in kind.ids}
    types += [
        EntityType(name, (number,), features, number in tracked) for number, name in _pairs(_TYPES[game])
    ]
    return (*types, EntityType(OTHER.name, (), features))


def reference_tiles(game: str) -> tuple[TileKind, ...]:
    """The tiles of `game`; none for Leaper, whose roads and water it does not read."""
    return tuple(
        TileKind(name, (number,), _DRAWN_AS.get(name, "")) for number, name in _pairs(_TILES.get(game, ""))
    )


def reference_chunk_size(game: str) -> int:
    """Cells per side of a chunk."""
    return 4 if game == "chaser" else 5
