"""Entitize: entity-based reinforcement learning for Gymnasium and PettingZoo.

The names below load their modules at first use, so `import entitize` stays light: no torch, Numba or Java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .adapters.padded_id import register as register_padded_id
from .adapters.registration import register_engines
from .envs.registration import register_games
from .lazy import attach, make_importable
from .moved_modules import register as register_moved_modules
from .version import __version__ as __version__

if TYPE_CHECKING:  # the public names, read by type checkers and by `attach`
    from . import datasets as datasets
    from . import ragged as ragged
    from . import viewer as viewer
    from .adapters import atari as atari
    from .adapters import griddly as griddly
    from .adapters import gymnasium as gymnasium
    from .adapters import microrts as microrts
    from .adapters import pettingzoo as pettingzoo
    from .adapters import procgen as procgen
    from .adapters import vizdoom as vizdoom
    from .adapters.entity_gym import from_entity_gym as from_entity_gym
    from .adapters.entity_gym import to_entity_gym as to_entity_gym
    from .adapters.environment_resolver import make as make
    from .adapters.environment_resolver import make_vec as make_vec
    from .adapters.gymnasium import to_gymnasium as to_gymnasium
    from .adapters.gymnasium import views as views
    from .adapters.gymnasium import wrap as wrap
    from .adapters.gymnasium import wrap_vec as wrap_vec
    from .adapters.pettingzoo import from_pettingzoo as from_pettingzoo
    from .adapters.pettingzoo.to_pettingzoo.conversion import to_pettingzoo as to_pettingzoo
    from .adapters.programs import Program as Program
    from .adapters.programs import program as program
    from .datasets.recorder import record as record
    from .envs import ActionError as ActionError
    from .envs import Categorical as Categorical
    from .envs import Continuous as Continuous
    from .envs import EntityActionSpace as EntityActionSpace
    from .envs import EntityBatch as EntityBatch
    from .envs import EntityEnv as EntityEnv
    from .envs import EntityGame as EntityGame
    from .envs import EntitySpace as EntitySpace
    from .envs import EntityVectorEnv as EntityVectorEnv
    from .envs import GlobalCategorical as GlobalCategorical
    from .envs import GlobalContinuous as GlobalContinuous
    from .envs import MultiCategorical as MultiCategorical
    from .envs import Observation as Observation
    from .envs import ObservationError as ObservationError
    from .envs import SelectEntity as SelectEntity
    from .envs import WorkerError as WorkerError
    from .envs import actions as actions
    from .envs import batch as batch
    from .envs import check_entity_env as check_entity_env
    from .envs import entities as entities
    from .envs import errors as errors
    from .envs import games as games
    from .envs import register_env as register_env
    from .envs import register_vec as register_vec
    from .envs import spaces as spaces
    from .envs import vector as vector
    from .envs.entities import Obs as Obs
    from .envs.entities import Scale as Scale
    from .envs.entities import declare as declare
    from .envs.entities import entity as entity
    from .policies import baselines as baselines
    from .policies import runtime as runtime
    from .policies.export import export_onnx as export_onnx
    from .policies.loading import load_policy as load_policy
    from .policies.padded import PaddedRogueNet as PaddedRogueNet
    from .policies.padded_actor_critic import PaddedActorCritic as PaddedActorCritic
    from .policies.policy import Policy as Policy
    from .policies.rogue_net import RogueNet as RogueNet
    from .policies.runtime import load_agent as load_agent
    from .ragged import RaggedArray as RaggedArray
    from .trainers import PPO as PPO
    from .trainers import PPOConfig as PPOConfig
    from .trainers import distributed as distributed
    from .trainers import evaluate as evaluate
    from .trainers import evaluation as evaluation
    from .trainers import sb3 as sb3
    from .trainers import self_play as self_play
    from .trainers.cloning import BehaviorCloning as BehaviorCloning
    from .trainers.cloning import BehaviorCloningConfig as BehaviorCloningConfig
    from .trainers.program_training import train as train
    from .trainers.runs.checkpoint import save_policy as save_policy
else:
    #: Namespace -> the names in it that were once names of this package.
    _MOVED = {
        "actions": "CategoricalAction CategoricalMask ContinuousAction ContinuousMask GlobalCategoricalAction"
        " GlobalCategoricalMask GlobalContinuousAction GlobalContinuousMask MultiCategoricalAction"
        " MultiCategoricalMask SelectEntityAction SelectEntityMask",
        "baselines": "GridNet ImpalaGridNet ImpalaNet TransformerNet UnitActionNet",
        "batch": "EntityBatchBuffer PaddedLayout",
        "entities": "orders",
        "errors": "ConformanceError",
        "evaluation": "bootstrap_interval",
        "games": "MultiSnakeAgents",
        "gymnasium": "EntityWrapper Nearest",
        "pettingzoo": "GameView MultiAgentEnv Seen check_multi_agent_env",
        "ragged": "RaggedBuffer",
        "runtime": "Agent",
        "self_play": "OpponentPool past_self_play",
        "vector": "ListVectorEnv ProcessVectorEnv ShardedVectorEnv",
        "views": "ViewError",
    }
    __getattr__, __dir__, __all__ = attach(__name__, _MOVED)

make_importable(__name__)
register_moved_modules()
register_games()
register_engines()
register_padded_id()
