"""`EntityActionSpace`: the named actions of an environment."""

from __future__ import annotations

from collections.abc import ItemsView, Mapping
from typing import Any

from gymnasium import spaces

from ..errors import check_flags, check_left_out
from .action_space import ActionSpace
from .array_checks import named_parts, ordered


class EntityActionSpace(spaces.Dict):
    """The named actions of an environment; an action is a dict from name to array.

    **Which actions must be given.** At each step the masks of the observation list the actors of every
    action.

    - An action that has actors takes one choice per actor. If its name is missing, or its array is empty,
      `step` raises an `ActionError` that names the environment (the lane of a vector environment), the
      action, and how many choices were expected. Nothing has moved, and the environment can be stepped.
    - An action without actors takes no choices: its name may be missing, or its array empty. So an inactive
      lane, and the lane of an agent that is dead or waits for its turn, needs no actions.
    - With `optional=True` the environment declares a no-op. Any action may then be left out, and its actors
      do nothing at this step. The choices of the other actions are carried out. An action with some choices,
      but not one per actor, is an `ActionError` in any case.

    No wrapper or adapter fills in a choice that was left out.

    `sample(mask=obs)` draws a legal action for an observation of the matching `EntitySpace`, or for its
    `obs["actions"]`. Without a mask it draws for the last observation of the environment, so that
    `env.step(env.action_space.sample())` is legal. Before the first reset the arrays are empty, because only
    an observation lists the actors. Environments that share one space object share its last observation.

    Args:
        optional: the environment has a no-op. It is no part of equality or of schemas: it changes neither
            what a network observes nor what it may choose.

    Raises:
        TypeError: `actions` is no dict from strings to action spaces, or `optional` is no bool.
    """

    # Of the class: spaces that were pickled before these attributes existed have them as well.
    optional = False
    _observed: Mapping[str, Any] | None = None  # the masks of the last observation

    def __init__(
        self, actions: Mapping[str, ActionSpace], seed: int | None = None, *, optional: bool = False
    ) -> None:
        self.optional = optional
        check_flags(self, "optional")
        named_parts(actions, "actions")
        for name, space in actions.items():
            if not isinstance(space, ActionSpace):
                raise TypeError(f"action {name!r}: expected an entitize action space, got {space!r}")
        super().__init__(ordered(actions), seed)

    def __getitem__(self, name: str) -> ActionSpace:
        return self.spaces[name]  # type: ignore[return-value]

    def items(self) -> ItemsView[str, ActionSpace]:
        """(name, action space) in order."""
        return self.spaces.items()  # type: ignore[return-value]

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> dict[str, Any]:
        check_left_out("EntityActionSpace", probability=probability)
        mask = self._observed if mask is None else mask
        if mask is None:
            return {name: space.sample() for name, space in self.items()}
        part = mask.get("actions", {})  # the masks, if `mask` is a whole observation
        masks = part if part.keys() == self.spaces.keys() else mask
        return {name: space.sample(mask=masks[name]) for name, space in self.items()}

    def observe(self, observation: Mapping[str, Any]) -> None:
        """Let `sample` without a mask draw for `observation`; environments call this at every step."""
        self._observed = observation["actions"]

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
