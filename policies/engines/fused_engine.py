"""The fused engine under torch: evaluation as one autograd function of the module's parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...envs import ActionMask
from ...ragged import RaggedArray
from ..derivatives import first_derivatives_only
from ..inputs.prepare import Prepared
from ..kernels.fused_encoder import EncoderRun, Floats, FusedEncoder
from ..kernels.fused_network import FusedNetwork, Weights
from ..kernels.gather_kernels import gather_floats
from ..kernels.parallel import over_sequences, row_shares
from ..kernels.parameter_layout import Layout
from ..rogue_net.config import RogueNetConfig
from ..rogue_net.names import module_key
from ..rogue_net.network import RogueNetwork


class Parameters:
    """The tensors of a module that a layout names, in its order, without a search at every call."""

    def __init__(self, module: nn.Module, layout: Layout, places: Mapping[str, str] | None = None) -> None:
        """`places`: where the module has what the layout has elsewhere."""
        self.layout = layout
        self._owners: list[tuple[dict[str, Any], str]] = []
        for entry in layout.entries:
            place = (places or {}).get(entry.place, entry.place)
            parts = [place] if entry.name is None else [place, module_key(entry.name)]
            *path, tensor = ".".join([*parts, entry.tensor]).split(".")
            owner = module.get_submodule(".".join(path))
            self._owners.append((owner._buffers if tensor in owner._buffers else owner._parameters, tensor))
        self._sizes = np.array([entry.size for entry in layout.entries])
        self._plain: list[int] = []  # where tensors were that kernels can read
        self._addresses = np.zeros(0, np.int64)

    def tensors(self) -> list[Tensor]:
        # Straight from the modules' dicts: attribute access on a module costs a microsecond.
        return [owner[name] for owner, name in self._owners]

    def flat(self, tensors: list[Tensor]) -> Floats:
        """A copy of all numbers in one array, which kernels read and backward keeps."""
        w = np.zeros(self.layout.room, np.float32)
        addresses = [tensor.data_ptr() for tensor in tensors if tensor.is_contiguous()]
        if addresses != self._plain:  # asking forty tensors what they are takes as long as a step's kernels
            if not all(t.is_contiguous() and t.dtype is torch.float32 and t.is_cpu for t in tensors):
                tensors = [tensor.detach().float().cpu().contiguous() for tensor in tensors]
                gather_floats(np.array([tensor.data_ptr() for tensor in tensors]), self._sizes, w)
                return w
            self._plain, self._addresses = addresses, np.array(addresses)
        gather_floats(self._addresses, self._sizes, w)
        return w

    def shaped(self, g: Floats, learns: list[bool]) -> list[Tensor | None]:
        """The gradients in an array like `flat` gives, by parameter; None where it does not learn."""
        return [
            torch.from_numpy(g[entry.start : entry.start + entry.size]).view(entry.shape) if wanted else None
            for entry, wanted in zip(self.layout.entries, learns, strict=True)
        ]


class FusedEngine:
    """Acts and evaluates for a `RogueNet`."""

    def __init__(self, net: RogueNetwork) -> None:
        self.network = FusedNetwork(net.inputs.features, net.action_space, net.settings)
        self.parameters = Parameters(net, self.network.layout)
        self.gradients = Gradients(self.parameters)
        self._holding = 0
        self._held: Weights | None = None

    def weights(self) -> Weights:
        """The parameters as they are now; within `hold`, as they were when this was first asked."""
        if self._held is not None:
            return self._held
        weights = self.read()
        if self._holding:
            self._held = weights
        return weights

    def read(self) -> Weights:
        """Return the parameters as they are now."""
        return self.network.weights(self.parameters.flat(self.parameters.tensors()))

    @property
    def holds_weights(self) -> bool:
        """True while the parameters were read and must not change; see `hold`."""
        return self._held is not None

    def read_again(self) -> None:
        """Something has changed the parameters."""
        self._held = None

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Inside, parameters are read once, and not at each call: that takes longer than a step's kernels."""
        self._holding += 1
        try:
            yield
        finally:
            self._holding -= 1
            self._held = None

    def evaluate(
        self, prepared: Prepared, masks: Mapping[str, ActionMask], actions: Mapping[str, RaggedArray]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor], Tensor]:
        """Log-probabilities and entropies of each action, and the values, with gradients."""
        if torch.is_grad_enabled():
            outputs = _Evaluate.apply(self, prepared, masks, actions, *self.parameters.tensors())
        else:
            log_probs, entropies, encoded = self.network.evaluate(
                prepared, masks, actions, self.weights(), learns=False
            )
            arrays = (*log_probs.values(), *entropies.values(), encoded.values)
            outputs = tuple(torch.from_numpy(array) for array in arrays)
        names = list(self.network.heads)
        count = len(names)
        by_name = dict(zip(names, outputs[:count], strict=True))
        return by_name, dict(zip(names, outputs[count : 2 * count], strict=True)), outputs[-1]

    def has_parameter_hooks(self) -> bool:
        """Return whether a parameter has hooks, which only torch's autograd runs."""
        tensors = self.parameters.tensors()
        return any(t._backward_hooks or t._post_accumulate_grad_hooks for t in tensors)

    def gradients_by_tensor(self, g: Floats) -> dict[Tensor, Tensor]:
        """Return the gradients (P,) by parameter; those of a tensor in several places are added."""
        tensors, result = self.parameters.tensors(), dict[Tensor, Tensor]()
        for tensor, part in zip(tensors, self.parameters.shaped(g, [True] * len(tensors)), strict=True):
            assert part is not None
            result[tensor] = result[tensor] + part if tensor in result else part
        return result

    def add_gradients(self, g: Floats, prepared: Prepared) -> None:
        """Add the gradients (P,) of all parameters, in the order of the layout, to their `grad`."""
        network = self.network
        learns = [network.learns(entry, prepared, network.heads, True) for entry in network.layout.entries]
        self.gradients.add(self.parameters.tensors(), g, learns)


class Gradients:
    """Puts the gradients of a layout's parameters where optimizers look for them."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        # Views of one tensor, which they still are in a deep copy. Made once: forty of them take longer than
        # the optimizer's step.
        self._flat = torch.zeros(parameters.layout.room, device="cpu")
        self._parts = [
            self._flat[entry.start : entry.start + entry.size].view(entry.shape)
            for entry in parameters.layout.entries
        ]

    def add(self, tensors: list[Tensor], g: Floats, learns: list[bool]) -> None:
        """Add an array like `Parameters.flat` gives to the `grad` of those `tensors` that learn."""
        parts: Sequence[Tensor | None] = self._parts
        if all(tensor.grad is None for tensor in tensors):
            self._flat.numpy()[:] = g
        else:
            parts = self._parameters.shaped(g, learns)
        for tensor, part, wanted in zip(tensors, parts, learns, strict=True):
            if part is not None and wanted and tensor.requires_grad:
                tensor.grad = part if tensor.grad is None else tensor.grad.add_(part)


class _Evaluate(torch.autograd.Function):
    """The tensors of a layout to log-probabilities by action, entropies by action, and values."""

    @staticmethod
    def forward(
        ctx: Any,
        engine: FusedEngine,
        prepared: Prepared,
        masks: Mapping[str, ActionMask],
        actions: Mapping[str, RaggedArray],
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        weights = engine.network.weights(engine.parameters.flat(list(tensors)))
        log_probs, entropies, encoded = engine.network.evaluate(prepared, masks, actions, weights)
        ctx.engine, ctx.encoded, ctx.weights = engine, encoded, weights
        ctx.set_materialize_grads(False)  # heads that the loss leaves out get no gradients
        arrays = (*log_probs.values(), *entropies.values(), encoded.values)
        return tuple(torch.from_numpy(array) for array in arrays)

    @staticmethod
    @first_derivatives_only("the fused engine")
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        network, encoded = ctx.engine.network, ctx.encoded
        arrays = [None if d is None else d.contiguous().numpy() for d in given]
        d_log_probs, d_entropies, count = {}, {}, len(network.heads)
        for name, *pair in zip(network.heads, arrays[:count], arrays[count:-1], strict=True):
            if any(d is not None for d in pair):
                nothing = np.zeros(encoded.tasks[name].num_actors, np.float32)
                d_log_probs[name], d_entropies[name] = (nothing if d is None else d for d in pair)
        d_values = np.zeros_like(encoded.values) if arrays[-1] is None else arrays[-1]
        g = network.gradients(encoded, ctx.weights, d_log_probs, d_entropies, d_values)
        learns = [
            network.learns(entry, encoded.prepared, d_log_probs, arrays[-1] is not None)
            for entry in network.layout.entries
        ]
        return None, None, None, None, *ctx.engine.parameters.shaped(g, learns)


class FusedRows:
    """Embedding and blocks alone, for a network whose heads are torch's."""

    def __init__(
        self, module: nn.Module, normalization: nn.Module, features: Mapping[str, tuple[str, ...]],
        settings: RogueNetConfig,
    ) -> None:  # fmt: skip
        """`module` has parts "embedding" and "backbone"."""
        layout = Layout()
        self.encoder = FusedEncoder(layout, "", features, settings)
        both = nn.ModuleDict({"module": module, "normalization": normalization})
        places = {entry.place: f"module.{entry.place}" for entry in layout.entries}
        places["normalization"] = "normalization"
        self.parameters = Parameters(both, layout, places)

    def __call__(self, prepared: Prepared) -> Tensor:
        """Raw features to rows (N, D) float32 after the blocks."""
        if torch.is_grad_enabled():
            rows: Tensor = _Encode.apply(self, prepared, *self.parameters.tensors())
            return rows
        return self.shaped(self.run(prepared, self.parameters.tensors(), learns=False))

    def run(self, prepared: Prepared, tensors: list[Tensor], learns: bool) -> EncoderRun:
        """Compute the rows; `learns`: keep what backward needs."""
        flat = self.parameters.flat(tensors)
        run = self.encoder.start(prepared, prepared.rows, flat, self.encoder.fold(flat), learns)

        def compute(share: int, first: int, last: int) -> None:
            run.embed(first, last)
            run.blocks(first, last)

        over_sequences(prepared.rows.offsets, compute)
        return run

    def shaped(self, run: EncoderRun) -> Tensor:
        return torch.from_numpy(run.out).view(-1, self.encoder.d)


class _Encode(torch.autograd.Function):
    """The tensors of a layout to rows (N, D)."""

    @staticmethod
    def forward(ctx: Any, fused: FusedRows, prepared: Prepared, *tensors: Tensor) -> Tensor:
        ctx.fused, ctx.run = fused, fused.run(prepared, list(tensors), learns=True)
        return fused.shaped(ctx.run)

    @staticmethod
    @first_derivatives_only("the fused engine")
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        run: EncoderRun = ctx.run
        layout, rows = ctx.fused.parameters.layout, run.rows
        parts = np.zeros((row_shares(rows.num_rows), layout.room), np.float32)
        given, d_x = d_out.contiguous().numpy().reshape(-1), np.empty_like(run.embedded)

        def compute(share: int, first: int, last: int) -> None:
            run.blocks_backward(given, d_x, parts[share], first, last)
            run.embed_backward(d_x, parts[share], first, last)

        over_sequences(rows.offsets, compute)
        g = parts.sum(0)
        run.encoder.unfold(run.w, g)
        features = run.prepared.features
        learns = [
            entry.place != "normalization" and (entry.name is None or entry.name in features)
            for entry in layout.entries
        ]
        return None, None, *ctx.fused.parameters.shaped(g, learns)
