"""`MicroRTSVectorEnv`: many games of μRTS, as entities."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ...envs import EntityBatch, EntityVectorEnv
from ...envs.errors import check_render_mode, checked_options
from ...envs.seeds import lane_generators
from ...envs.vector.vector_env import Actions, StepResult
from ...envs.window import Window
from ...ragged import keep_freed_memory
from .java.engine import BotFailure, MicroRTSEngine
from .java.rewards import REWARDS, Weights, weights_array, weights_at
from .kernels.sort_kernels import judge
from .observe import Observer
from .options import Opponents, Options, Side, plan_games
from .painter import paint

_FLOAT32, _BOOL = np.dtype(np.float32), np.dtype(np.bool_)
OUTCOMES = ("loss", "draw", "win")


class MicroRTSVectorEnv(EntityVectorEnv):
    """`num_envs` lanes of μRTS, in one JVM.

        venv = MicroRTSVectorEnv("basesWorkers8x8", 4, opponents={"coacAI": 2, "workerRushAI": 2})
        batch, info = venv.reset(seed=1)
        batch, rewards, terminated, truncated, info = venv.step(venv.action_space.sample(mask=batch))

    A lane is a player. Its entities are `Own` units, the `Enemy`'s, and `Resource` fields, each in the order
    of their cells (and `Wall`s, but for `features="planes"`). Each own unit that may be given an order is an
    actor of the action `order`, a `MultiCategorical` with the engine's masks. A unit that is given no order
    waits for a tick. With `targets="entities"` what is attacked, harvested from or returned to is chosen by a
    second action, the `SelectEntity` `target`; a unit that chooses itself follows its `order`.

    `info` holds for every lane `raw_rewards` float64 (num_envs, 6), see `rewards.REWARDS`. Where a game
    ended, `info["outcome"]` (num_envs,) object is "win", "draw" or "loss" (else None), with `_outcome`
    (num_envs,) bool; and `final_obs` holds the true last observations. Games that the time limit ended are
    truncated, or terminated with `limit_is_end`: then a trainer counts nothing after the limit, where a draw
    that is cut off keeps the value of its last state. (Observations hold the time, see Pardo et al. 2018,
    arXiv:1712.00378.)

    A bot that raises an exception, or does not answer within `bot_timeout` seconds, ends its game as a draw
    that is truncated: `info["bot_error"]` (num_envs,) object then says which bot and what, and a warning does
    so too. Bots that are known to answer always are not watched (see `bots.may_hang`), unless others are
    played beside them.

    The same seed gives the same games against bots that use neither the clock nor threads; the generators of
    the random bots are seeded.

    Args:
        map: the map's name ("basesWorkers16x16").
        num_envs: how many lanes.
        opponents: the bots: one name, one per lane, or a dict of how many lanes play each; None: coacAI,
            or POLightRush under partial observability, where coacAI can't play.
        selfplay: how many lanes play each other: 0 and 1, 2 and 3, …; the lanes against bots come after them.
        side: which player the lanes against bots are: 0 (upper left), 1, "both" in turns on each map, or one
            for each.
        maps: several maps, of any sizes, which the games take in turns, instead of `map`.
        reward_weights: by name or six numbers; None: those of the papers.
        final_reward_weights: likewise: the weights go there from `reward_weights`, linearly with the progress
            that a trainer reports by `set_progress`; None: they stay.
        seed: seeds the first `reset` that gives none; None: from the operating system.
        render_mode: None, "rgb_array", or "human" for a window that shows the first lane's game, drawn at
            each reset and step (needs pygame).
        options: those of `Options`.

    Attributes:
        engine: the engine of all games, for tools that read its state; only this class steps it.
        observer: converts the engine's state to batches.
        reward_weights: float64 (6,), those of the next step.

    Raises:
        ValueError: an unknown map or bot (the nearest name is given), or an option out of its range.
        TypeError: an unknown option.
        EngineMissingError: gym-microrts, JPype or Java is not there.
        gymnasium.error.DependencyNotInstalled, RuntimeError: a window without pygame, or without a display.
    """

    validates_in_step = True  # while orders are placed, in one pass

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares no ClassVar
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "final_obs": True,
        "render_modes": ["rgb_array", "human"],
        "render_fps": 15,
    }

    def __init__(
        self,
        map: str = "basesWorkers8x8",
        num_envs: int = 1,
        *,
        opponents: Opponents | None = None,
        selfplay: int = 0,
        side: Side = 0,
        maps: Sequence[str] | None = None,
        reward_weights: Weights | None = None,
        final_reward_weights: Weights | None = None,
        seed: int | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        check_render_mode("MicroRTSVectorEnv", render_mode, self.metadata["render_modes"])
        self.options = checked_options("MicroRTS", Options, options, MicroRTSVectorEnv)
        first = weights_array(reward_weights)
        last = first
        if final_reward_weights is not None:
            last = weights_array(final_reward_weights, "final_reward_weights")
        self._first_weights, self._last_weights = first, last
        self.set_progress(0.0)
        names, partial = [map] if maps is None else maps, self.options.partial_observability
        self.games = plan_games(names, num_envs, selfplay, opponents, side, partial)
        keep_freed_memory()
        self.num_envs = num_envs
        self.render_mode = render_mode
        played = self.options
        self.engine = MicroRTSEngine(
            self.games, played.partial_observability, played.bot_timeout, played.search_iterations
        )
        self.lane_games = self.engine.lane_game
        self.observer = Observer(self.engine, self.options)
        self.single_observation_space = self.observer.space
        self.single_action_space = self.observer.space.actions
        self._nothing_failed = np.zeros(len(self.games), bool)
        self._generators: list[np.random.Generator] = []
        self._seed_first_reset(seed)
        fps = self.metadata["render_fps"]
        self._window = Window(f"MicroRTS {self.games[0].map.name}", fps) if render_mode == "human" else None

    def _reset(
        self, seeds: list[int | None], options: dict[str, Any] | None
    ) -> tuple[EntityBatch, dict[str, Any]]:
        """Start a game in every lane. A seed makes all that follows the same for the same seed: a game's is
        that of its first lane. Games without one continue their random numbers.
        """
        self._seed_games(seeds)
        self._restart(np.arange(len(self.games)))
        batch = self.observer.observe()
        self._show()
        return batch, {"raw_rewards": np.zeros((self.num_envs, len(REWARDS)))}

    def _step(self, actions: Actions) -> StepResult:
        """Give the orders and play `frame_skip` ticks."""
        assert self._last is not None
        self.observer.place(self._last, actions)
        earned, failures = self._play()
        failed = self._nothing_failed
        if failures:
            failed = failed.copy()
            failed[[failure.game for failure in failures]] = True
        raw_rewards, rewards = np.empty(earned.shape), np.empty(self.num_envs, _FLOAT32)
        terminated, truncated = np.empty(self.num_envs, _BOOL), np.empty(self.num_envs, _BOOL)
        batch = self.observer.look()
        step = failed, self.reward_weights, earned, raw_rewards, rewards, terminated, truncated
        any_ended = judge(self.observer.headers, self.observer.lanes, self.options.max_steps, *step)
        info: dict[str, Any] = {"raw_rewards": raw_rewards}
        if any_ended:
            if self.options.limit_is_end:
                at_limit = truncated & ~failed[self.lane_games]
                terminated, truncated = terminated | at_limit, truncated & ~at_limit
            batch = self._end(terminated | truncated, batch, failures, info)
        if self._window is not None:
            self._show()
        return batch, rewards, terminated, truncated, info

    def set_progress(self, fraction: float) -> None:
        """Weigh the rewards of the next steps as at this fraction of training, from 0 to 1.

        Raises:
            ValueError: `fraction` does not lie between 0 and 1; the weights stay.
        """
        self.reward_weights = weights_at(fraction, self._first_weights, self._last_weights)

    def _play(self) -> tuple[NDArray[np.float64], list[BotFailure]]:
        """The ticks of one step, and reading: the raw rewards (num_envs, 6) of it, which are the engine's own
        array or a fresh one, and the bots that failed.
        """
        engine, observer = self.engine, self.observer
        if self.options.frame_skip == 1:
            failures = engine.play()
            return engine.rewards, failures
        failures = engine.step()
        engine.orders[:, 0, 0] = 0  # orders are given once
        rewards = engine.rewards.copy()
        for _ in range(self.options.frame_skip - 1):
            observer.glance()
            playing = ~observer.is_over & (observer.time < self.options.max_steps)
            playing[[failure.game for failure in failures]] = False
            if not playing.any():
                break
            failures += engine.step(playing)
            rewards += engine.rewards
        engine.read()
        return rewards, failures

    def _end(
        self,
        lanes: NDArray[np.bool_],
        batch: EntityBatch,
        failures: Sequence[BotFailure],
        info: dict[str, Any],
    ) -> EntityBatch:
        """Add to `info` how the games of `lanes` ended, start the next ones and return their observations."""
        engine, observer = self.engine, self.observer
        ended = np.zeros(len(self.games), bool)
        ended[engine.lane_game[lanes]] = True
        info["final_obs"], info["_final_obs"] = batch.gather(np.flatnonzero(lanes)), lanes
        winner = np.where(observer.is_over, observer.winner, -1)
        winner[[failure.game for failure in failures]] = -1
        winner = winner[engine.lane_game]
        result = np.where(winner < 0, 0, np.where(winner == engine.lane_player, 1, -1))
        info["outcome"], info["_outcome"] = np.full(self.num_envs, None, object), lanes.copy()
        info["outcome"][lanes] = np.array(OUTCOMES, object)[result[lanes] + 1]
        failed = {failure.game for failure in failures}
        for game in np.flatnonzero(ended & observer.is_over):
            if game not in failed:
                failures = [*failures, *engine.notify_bot(int(game), int(observer.winner[game]))]
        if failures:
            self._report(failures, info)
        if not self.starts_over:
            return batch
        self._restart(np.flatnonzero(ended))
        return observer.observe()

    def _report(self, failures: Sequence[BotFailure], info: dict[str, Any]) -> None:
        errors = np.full(self.num_envs, None, object)
        for failure in failures:
            sentence = f"the bot {failure.bot} {failure.what}"
            lanes = np.flatnonzero(self.engine.lane_game == failure.game)
            errors[lanes] = sentence
            lane = self.first_lane + lanes[0]
            ending = " when its game was over" if failure.over else "; its game ends as a draw"
            warnings.warn(f"MicroRTS env {lane}: {sentence}{ending}", stacklevel=6)
        info["bot_error"] = errors
        info["_bot_error"] = errors != None  # noqa: E711 - element by element

    def _restart(self, games: NDArray[np.int64]) -> None:
        seeds = [int(self._generators[game].integers(1 << 62)) for game in games]
        self.engine.reset(games.tolist(), seeds)

    def _seed_games(self, seeds: Sequence[int | None]) -> None:
        """Give games generators of their own: so they repeat whatever is played beside them."""
        first_lanes = np.searchsorted(self.engine.lane_game, np.arange(len(self.games))).tolist()
        self._generators = lane_generators([seeds[lane] for lane in first_lanes], self._generators)

    def _render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """A picture (height * 24, width * 24, 3) of each lane's game, drawn from its units, in mode
        "rgb_array"; None in mode "human", whose window draws itself.
        """
        if self._window is not None:
            return None
        frames = [self._paint(game) for game in range(len(self.games))]
        return tuple(
            self._as_seen(lane, frames[game]).copy() for lane, game in enumerate(self.engine.lane_game)
        )

    def camera(self, lane: int) -> tuple[float, float, float, float]:
        """Left, bottom, width and height of what the picture of `lane` shows, in the units of x and y. The
        height is negative, as y grows downwards.
        """
        board = self.games[self.engine.lane_game[lane]].map
        return -0.5, board.height - 0.5, board.width, -board.height

    def _paint(self, game: int) -> NDArray[np.uint8]:
        return paint(self.games[game].map, self.observer.units_of(game))

    def _as_seen(self, lane: int, frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """A game's picture as a lane's player sees the board."""
        turn = self.observer.perspective
        return frame if turn is None or not turn.turned[lane] else frame[::-1, ::-1]

    def _show(self) -> None:
        if self._window is not None and self._window.is_open:
            self._window.show(self._as_seen(0, self._paint(self.engine.lane_game[0])))

    def close_extras(self, **kwargs: Any) -> None:
        """Forget the games; the JVM stays, for the process's other environments."""
        self.engine.close()
        if self._window is not None:
            self._window.close()
