"""The update by kernels against torch: loss and gradients, clipping, AdamW."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from entitize import RogueNet, make_vec
from entitize.policies import Evaluation
from entitize.ragged import RaggedArray
from entitize.trainers import PPO, PPOConfig, Samples
from entitize.trainers.learners import AdamW, FusedLearner, TorchLearner, clip_gradients, ppo_losses
from entitize.trainers.learners import losses as trainers_losses
from entitize.trainers.learners.fused_learner import logged, loss_and_gradients
from entitize.trainers.learners.losses import Counts, count
from torch import Tensor, nn

DTYPES = [torch.float32, torch.float64]


def random_case(rng: np.random.Generator, dtype: torch.dtype, steps: int) -> tuple[list[Tensor], Samples]:
    """Log-probabilities and entropies of two actions, and values, with gradients; and their samples."""
    floats = np.float32 if dtype is torch.float32 else np.float64
    tensors, actions, old = [], {}, {}
    for name in ("move", "fire"):
        lengths = rng.integers(0, 4, steps)
        log_probs = -rng.exponential(1.0, lengths.sum())
        was = RaggedArray.from_lengths(
            (log_probs + rng.normal(0, 0.3, len(log_probs))).astype(floats), lengths
        )
        actions[name], old[name] = was.with_values(np.zeros(was.num_items, np.int64)), was
        tensors.append(torch.tensor(log_probs, dtype=dtype, requires_grad=True))
    entropies = [torch.rand(len(t), dtype=dtype).requires_grad_() for t in tensors]
    values, before, advantages = rng.normal(0, 0.3, (3, steps)).astype(floats)
    # Ties: a change that is clipped and leaves the error as it was, one at the bound, one that is none.
    returns = (before + rng.normal(0, 0.3, steps)).astype(floats)
    for b, change, target in zip(range(steps), (0.5, 0.25, 0.0), (0.375, 1.0, 0.0), strict=False):
        before[b], values[b], returns[b] = 0.0, change, target
    tensors += [*entropies, torch.tensor(values, requires_grad=True)]
    observations: Any = None  # the loss does not read them
    return tensors, Samples(observations, actions, old, before, advantages, returns)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("clip_vloss", [False, True])
def test_fused_loss_and_gradients_equal_those_of_torch(
    dtype: torch.dtype, joint: bool, clip_vloss: bool
) -> None:
    config = PPOConfig(joint_log_prob=joint, clip_vloss=clip_vloss, clip_coef=0.25, vf_coef=0.7)
    rng = np.random.default_rng(3)
    for steps in (0, 1, 2, 7, 40, 300):
        tensors, samples = random_case(rng, dtype, steps)
        counts = count(samples, joint)
        arrays = [tensor.detach().numpy() for tensor in tensors]
        names = list(samples.actions)
        log_probs, entropies = (
            dict(zip(names, arrays, strict=False)),
            dict(zip(names, arrays[2:], strict=False)),
        )
        sums, found = loss_and_gradients(log_probs, entropies, arrays[4], samples, counts, config, 0.03)
        numbers = logged(sums, counts, config, 0.03)
        # The reference in float64: what the kernels compute in float32 is off by less than torch's is.
        inputs = [tensor.detach().double().requires_grad_() for tensor in tensors]
        losses = ppo_losses(evaluation_of(names, inputs), samples, counts, config, 0.03)
        losses.total.backward()
        assert numbers == pytest.approx(losses.numbers, rel=1e-6, abs=1e-6)
        gradients = [*found.log_probs.values(), *found.entropies.values(), found.values]
        for gradient, tensor in zip(gradients, inputs, strict=True):
            torch.testing.assert_close(torch.from_numpy(gradient).double(), tensor.grad, rtol=1e-6, atol=1e-7)


def evaluation_of(names: list[str], tensors: list[Tensor]) -> Evaluation:
    return Evaluation(*by_name(names, tensors), tensors[4])


def by_name(names: list[str], outputs: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Log-probabilities and entropies, which stand behind each other."""
    return dict(zip(names, outputs[:2], strict=True)), dict(zip(names, outputs[2:4], strict=True))


def test_clipped_values_pass_no_gradient_and_equal_ones_half_of_it() -> None:
    tensors, samples = random_case(np.random.default_rng(0), torch.float64, 3)
    assert [samples.values[0], float(tensors[4][0].detach()), samples.returns[0]] == [0, 0.5, 0.375]
    names, config = list(samples.actions), PPOConfig(clip_coef=0.25, vf_coef=1.0)
    arrays = [tensor.detach().numpy() for tensor in tensors]
    log_probs, entropies = by_name(names, arrays)
    _, found = loss_and_gradients(log_probs, entropies, arrays[4], samples, Counts(1, 1), config, 0.0)
    ppo_losses(evaluation_of(names, tensors), samples, Counts(1, 1), config, 0.0).total.backward()
    # (0.5 − 0.375)² = (0.25 − 0.375)²: half of 0.125. 0.25 is not beyond the bound: all of −0.75.
    assert found.values.tolist() == pytest.approx([0.0625, -0.75, 0.0])
    assert tensors[4].grad.tolist() == pytest.approx([0.0625, -0.75, 0.0])


def small_network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.Linear(5, 2))


@pytest.mark.parametrize("max_norm", [0.01, 1e6, None])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adamw_and_clipping_equal_torch(max_norm: float | None, decay: float) -> None:
    """Also where a parameter has no gradient at times, and where the state of either goes on in the other."""
    ours, theirs = small_network(0), small_network(0)
    options: dict[str, Any] = {"lr": 0.01, "eps": 1e-5, "weight_decay": decay}
    mine, torchs = (
        AdamW(list(ours.parameters()), **options),
        torch.optim.AdamW(theirs.parameters(), **options),
    )
    generator = torch.Generator().manual_seed(1)
    for step in range(12):
        for index, (a, b) in enumerate(zip(ours.parameters(), theirs.parameters(), strict=True)):
            gradient = torch.randn(a.shape, generator=generator)
            a.grad, b.grad = (None, None) if (step + index) % 4 == 0 else (gradient.clone(), gradient)
        norm = clip_gradients(list(ours.parameters()), max_norm)
        limit = math.inf if max_norm is None else max_norm
        assert norm == pytest.approx(float(nn.utils.clip_grad_norm_(theirs.parameters(), limit)), rel=1e-6)
        mine.step()
        torchs.step()
        if step == 5:
            states = [copy.deepcopy(o.state_dict()) for o in (mine, torchs)]
            mine.load_state_dict(states[1])
            torchs.load_state_dict(states[0])
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_what_kernels_cannot_read_is_left_to_torch() -> None:
    ours, theirs = small_network(0).double(), small_network(0).double()
    mine, torchs = AdamW(list(ours.parameters()), lr=0.1), torch.optim.AdamW(theirs.parameters(), lr=0.1)
    for module, optimizer in ((ours, mine), (theirs, torchs)):
        for p in module.parameters():
            p.grad = torch.ones_like(p)
        assert clip_gradients(list(module.parameters()), 0.5) > 0.5
        optimizer.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("option", ["maximize", "amsgrad"])
def test_options_that_the_kernel_lacks_are_left_to_torch(option: str) -> None:
    ours, theirs = small_network(0), small_network(0)
    options: dict[str, Any] = {"lr": 0.1, option: True}
    mine, torchs = (
        AdamW(list(ours.parameters()), **options),
        torch.optim.AdamW(theirs.parameters(), **options),
    )
    generator = torch.Generator().manual_seed(1)
    for size in (3.0, 1.0, 0.1):
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            a.grad = size * torch.randn(a.shape, generator=generator)
            b.grad = a.grad.clone()
        mine.step()
        torchs.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def minesweeper_trainer(**options: Any) -> PPO:
    venv = make_vec("entitize/MineSweeper-v0", num_envs=8)
    torch.manual_seed(0)
    policy = RogueNet(venv.single_observation_space, venv.single_action_space, d_model=16, n_layer=1)
    return PPO(policy, venv, PPOConfig(minibatch_size=64, **{"num_steps": 16, **options}))


@pytest.mark.parametrize("microbatch_size", [None, 23])
def test_gradients_by_kernels_equal_those_of_autograd(microbatch_size: int | None) -> None:
    trainer = minesweeper_trainer(microbatch_size=microbatch_size)
    samples = trainer.collect()
    trainer.update()
    module = copy.deepcopy(trainer.policy)  # which must not share the original's gradients
    counts, found = count(samples, False), []
    assert isinstance(module, RogueNet)
    frozen = next(iter(module.parameters())).requires_grad_(False)
    for kind in (FusedLearner, TorchLearner):
        learner = kind(module, trainer.optimizer, trainer.config)
        module.zero_grad()
        for part in samples.split(microbatch_size):
            learner.differentiate(part, counts, 0.01)
        found.append([None if p.grad is None else p.grad.clone() for p in module.parameters()])
    assert frozen.grad is None
    for mine, torchs in zip(*found, strict=True):
        assert (mine is None) == (torchs is None)
        if mine is not None:
            torch.testing.assert_close(mine, torchs, rtol=1e-5, atol=1e-7)


def test_the_evaluate_of_a_subclass_is_used() -> None:
    class Louder(RogueNet):
        def evaluate(self, batch: Any, actions: Any) -> Evaluation:
            calls.append(len(batch))
            return super().evaluate(batch, actions)

    calls: list[int] = []
    trainer = minesweeper_trainer()
    space = trainer.policy.observation_space
    policy = Louder(space, trainer.policy.action_space, d_model=16, n_layer=1)
    louder = PPO(policy, trainer.venv, trainer.config)
    louder.collect()
    louder.update()
    assert sum(calls) == trainer.config.update_epochs * 16 * 8


def test_an_edited_loss_is_what_is_trained(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The kernels of PPO's loss step aside when torch's loss is another one, with one warning."""

    def halved(*of: Any) -> Any:
        losses = ppo_losses(*of)
        return replace(losses, total=losses.total / 2)

    trainer = minesweeper_trainer()
    samples, gradients = trainer.collect(), []
    counts = count(samples, False)
    assert isinstance(trainer.learner, FusedLearner)
    for loss in (ppo_losses, halved, ppo_losses):
        monkeypatch.setattr("entitize.trainers.learners.torch_learner.ppo_losses", loss)
        trainer.policy.zero_grad()
        with caplog.at_level("WARNING"):
            trainer.learner.differentiate(samples, counts, 0.01)
            trainer.learner.differentiate(samples, counts, 0.01)
        gradients.append([p.grad.clone() for p in trainer.policy.parameters() if p.grad is not None])
    for whole, half, again in zip(*gradients, strict=True):
        torch.testing.assert_close(half, whole / 2, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(again, whole, rtol=1e-4, atol=1e-6)
    assert len(caplog.records) == 1 and "gradient" in caplog.records[0].message


def test_a_loss_that_differs_for_rare_ratios_alone_is_left_to_torch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Dual clipping (Ye et al. 2020, arXiv:1912.09729): ratios above 3 with an advantage below 0."""

    original = trainers_losses.loss_terms

    def dual_clipped(log_ratio: Tensor, entropy: Tensor, advantage: Tensor, *of: Any) -> Any:
        total, numbers = original(log_ratio, entropy, advantage, *of)
        ratio, per_unit = log_ratio.exp(), of[3]
        beyond = (torch.maximum(ratio, torch.tensor(3.0)) - 3) * advantage.clamp(max=0) * per_unit
        return total + beyond.sum(), numbers

    trainer = minesweeper_trainer()
    samples = trainer.collect()
    counts = count(samples, False)
    for terms, warned in ((original, 0), (dual_clipped, 1)):
        monkeypatch.setattr(trainers_losses, "loss_terms", terms)
        with caplog.at_level("WARNING"):
            trainer.learner.differentiate(samples, counts, 0.01)  # type: ignore[attr-defined]
        assert len(caplog.records) == warned
