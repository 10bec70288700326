"""The declarative way in: an author's own classes as entities, an `Enum` as an action.

    @ez.entity
    class Drone:
        x: float
        y: float
        kind: Literal["scout", "miner"]
        hp: Annotated[int, ez.Scale(1 / 100)]

    class Move(Enum):
        LEFT = 0
        RIGHT = 1

    observation_space, action_space = ez.declare(entities=[Drone], actions={"move": Move})
    ez.Obs(drones, actions={"move": drones})  # what the environment returns

Shape alphabet: n entities of a type, F features.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from inspect import get_annotations
from operator import attrgetter
from types import FunctionType
from typing import Any, TypeVar, dataclass_transform, overload

import numpy as np
from numpy.typing import NDArray

from . import (
    ActionSpace,
    Categorical,
    CategoricalAction,
    CategoricalMask,
    EntityActionSpace,
    EntitySpace,
    GlobalCategoricalMask,
    Observation,
)
from .actions import Mask
from .actions.array_checks import named_parts
from .entity_fields import FieldColumns, Scale, class_columns
from .errors import ObsError

__all__ = ["Obs", "Scale", "Schema", "declare", "entity", "orders", "schema_of"]

_Class = TypeVar("_Class", bound=type)
_Choice = TypeVar("_Choice", bound=Enum)


@dataclass(frozen=True)
class Schema:
    """Features and types of a class decorated with `entity`."""

    name: str
    features: tuple[str, ...]
    fields: tuple[tuple[str, FieldColumns], ...]

    def rows(self, entities: Sequence[Any], numbered: bool = True) -> NDArray[np.float32]:
        """The entities as rows (n, F).

        Args:
            numbered: an error says the number of the entity.

        Raises:
            ObservationError: a value that its field's annotation doesn't allow.
        """
        parts = []
        for field, columns in self.fields:
            values = list(map(attrgetter(field), entities))
            try:
                parts.append(columns.write(values))
            except (TypeError, ValueError) as error:
                found = columns.first_wrong(values) if numbered else None
                which, problem = (f" of entity {found[0]}", found[1]) if found else ("", str(error))
                raise ObsError(f"{self.name}.{field}{which}: {problem}") from None
        return np.concatenate(parts, 1) if parts else np.zeros((len(entities), 0), np.float32)


@overload
def entity(cls: _Class) -> _Class: ...
@overload
def entity(*, name: str | None = None, **options: Any) -> Callable[[_Class], _Class]: ...
@dataclass_transform(eq_default=False)
def entity(cls: Any = None, *, name: str | None = None, **options: Any) -> Any:
    """Make a class an entity type: a dataclass whose annotated fields are its features.

    Numbers and bool are features as they are; Enum and Literal become one-hot; tuples of fixed length, named
    tuples and nested dataclasses are flattened; `T | None` gets a feature that says whether it is there;
    `Annotated[T, ez.Scale(factor)]` scales. Fields with a leading underscore and ClassVars are left out.
    Entities are compared by identity, because the actors of an environment must be distinguishable.

    Args:
        name: the entity type's name; by default that of the class.
        options: of `dataclasses.dataclass`, such as `frozen` or `slots`.

    Raises:
        TypeError: a field whose annotation is no feature, named with what would be one; or a class that is a
            dataclass already.
    """
    frame = sys._getframe(1)  # classes in functions refer to names that only their function knows
    namespace = {**frame.f_globals, **frame.f_locals}

    def decorate(plain: type) -> type:
        if "__dataclass_fields__" in vars(plain):
            raise TypeError(
                f"{plain.__name__}: expected a class that is no dataclass, got a dataclass. Use @entity"
                " without @dataclass"
            )
        if options.get("eq"):
            raise TypeError(
                f"{plain.__name__}: eq: expected False (entities are compared by identity), got"
                " eq=True. Remove it"
            )
        _check_annotated(plain)
        made: Any = dataclass(**{**options, "eq": False})(plain)
        made.__entity__ = _schema(made, name or plain.__name__, namespace)
        return made

    return decorate if cls is None else decorate(cls)


def schema_of(cls: type) -> Schema:
    """Return the schema of a class decorated with `entity`.

    Raises:
        TypeError: the class has not been decorated (a subclass needs it again).
    """
    if not isinstance(cls, type):
        raise TypeError(f"expected an entity class, got {cls!r}")
    schema = vars(cls).get("__entity__")
    if not isinstance(schema, Schema):
        raise TypeError(
            f"{cls.__name__}: expected an entity class, got a class without @entity. Decorate it with @entity"
        )
    return schema


def _check_annotated(cls: type) -> None:
    """Refuse a class whose attributes have no declared types: its features would silently be none.

    Raises:
        TypeError: it names the attributes.
    """
    if any(map(get_annotations, cls.__mro__)):
        return
    plain = [name for name, value in vars(cls).items() if not name.startswith("_") and _is_data(value)]
    if plain or isinstance(vars(cls).get("__init__"), FunctionType):
        got = f"the attributes {', '.join(plain)} without types" if plain else "only __init__"
        raise TypeError(
            f"{cls.__name__}: expected fields with declared types, got {got}. Write them as"
            f" {plain[0] if plain else 'x'}: float"
        )


def _is_data(value: Any) -> bool:
    return not (callable(value) or isinstance(value, property | classmethod | staticmethod | cached_property))


def _schema(cls: type, name: str, namespace: Mapping[str, Any]) -> Schema:
    fields = class_columns(cls, cls.__name__, namespace)
    features = tuple(field + suffix for field, columns in fields.items() for suffix in columns.names)
    return Schema(name, features, tuple(fields.items()))


# -- spaces, observations and orders -----------------------------------------------------------------------


def declare(
    entities: Sequence[type],
    actions: Mapping[str, type[Enum] | ActionSpace],
    global_features: type | Sequence[str] = (),
    hidden: bool = False,
    optional: bool = False,
) -> tuple[EntitySpace, EntityActionSpace]:
    """The spaces of an environment from its author's classes.

    Args:
        entities: the entity types, classes decorated with `entity`.
        actions: by name an Enum, for a `Categorical` action with its members as choices, or an action space.
        global_features: a class decorated with `entity`, or names.
        hidden: some entities may be hidden from the policy.
        optional: the environment has a no-op; see `EntityActionSpace`.

    Returns:
        `observation_space, action_space`.

    Raises:
        TypeError: a class that is no entity, an action that is neither an Enum nor an action space, or an
            argument of the wrong kind.
        ValueError: an Enum without members, or names that repeat.
    """
    named_parts(actions, "actions")
    spaces = {name: _action_space(name, action) for name, action in actions.items()}
    if isinstance(entities, str | set | frozenset | Mapping) or not isinstance(entities, Iterable):
        raise TypeError(
            f"entities: expected a list of entity classes, got {entities!r}. Write them as entities=[Drone];"
            " names of types and features without classes make an EntitySpace"
        )
    schemas = [_listed_schema(cls) for cls in entities]
    repeated = {s.name for s in schemas if sum(s.name == other.name for other in schemas) > 1}
    if repeated:
        raise TypeError(
            "entities: expected distinct entity types, got two classes of entity type"
            f" {min(repeated)!r}. Rename one: @entity(name=…)"
        )
    features = schema_of(global_features).features if isinstance(global_features, type) else global_features
    action_space = EntityActionSpace(spaces, optional=optional)
    return EntitySpace({s.name: s.features for s in schemas}, action_space, features, hidden), action_space


def _listed_schema(cls: Any) -> Schema:
    try:
        return schema_of(cls)
    except TypeError as error:
        raise TypeError(f"entities: {error}") from None


def _action_space(name: str, action: Any) -> ActionSpace:
    if isinstance(action, ActionSpace):
        return action
    if not (isinstance(action, type) and issubclass(action, Enum)):
        raise TypeError(f"action {name!r}: expected an Enum or an action space, got {action!r}")
    try:
        return Categorical(action)
    except ValueError as error:
        raise ValueError(f"action {name!r}: {error}") from None


#: Actors: entities, or a mapping from each to the Enum members that it may choose; for a global action an
#: Enum or the members that may be chosen; or a mask as `Observation` has it.
Acting = Mask | type[Enum] | Mapping[Any, Iterable[Enum]] | Iterable[Any]


class Obs(Observation):
    """One step as lists of an author's own objects.

        ez.Obs(player, enemies, actions={"move": [player]})
        ez.Obs(entities=[*drones, *minerals], actions={"move": {drone: [Move.LEFT] for drone in drones}})

    Args:
        things: entities, and lists of them.
        entities: more entities.
        globals: one object of a class decorated with `entity`, or the numbers.
        actions: the actors of this step, by action. A list of entities: those, without restriction. A
            mapping: for each entity the Enum members that it may choose. An Enum, or a list of its members: a
            global action with these choices. Or a mask as for `Observation`; ids are the objects themselves.
        hidden: entities that the value function may see and the policy may not.
        score: the score of the game so far, where a program asks an agent (`ez.program`).
        reward: in place of `score` the reward since the last question.

    Raises:
        TypeError: an object whose class is no entity.
        ObservationError: a value that its field's annotation doesn't allow, or a hidden entity that is not
            there.
    """

    def __init__(
        self,
        *things: Any,
        entities: Iterable[Any] = (),
        globals: Any = (),
        actions: Mapping[str, Acting] | None = None,
        hidden: Iterable[Any] = (),
        score: float | None = None,
        reward: float | None = None,
    ) -> None:
        self.score, self.reward = score, reward
        #: The first of `things` if it is a single entity; it acts where `actions` says nothing.
        self.first: Any = things[0] if things and _is_entity(things[0]) else None
        by_type: dict[Schema, list[Any]] = {}
        for thing in (*_flat(things), *_flat((entities,))):
            by_type.setdefault(_schema_of_object(thing), []).append(thing)
        names = [schema.name for schema in by_type]
        if len({*names}) < len(names):
            twice = max(names, key=names.count)
            raise ObsError(
                f"entity type {twice!r}: expected objects of one class, got objects of {names.count(twice)}"
                " classes of that name. Make old objects anew, or name a class: @entity(name=…)"
            )
        unseen = {id(thing) for thing in _flat((hidden,))}
        if not unseen <= {id(thing) for group in by_type.values() for thing in group}:
            raise ObsError("hidden: expected objects that are among the entities, got another object")
        if not isinstance(actions, Mapping | None):
            raise ObsError(f"actions: expected a dict from action to actors, got {actions!r:.200}")
        #: True if `actions` says who acts, even where that is nobody.
        self.names_actors: bool = bool(actions)
        schema = vars(type(globals)).get("__entity__")
        #: The features of `globals`, if it is an object.
        self.global_names = schema.features if isinstance(schema, Schema) else None
        masks = {name: _mask(name, acting) for name, acting in (actions or {}).items()}
        super().__init__(
            entities={schema.name: schema.rows(group) for schema, group in by_type.items()},
            globals=schema.rows([globals], numbered=False)[0] if isinstance(schema, Schema) else globals,
            actions={name: mask for name, mask in masks.items() if mask is not None},
            ids={schema.name: group for schema, group in by_type.items()},
            visible={s.name: [id(thing) not in unseen for thing in group] for s, group in by_type.items()}
            if unseen
            else {},
        )


def _flat(things: Iterable[Any]) -> Iterable[Any]:
    for thing in things:
        if _is_list(thing) and not isinstance(thing, str):  # a string holds strings forever
            yield from _flat(thing)
        else:
            yield thing


def _is_list(thing: Any) -> bool:
    return isinstance(thing, Iterable) and not _is_entity(thing)


def _schema_of_object(thing: Any) -> Schema:
    if not _is_entity(thing):
        raise TypeError(
            "Obs: expected entities (objects of classes decorated with @entity) and lists of them, got"
            f" {thing!r}"
        )
    return schema_of(type(thing))


def _is_entity(thing: Any) -> bool:
    return isinstance(vars(type(thing)).get("__entity__"), Schema)


def _mask(name: str, acting: Acting) -> Mask | None:
    if isinstance(acting, Mask):
        return acting
    if isinstance(acting, type) and issubclass(acting, Enum):
        return GlobalCategoricalMask(choices=_names(acting))
    if isinstance(acting, Mapping):
        if not acting:
            return None
        wrong = [members for members in acting.values() if not _is_list(members)]
        if wrong:
            raise ObsError(
                f"action {name!r}: expected a list of choices for each actor, got {wrong[0]!r:.200}"
            )
        choices = [list(members) for members in acting.values()]
        kind = _enum_of(name, choices)
        mask = [[member in members for member in kind] for members in choices]
        return CategoricalMask(actor_ids=list(acting), mask=mask, choices=_names(kind))
    if not _is_list(acting):
        raise ObsError(
            f"action {name!r}: expected a list of actors, a dict from actor to choices, an Enum or a mask,"
            f" got {acting!r:.200}"
        )
    members = list(acting)
    if not members:
        return None
    if isinstance(members[0], Enum):
        kind = _enum_of(name, [members])
        mask_row = [member in members for member in kind]
        return GlobalCategoricalMask(mask=mask_row, choices=_names(kind))
    return CategoricalMask(actor_ids=members)


def _enum_of(name: str, choices: list[list[Any]]) -> type[Enum]:
    """The one Enum whose members every actor chooses from."""
    kinds = {type(member) for members in choices for member in members}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None or not issubclass(kind, Enum) or not all(choices):
        hint = (
            "To select among entities, give a SelectEntityMask"
            if all(choices)
            else "Remove actors without a choice"
        )
        raise ObsError(
            f"action {name!r}: expected members of one Enum as the choices of each actor, got"
            f" {choices!r:.200}. {hint}"
        )
    return kind


def _names(kind: type[Enum]) -> list[str]:
    return [member.name for member in kind]


def orders(action: CategoricalAction | None, choices: type[_Choice]) -> list[tuple[Any, _Choice]]:
    """Return pairs of an author's object and its choice, a member of `choices`.

    for drone, move in ez.entities.orders(actions["move"], Move):
    """
    if action is None:
        return []
    return [(actor, choices[label]) for actor, label in zip(action.actors, action.labels, strict=True)]
