"""`to_gymnasium`: entity environments with Gymnasium's own spaces, for learners that know no entities.

Shape alphabet: A actors (padded: the most there may be), C choices, E actees, K real numbers, M components of
a multi-discrete action.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, NoReturn

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from ...envs import ActionError, ActionSpace, EntitySpace, ObservationError, PaddedLayout, batch_observations
from ...envs.actions import EntityActionSpace
from ...envs.actions.array_checks import MOST_ENTITIES
from ...envs.errors import REPLACED_OBSERVATIONS, one_of, reset_needed
from ...envs.returned import env_name
from ...envs.spaces import PaddedSpace
from .action_form import ActionForm
from .flattening import FlatActions, flat_masks, observation_paths, padded_action, part_at, renamed_keys
from .limits import Beyond, Limit, Limited, Nearest

Layout = Literal["ragged", "padded", "flat"]
#: What to do with a choice that is masked or missing: raise, or take the first legal one and count it.
Illegal = Literal["error", "replace"]


class GymnasiumFace(gymnasium.Wrapper[Any, Any, dict[str, Any], Mapping[str, Any]], RecordConstructorArgs):
    """An entity environment behind Gymnasium's own spaces. Abstract; made by `to_gymnasium`.

    Every actor of the observation needs a legal choice. By default (`illegal="error"`) a masked or missing
    choice is an `ActionError` that names the action and the actor. With `illegal="replace"` it becomes the
    actor's first legal choice (real numbers are clipped to their bounds), and `info["illegal_choices"]`
    counts the choices of the step that were replaced. Items for which there is no actor are ignored.

    Attributes:
        entity_observation: the last observation of the entity environment, before it was converted; None
            before the first reset.
    """

    def __init__(self, env: gymnasium.Env[dict[str, Any], Mapping[str, Any]], illegal: Illegal) -> None:
        gymnasium.Wrapper.__init__(self, env)
        self._name = env_name(env)
        if not isinstance(env.observation_space, EntitySpace):
            hint = f". {REPLACED_OBSERVATIONS}" if isinstance(env.action_space, EntityActionSpace) else ""
            got = f"{env.observation_space}{hint}"
            raise TypeError(f"{self._name}: expected an entity environment, got observations of {got}")
        one_of(f"{self._name}: illegal", illegal, ("error", "replace"))
        self._space: EntitySpace = env.observation_space
        self._illegal = illegal
        self.entity_observation: dict[str, Any] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        self.start_episode(seed)
        seen, info = self.env.reset(seed=seed, options=options)
        observation, more = self.convert(seen)
        return observation, {**info, **more}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the environment.

        Raises:
            ActionError: an action that is not in the action space, or (with `illegal="error"`) a masked or
                missing choice; the environment has not moved.
            gymnasium.error.ResetNeeded: before the first reset.
        """
        actions, illegal = self.entity_actions(action)
        seen, reward, terminated, truncated, info = self.env.step(actions)
        observation, more = self.convert(seen)
        return observation, float(reward), terminated, truncated, {**info, **more, "illegal_choices": illegal}

    def convert(self, seen: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Convert the observation `seen` of the `EntitySpace`; return it with infos about the conversion."""
        self.entity_observation = seen
        return self._face(seen)

    def entity_actions(self, action: Any) -> tuple[dict[str, NDArray[Any]], int]:
        """Convert `action` into the entity environment's form; return it with the number of choices replaced.

        Raises as `step` does."""
        if self.entity_observation is None:
            raise reset_needed(self._name, "step()")
        actions, illegal = {}, 0
        for name, given in self._given(action).items():
            actions[name], count = self._legal(name, *given)
            illegal += count
        return actions, illegal

    def start_episode(self, seed: int | None) -> None:
        """Prepare for a new episode: seed what this wrapper itself draws."""

    @abstractmethod
    def _face(self, seen: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The observation to show for the whole one, and infos about that."""

    @abstractmethod
    def _given(self, action: Any) -> dict[str, tuple[NDArray[np.int64], NDArray[Any]]]:
        """Return per entity action the places of the actors (a,) that `action` chooses for, and the choices:
        (a,), for select-entity actions entity indices, multi-discrete choices (a, M), or numbers (a, K)."""

    def _legal(self, name: str, rows: NDArray[np.int64], given: NDArray[Any]) -> tuple[NDArray[Any], int]:
        """Return a legal action of all actors, and the number of masked choices that were replaced.

        Actors that are not among `rows` get their first legal choice (of real numbers those nearest to 0).
        """
        assert self.entity_observation is not None
        action = self._space.actions[name]
        if not len(rows) and self._space.actions.optional:
            return given, 0
        part = action.batch([self.entity_observation["actions"][name]])
        items = action.first_legal(part)
        items[rows] = given
        legal, illegal = action.replace_illegal(items, part)
        if illegal and self._illegal == "error":
            row = int((legal != items).reshape(len(items), -1).any(1).argmax())
            problem = action.explain(items[row], part, row, lambda index: f"entity {index}")
            self._fail(name, f"actor {row}: {problem}")
        return legal, illegal

    def _fail(self, name: str, problem: str) -> NoReturn:
        raise ActionError(
            f"{self._name}: action {name!r}: {problem}. Choose what mask and bounds allow, or pass"
            " illegal='replace' to take the first legal choice (of numbers the nearest)"
        )

    @cached_property
    def _form(self) -> ActionForm:
        return ActionForm(self.action_space)

    def _in_form(self, action: Any) -> Any:
        """Return `action` with real numbers as float32; `_legal` checks or applies their bounds."""
        numbers = self._form.read(action)
        if numbers is None:
            hint = ""
            if isinstance(self.action_space, spaces.Dict) and not isinstance(action, Mapping):
                hint = ". For trainers that give one array use layout='padded' and flat_actions=True"
            got = f"{action!r}{hint}"
            raise ActionError(f"{self._name}: action: expected one of {self.action_space}, got {got}")
        return numbers


class RaggedFace(GymnasiumFace):
    """A flat Dict of `Sequence(Box, stack=True)`: as many rows as there are entities and actors.

    Observations: `"entities/<type>"` float32 (n, F), `"globals"`, `"frame"`, `"visible/<type>"`, and for each
    action `"actions/<name>/actors"` (A,), `"/mask"` (A, C) and `"/actees"` (E,), all as in `EntitySpace`.
    Actions: a Dict with a `Sequence` of choices, one for each actor, and Discrete or Box for global actions.
    `sample()` draws sequences of random length: with `illegal="replace"` surplus items are ignored, and
    missing ones replaced.
    """

    def __init__(
        self,
        env: gymnasium.Env[dict[str, Any], Mapping[str, Any]],
        illegal: Illegal = "error",
        separator: str = "/",
    ) -> None:
        RecordConstructorArgs.__init__(self, illegal=illegal, separator=separator)
        super().__init__(env, illegal)
        paths = {"/".join(path): path for path in observation_paths(self._space)}
        self._paths = {new: paths[key] for key, new in renamed_keys(paths, separator).items()}
        self.observation_space = spaces.Dict(
            {key: part_at(self._space, path) for key, path in self._paths.items()}
        )
        self.action_space = spaces.Dict(
            {name: _ragged_action(self._space.actions[name]) for name in self._space.actions}
        )

    def _face(self, seen: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        return {key: part_at(seen, path) for key, path in self._paths.items()}, {}

    def _given(self, action: Any) -> dict[str, tuple[NDArray[np.int64], NDArray[Any]]]:
        assert self.entity_observation is not None
        action = self._in_form(action)
        given = {}
        for name, space in self._space.actions.items():
            rows = np.reshape(action[name], (-1, *space.item_shape))
            actors = len(self.entity_observation["actions"][name]["mask" if space.is_global else "actors"])
            is_no_op = not len(rows) and self._space.actions.optional
            if len(rows) != actors and self._illegal == "error" and not (space.is_global or is_no_op):
                self._fail(name, f"expected {actors} choices (one per actor), got {len(rows)}")
            count = min(len(rows), actors)
            given[name] = (np.arange(count), rows[:count])
        return given

    def _legal(self, name: str, rows: NDArray[np.int64], given: NDArray[Any]) -> tuple[NDArray[Any], int]:
        legal, illegal = super()._legal(name, rows, given)
        return legal, illegal + len(legal) - len(rows)


def _ragged_action(action: ActionSpace) -> spaces.Space[Any]:
    one = action.gymnasium_space(MOST_ENTITIES)
    return one if action.is_global else spaces.Sequence(one, stack=True)


class PaddedFace(GymnasiumFace):
    """A flat Dict of fixed arrays, zero where there is nothing, and what is there: see `PaddedLayout`.
    Arrays of size zero, those of a type without features say, are left out.

    Actions: a Dict with MultiDiscrete (A,) for what each actor does, in the order of
    `"actions/<name>/actors"`; a select-entity action picks one of the padded actees. Discrete for global
    actions, MultiDiscrete (A, M) for multi-discrete actions, Box (A, K) or (K,) for continuous actions.
    Choices without an actor are ignored. With `flat_actions` one Discrete, MultiDiscrete or Box holds them
    all, in the order of the Dict.

    `action_masks()` gives the legal choices as one bool vector, as `sb3_contrib.MaskablePPO` asks for; a
    choice without an actor, or of which the mask allows nothing, is allowed its 0 only.

    Infos get `"dropped"`: how many entities of each type were left out of the observation. Actors among them
    take their first legal choice at the next step; `info["dropped_actors"]` counts them by action.

    Attributes:
        limited: what of the last observation is within the maxima; None before the first reset.
    """

    def __init__(
        self,
        env: gymnasium.Env[dict[str, Any], Mapping[str, Any]],
        maxima: Mapping[str, int] | int,
        beyond: Beyond | Mapping[str, Any] = "error",
        max_actors: Mapping[str, int] | None = None,
        illegal: Illegal = "error",
        flat_actions: bool = False,
        separator: str = "/",
    ) -> None:
        options = _padded_options(maxima, beyond, max_actors, illegal)
        RecordConstructorArgs.__init__(self, **options, flat_actions=flat_actions, separator=separator)
        super().__init__(env, illegal)
        declared = Nearest(**beyond) if isinstance(beyond, Mapping) else beyond
        self._limit = Limit(self._name, self._space, maxima, declared)
        self._layout = PaddedLayout(self._space, self._limit.maxima, max_actors)
        self._rng = np.random.default_rng()
        self.limited: Limited | None = None
        #: Per action with choices its mask (A, C) in the last observation, and where choices begin in a row.
        self._masks: list[tuple[NDArray[np.bool_], NDArray[np.int64]]] = []
        own = self._layout.observation_space.without_empty_arrays()
        self._renamed = renamed_keys(own, separator)
        if separator != "/":
            own = PaddedSpace(self._layout, own.spaces, self._renamed)
        self.observation_space = own
        limits, actees = self._layout.max_actors, self._layout.max_actees
        actions = self._space.actions.items()
        parts = spaces.Dict({n: padded_action(a, limits[n], actees.get(n, 0)) for n, a in actions})
        self._flat = FlatActions(self._name, parts.spaces) if flat_actions else None
        self._names = list(parts)
        self.action_space = parts if self._flat is None else self._flat.space

    def start_episode(self, seed: int | None) -> None:
        # Its own numbers: what is left out must not change the environment's random numbers.
        if seed is not None:
            self._rng = np.random.default_rng([seed, 0x70AD])

    def _face(self, seen: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        self.limited = self._limit.apply(seen, self._rng)
        batch = batch_observations(self._space, [self.limited.observation])
        try:
            padded = self._layout.pad(batch)
        except ObservationError as error:
            raise ObservationError(f"{self._name}: {error}") from None
        actions = [(f"actions/{name}/mask", self._space.actions[name]) for name in self._names]
        self._masks = [(padded[key][0], a.choice_columns) for key, a in actions if key in padded]
        shown = {new: padded[key][0] for key, new in self._renamed.items()}
        kept = self.limited.rows
        lost = {name: len(seen["actions"][name]["actors"]) - len(rows) for name, rows in kept.items()}
        return shown, {"dropped": self.limited.dropped, "dropped_actors": lost}

    def action_masks(self) -> NDArray[np.bool_]:
        """The legal choices of the last observation, bool (sum of choices,), in the order of the actions.

        Raises:
            TypeError: an action takes real numbers, which have no masks.
            gymnasium.error.ResetNeeded: before the first reset.
        """
        real = [name for name in self._names if self._space.actions[name].is_continuous]
        if real:
            raise TypeError(f"{self._name}: continuous actions have no masks: expected none, got {real[0]!r}")
        if self.limited is None:
            raise reset_needed(self._name, "action_masks()")
        return flat_masks(self._masks)

    def _given(self, action: Any) -> dict[str, tuple[NDArray[np.int64], NDArray[Any]]]:
        action = self._in_form(action)
        if self._flat is not None:
            action = self._flat.split(action)
        assert self.limited is not None
        given = {}
        for name, space in self._space.actions.items():
            part = self.limited.observation["actions"][name]
            if space.is_global:
                count = len(part["mask"])
                given[name] = (np.arange(count), np.asarray(action[name])[None][:count])
                continue
            choices = np.asarray(action[name])[: len(part["actors"])]
            if space.selects_entities:
                # A padding actee is none: -1 is no entity.
                columns = np.append(self.limited.indices[part["actees"]], -1)
                choices = columns[np.minimum(choices, len(part["actees"]))]
            given[name] = (self.limited.rows[name], choices)
        return given


class FlatFace(PaddedFace):
    """One Box, the padded arrays one after the other as float32, and one Discrete, MultiDiscrete or Box."""

    def __init__(
        self,
        env: gymnasium.Env[dict[str, Any], Mapping[str, Any]],
        maxima: Mapping[str, int] | int,
        beyond: Beyond | Mapping[str, Any] = "error",
        max_actors: Mapping[str, int] | None = None,
        illegal: Illegal = "error",
    ) -> None:
        RecordConstructorArgs.__init__(self, **_padded_options(maxima, beyond, max_actors, illegal))
        super().__init__(env, maxima, beyond, max_actors, illegal, flat_actions=True)
        assert isinstance(self.observation_space, spaces.Dict)
        self._keys = list(self.observation_space.spaces)
        boxes = [part for part in self.observation_space.spaces.values() if isinstance(part, spaces.Box)]
        bounds = [
            np.concatenate([np.ravel(b).astype(np.float32) for b in side])
            for side in ([box.low for box in boxes], [box.high for box in boxes])
        ]
        self.observation_space = spaces.Box(bounds[0], bounds[1], dtype=np.float32)

    def _face(self, seen: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        padded, info = super()._face(seen)
        together = [np.ravel(padded[name]).astype(np.float32) for name in self._keys]
        return np.concatenate(together), info


def _padded_options(maxima: Any, beyond: Any, max_actors: Any, illegal: Any) -> dict[str, Any]:
    """A padded face's options as plain values, for its spec."""
    if isinstance(beyond, Nearest):
        beyond = {"reference": beyond.reference, "features": list(beyond.features)}
    return {
        "maxima": dict(maxima) if isinstance(maxima, Mapping) else maxima,
        "beyond": beyond,
        "max_actors": dict(max_actors) if isinstance(max_actors, Mapping) else max_actors,
        "illegal": illegal,
    }


def to_gymnasium(
    env: gymnasium.Env[Any, Any],
    layout: Layout = "ragged",
    *,
    maxima: Mapping[str, int] | int | None = None,
    beyond: Beyond = "error",
    max_actors: Mapping[str, int] | None = None,
    illegal: Illegal = "error",
    flat_actions: bool = False,
    separator: str = "/",
) -> GymnasiumFace:
    """Show an entity environment with Gymnasium's own spaces.

        env = ez.to_gymnasium(MyEnv(), "padded", maxima={"Drone": 8, "Mineral": 32}, beyond="drop")

    Args:
        env: an environment with an `EntitySpace`.
        layout: "ragged" (`RaggedFace`), "padded" (`PaddedFace`) or "flat" (`FlatFace`).
        maxima: the most entities of each type, or of every type; for padded and flat.
        beyond: what to do with more: "error", "drop" some at random, or keep those that are `Nearest`.
        max_actors: the most actors of an action; by default as many as there may be entities.
        illegal: what to do with a masked or missing choice. "error": raise an `ActionError`. "replace": take
            the first legal choice and count it in `info["illegal_choices"]`, for learners and tests that know
            no masks (Gymnasium's `check_env`, PettingZoo's API tests, SB3's PPO without masks).
        flat_actions: with padded observations too, one Discrete, MultiDiscrete or Box instead of a Dict of
            actions, as Stable-Baselines3 and most other learners need. The flat layout always has one.
        separator: what joins the keys of ragged and padded observations, "." for "actions.Move.mask". HDF5
            takes "/" for its folders, so Minari needs another one.

    Raises:
        TypeError: `env` is no entity environment.
        ValueError: an option that doesn't fit the layout or the environment.
    """
    if layout == "ragged":
        if maxima is not None or max_actors is not None or beyond != "error" or flat_actions:
            raise ValueError(
                "layout 'ragged': expected none of maxima, max_actors, beyond and flat_actions, got at"
                " least one. Remove them, or use layout='padded' or 'flat'"
            )
        return RaggedFace(env, illegal, separator)
    one_of("layout", layout, ("ragged", "padded", "flat"))
    if maxima is None:
        raise ValueError(
            f"layout {layout!r}: maxima is missing: expected the maximum number of entities of each"
            " type, got None. Pass maxima="
        )
    if layout == "padded":
        return PaddedFace(env, maxima, beyond, max_actors, illegal, flat_actions, separator)
    return FlatFace(env, maxima, beyond, max_actors, illegal)
