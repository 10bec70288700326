"""The commands of docs/reproduce.md are taken: their configurations, networks and options exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "reproduce.md").read_text()
COMMANDS = [
    shlex.split(found.replace("GAME", "caveflyer"))
    for found in re.findall(r"`entitize ((?:train|experiment) .*?)`", PAGE)
    if "--run" in found or "--out" in found
]
EXTRAS = {"vizdoom": "vizdoom", "atari": "ale_py", "griddly": "griddly", "procgen": "procgen"}


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) > 12


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_is_read_to_the_end(
    words: list[str],
    entitize: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing stands in its way but the folder `runs`, which is a file here."""
    for word in words:
        if word in EXTRAS:
            pytest.importorskip(EXTRAS[word])
    (tmp_path / "runs").touch()
    (tmp_path / "experiments").symlink_to(CHECKOUT / "experiments")
    monkeypatch.chdir(tmp_path)
    code, _, error = entitize(*words)
    assert code == 2
    assert "runs" in error and "can't be written" in error
