"""`ez.games`: the built-in games, registered with Gymnasium as "entitize/<Name>-v0"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from ..registration import GAMES as GAMES
    from .cherry_pick import CherryPick as CherryPick
    from .conquest.orbit_wars.game import OrbitWars as OrbitWars
    from .conquest.orbit_wars.player import OrbitWarsPlayer as OrbitWarsPlayer
    from .conquest.planet_wars.game import PlanetWars as PlanetWars
    from .count import Count as Count
    from .floor_is_lava import FloorIsLava as FloorIsLava
    from .masked_bandit import MaskedBandit as MaskedBandit
    from .mine_sweeper import MineSweeper as MineSweeper
    from .minefield import Minefield as Minefield
    from .move_to_origin import MoveToOrigin as MoveToOrigin
    from .multi_armed_bandit import MultiArmedBandit as MultiArmedBandit
    from .multi_snake import MultiSnake as MultiSnake
    from .not_hotdog import NotHotdog as NotHotdog
    from .pick_matching_balls import PickMatchingBalls as PickMatchingBalls
    from .rock_paper_scissors import RockPaperScissors as RockPaperScissors
    from .snake_agents import MultiSnakeAgents as MultiSnakeAgents
    from .treasure_hunt import TreasureHunt as TreasureHunt
    from .xor import Xor as Xor
else:
    __getattr__, __dir__, __all__ = attach(__name__)
