"""Entities of different types as vectors of one width."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..inputs.prepare import Prepared
from .layer_norm import LayerNorm
from .names import NamedModules
from .tensors import as_tensor, place_rows


class TypeEmbedding(nn.Module):
    """LayerNorm(ReLU(W x + b)) of one type's normalized features: (N_t, F) to (N_t, D)."""

    def __init__(self, num_features: int, d_model: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_features, d_model)
        self.norm = LayerNorm(d_model)

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

    def __init__(self, features: Mapping[str, tuple[str, ...]], d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
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
        parts = []
        for name, values in prepared.features.items():
            x = as_tensor(values, like, like.dtype)
            parts.append(self.types[name](normalization[name](x) if values.shape[1] else x))
        return place_rows(torch.cat(parts), as_tensor(prepared.destination, like))
