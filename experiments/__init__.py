"""Configurations of runs, their environments and networks (floor 4); queue, reports and studies in rooms.

The names below load their modules on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .actors import Actors as Actors
    from .arguments import Pairs as Pairs
    from .arguments import Series as Series
    from .arguments import check_at_least as check_at_least
    from .arguments import parse as parse
    from .card import check_new_folder as check_new_folder
    from .card import write_card as write_card
    from .config import CONFIGS as CONFIGS
    from .config import EnvChoice as EnvChoice
    from .config import OpponentsConfig as OpponentsConfig
    from .config import TrainArguments as TrainArguments
    from .config import TrainConfig as TrainConfig
    from .config import config_names as config_names
    from .config import find_config as find_config
    from .config import read_agent_config as read_agent_config
    from .config import read_run_config as read_run_config
    from .config import with_flags_over_file as with_flags_over_file
    from .config_file import ConfigError as ConfigError
    from .config_file import read_config as read_config
    from .config_file import to_yaml as to_yaml
    from .environments import EnvConfig as EnvConfig
    from .environments import EvalConfig as EvalConfig
    from .environments import Levels as Levels
    from .environments import boards_of as boards_of
    from .environments import check_series as check_series
    from .environments import evaluation_env as evaluation_env
    from .environments import held_out as held_out
    from .environments import is_microrts as is_microrts
    from .environments import is_procgen as is_procgen
    from .environments import make_environments as make_environments
    from .environments import make_whole_games as make_whole_games
    from .environments import settings_of as settings_of
    from .environments import with_lanes as with_lanes
    from .errors import UserError as UserError
    from .listening import saying_that_no_game_is_there as saying_that_no_game_is_there
    from .listening import stored_space as stored_space
    from .network_options import ROGUE_NET as ROGUE_NET
    from .networks import RANDOM as RANDOM
    from .networks import initial_policy as initial_policy
    from .networks import load_network as load_network
    from .networks import make_policy as make_policy
    from .networks import make_rogue_net as make_rogue_net
    from .training import train as train
    from .user_code import where_raised as where_raised
else:
    __getattr__, __dir__, __all__ = attach(__name__)
