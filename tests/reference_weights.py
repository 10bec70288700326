"""Weights of the original `rogue_net` package (0.1) under the names used here."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping

import torch
from entitize.policies.inputs.translation import DISTANCE
from entitize.policies.rogue_net import RogueNetwork
from entitize.policies.rogue_net.names import module_key
from torch import Tensor

_EMBEDDING_PARTS = {
    "1.weight": "linear.weight",
    "1.bias": "linear.bias",
    "3.weight": "norm.weight",
    "3.bias": "norm.bias",
    "embedding": "vector",
}


def convert_reference_weights(
    state: Mapping[str, Tensor], value_head: str = "value", net: RogueNetwork | None = None
) -> dict[str, Tensor]:
    """Return the state dict of a `RogueNet` from that of an original one with the same options.

        net.load_state_dict(convert_reference_weights(original.state_dict(), net=net))

    The original must have been made with the same entity types in the same order; ours then wants
    `global_features="concat"`.

    Args:
        value_head: name of the regression head that predicts the value.
        net: the network that will load the result. The original appends the distance of a translation behind
            the global features, and ours before them: without `net` a warning says that such columns stay in
            the original's order.

    Raises:
        ValueError: a parameter whose place is not known.
    """
    if net is None:
        warnings.warn(
            "convert_reference_weights: net is missing: expected the network that will load the weights;"
            " without it, columns of distances and of global features stay in the original's order",
            stacklevel=2,
        )
    columns = {} if net is None else _columns(net)
    result: dict[str, Tensor] = {}
    for name, value in state.items():
        for new_name, new_value in _convert(name, value, state, value_head):
            match = _BY_FEATURE.fullmatch(new_name)
            if match and (own := columns.get(match[1] or match[2])):
                new_value = new_value[..., own]
            result[new_name] = new_value.clone()
    return result


#: Parameters with one column for each feature of an entity type.
_BY_FEATURE = re.compile(
    r"(?:normalization\.([^.]+)\.(?:mean|squares_sum)|policy_net\.embedding\.types\.([^.]+)\.linear\.weight)"
)


def _columns(net: RogueNetwork) -> dict[str, list[int]]:
    """Return for each type whose columns the original has in another order where it has each of ours."""
    if not net.inputs.concatenates:
        return {}
    result = {}
    for name, features in net.inputs.features.items():
        if DISTANCE in features:
            own = features.index(DISTANCE)
            before, behind = range(own), range(own, len(features) - 1)
            result[module_key(name)] = [*before, len(features) - 1, *behind]
    return result


def _convert(
    name: str, value: Tensor, state: Mapping[str, Tensor], value_head: str
) -> list[tuple[str, Tensor]]:
    if match := re.fullmatch(r"embedding\.embeddings\.(.+)\.0\.(count|mean|squares_sum)", name):
        return [(f"normalization.{module_key(match[1])}.{match[2]}", value.double())]
    if match := re.fullmatch(r"embedding\.embeddings\.(.+)\.(1\.\w+|3\.\w+|embedding)", name):
        part = _EMBEDDING_PARTS[match[2]]
        return [(f"policy_net.embedding.types.{module_key(match[1])}.{part}", value)]
    if match := re.fullmatch(r"(backbone\.blocks\.\d+\.attn)\.(query|key|value)\.(weight|bias)", name):
        if match[2] != "query":
            return []
        parts = [state[f"{match[1]}.{part}.{match[3]}"] for part in ("query", "key", "value")]
        return [(f"policy_net.{match[1]}.qkv.{match[3]}", torch.cat(parts))]
    if ".attn.relpos_encoding." in name:
        return []  # the one encoding, once more per block
    if name.startswith("backbone.relpos_encoding."):
        return _convert_relative(name.removeprefix("backbone.relpos_encoding."), value, state)
    if name.startswith("backbone."):
        return [(f"policy_net.{name}", value)]
    if match := re.fullmatch(r"action_heads\.(.+)\.((?:query_|key_)?proj\.\w+)", name):
        return [(f"action_heads.{module_key(match[1])}.{match[2]}", value)]
    if match := re.fullmatch(rf"auxiliary_heads\.{re.escape(value_head)}\.(\w+)", name):
        return [(f"value_head.proj.{match[1]}", value)]
    raise ValueError(
        f"unknown parameter {name!r}: the original RogueNet has none of this name that can be converted"
    )


def _convert_relative(name: str, value: Tensor, state: Mapping[str, Tensor]) -> list[tuple[str, Tensor]]:
    place = "policy_net.backbone.relpos_encoding"
    if name in ("keys.weight", "values.weight"):
        return [(f"{place}.{name.removesuffix('.weight')}", value)]
    if name.startswith("value_gate_proj."):
        return [(f"{place}.{name}", value)]
    if name.startswith("relpos_norm."):
        return [(f"{place}.offset_norm.{name.removeprefix('relpos_norm.')}", value.double())]
    if match := re.fullmatch(r"([kv])proj\.(?:(.+)\.)?(weight|bias)", name):
        # One projection for all, or one per type in the order of the types.
        prefix = f"backbone.relpos_encoding.{match[1]}proj."
        names = [n for n in state if n.startswith(prefix) and n.endswith(f".{match[3]}")]
        if f"backbone.relpos_encoding.{name}" != names[0]:
            return []
        stacked = torch.stack([state[n].T if match[3] == "weight" else state[n] for n in names])
        return [(f"{place}.{'key' if match[1] == 'k' else 'value'}_{match[3]}", stacked)]
    return []  # strides, extents and a table that the original never reads
