"""Orbit Wars beside its published engine: processor time of a tick of the same games.

    python benchmarks/orbit_wars.py [--games 32] [--rounds 3] [--json PATH]

Two players draw random legal choices. Ours plays all games at once, with what the players observe; the engine
gets the same moves of the first four, and no observations are made of them. Both times include making the
maps.
`kaggle-environments` must be installed (`make test` installs it).
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from entitize.envs import sample_actions
from entitize.envs.games.conquest.orbit_wars import rules
from entitize.envs.games.conquest.orbit_wars.game import OrbitWarsVectorEnv
from entitize.envs.games.conquest.orbit_wars.view import order_launches

from rows import Budget, Row, has_written_rows, rounds, script_parser, write_json

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
TARGET = 100.0
PLAYERS = 2
ENGINE_GAMES = 4


def record(num_games: int) -> tuple[list[Any], list[Any], list[float]]:
    """Play until the first games are over.

    Returns the actions of all games, the moves of the first ones, and how many fleets all and they have on
    average.
    """
    venv, rng = OrbitWarsVectorEnv(PLAYERS * num_games, bot=None), np.random.default_rng(0)
    batch, _ = venv.reset(seed=0, options={"game_seeds": list(range(num_games))})
    actions, fleets = [], []
    moves: list[list[Any]] = [[] for _ in range(ENGINE_GAMES)]
    playing = set(range(ENGINE_GAMES))
    while playing:
        chosen = sample_actions(venv.single_action_space, batch, rng)
        actions.append(chosen)
        for game in playing:
            moves[game].append([orders(venv, chosen, PLAYERS * game + player) for player in range(PLAYERS)])
        fleets.append((venv.boards.fleet_counts.mean(), venv.boards.fleet_counts[list(playing)].mean()))
        batch, _, terminated, *_ = venv.step(chosen)
        playing -= set((np.flatnonzero(terminated) // PLAYERS).tolist())
    return actions, moves, np.mean(fleets, axis=0).tolist()


def orders(venv: OrbitWarsVectorEnv, chosen: Any, lane: int) -> list[list[float]]:
    """Return the moves of a lane's choices as the engine takes them."""
    moves = np.empty((rules.MAX_SLOTS, 3))
    count = order_launches(
        *(venv.boards, int(venv.lane_games[lane]), int(venv.lane_players[lane])),
        *(chosen["Target"][lane], chosen["Share"][lane], venv.min_ships, 6.0, 1.5, moves),
    )
    return [[int(origin), heading, int(ships)] for origin, heading, ships in moves[:count].tolist()]


def measure(num_games: int, most: int, seconds: float) -> tuple[float, float, list[float]]:
    """Return microseconds of a tick of one game, ours and the engine's, and the mean numbers of fleets."""
    from published_games import orbit_wars

    actions, moves, fleets = record(num_games)
    venv = OrbitWarsVectorEnv(PLAYERS * num_games, bot=None)
    ours, engine = [], []
    for _ in rounds(most, seconds):
        start = time.process_time()
        venv.reset(seed=0, options={"game_seeds": list(range(num_games))})
        for chosen in actions:
            venv.step(chosen)
        ours.append((time.process_time() - start) / len(actions) / num_games)
        start = time.process_time()
        for seed, ticks in enumerate(moves):
            game = orbit_wars(seed, PLAYERS)
            for made in ticks:
                game.step(made)
        engine.append((time.process_time() - start) / sum(map(len, moves)))
    return 1e6 * statistics.median(ours), 1e6 * statistics.median(engine), fleets


def bench_rows(budget: Budget) -> Iterator[Row]:
    """A tick with two players."""
    ours, engine, fleets = measure(32, 5, budget.share(1))
    note = f"{fleets[0]:.0f} fleets on average"
    yield Row("a tick", ours, engine, "published engine", "us per game", False, target=TARGET, note=note)


def main() -> None:
    parser = script_parser(__doc__, json=True, rows=True)
    parser.add_argument("--games", type=int, default=32, help="that ours plays at once")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if has_written_rows(options, bench_rows):
        return
    ours, engine, fleets = measure(options.games, options.rounds, float("inf"))
    print("one tick of one game, microseconds of processor time")
    print(f"published engine {engine:10.1f}   {fleets[1]:.0f} fleets on average")
    print(f"ours {ours:22.1f}   {fleets[0]:.0f} fleets on average; {engine / ours:.0f} times as fast")
    found = {"ours": ours, "engine": engine, "fleets": fleets[0], "engine_fleets": fleets[1]}
    write_json(options.json, found)


if __name__ == "__main__":
    main()
