"""`PlanetWarsVectorEnv`: many games of Planet Wars in compiled code."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .....ragged import RaggedArray
from .....ragged.compiled import compiled
from ....batch.entity_batch import EntityBatch
from ....errors import whole_number
from ....spaces import EntitySpace
from ....vector.native_arrays import Flags, Floats, Ints, Words
from ....vector.native_env import native_game
from ....vector.saved_state import Bounds, State
from ....vector.vector_env import EntityVectorEnv
from ..conquest_env import MOST_SHIPS, ConquestVectorEnv, player_lanes
from ..sending import sending_actions, share_of
from .maps import MAX_PLANETS, make_map
from .rules import (
    BOTS,
    DESTINATION,
    FLEET_OWNER,
    NUM_PLAYERS,
    REMAINING,
    SOURCE,
    Galaxies,
    advance,
    empty_galaxies,
    is_alive,
    play_bot,
    set_trips,
    sum_up,
)
from .view import GLOBALS, features, seen_by, send_chosen


class PlanetWarsVectorEnv(ConquestVectorEnv):
    """Planet Wars, the Google AI Challenge of 2010: send ships from planet to planet, and own them all.

    The rules, the maps and all numbers are those of the published engine (`planet_wars` 1.0.0 of
    kaggle-environments, Apache 2.0): owned planets grow ships, fleets fly for a whole number of turns, and
    forces that meet at a planet fight. A game ends after `max_turns` - 1 turns, or when at most one player is
    left; the player with more ships wins.

    Entities: Planet (x, y, growth, ships, log_ships, mine, enemy); Fleet (x, y, where it is now;
    destination_x, destination_y, turns_remaining, ships, log_ships, mine, enemy). Places count from the
    map's centre. Global: turn, and ships and growth of the player and of the enemy.
    With `fleets="forecast"` there is no Fleet, and Planet also has `ships_in_5`, `log_ships_in_5`,
    `mine_in_5`, `enemy_in_5`, and these in 10, 20 and 40 turns.

    Actions, of each planet of the player that has ships: `Target` selects a planet; selecting itself sends
    nothing. `Share`: which part of the ships is sent: a quarter, half, three quarters, or all.

    Args:
        num_envs, bot, reward, fleets, min_ships, max_fleets: see `ConquestVectorEnv`. The bots are
            "nearest_enemy" and "random"; the outcome is 1 for a win, 0 for a draw, -1 for a loss, as in the
            engine, which has no limit of fleets.
        max_turns: `episodeSteps` of the engine.

    Raises:
        TypeError, ValueError: an option that is no whole number, or out of its range.
    """

    metadata = {**ConquestVectorEnv.metadata, "render_modes": []}  # noqa: RUF012 - as Gymnasium's
    bots: ClassVar[tuple[str, ...]] = BOTS
    state_names: ClassVar[tuple[str, ...]] = (*Galaxies._fields, "lane_players")

    def __init__(
        self,
        num_envs: int = 1,
        *,
        bot: str | None = "nearest_enemy",
        reward: str = "outcome",
        fleets: str = "entities",
        min_ships: int = 8,
        max_fleets: int = 1024,
        max_turns: int = 200,
        render_mode: str | None = None,
    ) -> None:
        max_turns = whole_number("max_turns", max_turns, 2)
        super().__init__(
            EntitySpace(features(fleets), sending_actions(), global_features=GLOBALS),
            num_envs,
            NUM_PLAYERS,
            bot=bot,
            reward=reward,
            fleets=fleets,
            min_ships=min_ships,
            max_fleets=max_fleets,
            max_planets=MAX_PLANETS,
            render_mode=render_mode,
        )
        self.max_turns = max_turns
        self.galaxies = empty_galaxies(self.num_games, max_fleets)
        for name, array in self.galaxies._asdict().items():
            setattr(self, name, array)

    def _set_up(self, game: int, seed: int) -> None:
        galaxies, (places, owned) = self.galaxies, make_map(seed)
        count = len(places)
        for array in (galaxies.owned, galaxies.fleets, galaxies.fleet_counts, galaxies.turns):
            array[game] = 0
        galaxies.planet_counts[game] = count
        galaxies.places[game, :count], galaxies.owned[game, :count] = places, owned
        set_trips(places, galaxies.trips[game])

    def _bounds(self) -> Bounds:
        most = (NUM_PLAYERS, MOST_SHIPS, MAX_PLANETS - 1, MAX_PLANETS - 1, 100, 100)
        return {
            **super()._bounds(),
            "owned": (0, (NUM_PLAYERS, MOST_SHIPS, 5)),
            "trips": (0, 100),
            "planet_counts": (3, MAX_PLANETS),
            "fleets": (0, most),
            "fleet_counts": (0, self.galaxies.fleets.shape[1]),
            "turns": (0, self.max_turns - 2),
        }

    def _check_state(self, state: State) -> None:
        super()._check_state(state)
        fleets = state["fleets"]
        is_there = np.arange(fleets.shape[1]) < state["fleet_counts"][:, None]
        fits = ~is_there | ((fleets[..., FLEET_OWNER] > 0) & (fleets[..., REMAINING] > 0))
        self._expect(fits, "fleets", "an owner and turns that remain", fleets)
        counts = state["planet_counts"][:, None]
        fits = ~is_there | (fleets[..., SOURCE] < counts) & (fleets[..., DESTINATION] < counts)
        self._expect(fits, "fleets", "planets that are there", fleets)

    def _play(
        self, targets: RaggedArray, shares: RaggedArray, rewards: Floats, terminated: Flags, results: Ints
    ) -> None:
        _play(
            self.galaxies,
            self.lane_players,
            self.lane_games,
            self.bot_index,
            targets.values,
            shares.values,
            targets.offsets,
            self.min_ships,
            self.max_turns,
            self.reward == "share",
            self.random_state,
            rewards,
            terminated,
            results,
        )

    def _observe(self, games: Ints, players: Ints) -> EntityBatch:
        return seen_by(self.galaxies, games, players + 1, self.min_ships, self.fleets_shown)


PlanetWars, make_vec = native_game(PlanetWarsVectorEnv)


def make_lanes(num_envs: int = 2, num_workers: int = 0, **options: Any) -> EntityVectorEnv:
    """`num_envs` players, in `num_workers` processes or (with 0) in this one: "PlanetWars/lanes".

    Options as for `PlanetWarsVectorEnv`, without `bot`.
    """
    return player_lanes(PlanetWarsVectorEnv, "PlanetWars/lanes", NUM_PLAYERS, num_envs, num_workers, options)


@compiled
def _play(
    galaxies: Galaxies,
    lane_players: Ints,
    lane_games: Ints,
    bot: int,
    targets: Ints,
    shares: Ints,
    offsets: Ints,
    min_ships: int,
    max_turns: int,
    pays_share: bool,
    random_state: Words,
    rewards: Floats,
    terminated: Flags,
    results: Ints,
) -> None:
    """Play one turn of every game.

    Fourteen parameters, because they are all that a step depends on.
    """
    ships, growth = np.empty(NUM_PLAYERS + 1, np.int64), np.empty(NUM_PLAYERS + 1, np.int64)
    lane = 0
    for game in range(len(galaxies.turns)):
        first = lane
        while lane < len(lane_players) and lane_games[lane] == game:
            lane += 1
        sum_up(galaxies, game, ships, growth)
        for i in range(first, lane):
            rewards[i] = -share_of(ships[1:], lane_players[i]) if pays_share else 0.0
        for player in range(1, NUM_PLAYERS + 1):
            is_bot = True
            for i in range(first, lane):
                if lane_players[i] + 1 == player:
                    is_bot = False
                    own = slice(offsets[i], offsets[i + 1])
                    send_chosen(galaxies, game, player, targets[own], shares[own], min_ships)
            if is_bot:
                play_bot(bot, galaxies, game, player, random_state[first])
        advance(galaxies, game)
        alive = sum_up(galaxies, game, ships, growth)
        is_over = alive <= 1 or galaxies.turns[game] >= max_turns - 1
        for i in range(first, lane):
            own_ships, others = ships[lane_players[i] + 1], ships[2 - lane_players[i]]
            if pays_share:
                rewards[i] += share_of(ships[1:], lane_players[i])
            if is_over:
                terminated[i] = True
                results[i] = np.sign(own_ships - others)
                if alive == 1:  # perhaps without a ship
                    results[i] = 1 if is_alive(galaxies, game, lane_players[i] + 1) else -1
                rewards[i] += results[i]
