"""Games are recognised, and nothing of them is imported to do so."""

from __future__ import annotations

import importlib
import subprocess
import sys

import entitize as ez
import pettingzoo
import pytest
from entitize.adapters.pettingzoo import games
from entitize.adapters.pettingzoo.games import find_view

from facts import raises

FOUND = {
    "butterfly/knights_archers_zombies-v11": "KnightsArchersZombiesView",
    "sisl/pursuit-v5": "PursuitView",
    "classic/tictactoe-v3": "TicTacToeView",
    "classic/connect_four-v3": "ConnectFourView",
    "classic/chess-v6": "ChessView",
}


@pytest.mark.parametrize("name", FOUND)
def test_games_of_pettingzoo_are_known(name: str) -> None:
    view = find_view(pettingzoo.make("aec", name).unwrapped)
    assert view is getattr(games, FOUND[name])


@pytest.mark.parametrize("form", ["env", "parallel_env"])
@pytest.mark.parametrize(
    "module", ["mpe2.simple_tag_v3", "mpe2.simple_line_v1", "magent2.environments.battle_v4"]
)
def test_a_game_is_known_in_both_of_its_forms(module: str, form: str) -> None:
    env = getattr(importlib.import_module(module), form)()
    view = find_view(env.unwrapped)
    assert view is not None
    env.reset(seed=1)
    assert view(env.unwrapped).observe(env.possible_agents[0]).entities


def test_every_scenario_of_mpe_is_known() -> None:
    mpe2 = importlib.import_module("mpe2.all_modules")
    modules = [value for name, value in vars(mpe2).items() if name.endswith("environments")]
    assert len(modules) == 1 and len(modules[0]) == 12
    for module in modules[0].values():
        view = find_view(module.env().unwrapped)
        assert view is not None and view.__module__.startswith("entitize.adapters.pettingzoo.games.mpe")


def test_other_games_and_wrapped_ones_are_not_known() -> None:
    assert find_view(pettingzoo.make("aec", "classic/rps-v2").unwrapped) is None
    assert find_view(pettingzoo.make("aec", "classic/tictactoe-v3")) is None
    assert find_view(None) is None


@pytest.mark.parametrize("view", games.VIEWS)
def test_a_view_refuses_games_of_another_kind(view: type[games.KnownGameView]) -> None:
    game = pettingzoo.make("aec", "classic/rps-v2").unwrapped
    with raises(ez.views.ViewError, view.__name__, view.modules[0], "rps.raw_env"):
        view(game)


def test_no_game_is_imported() -> None:
    program = (
        "import sys, entitize.adapters.pettingzoo.games as games\n"
        "heavy = {'pettingzoo', 'mpe2', 'magent2', 'pygame', 'chess', 'torch'} & set(sys.modules)\n"
        "print(heavy, sys.dont_write_bytecode)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["set()", str(sys.flags.dont_write_bytecode == 1)]
