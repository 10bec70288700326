"""Generated steps of a space, on which two implementations of a network are compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...envs import EntityBatch, EntitySpace, batch_observations
from ...envs.spaces.entity_space import random_visible
from ..rogue_net.config import RogueNetConfig

#: Entities of each type at the steps of the batch.
_COUNTS = (1, 0, 2, 5)


def generate(space: EntitySpace, settings: RogueNetConfig, rng: np.random.Generator) -> EntityBatch:
    """Return random steps of `space`: all entity types, actions, masks, hidden entities and an empty step."""
    single = None if settings.translation is None else settings.translation.reference
    observations = []
    for count in _COUNTS:
        counts = {name: min(count, 1) if name == single else count for name in space.entities}
        total = sum(counts.values())
        observation: dict[str, Any] = {
            "entities": {
                name: (rng.standard_normal((counts[name], len(features))) * 2 + 1).astype(np.float32)
                for name, features in space.entities.items()
            },
            "actions": {name: space.actions[name].sample_mask(total, rng) for name in space.actions},
        }
        if space.global_features:
            observation["globals"] = rng.standard_normal(len(space.global_features)).astype(np.float32)
        if space.hidden:
            observation["visible"] = random_visible(counts, observation["actions"], rng)
        observations.append(observation)
    return batch_observations(space, observations)
