"""`MicroRTSEnv`: one game of μRTS against a bot, as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ...envs import EntityActionSpace, EntityBatch, EntitySpace, unbatch_observation
from ...envs.batch.batch_actions import ragged_orders
from ...envs.errors import reset_needed
from .java.names import argument_names
from .options import check_options, is_player
from .vector_env import MicroRTSVectorEnv

Observation = dict[str, Any]


class _OneGame(MicroRTSVectorEnv):
    """A vector environment whose ended games stay as they are until `reset`."""

    starts_over = False


class MicroRTSEnv(gymnasium.Env[Observation, Mapping[str, Any]]):
    """One game of μRTS against a bot: `gymnasium.make("entitize/MicroRTS-v0", map="basesWorkers8x8")`.

    Spaces, options, rules and errors are those of `MicroRTSVectorEnv`, over which it is built. Observations
    and actions are plain dicts, as for `EntityEnv`. Seeded alike, it plays the same games as a vector
    environment of one lane, and the same first game as the first lane of any.

    `info` holds `raw_rewards` float64 (6,), see `rewards.REWARDS`; at the end of a game `outcome`: "win",
    "draw" or "loss"; and where the bot failed `bot_error`: which bot and how.

    Args:
        map: the map's name.
        opponent: the bot's name; None: as in `MicroRTSVectorEnv`.
        side: which player the agent is: 0 (upper left) or 1.
        reward_weights: by name or six numbers; None: those of the papers.
        seed: seeds the first `reset` that gives none; None: from the operating system.
        render_mode: None, "rgb_array", or "human" for a window, which is drawn at each reset and step.
        options: those of `Options`.

    Raises:
        ValueError, TypeError, EngineMissingError: as `MicroRTSVectorEnv`.
        gymnasium.error.DependencyNotInstalled, RuntimeError: a window without pygame, or without a display.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares no ClassVar
        name: MicroRTSVectorEnv.metadata[name] for name in ("render_modes", "render_fps")
    }
    observation_space: EntitySpace
    action_space: EntityActionSpace

    def __init__(
        self,
        map: str = "basesWorkers8x8",
        opponent: str | None = None,
        side: int = 0,
        *,
        reward_weights: Mapping[str, float] | Sequence[float] | None = None,
        seed: int | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        check_options(options, argument_names(MicroRTSEnv))
        if not is_player(side):
            raise ValueError(f"side: expected 0 or 1, got {side!r}")
        self._venv = _OneGame(
            map,
            opponents=opponent,
            side=side,
            reward_weights=reward_weights,
            seed=seed,
            render_mode=render_mode,
            **options,
        )
        self.render_mode = render_mode
        self.observation_space = self._venv.single_observation_space
        self.action_space = self._venv.single_action_space
        self._has_seed = seed is not None
        self._is_playing = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a game; a seed makes all that follows the same for the same seed."""
        is_first = self._np_random is None
        super().reset(seed=seed)
        if seed is None and is_first and not self._has_seed:
            seed = int(self.np_random.integers(2**63))
        batch, infos = self._venv.reset(seed=seed)
        self._is_playing = True
        return self._observed(batch), _first(infos)

    def step(self, action: Mapping[str, Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Give the orders of `action`; with an empty array, or without it, all units wait.

        Raises:
            gymnasium.error.ResetNeeded: before the first reset, or after the end of a game.
            ActionError: an order for a unit that may not be given one, or one that the masks forbid; the game
                has not moved.
        """
        if not self._is_playing and not self._venv.closed:
            raise reset_needed("MicroRTSEnv", "the first step and after the end of a game")
        orders = ragged_orders(self.action_space, [type(self).__name__], [action])
        batch, rewards, terminated, truncated, infos = self._venv.step(orders)
        self._is_playing = not (terminated[0] or truncated[0])
        observation = self._observed(batch)
        return observation, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), _first(infos)

    def _observed(self, batch: EntityBatch) -> Observation:
        observation = unbatch_observation(self.observation_space, batch, 0)
        self.action_space.observe(observation)
        return observation

    def render(self) -> NDArray[np.uint8] | None:
        """A picture (height * 24, width * 24, 3) in mode "rgb_array"; None in mode "human", whose window
        draws itself.

        Raises:
            ValueError: the environment was made without a render_mode.
            gymnasium.error.ResetNeeded: before the first reset.
        """
        frames = self._venv.render()
        return None if frames is None else frames[0]

    def close(self) -> None:
        self._venv.close()


def _first(infos: Mapping[str, Any]) -> dict[str, Any]:
    """The info of the only lane: what it has, and without the final observation, which is the step's."""
    return {
        name: np.copy(values[0]) if isinstance(values[0], np.ndarray) else values[0]
        for name, values in infos.items()
        if not name.startswith("_") and name != "final_obs" and infos.get(f"_{name}", [True])[0]
    }
