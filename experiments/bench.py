"""`entitize bench`: the scripts of benchmarks/, which are in the repository and not in the package."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from .arguments import parse
from .errors import UserError

SCRIPTS = Path(__file__).resolve().parent.parent / "benchmarks"


@dataclass(frozen=True)
class BenchArguments:
    """Run benchmarks from a checkout of the repository."""

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """Which ones (default: all)."""


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command."""
    chosen = parse(BenchArguments, "bench", arguments)
    run_scripts(SCRIPTS, chosen.names)


def run_scripts(folder: Path, names: Sequence[str]) -> None:
    """Run the named scripts of `folder`, or all of them, one after the other.

    Raises:
        UserError: there are none, a name is unknown, or a script fails.
    """
    scripts = {path.stem: path for path in sorted(folder.glob("*.py")) if not path.stem.startswith("_")}
    if not scripts:
        raise UserError(
            "benchmarks are in the repository, not in the installed package: run this in a checkout"
        )
    unknown = [name for name in names if name not in scripts]
    if unknown:
        raise UserError(f"there is no benchmark {unknown[0]!r}; there are {', '.join(scripts)}")
    for name in names or scripts:
        print(f"== {name}", flush=True)
        code = subprocess.run([sys.executable, str(scripts[name])]).returncode
        if code:
            raise UserError(f"benchmark {name} failed with exit code {code}")
