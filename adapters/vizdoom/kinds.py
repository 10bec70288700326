"""Entity types: which of the engine's categories of objects each has, and which names get a feature.

The engine puts every object into a category ("Monster") and names its class ("Cacodemon"). An entity type
stands for categories that play the same part; the class is a one-hot feature where the table below knows it.
An unknown class has none of these features, and an unknown category is of the type `Other`.
"""

from __future__ import annotations

import functools

PLAYER, OTHER, EFFECT, WALL = "Player", "Other", "Effect", "Wall"

#: Entity type -> the engine's categories.
CATEGORIES: dict[str, tuple[str, ...]] = {
    PLAYER: ("Self",),
    "Opponent": ("Player",),
    "Monster": ("Monster",),
    "Projectile": ("Explosive",),
    "Health": ("Health",),
    "Armor": ("Armor",),
    "Ammo": ("Ammo",),
    "Weapon": ("Weapon",),
    "Key": ("Key",),
    "Powerup": ("Powerup", "Power", "Artifact"),
    "Hazard": ("Hazard",),
    "Scenery": ("Decoration", "Vegetation", "LightSource", "Breakable", "Bridge", "InteractiveObject"),
    OTHER: (),
    EFFECT: ("SFX", "Gibs", "Gore"),
}

#: Categories that are neither drawn nor met.
_IGNORED = ("DynamicLight", "MapSpot", "ScriptThing", "Sound", "Teleport", "Trigger")

#: Entity type -> the classes that have a feature, in lower case; the feature of "demon" is `is_demon`.
KINDS: dict[str, tuple[str, ...]] = {
    "Monster": (
        *("zombieman", "shotgunguy", "chaingunguy", "wolfensteinss", "marinechainsawvzd", "doomimp"),
        *("demon", "spectre", "lostsoul", "cacodemon", "painelemental", "hellknight", "baronofhell"),
        *("revenant", "fatso", "arachnotron", "archvile", "spidermastermind", "cyberdemon"),
    ),
    "Projectile": (
        *("doomimpball", "cacodemonball", "baronball", "fatshot", "revenanttracer", "arachnotronplasma"),
        *("rocket", "customrocket", "plasmaball", "bfgball"),
    ),
    "Health": ("healthbonus", "stimpack", "medikit", "custommedikit", "poison", "soulsphere", "megasphere"),
    "Armor": ("armorbonus", "greenarmor", "bluearmor"),
    "Ammo": (
        "clip",
        "clipbox",
        "shell",
        "shellbox",
        "rocketammo",
        "rocketbox",
        "cell",
        "cellpack",
        "backpack",
    ),
    "Weapon": (
        *("chainsaw", "pistol", "shotgun", "supershotgun", "chaingun", "rocketlauncher", "plasmarifle"),
        "bfg9000",
    ),
    "Key": ("bluecard", "yellowcard", "redcard", "blueskull", "yellowskull", "redskull"),
    "Powerup": ("berserk", "invulnerabilitysphere", "blursphere", "radsuit", "infrared", "allmap"),
}

#: Classes whose category says something else.
_BY_CLASS = {"customrocket": "Projectile", "megasphere": "Health"}
_TYPES = {category: name for name, categories in CATEGORIES.items() for category in categories}
#: Index of each type in `CATEGORIES`.
INDEX = {name: index for index, name in enumerate(CATEGORIES)}


@functools.cache
def classify(class_name: str, category: str) -> tuple[int, int]:
    """Return the index of an object's type in `CATEGORIES` and that of its class in `KINDS`.

    The first is -1 for an object that is left out; the second is -1 for an unknown class.
    """
    name = class_name.lower()
    if category in _IGNORED:
        return -1, -1
    kind = _BY_CLASS.get(name) or _TYPES.get(category, OTHER)
    if kind == "Projectile" and name.endswith(("puff", "smoke")):
        kind = EFFECT
    known = KINDS.get(kind, ())
    return INDEX[kind], known.index(name) if name in known else -1
