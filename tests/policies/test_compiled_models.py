"""Models of the user under `torch.compile`, of which a network of this library is a part."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize import RogueNet
from torch import Tensor, nn

from nets import fused_net, sampled_batch

#: torch hides it, unless warnings are errors.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")


class Own(nn.Module):
    """Reads a network's values, and computes in torch before and after."""

    def __init__(self, net: nn.Module, read: Any) -> None:
        super().__init__()
        self.net, self.read = net, read
        self.before, self.after = nn.Linear(1, 1), nn.Linear(2, 1)

    def forward(self, x: Tensor, *inputs: Any) -> Tensor:
        return self.after(torch.cat([self.before(x).tanh(), self.read(self.net, *inputs)[:, None]], 1)).tanh()


def gradients(module: nn.Module, loss: Tensor) -> list[Tensor]:
    found = torch.autograd.grad(loss, list(module.parameters()), allow_unused=True)
    return [torch.zeros(0) if part is None else part for part in found]


def check(module: Own, x: Tensor, *inputs: Any) -> None:
    compiled = torch.compile(module, backend="eager")
    for _ in range(2):
        expected, found = module(x, *inputs), compiled(x, *inputs)
        torch.testing.assert_close(found, expected)
        for ours, theirs in zip(
            gradients(module, found.sum()), gradients(module, expected.sum()), strict=True
        ):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_a_model_around_a_rogue_net_is_compiled_without_it(make_space: Any, engine: str) -> None:
    space = make_space()
    net = fused_net(space, 0, 0.2, d_model=8, n_layer=1)
    net = RogueNet(space, space.actions, **{**net.config, "engine": engine})
    batch = sampled_batch(space, 5, 0)
    raw = net.act(batch, np.random.default_rng(0)).raw
    for read in (lambda net, *inputs: net(*inputs).values, lambda net, *inputs: net.evaluate(*inputs).values):
        check(Own(net, read), torch.ones(5, 1), batch, raw)
    torch._dynamo.reset()


def test_a_network_that_is_compiled_itself_computes_as_before(make_space: Any) -> None:
    space = make_space()
    net, batch = fused_net(space, 0, 0.2, d_model=8, n_layer=1), sampled_batch(space, 5, 0)
    compiled: Any = torch.compile(net, backend="eager")
    acted = compiled.act(batch, np.random.default_rng(0))
    expected = net.act(batch, np.random.default_rng(0))
    assert all(acted.actions[name] == expected.actions[name] for name in expected.actions)
    torch.testing.assert_close(compiled(batch, acted.raw).values, net.evaluate(batch, acted.raw).values)
    net.compile(backend="eager")
    torch.testing.assert_close(net(batch, acted.raw).values, net.evaluate(batch, acted.raw).values)
    torch._dynamo.reset()


def test_models_around_padded_networks_are_compiled_without_them() -> None:
    env = ez.to_gymnasium(ez.make("MineSweeper"), "padded", maxima=8, flat_actions=True)
    observation, _ = env.reset(seed=0)
    inputs = {name: torch.as_tensor(array)[None] for name, array in observation.items()}
    whole = ez.PaddedActorCritic(env.observation_space, d_model=8, n_layer=1, n_head=2).eval()
    check(Own(whole, lambda net, inputs: net(inputs)[1]), torch.ones(1, 1), inputs)
    check(Own(whole.net, lambda net, inputs: net(inputs).sum(1)), torch.ones(1, 1), inputs)
    torch._dynamo.reset()


def test_importing_and_using_networks_loads_no_compiler() -> None:
    program = """
import sys
import entitize as ez, numpy as np
venv = ez.make_vec("MineSweeper", num_envs=2)
spaces = venv.single_observation_space, venv.single_action_space
net = ez.RogueNet(*spaces, d_model=8, n_layer=1, engine="torch")
batch, _ = venv.reset(seed=0)
net.update_normalization(batch)
net.evaluate(batch, net.act(batch, np.random.default_rng(0)).raw).values.sum().backward()
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
