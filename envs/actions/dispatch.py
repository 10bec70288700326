"""Plain actions, checked against the last observation, as what an environment's author gets.

Shape alphabet: A actors, E actees, C choices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ..batch.observation import (
    Action,
    CategoricalAction,
    ContinuousAction,
    GlobalCategoricalAction,
    GlobalContinuousAction,
    MultiCategoricalAction,
    SelectEntityAction,
)
from ..errors import ActionError
from ..spaces.entity_space import (
    ActionSpace,
    Categorical,
    Continuous,
    EntityActionSpace,
    GlobalCategorical,
    MultiCategorical,
)
from .resolve import ResolvedMask, ResolvedObservation


def plain_order(action: ActionSpace, given: Any) -> NDArray[Any]:
    """A plain order as a fresh array (A, *item_shape) of the action's dtype, empty if it orders nothing.

    Raises:
        ValueError: it has another shape, or no numbers of that kind, said as half a sentence.
    """
    if isinstance(action, Continuous):
        try:
            values = np.array([] if given is None else given, np.float32)
        except (TypeError, ValueError) as error:
            raise ValueError(f"not an array of numbers: {error}") from None
        if values.size == 0:
            return np.zeros((0, action.size), np.float32)
        if action.is_global and values.ndim == 1:
            values = values[None]
        if values.ndim != 2 or values.shape[1] != action.size:
            raise ValueError(f"must be numbers of shape (n, {action.size}), got {np.shape(given)}")
        return values
    try:
        order = np.array([] if given is None else given, ndmin=1)
    except ValueError as error:
        raise ValueError(f"not an array of integers: {error}") from None
    if order.size == 0:
        return np.zeros((0, *action.item_shape), np.int64)
    if order.dtype.kind not in "iu" or order.shape[1:] != action.item_shape:
        shape = ", ".join(["n", *map(str, action.item_shape)]) + ("" if action.item_shape else ",")
        raise ValueError(f"must be integers of shape ({shape}), got {order.dtype} {np.shape(given)}")
    return order.astype(np.int64, copy=False)


def ragged_orders(
    space: EntityActionSpace, names: Sequence[str], lanes: Sequence[Mapping[str, Any]]
) -> dict[str, RaggedArray]:
    """Plain actions, one dict per lane, as the actions of a vector environment.

    Args:
        names: what errors call the lanes.

    Raises:
        ActionError: one is no dict, names an unknown action or holds what is no array of its numbers. Whether
            the observation allows it is for the vector environment to say.
    """
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in space}
    for lane, actions in zip(names, lanes, strict=True):
        if not isinstance(actions, Mapping):
            raise ActionError(f"{lane}: an action is a dict from name to array, got {type(actions).__name__}")
        for name in actions:
            if name not in space.spaces:
                known = ", ".join(map(repr, space.spaces))
                raise ActionError(f"{lane}: action {name!r}: unknown action; known: {known}")
        for name, action in space.items():
            try:
                parts[name].append(plain_order(action, actions.get(name)))
            except ValueError as error:
                raise ActionError(f"{lane}: action {name!r}: {error}") from None
    return {
        name: RaggedArray.from_arrays(parts[name], dtype=action.dtype, inner_shape=action.item_shape)
        for name, action in space.items()
    }


class Dispatcher:
    """Turns plain actions into `Action`s with entity ids.

    Args:
        space: the actions that there are.
        env_name: what error messages call the environment.
    """

    def __init__(self, space: EntityActionSpace, env_name: str) -> None:
        self.space = space
        self.env_name = env_name

    def dispatch(self, resolved: ResolvedObservation, actions: Mapping[str, Any]) -> dict[str, Action]:
        """One `Action` for each per-entity action, be it without actors, and for each global one ordered.

        Raises:
            ActionError: naming env, action, actor and what was allowed.
        """
        if not isinstance(actions, Mapping):
            raise ActionError(
                f"{self.env_name}: an action is a dict from name to array, got {type(actions).__name__}"
            )
        for name in actions:
            if name not in self.space.spaces:
                self._fail(name, f"unknown action; known: {', '.join(map(repr, self.space.spaces))}")
        orders: dict[str, Action] = {}
        for name, action in self.space.items():
            mask = resolved.actions[name]
            if isinstance(action, Continuous):
                self._continuous(name, action, actions.get(name), resolved, orders)
                continue
            order = self._order(name, action, actions.get(name))
            if isinstance(action, GlobalCategorical):
                if len(order):
                    orders[name] = self._global_categorical(name, action, order, mask)
                continue
            self._check_length(name, order, mask, resolved)
            if isinstance(action, Categorical):
                orders[name] = self._categorical(name, action, order, mask, resolved)
            elif isinstance(action, MultiCategorical):
                orders[name] = self._multi_categorical(name, action, order, mask, resolved)
            else:
                orders[name] = self._select_entity(name, order, mask, resolved)
        return orders

    def _fail(self, name: str, sentence: str) -> NoReturn:
        raise ActionError(f"{self.env_name}: action {name!r}: {sentence}") from None

    def _order(self, name: str, action: ActionSpace, given: Any) -> NDArray[Any]:
        try:
            return plain_order(action, given)
        except ValueError as error:
            self._fail(name, str(error))

    def _continuous(
        self,
        name: str,
        action: Continuous,
        given: Any,
        resolved: ResolvedObservation,
        orders: dict[str, Action],
    ) -> None:
        values, mask = self._order(name, action, given), resolved.actions[name]
        if action.is_global:
            if len(values) > len(mask.mask):
                self._fail(name, f"{len(values)} rows of numbers came, expected at most {len(mask.mask)}")
            names = ["the global action"]
        else:
            self._check_length(name, values, mask, resolved)
            names = [resolved.names[i] for i in mask.actors] if len(values) else []
        inside = (values >= action.low) & (values <= action.high)
        if not inside.all():
            row, k = np.argwhere(~inside)[0]
            bounds = f"{action.low[k]} to {action.high[k]}"
            self._fail(name, f"actor {names[row]!r}: number {k} is {values[row, k]}, expected {bounds}")
        if not action.is_global:
            orders[name] = ContinuousAction(names, values)
        elif len(values):
            orders[name] = GlobalContinuousAction(values[0])

    def _check_length(
        self, name: str, order: NDArray[Any], mask: ResolvedMask, resolved: ResolvedObservation
    ) -> None:
        if len(order) and len(order) != len(mask.actors):
            if not len(mask.actors):
                self._fail(name, f"nobody may act at this step, but {len(order)} choices came")
            actors = ", ".join(repr(resolved.names[i]) for i in mask.actors)
            self._fail(name, f"{len(order)} choices came for {len(mask.actors)} actors ({actors})")

    def _global_categorical(
        self, name: str, action: GlobalCategorical, order: NDArray[np.int64], mask: ResolvedMask
    ) -> GlobalCategoricalAction:
        if not len(mask.mask):
            self._fail(name, "it cannot be taken at this step, but a choice came")
        if len(order) != 1:
            self._fail(name, f"{len(order)} choices came for one global choice")
        choice = int(order[0])
        if not (0 <= choice < action.num_choices and mask.mask[0, choice]):
            self._fail(name, _illegal_choice(action, choice, mask.mask[0]))
        return GlobalCategoricalAction(choice, action.choices[choice])

    def _categorical(
        self,
        name: str,
        action: Categorical,
        order: NDArray[np.int64],
        mask: ResolvedMask,
        resolved: ResolvedObservation,
    ) -> CategoricalAction:
        actors: list[Any] = []
        labels: list[str] = []
        for row, choice in enumerate(order.tolist()):
            actor = resolved.names[mask.actors[row]]
            if not (0 <= choice < action.num_choices and mask.mask[row, choice]):
                self._fail(name, f"actor {actor!r}: {_illegal_choice(action, choice, mask.mask[row])}")
            actors.append(actor)
            labels.append(action.choices[choice])
        return CategoricalAction(actors, order, labels)

    def _multi_categorical(
        self,
        name: str,
        action: MultiCategorical,
        order: NDArray[np.int64],
        mask: ResolvedMask,
        resolved: ResolvedObservation,
    ) -> MultiCategoricalAction:
        actors = [resolved.names[i] for i in mask.actors] if len(order) else []
        legal = action.legal(order, mask.mask[: len(order)]).all(1)
        if not legal.all():
            row = int(legal.argmin())
            self._fail(name, f"actor {actors[row]!r}: {action.illegal_in_words(order[row], mask.mask[row])}")
        return MultiCategoricalAction(actors, order, [action.labels(row) for row in order])

    def _select_entity(
        self, name: str, order: NDArray[np.int64], mask: ResolvedMask, resolved: ResolvedObservation
    ) -> SelectEntityAction:
        if not len(order):
            return SelectEntityAction([], [])
        assert mask.actees is not None
        column = {index: e for e, index in enumerate(mask.actees.tolist())}
        actors, actees = [], []
        for row, selected in enumerate(order.tolist()):
            actor = resolved.names[mask.actors[row]]
            if selected not in column or not mask.mask[row, column[selected]]:
                allowed = ", ".join(
                    f"{i} ({resolved.names[i]!r})" for i, e in column.items() if mask.mask[row, e]
                )
                self._fail(name, f"actor {actor!r}: entity {selected} is not allowed; allowed: {allowed}")
            actors.append(actor)
            actees.append(resolved.names[selected])
        return SelectEntityAction(actors, actees)


def _illegal_choice(action: Categorical, choice: int, mask: NDArray[np.bool_]) -> str:
    allowed = ", ".join(f"{c} ({action.choices[c]!r})" for c in np.flatnonzero(mask))
    label = f" ({action.choices[choice]!r})" if 0 <= choice < action.num_choices else ""
    return f"choice {choice}{label} is not allowed; allowed: {allowed}"
