"""`GameLanes`: each agent of one or several PettingZoo games as a lane of a vector environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product, repeat
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ...envs import ActionError, EntityBatch, EntityVectorEnv
from ...envs.seeds import Seeds
from ...envs.vector.infos import lane_mask, merge_infos
from ...envs.vector.vector_env import GivenActions, StepResult
from ...ragged import RaggedArray
from .agent_observer import AgentObservation, AgentObserver
from .game import FinalStep, PettingZooGame
from .game_runner import GameRunner
from .opponents import GameOpponent


class GameLanes(EntityVectorEnv):
    """Vector environment with one lane for each agent of PettingZoo games; made by `from_pettingzoo`.

    The lanes are the agents of the first game, then those of the second, and so on (see `agents`). One step
    is one step of each parallel game, and one agent's turn in each turn-based game.

    - When an agent ends, its lane ends: `terminated` or `truncated` at that step, with its last observation
      in `final_obs` if the game gave one (always, if it was only truncated).
    - From then on the lane is inactive (`info["inactive"]`, see `EntityVectorEnv`), without entities and
      actors, until its game is reset: in the step in which the last of the game's lanes ends.
    - Also inactive are the lane of an agent that waits for its turn, which keeps getting observations and
      rewards; of one without a legal action; and of one that has not joined the game yet.
    - If opponents end a game before any lane could act, the next step reports it; until then its lanes are
      inactive.
    - Every active lane needs its actions: an action that is left out is an `ActionError` that names the game,
      the lane, its agent and the action (see `EntityActionSpace`). Inactive lanes need none.

    Infos are the agents', merged as in `ListVectorEnv`; those of ended agents are in `final_info`.

    Attributes:
        agents: for each lane the index of its game and the name of its agent.

    Raises:
        ActionError: an unknown action, one of the wrong length, or a masked choice; no game has moved.
        ObservationError: a game broke PettingZoo's rules, or returned an observation outside its space; reset
            before the next step.
        WorkerError: a game or an opponent raised; the message names the game and the call, and all games have
            been closed.
    """

    def __init__(
        self,
        games: Sequence[PettingZooGame],
        learners: Sequence[str],
        opponents: Mapping[str, GameOpponent],
        observer: AgentObserver,
    ) -> None:
        first = games[0]
        self._observer = observer
        self._runner = GameRunner(games, learners, opponents, observer.observe_final, len(learners))
        self.num_envs = len(games) * len(learners)
        self.agents: list[tuple[int, str]] = [(m.index, agent) for m in games for agent in learners]
        self.lane_games = np.repeat(np.arange(len(games)), len(learners))
        self.single_observation_space = observer.observation_space
        self.single_action_space = observer.observation_space.actions
        self.render_mode = getattr(first.env, "render_mode", None)
        self.metadata = {
            **first.env.metadata,
            "autoreset_mode": AutoresetMode.SAME_STEP,
            "final_obs": True,
        }
        self._name = first.name
        self.lane_names = [lane_name(lane, game, agent) for lane, (game, agent) in enumerate(self.agents)]
        self._acting: list[str | None] = []
        self._has_opponents = bool(opponents)
        self._uses_arrays = False

    def _seeds(self, seed: Seeds) -> Seeds:
        return game_seed(seed)

    def _reset(self, seed: Any, options: dict[str, Any] | None) -> tuple[EntityBatch, dict[str, Any]]:
        """Start all games; game i gets `seed` + i, and every game the `options`."""
        self._runner.reset(seed, options)
        self._uses_arrays = not self._has_opponents and all(map(self._use_array_step, self._runner.games))
        batch = self._observe()
        return batch, self._with_inactive(merge_infos(self._infos(), self.num_envs), batch)

    def _checked(self, actions: GivenActions) -> dict[str, RaggedArray]:
        try:
            return super()._checked(actions)
        except ActionError as error:
            raise ActionError(f"{self._name}: {error}") from None

    def _step(self, actions: dict[str, RaggedArray]) -> StepResult:
        """Step each game; see the class."""
        rewards, ended = self._play(actions)
        terminated = lane_mask({lane: step for lane, step in ended.items() if step.terminated}, self.num_envs)
        truncated = lane_mask({lane: step for lane, step in ended.items() if step.truncated}, self.num_envs)
        finals = {lane: step.observation for lane, step in ended.items() if step.observation is not None}
        final = self._observer.batch(list(finals.values())) if finals else None
        self._runner.restart()
        batch = self._observe()
        info = merge_infos(self._infos(), self.num_envs)
        if ended:
            info["final_info"] = merge_infos({lane: step.info for lane, step in ended.items()}, self.num_envs)
            info["_final_info"] = lane_mask(ended, self.num_envs)
        if final is not None:
            info["final_obs"] = final
            info["_final_obs"] = lane_mask(finals, self.num_envs)
        return batch, rewards, terminated, truncated, self._with_inactive(info, batch)

    def _with_inactive(self, info: dict[str, Any], batch: EntityBatch) -> dict[str, Any]:
        """Return `info` with which lanes are inactive, in place of a key of the games of that name."""
        info.pop("_inactive", None)
        return {**info, "inactive": _inactive(batch)}

    def _play(self, actions: dict[str, RaggedArray]) -> tuple[NDArray[np.float32], dict[int, FinalStep]]:
        """Step each game; return the rewards (B,), and the last step of each agent that ended, by lane."""
        if self._uses_arrays:
            chosen = self._observer.actions.discrete_actions(actions, self._acting)
            all_rewards, ended = self._runner.play_arrays(chosen)
            return all_rewards.astype(np.float32), ended
        outcomes = self._runner.play(self._by_game(self._observer.game_actions(actions, self._acting)))
        learners = self._runner.learners
        rewards = np.array(
            [reward for o in outcomes for reward in map(o.rewards.get, learners, repeat(0.0))], np.float32
        )
        return rewards, {
            lane: outcome.ended[agent]
            for index, outcome in enumerate(outcomes)
            if outcome.ended
            for lane, agent in enumerate(learners, index * len(learners))
            if agent in outcome.ended
        }

    def _use_array_step(self, game: PettingZooGame) -> bool:
        with self._runner.guard(game):
            return self._observer.use_array_step(game)

    def _by_game(self, raw: Sequence[Any]) -> dict[int, dict[str, Any]]:
        """Group the lanes' PettingZoo actions by game."""
        width = len(self._runner.learners)
        actions: dict[int, dict[Any, Any]] = {}
        for index, start in enumerate(range(0, self.num_envs, width)):
            lanes = slice(start, start + width)
            actions[index] = dict(zip(self._acting[lanes], raw[lanes], strict=True))
            actions[index].pop(None, None)  # lanes in which no agent acts
        return actions

    def _observe(self) -> EntityBatch:
        """Return the observations of all lanes; store which agents act next."""
        games, learners = self._runner.games, self._runner.learners
        together = self._observer.observe_games(games, learners, self._runner.guard)
        if together is not None:
            batch, self._acting = together
            return batch
        observations: list[AgentObservation | None] = []
        for game in self._runner.games:
            agents, acting = set(game.agents), set(game.acting)
            with self._runner.guard(game):
                for agent in self._runner.learners:
                    seen = self._observer.observe(game, agent, agent in acting) if agent in agents else None
                    observations.append(seen)
        self._acting = [
            observation.agent if observation is not None and observation.acts else None
            for observation in observations
        ]
        return self._observer.batch(observations)

    def _infos(self) -> dict[int, dict[str, Any]]:
        """Return the infos of agents in play, by lane, without empty ones."""
        if not any(game.has_infos for game in self._runner.games):
            return {}
        playing = {game.index: set(game.agents) for game in self._runner.games}
        infos = {
            lane: game.info(agent)
            for lane, (game, agent) in enumerate(product(self._runner.games, self._runner.learners))
            if agent in playing[game.index]
        }
        return {lane: info for lane, info in infos.items() if info}

    def set_progress(self, fraction: float) -> None:
        """Pass the progress of training on to the games that have a method `set_progress`."""
        self._runner.set_progress(fraction)

    def _render(self) -> tuple[Any, ...]:
        """Return one frame per lane: that of its game."""
        frames = self._runner.render()
        return tuple(frame for frame in frames for _ in self._runner.learners)

    def close_extras(self, **kwargs: Any) -> None:
        self._runner.close()


def lane_name(lane: int, game: int, agent: str) -> str:
    """Return what errors call a lane."""
    return f"lane {lane} ({agent!r} of game {game})"


def game_seed(seed: Seeds) -> int | None:
    """Return the seed of the first of several games, of which game i gets `seed` + i.

    Raises:
        ValueError: it is no whole number, or negative.
    """
    if seed is not None and (not isinstance(seed, int | np.integer) or seed < 0):
        raise ValueError(f"seed: expected a whole number, not below 0, or None, got {seed!r}")
    return None if seed is None else int(seed)


def _inactive(batch: EntityBatch) -> NDArray[np.bool_]:
    """Return a flag for each lane (B,): True if it has no actor."""
    inactive = np.ones(len(batch), bool)
    for part in batch.actions.values():
        inactive &= part.actors.offsets[1:] == part.actors.offsets[:-1]
    return inactive
