"""Find PettingZoo wrappers that change observations, which a `GameView` of the unwrapped game bypasses."""

from __future__ import annotations

from typing import Any

#: The methods that return observations: of turn-based games, and of parallel games.
_AEC, _PARALLEL = ("observe", "last"), ("reset", "step")
#: Classes of SuperSuit that override these methods, but change only actions or the number of steps.
_KEEPING = ("aec_action_lambda", "frame_skip_aec", "frame_skip_par")


def changing_wrapper(env: Any) -> str | None:
    """Return the name of the outermost wrapper of a game that may change observations, None without one.

    PettingZoo's own wrappers and conversions pass observations on (version 1.27). Any other wrapper counts
    as changing them if it overrides one of the methods that return them.
    """
    game = env.unwrapped
    layer = outer = env
    while layer is not game:
        if layer is None:
            return type(outer).__name__  # it keeps the game where it can't be found
        if _may_change(layer):
            return _name(layer)
        outer, layer = layer, vars(layer).get("env", vars(layer).get("aec_env"))
    return None


def _may_change(wrapper: Any) -> bool:
    kind = type(wrapper)
    if kind.__module__.startswith("supersuit."):
        modifier = vars(wrapper).get("modifier_class")
        if kind.__name__ in _KEEPING or (
            modifier is not None
            and all(
                _owner(modifier, read).__name__ == "BaseModifier" for read in ("modify_obs", "get_last_obs")
            )
        ):
            return False
    methods = _AEC if hasattr(kind, "observe") else _PARALLEL
    return any(
        method in vars(wrapper) or not _owner(kind, method).__module__.startswith("pettingzoo.utils.")
        for method in methods
    )


def _owner(kind: type, method: str) -> type:
    """Return the class that defines a method of `kind`; `object` if none does."""
    return next((base for base in kind.__mro__ if method in vars(base)), object)


def _name(wrapper: Any) -> str:
    """Return the name of a wrapper's class; of SuperSuit's shared wrapper, that of its modifier."""
    modifier = vars(wrapper).get("modifier_class")
    return type(wrapper).__name__ if not isinstance(modifier, type) else modifier.__name__
