"""Entities of different types as vectors of one width."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from .names import NamedModules


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
    """All types' embeddings."""

    def __init__(self, features: Mapping[str, tuple[str, ...]], d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.types = NamedModules(
            {
                name: TypeEmbedding(len(names), d_model) if names else VectorEmbedding(d_model)
                for name, names in features.items()
            }
        )

    def forward(self, features: Mapping[str, Tensor], like: Tensor) -> Tensor:
        """Normalised features by type to (sum of N_t, D), type after type."""
        parts = [self.types[name](x) for name, x in features.items()]
        return torch.cat(parts) if parts else like.new_zeros(0, self.d_model)
