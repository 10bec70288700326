"""The actions of players who send fleets: which planets choose a target and a share of their ships."""

from __future__ import annotations

import numpy as np

from ....ragged import RaggedArray
from ....ragged.compiled import compiled
from ...actions import ActionMask, Categorical, EntityActionSpace, SelectEntity
from ...batch.entity_batch import EntityBatch
from ...vector.native_arrays import Floats, Ints, all_true

#: The parts of a planet's ships that can be sent.
SHARES = (0.25, 0.5, 0.75, 1.0)
_SHARES = np.array(SHARES)


def sending_actions() -> EntityActionSpace:
    """Return the actions of a planet: `Target`, a planet, and `Share`, a part of its ships."""
    shares = Categorical([f"{share:.0%}" for share in SHARES])
    return EntityActionSpace({"Target": SelectEntity(), "Share": shares})


def sending_batch(
    offsets: Ints, planets: Floats, fleets: Floats | None, global_rows: Floats, actors: Ints, actees: Ints
) -> EntityBatch:
    """Return what players see and may do; `offsets` (4, L + 1) are of planets, fleets, actors and actees.

    `fleets` None: they are no entities.
    """
    acting = RaggedArray.unchecked(actors, offsets[2])
    pairs = np.concatenate([[0], np.cumsum(np.diff(offsets[2]) * np.diff(offsets[3]))])
    target = ActionMask(
        acting,
        RaggedArray.unchecked(all_true(int(pairs[-1])), pairs),
        RaggedArray.unchecked(actees, offsets[3]),
    )
    share = ActionMask(acting, RaggedArray.unchecked(all_true((len(actors), len(SHARES))), offsets[2]))
    entities = {"Planet": RaggedArray.unchecked(planets, offsets[0])}
    if fleets is not None:
        entities["Fleet"] = RaggedArray.unchecked(fleets, offsets[1])
    return EntityBatch(entities, global_rows, {"Target": target, "Share": share})


@compiled
def chosen_ships(ships: int, share: int) -> int:
    """Return how many of a planet's ships a choice of `Share` sends."""
    return max(1, int(ships * _SHARES[share]))
