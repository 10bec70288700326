"""Our network and trainer against the reference's own, in turn.

    make reference                    # once: rogue-net 0.1.9 and enn-trainer 0.1.16 into .reference/
    python benchmarks/reference.py [--rounds 5] [--updates 3] [--folder .reference]

The network: 5 entity types of 50 features, one actor per step with 15 choices, and a value, d_model 16,
2 layers, 2 heads; "act" draws actions for 64 steps, "train" is forward, a loss and backward on 1024, both
without optimizer; skewed lengths of mean 10 and 40 as in policy.py. Milliseconds of processor time.

The trainers: games of the package entity_gym, played by its `EnvList`, against ours of the same rules, with
the reference's defaults (128 environments, 16 steps, minibatches of 1024, 3 epochs), but without its
validation of environments, which would cost it time. Samples per second of processor time; the first two
updates are left out. The reference trains in a process of its own, because our trainer sets the C library to
keep freed memory (`entitize.ragged.keep_freed_memory`), which would help it too.

One thread; medians over the rounds. The reference asks for Python 3.10 at most, for a C++ build
(torch_scatter, of which it uses the means over a step's entities) and for a Rust build (pyron, which reads
configuration files). Here the means are taken by torch's own index_add, and configurations are made in
Python.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import multiprocessing
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from entitize import make_vec
from entitize.policies.rogue_net import RogueNet
from entitize.trainers import PPO, PPOConfig

from policy import NUM_CHOICES, NUM_FEATURES, make_batch, make_run, milliseconds
from rows import Budget, Row, rounds, script_parser, write_rows

FOLDER = Path(__file__).resolve().parent.parent / ".reference"
NUM_ENVS, NUM_STEPS, MINIBATCH, EPOCHS = 128, 16, 1024, 3
SIZES: dict[str, Any] = {"d_model": 16, "n_layer": 2, "n_head": 2}
GAMES = ("MultiSnake", "MineSweeper", "CherryPick")
LENGTHS = ("geom 10", "geom 40")
#: Updates that are not measured.
WARM_UP = 2
#: How many times the reference's samples per core-second the project set out to reach.
TARGETS = {"MultiSnake": 8.0, "MineSweeper": 8.0}


# -- the reference ------------------------------------------------------------------------------------------


def scatter(
    src: torch.Tensor, dim: int, index: torch.Tensor, reduce: str, out: torch.Tensor | None = None
) -> torch.Tensor:
    """The one function of torch_scatter that the reference's value head uses: means of rows by index."""
    assert (dim, reduce) == (0, "mean")
    size = int(index.max()) + 1 if out is None else len(out)
    sums = torch.zeros(size, src.shape[1]).index_add(0, index, src)
    means = sums / torch.bincount(index, minlength=size)[:, None]
    return means if out is None else out.copy_(means)


def load_reference(folder: Path) -> bool:
    """Make the reference importable from where `make reference` has put it; whether that worked.

    It does not where the reference is missing, or `ragged_buffer`, which has no wheels for Python 3.12.
    """
    sys.path.append(str(folder))
    stand_in = ModuleType("torch_scatter")
    stand_in.scatter = scatter  # type: ignore[attr-defined]
    sys.modules.setdefault("torch_scatter", stand_in)
    sys.modules.setdefault("pyron", ModuleType("pyron"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # their age
        try:
            importlib.import_module("enn_trainer.train")
        except ImportError:
            return False
    return True


def start_reference(folder: Path) -> None:
    """Get a process ready for `reference_updates`."""
    torch.set_num_threads(1)
    load_reference(folder)


def reference_run(batch: Any, mode: str) -> Callable[[], Any]:
    """Return the timed function of the reference's network, on the same batch as `policy.make_run`."""
    from entity_gym.env import CategoricalActionSpace, Entity, ObsSpace, VecCategoricalActionMask
    from entity_gym.simple_trace import Tracer
    from ragged_buffer import RaggedBufferF32, RaggedBufferI64
    from rogue_net.rogue_net import RogueNet as ReferenceNet
    from rogue_net.rogue_net import RogueNetConfig

    space = ObsSpace(
        entities={name: Entity([f"f{i}" for i in range(NUM_FEATURES)]) for name in batch.entities}
    )
    moves = {"move": CategoricalActionSpace([str(i) for i in range(NUM_CHOICES)])}
    torch.manual_seed(0)
    net = ReferenceNet(RogueNetConfig(**SIZES), space, moves, regression_heads={"value": 1})
    entities = {
        name: RaggedBufferF32.from_flattened(rows.values, rows.lengths)
        for name, rows in batch.entities.items()
    }
    actors = batch.actions["move"].actors
    masks = {
        "move": VecCategoricalActionMask(
            RaggedBufferI64.from_flattened(actors.values[:, None], actors.lengths), None
        )
    }
    tracer = Tracer(cuda=False)

    def act() -> Any:
        with torch.no_grad():
            return net.get_action_and_auxiliary(entities, {}, masks, tracer)

    actions = act()[0]

    def train() -> None:
        net.zero_grad()
        _, log_probs, entropies, _, values, _ = net.get_action_and_auxiliary(
            entities, {}, masks, tracer, prev_actions=actions
        )
        loss = values["value"].square().mean() - log_probs["move"].mean() - 0.01 * entropies["move"].mean()
        loss.backward()

    return act if mode == "act" else train


def reference_updates(game: str, updates: int) -> list[float]:
    """Seconds of processor time of each update of the reference's trainer."""
    random.seed(0)  # its games draw from it
    from entity_gym.examples import ENV_REGISTRY
    from rogue_net.rogue_net import RogueNetConfig

    reference: Any = importlib.import_module("enn_trainer.train")  # the package has a function of that name
    config = reference.TrainConfig(
        env=reference.EnvConfig(validate=False),
        net=RogueNetConfig(**SIZES),
        optim=reference.OptimizerConfig(bs=MINIBATCH, update_epochs=EPOCHS),
        ppo=reference.PPOConfig(),
        rollout=reference.RolloutConfig(steps=NUM_STEPS, num_envs=NUM_ENVS, processes=1),
        total_timesteps=(WARM_UP + updates + 1) * NUM_ENVS * NUM_STEPS,
        cuda=False,
        name="benchmark",
    )
    env = ENV_REGISTRY[game]()
    net = reference.SerializableRogueNet(config.net, env.obs_space(), env.action_space(), {"value": 1})
    state = SimpleNamespace(
        step=0,
        restart=0,
        next_eval_step=None,
        agent=net,
        value_function=None,
        optimizer=torch.optim.AdamW(net.parameters(), lr=config.optim.lr, weight_decay=0.0, eps=1e-5),
        vf_optimizer=None,
    )
    begins: list[float] = []
    collect = reference.Rollout.run

    def watched(rollout: Any, *args: Any, **kwargs: Any) -> Any:
        begins.append(time.process_time())
        return collect(rollout, *args, **kwargs)

    reference.Rollout.run = watched
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            config.data_dir = folder  # of its log
            manager = SimpleNamespace(
                config=config,
                state=state,
                checkpoint_dir=Path(folder),
                set_deserialize_ctx=lambda *_: None,
                step=lambda: None,
            )
            reference.train(manager, ENV_REGISTRY[game])
    finally:
        reference.Rollout.run = collect
    return [after - before for before, after in itertools.pairwise(begins)][WARM_UP:]


# -- both in turn -------------------------------------------------------------------------------------------


def our_updates(game: str, updates: int) -> list[float]:
    """Seconds of processor time of each update of ours."""
    config = PPOConfig(
        total_timesteps=10**9,
        num_steps=NUM_STEPS,
        minibatch_size=MINIBATCH,
        update_epochs=EPOCHS,
        num_threads=1,
    )
    with make_vec(game, NUM_ENVS) as venv:
        torch.manual_seed(0)
        policy = RogueNet(venv.single_observation_space, venv.single_action_space, **SIZES)
        ends: list[float] = []

        def note(trainer: PPO, metrics: dict[str, float]) -> bool:
            ends.append(time.process_time())
            return len(ends) > WARM_UP + updates

        PPO(policy, venv, config, callbacks=[note]).train()
    return [after - before for before, after in itertools.pairwise(ends)][WARM_UP:]


def compare_trainers(game: str, updates: int, most: int, seconds: float, pool: Any) -> tuple[float, float]:
    """Samples per core-second, ours and the reference's, whose process is that of `pool`."""
    ours, theirs = [], []
    for _ in rounds(most, seconds, least=2):
        ours += our_updates(game, updates)
        theirs += pool.apply(reference_updates, (game, updates))
    samples = NUM_ENVS * NUM_STEPS
    return samples / statistics.median(ours), samples / statistics.median(theirs)


def compare_networks(lengths: str, mode: str, most: int, seconds: float) -> tuple[float, float]:
    """Milliseconds, ours and the reference's."""
    space, batch = make_batch(lengths, 64 if mode == "act" else 1024)
    net = RogueNet(space, space.actions, **SIZES)
    net.update_normalization(batch)
    runs = {"ours": make_run(net, batch, mode), "reference": reference_run(batch, mode)}
    ms = milliseconds(runs, most, seconds)
    return ms["ours"], ms["reference"]


def bench_rows(budget: Budget, folder: Path, most: int, updates: int) -> Iterator[Row]:
    """All cases; the reference is in `folder`."""
    networks = list(itertools.product(LENGTHS, ("act", "train")))
    left = len(networks) + 2 * len(GAMES)  # training gets twice the time
    for lengths, mode in networks:
        ours, peer = compare_networks(lengths, mode, 3 * most, budget.share(left))
        yield Row(f"network, {lengths}, {mode}", ours, peer, "rogue-net 0.1.9", "ms", False)
        left -= 1
    with multiprocessing.get_context("spawn").Pool(1, start_reference, (folder,)) as pool:
        for game in GAMES:
            ours, peer = compare_trainers(game, updates, most, 2 * budget.share(left), pool)
            unit, target = "samples/core-s", TARGETS.get(game)
            yield Row(f"trainer, {game}", ours, peer, "enn-trainer 0.1.16", unit, target=target)
            left -= 2


def main() -> None:
    parser = script_parser(__doc__, rows=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=3, help="measured in each round of a trainer")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the reference is")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not load_reference(options.folder):
        if not options.rows:
            raise SystemExit(f"the reference can't be imported from {options.folder}: make reference")
        write_rows(options.rows, ())
        return
    budget = Budget(options.budget) if options.rows else Budget()
    rows = bench_rows(budget, options.folder, options.rounds, options.updates)
    if options.rows:
        write_rows(options.rows, rows)
        return
    print(f"{'case':<28}{'ours':>12}{'reference':>12}{'ratio':>8}")
    for row in rows:
        print(f"{row.case:<28}{row.ours:>12,.2f}{row.peer:>12,.2f}{row.ratio:>7.1f}x  {row.unit}", flush=True)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
