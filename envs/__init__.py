"""What an entity environment is (floor 1: knows `ragged` and Gymnasium)."""

from .batch import ActionMask, EntityBatch, batch_observations, concatenate_batches, unbatch_observation
from .errors import ActionError, ObservationError, WorkerError
from .observation import (
    CategoricalAction,
    CategoricalMask,
    GlobalCategoricalAction,
    GlobalCategoricalMask,
    Observation,
    SelectEntityAction,
    SelectEntityMask,
)
from .spaces import Categorical, EntityActionSpace, EntitySpace, GlobalCategorical, SelectEntity
from .vector import EntityVectorEnv, sample_actions

__all__ = [
    "ActionError",
    "ActionMask",
    "Categorical",
    "CategoricalAction",
    "CategoricalMask",
    "EntityActionSpace",
    "EntityBatch",
    "EntitySpace",
    "EntityVectorEnv",
    "GlobalCategorical",
    "GlobalCategoricalAction",
    "GlobalCategoricalMask",
    "Observation",
    "ObservationError",
    "SelectEntity",
    "SelectEntityAction",
    "SelectEntityMask",
    "WorkerError",
    "batch_observations",
    "concatenate_batches",
    "sample_actions",
    "unbatch_observation",
]
