"""`entitize experiment KIND`: many runs, one command."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from ..experiments.errors import unknown

#: Kind -> (its module, what it does).
KINDS = {
    "procgen": ("procgen.procgen_experiment", "RogueNet and IMPALA on Procgen's games"),
    "microrts": (
        "microrts.microrts_experiment",
        "RogueNet and the published networks on maps of μRTS, against its bots",
    ),
    "ablation": (
        "ablations.ablation_experiment",
        "a choice in RogueNet or in what it sees, and its alternatives",
    ),
}


def main(arguments: Sequence[str]) -> int:
    """Run a kind of experiment; returns the exit code."""
    if not arguments or arguments[0] in ("-h", "--help"):
        lines = [f"  {name:10} {text}" for name, (_, text) in KINDS.items()]
        print(
            "\n".join(["usage: entitize experiment KIND --out DIR [OPTIONS] [-- FLAGS OF TRAIN]", "", *lines])
        )
        print("\n`entitize experiment KIND --help` lists its options.")
        return 0
    kind, *rest = arguments
    if kind not in KINDS:
        raise unknown("experiment", kind, KINDS)
    code: int = importlib.import_module(f"entitize.experiments.{KINDS[kind][0]}").main(rest)
    return code
