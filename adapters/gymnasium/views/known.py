"""Facts about observations and actions of known environments that their spaces do not contain.

None of these packages is imported here: an environment that is there brings its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from .grids import Cells, Channels
from .items import Items
from .object_slots import ObjectSlots
from .rows import Rows
from .scope import EntityEncoder, Scope, View
from .text import Words, words_of

#: Feature names of Gymnasium's own environments, in the order of their documentation's tables.
_FEATURES = {
    "CartPole": ("position", "velocity", "angle", "angular_velocity"),
    "MountainCar": ("position", "velocity"),
    "MountainCarContinuous": ("position", "velocity"),
    "Pendulum": ("cos", "sin", "angular_velocity"),
    "Acrobot": ("cos_1", "sin_1", "cos_2", "sin_2", "angular_velocity_1", "angular_velocity_2"),
    "LunarLander": ("x", "y", "vx", "vy", "angle", "angular_velocity", "left_contact", "right_contact"),
}
_CHOICES = {
    "CartPole": ("left", "right"),
    "MountainCar": ("left", "stay", "right"),
    "Acrobot": ("negative", "none", "positive"),
    "LunarLander": ("nothing", "left_engine", "main_engine", "right_engine"),
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "Taxi": ("south", "north", "east", "west", "pickup", "dropoff"),
    "Blackjack": ("stick", "hit"),
}
#: MiniGrid's wrappers that replace the image, and those of them that draw a picture.
_PICTURES = ("RGBImgObsWrapper", "RGBImgPartialObsWrapper")
_MINIGRID_IMAGES = (
    *_PICTURES,
    "FullyObsWrapper",
    "OneHotPartialObsWrapper",
    "SymbolicObsWrapper",
    "ViewSizeWrapper",
)
_MINATAR_ACTIONS = {"n": "noop", "l": "left", "u": "up", "r": "right", "d": "down", "f": "fire"}


@dataclass(frozen=True)
class Known:
    """Facts about an environment.

    Attributes:
        view: the view that suits its observations; None where `auto` is as good.
        feature_names: names of the numbers (or channels) of a part, by path.
        choices: names of the choices of its only discrete action.
    """

    view: View | None = None
    feature_names: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    choices: tuple[str, ...] | None = None


def known(env: gymnasium.Env[Any, Any] | None, spec: EnvSpec | None = None) -> Known:
    """Return the facts about `env`, wrapped or not; without `env` those about Gymnasium's own, by `spec`."""
    if env is None:
        return Known() if spec is None else _by_name(spec)
    base = env.unwrapped
    describe = {
        "gymnasium": _gymnasium,
        "minigrid": _minigrid,
        "minatar": _minatar,
        "highway_env": _highway,
        "ale_py": _atari,
        "ocatari": _ocatari,
    }
    found = (describe.get(_package(kind)) for kind in type(base).__mro__)
    facts_of = next((facts for facts in found if facts is not None), None)
    facts = Known() if facts_of is None else facts_of(env, base)
    return replace(facts, choices=None) if _changes_choices(env) else facts


def _changes_choices(env: Any) -> bool:
    """Return true if a wrapper may give the numbers of discrete actions another meaning."""
    return any(
        isinstance(wrapper, gymnasium.ActionWrapper) and type(wrapper).__name__ != "StickyAction"
        for wrapper in _wrappers(env).values()
    )


def _package(kind: type) -> str:
    """Return the package of a class of environments; none for Gymnasium's base classes, which all have."""
    package, *rest = kind.__module__.split(".")
    return "" if package == "gymnasium" and rest[:1] != ["envs"] else package


def _gymnasium(env: gymnasium.Env[Any, Any], base: Any) -> Known:
    return (
        Known() if base.spec is None else _by_name(base.spec, isinstance(env.action_space, spaces.Discrete))
    )


def _by_name(spec: EnvSpec, discrete: bool = True) -> Known:
    """Names are used only where their number is right, so that a namesake of another package does no harm."""
    features: dict[tuple[str, ...], tuple[str, ...]] = {}
    if spec.name in _FEATURES:
        features[()] = _FEATURES[spec.name]
    return Known(feature_names=features, choices=_CHOICES.get(spec.name) if discrete else None)


def _minigrid(env: gymnasium.Env[Any, Any], base: Any) -> Known:
    """Objects of the field of view; the direction; the mission's words, where missions differ."""
    space, wrappers = env.observation_space, _wrappers(env)
    choices = tuple(action.name for action in base.actions)
    if "ImgObsWrapper" in wrappers and space == wrappers["ImgObsWrapper"].observation_space:
        return Known(_minigrid_image(space, list(wrappers)).get("image"), choices=choices)
    if not isinstance(space, spaces.Dict):
        return Known(choices=choices)
    views: dict[str, View | None] = {}
    if "image" in space.spaces:
        views.update(_minigrid_image(space["image"], list(wrappers)))
    if "mission" in space.spaces:
        views.update(_mission(space["mission"], wrappers, base))
    return Known(Items(views) if views else None, choices=choices)


def _wrappers(env: Any) -> dict[str, Any]:
    """Return the wrappers around an environment by the names of their classes, the outermost first."""
    found: dict[str, Any] = {}
    while isinstance(env, gymnasium.Wrapper):
        for kind in type(env).__mro__:
            found.setdefault(kind.__name__, env)
        env = env.env
    return found


def _minigrid_image(space: Any, wrappers: list[str]) -> dict[str, View | None]:
    """Return the view of "image" in the form that the outermost wrapper around it gives it."""
    from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX

    objects, colors, states = (_words(ids) for ids in (OBJECT_TO_IDX, COLOR_TO_IDX, STATE_TO_IDX))
    width = space.shape[-1] if isinstance(space, spaces.Box) and len(space.shape) == 3 else 0
    form = next((name for name in wrappers if name in _MINIGRID_IMAGES), None)
    ignore = ["unseen", "empty"]
    if form == "OneHotPartialObsWrapper" and width == len(objects) + len(colors) + len(states):
        bits = dict.fromkeys([*(f"color={c}" for c in colors), *(f"state={s}" for s in states)])
        return {"image": Cells(objects, ignore, bits, one_hot=True, layout="whc")}
    if form == "SymbolicObsWrapper" and width == 3:
        ids = {"nothing": -1, **OBJECT_TO_IDX}
        return {"image": LastChannel(Cells(ids, ["nothing", *ignore], layout="wh"))}
    if width != 3 or form in _PICTURES or (form is None and max(space.shape) > 32):
        return {}
    # An agent's third channel is its direction, which has one value more than doors have states.
    properties = {"color": colors, "state": [*states, "up"]}
    return {"image": Cells(dict(OBJECT_TO_IDX), ignore, properties, layout="whc")}


def _mission(space: Any, wrappers: dict[str, Any], base: Any) -> dict[str, View | None]:
    """Return the view of "mission": None for one that is always the same, {} for one of unknown words."""
    ids = getattr(wrappers.get("DictObservationSpaceWrapper"), "word_dict", {})
    is_ids = bool(ids) and isinstance(space, spaces.MultiDiscrete)
    texts = base.observation_space["mission"] if is_ids else space
    placeholders = getattr(texts, "ordered_placeholders", None)
    kind = type(texts).__name__
    if kind == "MissionSpace" and not placeholders:
        return {"mission": None}
    if is_ids:
        words = _words(ids)
        return {"mission": Words(words)} if [ids[word] for word in words] == list(range(len(words))) else {}
    if placeholders:
        return {"mission": Words(_mission_words(texts, placeholders))}
    return {"mission": Words(_babyai_words())} if kind == "BabyAIMissionSpace" else {}


@dataclass(frozen=True, repr=False)
class LastChannel(View):
    """A view of the last channel of a grid (h, w, c), as one of a grid (h, w)."""

    view: View

    def bind(self, space: spaces.Space[Any], scope: Scope) -> EntityEncoder:
        assert isinstance(space, spaces.Box)
        channel = spaces.Box(space.low[..., -1], space.high[..., -1], dtype=space.dtype)
        encoder = self.view.bind(channel, scope)

        def encode(observation: Any, batch_size: int) -> dict[str, Any]:
            grid = scope.array(observation, (batch_size, *space.shape))
            return encoder.encode(grid[..., -1], batch_size)

        return EntityEncoder(encoder.entities, encode)


def _babyai_words() -> list[str]:
    """Every word of BabyAI's missions (minigrid.envs.babyai.core.verifier)."""
    from minigrid.core.constants import COLOR_NAMES
    from minigrid.envs.babyai.core.verifier import OBJ_TYPES

    grammar = (
        "go to open pick up put next the a object in front of you behind on your left right then after and"
    )
    return list(dict.fromkeys([*grammar.split(), *OBJ_TYPES, *COLOR_NAMES]))


def _words(ids: dict[str, int]) -> list[str]:
    return sorted(ids, key=lambda word: ids[word])


def _mission_words(space: Any, placeholders: Sequence[Sequence[str]]) -> list[str]:
    """Every word that a mission can have: those around the placeholders, and those for them."""
    blank = space.mission_func(*("" for _ in placeholders))
    fillings = (word for options in placeholders for option in options for word in words_of(option))
    return list(dict.fromkeys([*words_of(blank), *fillings]))


def _minatar(env: gymnasium.Env[Any, Any], base: Any) -> Known:
    channels = base.game.env.channels
    names = tuple(sorted(channels, key=lambda name: channels[name]))
    letters = base.game.env.action_map
    choices = tuple(_MINATAR_ACTIONS[letters[action]] for action in base.action_set)
    return Known(feature_names={(): names}, choices=choices)


def _highway(env: gymnasium.Env[Any, Any], base: Any) -> Known:
    observer, space = base.observation_type, env.observation_space
    labels = getattr(base.action_type, "actions", None)
    choices = tuple(labels[i] for i in sorted(labels)) if isinstance(labels, dict) else None
    features = tuple(getattr(observer, "features", ()))
    kinds = {kind.__name__ for kind in type(observer).__mro__}
    if space.shape == (getattr(observer, "vehicles_count", None), len(features)):
        return Known(_highway_cars(features), {(): features}, choices)
    if "OccupancyGridObservation" in kinds and space.dtype == np.float32 and "presence" in features:
        return Known(_highway_grid(features), choices=choices)
    if "KinematicsGoalObservation" in kinds and isinstance(space, spaces.Dict):
        return Known(feature_names={(key,): features for key in space.spaces}, choices=choices)
    return Known(choices=choices)


def _highway_cars(features: tuple[str, ...]) -> View:
    """Kinematics: row 0 is the own car in road coordinates, the others are relative to it."""
    presence = "presence" if "presence" in features else f"{__name__}:has_numbers"
    return Rows(features, presence=presence, name="Vehicle", first="Ego")


def has_numbers(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows (N, f) have another number than 0: the others are padding, and no vehicles."""
    return rows.any(1)


def _highway_grid(features: tuple[str, ...]) -> View:
    """Occupancy: channels over x, then y; only cells with a vehicle have its features."""
    types = {"presence": "Vehicle", "on_road": "Road"}
    own = [feature for feature in features if feature not in types]
    names = [types.get(feature, feature) for feature in features]
    return Channels(names, layout="cwh", values=False, features={"Vehicle": own} if own else {})


def _atari(env: gymnasium.Env[Any, Any], base: Any) -> Known:
    if env.observation_space.shape != (128,):
        return Known()
    return Known(feature_names={(): tuple(f"ram_{i:02X}" for i in range(128))}, choices=_meanings(env, base))


def _ocatari(env: gymnasium.Env[Any, Any], base: Any) -> Known:
    """Objects in slots: the category, and the numbers that it has (`x`, `y`, …), of the last four frames."""
    slots = [(slot.category, _slot_numbers(slot)) for slot in getattr(base, "_slots", ())]
    shape = env.observation_space.shape
    if not slots or shape is None or shape[1:] != (sum(len(numbers) for _, numbers in slots),):
        return Known()
    return Known(ObjectSlots(slots))


def _slot_numbers(slot: Any) -> list[str]:
    width, names = len(slot._nsrepr), []
    for meaning in slot._ns_meaning:
        names += ["x", "y"] if meaning == "POSITION" else [meaning.lower()]
    return names if len(names) == width else [f"x_{i}" for i in range(width)]


def _meanings(env: gymnasium.Env[Any, Any], base: Any) -> tuple[str, ...] | None:
    return tuple(base.get_action_meanings()) if isinstance(env.action_space, spaces.Discrete) else None
