"""`StaticForm`: the computation of a RogueNet on arrays of fixed shapes.

Shape alphabet: B steps, N rows, R slots (see `static_tiles`), D width; the sizes of arrays are capacities.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....envs import EntityBatch
from ....ragged import RaggedArray
from ...inputs.prepare import Prepared
from ...policy import ActResult, Evaluation
from ...rogue_net.blocks import SelfAttention
from ...rogue_net.network import Encoder, RogueNetwork
from ..engine_limits import graphs_limit
from . import cuda
from . import static_attention as attention
from .capacity import TILES, Capacities, Capacity, Recent
from .captured_graphs import Graphs
from .packing import Field, Packing
from .staging import Staging
from .static_attention import Tiling
from .static_heads import StaticHead, static_head
from .static_tiles import Tiles

Precision = Literal["float32", "tf32"]

_T = TypeVar("_T")


class Plan:
    """One batch and its actions (None: to be sampled): its sizes, and how to fill the arrays."""

    def __init__(
        self, form: StaticForm, batch: EntityBatch, actions: Mapping[str, RaggedArray] | None = None
    ) -> None:
        """
        Raises:
            ValueError: see `RogueNet.evaluate`.
        """
        self.form, self.batch, self.actions = form, batch, actions
        self.prepared: Prepared = form.net.inputs.prepare(batch)
        self.tiles = Tiles(self.prepared.rows)
        self.sizes: dict[str, int] = {"steps": len(batch)}
        for name in form.net.inputs.features:
            values = self.prepared.features.get(name)
            self.sizes[f"type/{name}"] = 0 if values is None else len(values)
        for name, head in form.heads.items():
            chosen = None if actions is None else actions[name]
            for part, size in head.sizes(batch.actions[name], chosen).items():
                self.sizes[f"action/{name}/{part}"] = size
        self.sizes.update({f"{TILES}{width}": count for width, count in self.tiles.counts.items()})

    def write(self, capacity: Capacity, arrays: dict[str, NDArray[Any]]) -> None:
        """Fill the arrays of `StaticForm.fields`."""
        prepared, sizes = self.prepared, dict(capacity)
        steps, source = arrays["steps"], arrays["source"]
        steps[:] = sizes["steps"]
        slots = self.tiles.place(room_of(capacity), steps)
        inverse = arrays["inverse_lengths"]
        inverse[: len(self.batch)] = 1.0 / np.maximum(prepared.rows.lengths, 1)
        inverse[len(self.batch) :] = 0
        source[:] = sum(sizes[f"type/{name}"] for name in self.form.net.inputs.features)
        joined = place = 0
        for name in self.form.net.inputs.features:
            values = prepared.features.get(name)
            if values is None:
                continue
            count = len(values)
            array = arrays[f"features/{name}"]
            array[:count], array[count:] = values, 0
            destination = prepared.destination[joined : joined + count]
            source[slots[destination]] = np.arange(place, place + count)
            joined, place = joined + count, place + sizes[f"type/{name}"]
        for name, head in self.form.heads.items():
            chosen = None if self.actions is None else self.actions[name]
            part = _part(arrays, f"action/{name}/")
            head.write(part, prepared.rows, slots, self.batch.actions[name], chosen)


class StaticForm:
    """A `RogueNet` on fixed shapes, for batches without hidden entities.

    It refers to the network's parameters, which may change in place.

    Raises:
        ValueError: the network has no static form; `graphs_limit` names the reason.
    """

    def __init__(self, net: RogueNetwork, precision: Precision = "float32") -> None:
        limit = graphs_limit(net.settings, net.observation_space)
        if limit is not None:
            raise ValueError(f"engine 'graphs' cannot compute this RogueNet: {limit}")
        self.net = net
        self.precision: Precision = precision
        self.device = net.value_head.proj.weight.device
        self.heads: dict[str, StaticHead] = {
            n: static_head(net.action_heads[n]) for n in net.action_heads.names
        }
        #: All parameters and buffers, by module and name.
        self._tensors: list[Mapping[str, Tensor | None]] = [
            held for part in net.modules() for held in (part._parameters, part._buffers)
        ]
        self._capacities = Capacities()
        self._staging = Staging(self.device)
        self._packings = Recent[Packing]()
        self._shapes = Recent[list[torch.Size]]()  # of the values and the scores
        self._graphs = Graphs(self._scores, self.device, self.token)

    def token(self) -> Hashable:
        """Return a value that changes when parameters or buffers are in other memory."""
        held = (tensor for tensors in self._tensors for tensor in tensors.values() if tensor is not None)
        return tuple(tensor.data_ptr() for tensor in held)

    def fields(self, capacity: Capacity) -> dict[str, Field]:
        """Return the arrays of a batch, to act on or to evaluate."""
        sizes, room = dict(capacity), room_of(capacity)
        num_slots = sum(width * count for width, count in room.items())
        fields = {
            "source": Field((num_slots,), np.int64),
            "steps": Field((num_slots,), np.int64),
            "inverse_lengths": Field((sizes["steps"],), np.float32),
        }
        for name, features in self.net.inputs.features.items():
            if sizes[f"type/{name}"]:
                fields[f"features/{name}"] = Field((sizes[f"type/{name}"], len(features)), np.float32)
        for name, head in self.heads.items():
            own = head.fields(_part(sizes, f"action/{name}/"))
            fields.update({f"action/{name}/{part}": field for part, field in own.items()})
        return fields

    # -- computation: everything below here that gets a capacity and tensors can be captured ----------------

    def evaluate(self, capacity: Capacity, arrays: Mapping[str, Tensor]) -> Evaluation:
        """Return log-probabilities, entropies and values, with gradients; those of padding are finite."""
        x, values = self._encode(capacity, arrays)
        log_probs, entropies = {}, {}
        for name, head in self.heads.items():
            part = _part(arrays, f"action/{name}/")
            log_probs[name], entropies[name] = head.evaluate(x, part)
        return Evaluation(log_probs, entropies, values)

    def _scores(self, capacity: Capacity, block: Tensor) -> Tensor:
        """Return all heads' scores and the values, concatenated."""
        arrays = self._packing(capacity).tensors(block)
        with torch.no_grad():
            x, values = self._encode(capacity, arrays)
            parts = [values]
            for name, head in self.heads.items():
                parts += head.scores(x, _part(arrays, f"action/{name}/"))
            self._shapes[capacity] = [part.shape for part in parts]
            return torch.cat([part.reshape(-1).float() for part in parts])

    def _encode(self, capacity: Capacity, arrays: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the slots after the policy's blocks (R, D), and the values (B,)."""
        net, room = self.net, room_of(capacity)
        x = self._run(net.policy_net, room, arrays)
        seen = x if net.value_net is None else self._run(net.value_net, room, arrays)
        scores = torch.mv(seen, net.value_head.proj.weight[0])
        inverse = arrays["inverse_lengths"].to(scores.dtype)
        sums = scores.new_zeros(len(inverse) + 1).index_add(0, arrays["steps"], scores)
        return x, sums[:-1] * inverse + net.value_head.proj.bias

    def _run(self, encoder: Encoder, room: dict[int, int], arrays: Mapping[str, Tensor]) -> Tensor:
        like = self.net.value_head.proj.weight
        layout = Tiling(room, arrays["steps"])
        parts = [like.new_zeros(1, encoder.embedding.d_model)]
        for name, features in reversed(self.net.inputs.features.items()):
            values = arrays.get(f"features/{name}")
            if values is not None:
                values = values.to(like.dtype)
                known = self.net.normalization[name](values) if features else values
                parts.insert(0, encoder.embedding.types[name](known))
        x = torch.cat(parts).index_select(0, arrays["source"])
        for block in encoder.backbone.blocks:
            x = x + self._attend(block.attn, block.ln1(x), layout)  # type: ignore[operator, arg-type]
            x = x + block.mlp(block.ln2(x))  # type: ignore[operator]
        return x

    def _attend(self, module: SelfAttention, x: Tensor, layout: Tiling) -> Tensor:
        y: Tensor = module.proj(attention.attend(module.qkv(x), layout, module.n_head))
        return y

    # -- acting ---------------------------------------------------------------------------------------------

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        """Choose actions like `RogueNet.act`; one transfer each way, actions are drawn on the host."""
        values, scores = self._answers(batch)
        source = None if deterministic else rng
        draws = {
            name: head.choose(scores[name], batch.actions[name], source) for name, head in self.heads.items()
        }
        return ActResult.from_draws(draws, batch.actions, values)

    def value(self, batch: EntityBatch) -> NDArray[np.float32]:
        """Return the values (B,), like `RogueNet.value`."""
        return self._answers(batch)[0]

    def _answers(self, batch: EntityBatch) -> tuple[NDArray[np.float32], dict[str, list[Tensor]]]:
        """Return the values (B,) and each head's scores with their padding, on the host."""
        plan = Plan(self, batch)
        capacity = self._capacities.fit(plan.sizes)
        packing = self._packing(capacity)
        with (
            cuda.matrix_precision(self.precision),
            self._staging.sent(packing, lambda arrays: plan.write(capacity, arrays)) as block,
        ):
            flat = self._graphs.run(capacity, block)
        numbers = flat.cpu()
        shapes = self._shapes[capacity]
        parts = iter(numbers.split([math.prod(shape) for shape in shapes]))
        tensors = [next(parts).view(shape) for shape in shapes]
        scores, place = {}, 1
        for name, head in self.heads.items():
            scores[name] = tensors[place : place + head.num_scores]
            place += head.num_scores
        return tensors[0][: len(batch)].numpy().copy(), scores

    def _packing(self, capacity: Capacity) -> Packing:
        if capacity not in self._packings:
            self._packings[capacity] = Packing(self.fields(capacity))
        return self._packings[capacity]


def room_of(capacity: Capacity) -> dict[int, int]:
    """Return the number of tiles of each width."""
    return {int(n.removeprefix(TILES)): count for n, count in capacity if n.startswith(TILES)}


def _part(mapping: Mapping[str, _T], prefix: str) -> dict[str, _T]:
    """Return the items whose names have this prefix, without it."""
    return {n.removeprefix(prefix): value for n, value in mapping.items() if n.startswith(prefix)}
