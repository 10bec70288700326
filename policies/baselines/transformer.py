"""`TransformerNet`: the network of "Transformers as Policies for Variable Action Environments".

Zwingenberger 2023 (arXiv:2301.03679). Shape alphabet: B steps, N entities, A actors, C choices of all
components of an action, P planes, D width, T entity types.
"""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ..inputs.rows import RowLayout
from ..rogue_net.attention import attend
from ..rogue_net.tensors import as_tensor
from .config import TransformerConfig
from .entity_map import MapEntities
from .map_policy import MapPolicy


class Layer(nn.Module):
    """norm(x + attention(x)), then norm(x + MLP(x)): torch's TransformerEncoderLayer, without padding."""

    def __init__(self, d_model: int, config: TransformerConfig) -> None:
        super().__init__()
        self.n_head = config.n_head
        self.qkv = nn.Linear(d_model, 3 * d_model)  # queries, keys and values of all heads
        self.proj = nn.Linear(d_model, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.hidden = nn.Linear(d_model, config.d_hidden)
        self.out = nn.Linear(config.d_hidden, d_model)
        self.norm2 = nn.LayerNorm(d_model)
        nn.init.xavier_uniform_(self.qkv.weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.proj.bias)

    def forward(self, x: Tensor, rows: RowLayout, dropout: float) -> Tensor:
        y = self.proj(attend(self.qkv(x), rows, self.n_head, dropout))
        x = self.norm1(x + functional.dropout(y, dropout))
        y = self.out(functional.dropout(functional.relu(self.hidden(x)), dropout))
        return self.norm2(x + functional.dropout(y, dropout))


class Critic(nn.Module):
    """A number per entity; the sums and means of each type's numbers; a linear map of these 2 T."""

    def __init__(self, d_model: int, num_types: int) -> None:
        super().__init__()
        self.worth = nn.Linear(d_model, 1)
        self.combine = nn.Linear(2 * num_types, 1)
        for linear in (self.worth, self.combine):
            nn.init.orthogonal_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor, seen: MapEntities, divisors: NDArray[np.int64]) -> Tensor:
        """(N, D) to (B,). The means are the sums over `divisors` (B, T)."""
        num_steps, num_types = seen.counts.shape
        groups = as_tensor(seen.steps * num_types + seen.types, x)
        worth = self.worth(x).squeeze(1)
        sums = worth.new_zeros(num_steps * num_types).index_add(0, groups, worth).view(num_steps, num_types)
        means = sums / as_tensor(np.maximum(divisors, 1), x, x.dtype)
        return self.combine(torch.stack([sums, means], 2).flatten(1)).squeeze(1)


class TransformerNet(MapPolicy):
    """A transformer over the entities of a map, each encoded by its cell and its planes; a `Policy`.

        net = TransformerNet(venv.single_observation_space, venv.single_action_space, height=8, width=8)

    Entities of a step attend to each other, without padding; each own unit's row gives its logits. Types are
    in the order own, enemy, neutral. Options are the fields of `TransformerConfig`; the published sizes are
    the defaults. Dropout acts in `evaluate` in training mode; `dropout_while_acting` and `mean_over_padding`
    are the published program's faults, off unless asked for. To play with a network trained so without
    dropout, as the paper did: `load_policy(run, dropout_while_acting=False)`.
    """

    options = TransformerConfig

    def _build(self) -> None:
        super()._build()
        settings, one_hot = self.settings, self.settings.position == "one_hot"
        position = self.map.num_cells if one_hot else settings.position_width
        d_model = position + self.map.num_planes
        if d_model % settings.n_head:
            raise ValueError(
                f"n_head: expected a divisor of the width {d_model} ({position} for the position,"
                f" {self.map.num_planes} planes), got {settings.n_head}"
            )
        self.d_model = d_model
        self.positions = None if one_hot else nn.Embedding(self.map.num_cells, position)
        self.layers = nn.ModuleList([Layer(d_model, settings) for _ in range(settings.n_layer)])
        self.actor = nn.Linear(d_model, self.action.num_choices)
        nn.init.orthogonal_(self.actor.weight, 0.01)
        nn.init.zeros_(self.actor.bias)
        self.critic = Critic(d_model, len(self.observation_space.entities))

    def _logits_values(
        self, seen: MapEntities, actors: NDArray[np.int64], rng: np.random.Generator | None
    ) -> tuple[Tensor, Tensor]:
        with ExitStack() as stack:
            rate = self.settings.dropout if self.training and torch.is_grad_enabled() else 0.0
            if rng is not None and self.settings.dropout_while_acting:
                stack.enter_context(torch.random.fork_rng(self._devices))
                torch.manual_seed(int(rng.integers(1 << 63)))  # all randomness of acting comes from `rng`
                rate = self.settings.dropout
            x = self._encode(seen, rate)
        return self.actor(x.index_select(0, as_tensor(actors, x))), self._worth(x, seen)

    def _values(self, seen: MapEntities) -> Tensor:
        rate = self.settings.dropout if self.settings.dropout_while_acting else 0.0
        return self._worth(self._encode(seen, rate), seen)

    @property
    def _devices(self) -> list[torch.device]:
        """Return the devices, besides the CPU, whose random generators dropout may use."""
        device = self.actor.weight.device
        return [device] if device.type == "cuda" else []

    def _worth(self, x: Tensor, seen: MapEntities) -> Tensor:
        longest = np.full_like(seen.counts, seen.rows.longest)
        return self.critic(x, seen, longest if self.settings.mean_over_padding else seen.counts)

    def _encode(self, seen: MapEntities, dropout: float) -> Tensor:
        """The layers' output (N, D)."""
        like = self.actor.weight
        planes, cells = as_tensor(seen.planes, like, like.dtype), as_tensor(seen.cells, like)
        if self.positions is None:
            position = functional.one_hot(cells, self.map.num_cells).to(like.dtype)
        else:
            position = self.positions(cells)
        x = torch.cat([position, planes], 1)
        for layer in self.layers:
            x = layer(x, seen.rows, dropout)
        return x

    def _cost(self, entities: float, actors: float) -> dict[str, float]:
        d, layers = self.d_model, self.settings.n_layer
        return {
            "attention projections": layers * 4 * d * d * entities,
            "attention scores and values": layers * 2 * d * entities**2,
            "MLP": layers * 2 * d * self.settings.d_hidden * entities,
            "actor": d * self.action.num_choices * actors,
            "critic": d * entities + self.critic.combine.in_features,
        }
