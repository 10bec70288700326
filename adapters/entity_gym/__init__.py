"""Environments of the `entity_gym` package as ours, and ours as its."""

from .from_entity_gym import EntityGymEnv, from_entity_gym
from .package import entity_gym
from .random_streams import RandomStreams
from .to_entity_gym import EntityGymEnvironment, to_entity_gym

__all__ = [
    "EntityGymEnv",
    "EntityGymEnvironment",
    "RandomStreams",
    "entity_gym",
    "from_entity_gym",
    "to_entity_gym",
]
