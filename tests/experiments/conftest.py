from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from entitize.cli import main

#: Flags for a run of a second: two updates of a tiny network.
SMALL = (
    *("--config", "mine_sweeper", "--env.num-envs", "2", "--net.d-model", "8", "--net.n-layer", "1"),
    *("--ppo.num-steps", "8", "--ppo.minibatch-size", "16", "--ppo.update-epochs", "1"),
    *("--eval.episodes", "3", "--eval.num-envs", "2"),
)


@pytest.fixture(scope="session")
def small() -> tuple[str, ...]:
    return SMALL


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished small MineSweeper run; tests read it and leave it as it is."""
    run = tmp_path_factory.mktemp("runs") / "trained"
    assert main(["train", *SMALL, "--run", str(run), "--ppo.total-timesteps", "32"]) == 0
    return run


@pytest.fixture
def entitize(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command line; returns exit code, output and error output."""

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as stop:  # tyro's help and unknown flags
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run
