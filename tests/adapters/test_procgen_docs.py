"""docs/procgen.md lists what there is."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import entitize as ez

PAGE = (Path(__file__).parents[2] / "docs" / "procgen.md").read_text()


def described(features):
    """Features as the page writes them: common groups by name, hidden ones starred."""
    for name, group in (
        ("motion", ez.procgen.MOVING),
        ("motion along x", ez.procgen.MOVING_X),
        ("position", ez.procgen.POSITION),
    ):
        if features[: len(group)] == group:
            return [name, *described(features[len(group) :])] if len(features) > len(group) else [name]
    return [f.name + "*" * f.hidden for f in features]


def test_every_games_types_tiles_and_globals_are_listed(game):
    section = PAGE.partition(f"### {game}\n")[2].partition("\n### ")[0]
    rows = dict(
        line.strip("| ").split(" | ")
        for line in section.splitlines()
        if line.startswith("| ") and "features" not in line
    )
    table = ez.procgen.GAMES[game]
    assert f"Modes: {', '.join(table.modes)}." in section
    expected = {kind.name: ", ".join(described(kind.features)) for kind in table.types}
    if table.tiles:
        expected["Tiles"] = ", ".join(tile.name for tile in table.tiles)
    if table.globals:
        expected["globals"] = ", ".join(described(table.globals))
    assert rows == expected


def test_every_option_and_action_is_listed():
    for option in (*fields(ez.procgen.ViewOptions), *fields(ez.procgen.EngineOptions)):
        assert f"`{option.name}`" in PAGE or f"`{option.name}=True`" in PAGE
    assert all(f"`{action}`" in PAGE for action in ez.procgen.ACTIONS)
