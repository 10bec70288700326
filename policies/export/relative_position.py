"""Nodes of relative position encodings: what `rogue_net.relative_position` computes.

Shape alphabet: N rows, P positions, d width of an attention head; pairs are (looking, looked at).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from ..inputs.prepare import GLOBAL
from ..kernels.embedding_kernels import CLIP
from ..rogue_net.config import RelativePosition
from .graph import Graph, Value
from .weights import ModuleWeights

#: A bucket of each pair (N, N) int64 and its weight; None: 1.
Bucket: TypeAlias = tuple[Value, Value | None]


class PlaceValues(NamedTuple):
    """Positions of the rows."""

    position: Value  # (N, P)
    heading: Value  # (N,) radians
    kind: Value  # (N,) int64, index of the type
    known: Value  # (N,) bool: takes part in the encoding

    def select(self, graph: Graph, rows: Value) -> PlaceValues:
        """Return the places of some rows."""
        return PlaceValues(*(graph.add("Gather", part, rows, axis=0) for part in self))


class Pairs(NamedTuple):
    """Relative keys and values (N, N, d)."""

    keys: Value
    values: Value

    def gated(self, graph: Graph, gate: Value | None) -> Value:
        """Return the values times the factors (N, d) of the rows that are looked at."""
        return self.values if gate is None else graph.add("Mul", self.values, gate)


def places_of(
    graph: Graph,
    config: RelativePosition,
    names: Mapping[str, tuple[str, ...]],
    features: Mapping[str, Value],
) -> PlaceValues:
    """Return where each row is, from raw (translated) features."""
    positions, headings, kinds, known = [], [], [], []
    heading = config.heading
    for kind, (name, values) in enumerate(features.items()):
        own = names[name]
        knows = name not in (*config.exclude, GLOBAL) and all(f in own for f in config.position)
        if knows:
            positions.append(graph.columns(values, [own.index(f) for f in config.position]))
        else:
            zeros = np.zeros((1, len(config.position)), np.float32)
            positions.append(graph.expand(zeros, values, [len(config.position)]))
        if knows and heading and all(f in own for f in heading):
            columns = [graph.columns(values, [own.index(f)]) for f in heading]  # each (n, 1)
            angle = columns[0] if len(columns) == 1 else _atan2(graph, columns[1], columns[0])
            headings.append(graph.add("Reshape", angle, [-1]))
        else:
            headings.append(graph.expand(np.zeros(1, np.float32), values, []))
        kinds.append(graph.expand(np.array([kind], np.int64), values, []))
        known.append(graph.expand(np.array([knows]), values, []))
    return PlaceValues(*(graph.join(parts, 0) for parts in (positions, headings, kinds, known)))


def pairs_of(graph: Graph, config: RelativePosition, places: PlaceValues, weights: ModuleWeights) -> Pairs:
    """Return keys and values of all pairs of rows."""
    looking, seen = [1], [0]  # the axes to add where a row looks or is looked at
    offsets = graph.add(
        "Sub",
        graph.add("Unsqueeze", places.position, looking),
        graph.add("Unsqueeze", places.position, seen),
    )  # (N, N, P)
    kind = graph.add("Unsqueeze", places.kind, seen)  # (1, N)
    keys, values = [], []
    for bucket, weight in _buckets(graph, config, offsets, places.heading):
        of_kind = bucket
        if config.per_entity_values:
            start = graph.add("Mul", kind, np.int64(config.num_buckets))
            of_kind = graph.add("Add", bucket, start)
        keys.append(_weighted(graph, graph.add("Gather", weights["keys"], bucket), weight))
        values.append(_weighted(graph, graph.add("Gather", weights["values"], of_kind), weight))
    if config.key_projection or config.value_projection:
        shift, scale = weights.part("offset_norm").shift_and_scale()
        with_length = graph.join([offsets, graph.norm(offsets, 2)], 2)
        seen_at = graph.add("Mul", graph.add("Sub", with_length, shift), scale)
        seen_at = graph.add("Clip", seen_at, np.float32(-CLIP), np.float32(CLIP))
        for parts, name in ((keys, "key"), (values, "value")):
            if f"{name}_weight" in weights:
                parts.append(_projected(graph, config, seen_at, places.kind, weights, name))
    both = graph.add(
        "And", graph.add("Unsqueeze", places.known, looking), graph.add("Unsqueeze", places.known, seen)
    )
    both = graph.add("Unsqueeze", both, [2])
    return Pairs(*(graph.add("Where", both, _sum(graph, p), np.float32(0)) for p in (keys, values)))


def _weighted(graph: Graph, value: Value, weight: Value | None) -> Value:
    if weight is None:
        return value
    return graph.add("Mul", value, graph.add("Unsqueeze", weight, [2]))


def _sum(graph: Graph, parts: list[Value]) -> Value:
    total = parts[0]
    for part in parts[1:]:
        total = graph.add("Add", total, part)
    return total


def _projected(
    graph: Graph, config: RelativePosition, seen_at: Value, kind: Value, weights: ModuleWeights, name: str
) -> Value:
    """Return the linear map of offsets and distances (N, N, P + 1), one for all types or one for each."""
    weight, bias = weights[f"{name}_weight"], weights[f"{name}_bias"]
    if not config.per_entity_projections:
        return graph.add("Add", graph.add("MatMul", seen_at, weight[0]), bias[0])
    of_kind = graph.add("Gather", weight, kind)  # (N, P + 1, d)
    swapped = {"perm": [1, 0, 2]}  # looking and looked at
    product = graph.add("MatMul", graph.add("Transpose", seen_at, **swapped), of_kind)
    return graph.add("Add", graph.add("Transpose", product, **swapped), graph.add("Gather", bias, kind))


# -- buckets -------------------------------------------------------------------------------------------------


def _buckets(graph: Graph, config: RelativePosition, offsets: Value, heading: Value) -> list[Bucket]:
    """Return the bucket of each pair, or several with weights that sum to 1."""
    if not (config.radial or config.distance):
        return [(_grid(graph, config, offsets), None)]
    if not config.distance:
        return _angle(graph, config, offsets, heading)
    distances = _distance(graph, config, offsets)
    if not config.radial:
        return distances
    buckets: list[Bucket] = []
    for distance, distance_weight in distances:
        ring = graph.add("Mul", distance, np.int64(config.extent[0]))
        for angle, angle_weight in _angle(graph, config, offsets, heading):
            both = None
            if angle_weight is not None and distance_weight is not None:
                both = graph.add("Mul", angle_weight, distance_weight)
            buckets.append((graph.add("Add", angle, ring), both))
    return buckets


def _grid(graph: Graph, config: RelativePosition, offsets: Value) -> Value:
    extents = np.array(config.extent, np.float32)
    scaled = graph.add("Div", offsets, np.float32(config.scale))
    clamped = graph.add("Max", graph.add("Min", scaled, extents), -extents)
    cells = graph.cast(graph.add("Add", graph.add("Round", clamped), extents), np.int64)  # (N, N, P)
    strides = np.cumprod([1, *(2 * extent + 1 for extent in config.extent[:-1])])
    return graph.add("Squeeze", graph.reduce("Sum", graph.add("Mul", cells, strides), 2), [2])


def _component(graph: Graph, offsets: Value, axis: int) -> Value:
    return graph.add("Squeeze", graph.columns(offsets, [axis]), [2])


def _angle(graph: Graph, config: RelativePosition, offsets: Value, heading: Value) -> list[Bucket]:
    number = np.int64(config.extent[0])
    angle = _atan2(graph, _component(graph, offsets, 1), _component(graph, offsets, 0))
    angle = graph.add("Sub", angle, graph.add("Unsqueeze", heading, [1]))
    turn = graph.add("Div", angle, np.float32(2 * math.pi))
    turn = graph.add("Mul", graph.add("Sub", turn, graph.add("Floor", turn)), np.float32(number))
    low = graph.add("Mod", graph.cast(turn, np.int64), number)
    if not config.interpolate:
        return [(low, None)]
    part = graph.add("Sub", turn, graph.add("Floor", turn))
    following = graph.add("Mod", graph.add("Add", low, np.int64(1)), number)
    return [(low, graph.add("Sub", np.float32(1), part)), (following, part)]


def _distance(graph: Graph, config: RelativePosition, offsets: Value) -> list[Bucket]:
    last = config.extent[-1] - 1
    length = graph.add("Squeeze", graph.norm(offsets, 2), [2])
    distance = graph.add("Min", graph.add("Div", length, np.float32(config.scale)), np.float32(last))
    low = graph.cast(distance, np.int64)
    if not config.interpolate:
        return [(low, None)]
    part = graph.add("Sub", distance, graph.cast(low, np.float32))
    following = graph.add("Min", graph.add("Add", low, np.int64(1)), np.int64(last))
    return [(low, graph.add("Sub", np.float32(1), part)), (following, part)]


def _atan2(graph: Graph, y: Value, x: Value) -> Value:
    """Return the angle of (x, y), for which ONNX has no operator.

    In float64, so that positions on a grid fall into the same buckets as in torch.
    """
    y, x = graph.cast(y, np.float64), graph.cast(x, np.float64)
    zero = np.float64(0)
    upright = graph.add("Equal", x, zero)
    ratio = graph.add("Div", y, graph.add("Where", upright, np.float64(1), x))
    half_turn = graph.add("Where", graph.add("Less", y, zero), np.float64(-math.pi), np.float64(math.pi))
    behind = graph.add("Where", graph.add("Less", x, zero), half_turn, zero)
    sideways = graph.add("Mul", graph.add("Sign", y), np.float64(math.pi / 2))
    angle = graph.add("Where", upright, sideways, graph.add("Add", _atan(graph, ratio), behind))
    return graph.cast(angle, np.float32)


def _atan(graph: Graph, ratio: Value) -> Value:
    """Return the arctangent of float64 numbers r.

    ONNX Runtime has `Atan` in float32 only. Its error is added to that angle a: the error's tangent is
    (r - tan a) / (1 + r tan a).
    """
    angle = graph.cast(graph.add("Atan", graph.cast(ratio, np.float32)), np.float64)
    cosine, sine = graph.add("Cos", angle), graph.add("Sin", angle)
    error = graph.add(
        "Div",
        graph.add("Sub", graph.add("Mul", ratio, cosine), sine),
        graph.add("Add", cosine, graph.add("Mul", ratio, sine)),
    )
    return graph.add("Add", angle, error)
