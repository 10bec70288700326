"""`entitize experiment KIND`: many runs, one command."""

from __future__ import annotations

from collections.abc import Sequence

from ..experiments.ablations.ablation_experiment import AblationArguments, ablation_jobs, listing
from ..experiments.ablations.studies import find_study
from ..experiments.arguments import parse
from ..experiments.errors import unknown
from ..experiments.microrts.microrts_experiment import MicroRTSArguments, microrts_jobs
from ..experiments.procgen.procgen_experiment import ProcgenArguments, procgen_jobs
from ..experiments.queue.queue_flags import run_jobs, split_train_flags

#: Kind -> what it does.
KINDS = {
    "procgen": "RogueNet and IMPALA on Procgen's games",
    "microrts": "RogueNet and the published networks on maps of μRTS, evaluated against its bots",
    "ablation": "variants of RogueNet or of its observations, compared with a baseline",
}


def main(arguments: Sequence[str]) -> int:
    """Run a kind of experiment; returns the exit code."""
    if not arguments or arguments[0] in ("-h", "--help"):
        lines = [f"  {name:10} {text}" for name, text in KINDS.items()]
        print(
            "\n".join(
                [
                    "usage: entitize experiment KIND --out DIR [OPTIONS] [-- FLAGS OF TRAIN]",
                    "",
                    "Train many runs in a queue. The same command continues after a stop or a kill.",
                    "",
                    "Example: entitize experiment procgen --games maze,heist --seeds 3 --out runs/procgen",
                    "",
                    *lines,
                    "",
                    "`entitize experiment KIND --help` lists its options.",
                ]
            )
        )
        return 0
    kind, *rest = arguments
    words, train_flags = split_train_flags(rest)
    command = f"experiment {kind}"
    if kind == "procgen":
        procgen = parse(ProcgenArguments, command, words)
        return run_jobs(kind, procgen_jobs(procgen, train_flags), procgen)
    if kind == "microrts":
        microrts = parse(MicroRTSArguments, command, words)
        return run_jobs(kind, microrts_jobs(microrts, train_flags), microrts)
    if kind == "ablation":
        if not rest:
            print(listing())
            return 0
        ablation = parse(AblationArguments, command, words)
        about = {"study": ablation.study, "baseline": find_study(ablation.study).baseline}
        return run_jobs(kind, ablation_jobs(ablation, train_flags), ablation, about)
    raise unknown("experiment", kind, KINDS)
