"""`PerEntity`: the declaration that numbers of an action belong to entities."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PerEntity:
    """Number i of an action belongs to entity i, or selects it.

    - Discrete(n): choice i selects entity i (`SelectEntity`);
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
    """

    entity: str
    index: str | None = None
    actor: str | None = None
