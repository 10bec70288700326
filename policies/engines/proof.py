"""Compares the fused kernels with torch on a few generated rows, before they act or learn for it.

Rows, parameters and statistics are random, so the comparison is one of functions: a term that is zero in a
fresh network (a low-rank adapter, a bias) counts. They are those of a copy on the CPU, since other threads
may act with the user's network meanwhile. The random generators stay as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...envs import EntityBatch
from ...ragged import RaggedArray
from ..inputs.generated import generate
from ..inputs.prepare import Inputs, Prepared
from ..kernels.tiles.tile_kernels import LAYER_NORM_EPSILON
from ..policy import ActResult
from ..rogue_net.config import RogueNetConfig
from ..rogue_net.network import RogueNetwork
from ..rogue_net.normalization import InputNorm
from .fingerprint import has_dropout
from .fused_engine import FusedEngine, FusedRows
from .graphs.static_network import StaticForm

_Network = TypeVar("_Network", bound=nn.Module)

#: Largest difference of an output, as a part of the largest of its kind; likewise of a gradient.
_OUTPUTS, _GRADIENTS = 5e-4, 5e-4


def difference(network: RogueNetwork, learns: bool) -> str | None:
    """Return what differs between torch and the kernels in acting, or (`learns`) in gradients."""
    rng = np.random.default_rng(0)

    def compare(net: RogueNetwork) -> str | None:
        engine = FusedEngine(net)
        batch = generate(net.observation_space, net.settings, rng)
        prepared = Inputs(net.observation_space, net.settings).prepare(batch)
        if not learns:
            return _acting(net, engine, prepared, batch)
        with torch.no_grad():  # what the network draws has all that its options need
            raw = net.draw(prepared, batch.actions, rng).raw
        return _learning(net, engine, prepared, batch, raw, rng)

    return compared(network, rng, compare, learns)


def rows_difference(
    network: _Network,
    rows: Callable[[_Network], tuple[Callable[[Prepared], Tensor], FusedRows]],
    inputs: Inputs,
    settings: RogueNetConfig,
    learns: bool,
) -> str | None:
    """Return what differs between the rows of torch and of `FusedRows`, or (`learns`) in their gradients.

    `rows` gives both for a copy of `network`.
    """
    rng = np.random.default_rng(0)

    def compare(module: _Network) -> str | None:
        torch_rows, fused = rows(module)
        prepared = inputs.prepare(generate(inputs.space, settings, rng))
        with torch.set_grad_enabled(learns):
            expected, found = torch_rows(prepared), fused(prepared)
        if _far(found.detach().numpy(), expected.detach().numpy()):
            return "the rows after the blocks"
        if not learns:
            return None
        leaves = dict(module.named_parameters())
        given = torch.from_numpy(rng.standard_normal(expected.shape).astype(np.float32))
        ours, theirs = (
            torch.autograd.grad((rows * given).sum(), list(leaves.values()), allow_unused=True)
            for rows in (found, expected)
        )
        return gradients_difference(leaves, ours, theirs)

    return compared(network, rng, compare, learns)


def compared(
    module: _Network,
    rng: np.random.Generator,
    compare: Callable[[_Network], str | None],
    learns: bool = False,
) -> str | None:
    """Return what `compare` finds in a copy of `module` with random parameters, or the error that it raises.

    `learns`: the copy is in training mode, unless it has dropout, where that mode gives random numbers.

    A thread of its own computes, which is in none of the modes of torch that the caller may be in: inference,
    autocast, functions that count operations, or hooks of saved tensors as `torch.utils.checkpoint` sets.
    """

    def in_copy() -> str | None:
        with _one_thread():
            return compare(_random_copy(module, rng, learns and not has_dropout(module)))

    for name, part in module.named_modules():
        if isinstance(part, nn.LayerNorm) and np.float32(part.eps) != LAYER_NORM_EPSILON:
            return f"eps of {name} is {part.eps}, in the kernels {float(LAYER_NORM_EPSILON):.0e}"
    try:
        with own_generators(), ThreadPoolExecutor(1) as thread:
            found = thread.submit(in_copy).result()
    except Exception as error:  # a module of the user's may do anything
        return f"{type(error).__name__} on generated rows: {error}"
    return None if found is None else f"torch and kernels differ on generated rows: {found}"


def static_difference(network: RogueNetwork) -> str | None:
    """Return what differs between torch and the static form of `network` in acting."""
    rng = np.random.default_rng(0)

    def compare(net: RogueNetwork) -> str | None:
        form = StaticForm(net)
        batch = generate(net.observation_space, net.settings, rng)
        prepared = Inputs(net.observation_space, net.settings).prepare(batch)

        def act(source: np.random.Generator | None) -> ActResult:
            return form.act(batch, source or rng, deterministic=source is None)

        if differing := _draws_difference(act, net, prepared, batch):
            return differing
        return _values_difference(form.value(batch), net, prepared)

    return compared(network, rng, compare)


def _draws_difference(
    act: Callable[[np.random.Generator | None], ActResult],
    net: RogueNetwork,
    prepared: Prepared,
    batch: EntityBatch,
) -> str | None:
    """Compare the most probable actions, then drawn ones: few of them may agree by chance."""
    for seed in (None, *range(8)):
        ours, theirs = (None if seed is None else np.random.default_rng(seed) for _ in range(2))
        with torch.no_grad():
            expected = net.draw(prepared, batch.actions, theirs)
        differing = _acted_difference(act(ours), expected, is_drawn=seed is not None)
        if differing is not None:
            return differing
    return None


def _acting(net: RogueNetwork, engine: FusedEngine, prepared: Prepared, batch: EntityBatch) -> str | None:
    weights = engine.read()

    def act(source: np.random.Generator | None) -> ActResult:
        return engine.network.act(prepared, batch.actions, weights, source)

    if differing := _draws_difference(act, net, prepared, batch):
        return differing
    return _values_difference(engine.network.values(prepared, weights), net, prepared)


def _values_difference(found: NDArray[np.float32], net: RogueNetwork, prepared: Prepared) -> str | None:
    with torch.no_grad():
        expected = net.estimate(prepared).numpy()
    return "the values" if _far(found, expected) else None


def _acted_difference(found: ActResult, expected: ActResult, is_drawn: bool) -> str | None:
    for name, chosen in expected.actions.items():
        if _far(found.log_probs[name].values, expected.log_probs[name].values):
            return f"the log-probabilities of action {name!r}"
        # Of choices that are equally probable, as of equal entities, rounding makes one the most probable.
        if (is_drawn or chosen.dtype.kind == "f") and _far(found.actions[name].values, chosen.values):
            return f"the choices of action {name!r}"
    return "the values" if _far(found.values, expected.values) else None


def _learning(
    net: RogueNetwork, engine: FusedEngine, prepared: Prepared, batch: EntityBatch,
    actions: Mapping[str, RaggedArray], rng: np.random.Generator,
) -> str | None:  # fmt: skip
    masks = batch.actions
    log_probs, entropies, values = engine.evaluate(prepared, masks, actions)
    expected = net.assess(prepared, masks, actions)
    outputs: list[tuple[str, Tensor, Tensor]] = [("the values", values, expected.values)]
    for name in net.action_heads.names:
        of_action = f"of action {name!r}"
        outputs.append((f"the log-probabilities {of_action}", log_probs[name], expected.log_probs[name]))
        outputs.append((f"the entropies {of_action}", entropies[name], expected.entropies[name]))
    for what, ours, theirs in outputs:
        if _far(ours.detach().numpy(), theirs.detach().numpy()):
            return what
    leaves = dict(net.named_parameters())
    size = sum(len(ours) for _, ours, _ in outputs)
    given = torch.from_numpy(rng.standard_normal(size).astype(np.float32))
    found, wanted = (  # of one number: for more, torch imports sympy, which takes half a second
        torch.autograd.grad(torch.cat(parts) @ given, list(leaves.values()), allow_unused=True)
        for parts in ([ours for _, ours, _ in outputs], [theirs for _, _, theirs in outputs])
    )
    return gradients_difference(leaves, found, wanted)


def gradients_difference(
    leaves: Mapping[str, Tensor], found: tuple[Tensor | None, ...], expected: tuple[Tensor | None, ...]
) -> str | None:
    """Return the parameter whose gradients differ most, if they do."""
    largest = max((float(g.abs().max()) for g in expected if g is not None and g.numel()), default=0.0)
    worst, name_of_worst = 0.0, None
    for name, ours, theirs in zip(leaves, found, expected, strict=True):
        a, b = (np.zeros(1) if g is None else g.detach().numpy() for g in (ours, theirs))
        scale = max(float(np.abs(b).max(initial=0.0)), 1e-2 * largest) + 1e-12
        error = float(np.abs(a - b).max(initial=0.0)) / scale
        if not error <= max(worst, _GRADIENTS):
            worst, name_of_worst = error, name
    return None if name_of_worst is None else f"the gradient of {name_of_worst}"


def _far(found: NDArray[Any], expected: NDArray[Any]) -> bool:
    if found.shape != expected.shape:
        return True
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    return not float(np.abs(found - expected).max(initial=0.0)) <= _OUTPUTS * scale


def _random_copy(module: _Network, rng: np.random.Generator, training: bool) -> _Network:
    """Return a copy on the CPU with random parameters and buffers, in this mode."""
    replaced: dict[int, Any] = {}  # tied parameters stay tied
    for part in module.modules():
        for parameter in part._parameters.values():
            if parameter is not None and id(parameter) not in replaced:
                replaced[id(parameter)] = _random_like(parameter, rng)
        for buffer in part._buffers.values():
            if buffer is not None and id(buffer) not in replaced:
                replaced[id(buffer)] = _statistic_like(buffer, isinstance(part, InputNorm), rng)
    copied = copy.deepcopy(module, replaced)
    for part in copied.modules():
        part.training = training
    return copied.cpu()


def _random_like(parameter: Tensor, rng: np.random.Generator) -> nn.Parameter:
    """Return normal numbers of a size that keeps activations near 1."""
    if not parameter.is_floating_point():
        return nn.Parameter(parameter.detach().cpu().clone(), requires_grad=False)
    fan_in = parameter.shape[-1] if parameter.ndim > 1 else 1
    numbers = torch.as_tensor(rng.standard_normal(tuple(parameter.shape)) / np.sqrt(max(fan_in, 1)))
    return nn.Parameter(numbers.to(parameter.dtype))


def _statistic_like(buffer: Tensor, shifted: bool, rng: np.random.Generator) -> Tensor:
    """Return a copy; of statistics (`shifted`) a little larger, so that none is 0 or 1."""
    changed = buffer.detach().cpu().clone()
    if shifted:
        changed += torch.as_tensor(rng.uniform(0.1, 0.6, tuple(changed.shape))).to(changed.dtype)
    return changed


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute with one thread: for so few rows more of them take longer."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def own_generators() -> Iterator[None]:
    """Restore the global generators of torch and NumPy at the end."""
    of_torch, of_numpy = torch.random.get_rng_state(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        torch.random.set_rng_state(of_torch)
        np.random.set_state(of_numpy)  # noqa: NPY002
