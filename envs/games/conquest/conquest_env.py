"""`ConquestVectorEnv`: the base of games in which players send fleets from planet to planet."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from ....ragged import RaggedArray
from ...batch.entity_batch import EntityBatch
from ...errors import one_of, reset_option, whole_number
from ...randomness import below
from ...registration import share_lanes
from ...spaces import EntitySpace
from ...vector.native import NativeVectorEnv
from ...vector.native_arrays import Flags, Floats, Ints
from ...vector.saved_state import Bounds, State
from ...vector.vector_env import EntityVectorEnv
from .forecast import FLEETS

#: What a lane's reward can be.
REWARDS = ("outcome", "share")
#: Ships of one place at most in a saved state: far more than a game can make, and no sum overflows.
MOST_SHIPS = 2**31


def player_lanes(
    env: Callable[..., ConquestVectorEnv],
    env_id: str,
    num_players: int,
    num_envs: int,
    num_workers: int,
    options: Mapping[str, Any],
) -> EntityVectorEnv:
    """Return games of `num_players` in which every player is a lane; `env_id` is their name.

    Raises:
        TypeError: the options name a bot.
    """
    if "bot" in options:
        raise TypeError(
            f"{env_id}: bot: expected none, as every player is a lane, got {options['bot']!r}. Use"
            f" {env_id.removesuffix('/lanes')!r}"
        )
    return share_lanes(env, num_envs, num_workers, lanes_per_game=num_players, bot=None, **options)


class ConquestVectorEnv(NativeVectorEnv):
    """Games between players, some of which may be bots. Abstract.

    A game writes `_set_up`, `_observe` and `_play`.

    Args:
        space: what a player observes.
        num_envs: how many lanes: games against a bot, or players (a multiple of `num_players`).
        num_players: of a game.
        bot: bot of the other players, one of `bots`; None: every player is a lane, and neighbouring lanes
            play one game. Against bots the learner's player is drawn.
        reward: "outcome": at the end of a game; "share": each step also pays the change of the player's
            share of all players' ships.
        min_ships: a planet with fewer ships sends nothing.
        fleets: "entities": each fleet is one; "forecast": none is, and planets have, again for each of
            `forecast.HORIZONS`, their owner and ships then, without further launches.
        max_fleets: no player can launch when this many fleets could be exceeded; at least `max_planets`.
        max_planets: the most planets of a game.

    Attributes:
        lane_players: int64 (num_envs,), the player of each lane.
        lane_games: int64 (num_envs,), the game of each lane.
        bot_index: the place of `bot` in `bots`, -1 without one.

    `reset(options={"game_seeds": [...]})` starts the games with these seeds of the published engine, one per
    game. At the end of a game `info["outcome"]` is "win", "draw" or "loss".

    Raises:
        TypeError, ValueError: an option that is no whole number, or out of its range.
    """

    bots: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        space: EntitySpace,
        num_envs: int,
        num_players: int,
        *,
        bot: str | None,
        reward: str,
        fleets: str,
        min_ships: int,
        max_fleets: int,
        max_planets: int,
        render_mode: str | None,
    ) -> None:
        one_of("bot", bot, (None, *self.bots))
        one_of("reward", reward, REWARDS)
        one_of("fleets", fleets, FLEETS)
        min_ships = whole_number("min_ships", min_ships)
        whole_number("max_fleets", max_fleets, max_planets)
        lanes_per_game = 1 if bot else num_players
        if num_envs % lanes_per_game:
            raise ValueError(
                f"num_envs (the number of players): expected a multiple of num_players = {num_players}, got"
                f" {num_envs}"
            )
        super().__init__(space, num_envs, render_mode=render_mode)
        self.num_players, self.num_games = num_players, num_envs // lanes_per_game
        self.bot, self.reward, self.min_ships, self.fleets_shown = bot, reward, min_ships, fleets
        self.lane_players = np.arange(num_envs) % lanes_per_game
        self.lane_games: Ints = self.all_lanes // lanes_per_game
        self.bot_index = self.bots.index(bot) if bot else -1
        self._lanes_per_game = lanes_per_game
        self._next_seeds: list[int] | None = None
        self._outcome: tuple[Any, Flags] | None = None

    @abstractmethod
    def _set_up(self, game: int, seed: int) -> None:
        """Start a game on the map that the published engine makes of `seed`."""

    @abstractmethod
    def _observe(self, games: Ints, players: Ints) -> EntityBatch:
        """Return what `players` (L,) of `games` (L,) observe."""

    @abstractmethod
    def _play(
        self, targets: RaggedArray, shares: RaggedArray, rewards: Floats, terminated: Flags, results: Ints
    ) -> None:
        """Play one turn of every game, and fill the rewards of the lanes (num_envs,), which of them end, and
        with which results: -1, 0 or 1.
        """

    def _bounds(self) -> Bounds:
        return {"lane_players": (0, self.num_players - 1)}

    def _check_state(self, state: State) -> None:
        if not self.bot:
            self._expect(
                state["lane_players"] == self.lane_players,
                "lane_players",
                "each player once",
                state["lane_players"],
            )

    def _take_options(self, options: dict[str, Any]) -> None:
        seeds = reset_option(type(self).__name__, options, "game_seeds")
        if seeds is not None:
            try:
                seeds = [operator.index(seed) for seed in seeds]
            except TypeError:
                seeds = []
            if len(seeds) != self.num_games:
                raise ValueError(
                    f"game_seeds: expected {self.num_games} whole numbers, one per game, got"
                    f" {options['game_seeds']!r}"
                )
        self._next_seeds = seeds
        self._outcome = None

    def _start(self, lanes: Ints) -> None:
        seeds, self._next_seeds = self._next_seeds, None
        for lane in lanes[:: self._lanes_per_game].tolist():
            game = lane // self._lanes_per_game
            drawn = below(self.random_state[lane], 2**31)
            if self.bot:
                self.lane_players[lane] = below(self.random_state[lane], self.num_players)
            self._set_up(game, int(drawn) if seeds is None else seeds[game])

    def _look(self, lanes: Ints | None) -> EntityBatch:
        lanes = self.all_lanes if lanes is None else lanes
        return self._observe(self.lane_games[lanes], self.lane_players[lanes])

    def _advance(self, actions: dict[str, RaggedArray]) -> tuple[Floats, Flags]:
        rewards, terminated = np.empty(self.num_envs, np.float32), np.zeros(self.num_envs, bool)
        results = np.zeros(self.num_envs, np.int64)
        self._play(actions["Target"], actions["Share"], rewards, terminated, results)
        if terminated.any():
            outcome = np.full(self.num_envs, None, object)
            outcome[terminated] = np.array(["loss", "draw", "win"], object)[results[terminated] + 1]
            self._outcome = outcome, terminated.copy()
        return rewards, terminated

    def _info(self) -> dict[str, Any]:
        if self._outcome is None:
            return {}
        (outcome, ended), self._outcome = self._outcome, None
        return {"outcome": outcome, "_outcome": ended}
