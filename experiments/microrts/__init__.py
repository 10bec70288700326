"""Matches of networks against μRTS' bots: plan, play, score, and compare with published results.

The names below load their modules on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .match_evaluation import evaluate_matches as evaluate_matches
    from .match_evaluation import play_jobs as play_jobs
    from .match_plan import MicroRTSEvalArguments as MicroRTSEvalArguments
    from .match_scores import mean_rate_interval as mean_rate_interval
    from .match_scores import num_distinct as num_distinct
    from .match_scores import report as report
    from .match_scores import score_all as score_all
    from .matches import Duel as Duel
    from .matches import MatchJob as MatchJob
    from .matches import MatchPlayer as MatchPlayer
    from .matches import MatchSettings as MatchSettings
    from .matches import PlayedMatches as PlayedMatches
    from .matches import plan_jobs as plan_jobs
    from .matches import play_games as play_games
    from .published_microrts import ALL_BOTS as ALL_BOTS
    from .published_microrts import PAPER_BOTS as PAPER_BOTS
    from .published_microrts import PUBLISHED as PUBLISHED
    from .published_microrts import SEARCH_BOTS as SEARCH_BOTS
    from .published_microrts import SHOWN as SHOWN
    from .published_microrts import SOURCES as SOURCES
    from .published_microrts import PublishedAgent as PublishedAgent
    from .published_microrts import Rates as Rates
    from .published_microrts import published_for as published_for
else:
    __getattr__, __dir__, __all__ = attach(__name__)
