"""One environment's plain actions: as a batch, and as what an environment's author gets.

Shape alphabet: A actors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ..actions.entity_action_space import EntityActionSpace
from ..actions.kinds import Action
from ..errors import ActionError
from .batch_actions import check_action
from .resolve import ResolvedObservation


def parsed_actions(
    space: EntityActionSpace, env_name: str, actions: Mapping[str, Any]
) -> dict[str, NDArray[Any]]:
    """The plain actions of one environment, (A, *item_shape) each, empty where one is left out.

    Raises:
        ActionError: no dict, an unknown name, or no array of an action's numbers. Masks are not looked at.
    """
    if not isinstance(actions, Mapping):
        raise ActionError(
            f"{env_name}: action: expected a dict from action name to array, got {type(actions).__name__}"
        )
    for name in actions:
        if name not in space.spaces:
            known = ", ".join(map(repr, space.spaces))
            raise ActionError(f"{env_name}: action {name!r}: unknown action: expected one of {known}")
    parsed = {}
    for name, action in space.items():
        try:
            parsed[name] = action.parse(actions.get(name))
        except ValueError as error:
            raise ActionError(f"{env_name}: action {name!r}: {error}") from None
    return parsed


def ragged_orders(
    space: EntityActionSpace, names: Sequence[str], lanes: Sequence[Mapping[str, Any]]
) -> dict[str, RaggedArray]:
    """Plain actions, one dict per lane, as the actions of a vector environment.

    Args:
        names: what errors call the lanes.

    Raises:
        ActionError: as `parsed_actions`; the vector environment checks the masks.
    """
    parsed = [parsed_actions(space, name, actions) for name, actions in zip(names, lanes, strict=True)]
    return {
        name: RaggedArray.from_arrays(
            [lane[name] for lane in parsed], dtype=action.dtype, inner_shape=action.item_shape
        )
        for name, action in space.items()
    }


class Dispatcher:
    """Checks the plain actions of one environment and makes `Action`s with entity ids of them.

    Args:
        space: the environment's actions.
        env_name: what error messages call the environment.
    """

    def __init__(self, space: EntityActionSpace, env_name: str) -> None:
        self.space = space
        self.env_name = env_name

    def dispatch(self, resolved: ResolvedObservation, actions: Mapping[str, Any]) -> dict[str, Action]:
        """Return one `Action` for each per-entity action, and for each global one that is taken.

        Raises:
            ActionError: naming env, action, actor and what was allowed.
        """
        parsed = parsed_actions(self.space, self.env_name, actions)
        words = _StepWords(self.env_name, resolved.names)
        dispatched: dict[str, Action] = {}
        for name, action in self.space.items():
            items, part = parsed[name], resolved.actions[name]
            given = RaggedArray.unchecked(items, np.array([0, len(items)], np.int64))
            check_action(name, action, part, given, words, self.space.optional)
            acting = [] if action.is_global or not len(items) else part.actors.values.tolist()
            result = action.to_author([resolved.names[i] for i in acting], items, resolved.names)
            if result is not None:
                dispatched[name] = result
        return dispatched


class _StepWords:
    """`StepWords` for the single step of one environment: entities by id."""

    def __init__(self, env_name: str, names: Sequence[Any]) -> None:
        self._env_name, self._names = env_name, names

    def step(self, step: int) -> str:
        return self._env_name

    def entity(self, step: int, index: int) -> str:
        return repr(self._names[index])

    def actor(self, step: int, index: int) -> str:
        return f"actor {self._names[index]!r}"
