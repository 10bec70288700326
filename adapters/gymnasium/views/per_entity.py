"""`PerEntity`: the declaration that numbers of an action belong to entities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .scope import ViewError


@dataclass(frozen=True)
class PerEntity:
    """Number i of an action belongs to entity i, or selects it.

    - Discrete(n): choice i selects entity i (`SelectEntity`); the last choices may be `others`;
    - MultiDiscrete and MultiBinary with n numbers of the same choices: entity i chooses number i
      (`Categorical`);
    - Box (n, ...): entity i chooses the numbers at index i (`Continuous`).

    The rest of the environment's action, for entities that are not in the observation, is 0.

    Args:
        entity: the type of the entities.
        index: the feature that numbers them, from 0; by default "row" if they have it (see `Rows` and
            `Columns`), else their order, with all n of them in every observation.
        actor: for Discrete, the type of the entity that selects, of which there is at most one; by default an
            entity "Actor" without features is added.
        others: for Discrete, names of its last choices where they are no entities, such as "skip". Each
            becomes an entity type without features, with one entity in every observation, to be selected.

    Raises:
        ViewError: `others` is no list of different names.
    """

    entity: str
    index: str | None = None
    actor: str | None = None
    others: Sequence[str] = ()

    def __post_init__(self) -> None:
        others = self.others
        listed = isinstance(others, list | tuple) and all(isinstance(name, str) and name for name in others)
        if not listed or len(set(others)) < len(others):
            raise ViewError(
                f"PerEntity({self.entity!r}): others: expected a list of different names, got {others!r}"
            )
        object.__setattr__(self, "others", tuple(others))
