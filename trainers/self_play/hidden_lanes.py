"""Hide lanes that opponents play from the learner.

Shape alphabet: E environments (lanes).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import EntityBatch
from ...ragged import RaggedArray


def without_actors(batch: EntityBatch, lanes: NDArray[np.bool_]) -> EntityBatch:
    """Return `batch` without actors in these `lanes` (E,); their entities stay."""

    def emptied(array: RaggedArray) -> RaggedArray:
        kept = ~array.broadcast(lanes)
        return RaggedArray.from_lengths(array.values[kept], np.where(lanes, 0, array.lengths))

    actions = {name: part.map(emptied) for name, part in batch.actions.items()}
    return replace(batch, actions=actions)


def hide_infos(info: dict[str, Any], lanes: NDArray[np.bool_]) -> dict[str, Any]:
    """Return `info` of a step without the values of these `lanes` (E,).

    A value has lanes where `info` has a mask `_key` (E,) beside the `key`, as in Gymnasium's vector
    environments. The last observations of these lanes are left out.
    """
    hidden = dict(info)
    for key, mask in info.items():
        if key.startswith("_") and key[1:] in info and getattr(mask, "shape", None) == lanes.shape:
            hidden[key] = mask & ~lanes
    if "final_obs" in info:
        shown = ~lanes[np.flatnonzero(info["_final_obs"])]  # final_obs holds these, in this order
        hidden["final_obs"] = info["final_obs"].gather(np.flatnonzero(shown))
    return hidden
