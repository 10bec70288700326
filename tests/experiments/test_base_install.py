"""Without any extra: what works, and what names the extra that it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
SITE = Path(np.__file__).parent.parent
#: The packages of the base install, and what these need.
BASE = (
    *("numpy", "numpy.libs", "gymnasium", "farama_notifications", "numba", "llvmlite", "cloudpickle", "yaml"),
    *("_yaml", "tyro", "typeguard", "docstring_parser", "typing_extensions.py"),
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A folder of the base packages alone, as the only one that Python searches (with the option -S)."""
    folder = tmp_path_factory.mktemp("site")
    for name in BASE:
        if (SITE / name).exists():
            (folder / name).symlink_to(SITE / name)
    (folder / "entitize").symlink_to(CHECKOUT)
    return {**os.environ, "PYTHONPATH": str(folder)}


def run(environment: dict[str, str], *words: str) -> tuple[int, str]:
    command = [sys.executable, "-S", *words]
    done = subprocess.run(command, env=environment, stdout=-1, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def test_check_and_info(environment: dict[str, str]) -> None:
    code, out = run(environment, "-m", "entitize", "info", "Count")
    assert code == 0 and "Bean" in out and "entitize[train]" in out, out
    code, out = run(environment, "-m", "entitize", "info")
    assert code == 0 and "torch is not installed" in out, out
    code, out = run(environment, "-m", "entitize", "check", "Count", "--steps", "10")
    assert code == 0 and out.endswith("ok\n"), out


@pytest.mark.parametrize("command", ["train", "eval", "play", "report", "experiment"])
def test_other_commands_name_the_extra(environment: dict[str, str], command: str) -> None:
    code, out = run(environment, "-m", "entitize", command)
    assert code == 2 and f"entitize {command}" in out and "entitize[train]" in out, out


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        *(("RogueNet", "train"), ("PPO", "train"), ("sb3", "sb3"), ("load_agent", "runtime")),
        *(("runtime", "runtime"), ("distributed.RayRollouts", "ray")),
    ],
)
def test_public_names_name_the_extra(environment: dict[str, str], name: str, extra: str) -> None:
    code, out = run(environment, "-c", f"import entitize; entitize.{name}")
    where = name.rpartition(".")[2]  # names may be given with the module that they live in
    assert code == 1 and f".{where} needs" in out and f"entitize[{extra}]" in out, out


@pytest.mark.parametrize(
    ("game", "extra"),
    [
        *(("Procgen/coinrun", "procgen"), ("Griddly/Sokoban---2", "griddly"), ("Atari/Pong", "atari")),
        ("ViZDoom/basic", "vizdoom"),
    ],
)
def test_environments_name_the_extra_of_their_engine(
    environment: dict[str, str], game: str, extra: str
) -> None:
    for make in ("make", "make_vec"):
        code, out = run(environment, "-c", f"import entitize; entitize.{make}({game!r})")
        assert code == 1 and f"entitize[{extra}]" in out.splitlines()[-1], out
