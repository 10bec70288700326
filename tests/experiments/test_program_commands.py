"""Games with loops of their own at the command line."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from entitize.experiments.run_config import read_run_config

CHASE = Path(__file__).resolve().parent.parent / "adapters" / "programs" / "chase.py"
Run = Callable[..., tuple[int, str, str]]
SMALL = (
    *("--env.num-envs", 4, "--net.d-model", 8, "--net.n-layer", 1),
    *("--ppo.total-timesteps", 64, "--ppo.num-steps", 8),
)


@pytest.fixture
def game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a game in the current folder."""
    shutil.copy(CHASE, tmp_path / "chase_cli.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "chase_cli", raising=False)
    return "chase_cli:main"


def test_a_game_is_trained_evaluated_played_and_checked(entitize: Run, game: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    code, out, err = entitize("train", "--game", game, "--run", run, *SMALL)
    assert (code, err) == (0, "") and game in out
    config = read_run_config(run)
    assert (config.env.id, config.env.num_envs) == (game, 4)
    code, out, _ = entitize("eval", run, "--episodes", 4)
    assert code == 0 and game in out
    video = tmp_path / "video.gif"
    code, _, _ = entitize("play", run, "--max-steps", 3, "--out", video)
    assert code == 0 and video.is_file()
    code, out, _ = entitize("check", game, "--steps", 20)
    assert code == 0 and out.endswith("ok\n")
    code, out, _ = entitize("train", "--resume", run, "--ppo.total-timesteps", 96)
    assert code == 0 and "64" in out


def test_what_is_no_game_is_refused(entitize: Run, game: str) -> None:
    module = game.partition(":")[0]
    for name, fact in (
        (f"{module}:play", "ez.program"),
        ("MineSweeper", "ez.program"),
        (f"{module}:mian", "main"),
        ("nowhere:main", "nowhere"),
    ):
        code, _, err = entitize("train", "--game", name, *SMALL)
        assert code == 2 and fact in err, (name, err)
    code, _, err = entitize("train", "--game", game, "--env.id", "MineSweeper", *SMALL)
    assert code == 2 and "--env.id" in err


def test_a_game_that_fails_ends_the_command_with_its_name(entitize: Run, game: str, tmp_path: Path) -> None:
    (tmp_path / "broken_cli.py").write_text(
        "import entitize as ez\nfrom chase_cli import Cat, Mouse, Move, play\n\n"
        "@ez.program(entities=[Cat, Mouse], actions={'move': Move})\n"
        "def main(agent):\n    play(agent, agent.rng)\n    raise OSError('no disk')\n"
    )
    code, _, err = entitize("train", "--game", "broken_cli:main", "--run", tmp_path / "run", *SMALL)
    assert code == 2
    assert all(fact in err for fact in ("broken_cli:main", "no disk", "broken_cli.py:7", "game "))
