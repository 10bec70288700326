"""RogueNet in Stable-Baselines3, ragged and padded, against the usual recipes for padded observations.

    python benchmarks/sb3.py [--quick] [--json PATH] [--games few many skewed] [--learners ragged padded ...]

A game shows units in numbers that vary, and the right choice is the quarter of the map that the heaviest of
them is in. All learners play the same game, made of the same environments, with the hyper-parameters below
and one thread:

- ragged: SB3's PPO with `ez.sb3.RogueNetPolicy`, nothing padded;
- padded: SB3's PPO with `ez.sb3.RogueNetExtractor` on padded observations, linear heads;
- transformer: the same with the usual recipe, torch.nn.TransformerEncoder with a key padding mask;
- mlp: SB3's own MultiInputPolicy, which flattens the padded observations into two MLPs of 64 and 64;
- ours: `ez.PPO` with the RogueNet of "ragged".

They take turns, and what is reported are medians over the rounds, in samples (environment steps) per second
of processor time: waiting for a busy machine is not counted. Compilation is left out by a short run before.
The reward per step (1 is the most, 1/4 chance) is that of the last quarter of a run; equal steps for all.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from rows import Budget, Row, has_written_rows, rounds, script_parser, write_json

NUM_ENVS, NUM_STEPS, BATCH_SIZE, EPOCHS, LEARNING_RATE = 16, 64, 256, 4, 1e-3
#: Steps do not depend on each other, so nothing is to be gained from looking ahead.
GAMMA, ENT_COEF, MAX_GRAD_NORM = 0.0, 0.0, 0.5
SIZES: dict[str, Any] = {"d_model": 16, "n_layer": 2, "n_head": 2}
EPISODE = 16
#: How many times the samples per second of "transformer" those of "ragged" have to be with skewed numbers.
TARGET = 3.4

Counts = Callable[[np.random.Generator], int]

#: Per game how many units a step has, and the most there may be.
GAMES: dict[str, tuple[Counts, int]] = {
    "few": (lambda rng: int(rng.integers(2, 7)), 6),
    "many": (lambda rng: int(rng.integers(48, 65)), 64),
    # Log-normal with mean 4, cut at 64: half the steps have one or two units.
    "skewed": (lambda rng: min(1 + int(rng.lognormal(0.53, 1.2)), 64), 64),
}


class Heaviest(ez.EntityEnv):
    """Units at places of a map, new ones at every step; it pays to name the quarter of the heaviest."""

    def __init__(self, game: str) -> None:
        self.counts, _ = GAMES[game]
        self.action_space = ez.EntityActionSpace({"quarter": ez.GlobalCategorical(4)})
        self.observation_space = ez.EntitySpace({"Unit": ["x", "y", "weight"]}, self.action_space)

    def _reset(self, options: dict[str, Any]) -> ez.Observation:
        self.steps = 0
        return self._look()

    def _step(self, actions: dict[str, Any]) -> Any:
        reward = float(actions["quarter"].choice == self.quarter)
        self.steps += 1
        return self._look(), reward, False, self.steps == EPISODE, {}

    def _look(self) -> ez.Observation:
        units = self.np_random.random((self.counts(self.np_random), 3), np.float32) * 2 - 1
        x, y, _ = units[units[:, 2].argmax()]
        self.quarter = 2 * int(x > 0) + int(y > 0)
        return ez.Observation({"Unit": units}, actions={"quarter": ez.actions.GlobalCategoricalMask()})


def padded(game: str) -> gymnasium.Env[Any, Any]:
    return ez.to_gymnasium(Heaviest(game), "padded", maxima=GAMES[game][1], flat_actions=True)


class SetTransformer(BaseFeaturesExtractor):
    """The usual recipe: attention over all slots, with a mask for those that are empty, and a masked mean."""

    def __init__(self, observation_space: gymnasium.spaces.Dict) -> None:
        width = SIZES["d_model"]
        super().__init__(observation_space, width)
        self.embed = nn.Linear(observation_space["entities/Unit"].shape[1], width)
        layer = nn.TransformerEncoderLayer(
            width, SIZES["n_head"], 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, SIZES["n_layer"], enable_nested_tensor=False)

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        present = observations["presence/Unit"].bool()  # at least one in these games
        x = self.encoder(self.embed(observations["entities/Unit"]), src_key_padding_mask=~present)
        return (x * present[:, :, None]).sum(1) / present.sum(1, keepdim=True)


# -- the learners -------------------------------------------------------------------------------------------


@dataclass
class Run:
    """One run of one learner."""

    samples_per_second: float  # of processor time
    reward: float  # per step, over the last quarter
    microseconds: dict[str, float] = field(default_factory=dict)  # processor time per sample, by part


class Meter:
    """Counts the processor time spent in methods, and keeps the rewards of an environment's steps."""

    def __init__(self) -> None:
        self.cpu: defaultdict[str, float] = defaultdict(float)
        self.rewards: list[float] = []

    def watch(self, owner: Any, method: str, part: str, pays: bool = False) -> None:
        """Have `owner.method` counted as `part`; `pays`: rewards are the second thing that it returns."""
        original = getattr(owner, method)

        def watched(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            result = original(*args, **kwargs)
            self.cpu[part] += time.process_time() - start
            if pays:
                self.rewards.append(float(np.mean(result[1])))
            return result

        setattr(owner, method, watched)

    def run(self, samples: int, seconds: float, parts: dict[str, float]) -> Run:
        last = self.rewards[-max(len(self.rewards) // 4, 1) :]
        return Run(
            samples / seconds, statistics.fmean(last), {p: 1e6 * s / samples for p, s in parts.items()}
        )


def sb3_run(
    policy: Any, make_env: Callable[[], Any], policy_kwargs: Any, seed: int, steps: int, **more: Any
) -> Run:
    model = PPO(
        policy, make_env(), policy_kwargs=policy_kwargs, seed=seed, n_steps=NUM_STEPS, batch_size=BATCH_SIZE,
        n_epochs=EPOCHS, learning_rate=LEARNING_RATE, gamma=GAMMA, ent_coef=ENT_COEF,
        max_grad_norm=MAX_GRAD_NORM, device="cpu", **more,
    )  # fmt: skip
    meter = Meter()
    meter.watch(model.env, "step_wait", "env", pays=True)
    meter.watch(model, "collect_rollouts", "collect")
    meter.watch(model, "train", "update")
    start = time.process_time()
    model.learn(steps)
    seconds = time.process_time() - start
    cpu = meter.cpu
    parts = {"env": cpu["env"], "acting": cpu["collect"] - cpu["env"], "update": cpu["update"]}
    return meter.run(model.num_timesteps, seconds, parts)


def ragged_run(game: str, seed: int, steps: int) -> Run:
    venv = partial(ez.vector.ListVectorEnv, [partial(Heaviest, game)] * NUM_ENVS)
    buffer = {"rollout_buffer_class": ez.sb3.RaggedRolloutBuffer}
    return sb3_run(ez.sb3.RogueNetPolicy, lambda: ez.sb3.make_vec(venv()), SIZES, seed, steps, **buffer)


def padded_run(extractor: Any, game: str, seed: int, steps: int) -> Run:
    kwargs: dict[str, Any] = {}
    if extractor is not None:
        kwargs = {"features_extractor_class": extractor, "net_arch": []}
    if extractor is ez.sb3.RogueNetExtractor:
        kwargs["features_extractor_kwargs"] = SIZES
    make = partial(make_vec_env, partial(padded, game), NUM_ENVS, seed=seed)
    return sb3_run("MultiInputPolicy", make, kwargs, seed, steps)


def our_run(game: str, seed: int, steps: int) -> Run:
    config = ez.PPOConfig(
        total_timesteps=steps, seed=seed, num_steps=NUM_STEPS, minibatch_size=BATCH_SIZE,
        update_epochs=EPOCHS, learning_rate=LEARNING_RATE, anneal_lr=False, gamma=GAMMA, ent_coef=ENT_COEF,
        clip_vloss=False, max_grad_norm=MAX_GRAD_NORM,
    )  # fmt: skip
    torch.manual_seed(seed)
    with ez.vector.ListVectorEnv([partial(Heaviest, game)] * NUM_ENVS) as venv:
        policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, **SIZES)
        trainer, meter = ez.PPO(policy, venv, config), Meter()
        meter.watch(venv, "step", "step", pays=True)
        start = time.process_time()
        trainer.train()
        seconds = time.process_time() - start
        cpu = trainer.clock.cpu
        parts = {"env": cpu["env"], "acting": cpu["inference"] + cpu["storage"], "update": cpu["update"]}
        return meter.run(trainer.step, seconds, parts)


LEARNERS: dict[str, Callable[[str, int, int], Run]] = {
    "ragged": ragged_run,
    "padded": lambda *args: padded_run(ez.sb3.RogueNetExtractor, *args),
    "transformer": partial(padded_run, SetTransformer),
    "mlp": partial(padded_run, None),
    "ours": our_run,
}


# -- the report ---------------------------------------------------------------------------------------------


def median(runs: list[Run]) -> Run:
    parts = {part: statistics.median(r.microseconds[part] for r in runs) for part in runs[0].microseconds}
    return Run(
        statistics.median(r.samples_per_second for r in runs),
        statistics.median(r.reward for r in runs),
        parts,
    )


def print_table(game: str, runs: dict[str, list[Run]]) -> None:
    rng = np.random.default_rng(0)
    counts = [GAMES[game][0](rng) for _ in range(20_000)]
    print(f"\n{game}: {np.mean(counts):.1f} units on average, at most {GAMES[game][1]}")
    head = ("learner", "samples/s", "(slowest-fastest)", "ragged is", "reward", "env", "acting", "update")
    widths = (12, 10, 18, 10, 7, 7, 7, 7)
    print("".join(f"{h:>{w}}" for h, w in zip(head, widths, strict=True)), " (µs per sample)")
    for learner, of_learner in runs.items():
        middle, rates = median(of_learner), [r.samples_per_second for r in of_learner]
        times = (
            median(runs["ragged"]).samples_per_second / middle.samples_per_second if "ragged" in runs else 0
        )
        row = (
            learner, f"{middle.samples_per_second:,.0f}", f"{min(rates):,.0f}-{max(rates):,.0f}",
            f"{times:.2f}x", f"{middle.reward:.3f}", *(f"{us:.0f}" for us in middle.microseconds.values()),
        )  # fmt: skip
        print("".join(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=True)))
    if game == "skewed" and {"ragged", "transformer"} <= runs.keys():
        times = median(runs["ragged"]).samples_per_second / median(runs["transformer"]).samples_per_second
        verdict = "reached" if times >= TARGET else "NOT reached"
        print(f"target: ragged {TARGET}x the padded transformer, {verdict}")


def bench_rows(budget: Budget) -> Iterator[Row]:
    """The game with skewed numbers; short runs in turn."""
    rates: dict[str, list[float]] = {learner: [] for learner in LEARNERS}
    for learner in LEARNERS:
        LEARNERS[learner]("skewed", 0, NUM_ENVS * NUM_STEPS)
    for seed in rounds(9, budget.share(1), least=2):
        for learner in LEARNERS:
            rates[learner].append(LEARNERS[learner]("skewed", seed, 4096).samples_per_second)
    middle = {learner: statistics.median(samples) for learner, samples in rates.items()}
    unit = "samples/core-s"
    for peer, target in (("transformer", TARGET), ("padded", None), ("mlp", None)):
        yield Row("ragged in SB3's PPO", middle["ragged"], middle[peer], f"SB3, {peer}", unit, target=target)
    yield Row("ez.PPO", middle["ours"], middle["transformer"], "SB3, transformer", unit)


def main() -> None:
    parser = script_parser(__doc__, quick="one short round, to see that it runs", json=True, rows=True)
    parser.add_argument("--games", nargs="+", choices=GAMES, default=list(GAMES))
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=list(LEARNERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=32_768, help="environment steps per run")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if has_written_rows(options, bench_rows):
        return
    num_rounds, steps = (1, 2 * NUM_ENVS * NUM_STEPS) if options.quick else (options.rounds, options.steps)
    results: dict[str, dict[str, list[Run]]] = {}
    for game in options.games:
        for learner in options.learners:
            LEARNERS[learner](game, 0, NUM_ENVS * NUM_STEPS)
        runs = results[game] = {learner: [] for learner in options.learners}
        for seed in range(1, num_rounds + 1):
            for learner in options.learners:
                runs[learner].append(LEARNERS[learner](game, seed, steps))
        print_table(game, runs)
    write_json(
        options.json,
        {g: {name: [asdict(r) for r in runs] for name, runs in of.items()} for g, of in results.items()},
    )


if __name__ == "__main__":
    main()
