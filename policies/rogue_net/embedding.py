"""Entities of different types as vectors of one width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from .config import AttentionPath
from .embedding_kernels import embed, embed_backward, scratch_size
from .inputs import Prepared
from .names import NamedModules
from .parallel import over_rows, row_shares, workspace
from .rows import as_tensor, place_rows, runs_kernels


class TypeEmbedding(nn.Module):
    """LayerNorm(ReLU(W x + b)) of one type's normalised features: (N_t, F) to (N_t, D)."""

    def __init__(self, num_features: int, d_model: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_features, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(functional.relu(self.linear(x), inplace=True))


class VectorEmbedding(nn.Module):
    """One learned vector for all entities of a type without features."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.randn(1, d_model))

    def forward(self, x: Tensor) -> Tensor:
        return self.vector.expand(len(x), -1)


class Embedding(nn.Module):
    """All types' embeddings, in the order of the rows."""

    def __init__(self, features: Mapping[str, tuple[str, ...]], d_model: int, path: AttentionPath) -> None:
        super().__init__()
        self.d_model = d_model
        self.path = path
        self.types = NamedModules(
            {
                name: TypeEmbedding(len(names), d_model) if names else VectorEmbedding(d_model)
                for name, names in features.items()
            }
        )

    def forward(self, prepared: Prepared, normalization: NamedModules, like: Tensor) -> Tensor:
        """Raw features to embedded rows (N, D) on the device and in the dtype of `like`."""
        if not prepared.features:
            return like.new_zeros(0, self.d_model)
        if self.path in ("auto", "fused") and self.d_model % 4 == 0 and runs_kernels(like):
            return self._fused(prepared, normalization)
        parts = []
        for name, values in prepared.features.items():
            x = as_tensor(values, like, like.dtype)
            parts.append(self.types[name](normalization[name](x) if values.shape[1] else x))
        return place_rows(torch.cat(parts), as_tensor(prepared.destination, like))

    def _fused(self, prepared: Prepared, normalization: NamedModules) -> Tensor:
        # Straight from the modules' dicts: attribute access on a module costs a microsecond.
        parameters: list[Tensor] = []
        for name, values in prepared.features.items():
            module: Any = self.types[name]
            if values.shape[1]:
                linear, norm = module._modules["linear"]._parameters, module._modules["norm"]._parameters
                statistics: Any = normalization[name]._buffers
                parameters += [
                    statistics["shift"], statistics["scale"],
                    linear["weight"], linear["bias"], norm["weight"], norm["bias"],
                ]  # fmt: skip
            else:
                parameters.append(module.vector)
        if torch.is_grad_enabled():
            return FusedEmbedding.apply(prepared, self.d_model, *parameters)
        return _embed_types(prepared, self.d_model, parameters)[0]


@dataclass(frozen=True)
class _Part:
    """One type's share of a fused embedding."""

    values: NDArray[np.float32]  # (N_t, F)
    destination: NDArray[np.int64]  # (N_t,)
    place: int  # where its parameters start in the array of all types' parameters


def _parts(prepared: Prepared, d: int) -> list[_Part]:
    parts, row, place = [], 0, 0
    for values in prepared.features.values():
        rows, features = values.shape
        parts.append(_Part(values, prepared.destination[row : row + rows], place))
        row += rows
        place += 2 * features + d * (features + 3) if features else d
    return parts


def _embed_types(prepared: Prepared, d: int, parameters: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The embedded rows (N, d), and all parameters in one array."""
    packed = torch.cat([p.view(-1) for p in parameters])
    out = torch.empty(prepared.rows.num_rows, d)
    w, target = packed.numpy(), out.numpy()
    for part in _parts(prepared, d):
        rows, features = part.values.shape
        if not features:
            target[part.destination] = w[part.place : part.place + d]
            continue

        def run(share: int, first: int, last: int, part: _Part = part, features: int = features) -> None:
            scratch = workspace(scratch_size(features, d))
            embed(
                part.values.reshape(-1), first, last, features, d, w, part.place, part.destination,
                target.reshape(-1), scratch,
            )  # fmt: skip

        over_rows(rows, run)
    return out, packed


class FusedEmbedding(torch.autograd.Function):
    """Raw features (as in `Prepared`) to rows (N, d) float32, each type by one kernel.

    Parameters per type that occurs: shift and scale of the normalisation (without gradients), weight, bias,
    gain and offset; or the vector of a type without features.
    """

    @staticmethod
    def forward(ctx: Any, prepared: Prepared, d: int, *parameters: Tensor) -> Tensor:
        out, packed = _embed_types(prepared, d, parameters)
        ctx.save_for_backward(packed)
        ctx.settings = prepared, d
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        prepared, d = ctx.settings
        (packed,) = ctx.saved_tensors
        w, source = packed.numpy(), d_out.contiguous().numpy()
        results: list[Tensor | None] = []
        for part in _parts(prepared, d):
            rows, features = part.values.shape
            if not features:
                results.append(torch.from_numpy(source[part.destination].sum(0, keepdims=True)))
                continue
            padded = -(-features // 4) * 4
            g = np.zeros((row_shares(rows), d * (padded + 3)), np.float32)

            def run(
                share: int, first: int, last: int, part: _Part = part, features: int = features, g: Any = g
            ) -> None:
                scratch = workspace(scratch_size(features, d))
                embed_backward(
                    part.values.reshape(-1), first, last, features, d, w, part.place, part.destination,
                    source.reshape(-1), g[share], scratch,
                )  # fmt: skip

            over_rows(rows, run)
            total = torch.from_numpy(g[0] if len(g) == 1 else g.sum(0))
            weight = total[: d * padded].view(d, padded)[:, :features]
            results += [None, None, weight.contiguous(), *total[d * padded :].split(d)]
        return None, None, *results
