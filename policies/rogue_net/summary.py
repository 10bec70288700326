"""Size of a network and cost of a step, beside the blog post's formulas and IMPALA.

The formulas (appendix B of "Entity-Based Reinforcement Learning", 2023), for width D, L layers and Sᵢ
entities of type i with Fᵢ features, S = Σ Sᵢ:

    parameters ≈ 12 L D² + D Σ Fᵢ
    multiply-adds ≈ 12 L D² S + L D S² + D Σ Fᵢ Sᵢ

They leave out biases, layer norms and heads, and count one of attention's two products.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...envs import ActionSpace
from ..inputs.prepare import GLOBAL
from .config import RogueNetConfig
from .network import Encoder, RogueNetwork


def impala_cost(
    height: int = 64,
    width: int = 64,
    channels: int = 3,
    sequences: Sequence[int] = (16, 32, 32),
    hidden: int = 256,
) -> tuple[int, int]:
    """Parameters and multiply-adds per frame of IMPALA's residual network, by the blog's formulas.

    Each sequence maps C to C' channels by a 3 × 3 convolution, halves height and width, and has two residual
    blocks of two 3 × 3 convolutions; a linear layer to `hidden` follows. Biases are not counted.
    """
    parameters = cost = 0
    for out in sequences:
        first, residual = 9 * channels * out, 36 * out * out
        parameters += first + residual
        cost += first * height * width
        height, width, channels = (height + 1) // 2, (width + 1) // 2, out
        cost += residual * height * width
    last = hidden * channels * height * width
    return parameters + last, cost + last


@dataclass(frozen=True)
class Cost:
    """Multiply-adds of one step."""

    entity_counts: dict[str, float]
    items: dict[str, float]  # exact, part by part
    blog: float | None  # by the blog's formula, of networks that it is about

    @property
    def total(self) -> float:
        return sum(self.items.values())


@dataclass(frozen=True)
class Summary:
    """Result of a network's `summary`; printing it gives a table."""

    parameters: dict[str, int]  # part by part; they sum to the number of trainable parameters
    blog_parameters: int | None  # by the blog's formula, of all encoders; None: it is not about them
    statistics: int  # numbers that are saved with the network and not trained: input statistics
    cost: Cost | None

    @property
    def impala(self) -> tuple[int, int]:
        """Parameters and multiply-adds per frame of IMPALA, to compare with."""
        return impala_cost()

    @property
    def total(self) -> int:
        return sum(self.parameters.values())

    def __str__(self) -> str:
        lines = ["parameters", *(_line(name, count) for name, count in self.parameters.items())]
        lines.append(_line("total", self.total))
        if self.blog_parameters is not None:
            lines.append(_line("by the formula 12 L D² + D Σ Fᵢ", self.blog_parameters))
            lines.append(_line("what the formula leaves out", self.total - self.blog_parameters))
        lines.append(_line("IMPALA, without biases", self.impala[0], self.impala[0] / self.total))
        lines.append(_line("input statistics, not trained", self.statistics))
        if self.cost is not None:
            counts = ", ".join(f"{count:g} {name}" for name, count in self.cost.entity_counts.items())
            lines += ["", f"multiply-adds per step with {counts or 'no entities'}"]
            lines += [_line(name, count) for name, count in self.cost.items.items()]
            lines.append(_line("total", self.cost.total))
            if self.cost.blog is not None:
                lines.append(_line("by the formula 12 L D² S + L D S² + D Σ Fᵢ Sᵢ", self.cost.blog))
            lines.append(
                _line("IMPALA, 64 × 64 pixels", self.impala[1], self.impala[1] / max(self.cost.total, 1))
            )
        return "\n".join(lines)


def _line(name: str, count: float, ratio: float | None = None) -> str:
    return f"  {name:<48}{count:>14,.0f}" + ("" if ratio is None else f"  ({ratio:,.0f}×)")


def summarize(
    net: RogueNetwork,
    entity_counts: Mapping[str, float] | None = None,
    actors: Mapping[str, float] | None = None,
) -> Summary:
    """Count the parameters of `net`, and the multiply-adds of a step with `entity_counts` entities per type.

    `actors`: how many act per action, 1 unless said; a select-entity action may pick any entity.
    Normalization, activations, softmax, translation, the waves of Fourier features and a relative position
    encoding are not counted.

    Raises:
        ValueError: an entity type or action that the network does not have.
    """
    parameters: dict[str, int] = {}
    for name, parameter in net.named_parameters():
        part = _part(name)
        parameters[part] = parameters.get(part, 0) + parameter.numel()
    cost = None
    if entity_counts is not None:
        check_counted_names("entity type", entity_counts, net.observation_space.entities)
        check_counted_names("action", actors or {}, net.action_space.spaces)
        cost = _cost(net, dict(entity_counts), dict(actors or {}))
    features = net.inputs.features
    blog = sum(
        12 * c.n_layer * c.d_model**2 + c.d_model * sum(map(len, features.values()))
        for c, _ in _encoders(net)
    )
    statistics = sum(buffer.numel() for buffer in net.state_dict().values()) - sum(parameters.values())
    return Summary(parameters, blog, statistics, cost)


def check_counted_names(what: str, names: Mapping[str, float], known: Mapping[str, object]) -> None:
    """
    Raises:
        ValueError: one of `names` is not among the `known`.
    """
    for name in names:
        if name not in known:
            raise ValueError(f"summary: {what} {name!r}: expected one of {', '.join(known) or 'none'}")


def _encoders(net: RogueNetwork) -> list[tuple[RogueNetConfig, Encoder]]:
    both = [(net.settings, net.policy_net), (net.settings.for_value(), net.value_net)]
    return [(config, encoder) for config, encoder in both if encoder is not None]


def _part(name: str) -> str:
    """Return the part of the network that a parameter belongs to, as the table names it."""
    place, _, rest = name.partition(".")
    kind = "weights" if name.endswith("weight") else "biases"
    if place == "value_head":
        return f"value head {kind}"
    if place == "action_heads":
        if name.endswith(".log_std"):
            return "action heads standard deviations"
        return f"action heads {kind}"
    if place not in ("policy_net", "value_net"):  # a module that a subclass or a user added
        return place
    net = "" if place == "policy_net" else "value network: "
    if rest.startswith("backbone.relpos_encoding."):
        return f"{net}relative position encoding"
    if rest.startswith("embedding."):
        # embedding.types.<type>.<part>: only the end is ours, a type may have any name.
        if rest.endswith(".vector"):
            return f"{net}types without features"
        is_norm = rest.endswith((".norm.weight", ".norm.bias"))
        return f"{net}{'layer norms' if is_norm else f'embedding {kind}'}"
    part = rest.split(".")[3]  # backbone.blocks.<layer>.<part>
    if part in ("ln1", "ln2"):
        return f"{net}layer norms"
    return f"{net}{'MLP' if part == 'mlp' else 'attention'} {kind}"


def _cost(net: RogueNetwork, counts: dict[str, float], actors: dict[str, float]) -> Cost:
    rows = dict(counts) | ({GLOBAL: 1.0} if net.inputs.has_global_row else {})
    total = sum(rows.values())
    embedded = sum(len(net.inputs.features[name]) * count for name, count in rows.items())
    items: dict[str, float] = {}
    blog = 0.0
    for config, encoder in _encoders(net):
        label = "" if encoder is net.policy_net else "value network: "
        d, layers = config.d_model, config.n_layer
        items[f"{label}embedding"] = d * embedded
        if config.pooling:
            outputs = 2 if config.pooling == "meanmax" else 1
            items[f"{label}pooling"] = layers * (d * d * total + outputs * d * d)
        else:
            items[f"{label}attention projections"] = layers * 4 * d * d * total
            items[f"{label}attention scores and values"] = layers * 2 * d * total**2
        items[f"{label}MLP"] = layers * 8 * d * d * total
        blog += 12 * layers * d * d * total + layers * d * total**2 + d * embedded
    items["action heads"] = sum(
        _head_cost(net, action, actors.get(name, 1.0), sum(counts.values()))
        for name, action in net.action_space.items()
    )
    items["value head"] = net.settings.for_value().d_model * total
    return Cost(counts, items, blog)


def _head_cost(net: RogueNetwork, action: ActionSpace, actors: float, entities: float) -> float:
    if action.is_global:
        actors = 1.0
    d_model = net.settings.d_model
    if action.selects_entities:
        return (d_model * (actors + entities) + actors * entities) * net.settings.d_qk
    outputs = math.prod(action.item_shape) if action.is_continuous else action.mask_columns
    return d_model * outputs * actors
