"""Cost of Procgen's states: the engine's own steps, fetching the states, decoding them, and all together.

    python benchmarks/procgen_states.py [--quick] [--json PATH] [--games coinrun,maze] [--mode easy]
                                        [--num-envs 64]

Microseconds per lane and step, medians over rounds in which everything takes its turn, twice in a row of
which the second counts, on the states of random play. Processor time of one thread, but wall time in the
column for two threads. Peers: the engine's own act + observe, its get_state (into a fresh megabyte per lane,
as its wrapper does it, and into a reused buffer), and the pure Python decoder of the tests. The targets are
those of the project's first issue.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from entitize import process
from entitize.adapters.procgen import (
    GAMES,
    EngineOptions,
    ProcgenVectorEnv,
    StateBuffer,
    StateDecoder,
    ViewOptions,
    import_engine,
)
from entitize.ragged import RaggedArray

from rows import Budget, Row, has_written_rows, rounds, script_parser, write_json

VIEWS = {
    "default": ViewOptions(),
    "reference": ViewOptions("reference"),
    "visible": ViewOptions(visible_only=True),
}
DECODE_TARGETS = {"coinrun": 10.0, "bossfight": 20.0}
STEP_TARGET = 1.2

COLUMNS = {
    "observe": "engine: act + observe",
    "fresh": "engine's get_state()",
    "fetch": "get_state, reused buffer",
    "fetch2": "the same, 2 threads (wall)",
    "default": "decode",
    "reference": "decode, reference",
    "visible": "decode, visible only",
    "slow": "decode in pure Python",
    "step": "ProcgenVectorEnv.step",
    "drawn": "the same, with ENTITIZE_UNDRAWN_STEPS=0",
    "ratio": "step / (observe + fetch)",
}


def slow_decoder() -> Callable[[bytes], Any]:
    """The decoder that the tests compare with; it builds no observations."""
    path = Path(__file__).parents[1] / "tests" / "adapters" / "conftest.py"
    spec = importlib.util.spec_from_file_location("slow_procgen_decoder", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.decode_slowly


class Lanes:
    """One game at play: everything that is timed, one method per column."""

    def __init__(self, game: str, mode: str, num_envs: int, warm_up: int) -> None:
        self.rng = np.random.default_rng(0)
        self.num_envs = num_envs
        options = EngineOptions(distribution_mode=mode).arguments(render=False)
        self.engine = import_engine()(num=num_envs, env_name=game, rand_seed=1, **options)
        self.buffers = {threads: StateBuffer(num_envs, threads) for threads in (1, 2)}
        self.decoders = {name: StateDecoder(game, mode, view) for name, view in VIEWS.items()}
        self.venv = ProcgenVectorEnv(game, num_envs, distribution_mode=mode, num_threads=1)
        self.venv.reset(seed=1)
        self.decode_slowly = slow_decoder()
        self.offsets = np.arange(num_envs + 1)
        for _ in range(warm_up):
            self.observe()
            self.step()
        self.fetch()
        self.dumps = self.engine.get_state()[:8]

    def actions(self) -> np.ndarray:
        return self.rng.integers(0, 15, self.num_envs)

    def observe(self) -> None:
        self.engine.act(self.actions())
        self.engine.observe()

    def fresh(self) -> None:
        self.engine.get_state()

    def fetch(self, threads: int = 1) -> None:
        self.buffers[threads].fill(self.engine)

    def decode(self, view: str) -> Any:
        buffer = self.buffers[1]
        return self.decoders[view].decode(buffer.data, buffer.starts, buffer.lengths)

    def slow(self) -> None:
        for dump in self.dumps:
            self.decode_slowly(dump)

    def step(self) -> None:
        self.venv.step({"act": RaggedArray(self.actions(), self.offsets)})

    def drawn(self) -> None:
        process.switch("undrawn_steps", False)
        self.step()
        process.switch("undrawn_steps", True)

    def close(self) -> None:
        self.engine.close()
        self.venv.close()
        for buffer in self.buffers.values():
            buffer.close()


def time_game(
    game: str, mode: str, num_envs: int, most: int, warm_up: int, seconds: float = math.inf
) -> dict[str, float]:
    """Medians in microseconds per lane, by column."""
    lanes = Lanes(game, mode, num_envs, warm_up)
    work: dict[str, Callable[[], Any]] = {
        "observe": lanes.observe,
        "fresh": lanes.fresh,
        "fetch": lanes.fetch,
        "fetch2": lambda: lanes.fetch(2),
        "step": lanes.step,
        "drawn": lanes.drawn,
        "slow": lanes.slow,
        **{view: functools.partial(lanes.decode, view) for view in VIEWS},
    }
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in rounds(most, seconds):
        for name, run in work.items():
            if name in VIEWS:  # states are decoded right after they have been fetched
                lanes.fetch()
            else:  # whatever ran before left its own data in the caches
                run()
            clock = time.perf_counter if name == "fetch2" else time.process_time
            start = clock()
            run()
            times[name].append((clock() - start) / (len(lanes.dumps) if name == "slow" else num_envs))
    lanes.close()
    result = {name: 1e6 * statistics.median(values) for name, values in times.items()}
    result["ratio"] = result["step"] / (result["observe"] + result["fetch"])
    return result


def verdicts(results: dict[str, dict[str, float]]) -> list[str]:
    """Return, for each target, a line that says if it is met."""
    lines = []
    for game, target in DECODE_TARGETS.items():
        for view in ("default", "reference"):
            if game in results:
                value = results[game][view]
                lines.append(
                    f"{game}, decode ({view}): {value:.1f} us, target {target:g}: {_met(value, target)}"
                )
    for game, row in results.items():
        lines.append(
            f"{game}, step: {row['ratio']:.2f} x the engine,"
            f" target {STEP_TARGET}: {_met(row['ratio'], STEP_TARGET)}"
        )
    return lines


def _met(value: float, target: float) -> str:
    return "met" if value <= target else "MISSED"


def bench_rows(budget: Budget) -> Iterator[Row]:
    """Few, many and most entities; easy mode, 64 lanes."""
    games = ("bigfish", "coinrun", "bossfight")
    for index, game in enumerate(games):
        # half for starting two engines and playing until episodes differ
        us = time_game(game, "easy", 64, 41, 50, budget.share(len(games) - index) / 2)
        engine, unit = us["observe"] + us["fetch"], "us per lane"
        yield Row(
            f"{game}, step",
            us["step"],
            engine,
            "engine's step and whole dump",
            unit,
            False,
            target=1 / STEP_TARGET,
        )
        yield Row(f"{game}, decode", us["default"], us["slow"], "pure Python", unit, False)
        yield Row(f"{game}, fetch", us["fetch"], us["fresh"], "engine's get_state()", unit, False)


def main() -> None:
    parser = script_parser(__doc__, quick="three games, few rounds", json=True, rows=True)
    parser.add_argument("--games", help="comma-separated; default: all")
    parser.add_argument("--mode", default="easy", choices=("easy", "hard"))
    parser.add_argument("--num-envs", type=int, default=64)
    arguments = parser.parse_args()
    if has_written_rows(arguments, bench_rows):
        return
    quick = "bigfish,bossfight,coinrun" if arguments.quick else ",".join(GAMES)
    games = (arguments.games or quick).split(",")
    most, warm_up = (9, 30) if arguments.quick else (41, 100)

    print(
        f"{platform.processor() or platform.machine()},"
        f" {arguments.num_envs} lanes, {arguments.mode} mode, us per lane"
    )
    for name, text in COLUMNS.items():
        print(f"  {name:>10}  {text}")
    print(f"\n{'':12}" + "".join(f"{name:>10}" for name in COLUMNS))
    results = {}
    for game in games:
        results[game] = row = time_game(game, arguments.mode, arguments.num_envs, most, warm_up)
        print(f"{game:12}" + "".join(f"{row[name]:10.2f}" for name in COLUMNS), flush=True)
    print()
    print("\n".join(verdicts(results)))
    write_json(arguments.json, {"mode": arguments.mode, "num_envs": arguments.num_envs, "us": results})


if __name__ == "__main__":
    main()
