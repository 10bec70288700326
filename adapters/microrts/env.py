"""`MicroRTSEnv`: one game of μRTS against a bot, as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...envs.errors import checked_options
from ...envs.vector.one_lane_env import OneLaneEnv
from .java.engine import MicroRTSEngine
from .options import Options, is_player
from .vector_env import MicroRTSVectorEnv


class MicroRTSEnv(OneLaneEnv):
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
        checked_options("MicroRTS", Options, options, MicroRTSEnv)
        if not is_player(side):
            raise ValueError(f"side: expected 0 or 1, got {side!r}")
        venv = MicroRTSVectorEnv(
            map,
            opponents=opponent,
            side=side,
            reward_weights=reward_weights,
            seed=seed,
            render_mode=render_mode,
            **options,
        )
        super().__init__(venv)

    @property
    def engine(self) -> MicroRTSEngine:
        """The engine that plays the game, for tools that read its state."""
        engine: MicroRTSEngine = self._venv.engine
        return engine
