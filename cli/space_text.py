"""An observation space as text."""

from __future__ import annotations

from ..envs import EntitySpace


def describe_space(space: EntitySpace) -> str:
    """Entity types with their features, the frame, global features and actions, one per line."""
    lines = ["Entities"] if space.entities else []
    lines += [
        f"  {name} ({len(features)}): {', '.join(features)}" for name, features in space.entities.items()
    ]
    if space.frame is not None:
        lines += ["Frame", f"  {' × '.join(map(str, space.frame))}"]
    if space.global_features:
        lines += ["Global features", f"  ({len(space.global_features)}): {', '.join(space.global_features)}"]
    lines.append("Actions")
    lines += [f"  {name}: {action!r}" for name, action in space.actions.spaces.items()]
    return "\n".join(lines)
