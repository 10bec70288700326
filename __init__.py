"""Entitize: entity-based reinforcement learning for Gymnasium and PettingZoo.

The names below load their modules on first use, so that `import entitize` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .adapters.microrts.registration import register as register_microrts
from .adapters.procgen.registration import register as register_procgen
from .envs.registration import register_games

if TYPE_CHECKING:
    from .trainers import sb3 as sb3

__version__ = "0.1.0"

#: Public name -> the module (relative to this package) that defines it.
_HOMES = {
    "RaggedArray": "ragged",
    "RaggedBuffer": "ragged",
    "ActionError": "envs",
    "Categorical": "envs",
    "Continuous": "envs",
    "CategoricalAction": "envs",
    "CategoricalMask": "envs",
    "ConformanceError": "envs",
    "ContinuousAction": "envs",
    "ContinuousMask": "envs",
    "EntityActionSpace": "envs",
    "EntityBatch": "envs",
    "EntityBatchBuffer": "envs",
    "EntityEnv": "envs",
    "EntitySpace": "envs",
    "EntityVectorEnv": "envs",
    "GlobalCategorical": "envs",
    "GlobalCategoricalAction": "envs",
    "GlobalCategoricalMask": "envs",
    "GlobalContinuous": "envs",
    "GlobalContinuousAction": "envs",
    "GlobalContinuousMask": "envs",
    "ListVectorEnv": "envs",
    "MultiAgentEnv": "envs",
    "MultiCategorical": "envs",
    "MultiCategoricalAction": "envs",
    "MultiCategoricalMask": "envs",
    "MultiSnakeAgents": "envs.games.snake_agents",
    "Observation": "envs",
    "ObservationError": "envs",
    "PaddedLayout": "envs",
    "ProcessVectorEnv": "envs",
    "SelectEntity": "envs",
    "SelectEntityAction": "envs",
    "SelectEntityMask": "envs",
    "ShardedVectorEnv": "envs",
    "WorkerError": "envs",
    "check_entity_env": "envs",
    "check_multi_agent_env": "adapters.pettingzoo.to_pettingzoo.multi_agent_checker",
    "make_vec": "envs",
    "register_env": "envs",
    "register_vec": "envs",
    "EntityWrapper": "adapters.gymnasium",
    "Nearest": "adapters.gymnasium",
    "ViewError": "adapters.gymnasium",
    "to_gymnasium": "adapters.gymnasium",
    "views": "adapters.gymnasium",
    "wrap": "adapters.gymnasium",
    "wrap_vec": "adapters.gymnasium",
    "from_entity_gym": "adapters.entity_gym",
    "to_entity_gym": "adapters.entity_gym",
    "to_pettingzoo": "adapters.pettingzoo.to_pettingzoo.conversion",
    "Obs": "envs.entities",
    "Scale": "envs.entities",
    "declare": "envs.entities",
    "entity": "envs.entities",
    "orders": "envs.entities",
    "GameView": "adapters.pettingzoo",
    "Seen": "adapters.pettingzoo",
    "from_pettingzoo": "adapters.pettingzoo",
    "PaddedRogueNet": "policies.padded",
    "RogueNet": "policies.rogue_net",
    "GridNet": "policies.baselines",
    "ImpalaGridNet": "policies.baselines",
    "ImpalaNet": "policies.baselines",
    "TransformerNet": "policies.baselines",
    "UnitActionNet": "policies.baselines",
    "OpponentPool": "trainers",
    "Agent": "policies.runtime",
    "load_agent": "policies.runtime",
    "PPO": "trainers",
    "PPOConfig": "trainers",
    "bootstrap_interval": "trainers",
    "evaluate": "trainers",
    "load_policy": "trainers",
    "past_self_play": "trainers",
}

#: Public name -> the module (relative to this package) that it is.
_MODULES = {"sb3": "trainers.sb3"}

__all__ = ["__version__", *_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = importlib.import_module(f".{_MODULES[name]}", __name__)
    elif name in _HOMES:
        value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


register_games()
register_procgen()
register_microrts()
