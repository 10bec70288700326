"""Nodes of a RogueNet for one step: what `rogue_net.network` computes, read beside it from top to bottom.

Shape alphabet: N rows (entities of the step, and the row of the step as a whole), D width, H heads, A actors,
E actees, C choices, K numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...envs import ActionSpace, EntitySpace
from ..inputs.actors import FORBIDDEN
from ..inputs.prepare import Inputs
from ..kernels.embedding_kernels import CLIP
from ..kernels.tiles.tile_kernels import LAYER_NORM_EPSILON
from ..rogue_net.config import RogueNetConfig
from .graph import Graph, Value
from .inputs import Observed, observe, prepare
from .relative_position import Pairs, PlaceValues, pairs_of, places_of
from .weights import ModuleWeights


class Step(NamedTuple):
    """The rows of a step, and which of them the policy sees."""

    features: dict[str, Value]  # by type (n, F), before normalization
    kept: Value | None  # indices of the visible rows; None: all are
    row_of_entity: Value | None  # by entity, its place among the visible rows; None: the same


def add_network(graph: Graph, space: EntitySpace, settings: RogueNetConfig, weights: ModuleWeights) -> None:
    """Add all nodes, from the arrays of an observation to logits and value."""
    inputs = Inputs(space, settings)
    observed = observe(graph, space)
    step = _step(graph, prepare(graph, inputs, settings, observed), observed)
    policy = EncoderNodes(graph, settings, inputs, weights, "policy_net")
    embedded = policy.embed(step)
    x = policy.encode(embedded, step, step.kept)
    for name, action in space.actions.items():
        _add_head(graph, name, action, x, step, observed.actions[name], weights)
    everything = x
    if settings.separate_value_net:
        critic = EncoderNodes(graph, settings.for_value(), inputs, weights, "value_net")
        everything = critic.encode(critic.embed(step), step, None)
    elif step.kept is not None:  # the value function sees hidden entities
        everything = policy.encode(embedded, step, None)
    graph.output("value", _value(graph, everything, weights.part("value_head.proj")), np.float32, (1,))


def _step(graph: Graph, features: dict[str, Value], observed: Observed) -> Step:
    if not observed.visible:
        return Step(features, None, None)
    always = graph.constant(np.ones(1, np.int8))  # the row of the step as a whole
    flags = [observed.visible.get(name, always) for name in features]
    visible = graph.cast(graph.join(flags, 0), np.int64)
    kept = graph.add("Reshape", graph.add("NonZero", visible), [-1])
    before = graph.add("CumSum", visible, np.int64(0), exclusive=1)
    return Step(features, kept, before)


class EncoderNodes:
    """The nodes of an `Encoder` of the network: embedding and blocks."""

    def __init__(
        self, graph: Graph, settings: RogueNetConfig, inputs: Inputs, weights: ModuleWeights, place: str
    ) -> None:
        self.graph = graph
        self.settings = settings
        self.features = inputs.features
        self.norms = weights
        self.weights = weights.part(place)

    def embed(self, step: Step) -> Value:
        """Raw features to embedded rows (N, D)."""
        rows = [self._embed(name, values) for name, values in step.features.items()]
        if not rows:
            return self.graph.constant(np.zeros((0, self.settings.d_model), np.float32))
        return self.graph.join(rows, 0)

    def _embed(self, name: str, values: Value) -> Value:
        """The rows of one type: LayerNorm(ReLU(W x + b)) of normalized features, or one learned vector."""
        own = self.weights.named("embedding.types", name)
        if not self.features[name]:
            return self.graph.expand(own["vector"], values, [self.settings.d_model])
        values = normalized(self.graph, values, self.norms.named("normalization", name))
        hidden = self.graph.add("Relu", linear(self.graph, values, own.part("linear")))
        return layer_norm(self.graph, hidden, own.part("norm"))

    def encode(self, x: Value, step: Step, kept: Value | None) -> Value:
        """Run the blocks over embedded rows (N, D), of which `kept` stay (None: all)."""
        places: PlaceValues | None = None
        config = self.settings.relative_position
        if config is not None:
            places = places_of(self.graph, config, self.features, step.features)
        if kept is not None:
            x = self.graph.add("Gather", x, kept, axis=0)
            places = None if places is None else places.select(self.graph, kept)
        pairs = None
        encoding = self.weights.part("backbone.relpos_encoding")
        if config is not None and places is not None:
            pairs = pairs_of(self.graph, config, places, encoding)
        for layer in range(self.settings.n_layer):
            x = self._block(x, self.weights.part(f"backbone.blocks.{layer}"), pairs, encoding)
        return x

    def _block(self, x: Value, weights: ModuleWeights, pairs: Pairs | None, encoding: ModuleWeights) -> Value:
        """x + attention(norm(x)), then x + MLP(norm(x))."""
        graph = self.graph
        seen = layer_norm(graph, x, weights.part("ln1"))
        own = weights.part("attn")
        mixed = self._pool(seen, own) if self.settings.pooling else self._attend(seen, own, pairs, encoding)
        x = graph.add("Add", x, mixed)
        hidden = linear(graph, layer_norm(graph, x, weights.part("ln2")), weights.part("mlp.0"))
        return graph.add("Add", x, linear(graph, gelu(graph, hidden), weights.part("mlp.2")))

    def _attend(
        self, x: Value, weights: ModuleWeights, pairs: Pairs | None, encoding: ModuleWeights
    ) -> Value:
        """Return what multi-head attention among the rows gives (N, D)."""
        graph, d_model, n_head = self.graph, self.settings.d_model, self.settings.n_head
        d_head = d_model // n_head
        by_head = [0, n_head, d_head]
        q, k, v = (
            graph.add("Reshape", part, by_head)
            for part in graph.split(linear(graph, x, weights.part("qkv")), [d_model] * 3, 1)
        )  # each (N, H, D / H)
        by_row = {"perm": [1, 0, 2]}  # heads and rows change places
        scores = graph.add(
            "MatMul", graph.add("Transpose", q, **by_row), graph.add("Transpose", k, perm=[1, 2, 0])
        )  # (H, N, N)
        if pairs is not None:
            of_pairs = graph.add("MatMul", q, graph.add("Transpose", pairs.keys, perm=[0, 2, 1]))  # (N, H, N)
            scores = graph.add("Add", scores, graph.add("Transpose", of_pairs, **by_row))
        shares = graph.add("Softmax", graph.add("Mul", scores, np.float32(1 / math.sqrt(d_head))), axis=-1)
        y = graph.add("MatMul", shares, graph.add("Transpose", v, **by_row))  # (H, N, D / H)
        y = graph.add("Transpose", y, **by_row)
        if pairs is not None:
            values = pairs.gated(graph, self._gate(x, encoding))
            y = graph.add("Add", y, graph.add("MatMul", graph.add("Transpose", shares, **by_row), values))
        y = graph.add("Reshape", y, [0, d_model])
        return linear(graph, y, weights.part("proj"))

    def _gate(self, x: Value, encoding: ModuleWeights) -> Value | None:
        """Factors (N, D / H) of the relative values, from the rows that are looked at."""
        config = self.settings.relative_position
        assert config is not None
        if config.value_gate is None:
            return None
        gate = linear(self.graph, x, encoding.part("value_gate_proj"))
        match config.value_gate:
            case "relu":
                return self.graph.add("Relu", gate)
            case "gelu":
                return gelu(self.graph, gate)
            case "sigmoid":
                return self.graph.add("Sigmoid", gate)
        return gate

    def _pool(self, x: Value, weights: ModuleWeights) -> Value:
        """Return for every row the same mean and/or maximum over the rows (N, D)."""
        graph, d_model = self.graph, self.settings.d_model
        x = linear(graph, x, weights.part("prepool"))
        pooled = []
        if self.settings.pooling in ("mean", "meanmax"):
            pooled.append(graph.add("Div", graph.reduce("Sum", x, 0), _at_least_1(graph, x)))
        if self.settings.pooling in ("max", "meanmax"):  # one row more: no maximum of nothing
            lowest = np.full((1, d_model), np.finfo(np.float32).min)
            pooled.append(graph.reduce("Max", graph.add("Concat", x, lowest, axis=0), 0))
        return graph.expand(linear(graph, graph.join(pooled, 1), weights.part("proj")), x, [d_model])


def _at_least_1(graph: Graph, rows: Value) -> Value:
    """Return the number of rows as a float, 1 where there is none."""
    return graph.add("Max", graph.cast(graph.length(rows), np.float32), np.float32(1))


# -- heads ---------------------------------------------------------------------------------------------------


def _add_head(
    graph: Graph,
    name: str,
    action: ActionSpace,
    x: Value,
    step: Step,
    masks: dict[str, Value],
    weights: ModuleWeights,
) -> None:
    """Add an action's output: logits, of masked choices -1e9; or the mean and log_std of raw numbers."""
    own = weights.named("action_heads", name)
    place, actors = f"actions/{name}", 1 if action.is_global else f"{name}_actors"
    if action.selects_entities:
        queries = linear(graph, _rows(graph, x, step, masks["actors"]), own.part("query_proj"))
        keys = linear(graph, _rows(graph, x, step, masks["actees"]), own.part("key_proj"))
        logits = graph.add("MatMul", queries, graph.add("Transpose", keys, perm=[1, 0]))
        logits = graph.add("Mul", logits, np.float32(1 / math.sqrt(own["query_proj.bias"].size)))
        mask = graph.add("Reshape", masks["mask"], graph.add("Shape", logits), allowzero=1)
        graph.output(f"{place}/logits", _masked(graph, logits, mask), np.float32, (actors, f"{name}_actees"))
        return
    rows = graph.add("Gather", x, [-1]) if action.is_global else _rows(graph, x, step, masks["actors"])
    numbers, width = linear(graph, rows, own.part("proj")), own["proj.bias"].size
    if action.is_continuous:
        graph.output(f"{place}/mean", numbers, np.float32, (actors, width))
        graph.output(f"{place}/log_std", graph.constant(own["log_std"]), np.float32, (width,))
    else:
        logits = _masked(graph, numbers, masks["mask"])
        graph.output(f"{place}/logits", logits, np.float32, (f"{name}_actors", width))


def _rows(graph: Graph, x: Value, step: Step, entities: Value) -> Value:
    """Return the rows of entities, given by their indices."""
    if step.row_of_entity is not None:
        entities = graph.add("Gather", step.row_of_entity, entities, axis=0)
    return graph.add("Gather", x, entities, axis=0)


def _masked(graph: Graph, logits: Value, mask: Value) -> Value:
    return graph.add("Where", graph.cast(mask, np.bool_), logits, np.float32(FORBIDDEN))


def _value(graph: Graph, x: Value, weights: ModuleWeights) -> Value:
    """A linear map of the mean of the rows; without rows the bias."""
    scores = graph.add("MatMul", x, weights["weight"][0])  # (N,)
    mean = graph.add("Div", graph.reduce("Sum", scores, 0), _at_least_1(graph, x))
    return graph.add("Add", mean, weights["bias"])


# -- layers --------------------------------------------------------------------------------------------------


def linear(graph: Graph, x: Value, weights: ModuleWeights) -> Value:
    """W x + b of each row."""
    return graph.add("Gemm", x, weights["weight"], weights["bias"], transB=1)


def layer_norm(graph: Graph, x: Value, weights: ModuleWeights) -> Value:
    """Layer norm of each row."""
    epsilon = float(LAYER_NORM_EPSILON)
    return graph.add("LayerNormalization", x, weights["weight"], weights["bias"], epsilon=epsilon)


def gelu(graph: Graph, x: Value) -> Value:
    """x (1 + erf(x / √2)) / 2."""
    erf = graph.add("Erf", graph.add("Mul", x, np.float32(math.sqrt(0.5))))
    return graph.add("Mul", graph.add("Mul", x, graph.add("Add", erf, np.float32(1))), np.float32(0.5))


def normalized(graph: Graph, x: Value, norm: ModuleWeights) -> Value:
    """clip((x - mean) / std, ±5) per feature."""
    shift, scale = norm.shift_and_scale()
    x = graph.add("Mul", graph.add("Sub", x, shift), scale)
    return graph.add("Clip", x, np.float32(-CLIP), np.float32(CLIP))
