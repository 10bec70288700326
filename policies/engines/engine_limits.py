"""Limits of the engines: options and spaces that only torch computes. Free of torch."""

from __future__ import annotations

from ...envs import Continuous, EntitySpace
from ..rogue_net.config import RogueNetConfig


def fused_limit(settings: RogueNetConfig) -> str | None:
    """Return why the fused kernels cannot compute such a network; None if they can."""
    if settings.relative_position is not None:
        return "relative positions have no fused kernels"
    if settings.pooling is not None:
        return "pooling has no fused kernels"
    for d in (settings.d_model, settings.for_value().d_model):
        if d % 4:
            return f"the width {d} is no multiple of 4"
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
