"""Cost of the views of PettingZoo's games: processor time per agent and step.

Each game is played at random. After each step every living agent is asked what it sees, through the view (all
at once where it can) and through the game's own `observe`, where there is one (MAgent2 observes within its
step). Then lanes of `from_pettingzoo` play it: "adapter" is what they add to the game's step, in percent of
it. Reported are medians over the steps.

    python benchmarks/pettingzoo_views.py
    python benchmarks/pettingzoo_views.py --quick --only battle chess
"""

from __future__ import annotations

import importlib
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from entitize import from_pettingzoo
from entitize.adapters.pettingzoo.games import find_view
from entitize.envs import sample_actions

from rows import Budget, Row, has_written_rows, rounds, script_parser


def registered(api: str, name: str, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        import pettingzoo

        return pettingzoo.make(api, name, **options)

    return make


def module(name: str) -> Callable[[], Any]:
    return lambda: importlib.import_module(name).parallel_env()


GAMES: dict[str, Callable[[], Any]] = {
    "kaz": registered("parallel", "butterfly/knights_archers_zombies-v11", obs_method="vector-sequence"),
    "simple_spread": module("mpe2.simple_spread_v3"),
    "simple_tag": module("mpe2.simple_tag_v3"),
    "simple_world_comm": module("mpe2.simple_world_comm_v3"),
    "battle": module("magent2.environments.battle_v4"),
    "adversarial_pursuit": module("magent2.environments.adversarial_pursuit_v4"),
    "gather": module("magent2.environments.gather_v5"),
    "pursuit": registered("parallel", "sisl/pursuit-v5"),
    "tictactoe": registered("aec", "classic/tictactoe-v3"),
    "connect_four": registered("aec", "classic/connect_four-v3"),
    "chess": registered("aec", "classic/chess-v6"),
}


def measure(
    make: Callable[[], Any], num_steps: int, seconds: float = math.inf
) -> tuple[float, float | None, float, float]:
    """Medians: agents, and microseconds per agent and step of the game's `observe`, its `step`, the view's
    `observe`."""
    env = make()
    env.reset(seed=1)
    game, rng = env.unwrapped, np.random.default_rng(1)
    kind = find_view(game)
    assert kind is not None
    view = kind(game)
    agents, observing, stepping, viewing = [], [], [], []
    for _ in rounds(num_steps, seconds, least=20):
        start = time.process_time()
        env.step(random_actions(env, rng))
        stepped = time.process_time()
        living = list(env.agents)
        if not living or view.observe_all(living) is None:
            for agent in living:
                view.observe(agent)
        viewed = time.process_time()
        if observes := hasattr(game, "observe"):
            for agent in living:
                game.observe(agent)
        observed = time.process_time()
        if living:
            agents.append(len(living))
            for times, seconds in (
                (stepping, stepped - start),
                (viewing, viewed - stepped),
                (observing, observed - viewed),
            ):
                times.append(1e6 * seconds / len(living))
        if is_over(env):
            env.reset(seed=int(rng.integers(1000)))
    own = statistics.median(observing) if observes else None
    return statistics.median(agents), own, statistics.median(stepping), statistics.median(viewing)


def measure_lanes(make: Callable[[], Any], num_steps: int, seconds: float = math.inf) -> tuple[float, float]:
    """Medians: microseconds of a step of a peer that is stepped by itself, and of a step of lanes.

    Both play games of their own at random, in turn. Choosing actions and resetting the peer is not timed;
    lanes also observe, decode actions and reset.
    """
    peer, venv = make(), from_pettingzoo(make())
    peer.reset(seed=1)
    batch, _ = venv.reset(seed=1)
    rng, own, lanes = np.random.default_rng(1), [], []
    for _ in rounds(num_steps, seconds, least=20):
        actions, peers = sample_actions(venv.single_action_space, batch, rng), random_actions(peer, rng)
        start = time.process_time()
        batch, *_ = venv.step(actions)
        stepped = time.process_time()
        peer.step(peers)
        own.append(1e6 * (time.process_time() - stepped))
        lanes.append(1e6 * (stepped - start))
        if is_over(peer):
            peer.reset(seed=int(rng.integers(1000)))
    venv.close()
    peer.close()
    return statistics.median(own), statistics.median(lanes)


def random_actions(env: Any, rng: np.random.Generator) -> Any:
    """A legal action at random, or those of all agents."""
    if hasattr(env, "agent_selection"):
        mask = env.observe(env.agent_selection)["action_mask"]
        return int(rng.choice(mask.nonzero()[0]))
    return {agent: int(rng.integers(env.action_space(agent).n)) for agent in env.agents}


def is_over(env: Any) -> bool:
    return not env.agents or any(getattr(env, "terminations", {}).values())


def bench_rows(budget: Budget) -> Iterator[Row]:
    """Against the game's own `observe`, or its step where that observes."""
    warnings.simplefilter("ignore")
    for index, (name, make) in enumerate(GAMES.items()):
        _, own, stepping, viewing = measure(make, 300, budget.share(len(GAMES) - index))
        peer, peer_name = (stepping, "the game's step") if own is None else (own, "the game's observe")
        yield Row(name, viewing, peer, peer_name, "us per agent", False)


def main() -> None:
    parser = script_parser(__doc__, quick="a tenth of the steps", rows=True)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--only", nargs="*", choices=list(GAMES), default=list(GAMES))
    options = parser.parse_args()
    if has_written_rows(options, bench_rows):
        return
    warnings.simplefilter("ignore")
    num_steps = options.steps // 10 if options.quick else options.steps
    print(f"{'':20} {'us per agent and step':>37} {'us per step':>19}")
    print(
        f"{'game':20} {'agents':>6} {'own observe':>12} {'own step':>9} {'view':>7}"
        f" {'own step':>9} {'lanes':>9} {'added':>7}"
    )
    for name in options.only:
        agents, own, stepping, viewing = measure(GAMES[name], num_steps)
        shown = "" if own is None else f"{own:.1f}"
        peer, lanes = measure_lanes(GAMES[name], num_steps)
        print(
            f"{name:20} {agents:6g} {shown:>12} {stepping:9.1f} {viewing:7.1f}"
            f" {peer:9.0f} {lanes:9.0f} {100 * (lanes / peer - 1):+6.0f}%",
            flush=True,
        )


if __name__ == "__main__":
    main()
