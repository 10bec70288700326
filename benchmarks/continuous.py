"""Continuous control with RogueNet and PPO: returns before and after training, and the time it takes.

    python benchmarks/continuous.py                        # Pendulum and LunarLander, one seed each
    python benchmarks/continuous.py --cases pendulum --seeds 1 2 3 --squash
    python benchmarks/continuous.py --quick                # two updates per case, to see that it runs

The environments are Gymnasium's, seen through `entitize.wrap_vec`; LunarLander needs Gymnasium's extra box2d.
While training, `gymnasium.wrappers.vector.NormalizeReward` divides rewards by the deviation of the discounted
return, so that nearly the same hyper-parameters fit both; the returns that are printed are the environments'
own, of deterministic actions, as means over whole episodes with 95 % bootstrap intervals. For orientation:
Pendulum is swung up and held at about -150; LunarLander counts as solved at 200.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import NormalizeReward

from rows import script_parser

NET = {"d_model": 32, "n_layer": 1, "n_head": 2, "separate_value_net": True}


@dataclass(frozen=True)
class Case:
    """An environment and how to learn it."""

    env_id: str
    num_envs: int
    ppo: ez.PPOConfig
    kwargs: dict[str, Any] = field(default_factory=dict)


CASES = {
    "pendulum": Case(
        "Pendulum-v1",
        16,
        ez.PPOConfig(
            total_timesteps=150_000, num_steps=128, gamma=0.9, learning_rate=0.003, minibatch_size=256,
            update_epochs=8, ent_coef=0.0, max_grad_norm=0.5,
        ),
    ),
    "lunarlander": Case(
        "LunarLander-v3",
        32,
        ez.PPOConfig(
            total_timesteps=800_000, num_steps=128, gamma=0.999, gae_lambda=0.98, learning_rate=0.001,
            minibatch_size=512, update_epochs=6, ent_coef=0.0, max_grad_norm=0.5, clip_vloss=False,
        ),
        {"continuous": True},
    ),
}  # fmt: skip


def make(case: Case, num_envs: int, normalize_reward: bool) -> ez.EntityVectorEnv:
    # SAME_STEP, because a reset of single lanes makes NormalizeReward forget the running returns of all.
    venv = gymnasium.make_vec(
        case.env_id,
        num_envs,
        "sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
        **case.kwargs,
    )
    return ez.wrap_vec(NormalizeReward(venv, gamma=case.ppo.gamma) if normalize_reward else venv)


def judge(policy: Any, case: Case, episodes: int) -> str:
    with make(case, 16, normalize_reward=False) as venv:
        returns = ez.evaluate(policy, venv, episodes, deterministic=True, seed=10_000).returns
    return str(ez.evaluation.bootstrap_interval(returns))


def random_return(case: Case, episodes: int) -> str:
    """Mean return of uniformly drawn actions."""
    with make(case, 1, normalize_reward=False) as venv:
        batch, _ = venv.reset(seed=10_000)
        venv.action_space.seed(0)
        returns = [0.0]
        while len(returns) <= episodes:
            batch, rewards, terminated, truncated, _ = venv.step(venv.action_space.sample(mask=batch))
            returns[-1] += float(rewards[0])
            if terminated[0] or truncated[0]:
                returns.append(0.0)
    return str(ez.evaluation.bootstrap_interval(returns[:-1]))


def run(name: str, case: Case, seed: int, squash: bool, episodes: int) -> None:
    """Train once and print a line."""
    torch.manual_seed(seed)
    with make(case, case.num_envs, normalize_reward=True) as venv:
        policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, squash=squash, **NET)
        before = judge(policy, case, episodes)
        began = time.perf_counter()
        trainer = ez.PPO(policy, venv, replace(case.ppo, seed=seed))
        trainer.train()
        seconds = time.perf_counter() - began
    after = judge(policy, case, episodes)
    cells = (
        name,
        str(seed),
        before,
        after,
        f"{trainer.step:,}",
        f"{seconds:.0f}",
        f"{trainer.step / seconds:,.0f}",
    )
    print_row(cells)


WIDTHS = (12, 4, 28, 28, 9, 8, 9)


def print_row(cells: tuple[str, ...]) -> None:
    print("  ".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True)), flush=True)


def main() -> None:
    parser = script_parser(__doc__, quick="two updates per case, to see that it runs")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument(
        "--squash", action="store_true", help="squash actions by tanh instead of clipping them"
    )
    parser.add_argument(
        "--steps", type=int, help="environment steps to train for, in place of the case's own"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    np.seterr(all="ignore")
    episodes = 16 if options.quick else 100
    for name in options.cases:
        print(f"{name}: uniformly drawn actions {random_return(CASES[name], episodes)}", flush=True)
    print_row(("case", "seed", "untrained", "trained", "steps", "seconds", "steps/s"))
    for name in options.cases:
        case = CASES[name]
        steps = 2 * case.num_envs * case.ppo.num_steps if options.quick else options.steps
        if steps:
            case = replace(case, ppo=replace(case.ppo, total_timesteps=steps))
        for seed in options.seeds:
            run(name, case, seed, options.squash, episodes)


if __name__ == "__main__":
    main()
