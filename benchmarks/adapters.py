"""Cost of `entitize.wrap_vec`: adapter time per step and env, next to the wrapped environment's own step.

For each environment one `SyncVectorEnv` (SAME_STEP) of `--num-envs` lanes is stepped in blocks, alternately
by itself and through the adapter, with legal actions drawn beforehand, so that both meet the same load of the
machine. The adapter's part of a step is what remains when the vector environment's own `step` is taken off.
Reported are medians over the blocks, of processor time: waiting for a busy machine is not counted.

    python benchmarks/adapters.py
    python benchmarks/adapters.py --num-envs 64 --blocks 15 --steps 60 --only CartPole Taxi
    python benchmarks/adapters.py --steps 20 --griddly Clusters Zelda
"""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import entitize
import gymnasium
import numpy as np
from entitize.adapters.griddly import GriddlyVectorEnv, read_rules
from entitize.adapters.griddly.library import find_game
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorWrapper

from griddly_peer import GAMES, GriddlyPeers
from rows import Budget, Row, has_written_rows, rounds, script_parser


def minatar(game: str) -> Callable[[], gymnasium.Env]:
    def make() -> gymnasium.Env:
        from minatar.gym import register_envs  # type: ignore[import-untyped]

        if f"MinAtar/{game}-v1" not in gymnasium.registry:
            register_envs()
        return gymnasium.make(f"MinAtar/{game}-v1")

    return make


def atari_ram() -> gymnasium.Env:
    import ale_py

    gymnasium.register_envs(ale_py)
    return gymnasium.make("ALE/Breakout-v5", obs_type="ram")


def minigrid() -> gymnasium.Env:
    import minigrid

    gymnasium.register_envs(minigrid)
    return gymnasium.make("MiniGrid-DoorKey-8x8-v0")


def highway() -> gymnasium.Env:
    import highway_env

    gymnasium.register_envs(highway_env)
    return gymnasium.make("highway-fast-v0")


ENVS: dict[str, Callable[[], gymnasium.Env]] = {
    "CartPole": lambda: gymnasium.make("CartPole-v1"),
    "FrozenLake": lambda: gymnasium.make("FrozenLake-v1"),
    "MinAtar-Breakout": minatar("Breakout"),
    "Taxi": lambda: gymnasium.make("Taxi-v4"),
    "MinAtar-Seaquest": minatar("Seaquest"),
    "Blackjack": lambda: gymnasium.make("Blackjack-v1"),
    "Pendulum": lambda: gymnasium.make("Pendulum-v1"),
    "LunarLander": lambda: gymnasium.make("LunarLander-v3"),
    "Acrobot": lambda: gymnasium.make("Acrobot-v1"),
    "MiniGrid-DoorKey": minigrid,
    "Atari-RAM": atari_ram,
    "highway": highway,
}


class Clock(VectorWrapper):
    """Counts the seconds spent in the vector environment's own `step`."""

    seconds = 0.0

    def step(self, actions: Any) -> Any:
        start = time.process_time()
        result = self.env.step(actions)
        self.seconds += time.process_time() - start
        return result


#: Plays some steps, from a batch, with and without the adapter. Returns the seconds of the environment's own
#: steps, those that the adapter adds, and the last batch.
Block = Callable[[Any], tuple[float, float, Any]]


def over_blocks(
    venv: Any, batch: Any, block: Block, blocks: int, steps: int, seconds: float
) -> tuple[float, float]:
    """Return microseconds per step and env, medians over blocks: of the own step, and what is added."""
    own, added = [], []
    for index in rounds(blocks + 1, seconds, least=4):
        alone, more, batch = block(batch)
        if index:  # the first one compiles and warms caches
            own.append(alone)
            added.append(more)
    venv.close()
    scale = 1e6 / (steps * venv.num_envs)
    return statistics.median(own) * scale, statistics.median(added) * scale


def measure(
    make: Callable[[], gymnasium.Env], num_envs: int, blocks: int, steps: int, seconds: float = math.inf
) -> tuple[float, float]:
    """Microseconds per step and env: the environment's own step, and what the adapter adds."""
    clock = Clock(SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP))
    venv = entitize.wrap_vec(clock)
    first, _ = venv.reset(seed=1)
    venv.action_space.seed(1)
    clock.action_space.seed(1)

    def block(batch: Any) -> tuple[float, float, Any]:
        clock.seconds = adapter = 0.0
        for _ in range(steps):
            actions = venv.action_space.sample(mask=batch)
            before, start = clock.seconds, time.process_time()
            batch, *_ = venv.step(actions)
            adapter += time.process_time() - start - (clock.seconds - before)
        clock.seconds = 0.0
        for _ in range(steps):
            clock.step(clock.action_space.sample())
        return clock.seconds, adapter, venv.reset()[0]  # the adapter has not seen the last steps

    return over_blocks(venv, first, block, blocks, steps, seconds)


def measure_native(
    env_id: str,
    step_alone: Callable[[Any, list[Any]], None],
    blocks: int,
    steps: int,
    seconds: float = math.inf,
) -> tuple[float, float]:
    """Measure, as `measure` does, a vector environment of our own of 16 lanes: `step_alone(venv, actions)`
    plays the actions of each step without it. Time of processes that it has started is part of its own step.
    """
    venv = entitize.make_vec(env_id, num_envs=16)
    first, _ = venv.reset(seed=1)
    venv.action_space.seed(1)

    def block(batch: Any) -> tuple[float, float, Any]:
        actions = [venv.action_space.sample(mask=batch) for _ in range(steps)]
        start = time.process_time()
        for action in actions:
            batch, *_ = venv.step(action)
        adapter = time.process_time() - start
        engines, start = children_seconds(), time.process_time()
        step_alone(venv, actions)
        client = time.process_time() - start
        return client + children_seconds() - engines, adapter - client, batch

    return over_blocks(venv, first, block, blocks, steps, seconds)


def step_vizdoom(venv: Any, actions: list[Any]) -> None:
    """Step the games as ViZDoom's own environments do."""
    games = [engine.game for engine in venv.engines]
    nothing = [0.0] * games[0].get_available_buttons_size()
    for _ in actions:
        for game in games:
            game.make_action(nothing, 4)
            game.get_state()
            if game.is_episode_finished():
                game.new_episode()


def step_atari(venv: Any, actions: list[Any]) -> None:
    """Step the emulators: four frames, the memory and the end of the game."""
    memory = np.zeros(128, np.uint8)
    emulators = [console.ale for console in venv.consoles]
    for action in actions:
        for ale, held in zip(emulators, action["act"].values.tolist(), strict=True):
            for _ in range(4):
                ale.act(held)
            ale.getRAM(memory)
            if ale.game_over():
                ale.reset_game()


def measure_griddly(name: str, blocks: int, steps: int, seconds: float = math.inf) -> tuple[float, float]:
    """Measure, as `measure` does, a game of Griddly, of 16 lanes or a few less: its own step is that of
    Griddly's environments with an entity observer of the same features and masks, in the same episodes. What
    ours adds can be negative: it asks the engine for less.
    """
    players = read_rules(find_game(name)).num_players
    venv = GriddlyVectorEnv(name, 16 // players * players, max_steps=None)
    first, info = venv.reset(seed=1)
    venv.action_space.seed(1)
    peers = GriddlyPeers(venv, info["episode_seed"])

    def block(batch: Any) -> tuple[float, float, Any]:
        adapter = theirs = 0.0
        for _ in range(steps):
            actions = venv.action_space.sample(mask=batch)
            commands = venv.commands(actions)
            start = time.process_time()
            batch, *_, info = venv.step(actions)
            adapter += time.process_time() - start
            prepared = peers.prepare(commands, info["episode_seed"])
            start = time.process_time()
            peers.step(prepared)
            theirs += time.process_time() - start
        return theirs, adapter - theirs, batch

    return over_blocks(venv, first, block, blocks, steps, seconds)


def children_seconds() -> float:
    """Processor time of the running processes that this one has started (Linux)."""
    ticks = 0
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            fields = entry.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


#: Have vector environments of their own, of 16 lanes.
NATIVE = {
    "ViZDoom": partial(measure_native, "ViZDoom/defend_the_line", step_vizdoom),
    "Atari": partial(measure_native, "Atari/Pong", step_atari),
    **{f"Griddly/{name}": partial(measure_griddly, name) for name in GAMES},
}


def bench_rows(budget: Budget) -> Iterator[Row]:
    """At 64 lanes. Where a step takes 20 us and more, the adapter may add 15 % of it.

    Without highway, of which 64 lanes take about a second a step. Griddly's rows are whole steps, as ours are
    often shorter.
    """
    warnings.simplefilter("ignore")
    envs = {name: make for name, make in ENVS.items() if name != "highway"}
    for index, (name, make) in enumerate(envs.items()):
        own, added = measure(make, 64, 9, 20, budget.share(len(envs) + len(NATIVE) - index))
        target = None if own < 20 else 1 / 0.15
        yield Row(name, added, own, "the environment's own step", "us added", False, target=target)
    for index, (name, measured) in enumerate(NATIVE.items()):
        own, added = measured(9, 20, budget.share(len(NATIVE) - index))
        if name.startswith("Griddly/"):
            peer = "Griddly's own environment"
            yield Row(name, own + added, own, peer, "us a step", False, target=1 / 1.15)
            continue
        yield Row(name, max(added, 0.1), own, "the engine's own step", "us added", False, target=1 / 0.15)


def main() -> None:
    parser = script_parser(__doc__, rows=True)
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=9)
    parser.add_argument("--steps", type=int, default=40, help="steps per block")
    parser.add_argument("--only", nargs="*", choices=[*ENVS, *NATIVE], default=[*ENVS, *NATIVE])
    parser.add_argument("--griddly", nargs="+", metavar="GAME", help="measure these games of Griddly instead")
    options = parser.parse_args()
    if has_written_rows(options, bench_rows):
        return
    warnings.simplefilter("ignore")
    print(f"{'environment':18} {'own step':>10} {'adapter':>10} {'ratio':>7}   (us per step and env)")
    native = NATIVE
    if options.griddly:
        native = {f"Griddly/{game}": partial(measure_griddly, game) for game in options.griddly}
    for name in native if options.griddly else options.only:
        if name in native:
            own, added = native[name](options.blocks, options.steps)
        else:
            own, added = measure(ENVS[name], options.num_envs, options.blocks, options.steps)
        verdict = "" if own < 20 else "  ok" if added / own < 0.15 else "  over 15%"
        print(f"{name:18} {own:10.2f} {added:10.2f} {added / own:7.1%}{verdict}", flush=True)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
