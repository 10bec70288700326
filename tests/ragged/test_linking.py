"""Separate kernels: compiled once, called through symbols by kernels and by Python, also from the cache."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROGRAM = """
import numpy as np
from small.kernels import lower, upper
print(upper(np.ones(3)), lower(2.0), upper(np.ones(3)), len(lower.signatures))
try:
    upper(np.full(3, -1.0))
except ValueError as error:
    print(error)
"""
KERNELS = """
    from entitize.ragged.compiled import compiled

    @compiled(separate=True)
    def lower(x, factor=1.0):
        if x < 0:
            raise ValueError("negative")
        return x * factor + 1.0

    @compiled(separate=True)
    def upper(x):
        return lower(x[0], 2.0) + lower(x[1], x[2])
"""
EXPECTED = ["5.0", "3.0", "5.0", "2", "negative"]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of two kernels, of which one calls the other."""
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "kernels.py").write_text(textwrap.dedent(KERNELS))
    return folder


def run(package: Path) -> list[str]:
    """Return what a fresh process prints."""
    folders = os.pathsep.join([str(package.parent), *sys.path])
    cache = str(package.parent / "cache")
    environment = {**os.environ, "PYTHONPATH": folders, "NUMBA_CACHE_DIR": cache}
    command = [sys.executable, "-B", "-c", PROGRAM]
    found = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout.split()


def written(package: Path) -> dict[str, int]:
    """Return when each compiled kernel was written."""
    return {file.name: file.stat().st_mtime_ns for file in (package.parent / "cache").rglob("*.nbc")}


def test_kernels_call_each_other_from_the_cache_and_pass_errors_on(package: Path) -> None:
    assert run(package) == EXPECTED
    before = written(package)
    assert sum(".lower-" in name for name in before) == 2, "one for kernels, one for Python with a default"
    assert run(package) == EXPECTED
    assert written(package) == before


def test_a_kernel_whose_callee_is_lost_or_changed_is_right(package: Path) -> None:
    run(package)
    for file in (package.parent / "cache").rglob("*.lower-*.nbc"):
        file.unlink()
    assert run(package) == EXPECTED
    source = package / "kernels.py"
    source.write_text(source.read_text().replace("factor + 1.0", "factor + 2.0"))
    assert run(package) == ["7.0", "4.0", "7.0", "2", "negative"]
