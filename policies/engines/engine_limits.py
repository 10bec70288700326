"""Limits of the engines: options and spaces that only torch computes. Free of torch."""

from __future__ import annotations

from dataclasses import fields

from ...envs import Categorical, Continuous, EntitySpace, MultiCategorical, SelectEntity
from ..rogue_net.config import RelativePosition, RogueNetConfig

#: What the fused kernels compute. A new option or kind of action is torch's alone until it stands here:
#: `load_agent` cannot compare the kernels with torch, as `proof` does, and would compute another network.
FUSED_OPTIONS = {
    *("d_model", "n_layer", "n_head", "d_qk", "translation", "fourier", "global_features"),
    "relative_position",  # as far as `_relative_limit` says
    *("squash", "log_std_init", "composite"),
    *("separate_value_net", "value_d_model", "value_n_layer", "value_n_head"),
    *("dropout", "embedding_dropout", "residual_dropout", "attention_dropout"),  # none in acting
    *("engine", "attention"),
}
#: Kernels count the lines of tables in float32.
_MAX_LINES = 1 << 24
_FUSED_ACTIONS = (Categorical, Continuous, MultiCategorical, SelectEntity)


def fused_limit(settings: RogueNetConfig, space: EntitySpace) -> str | None:
    """Return why the fused kernels cannot compute such a network; None if they can."""
    for option in fields(settings):
        if option.name not in FUSED_OPTIONS and getattr(settings, option.name) != option.default:
            return f"{option.name} has no fused kernels"
    limit = _relative_limit(settings.relative_position, len(space.entities) + 1)
    if limit is not None:
        return limit
    for name, action in space.actions.items():
        if not isinstance(action, _FUSED_ACTIONS):
            return f"action {name!r}, a {type(action).__name__}, has no fused kernels"
    for d in (settings.d_model, settings.for_value().d_model):
        if d % 4:
            return f"the width {d} is no multiple of 4"
    return None


def _relative_limit(config: RelativePosition | None, types: int) -> str | None:
    """Return which option of relative positions has no fused kernels; None if all have.

    Angles and distances round to buckets elsewhere than torch's, by the last bit of arctangents and roots.
    """
    if config is not None:
        if config.num_buckets * types >= _MAX_LINES:
            return f"relative_position: {config.num_buckets} buckets are too many for the fused kernels"
        for option in ("radial", "distance", "key_projection", "value_projection"):
            if getattr(config, option):
                return f"relative_position: {option} has no fused kernels"
    return None


def graphs_limit(settings: RogueNetConfig, space: EntitySpace) -> str | None:
    """Return why such a network cannot be computed on arrays of fixed shapes; None if it can."""
    if settings.relative_position is not None:
        return "relative positions depend on pairs of rows"
    if settings.pooling is not None:
        return "pooling has no fixed shapes"
    if any(settings.rate(place) for place in ("embedding", "residual", "attention")):
        return "dropout has no fixed shapes"
    if settings.squash and any(isinstance(action, Continuous) for _, action in space.actions.items()):
        return "squashed continuous actions have no fixed shapes"
    if space.hidden:
        return "hidden entities have no fixed shapes"
    return None
