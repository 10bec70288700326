"""`EntityActionSpace`: the named actions of an environment."""

from __future__ import annotations

from collections.abc import ItemsView, Mapping
from typing import Any

from gymnasium import spaces

from .action_space import ActionSpace
from .array_checks import ordered, unique_names


class EntityActionSpace(spaces.Dict):
    """The named actions of an environment; an action is a dict from name to array.

    `sample(mask=obs)` draws a legal action for an observation of the matching `EntitySpace`, or for its
    `obs["actions"]`; without a mask the arrays are empty.

    Args:
        optional: the environment has a no-op: an action that is left out (no such name, or an empty array)
            orders nothing. With False it is an `ActionError` wherever an entity may act. It is no part of
            equality or of schemas: it changes neither what a network observes nor what it may choose.
    """

    optional = True  # spaces that were pickled before this attribute existed

    def __init__(
        self, actions: Mapping[str, ActionSpace], seed: int | None = None, *, optional: bool = True
    ) -> None:
        self.optional = optional
        unique_names(list(actions), "action names")
        for name, space in actions.items():
            if not isinstance(space, ActionSpace):
                raise TypeError(f"action {name!r} must be an entitize action space, got {space!r}")
        super().__init__(ordered(actions), seed)

    def __getitem__(self, name: str) -> ActionSpace:
        return self.spaces[name]  # type: ignore[return-value]

    def items(self) -> ItemsView[str, ActionSpace]:
        """(name, action space) in order."""
        return self.spaces.items()  # type: ignore[return-value]

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> dict[str, Any]:
        if mask is None:
            return {name: space.sample() for name, space in self.items()}
        masks = mask if mask.keys() == self.spaces.keys() else mask["actions"]
        return {name: space.sample(mask=masks[name]) for name, space in self.items()}

    def contains(self, x: Any) -> bool:
        return (
            isinstance(x, dict)
            and x.keys() <= self.spaces.keys()
            and all(self.spaces[name].contains(choice) for name, choice in x.items())
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EntityActionSpace) and list(self.items()) == list(other.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"EntityActionSpace({', '.join(f'{k}={v!r}' for k, v in self.items())})"
