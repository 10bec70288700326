"""The kernels' cache: what is edited is compiled again, what is not is read from disk."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from entitize.ragged.compiled import compiled

PROGRAM = """
import sys
import numpy as np
from small.outer import Pair, outer, pair
print(outer(np.ones(3)), pair(Pair(1.0, 2.0)), len(list(__import__("pathlib").Path(CACHE).rglob("*.nbc"))))
"""
FILES = {
    "__init__.py": "",
    "constants.py": "STEP = 1.0\n",
    "inner.py": """
        from entitize.ragged.compiled import compiled
        from .helper import emit
        from numba.extending import intrinsic
        from numba import types

        @compiled(cache=False)
        def inner(x):
            return x + 1.0

        @intrinsic
        def plus(typing, x):
            return types.float64(types.float64), lambda c, builder, s, a: emit(builder, a[0])
    """,
    "helper.py": """
        from llvmlite import ir

        def emit(builder, x):
            return builder.fadd(x, ir.Constant(ir.DoubleType(), 1.0))
    """,
    "outer.py": """
        from typing import NamedTuple
        from entitize.ragged.compiled import compiled
        from .constants import STEP
        from . import inner as tools

        class Pair(NamedTuple):
            first: float
            second: float

        @compiled
        def outer(x):
            return tools.plus(tools.inner(x.sum())) + STEP

        @compiled
        def pair(p):
            return p.first
    """,
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of kernels that call each other."""
    folder = tmp_path / "checkout" / "small"
    folder.mkdir(parents=True)
    for name, source in FILES.items():
        (folder / name).write_text(textwrap.dedent(source))
    return folder


def finished(package: Path, program: str) -> subprocess.CompletedProcess[str]:
    """A fresh process after it ran `program`."""
    folders = os.pathsep.join([str(package.parent), *sys.path])
    cache = str(package.parent.parent / "cache")
    environment = {**os.environ, "PYTHONPATH": folders, "NUMBA_CACHE_DIR": cache}
    # -B: two edits within a second, of equal size, would be one to Python's own cache.
    command = [sys.executable, "-B", "-c", program]
    found = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found


def run(package: Path) -> list[str]:
    """What a fresh process computes: outer, pair, and how many compiled kernels are on disk after it."""
    cache = package.parent.parent / "cache"
    return finished(package, PROGRAM.replace("CACHE", repr(str(cache)))).stdout.split()


def errors_of(package: Path, program: str) -> str:
    """What a fresh process writes to standard error."""
    return finished(package, program).stderr


def kernels(package: Path) -> list[Path]:
    return sorted((package.parent.parent / "cache").rglob("*.nbc"))


def test_an_edit_of_what_a_kernel_uses_is_noticed(package: Path) -> None:
    assert run(package) == ["6.0", "1.0", "2"]
    edits = [
        ("inner.py", "x + 1.0", "x + 2.0", "7.0", "3"),  # another kernel
        ("helper.py", "1.0", "3.0", "9.0", "4"),  # code generation
        ("constants.py", "1.0", "4.0", "12.0", "5"),
        ("outer.py", "x.sum()", "x.sum() * 2.0", "15.0", "7"),
    ]
    for file, old, new, result, number in edits:
        source = package / file
        source.write_text(source.read_text().replace(old, new))
        assert run(package) == [result, "1.0", number], file


def test_fields_of_a_named_tuple_that_change_places_are_noticed(package: Path) -> None:
    assert run(package)[1] == "1.0"
    other = package / "outer.py"
    other.write_text(other.read_text().replace("first: float\n    second", "second: float\n    first"))
    assert run(package)[1] == "2.0"


def test_checkouts_with_equal_sources_share_compiled_kernels(package: Path, tmp_path: Path) -> None:
    assert run(package) == ["6.0", "1.0", "2"]
    before = {file: file.stat().st_mtime_ns for file in kernels(package)}
    other = package.parent.rename(tmp_path / "other") / "small"
    assert run(other) == ["6.0", "1.0", "2"]
    assert {file: file.stat().st_mtime_ns for file in kernels(other)} == before


def test_damaged_kernels_are_compiled_again_and_old_ones_of_other_sources_removed(package: Path) -> None:
    run(package)
    for file in kernels(package):
        file.write_bytes(b"")
    assert run(package) == ["6.0", "1.0", "2"]
    assert all(file.stat().st_size for file in kernels(package))
    for file in kernels(package):
        os.utime(file, (0, 0))
    (package / "constants.py").write_text("STEP = 4.0\n")
    assert run(package) == ["9.0", "1.0", "2"], "of `outer` the new one, of `pair` the old"


def test_a_process_that_compiles_many_kernels_says_so_once(package: Path) -> None:
    kernel = "@compiled\ndef kernel_{0}(x):\n    return x + {0}\n"
    lines = ["from entitize.ragged.compiled import compiled", *(kernel.format(i) for i in range(8))]
    (package / "many.py").write_text(
        "\n".join([*lines, "for i in range(8):", "    globals()[f'kernel_{i}'](1)"])
    )
    assert errors_of(package, "import small.many").count("\n") == 1
    assert errors_of(package, "import small.many") == "", "they are read from disk"
    assert errors_of(package, "import small.outer as o; o.pair(o.Pair(1.0, 2.0))") == "", "a few take no time"


def test_a_callback_for_c_is_kept_until_an_edit(package: Path) -> None:
    (package / "outer.py").write_text(
        textwrap.dedent("""
            from numba import types
            from entitize.ragged.compiled import compiled_callback
            from .constants import STEP

            @compiled_callback(types.float64(types.float64, types.int64))
            def callback(x, n):
                return x * n + STEP

            Pair = complex
            pair = lambda numbers: callback.ctypes(2.0, 3)
            outer = lambda numbers: callback(2.0, 3)
        """)
    )
    assert run(package) == ["7.0", "7.0", "1"]
    (before,) = kernels(package)
    written = before.stat().st_mtime_ns
    assert run(package) == ["7.0", "7.0", "1"]
    assert before.stat().st_mtime_ns == written
    (package / "constants.py").write_text("STEP = 4.0\n")
    assert run(package) == ["10.0", "10.0", "2"]


def test_a_folder_that_cannot_be_written_is_reported_and_kernels_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path / "file"))

    @compiled
    def double(x: float) -> float:
        return 2 * x

    assert double(2.0) == 4.0
    assert str(tmp_path / "file") in caplog.text
    assert "NUMBA_CACHE_DIR" in caplog.text
