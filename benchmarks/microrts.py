"""Cost of a step of μRTS: ours, the package's two environments, and its JVM alone.

    python benchmarks/microrts.py [--quick] [--part all|step|processes] [--json PATH]

Microseconds of processor time per frame, of the thread that plays (Java compiles and collects in others),
medians over rounds in which everyone takes their turn, in random legal play against the papers' mix of bots
(18 coacAI and 2 each of randomBiasedAI, lightRushAI and workerRushAI, or as many eighths of that) and in
self-play. Drawing the actions is not counted. What counts for each:

- ours: `MicroRTSVectorEnv.step`, actions checked, entities, masks and rewards made. None of these bots can
  hang, so everything is played in the calling thread, as the others do;
- grid: the package's grid environment (masks, step with its conversion of actions);
- shared: its shared-memory environment (masks, orders written, step), which makes no entities;
- JVM alone: of the latter, the two calls into Java. The target is ours <= JVM alone / 0.9.

The columns after that say where our time goes, by steps with more clocks: the ticks (those with passive bots
beside them), reading the games and masks (by doing it twice), and the rest, which is NumPy's, Numba's and
Python's. What looking at the clock costs is taken off all times.

The part "processes" compares one JVM with two, in two workers that share the same games. "two programs" are
two processes that know nothing of each other and play as many games each: what two JVMs could do if nothing
had to wait. Frames per second by the clock, drawing the actions not counted, medians over rounds. That says
something where two processors are free.
"""

from __future__ import annotations

import importlib
import math
import multiprocessing
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
from entitize.adapters.microrts import MicroRTSVectorEnv, find_map
from entitize.adapters.microrts.java import start_engine

from rows import Budget, Row, has_written_rows, rounds, script_parser, write_json

MIX = {"coacAI": 18, "randomBiasedAI": 2, "lightRushAI": 2, "workerRushAI": 2}
TARGET = 0.9
CUTS = np.cumsum([6, 4, 4, 4, 4, 7])

Times = dict[str, list[float]]


def paper_mix(num_envs: int) -> list[str]:
    """The bots of `num_envs` lanes, in the papers' proportions."""
    names = [name for name, count in MIX.items() for _ in range(count)]
    return [names[round(k * (len(names) - 1) / max(1, num_envs - 1))] for k in range(num_envs)]


def package_environments() -> Any:
    """The module of the package's environments, which asks for gym and Pillow without need."""
    start_engine()
    imports = importlib.import_module("jpype.imports")
    imports.registerDomain("ts", alias="tests")
    imports.registerDomain("ai")
    pillow = ModuleType("PIL")
    pillow.Image = None  # type: ignore[attr-defined]
    sys.modules.setdefault("gym", gymnasium)
    sys.modules.setdefault("PIL", pillow)
    from gym_microrts.envs import vec_env

    return vec_env


def draw(masks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Legal orders (n, 7) under masks (n, 78)."""
    draws = rng.random(masks.shape, np.float32) * (masks > 0)
    return np.stack([part.argmax(1) for part in np.split(draws, CUTS, 1)], 1)


def interval() -> float:
    """An empty one, in seconds."""
    start = time.thread_time()
    return time.thread_time() - start


#: What looking at the clock adds to a time: half a microsecond, where a step of eight lanes takes sixty.
CLOCK = statistics.median(interval() for _ in range(10_001))


def timed(call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Seconds of processor time that a call took, and its result."""
    start = time.thread_time()
    result = call(*arguments)
    return time.thread_time() - start - CLOCK, result


class Ours:
    """Our environment, timed as a whole and by its calls into Java."""

    def __init__(self, board: str, num_envs: int, selfplay: bool, bots: list[str] | None = None) -> None:
        opponents: Any = [] if selfplay else bots or paper_mix(num_envs)
        lanes: dict[str, Any] = {"opponents": opponents, "selfplay": num_envs * selfplay}
        self.env = MicroRTSVectorEnv(board, num_envs, **lanes)
        self.batch, _ = self.env.reset(seed=0)
        self.env.action_space.seed(0)

    def step(self) -> float:
        actions = self.env.action_space.sample(mask=self.batch)
        seconds, result = timed(self.env.step, actions)
        self.batch = result[0]
        return seconds

    def round(self, steps: int) -> dict[str, float]:
        ours = sum(self.step() for _ in range(steps))
        java, read = self.parts(steps)
        return {"ours": ours, "tick": java - read, "read": read, "rest": ours - java}

    def parts(self, steps: int) -> tuple[float, float]:
        """Seconds in Java of so many steps, and those of reading alone."""
        engine: Any = self.env.engine
        play, java, read = engine.play, 0.0, 0.0

        def timed_play() -> Any:
            nonlocal java
            seconds, failures = timed(play)
            java += seconds
            return failures

        engine.play = timed_play
        for _ in range(steps):
            self.step()
            read += timed(engine.read)[0]
            engine.masks[:] = 0  # as who has taken the masks leaves them
        del engine.play
        return java, read


class Package:
    """One of the package's environments."""

    def __init__(self, name: str, board: str, num_envs: int, selfplay: bool) -> None:
        module = package_environments()
        from gym_microrts import microrts_ai

        self.shared = name == "shared"
        kind = module.MicroRTSGridModeSharedMemVecEnv if self.shared else module.MicroRTSGridModeVecEnv
        folder = Path(module.gym_microrts.__path__[0]) / "microrts"
        bots = [] if selfplay else [getattr(microrts_ai, bot) for bot in paper_mix(num_envs)]
        path = str(find_map(board).path.relative_to(folder))
        self.env = kind(num_envs - len(bots), len(bots), ai2s=bots, map_paths=[path])
        self.env.reset()
        self.rng = np.random.default_rng(0)

    def round(self, steps: int) -> dict[str, float]:
        total = java = 0.0
        for _ in range(steps):
            seconds, masks = timed(self.env.get_action_mask)
            total += seconds
            java += seconds
            lanes, cells = np.nonzero(masks[:, :, 0])
            orders = draw(masks[lanes, cells], self.rng)
            start = time.thread_time()
            if self.shared:
                self.env.actions[lanes, cells] = orders
                seconds, answer = timed(self.env.vec_client.gameStep, [0] * self.env.num_envs)
                java += seconds
                np.array(answer.reward) @ self.env.reward_weight, np.array(answer.done)[:, 0]
            else:
                board = np.zeros((*masks.shape[:2], 7), np.int32)
                board[lanes, cells] = orders
                self.env.step(board)
            total += time.thread_time() - start - CLOCK * (2 if self.shared else 1)
        return {"shared": total, "JVM alone": java} if self.shared else {"grid": total}


def time_setting(
    board: str, num_envs: int, selfplay: bool, most: int, warm_up: float, seconds: float = math.inf
) -> dict[str, float]:
    """Medians in microseconds per frame, by column."""
    players: list[tuple[Any, dict[str, str]]] = [(Ours(board, num_envs, selfplay), {})]
    if not selfplay:
        players.append((Ours(board, num_envs, False, ["passiveAI"] * num_envs), {"tick": "passive"}))
    players += [(Package(name, board, num_envs, selfplay), {}) for name in ("shared", "grid")]
    steps = max(1, 600 // num_envs)
    for player, _ in players:
        end = time.thread_time() + warm_up
        while time.thread_time() < end:
            player.round(steps)
    times: Times = {}
    for _ in rounds(most, seconds):
        for player, names in players:
            for name, seconds in player.round(steps).items():
                if not names or name in names:
                    times.setdefault(names.get(name, name), []).append(1e6 * seconds / steps / num_envs)
    result = {name: statistics.median(values) for name, values in times.items()}
    result["ratio"] = result["JVM alone"] / result["ours"]
    for player, _ in players:  # the package's own close would end the JVM
        if isinstance(player, Ours):
            player.env.close()
        else:
            player.env.vec_client.close()
    return result


def bench_rows(budget: Budget) -> Iterator[Row]:
    """Against bots and in self-play, on the larger map."""
    for index, (what, selfplay) in enumerate((("bots", False), ("self-play", True))):
        seconds = budget.share(2 - index)
        us = time_setting("basesWorkers16x16", 24, selfplay, 15, seconds / 8, seconds / 3)
        case, unit = f"16x16, 24 games, {what}", "us per frame"
        yield Row(case, us["ours"], us["JVM alone"], "its JVM alone", unit, False, "floor", TARGET)
        for peer in ("shared", "grid"):
            yield Row(case, us["ours"], us[peer], f"gym-microrts, {peer}", unit, False)


PROCESSES: dict[str, dict[str, Any]] = {
    "one process": {},
    "two workers": {"num_workers": 2},
}
TWO = "two programs"


class Clocked:
    """An environment and what it has seen last."""

    def __init__(self, board: str, bots: list[str], **options: Any) -> None:
        self.env = ez.make_vec(f"MicroRTS/{board}", len(bots), opponents=bots, **options)
        self.batch, _ = self.env.reset(seed=0)

    def play(self, steps: int) -> float:
        """Frames per second of so many steps, by the clock."""
        seconds = 0.0
        for _ in range(steps):
            actions = self.env.action_space.sample(mask=self.batch)
            start = time.perf_counter()
            self.batch = self.env.step(actions)[0]
            seconds += time.perf_counter() - start
        return steps * self.env.num_envs / seconds


def play_beside(connection: Connection, board: str, bots: list[str]) -> None:
    """The second program: plays the requested number of steps again and again, and reports its speed."""
    player = Clocked(board, bots)
    while steps := connection.recv():
        connection.send(player.play(steps))
    player.env.close()


def time_processes(board: str, num_envs: int, most: int, warm_up: float) -> dict[str, float]:
    """Medians in frames per second by the clock, by turns, and of their ratios to one process."""
    bots = paper_mix(num_envs)
    players = {name: Clocked(board, bots, **options) for name, options in PROCESSES.items()}
    context = multiprocessing.get_context("spawn")
    connection, theirs = context.Pipe()
    beside = context.Process(target=play_beside, args=(theirs, board, bots), daemon=True)
    beside.start()
    steps = max(1, 4800 // num_envs)

    def play_both() -> float:
        connection.send(steps)
        return players["one process"].play(steps) + float(connection.recv())

    plays = {name: partial(player.play, steps) for name, player in players.items()} | {TWO: play_both}
    for play in plays.values():
        end = time.perf_counter() + 2 * warm_up  # Java's compiler takes processors from both
        while time.perf_counter() < end:
            play()
    times = [{name: play() for name, play in plays.items()} for _ in range(most)]
    result = {name: statistics.median(row[name] for row in times) for name in plays}
    for name in list(plays)[1:]:
        result[f"ratio, {name}"] = statistics.median(row[name] / row["one process"] for row in times)
    connection.send(0)
    beside.join()
    for player in players.values():
        player.env.close()
    return result


def main() -> None:
    parser = script_parser(__doc__, quick="one setting, short", json=True, rows=True)
    parser.add_argument("--part", choices=["all", "step", "processes"], default="all")
    options = parser.parse_args()
    if has_written_rows(options, bench_rows):
        return
    settings = [("basesWorkers8x8", n, selfplay) for n in (8, 24) for selfplay in (False, True)]
    settings += [("basesWorkers16x16", n, selfplay) for _, n, selfplay in settings]
    if options.quick:
        settings = [("basesWorkers16x16", 24, False)]
    most, warm_up = (5, 5.0) if options.quick else (15, 10.0)
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    results = {}
    if options.part != "processes":
        results = time_steps(settings, most, warm_up)
    if options.part != "step":
        columns = [*PROCESSES, TWO]
        print(
            "frames/s by the clock   " + "".join(f"{name:>18}" for name in columns) + "      and their ratios"
        )
        boards = dict.fromkeys(board for board, _, _ in settings)
        for board, num_envs in ((board, num_envs) for board in boards for num_envs in (24, 48, 96)):
            times = time_processes(board, num_envs, most, warm_up)
            results[f"{board} {num_envs} processes"] = times
            cells = "".join(f"{times[name]:18.0f}" for name in columns)
            ratios = "".join(f"{times[f'ratio, {name}']:8.2f}" for name in columns[1:])
            print(f"{board:18} {num_envs:3}  {cells}      {ratios}", flush=True)
    write_json(options.json, results)


def time_steps(
    settings: list[tuple[str, int, bool]], most: int, warm_up: float
) -> dict[str, dict[str, float]]:
    """The part "step": print a line for each setting."""
    columns = ("ours", "JVM alone", "shared", "grid", "tick", "passive", "read", "rest", "ratio")
    print("map                envs          " + "".join(f"{name:>10}" for name in columns))
    results = {}
    for board, num_envs, selfplay in settings:
        result = time_setting(board, num_envs, selfplay, most, warm_up)
        what = "self-play" if selfplay else "bots"
        results[f"{board} {num_envs} {what}"] = result
        cells = "".join(f"{result[name]:10.2f}" if name in result else " " * 10 for name in columns)
        print(f"{board:18} {num_envs:3} {what:10}{cells}", flush=True)
    missed = [name for name, result in results.items() if result["ratio"] < TARGET]
    print(f"at least {TARGET} of the JVM alone: {'yes' if not missed else 'no: ' + ', '.join(missed)}")
    return results


if __name__ == "__main__":
    main()
