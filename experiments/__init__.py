"""Configurations of runs, their environments and networks (floor 4); queue, reports and studies in rooms.

The names below load their modules on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .config import EnvChoice as EnvChoice
    from .config import TrainArguments as TrainArguments
    from .config import TrainConfig as TrainConfig
    from .config import find_config as find_config
    from .config import read_run_config as read_run_config
    from .config_file import ConfigError as ConfigError
    from .config_file import read_config as read_config
    from .config_file import to_yaml as to_yaml
    from .environments import EnvConfig as EnvConfig
    from .environments import EvalConfig as EvalConfig
    from .environments import held_out as held_out
    from .environments import make_environments as make_environments
    from .environments import with_lanes as with_lanes
    from .errors import UserError as UserError
    from .networks import load_agent as load_agent
    from .networks import make_policy as make_policy
else:
    __getattr__, __dir__, __all__ = attach(__name__)
