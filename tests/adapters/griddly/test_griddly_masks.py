"""Masks, and objects that share cells, compared with what the engine allows and reports."""

import functools
import importlib.util
from pathlib import Path

import entitize as ez
import pytest

if importlib.util.find_spec("griddly") is None:  # importing it would import gym
    pytest.skip("needs griddly", allow_module_level=True)

from entitize.adapters.griddly.library import find_game
from entitize.adapters.griddly.rules import read_rules

from griddly_reports import check_lanes, check_masks

GAMES = ez.griddly.game_names()

#: A walker that collects coins, and can do most things only with some number of them.
TOLLS = """
Version: "0.1"
Environment:
  Name: Tolls
  Player: {AvatarObject: walker}
  Variables:
    - {Name: left, InitialValue: 4}
    - {Name: paid, InitialValue: 0}
  Termination:
    End: [{eq: [_steps, 30]}]
  Levels:
    - |
      c  .  g  .
      .  w  c  g
      c  t  .  c
Actions:
  - Name: go
    Behaviours:
      - Src: {Object: walker, Commands: [{mov: _dest}]}
        Dst: {Object: _empty}
      - Src: {Object: walker, Commands: [{mov: _dest}, {incr: purse}, {decr: left}]}
        Dst: {Object: coin, Commands: [{remove: true}]}
  - Name: pass
    Behaviours:
      - Src: {Object: walker, Preconditions: [PRECONDITION], Commands: [{incr: paid}, {set: [purse, 0]}]}
        Dst: {Object: [gate, toll, _boundary]}
      - Src: {Object: walker, Preconditions: [{gt: [left, 1]}, {eq: [purse, 2]}]}
        Dst: {Object: toll}
  - Name: open
    Behaviours:
      - Src: {Object: walker, Preconditions: [PRECONDITION]}
        Dst: {Object: [_empty, coin]}
      - Src: {Object: walker}
        Dst: {Object: [_boundary, coin]}
Objects:
  - {Name: walker, MapCharacter: w, Variables: [{Name: purse, InitialValue: 0}]}
  - {Name: coin, MapCharacter: c, Variables: []}
  - {Name: gate, MapCharacter: g}
  - {Name: toll, MapCharacter: t}
"""

#: A walker that puts flags on coins, if MAKER is "Src" its own, else the coins'.
FLAGS = """
Version: "0.1"
Environment:
  Name: Flags
  Player: {AvatarObject: walker}
  Levels:
    - |
      c  .  c  .
      .  w  c  b
      c  b  .  c
Actions:
  - Name: go
    Behaviours:
      - Src: {Object: walker, Commands: [{mov: _dest}]}
        Dst: {Object: [_empty, flag, coin]}
      - Src: {Object: walker, Commands: [{mov: _dest}]}
        Dst: {Object: box, Commands: [{cascade: _dest}]}
      - Src: {Object: box, Commands: [{mov: _dest}]}
        Dst: {Object: [_empty, coin, flag]}
  - Name: put
    Behaviours:
      - Src: {Object: walker SOURCE}
        Dst: {Object: coin TARGET}
Objects:
  - {Name: coin, MapCharacter: c}
  - {Name: flag, MapCharacter: f, Z: 1}
  - {Name: box, MapCharacter: b, Z: 2}
  - {Name: walker, MapCharacter: w, Z: 2}
"""


@pytest.mark.parametrize("name", ["GriddlyRTS", *(name for name in GAMES if name != "GriddlyRTS")])
def test_masks_are_what_the_engine_allows(name: str) -> None:
    count = 2 * read_rules(find_game(name)).num_players
    options = {"partial_observability": False, "level": None, "max_steps": 15}
    with ez.make_vec(f"Griddly/{name}", count, **options) as venv:
        batch, _ = venv.reset(seed=4)
        venv.action_space.seed(4)
        masked = check_masks(venv, batch)
        for _ in range(30):
            batch, *_ = venv.step(venv.action_space.sample(mask=batch))
            masked += check_masks(venv, batch)
        assert masked or name == "Eyeball"


@pytest.mark.parametrize(
    "precondition",
    [
        *(f"{{{operator}: [purse, 2]}}" for operator in ("eq", "neq", "lt", "lte", "gt", "gte")),
        *("{lt: [left, 3]}, {gte: [purse, 1]}", "{eq: [paid, 1]}", "{gt: [-1, left]}", "{lte: [1, purse]}"),
        *("{eq: [src.purse, 1]}", "{or: [{eq: [purse, 0]}, {eq: [purse, 2]}]}", "{gt: [purse, left]}"),
    ],
)
def test_masks_with_preconditions_are_what_the_engine_allows(tmp_path: Path, precondition: str) -> None:
    path = tmp_path / "tolls.yaml"
    path.write_text(TOLLS.replace("PRECONDITION", precondition))
    with ez.make_vec(f"Griddly/{path}", 4) as venv:
        batch, _ = venv.reset(seed=1)
        venv.action_space.seed(1)
        counts = {check_masks(venv, batch)}
        for _ in range(60):
            batch, *_ = venv.step(venv.action_space.sample(mask=batch))
            counts.add(check_masks(venv, batch))
        assert len(counts) > 1


@pytest.mark.parametrize(
    ("source", "target", "level"),
    [
        ("", "", None),  # only the walker has an owner
        ("", ", Commands: [{spawn: flag}]", None),  # flags have none, either
        (", Commands: [{spawn: flag}]", "", None),  # flags belong to the player
        ("", "", "c1 w b1\n.  c b\nc1 b c"),  # the level gives owners
    ],
)
def test_objects_that_share_a_cell_keep_their_owners(
    tmp_path: Path, source: str, target: str, level: str | None
) -> None:
    path = tmp_path / "flags.yaml"
    path.write_text(FLAGS.replace(" SOURCE", source).replace(" TARGET", target))
    with ez.make_vec(f"Griddly/{path}", 4, max_steps=20, level=level or 0) as venv:
        batch, _ = venv.reset(seed=2)
        venv.action_space.seed(2)
        shared = 0
        for _ in range(60):
            batch, *_ = venv.step(venv.action_space.sample(mask=batch))
            check_lanes(venv, batch)
            for game in venv.games:
                places = [tuple(item["Location"]) for item in game.process.get_state()["Objects"]]
                shared += len(places) - len(set(places))
        assert shared


@pytest.mark.parametrize("name", [name for name in GAMES if read_rules(find_game(name)).window])
def test_windows_have_the_masks_of_whole_boards(name: str) -> None:
    num_envs = 2 * read_rules(find_game(name)).num_players
    make = functools.partial(ez.make_vec, f"Griddly/{name}", num_envs, level=None, max_steps=30)
    with make() as part, make(partial_observability=False) as whole:
        batches = part.reset(seed=5)[0], whole.reset(seed=5)[0]
        part.action_space.seed(5)
        for _ in range(100):
            narrow, wide = (batch.actions["action"].mask for batch in batches)
            assert narrow.offsets.tolist() == wide.offsets.tolist()
            assert narrow.values.tolist() == wide.values.tolist()
            actions = part.action_space.sample(mask=batches[0])
            batches = part.step(actions)[0], whole.step(actions)[0]
