"""`NativeEnv`: a native game as a single Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ..actions import EntityActionSpace
from ..batch.batch_actions import ragged_orders
from ..batch.entity_batch import EntityBatch, unbatch_observation
from ..registration import share_lanes
from ..spaces import EntitySpace
from .native import NativeVectorEnv
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


class NativeEnv(gymnasium.Env[dict[str, Any], Mapping[str, Any]]):
    """One lane of a native game: `gymnasium.make("entitize/<Name>-v0")`. Abstract: see `native_game`.

    Its spaces, options, rules and errors are those of its `vector_class`. Observations and actions are plain
    dicts, as for `EntityEnv`. Seeded alike, it plays the same episodes as the first lane of the vector
    environment.

    Raises:
        gymnasium.error.ResetNeeded: `step` before the first `reset` or after the end of an episode.
    """

    vector_class: ClassVar[type[Any]]  # a `NativeVectorEnv`, called as `vector_class(num_envs, **options)`
    observation_space: EntitySpace
    action_space: EntityActionSpace

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        self._venv = self.vector_class(1, render_mode=render_mode, **options)
        self._venv.lane_names = [type(self).__name__]
        self.render_mode = render_mode
        self.observation_space = self._venv.single_observation_space
        self.action_space = self._venv.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode; a seed restarts the random numbers, without one they go on."""
        is_first = self._np_random is None
        super().reset(seed=seed)
        if seed is None and is_first:
            seed = int(self.np_random.integers(2**63))
        batch, _ = self._venv.reset(seed=seed, options=options)
        return self._observed(batch), {}

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Carry out `action`; see `EntityActionSpace` for what may be left out."""
        actions = ragged_orders(self.action_space, self._venv.lane_names, [action])
        batch, (rewards, terminated, truncated, final, _) = self._venv.play(actions)
        observation = self._observed(batch if final is None else final)
        return observation, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def _observed(self, batch: EntityBatch) -> dict[str, Any]:
        observation = unbatch_observation(self.observation_space, batch, 0)
        self.action_space.observe(observation)
        return observation

    def render(self) -> NDArray[np.uint8] | None:
        """A picture (height, width, 3), or None where there is no render_mode."""
        if self.render_mode is None:
            return None
        frames = self._venv.render()
        assert frames is not None
        picture: NDArray[np.uint8] = frames[0]
        return picture

    def close(self) -> None:
        self._venv.close()
