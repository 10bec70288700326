"""What mypy knows of the package that users import, in one run for all scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import entitize

CHECKOUT = Path(__file__).resolve().parent.parent


def test_type_checkers_see_every_public_name(tmp_path: Path) -> None:
    (tmp_path / "entitize").symlink_to(CHECKOUT)
    script = tmp_path / "script.py"
    lines = ["import entitize as ez", *(f"reveal_type(ez.{name})" for name in entitize.__all__)]
    lines += [
        "venv = ez.make_vec('Procgen/coinrun', num_envs=4)",
        "reveal_type(venv)",
        "reveal_type(ez.actions.CategoricalMask)",
        "reveal_type(ez.games.MineSweeper)",
        "reveal_type(ez.vector.ListVectorEnv([]))",
        "ez.RougeNet",
    ]
    script.write_text("\n".join(lines))
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(CHECKOUT / "pyproject.toml"),
         "--cache-dir", str(CHECKOUT / ".mypy_cache"), str(script)],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "MYPYPATH": str(tmp_path)},
    )  # fmt: skip
    told = [line for line in result.stdout.splitlines() if line.startswith("script.py")]
    revealed = [line.split("Revealed type is ")[1].strip('"') for line in told if "Revealed" in line]
    assert len(revealed) == len(lines) - 3, result.stdout
    assert "Any" not in revealed
    assert "entitize.envs.vector.vector_env.EntityVectorEnv" in revealed
    wrong = [line for line in told if "error:" in line]
    assert len(wrong) == 1 and "RougeNet" in wrong[0]
