"""`OrbitWarsVectorEnv`: many games of Orbit Wars in compiled code."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from .....ragged import RaggedArray
from .....ragged.compiled import compiled
from ....batch.entity_batch import EntityBatch
from ....errors import positive_number, whole_number
from ....spaces import EntitySpace
from ....vector.native_arrays import Flags, Floats, Ints, Pixels, Words
from ....vector.native_env import native_game
from ....vector.saved_state import Bounds, State
from ....vector.vector_env import EntityVectorEnv
from ..conquest_env import MOST_SHIPS, ConquestVectorEnv, player_lanes
from ..sending import sending_actions, sending_batch, share_of
from .bots import BOTS, play_bot
from .foresight import room_ahead
from .maps import COMET_TICKS, MAX_PATH, MAX_PLANETS, SUN_RADIUS, make_map
from .rules import MAX_SLOTS, Boards, count_ships, empty_boards, num_slots, set_orbits, spawn_comets, tick
from .view import GLOBALS, TURNS, carry_out, count_seen, features, observe, order_launches

#: The engine's exponents; kernels must not know them, see `maps`.
_EXPONENTS = (2.0, 1.5)
#: The planets of a group of four that are the players' homes.
_HOMES = {2: (0, 3), 4: (0, 1, 2, 3)}
_NUM_TICKS = 499
_HOME_SHIPS = 10

_PIXELS = 400
_NIGHT, _SUN, _NEUTRAL_COLOUR = (18, 20, 34), (250, 200, 80), (130, 130, 140)
_COLOURS = ((80, 160, 255), (255, 110, 90), (110, 220, 120), (210, 130, 255))


class OrbitWarsVectorEnv(ConquestVectorEnv):
    """Orbit Wars: conquer planets that circle around a sun, by fleets that fly straight.

    The rules, the maps and all numbers are those of the game's published engine (`orbit_wars` 1.0.9 of
    kaggle-environments, Apache 2.0), tick by tick: planets make ships, fleets that meet a planet fight for
    it, comets come and go, the sun burns what flies through it. A game ends after 499 ticks, or when at most
    one player is left; the player with the most ships wins.

    Entities: Planet (x, y, vx, vy, radius, production, comet_ticks, ships, log_ships, mine, enemy), comets
    included, whose `comet_ticks` say how long they stay; Fleet (x, y, vx, vy, ships, log_ships, mine, enemy).
    Positions count from the sun, velocities are per tick, and the board is turned so that all players see
    their homes in the same quarter. Four players see `enemy1` to `enemy3`, in turning order. Global: tick,
    angular_velocity, and ships and production of the player and of all others together.
    With `fleets="forecast"` there is no Fleet, and Planet also has `ships_in_5`, `log_ships_in_5`,
    `mine_in_5`, `enemy_in_5`, and these in 10, 20 and 40 ticks; comets that come later are not foreseen.

    Actions, of each planet of the player that has ships: `Target` selects a planet; fleets fly to where it
    will be. Selecting itself sends nothing, and so does a target behind the sun. `Share`: which part of the
    ships is sent: a quarter, half, three quarters, or all.

    Args:
        num_envs, bot, reward, fleets, min_ships, max_fleets: see `ConquestVectorEnv`. The bots are
            "starter" and "random"; the outcome is 1 for the most ships at the end, -1 for the
            others, as in the engine, which has no limit of fleets.
        num_players: 2 or 4.
        ship_speed, comet_speed: of the engine's configuration.

    Raises:
        ValueError: an option out of its range.
    """

    metadata = {**ConquestVectorEnv.metadata, "render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 - as Gymnasium's
    bots: ClassVar[tuple[str, ...]] = BOTS
    state_names: ClassVar[tuple[str, ...]] = (*Boards._fields, "lane_players")

    def __init__(
        self,
        num_envs: int = 1,
        *,
        num_players: int = 2,
        bot: str | None = "starter",
        reward: str = "outcome",
        fleets: str = "entities",
        min_ships: int = 8,
        max_fleets: int = 1024,
        ship_speed: float = 6.0,
        comet_speed: float = 4.0,
        render_mode: str | None = None,
    ) -> None:
        if whole_number("num_players", num_players, 0) not in _HOMES:
            raise ValueError(f"num_players: expected 2 or 4, got {num_players}")
        for name, value in (("ship_speed", ship_speed), ("comet_speed", comet_speed)):
            if not 1.0 <= positive_number(name, value) <= 100.0:
                raise ValueError(f"{name}: expected 1 to 100, got {value}")
        space = EntitySpace(features(num_players, fleets), sending_actions(), global_features=GLOBALS)
        super().__init__(
            space,
            num_envs,
            num_players,
            bot=bot,
            reward=reward,
            fleets=fleets,
            min_ships=min_ships,
            max_fleets=max_fleets,
            max_planets=MAX_SLOTS,
            render_mode=render_mode,
        )
        self.ship_speed, self.comet_speed = float(ship_speed), float(comet_speed)
        self.boards = empty_boards(self.num_games, max_fleets)
        for name, array in self.boards._asdict().items():
            setattr(self, name, array)

    def _set_up(self, game: int, seed: int) -> None:
        boards, made = self.boards, make_map(seed, self.comet_speed)
        for array in boards:
            array[game] = 0
        count = len(made.bodies)
        boards.planets[game, :count, :3] = made.bodies
        boards.owned[game, :, 0] = -1
        boards.owned[game, :count, 1:] = made.contents
        boards.planet_counts[game], boards.velocities[game] = count, made.angular_velocity
        boards.paths[game], boards.path_lengths[game] = made.paths, made.path_lengths
        boards.comet_ships[game], boards.comet_groups[game] = made.comet_ships, -1
        for player, home in enumerate(_HOMES[self.num_players]):
            boards.owned[game, made.home * 4 + home, :2] = player, _HOME_SHIPS
        set_orbits(boards, game, _EXPONENTS[0])

    def _bounds(self) -> Bounds:
        return {
            **super()._bounds(),
            "owned": ((-1, 0, 0), (self.num_players - 1, MOST_SHIPS, 5)),
            "planet_counts": (4, MAX_PLANETS),
            "crews": (0, (self.num_players - 1, MOST_SHIPS, MAX_SLOTS, MOST_SHIPS)),
            "fleet_counts": (0, self.boards.fleets.shape[1]),
            "next_ids": (0, MOST_SHIPS),
            "path_lengths": (0, MAX_PATH),
            "comet_ships": (0, 99),
            "comet_groups": (-1, len(COMET_TICKS) - 1),
            "comet_ages": (0, MAX_PATH),
            "ticks": (0, _NUM_TICKS - 1),
        }

    def _check_state(self, state: State) -> None:
        super()._check_state(state)
        groups, ages = state["comet_groups"], state["comet_ages"]
        games = np.arange(len(groups))
        fits = (groups < 0) | (ages < state["path_lengths"][games, groups])
        self._expect(fits, "comet_ages", "a place on the comets' path", ages)
        is_there = np.arange(self.boards.fleets.shape[1]) < state["fleet_counts"][:, None]
        self._expect(~is_there | (state["crews"][..., 1] > 0), "crews", "ships in each fleet", state["crews"])

    def _play(
        self, targets: RaggedArray, shares: RaggedArray, rewards: Floats, terminated: Flags, results: Ints
    ) -> None:
        _play(
            self.boards,
            self.lane_players,
            self.lane_games,
            self.num_players,
            self.bot_index,
            targets.values,
            shares.values,
            targets.offsets,
            self.min_ships,
            self.ship_speed,
            _EXPONENTS,
            self.reward == "share",
            self.random_state,
            rewards,
            terminated,
            results,
        )

    def _observe(self, games: Ints, players: Ints) -> EntityBatch:
        return seen_by(self.boards, games, players, self.num_players, self.min_ships, self.fleets_shown)

    def _draw(self, lane: int) -> Pixels:
        """The board, 400 × 400: the sun, planets and fleets in their owners' colours."""
        game = int(self.lane_games[lane])
        boards = self.boards
        picture = np.full((_PIXELS, _PIXELS, 3), _NIGHT, np.uint8)
        _disc(picture, 50.0, 50.0, SUN_RADIUS, _SUN)
        for slot in range(num_slots(boards, game)):
            x, y, radius = boards.planets[game, slot, :3].tolist()
            owner = int(boards.owned[game, slot, 0])
            _disc(picture, x, y, radius, _NEUTRAL_COLOUR if owner < 0 else _COLOURS[owner])
        for row in range(int(boards.fleet_counts[game])):
            x, y = boards.fleets[game, row, :2].tolist()
            size = 0.4 + 0.2 * np.log(boards.crews[game, row, 1])
            _disc(picture, x, y, size, _COLOURS[int(boards.crews[game, row, 0])])
        return picture


OrbitWars, make_vec = native_game(OrbitWarsVectorEnv)


def make_lanes(num_envs: int = 2, num_workers: int = 0, **options: Any) -> EntityVectorEnv:
    """`num_envs` players, in `num_workers` processes or (with 0) in this one: "OrbitWars/lanes".

    Options as for `OrbitWarsVectorEnv`, without `bot`.
    """
    num_players = max(1, whole_number("num_players", options.get("num_players", 2), 0))
    return player_lanes(OrbitWarsVectorEnv, "OrbitWars/lanes", num_players, num_envs, num_workers, options)


def seen_by(
    boards: Boards, games: Ints, players: Ints, num_players: int, min_ships: int, fleets: str
) -> EntityBatch:
    """Return what `players` (L,) of `games` (L,) observe; `fleets`: see `ConquestVectorEnv`."""
    names = features(num_players, fleets)
    offsets = np.empty((4, len(games) + 1), np.int64)
    count_seen(boards, games, players, "Fleet" in names, min_ships, offsets)
    ahead = room_ahead(fleets, boards.fleets.shape[1], _EXPONENTS[0])
    write = partial(observe, boards, games, players, TURNS[num_players], ahead, min_ships, offsets)
    return sending_batch(names, len(GLOBALS), offsets, write)


def _disc(picture: Pixels, x: float, y: float, radius: float, colour: tuple[int, int, int]) -> None:
    scale = _PIXELS / 100
    x, y, radius = x * scale, y * scale, max(radius * scale, 1.0)
    top, left = max(int(y - radius), 0), max(int(x - radius), 0)
    part = picture[top : max(int(y + radius) + 2, 0), left : max(int(x + radius) + 2, 0)]
    rows, columns = np.ogrid[top : top + part.shape[0], left : left + part.shape[1]]
    part[(rows - y) ** 2 + (columns - x) ** 2 <= radius**2] = colour


@compiled
def _play(
    boards: Boards,
    lane_players: Ints,
    lane_games: Ints,
    num_players: int,
    bot: int,
    targets: Ints,
    shares: Ints,
    offsets: Ints,
    min_ships: int,
    max_speed: float,
    exponents: tuple[float, float],
    pays_share: bool,
    random_state: Words,
    rewards: Floats,
    terminated: Flags,
    results: Ints,
) -> None:
    """Play one tick of every game: launches in the order of the players, then the rules.

    Sixteen parameters, because they are all that a step depends on.
    """
    two, one_and_a_half = exponents
    ships, production = np.empty(num_players, np.int64), np.empty(num_players, np.int64)
    moves = np.empty((boards.planets.shape[1], 3))
    lane = 0
    for game in range(len(boards.ticks)):
        first = lane
        while lane < len(lane_players) and lane_games[lane] == game:
            lane += 1
        rewards[first:lane] = 0.0
        if pays_share:
            count_ships(boards, game, ships, production)
            for i in range(first, lane):
                rewards[i] = -share_of(ships, lane_players[i])
        for player in range(num_players):
            is_bot = True
            for i in range(first, lane):
                if lane_players[i] == player:
                    is_bot = False
                    own = slice(offsets[i], offsets[i + 1])
                    count = order_launches(
                        boards,
                        game,
                        player,
                        targets[own],
                        shares[own],
                        min_ships,
                        max_speed,
                        one_and_a_half,
                        moves,
                    )
                    carry_out(boards, game, player, moves[:count], max_speed, one_and_a_half)
            if is_bot:
                play_bot(bot, boards, game, player, exponents, max_speed, random_state[first])
        spawn_comets(boards, game)
        tick(boards, game, two)
        alive = count_ships(boards, game, ships, production)
        is_over = alive <= 1 or boards.ticks[game] >= _NUM_TICKS
        most = ships.max()
        num_best = (ships == most).sum()
        for i in range(first, lane):
            is_best = ships[lane_players[i]] == most and most > 0
            if pays_share:
                rewards[i] += share_of(ships, lane_players[i])
            if is_over:
                rewards[i] += 1.0 if is_best else -1.0
                terminated[i] = True
                results[i] = (0 if num_best > 1 else 1) if is_best else -1
