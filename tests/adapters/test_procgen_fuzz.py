"""A hundred thousand damaged dumps: no crash, no hang, no byte read outside of a dump."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import entitize
import pytest

GAMES = ("coinrun", "plunder", "starpilot")  # together they have every kind of field
DUMPS_PER_GAME = 34_000


@pytest.fixture(scope="module")
def dump_file(tmp_path_factory, dumps_of):
    path = tmp_path_factory.mktemp("fuzz") / "dumps.pickle"
    path.write_bytes(pickle.dumps({game: dumps_of(game, "easy")[::6] for game in GAMES}))
    return path


@pytest.mark.parametrize("game", GAMES)
def test_damaged_dumps_are_refused_without_a_crash_or_a_read_outside(game, dump_file):
    script = Path(__file__).with_name("fuzz_procgen.py")
    environment = os.environ | {"PYTHONPATH": str(Path(entitize.__file__).parents[1])}
    run = subprocess.run(
        [sys.executable, str(script), str(dump_file), game, str(DUMPS_PER_GAME), "1"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    whole, damaged = map(int, run.stdout.split())
    assert whole + damaged == DUMPS_PER_GAME
    # A bit in a map's cell or in a random generator's text goes unnoticed, but much else must not.
    assert damaged > DUMPS_PER_GAME // 4
    assert whole > DUMPS_PER_GAME // 50
