"""`entitize bench`: the benchmarks of a checkout, which are not in the package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from ..experiments import UserError

SCRIPTS = Path(__file__).resolve().parent.parent / "benchmarks"


def main(arguments: Sequence[str]) -> None:
    """Run `benchmarks/suite.py`.

    Raises:
        UserError: there are no benchmarks, since the package is installed; or as the suite.
    """
    if not (SCRIPTS / "suite.py").exists():
        raise UserError(
            "benchmarks are in the repository, not in the installed package: run this in a checkout"
        )
    sys.path.append(str(SCRIPTS))
    importlib.import_module("suite").main(arguments)
