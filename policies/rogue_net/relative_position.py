"""Relative position encoding: learned keys and values per offset from one entity to another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..inputs.places import PlaceReader
from ..inputs.prepare import Prepared
from .config import RelativePosition
from .normalization import InputNorm
from .tensors import as_tensor

#: Buckets of pairs (b, M, M) int64, and their weights of the same shape or one for all.
Bucket = tuple[Tensor, Tensor | float]


@dataclass(frozen=True, eq=False)
class Places:
    """Positions of the rows."""

    position: Tensor  # (N, P)
    heading: Tensor  # (N,) radians
    kind: Tensor  # (N,) int64, index of the type
    known: Tensor  # (N,) bool: takes part in the encoding

    def select(self, index: Tensor) -> Places:
        return Places(self.position[index], self.heading[index], self.kind[index], self.known[index])


@dataclass(frozen=True, eq=False)
class RelativePairs:
    """Relative keys and values of the pairs (looking, looked at) of a group, each (b, M, M, d_head)."""

    keys: Tensor
    values: Tensor


class RelativeEncoding(nn.Module):
    """The tables and projections, shared by all layers and heads."""

    def __init__(
        self, config: RelativePosition, features: Mapping[str, tuple[str, ...]], d_model: int, d_head: int
    ) -> None:
        """`features`: the names of each type's features in the order of the columns."""
        super().__init__()
        self.config = config
        self._reader = PlaceReader(config, features)
        buckets = config.num_buckets
        self.keys = nn.Parameter(torch.empty(buckets, d_head).normal_(0.0, 0.05))
        value_buckets = buckets * (len(features) if config.per_entity_values else 1)
        self.values = nn.Parameter(torch.empty(value_buckets, d_head).normal_(0.0, 0.2))
        width = len(config.position) + 1
        kinds = len(features) if config.per_entity_projections else 1
        self.key_weight = self._weight(config.key_projection, kinds, width, d_head)
        self.key_bias = self._weight(config.key_projection, kinds, d_head, zero=True)
        self.value_weight = self._weight(config.value_projection, kinds, width, d_head)
        self.value_bias = self._weight(config.value_projection, kinds, d_head, zero=True)
        self.offset_norm = InputNorm(width) if config.key_projection or config.value_projection else None
        self.value_gate_proj = nn.Linear(d_model, d_head) if config.value_gate else None

    @staticmethod
    def _weight(wanted: bool, *shape: int, zero: bool = False) -> nn.Parameter | None:
        if not wanted:
            return None
        return nn.Parameter(torch.zeros(shape) if zero else torch.empty(shape).normal_(0.0, 0.02))

    # -- where things are -----------------------------------------------------------------------------------

    def places(self, prepared: Prepared, like: Tensor) -> Places:
        """Position, heading and type of each row of a batch, from its raw (translated) features."""
        read = self._reader.read(prepared)
        return Places(
            as_tensor(read.position, like, like.dtype),
            as_tensor(read.heading, like, like.dtype),
            as_tensor(read.kind, like),
            as_tensor(read.known, like),
        )

    # -- keys and values ------------------------------------------------------------------------------------

    def pairs(self, places: Places, index: Tensor) -> RelativePairs:
        """Keys and values of all pairs within each step of a group whose rows are `index` (b, M)."""
        here = places.select(index)
        offsets = here.position[:, :, None] - here.position[:, None]  # (b, M, M, P): looking minus looked at
        both = (here.known[:, :, None] & here.known[:, None])[..., None]
        kind = here.kind[:, None]  # (b, 1, M)
        keys: Tensor | float = 0.0
        values: Tensor | float = 0.0
        for bucket, weight in self._buckets(offsets, here.heading):
            of_kind = bucket + kind * self.config.num_buckets if self.config.per_entity_values else bucket
            key, value = self.keys[bucket], self.values[of_kind]
            if isinstance(weight, Tensor):
                key, value = key * weight[..., None], value * weight[..., None]
            keys, values = keys + key, values + value
        if self.offset_norm is not None:
            seen = self.offset_norm(_with_length(offsets))
            which = here.kind if self.config.per_entity_projections else torch.zeros_like(here.kind)
            keys = keys + self._projected(seen, which, self.key_weight, self.key_bias)
            values = values + self._projected(seen, which, self.value_weight, self.value_bias)
        return RelativePairs(torch.where(both, keys, 0.0), torch.where(both, values, 0.0))

    @staticmethod
    def _projected(seen: Tensor, kind: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor | float:
        if weight is None or bias is None:
            return 0.0
        return torch.einsum("bqkp,bkpd->bqkd", seen, weight[kind]) + bias[kind][:, None]

    def gate(self, x: Tensor) -> Tensor | None:
        """Factors (N, d_head) of the relative values, from the rows (N, D) that are looked at."""
        if self.value_gate_proj is None:
            return None
        gate: Tensor = self.value_gate_proj(x)
        match self.config.value_gate:
            case "relu":
                return functional.relu(gate)
            case "gelu":
                return functional.gelu(gate)
            case "sigmoid":
                return torch.sigmoid(gate)
        return gate

    def update(self, places: Places, indices: list[tuple[Tensor, Tensor | None]]) -> None:
        """Update the statistics of offsets by all pairs of the groups (rows (b, M), real slots (b, M))."""
        if self.offset_norm is None:
            return
        seen = InputNorm(self.offset_norm.mean.numel())
        for index, real in indices:
            here = places.select(index)
            known = here.known if real is None else here.known & real
            both = known[:, :, None] & known[:, None]
            offsets = here.position[:, :, None] - here.position[:, None]
            seen.update(_with_length(offsets)[both].cpu().numpy())
        self.offset_norm.take_in(seen.statistics())
        self.offset_norm.refresh()

    # -- buckets --------------------------------------------------------------------------------------------

    def _buckets(self, offsets: Tensor, heading: Tensor) -> list[Bucket]:
        """Return the bucket of each pair (b, M, M), or several with weights that sum to 1."""
        config = self.config
        if not (config.radial or config.distance):
            return [(self._grid(offsets), 1.0)]
        first: list[Bucket] = [(offsets.new_zeros((), dtype=torch.int64), 1.0)]
        angles = self._angle(offsets, heading) if config.radial else first
        distances = self._distance(offsets) if config.distance else first
        stride = config.extent[0] if config.radial else 1
        return [
            (angle + distance * stride, angle_weight * distance_weight)
            for distance, distance_weight in distances
            for angle, angle_weight in angles
        ]

    def _grid(self, offsets: Tensor) -> Tensor:
        bucket, stride = torch.zeros_like(offsets[..., 0], dtype=torch.int64), 1
        for axis, extent in enumerate(self.config.extent):
            cell = (offsets[..., axis] / self.config.scale).clamp(-extent, extent).round().long() + extent
            bucket, stride = bucket + cell * stride, stride * (2 * extent + 1)
        return bucket

    def _angle(self, offsets: Tensor, heading: Tensor) -> list[Bucket]:
        number = self.config.extent[0]
        angle = torch.atan2(offsets[..., 1], offsets[..., 0]) - heading[:, :, None]
        turn = torch.remainder(angle / (2 * math.pi), 1.0) * number
        low = turn.long() % number  # a remainder of nearly 1 can round up to `number`
        if not self.config.interpolate:
            return [(low, 1.0)]
        part = turn - turn.floor()
        return [(low, 1 - part), ((low + 1) % number, part)]

    def _distance(self, offsets: Tensor) -> list[Bucket]:
        last = self.config.extent[-1] - 1
        distance = (torch.linalg.vector_norm(offsets, dim=-1) / self.config.scale).clamp(max=last)
        low = distance.long()
        if not self.config.interpolate:
            return [(low, 1.0)]
        part = distance - low
        return [(low, 1 - part), ((low + 1).clamp(max=last), part)]


def _with_length(offsets: Tensor) -> Tensor:
    """Offsets (..., P) and their length (..., P + 1)."""
    return torch.cat([offsets, torch.linalg.vector_norm(offsets, dim=-1, keepdim=True)], -1)
