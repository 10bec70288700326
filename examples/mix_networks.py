"""Mix two networks of which one was trained on from the other.

    python examples/mix_networks.py BEFORE AFTER --share 0.3 --out runs/mixed
    entitize train --config microrts --init-from runs/mixed --run runs/next …

Training on new tasks makes a network forget old ones. Each weight of the mixed network is `--share` of that
of AFTER and the rest of that of BEFORE, and it may do both tasks, or learn them together sooner than either
network (Wortsman et al. 2022, Robust fine-tuning of zero-shot models). Networks that were trained apart from
the start don't mix.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import entitize as ez


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="a run, or its checkpoint")
    parser.add_argument("after", type=Path, help="a run that was trained on from it")
    parser.add_argument("--share", type=float, default=0.5, help="of the network after (default: 0.5)")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the mixed network")
    chosen = parser.parse_args()
    network, after = ez.load_policy(chosen.before), ez.load_policy(chosen.after).state_dict()
    before = network.state_dict()
    shapes = [{name: weight.shape for name, weight in weights.items()} for weights in (before, after)]
    if shapes[0] != shapes[1]:
        parser.error(f"{chosen.before} and {chosen.after} have different networks")
    for name, weight in before.items():
        if weight.is_floating_point():
            weight.lerp_(after[name], chosen.share)
    print(f"the mixed network is in {ez.save_policy(network, chosen.out)}")


if __name__ == "__main__":
    main()
