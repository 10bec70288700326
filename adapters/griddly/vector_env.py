"""`GriddlyVectorEnv`: many games of Griddly, as entities."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ...envs import EntityBatch, EntityVectorEnv
from ...envs.errors import check_render_mode, checked_options, whole_number
from ...envs.seeds import lane_generators
from ...envs.vector.vector_env import StepResult
from ...ragged import RaggedArray, keep_freed_memory
from .choices import ACTION, GriddlyChoices
from .engine import Game, GriddlyStep, load
from .features import GriddlyObserver
from .library import find_game
from .options import GriddlyOptions
from .painter import Painter
from .rules import read_rules

#: The engine's seeds are int32.
_NUM_SEEDS = 1 << 31
_OUTCOMES = {"Win": "win", "Lose": "loss"}


class GriddlyVectorEnv(EntityVectorEnv):
    """`num_envs` lanes of one game of Griddly, in this process.

        venv = GriddlyVectorEnv("Clusters", num_envs=8)
        batch, info = venv.reset(seed=1)
        batch, rewards, terminated, truncated, info = venv.step(venv.action_space.sample(mask=batch))

    A lane is a player: in a game of two players lanes 0 and 1 play each other, lanes 2 and 3, and so on. Its
    entities are the objects of the game, with the game's types, in the order of their cells. Actors are the
    player's avatar, or in games without one each own object that can do something. They choose from
    `GriddlyChoices`; one whose action is left out does nothing.

    `info` holds for every lane `episode_seed` int64, the engine's seed of its episode, and `level` object,
    its level. Where a game ended that has a winner or a loser, `info["outcome"]` (num_envs,) object is "win",
    "loss", or "draw" where all lost (else None), with `_outcome` (num_envs,) bool. Episodes that a time limit
    ended are truncated.

    Args:
        game: the name of a game of the package ("Clusters"), or a path that ends in ".yaml" or ".yml".
        num_envs: how many lanes, a multiple of the number of players.
        seed: seeds the first `reset` that gives none; None: from the operating system.
        render_mode: None, or "rgb_array".
        options: those of `GriddlyOptions`.

    Attributes:
        rules: the game's description.
        games: the games, for tools that read their state.

    Raises:
        ValueError: an unknown game (the nearest name is given), a file that is no game, or an option out of
            its range.
        TypeError: an unknown option.
        ImportError: the package `griddly` is not installed.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares no ClassVar
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "final_obs": True,
        "render_modes": ["rgb_array"],
        "render_fps": 10,
    }

    def __init__(
        self,
        game: str = "Clusters",
        num_envs: int = 1,
        *,
        seed: int | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self.rules = rules = read_rules(find_game(game))
        self.num_envs = whole_number("num_envs", num_envs)
        if num_envs % rules.num_players:
            raise ValueError(
                f"num_envs: expected a multiple of {rules.num_players}, the number of players of"
                f" {rules.name}, got {num_envs}"
            )
        check_render_mode("GriddlyVectorEnv", render_mode, self.metadata["render_modes"])
        self.render_mode = render_mode
        self.options = checked_options("Griddly", GriddlyOptions, options, GriddlyVectorEnv)
        self.options.check(rules)
        self._levels = self.options.levels(rules)
        keep_freed_memory()
        description = load(rules)
        self._choices = GriddlyChoices(
            description.get_action_names(), description.get_action_input_mappings()
        )
        self._observer = GriddlyObserver(rules, self.options, self._choices)
        self.single_observation_space = self._observer.space
        self.single_action_space = self._choices.action_space
        self.games = [Game(rules, description) for _ in range(num_envs // rules.num_players)]
        starts = range(0, num_envs, rules.num_players)
        self._game_lanes = [slice(lane, lane + rules.num_players) for lane in starts]
        if rules.num_players > 1:
            self.lane_games = np.repeat(np.arange(len(self.games)), rules.num_players)
        self._seed_first_reset(seed)
        self._painter = Painter(rules)
        self._generators: list[np.random.Generator] = []
        self._episode_seeds = np.zeros(num_envs, np.int64)
        self._episode_levels = np.zeros(num_envs, object)
        self._steps = np.zeros(len(self.games), np.int64)
        self._cells = RaggedArray.empty(num_envs, (2,), np.int32)

    def _reset(
        self, seeds: list[int | None], options: dict[str, Any] | None
    ) -> tuple[EntityBatch, dict[str, Any]]:
        """Start an episode in every game, with the seed of its first lane or else its random numbers."""
        self._generators = lane_generators(seeds[:: self.rules.num_players], self._generators)
        for game in range(len(self.games)):
            self._start(game)
        return self._observe(), self._info()

    def _start(self, game: int) -> None:
        generator = self._generators[game]
        seed = int(generator.integers(_NUM_SEEDS))
        level = self._levels[int(generator.integers(len(self._levels)))]
        self.games[game].start(seed, level)
        lanes = self._game_lanes[game]
        self._episode_seeds[lanes], self._episode_levels[lanes] = seed, level
        self._steps[game] = 0

    def _step(self, actions: dict[str, RaggedArray]) -> StepResult:
        """Let every player act; actors without an action do nothing."""
        commands = self.commands(actions)
        self._steps += 1
        outcomes = [
            game.step(commands[lanes]) for game, lanes in zip(self.games, self._game_lanes, strict=True)
        ]
        rewards = np.array([reward for reward, _, _ in outcomes], np.float32).reshape(-1)
        is_over = np.array([over for _, over, _ in outcomes])
        is_cut = ~is_over & (self._steps == self.options.max_steps)
        for game in is_over.nonzero()[0]:
            has_results = outcomes[game][2].get("PlayerResults")
            if not has_results and self.rules.is_time_limit(int(self._steps[game])):
                is_over[game], is_cut[game] = False, True
        ended = (is_over | is_cut).nonzero()[0]
        batch = None if self.starts_over else self._observe()  # before games stop
        info = self._end(ended, outcomes, rewards) if len(ended) else {}
        if batch is None:
            batch = self._observe()
        count = self.rules.num_players
        return batch, rewards, is_over.repeat(count), is_cut.repeat(count), {**self._info(), **info}

    def commands(self, actions: dict[str, RaggedArray]) -> list[NDArray[np.int32]]:
        """Return for each lane what the engine takes for actions at this step.

        These are int32: with avatars (1, 2), an action and its input; else (n, 4), the object's cell before
        these.
        """
        assert self._last is not None
        choices = actions.get(ACTION)
        rows = self._choices.rows[[] if choices is None else choices.values]
        if self.rules.avatar is not None and len(rows) == self.num_envs:
            return list(rows[:, None])
        given = np.zeros(self.num_envs, np.int64) if choices is None else choices.lengths
        if self.rules.avatar is not None:
            commands = np.zeros((self.num_envs, 1, 2), np.int32)
            commands[given > 0, 0] = rows
            return list(commands)
        num_actors = self._last.actions[ACTION].actors.lengths
        cells = self._cells.values[np.repeat(given > 0, num_actors)]
        commands, ends = np.concatenate([cells, rows], 1), np.cumsum(given).tolist()
        return [commands[start:end] for start, end in pairwise([0, *ends])]

    def _end(
        self,
        ended: NDArray[np.int64],
        outcomes: list[GriddlyStep],
        rewards: NDArray[np.float32],
    ) -> dict[str, Any]:
        """Return the part of `info` on games that ended, after starting the next ones; set their rewards."""
        final = self._observer.observe([self.games[number] for number in ended])
        has_ended = np.zeros(len(self.games), bool)
        has_ended[ended] = True
        results = np.full(self.num_envs, None, object)
        for number in ended.tolist():
            game, own = self.games[number], self._game_lanes[number]
            _, is_over, outcome = outcomes[number]
            by_player = {
                int(player): _OUTCOMES[result] for player, result in outcome.get("PlayerResults", {}).items()
            }
            all_lost = len(by_player) > 1 and set(by_player.values()) == {"loss"}
            for player, result in by_player.items():
                results[own.start + player - 1] = "draw" if all_lost else result
            if self.starts_over:
                self._start(number)
            elif is_over:
                game.stop()
            if is_over:
                rewards[own] += game.settle()
        return {
            "final_obs": final,
            "_final_obs": has_ended.repeat(self.rules.num_players),
            "outcome": results,
            "_outcome": results != None,  # noqa: E711 - element by element
        }

    def _observe(self) -> EntityBatch:
        """Return what all lanes observe, and remember the cells of the actors."""
        batch = self._observer.observe(self.games)
        self._cells = RaggedArray.unchecked(self._observer.cells, batch.actions[ACTION].actors.offsets)
        return batch

    def _render(self) -> tuple[NDArray[np.uint8], ...]:
        """Return a picture (height, width, 3) of the whole board for each lane."""
        frames = [self._painter.paint(game.state(), game.board) for game in self.games]
        return tuple(frame.copy() for frame in frames for _ in range(self.rules.num_players))

    def _info(self) -> dict[str, Any]:
        return {"episode_seed": self._episode_seeds.copy(), "level": self._episode_levels.copy()}

    def close_extras(self, **kwargs: Any) -> None:
        """Release the games."""
        games, self.games = self.games, []
        for game in games:
            game.close()
