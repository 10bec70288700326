"""Decisions for a game that asks for members of its own Enums; agents and agents in training share this."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, TypeVar

from .actions import (
    Action,
    ActionSpace,
    CategoricalAction,
    CategoricalMask,
    EntityActionSpace,
    GlobalCategoricalAction,
    GlobalCategoricalMask,
)
from .batch.resolve import Observation
from .entities import Obs, orders
from .errors import ObservationError

_Choice = TypeVar("_Choice", bound=Enum)

#: Decides for every actor of an observation: an `Action` by name.
Decide = Callable[[Observation], Mapping[str, Action]]


def decide_members(
    seen: Observation, choices: type[_Choice], actions: EntityActionSpace, decide: Decide
) -> _Choice | dict[Any, _Choice]:
    """Decide for the action whose choices are the members of an Enum.

    Args:
        seen: one step. If it names no actions, its first entity acts (the step, for a global action).
        choices: the Enum that the action was declared with.
        actions: what the network can decide.
        decide: makes the decision.

    Returns:
        one member if `seen` names no actions or the action is global, else a member for each actor: none
        where the list of actors is empty.

    Raises:
        TypeError: no action, or more than one, has these choices; or `seen` is no observation.
        ObservationError: no actor is named, and the observation does not start with a single entity.
    """
    name = action_with_choices(choices, actions)
    if not isinstance(seen, Observation):
        raise TypeError(f"expected an observation, such as ez.Obs(…), got {seen!r}")
    is_single = not (seen.names_actors if isinstance(seen, Obs) else seen.actions)
    if is_single:
        seen = asking_first(seen, name, actions[name])
    decided = decide(seen).get(name)
    if isinstance(decided, GlobalCategoricalAction):
        return choices[decided.label]
    members = dict(orders(decided if isinstance(decided, CategoricalAction) else None, choices))
    return next(iter(members.values())) if is_single else members


def decide_member(
    seen: Observation, choices: type[_Choice], actions: EntityActionSpace, decide: Decide
) -> _Choice:
    """Make one decision. Same contract as `decide_members`.

    Raises:
        ObservationError: not exactly one actor may act.
    """
    decided = decide_members(seen, choices, actions, decide)
    if isinstance(decided, choices):
        return decided
    assert isinstance(decided, dict)
    if len(decided) != 1:
        name = action_with_choices(choices, actions)
        raise ObservationError(
            f"action {name!r}: {len(decided)} actors may act, expected 1; for more use act"
        )
    return next(iter(decided.values()))


def action_with_choices(choices: type[Enum], actions: EntityActionSpace) -> str:
    """Return the name of the action that was declared with an Enum.

    Raises:
        TypeError: `choices` is no Enum, or not exactly one action has these choices.
    """
    if not (isinstance(choices, type) and issubclass(choices, Enum)):
        raise TypeError(f"choose: expected a subclass of Enum, got {choices!r}")
    names = tuple(member.name for member in choices)
    fitting = [name for name, action in actions.items() if getattr(action, "choices", None) == names]
    if len(fitting) != 1:
        known = ", ".join(f"{name!r}: {action!r}" for name, action in actions.items())
        raise TypeError(
            f"{len(fitting)} actions have the choices of {choices.__name__} ({', '.join(names)}),"
            f" expected 1; there are {known}"
        )
    return fitting[0]


def asking_first(seen: Observation, name: str, action: ActionSpace) -> Observation:
    """Return `seen` with its first entity as the actor of an action, or as the step of a global one.

    Raises:
        ObservationError: it does not start with a single entity.
    """
    if action.is_global:
        return _with_mask(seen, name, GlobalCategoricalMask())
    first = seen.first if isinstance(seen, Obs) else None
    if first is None:
        raise ObservationError(
            f"action {name!r}: expected an actor, got an observation without actions that does not start"
            f" with a single entity. Name the actors: actions={{{name!r}: [...]}}"
        )
    return _with_mask(seen, name, CategoricalMask(actor_ids=[first]))


def _with_mask(seen: Observation, name: str, mask: Any) -> Observation:
    plain = Observation(seen.entities, seen.globals, {}, seen.ids, seen.visible)
    return replace(plain, actions={name: mask})
