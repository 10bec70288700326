"""Derivatives of gradients: of torch's engine against differences of gradients, and refused by kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize import RogueNet
from entitize.policies.derivatives import WITHOUT_TRITON, first_derivatives_only
from entitize.policies.inputs.rows import RowLayout
from entitize.policies.rogue_net import KernelAttention
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from facts import raises
from nets import fused_net, in_torch

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "two values": {"separate_value_net": True},
    "mean": {"pooling": "mean"},
    "maximum": {"pooling": "max"},
    "relative": {"relative_position": {"position": ["x", "y"], "extent": [3, 3]}},
    "squashed": {"squash": True},
}


def a_loss(net: RogueNet, batch: Any, raw: Any) -> Tensor:
    """A loss that is curved in all outputs."""
    evaluation = net.evaluate(batch, raw)
    parts = [*evaluation.log_probs.values(), *evaluation.entropies.values(), evaluation.values]
    return sum((part.square().sum() for part in parts), torch.zeros(()))


def gradient(loss: Tensor, leaves: list[nn.Parameter], create_graph: bool = False) -> Tensor:
    found = torch.autograd.grad(loss, leaves, create_graph=create_graph, allow_unused=True)
    return torch.cat(
        [(torch.zeros_like(p) if g is None else g).flatten() for p, g in zip(leaves, found, strict=True)]
    )


def product(loss: Callable[[], Tensor], leaves: list[nn.Parameter], direction: Tensor) -> Tensor:
    """The Hessian's product with `direction` (P,)."""
    return gradient(gradient(loss(), leaves, create_graph=True) @ direction, leaves)


def differences(loss: Callable[[], Tensor], leaves: list[nn.Parameter], direction: Tensor) -> Tensor:
    """The same from gradients on both sides."""
    step, at, sides = 1e-5, nn.utils.parameters_to_vector(leaves).detach(), []
    for moved in (at + step * direction, at - step * direction):
        nn.utils.vector_to_parameters(moved, leaves)
        sides.append(gradient(loss(), leaves))
    nn.utils.vector_to_parameters(at, leaves)
    return (sides[0] - sides[1]) / (2 * step)


def error(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected).norm() / expected.norm())


@pytest.fixture
def played(make_space: Any, random_batch: Any) -> Callable[..., tuple[RogueNet, Any, Any]]:
    def make(**options: Any) -> tuple[RogueNet, Any, Any]:
        entities = {"Player": ("x", "y"), "Food": ("x", "y", "kind"), "Wall": ("x", "y")}
        space = make_space(entities)
        net = in_torch(fused_net(space, 0, 0.2, d_model=8, n_layer=2, n_head=2, **options))
        batch = random_batch(space)
        net.update_normalization(batch)
        return net, batch, net.act(batch, np.random.default_rng(0)).raw

    return make


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_products_with_the_hessian_are_differences_of_gradients(played: Any, options: dict[str, Any]) -> None:
    net, batch, raw = played(**options)
    exact = in_torch(net).double()
    leaves = list(exact.parameters())
    numbers = torch.Generator().manual_seed(0)
    direction = torch.randn(sum(p.numel() for p in leaves), dtype=torch.float64, generator=numbers)
    expected = differences(lambda: a_loss(exact, batch, raw), leaves, direction)
    with sdpa_kernel(SDPBackend.MATH):
        assert error(product(lambda: a_loss(exact, batch, raw), leaves, direction), expected) < 1e-6
    leaves = list(net.parameters())  # float32: attention has a kernel, which leaves this to torch
    assert error(product(lambda: a_loss(net, batch, raw), leaves, direction.float()), expected) < 1e-3


def test_attention_of_torch_refuses_unless_it_is_spelled_out(played: Any) -> None:
    """docs/performance.md says so; where this fails, it can say less."""
    net, batch, raw = played()
    exact = in_torch(net).double()
    leaves = list(exact.parameters())
    direction = torch.ones(sum(p.numel() for p in leaves), dtype=torch.float64)
    with raises(RuntimeError, "derivative", "scaled_dot_product", "not implemented"):
        product(lambda: a_loss(exact, batch, raw), leaves, direction)


def test_a_kernel_of_attention_has_second_derivatives_behind_any_strides() -> None:
    rows = RowLayout(np.array([0, 3, 3, 8]), np.array([0, 3, 3, 8]))
    numbers = torch.Generator().manual_seed(0)
    transposed = torch.randn(12, 8, generator=numbers)
    given = torch.randn(8, 4, generator=numbers)

    def curvature(dtype: torch.dtype) -> Tensor:
        from entitize.policies.rogue_net.attention import attend

        leaf = transposed.to(dtype).requires_grad_()
        with sdpa_kernel(SDPBackend.MATH):
            out = attend((2 * leaf).T, rows, 2)
        (first,) = torch.autograd.grad((out * given.to(dtype)).sum(), leaf, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), leaf)
        return second

    assert isinstance(KernelAttention.apply(transposed.T.contiguous(), rows, 2), Tensor)
    assert error(curvature(torch.float32), curvature(torch.float64)) < 1e-4


@pytest.mark.parametrize("asks", [torch.autograd.grad, torch.autograd.backward])
def test_the_fused_engine_refuses_second_derivatives(played: Any, asks: Any) -> None:
    net, batch, raw = played()
    fused = RogueNet(net.observation_space, net.action_space, **{**net.config, "engine": "fused"})
    leaves = list(fused.parameters())
    for loss in (a_loss(fused, batch, raw), fused.evaluate(batch, raw).values.sum()):
        with raises(RuntimeError, "fused engine", "create_graph=True", "engine='torch'"):
            asks(loss, inputs=leaves, create_graph=True)
    gradient(a_loss(fused, batch, raw), leaves)  # first ones are computed as ever


def padded_net(space: Any, engine: str) -> ez.PaddedActorCritic:
    torch.manual_seed(0)
    net = ez.PaddedActorCritic(space, d_model=8, n_layer=1, n_head=2, engine=engine).eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return net


def test_padded_networks_have_them_in_torch_alone() -> None:
    env = ez.to_gymnasium(ez.make("MineSweeper"), "padded", maxima=8, flat_actions=True)
    observation, _ = env.reset(seed=0)
    inputs = {name: torch.as_tensor(array)[None] for name, array in observation.items()}

    def loss(net: ez.PaddedActorCritic) -> Tensor:
        logits, values = net(inputs)
        return logits.log_softmax(1).clamp(min=-100).square().sum() + values.square().sum()

    fused = padded_net(env.observation_space, "fused")
    with raises(RuntimeError, "fused engine", "create_graph=True", "engine='torch'"):
        gradient(loss(fused), list(fused.parameters()), create_graph=True)
    exact = padded_net(env.observation_space, "torch")
    loss(exact)  # its first observations set the statistics
    exact.double()
    leaves = list(exact.parameters())
    direction = torch.ones(sum(p.numel() for p in leaves), dtype=torch.float64)
    with sdpa_kernel(SDPBackend.MATH):
        found = product(lambda: loss(exact), leaves, direction)
    assert error(found, differences(lambda: loss(exact), leaves, direction)) < 1e-6


def test_kernels_for_a_gpu_say_how_to_do_without_them() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return 2 * x

        @staticmethod
        @first_derivatives_only("a kernel", WITHOUT_TRITON)
        def backward(ctx: Any, given: Tensor) -> Tensor:
            return 2 * given

    x = torch.ones(1, requires_grad=True)
    (found,) = torch.autograd.grad(Doubled.apply(x), x)
    assert found.item() == 2
    with raises(RuntimeError, "a kernel", "create_graph", "ENTITIZE_TRITON"):
        torch.autograd.grad(Doubled.apply(x), x, create_graph=True)
