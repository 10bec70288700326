"""Growth of the cost of acting with entities, width, layers and batch, with a plot of each.

    python benchmarks/scaling.py [--quick] [--json PATH] [--plot docs/images/scaling.png]

Agents without torch (as in benchmarks/runtime.py), one thread; processor time, medians. Where nothing else is
said: 10 entities per step, 64 steps, d_model 16, 2 layers, 2 heads.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from entitize.policies.runtime import Agent

from rows import script_parser, write_json
from runtime import make_batch, make_players, microseconds

#: What is varied, over which values; the network's options and the batch are the rest.
SERIES: dict[str, tuple[int, ...]] = {
    "entities": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
    "width": (8, 16, 32, 64, 128),
    "layers": (0, 1, 2, 4, 8),
    "steps": (1, 2, 4, 16, 64, 256, 1024, 4096),
}
LABELS = {
    "entities": "entities per step (1 step)",
    "width": "d_model (64 steps of 10)",
    "layers": "layers (64 steps of 10)",
    "steps": "steps in a batch (of 10)",
}


def series(name: str, values: tuple[int, ...], repeats: int) -> dict[int, float]:
    """Microseconds of `act` for each value."""
    runs = {}
    with tempfile.TemporaryDirectory() as folder:
        for value in values:
            network: dict[str, Any] = {}
            steps, entities = 64, 10
            if name == "entities":
                steps, entities = 1, value
            elif name == "steps":
                steps = value
            else:
                network = {"d_model": value} if name == "width" else {"n_layer": value}
            agent: Agent = make_players(Path(folder) / str(value), **network)[0]
            batch, rng = make_batch(np.full(steps, entities)), np.random.default_rng(0)
            runs[str(value)] = lambda agent=agent, batch=batch, rng=rng: agent.act(batch, rng)
        times = microseconds(runs, repeats)
    return {int(value): microseconds for value, microseconds in times.items()}


def plot(report: dict[str, dict[int, float]], path: Path) -> None:
    """One panel for each series, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(report), figsize=(12, 3.2), sharey=True, layout="constrained")
    for panel, (name, times) in zip(panels, report.items(), strict=True):
        panel.plot(list(times), list(times.values()), "o-", color="#356", markersize=4)
        panel.set_xlabel(LABELS[name])
        panel.set_yscale("log")
        if name == "layers":
            panel.set_xticks(list(times))
        else:
            panel.set_xscale("log")
        panel.grid(alpha=0.3, which="both")
    panels[0].set_ylabel("µs per call of act")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = script_parser(__doc__, quick="few repeats, small sizes", json=True)
    parser.add_argument("--plot", metavar="PATH", help="draw them there")
    options = parser.parse_args()
    print(f"load of the machine at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    report = {}
    for name, values in SERIES.items():
        chosen = values[:4] if options.quick else values
        report[name] = series(name, chosen, 3 if options.quick else 21)
        print(LABELS[name])
        for value, time in report[name].items():
            print(f"  {value:>6}{time:>12,.0f} µs", flush=True)
    write_json(options.json, report)
    if options.plot:
        plot(report, Path(options.plot))


if __name__ == "__main__":
    main()
