"""Networks that somebody edited: files hold their options and weights alone, and say so."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize import RogueNet
from entitize.policies import CheckpointError
from entitize.policies.engines.plain_form import plain_difference
from entitize.trainers.runs.checkpoint import read_checkpoint
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

from facts import raises, warns

CONFIG = ez.PPOConfig(num_steps=8, minibatch_size=32, learning_rate=0.01)
FACTS = ("'Move'", "edited", "subclass", "docs/own-training.md")


@pytest.fixture
def venv() -> Any:
    return ez.make_vec("MineSweeper", num_envs=8)


def make_net(venv: Any, kind: type[RogueNet] = RogueNet, **options: Any) -> RogueNet:
    torch.manual_seed(0)
    spaces = venv.single_observation_space, venv.single_action_space
    return kind(*spaces, **{"d_model": 8, "n_layer": 1, "n_head": 2, **options})


def with_tanh(net: RogueNet) -> RogueNet:
    blocks: Any = net.policy_net.backbone.blocks
    blocks[0].mlp[1] = nn.Tanh()
    return net


def test_an_edited_network_is_saved_with_a_warning_and_marked(venv: Any, tmp_path: Path) -> None:
    net, batch = with_tanh(make_net(venv)), venv.reset(seed=0)[0]
    net.update_normalization(batch)
    with warns(UserWarning, *FACTS):
        ez.save_policy(net, tmp_path / "saved")
    with warns(UserWarning, *FACTS):  # at each save
        ez.save_policy(net, tmp_path / "saved")
    with warns(UserWarning, *FACTS, tmp_path / "saved"):
        loaded = ez.load_policy(tmp_path / "saved")
    ours, theirs = (n.act(batch, np.random.default_rng(0)).log_probs["Move"] for n in (net, loaded))
    assert not np.array_equal(ours.values, theirs.values)
    for use in (ez.load_agent, lambda path: ez.export_onnx(path, tmp_path / "net.onnx")):
        with raises(CheckpointError, *FACTS, "load_policy", tmp_path / "saved"):
            use(tmp_path / "saved")
    ez.save_policy(loaded, tmp_path / "saved")  # a plain one now
    ez.load_agent(tmp_path / "saved")


def test_a_run_of_an_edited_network_warns_once_and_when_others_go_on(venv: Any, tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ez.PPO(with_tanh(make_net(venv)), venv, CONFIG, run_dir=tmp_path).train(192, progress=False)
    assert [str(w.message).count("'Move'") for w in caught] == [1]
    assert "differs" in read_checkpoint(tmp_path).metadata["policy"]
    with warns(UserWarning, *FACTS, "checkpoint"):
        ez.PPO(make_net(venv), venv, CONFIG, run_dir=tmp_path, resume=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ez.PPO(with_tanh(make_net(venv)), venv, CONFIG, run_dir=tmp_path, resume=True)
    assert [str(w.message).startswith("saved") for w in caught] == [True]


class Tanh(RogueNet):
    def __init__(self, *spaces: Any, **options: Any) -> None:
        super().__init__(*spaces, **options)
        with_tanh(self)


def test_a_subclass_is_saved_by_its_name(venv: Any, tmp_path: Path) -> None:
    net, batch = make_net(venv, Tanh), venv.reset(seed=0)[0]
    ez.save_policy(net, tmp_path / "saved")
    np.testing.assert_array_equal(
        ez.load_policy(tmp_path / "saved", network=Tanh).value(batch), net.value(batch)
    )


def look(net: RogueNet) -> None:
    """Hooks, as tools to look into networks register them."""
    seen: list[Any] = []
    for module in net.modules():
        module.register_forward_hook(lambda module, inputs, output: seen.append(output))
        module.register_forward_pre_hook(lambda module, inputs: seen.append(inputs))
    assert not seen


def counted(net: RogueNet) -> None:
    """A wrapper that calls the original."""
    inner = net.value_head.forward
    net.value_head.forward = lambda *inputs: inner(*inputs)  # type: ignore[method-assign]


def by_zero(net: RogueNet) -> None:
    """A part that computes nothing yet."""
    inner = net.value_head.forward
    net.value_head.forward = lambda *inputs: inner(*inputs) + 0.0  # type: ignore[method-assign]


def diverged(net: RogueNet) -> None:
    for parameter in net.value_head.parameters():
        parameter.data.fill_(torch.nan)


def frozen(net: RogueNet) -> None:
    net.policy_net.requires_grad_(False)


def compiled(net: RogueNet) -> None:
    net.compile(backend="eager")


def mixed(net: RogueNet) -> None:
    """Weights and statistics that are written in place."""
    for weight in net.state_dict().values():
        weight.mul_(1.5).add_(0.25)


def mixed_double(net: RogueNet) -> None:
    mixed(net.double())


@pytest.mark.parametrize(
    "change",
    [
        *(look, counted, by_zero, frozen, diverged, compiled, mixed, mixed_double),
        *(RogueNet.double, RogueNet.half),
    ],
)
def test_what_changes_no_number_is_no_edit(venv: Any, change: Callable[[RogueNet], Any]) -> None:
    net = make_net(venv)
    change(net)
    before = torch.random.get_rng_state()
    shifts = [norm.shift.clone() for norm in net.normalization.children()]  # type: ignore[union-attr,operator]
    assert plain_difference(net) is None
    assert torch.equal(torch.random.get_rng_state(), before)
    for norm, shift in zip(net.normalization.children(), shifts, strict=True):
        assert torch.equal(norm.shift, shift), "the network itself is not touched"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {"pooling": "mean"},
        {"separate_value_net": True},
        {"dropout": 0.5},
        {"engine": "torch"},
        {"relative_position": {"position": ["x", "y"], "extent": [4, 4], "radial": True, "distance": True}},
        {"relative_position": {"position": ["x", "y"], "extent": [3, 3], "key_projection": True}},
        {"translation": {"reference": "Robot", "position": ["x", "y"]}},
    ],
)
def test_options_are_no_edits(venv: Any, options: dict[str, Any]) -> None:
    net = make_net(venv, **options)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter))
    if "translation" not in options:  # MineSweeper has two robots
        net.update_normalization(venv.reset(seed=0)[0])
    assert plain_difference(net) is None


class LowRank(nn.Module):
    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner, self.a = inner, nn.Parameter(torch.ones(inner.in_features, 1))
        self.b = nn.Parameter(torch.zeros(1, inner.out_features))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + x @ self.a @ self.b


def adapted(net: RogueNet) -> None:
    head: Any = net.action_heads["Move"]
    head.proj = LowRank(head.proj)


def normed(net: RogueNet) -> None:
    head: Any = net.action_heads["Move"]
    parametrizations.spectral_norm(head.proj)


def pruned(net: RogueNet) -> None:
    head: Any = net.action_heads["Move"]
    prune.l1_unstructured(head.proj, "weight", 0.5)


def other_epsilon(net: RogueNet) -> None:
    head: Any = net.policy_net.backbone.blocks
    head[0].ln1.eps = 0.5


def doubled(net: RogueNet) -> None:
    inner = net.value_head.forward
    net.value_head.forward = lambda *inputs: 2 * inner(*inputs) + 1  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("change", "fact"),
    [(adapted, "Move"), (normed, "Move"), (pruned, "Move"), (other_epsilon, "log-prob"), (doubled, "values")],
)
def test_what_changes_numbers_or_weights_is_named(
    venv: Any, change: Callable[[RogueNet], None], fact: str
) -> None:
    net = make_net(venv)
    change(net)
    assert fact in str(plain_difference(net))


def test_what_a_compiler_made_of_a_network_is_not_saved(venv: Any, tmp_path: Path) -> None:
    compiled: Any = torch.compile(make_net(venv), backend="eager")
    with raises(TypeError, "OptimizedModule", "torch.compile", "the network itself"):
        ez.save_policy(compiled, tmp_path / "saved")
    with raises(TypeError, "OptimizedModule", "torch.compile"):
        ez.PPO(compiled, venv, CONFIG, run_dir=tmp_path / "run")
