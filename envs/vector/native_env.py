"""`NativeEnv`: a native game as a single Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..registration import share_lanes
from .native import NativeVectorEnv
from .one_lane_env import OneLaneEnv
from .vector_env import EntityVectorEnv

#: What Gymnasium asks the metadata of a single environment for.
_PICTURES = ("render_modes", "render_fps")


def native_game(
    vector_class: type[NativeVectorEnv],
) -> tuple[type[NativeEnv], Callable[..., EntityVectorEnv]]:
    """Return the single environment and the `make_vec` of a native game.

    Xor, make_vec = native_game(XorVectorEnv)
    """
    name = vector_class.__name__.removesuffix("VectorEnv")
    pictures = {key: vector_class.metadata[key] for key in _PICTURES if key in vector_class.metadata}
    members = {
        "__module__": vector_class.__module__,
        "__doc__": f"One game of `{vector_class.__name__}`, which says the rules and the options.",
        "metadata": pictures,
        "vector_class": vector_class,
    }
    return type(name, (NativeEnv,), members), partial(share_lanes, vector_class)


class NativeEnv(OneLaneEnv):
    """One lane of a native game: `gymnasium.make("entitize/<Name>-v0")`. Abstract: see `native_game`.

    Its spaces, options, rules and errors are those of its `vector_class`. Observations and actions are plain
    dicts, as for `EntityEnv`. Seeded alike, it plays the same episodes as the first lane of the vector
    environment.

    Raises:
        gymnasium.error.ResetNeeded: `step` before the first `reset` or after the end of an episode.
    """

    vector_class: ClassVar[type[Any]]  # a `NativeVectorEnv`, called as `vector_class(num_envs, **options)`

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        super().__init__(self.vector_class(1, render_mode=render_mode, **options))

    def render(self) -> NDArray[np.uint8] | None:
        """A picture (height, width, 3), or None where there is no render_mode."""
        return None if self.render_mode is None else super().render()
