"""The built-in games: how fast they step next to the reference's, and how soon PPO masters them.

    python benchmarks/games.py [--quick] [--games Xor Count] [--num-envs 64 1024] [--json PATH]
    python benchmarks/games.py --learn [--games Xor Count] [--seeds 1 2 3] [--json PATH]

Speed: environment steps per second of processor time on one thread, with random legal actions drawn
beforehand: `make_vec` with so many environments, next to the games of the Python package entity_gym, whose
rules ours follow, stepped 64 at once by its `EnvList` (which batches observations too) and one by one by the
bare `act`. All take turns in random order; medians. The target is 20 times the `EnvList`.

Learning: PPO with RogueNet until the policy's mean return over hundreds of fresh episodes reaches the goal,
which is 97 % of the known optimum unless `LESSONS` says otherwise; processor time of rollouts and updates on
one thread, and environment steps. `LESSONS` below are hyper-parameters to start from.
"""

from __future__ import annotations

import importlib
import math
import random
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from entitize import make_vec
from entitize.envs import sample_actions

from rows import Budget, Row, has_written_rows, rounds, script_parser, write_json

TARGET = 20.0
REFERENCE_ENVS = 64


def reference(name: str) -> Any:
    """A module of entity_gym, or None where it is not installed. Its import warns of its age."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(f"entity_gym.{name}")
        except ImportError:
            return None


# -- speed ------------------------------------------------------------------------------------------------

#: Plays a fixed number of environment steps, and says how many.
Block = Callable[[], int]
#: Gets ready for a block outside the measured time, and returns it.
Contender = Callable[[], Block]


def ours(name: str, num_envs: int, num_steps: int) -> Contender:
    """`num_steps` steps of `num_envs` native games."""
    venv, rng = make_vec(name, num_envs), np.random.default_rng(0)
    batch, _ = venv.reset(seed=0)
    recorded = []
    for _ in range(num_steps):
        recorded.append(sample_actions(venv.single_action_space, batch, rng))
        batch, *_ = venv.step(recorded[-1])

    def get_ready() -> Block:
        venv.reset(seed=0)

        def play() -> int:
            for actions in recorded:
                venv.step(actions)
            return num_steps * num_envs

        return play

    return get_ready


def seed_reference() -> None:
    """The reference's games draw from Python's and NumPy's global generators."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - that is the one they use


def drawn(venv: Any, seen: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Random legal orders for what the reference's `venv` shows."""
    module, ragged = reference("env.environment"), importlib.import_module("ragged_buffer")
    orders = {}
    for name, space in venv.action_space().items():
        mask = seen.action_masks[name]
        if isinstance(space, module.GlobalCategoricalActionSpace):
            lengths = np.ones(len(venv), np.int64)
            values = rng.integers(0, len(space.index_to_label), len(venv))
        elif isinstance(space, module.CategoricalActionSpace):
            lengths = np.asarray(mask.actors.size1(), np.int64)
            shape = (int(lengths.sum()), len(space.index_to_label))
            has_mask = mask.mask is not None and mask.mask.size0()
            allowed = mask.mask.as_array().reshape(shape) if has_mask else np.ones(shape, bool)
            values = np.where(allowed, rng.random(shape), -1).argmax(1)
        else:
            lengths = np.asarray(mask.actors.size1(), np.int64)
            values = rng.integers(0, np.repeat(np.asarray(mask.actees.size1(), np.int64), lengths))
        orders[name] = ragged.RaggedBufferI64.from_flattened(values[:, None], lengths)
    return orders


def env_list(name: str, num_envs: int, num_steps: int) -> Contender:
    """`num_steps` steps of the reference's vector environment."""
    venv = reference("env.env_list").EnvList(reference("examples").ENV_REGISTRY[name], num_envs)
    space, rng, recorded = venv.obs_space(), np.random.default_rng(0), []
    seed_reference()
    seen = venv.reset(space)
    for _ in range(num_steps):
        recorded.append(drawn(venv, seen, rng))
        seen = venv.act(recorded[-1], space)

    def get_ready() -> Block:
        seed_reference()
        venv.reset(space)

        def play() -> int:
            for orders in recorded:
                venv.act(orders, space)
            return num_steps * num_envs

        return play

    return get_ready


def bare(name: str, num_steps: int) -> Contender:
    """`num_steps` times the reference's `act` and, at the end of episodes, `reset`, and nothing else."""
    module = reference("env.env_list")
    venv = module.EnvList(reference("examples").ENV_REGISTRY[name], 1)
    space, rng, recorded = venv.obs_space(), np.random.default_rng(0), []
    seed_reference()
    seen = venv.reset(space)
    for _ in range(num_steps):
        orders = drawn(venv, seen, rng)
        last = venv.last_obs[0]
        recorded.append(module.action_index_to_actions(space, venv.action_space(), orders, last))
        seen = venv.act(orders, space)

    def get_ready() -> Block:
        seed_reference()
        env = venv.envs[0]
        env.reset()

        def play() -> int:
            for actions in recorded:
                if env.act(actions).done:
                    env.reset()
            return num_steps

        return play

    return get_ready


def measure(
    name: str, sizes: list[int], repeats: int, scale: int, seconds: float = math.inf
) -> dict[str, float]:
    """Median environment steps per second of processor time, by contender."""
    contenders = {f"{n} envs": ours(name, n, max(10, scale * 64 // n)) for n in sizes}
    if reference("examples") is not None and name in reference("examples").ENV_REGISTRY:
        contenders["EnvList"] = env_list(name, REFERENCE_ENVS, max(3, scale // 20))
        contenders["bare act"] = bare(name, 4 * scale)
    rates: dict[str, list[float]] = {contender: [] for contender in contenders}
    order = random.Random(0)
    for contender in contenders.values():
        contender()()
    for _ in rounds(repeats, seconds):
        for contender in order.sample(list(contenders), len(contenders)):
            play = contenders[contender]()
            start = time.process_time()
            count = play()
            rates[contender].append(count / (time.process_time() - start))
    return {contender: statistics.median(samples) for contender, samples in rates.items()}


def compare_speed(
    games: list[str], sizes: list[int], repeats: int, scale: int
) -> dict[str, dict[str, float]]:
    """Measure and print a table; the results by game."""
    columns = [f"{n} envs" for n in sizes]
    head = [*columns, "EnvList", "bare act", *(f"{n} / EnvList" for n in sizes), f"{sizes[-1]} / bare"]
    print("environment steps per second of processor time, one thread")
    print(f"{'game':<18}" + "".join(f"{cell:>15}" for cell in head))
    results, missed = {}, []
    for name in games:
        rates = results[name] = measure(name, sizes, repeats, scale)
        cells = [f"{rates[c]:,.0f}" if c in rates else "-" for c in head[: len(columns) + 2]]
        if "EnvList" in rates:
            ratios = [rates[column] / rates["EnvList"] for column in columns]
            cells += [f"{ratio:.0f}x" for ratio in [*ratios, rates[columns[-1]] / rates["bare act"]]]
            missed += [name] * (min(ratios) < TARGET)
        print(f"{name:<18}" + "".join(f"{cell:>15}" for cell in cells), flush=True)
    if reference("examples") is None:
        print("Left out, because it is not installed: entity_gym")
    else:
        print(
            f"Target, {TARGET:g} times the EnvList: "
            + (f"missed by {', '.join(missed)}" if missed else "met")
        )
    return results


def bench_rows(budget: Budget) -> Iterator[Row]:
    """Every game that entity_gym has too, 64 at once."""
    if reference("examples") is None:
        raise SystemExit("entity_gym is not installed, and without it there is nothing to compare with")
    games = sorted(reference("examples").ENV_REGISTRY)
    for index, name in enumerate(games):
        rates = measure(name, [REFERENCE_ENVS], 9, 100, budget.share(len(games) - index))
        ours, peer = rates[f"{REFERENCE_ENVS} envs"], rates["EnvList"]
        yield Row(name, ours, peer, "entity_gym's EnvList", "steps/s", target=TARGET)


# -- learning ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lesson:
    """A game, what can be got in it, and hyper-parameters that get it."""

    optimum: float  # mean return of a perfect player; see the game's docstring for why
    ppo: dict[str, Any]  # of PPOConfig; what is not said is the default
    num_envs: int = 64
    net: dict[str, Any] = field(default_factory=dict)  # options of RogueNet
    options: dict[str, Any] = field(default_factory=dict)  # options of the game
    goal: float = 0.97  # share of the optimum that counts as mastered
    episodes: int = 512  # that the policy is judged by
    sampled: bool = False  # whether it is judged by actions as it draws them, instead of the most probable
    max_seconds: float = 60.0


#: Positions as seen from the one who moves.
FROM_PLAYER = {"translation": {"reference": "Player", "position": ["x", "y"], "keep_reference": False}}
FROM_VEHICLE = {
    "translation": {
        "reference": "Vehicle", "position": ["x_pos", "y_pos"], "rotation_angle": "direction",
        "add_distance": True, "keep_reference": False,
    }
}  # fmt: skip
FROM_HEAD = {"translation": {"reference": "SnakeHead", "position": ["x", "y"]}}

LESSONS = {
    "CherryPick": Lesson(1, {"num_steps": 16, "minibatch_size": 512, "learning_rate": 0.005}),
    "Count": Lesson(1, {"num_steps": 8, "minibatch_size": 512, "learning_rate": 0.005}),
    "FloorIsLava": Lesson(
        1,
        {"num_steps": 8, "minibatch_size": 256, "learning_rate": 0.005, "ent_coef": 0.05},
        net=FROM_PLAYER,
    ),
    "MaskedBandit": Lesson(1, {"num_steps": 8, "minibatch_size": 256, "learning_rate": 0.005}),
    # The last percent, avoiding mines in every case, take much longer.
    "Minefield": Lesson(
        1,
        {
            "total_timesteps": 300_000, "num_steps": 64, "minibatch_size": 512, "learning_rate": 0.005,
            "gamma": 0.98,
        },
        net={**FROM_VEHICLE, "d_model": 32, "n_layer": 1},
        options={"max_mines": 4},
        goal=0.92,
        sampled=True,
    ),
    "MineSweeper": Lesson(
        1, {"num_steps": 16, "minibatch_size": 512, "learning_rate": 0.01, "ent_coef": 0.02}
    ),
    "MoveToOrigin": Lesson(
        0.9996, {"num_steps": 32, "minibatch_size": 512, "learning_rate": 0.005, "gamma": 0.97}
    ),
    "MultiArmedBandit": Lesson(1, {"num_steps": 16, "minibatch_size": 256, "learning_rate": 0.01}),
    "MultiSnake": Lesson(
        1,
        {
            "total_timesteps": 200_000, "num_steps": 16, "minibatch_size": 512, "learning_rate": 0.005,
            "ent_coef": 0.02, "gamma": 0.97,
        },
        net=FROM_HEAD,
        options={"num_snakes": 1, "max_snake_length": 5},
        sampled=True,
    ),
    "NotHotdog": Lesson(1, {"num_steps": 8, "minibatch_size": 256, "learning_rate": 0.01}),
    # Pooling shows each ball how many balls there are of each colour.
    "PickMatchingBalls": Lesson(
        1,
        {
            "total_timesteps": 200_000, "num_steps": 32, "minibatch_size": 256, "learning_rate": 0.004,
            "gamma": 1.0, "gae_lambda": 1.0, "ent_coef": 0.03,
        },
        net={"pooling": "meanmax", "d_model": 32, "n_layer": 1},
        options={"max_balls": 8, "one_hot": True},
    ),
    "RockPaperScissors": Lesson(
        1, {"num_steps": 8, "minibatch_size": 256, "learning_rate": 0.01}, episodes=4096
    ),
    # A greedy policy that errs walks to and fro until the time is over; hence sampled.
    "TreasureHunt": Lesson(
        5,
        {
            "total_timesteps": 330_000, "num_steps": 32, "minibatch_size": 256, "learning_rate": 0.003,
            "gamma": 0.95, "ent_coef": 0.03,
        },
        net={"global_features": "concat", "d_model": 64, "n_layer": 1, "pooling": "max"},
        goal=0.95,
        sampled=True,
        max_seconds=90,
    ),
    # Once every answer is right, normalized advantages are noise blown up to size 1; hence norm_adv=False.
    "Xor": Lesson(
        1,
        {
            "num_steps": 16, "minibatch_size": 512, "learning_rate": 0.01, "update_epochs": 4,
            "ent_coef": 0.05, "norm_adv": False,
        },
    ),
}  # fmt: skip


def study(name: str, lesson: Lesson, seed: int) -> dict[str, float]:
    """Train until the goal is reached or the time is over: mean return, environment steps and seconds."""
    import torch
    from entitize.policies.rogue_net import RogueNet
    from entitize.trainers import PPO, PPOConfig, evaluate

    venv = make_vec(name, lesson.num_envs, **lesson.options)
    judge = make_vec(name, 64, **lesson.options)
    goal = lesson.goal * lesson.optimum
    torch.manual_seed(seed)
    policy = RogueNet(venv.single_observation_space, venv.single_action_space, **lesson.net)
    result = {"return": float("-inf"), "steps": 0.0, "seconds": 0.0}
    started = [time.process_time()]

    def examine(trainer: PPO, metrics: dict[str, float]) -> bool:
        """Judge the policy once its sampled actions do well enough; the time for it does not count."""
        result["seconds"] += time.process_time() - started[0]
        result["steps"] = trainer.step
        is_over = result["seconds"] > lesson.max_seconds or trainer.step >= trainer.config.total_timesteps
        if is_over or metrics.get("charts/episodic_return", -np.inf) >= goal - 0.15 * lesson.optimum:
            played = evaluate(policy, judge, lesson.episodes, not lesson.sampled, seed=1000 + trainer.updates)
            result["return"] = float(played.returns.mean())
        started[0] = time.process_time()
        return is_over or result["return"] >= goal

    config = PPOConfig(**{"total_timesteps": 1_000_000, **lesson.ppo, "seed": seed})
    warm_up = replace(config, total_timesteps=1)  # compiles all kernels
    PPO(RogueNet(policy.observation_space, policy.action_space, **lesson.net), venv, warm_up).train()
    started[0] = time.process_time()
    PPO(policy, venv, config, callbacks=[examine]).train()
    return result


def show_learning(games: list[str], seeds: list[int]) -> dict[str, Any]:
    """Train on each game with each seed and print a table; the results by game."""
    head = ("optimum", "goal", "return", "steps", "seconds", "slowest")
    print(f"RogueNet and PPO, one thread; medians over seeds {seeds}")
    print(f"{'game':<18}" + "".join(f"{cell:>11}" for cell in head) + "   options")
    results = {}
    for name in games:
        lesson = LESSONS[name]
        runs = [study(name, lesson, seed) for seed in seeds]
        goal = lesson.goal * lesson.optimum
        middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        missed = sum(run["return"] < goal for run in runs)
        cells = (
            f"{lesson.optimum:g}", f"{goal:.2f}", f"{middle['return']:.3f}", f"{middle['steps']:,.0f}",
            f"{middle['seconds']:.1f}", f"{max(run['seconds'] for run in runs):.1f}",
        )  # fmt: skip
        settings = ", ".join(f"{key}={value}" for key, value in lesson.options.items())
        note = f"   NOT reached with {missed} of {len(runs)} seeds" if missed else ""
        print(f"{name:<18}" + "".join(f"{cell:>11}" for cell in cells) + f"   {settings}{note}", flush=True)
        results[name] = {"lesson": asdict(lesson), "runs": runs}
    return results


def main() -> None:
    parser = script_parser(__doc__, quick="short blocks, few repeats; one seed", json=True, rows=True)
    parser.add_argument("--learn", action="store_true", help="train instead of measuring the speed")
    parser.add_argument("--games", nargs="+", choices=sorted(LESSONS), default=sorted(LESSONS))
    parser.add_argument("--num-envs", nargs="+", type=int, default=[64, 1024], help="sizes to measure")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="of the trainings")
    options = parser.parse_args()
    if has_written_rows(options, bench_rows):
        return
    if options.learn:
        results: Any = show_learning(options.games, options.seeds[:1] if options.quick else options.seeds)
    else:
        repeats, scale = (3, 50) if options.quick else (9, 200)
        results = compare_speed(options.games, options.num_envs, repeats, scale)
    write_json(options.json, results)


if __name__ == "__main__":
    main()
