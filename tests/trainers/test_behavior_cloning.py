"""Behaviour cloning: the loss, its gradients, learning from an expert, runs that go on, wrong input."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.datasets import DatasetError, DatasetWriter, EntityDataset, Steps
from entitize.envs import batch_observations, sample_actions
from entitize.policies import CheckpointError
from entitize.ragged import RaggedArray
from entitize.trainers.cloning import Demonstrations, FusedCloningLearner, TorchCloningLearner

from facts import raises
from nets import treasure_net
from recorded_steps import DECISIONS, random_dataset


def exact_loss(net: ez.RogueNet, found: Any, config: ez.BehaviorCloningConfig) -> torch.Tensor:
    """The loss in float64, actor by actor, as the docstring defines it."""
    exact = ez.RogueNet(DECISIONS, DECISIONS.actions, **{**net.config, "engine": "torch"}).double()
    exact.load_state_dict(net.state_dict())
    exact.zero_grad()
    evaluation = exact.evaluate(found.observations, net.as_raw(found.actions))
    log_probs = [value for values in evaluation.log_probs.values() for value in values]
    entropies = [value for values in evaluation.entropies.values() for value in values]
    loss = -sum(log_probs) / len(log_probs) - config.ent_coef * sum(entropies) / len(entropies)
    errors = [(v - float(r)) ** 2 for v, r in zip(evaluation.values, found.returns, strict=True)]
    total = loss + config.vf_coef * 0.5 * sum(errors) / len(errors)
    total.backward()
    assert isinstance(total, torch.Tensor)
    exact_gradients = {name: p.grad for name, p in exact.named_parameters()}
    net.__dict__["exact_gradients"] = exact_gradients
    return total.detach()


@pytest.mark.parametrize("engine", ["fused", "torch"])
@pytest.mark.parametrize("separate", [False, True])
def test_gradients_are_those_of_float64(engine: str, separate: bool, tmp_path: Path) -> None:
    torch.manual_seed(1)
    options: dict[str, Any] = {"d_model": 8, "n_layer": 2, "n_head": 2, "separate_value_net": separate}
    net = ez.RogueNet(DECISIONS, DECISIONS.actions, engine=engine, **options)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    config = ez.BehaviorCloningConfig(ent_coef=0.02, vf_coef=0.3)
    demonstrations = Demonstrations(random_dataset(tmp_path / "plays"), held_out=0.0, gamma=0.9)
    found = demonstrations.gather(demonstrations.learned)
    expected = exact_loss(net, found, config)
    kind = FusedCloningLearner if engine == "fused" else TorchCloningLearner
    learner = kind(net, torch.optim.AdamW(net.parameters()), config)
    drawn = type(found)(found.observations, net.as_raw(found.actions), found.returns)
    net.zero_grad()
    losses = learner.differentiate(drawn)
    assert losses["loss"] == pytest.approx(float(expected), rel=1e-4)
    for name, parameter in net.named_parameters():
        wanted = net.__dict__["exact_gradients"][name]
        assert (parameter.grad is None) == (wanted is None), name
        if wanted is not None:
            assert parameter.grad is not None
            scale = max(0.1, float(wanted.abs().max()))
            assert float((parameter.grad - wanted).abs().max()) < 1e-4 * scale, name


def expert(batch: ez.EntityBatch, rng: np.random.Generator) -> dict[str, RaggedArray]:
    """Collects the nearest treasure of TreasureHunt, and looks at nothing else."""
    moves = []
    for treasures, player in zip(batch.entities["Treasure"], batch.globals, strict=True):
        offsets = treasures - player
        dx, dy = offsets[np.abs(offsets).sum(1).argmin()] if len(offsets) else (0.0, 1.0)
        up = 0 if dy > 0 else 1
        moves.append(up if abs(dy) >= abs(dx) else (3 if dx > 0 else 2))
    actors = batch.actions["move"].actors
    return {"move": actors.with_values(np.array(moves, np.int64))}


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cloning") / "plays"
    venv = ez.make_vec("TreasureHunt", num_envs=16)
    return ez.record(venv, expert, path, steps=200, seed=1, metadata={"env": "TreasureHunt"})


def test_a_clone_plays_like_its_expert(plays: Path) -> None:
    net, dataset = treasure_net(), EntityDataset(plays)
    config = ez.BehaviorCloningConfig(epochs=40, patience=8, minibatch_size=256, learning_rate=0.01)
    trainer = ez.BehaviorCloning(net, dataset, config)
    before = trainer.evaluate()
    after = trainer.train()
    assert after["held_out/accuracy/move"] > max(0.7, before["held_out/accuracy/move"])
    assert after["held_out/log_likelihood"] > before["held_out/log_likelihood"]
    venv = ez.make_vec("TreasureHunt", num_envs=16)
    random = treasure_net(1)
    clone = ez.evaluate(net, venv, episodes=64, deterministic=True).returns.mean()
    assert clone > ez.evaluate(random, venv, episodes=64).returns.mean() + 1
    wanted = np.mean([e.total_reward for e in dataset.episodes if e.is_complete])
    assert clone > 0.5 * wanted


def test_held_out_episodes_are_whole_and_not_learned_from(plays: Path) -> None:
    dataset = EntityDataset(plays)
    parts = Demonstrations(dataset, held_out=0.25, seed=3)
    episodes = dataset.column("episode")
    ours, theirs = set(episodes[parts.learned].tolist()), set(episodes[parts.held_out].tolist())
    assert not ours & theirs
    assert len(theirs) == round(0.25 * len(ours | theirs))
    assert len(parts.learned) + len(parts.held_out) == len(dataset.decisions)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_errors_of_values_count_in_units_of_the_variance_of_returns(scale: float, tmp_path: Path) -> None:
    dataset = random_dataset(tmp_path / "plays", scale=scale)
    rewards = dataset.column("reward").reshape(-1, 5).astype(np.float64)
    returns = [[sum(r[t + k] * 0.5**k for k in range(5 - t)) for t in range(5)] for r in rewards]
    config = ez.BehaviorCloningConfig(epochs=1, held_out=0.5, vf_coef=0.3, gamma=0.5)
    trainer = ez.BehaviorCloning(
        ez.RogueNet(DECISIONS, DECISIONS.actions, d_model=8, n_layer=1), dataset, config
    )
    learned, losses = trainer.demonstrations.learned, trainer.train()
    scaled = losses["losses/value_loss"] / np.var(np.ravel(returns)[learned])
    assert losses["losses/loss"] + losses["losses/log_likelihood"] == pytest.approx(0.3 * scaled, rel=1e-4)


def test_numbers_that_a_callback_adds_are_logged(plays: Path, tmp_path: Path) -> None:
    def count(trainer: ez.BehaviorCloning, metrics: dict[str, float]) -> None:
        metrics["mine/epoch"] = 10 * trainer.epoch

    config = ez.BehaviorCloningConfig(epochs=2, minibatch_size=512)
    ez.BehaviorCloning(treasure_net(), EntityDataset(plays), config, tmp_path, callbacks=[count]).train()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["mine/epoch"] for line in lines] == [10, 20]


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"run_dir": ""}, ValueError, ["run_dir"]),
        ({"run_dir": 3}, TypeError, ["run_dir", 3]),
        ({"resume": True}, ValueError, ["resume", "run_dir"]),
    ],
)
def test_a_run_folder_that_is_none_is_refused(
    options: dict[str, Any], kind: type[Exception], words: list[Any], plays: Path
) -> None:
    with raises(kind, "BehaviorCloning", *words):
        ez.BehaviorCloning(treasure_net(), EntityDataset(plays), **options)


def test_early_stopping_keeps_the_best_weights(plays: Path) -> None:
    net = treasure_net()
    seen: list[tuple[float, dict[str, torch.Tensor]]] = []

    def keep(trainer: ez.BehaviorCloning, metrics: dict[str, float]) -> None:
        weights = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        seen.append((metrics["held_out/log_likelihood"], weights))

    # A learning rate that is far too large: the likelihood soon gets worse.
    config = ez.BehaviorCloningConfig(
        epochs=30, patience=2, minibatch_size=64, learning_rate=0.3, anneal_lr=False
    )
    ez.BehaviorCloning(net, EntityDataset(plays), config, callbacks=[keep]).train()
    best = int(np.argmax([likelihood for likelihood, _ in seen]))
    assert len(seen) == best + 3 < 30
    for name, tensor in net.state_dict().items():
        torch.testing.assert_close(tensor, seen[best][1][name], rtol=0, atol=0)


@pytest.mark.parametrize("learning_rate", [0.003, 0.3])  # with 0.3 the best epoch is not the last one
def test_a_run_goes_on_bit_for_bit(learning_rate: float, plays: Path, tmp_path: Path) -> None:
    dataset = EntityDataset(plays)
    config = ez.BehaviorCloningConfig(
        epochs=4, minibatch_size=512, patience=None, learning_rate=learning_rate
    )
    whole = treasure_net()
    ez.BehaviorCloning(whole, dataset, config, tmp_path / "whole").train()
    first = treasure_net()
    trainer = ez.BehaviorCloning(
        first, dataset, config, tmp_path / "parts", callbacks=[lambda trainer, _: trainer.epoch == 2]
    )
    trainer.train()
    second = treasure_net(5)
    resumed = ez.BehaviorCloning(second, dataset, config, tmp_path / "parts", resume=True)
    assert resumed.epoch == 2
    resumed.train()
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(second.state_dict()[name], tensor, rtol=0, atol=0)


def test_a_run_continues_with_its_own_options_and_data(plays: Path, tmp_path: Path) -> None:
    config = ez.BehaviorCloningConfig(epochs=1, minibatch_size=512)
    dataset = EntityDataset(plays)
    ez.BehaviorCloning(treasure_net(), dataset, config, tmp_path / "run").train()
    more = replace(config, epochs=2, patience=1)
    assert ez.BehaviorCloning(treasure_net(), dataset, more, tmp_path / "run", resume=True).epoch == 1
    with raises(CheckpointError, "learning_rate", 0.003, 0.1, "seed"):
        other = replace(config, learning_rate=0.1, seed=5)
        ez.BehaviorCloning(treasure_net(), dataset, other, tmp_path / "run", resume=True)
    with raises(CheckpointError, "dataset", f"{len(dataset):,}", f"{2 * len(dataset):,}"):
        twice = EntityDataset(plays, plays)
        ez.BehaviorCloning(treasure_net(), twice, config, tmp_path / "run", resume=True)


def test_a_run_does_not_continue_with_other_data_of_the_same_length(tmp_path: Path) -> None:
    config = ez.BehaviorCloningConfig(epochs=1, minibatch_size=32)
    net = ez.RogueNet(DECISIONS, DECISIONS.actions, d_model=8, n_layer=1)
    ez.BehaviorCloning(net, random_dataset(tmp_path / "first"), config, tmp_path / "run").train()
    other = random_dataset(tmp_path / "other", seed=1)
    with raises(CheckpointError, tmp_path / "first", "others"):
        ez.BehaviorCloning(net, other, config, tmp_path / "run", resume=True)
    first = EntityDataset(tmp_path / "first")
    assert ez.BehaviorCloning(net, first, config, tmp_path / "run", resume=True).epoch == 1


def test_an_epoch_that_is_interrupted_is_undone(plays: Path) -> None:
    net = treasure_net()
    trainer = ez.BehaviorCloning(net, EntityDataset(plays), ez.BehaviorCloningConfig(minibatch_size=64))
    step, calls = trainer.learner.step, 0

    def interrupted(minibatch: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return step(minibatch)

    trainer.learner.step = interrupted  # type: ignore[method-assign]
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert trainer.epoch == 0
    for name, tensor in net.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)
    trainer.learner.step = step  # type: ignore[method-assign]
    trainer.train()
    undisturbed = treasure_net()
    undisturbed.load_state_dict(before)
    ez.BehaviorCloning(undisturbed, EntityDataset(plays), ez.BehaviorCloningConfig(minibatch_size=64)).train()
    for name, tensor in undisturbed.state_dict().items():
        torch.testing.assert_close(tensor, net.state_dict()[name], rtol=0, atol=0)


def test_a_policy_that_reads_a_wider_space_is_cloned(tmp_path: Path) -> None:
    dataset = random_dataset(tmp_path / "plays")
    narrow = ez.EntitySpace({"Unit": ["y"], "Mine": ["x"]}, DECISIONS.actions, ["time"])
    nets = [
        ez.RogueNet(narrow, DECISIONS.actions, d_model=8, n_layer=1, engine=engine)
        for engine in ("auto", "torch")
    ]
    nets[1].load_state_dict(nets[0].state_dict())
    config = ez.BehaviorCloningConfig(epochs=2, minibatch_size=16)
    for net in nets:
        with raises(DatasetError, "Unit"):
            ez.BehaviorCloning(net, dataset, config)
        net.adapt_to(DECISIONS)
    losses = [ez.BehaviorCloning(net, dataset, config).train() for net in nets]
    assert losses[0]["losses/loss"] == pytest.approx(losses[1]["losses/loss"], rel=1e-4)


def test_an_optimizer_of_ones_own_moves_the_weights(plays: Path) -> None:
    net = treasure_net()
    config = ez.BehaviorCloningConfig(epochs=1, minibatch_size=512)
    trainer = ez.BehaviorCloning(net, EntityDataset(plays), config)
    before = [parameter.clone() for parameter in net.parameters()]
    trainer.optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    trainer.train()
    assert all(map(torch.equal, before, net.parameters()))
    with raises(ValueError, "optimizer", "parameters"):
        trainer.optimizer = torch.optim.SGD(treasure_net(1).parameters(), lr=0.1)
    with raises(ValueError, "optimizer", "LBFGS", "closure"):
        trainer.optimizer = torch.optim.LBFGS(net.parameters())


class Watched(torch.optim.SGD):
    """Notes at each step the learning rate and how far the weights move."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, lr)
        self.rates: list[float] = []
        self.distances: list[float] = []

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        group = self.param_groups[0]
        before = [parameter.detach().clone() for parameter in group["params"]]
        super().step(closure)
        moved = [
            (now - then).detach().double().norm() for now, then in zip(group["params"], before, strict=True)
        ]
        self.rates.append(group["lr"])
        self.distances.append(math.hypot(*map(float, moved)))


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_the_learning_rate_falls_to_0_and_gradients_are_clipped(engine: str, tmp_path: Path) -> None:
    dataset = random_dataset(tmp_path / "plays")
    options: dict[str, Any] = {"epochs": 3, "minibatch_size": 15, "held_out": 0.0, "learning_rate": 0.5}
    for anneal in (True, False):
        net = ez.RogueNet(DECISIONS, DECISIONS.actions, d_model=8, n_layer=1, engine=engine)
        config = ez.BehaviorCloningConfig(**options, anneal_lr=anneal, max_grad_norm=0.01)
        trainer = ez.BehaviorCloning(net, dataset, config)
        trainer.optimizer = watched = Watched(net.parameters(), lr=0.5)
        trainer.train()
        assert watched.rates == pytest.approx([0.5 * (1 - anneal * step / 12) for step in range(12)])
        lengths = [0.01 * rate for rate in watched.rates]  # every gradient is longer
        assert watched.distances == pytest.approx(lengths, rel=1e-3)


def test_held_out_errors_are_distances_of_means(tmp_path: Path) -> None:
    dataset = random_dataset(tmp_path / "plays")
    net = ez.RogueNet(DECISIONS, DECISIONS.actions, d_model=8, n_layer=1)
    config = ez.BehaviorCloningConfig(epochs=1, held_out=0.5, minibatch_size=7)
    trainer = ez.BehaviorCloning(net, dataset, config)
    metrics = trainer.train()
    steps = dataset.gather(trainer.demonstrations.held_out)
    chosen = net.act(steps.observations, np.random.default_rng(0), deterministic=True).actions["Push"].values
    recorded = steps.actions["Push"].values
    assert len(recorded) > 10
    assert metrics["held_out/error/Push"] == pytest.approx(np.abs(chosen - recorded).mean(), rel=1e-5)
    assert {name for name in metrics if "error" in name} == {"held_out/error/Push"}


def test_a_resumed_run_goes_on_with_an_optimizer_of_ones_own(plays: Path, tmp_path: Path) -> None:
    def trainer(run: str, resume: bool = False) -> ez.BehaviorCloning:
        config = ez.BehaviorCloningConfig(epochs=2, minibatch_size=512, anneal_lr=False)
        return ez.BehaviorCloning(treasure_net(), EntityDataset(plays), config, tmp_path / run, resume=resume)

    def own(trainer: ez.BehaviorCloning) -> torch.optim.Optimizer:
        return torch.optim.SGD(trainer.policy.parameters(), lr=0.1, momentum=0.9)

    whole, first = trainer("whole"), trainer("parts")
    for made in (whole, first):
        made.optimizer = own(made)
    whole.train()
    first.train(1)
    again = trainer("parts", resume=True)
    with raises(CheckpointError, "SGD", "Adam", "trainer.optimizer"):
        again.train()
    assert again.epoch == 1
    again.optimizer = own(again)
    again.train()
    assert all(map(torch.equal, whole.policy.parameters(), again.policy.parameters()))


def test_metrics_of_a_run_that_is_over_are_those_of_its_best_weights(plays: Path, tmp_path: Path) -> None:
    config = ez.BehaviorCloningConfig(
        epochs=3, minibatch_size=64, patience=None, learning_rate=0.3, anneal_lr=False
    )
    dataset = EntityDataset(plays)
    trainer = ez.BehaviorCloning(treasure_net(), dataset, config, tmp_path)
    told = trainer.train()
    again = ez.BehaviorCloning(treasure_net(), dataset, config, tmp_path, resume=True).train()
    assert again["charts/epoch"] == told["charts/epoch"]
    assert again["held_out/log_likelihood"] == told["held_out/log_likelihood"]


def test_a_run_is_loaded_like_any_other(plays: Path, tmp_path: Path) -> None:
    net = treasure_net()
    config = ez.BehaviorCloningConfig(epochs=2, minibatch_size=512)
    ez.BehaviorCloning(net, EntityDataset(plays), config, tmp_path / "run").train()
    agent = ez.load_agent(tmp_path / "run", seed=0)
    batch, _ = ez.make_vec("TreasureHunt", num_envs=8).reset(seed=3)
    chosen = agent.act(batch, deterministic=True).actions["move"]
    assert chosen == net.act(batch, np.random.default_rng(0), deterministic=True).actions["move"]
    with raises(FileExistsError, tmp_path / "run"):
        ez.BehaviorCloning(net, EntityDataset(plays), config, tmp_path / "run")


def test_actions_without_actors_are_not_learned(tmp_path: Path) -> None:
    """One action never has an actor, and in the last file none has."""
    go, aim = ez.Categorical(["l", "r"]), ez.MultiCategorical({"x": 3, "y": 3})
    space = ez.EntitySpace({"A": ["x"]}, ez.EntityActionSpace({"Go": go, "Aim": aim}))
    count, steps_per_part = 12, 8
    actors = [np.arange(step < steps_per_part) for step in range(count)]
    batch = batch_observations(
        space,
        [
            {
                "entities": {"A": np.ones((1, 1), np.float32)},
                "actions": {
                    "Go": {"actors": acting, "mask": np.ones((len(acting), 2), np.int8)},
                    "Aim": {"actors": acting[:0], "mask": np.ones((0, 6), np.int8)},
                },
            }
            for acting in actors
        ],
    )
    no = np.zeros(count, bool)
    with DatasetWriter(tmp_path / "plays", space, steps_per_part=steps_per_part) as writer:
        for rows in np.split(np.arange(count), [steps_per_part]):
            part = batch.gather(rows)
            writer.append(
                Steps(
                    part,
                    sample_actions(space.actions, part, np.random.default_rng(0)),
                    lane=np.zeros(len(rows), np.int32),
                    episode=rows.astype(np.int64),
                    step=np.zeros(len(rows), np.int32),
                    reward=np.ones(len(rows), np.float32),
                    terminated=~no[rows],
                    truncated=no[rows],
                    final=no[rows],
                    inactive=no[rows],
                )
            )
    dataset = EntityDataset(tmp_path / "plays")
    assert dataset.num_parts == 2 and dataset.part(1).actions["Go"].num_items == 0
    for engine in ("fused", "torch"):
        net = ez.RogueNet(space, space.actions, d_model=8, n_layer=1, engine=engine)
        config = ez.BehaviorCloningConfig(epochs=1, held_out=0.5, minibatch_size=2)
        metrics = ez.BehaviorCloning(net, dataset, config).train()
        assert "held_out/accuracy/Go" in metrics and "held_out/accuracy/Aim" not in metrics


def test_wrong_calls_are_named(plays: Path, tmp_path: Path) -> None:
    net, dataset = treasure_net(), EntityDataset(plays)
    with raises(TypeError, "BehaviorCloningConfig"):
        ez.BehaviorCloning(net, dataset, {"epochs": 3})  # type: ignore[arg-type]
    with raises(TypeError, "EntityDataset"):
        ez.BehaviorCloning(net, plays)  # type: ignore[arg-type]
    with raises(TypeError, "Policy"):
        ez.BehaviorCloning(dataset, dataset)  # type: ignore[arg-type]
    with raises(DatasetError, "policy", "Trap"):
        venv = ez.make_vec("MineSweeper", num_envs=1)
        other = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8)
        ez.BehaviorCloning(other, dataset)
    with raises(ValueError, "epochs", 0):
        ez.BehaviorCloning(net, dataset).train(0)
    for wrong in (
        {"held_out": 1.0},
        {"epochs": 0},
        {"illegal": "ignore"},
        {"gamma": 1.5},
        {"device": "tpu9"},
    ):
        with raises(ValueError, next(iter(wrong))):
            ez.BehaviorCloningConfig(**wrong)  # type: ignore[arg-type]
    with raises(FileNotFoundError, tmp_path / "none"):
        ez.BehaviorCloning(net, dataset, run_dir=tmp_path / "none", resume=True)
    assert math.isfinite(ez.BehaviorCloning(net, dataset).evaluate()["held_out/log_likelihood"])


def test_a_trained_policy_keeps_its_input_statistics(tmp_path: Path) -> None:
    dataset = random_dataset(tmp_path / "plays")
    config = ez.BehaviorCloningConfig(epochs=1, minibatch_size=20)
    net = ez.RogueNet(DECISIONS, DECISIONS.actions, d_model=8, n_layer=1)
    trainer = ez.BehaviorCloning(net, dataset, config)
    trainer.train()
    learned = dataset.gather(trainer.demonstrations.learned).observations
    statistics = {n: t.clone() for n, t in net.state_dict().items() if n.startswith("normalization.")}
    count = next(t for n, t in statistics.items() if "Unit" in n and n.endswith("count"))
    assert count == learned.entities["Unit"].num_items
    ez.BehaviorCloning(net, random_dataset(tmp_path / "others", seed=1), config).train()
    for name, tensor in statistics.items():
        assert torch.equal(tensor, net.state_dict()[name]), name


def test_the_accuracy_of_a_conditional_action_is_of_the_components_in_use(tmp_path: Path) -> None:
    steps = random_dataset(tmp_path / "plays", 200).gather(np.arange(200))
    order = steps.actions["Order"]
    values = np.where(order.values[:, :1] == 0, [0, 3], order.values)  # "wait" does not use "where"
    with DatasetWriter(tmp_path / "others", DECISIONS) as writer:
        writer.append(replace(steps, actions={**steps.actions, "Order": order.with_values(values)}))
    torch.manual_seed(0)
    net = ez.RogueNet(DECISIONS, DECISIONS.actions, d_model=8, n_layer=1)
    accuracies = [
        ez.BehaviorCloning(net, EntityDataset(tmp_path / name)).evaluate()["held_out/accuracy/Order"]
        for name in ("plays", "others")
    ]
    assert accuracies[0] == accuracies[1] > 0.2


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_masked_components_that_a_kind_does_not_use_are_learned_as_allowed_ones(
    engine: str, tmp_path: Path
) -> None:
    steps = random_dataset(tmp_path / "plays", 200).gather(np.arange(200))
    order, part = steps.actions["Order"], steps.observations.actions["Order"]
    waits = order.values[:, 0] == 0
    barred = waits & ~part.mask.values[:, 2] & part.mask.values[:, 2:].any(1)
    assert barred.any() and (order.values[barred, 1] == 0).all()
    first = order.values.copy()
    first[barred, 1] = part.mask.values[barred, 2:].argmax(1)
    with DatasetWriter(tmp_path / "allowed", DECISIONS) as writer:
        writer.append(replace(steps, actions={**steps.actions, "Order": order.with_values(first)}))
    found = []
    for name in ("plays", "allowed"):
        torch.manual_seed(0)
        net = ez.RogueNet(DECISIONS, DECISIONS.actions, d_model=8, n_layer=1, composite="all", engine=engine)
        config = ez.BehaviorCloningConfig(epochs=1, minibatch_size=50)
        found.append(ez.BehaviorCloning(net, EntityDataset(tmp_path / name), config).train())
    assert found[0]["held_out/log_likelihood"] == found[1]["held_out/log_likelihood"]
