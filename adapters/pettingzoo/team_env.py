"""`TeamEnv`: the agents of a team as actor entities of one observation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import gymnasium

from ...envs import EntityEnv, Observation
from ...envs.actions import Action
from ...envs.env import Transition
from .agent_actions import Acting, team_actions
from .game import GameStep, PettingZooGame
from .game_runner import GameRunner
from .game_view_observer import GameViewObserver
from .opponents import GameOpponent
from .space_observer import SpaceObserver

#: Reduction of the team's rewards to one.
Pooling = Literal["sum", "mean"]
POOLINGS = ("sum", "mean")


class TeamEnv(EntityEnv):
    """A team of a PettingZoo game as one environment with joint actions; made by `from_pettingzoo`.

    Every agent of the team that is in play is an entity with its name as id. It is an actor when it must act:
    all of them in a parallel game, one in a turn-based game. Ended agents disappear from the observation. The
    episode ends when no agent of the team is left: `truncated` if one of the last was truncated, with those
    agents in the observation, otherwise `terminated`.

    An action that is left out although it has actors is an `ActionError` (see `EntityActionSpace`). The
    reward is the team's sum or mean; `info` has each agent's info by name.

    Args:
        game: the game.
        team: the agents of the team.
        opponents: the controllers of the other agents.
        observer: encodes the team's observations.
        pooling: the sum of the rewards, or the mean over the agents that were in play.

    Raises, besides what `EntityEnv` raises:
        WorkerError: the game or an opponent raised; the message names the game and the call, and the game has
            been closed.
        gymnasium.error.ClosedEnvironmentError: a call after that, or after `close`.
    """

    def __init__(
        self,
        game: PettingZooGame,
        team: Sequence[str],
        opponents: Mapping[str, GameOpponent],
        observer: SpaceObserver | GameViewObserver,
        pooling: Pooling = "sum",
    ) -> None:
        self._game, self._team, self._observer, self._pooling = game, tuple(team), observer, pooling
        self._runner = GameRunner([game], team, opponents, observer.observe_final)
        self.observation_space = observer.observation_space
        self.action_space = observer.observation_space.actions
        self.metadata = dict(game.env.metadata)
        self.render_mode = getattr(game.env, "render_mode", None)
        self._seed: int | None = None
        self._acting: Acting = {}
        self._cancelling: bool | None = (
            None  # all rewards so far; None: there were none, False: no more checks
        )

    @property
    def agents(self) -> list[str]:
        """The agents of the team that are in play."""
        return [agent for agent in self._team if agent in self._game.agents]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode; the seed is used for the game and the opponents."""
        self._check_open()
        self._seed = seed
        observation, _ = super().reset(seed=seed, options=options)
        return observation, self._infos(GameStep())

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self._check_open()
        return super().step(action)

    def set_progress(self, fraction: float) -> None:
        """Pass the progress of training on to the game, if it has a method `set_progress`."""
        self._runner.set_progress(fraction)

    def _reset(self, options: dict[str, Any]) -> Observation:
        self._runner.reset(self._seed, options or None)
        return self._observation({})

    def _step(self, actions: dict[str, Action]) -> Transition:
        (outcome,) = self._runner.play({0: team_actions(self._acting, actions)})
        team = self._team
        rewards = [outcome.rewards[agent] for agent in team if agent in outcome.rewards]
        reward = sum(rewards) / (max(len(rewards), 1) if self._pooling == "mean" else 1)
        over = self._runner.is_over(self._game)
        self._check_cancelling(rewards, over)
        final_steps = {agent: outcome.ended[agent] for agent in team if agent in outcome.ended}
        cut_off = {a: final.observation for a, final in final_steps.items() if over and not final.terminated}
        observation = self._observation(cut_off)
        return observation, reward, over and not cut_off, bool(cut_off), self._infos(outcome)

    def _check_cancelling(self, rewards: Sequence[float], over: bool) -> None:
        """Warn at the end of the first episode with rewards if they cancelled each other at every step."""
        if self._cancelling is not False and any(rewards):
            self._cancelling = sum(rewards) == 0
        if over and self._cancelling:
            self._cancelling = False
            warnings.warn(
                f"{self._game.name}: the rewards of the team {list(self._team)} sum to 0 at every step:"
                " expected agents with a common goal, got opponents. Pass team= and opponents=, or use"
                " mode='lanes'",
                stacklevel=2,
            )

    def _observation(self, cut_off: Mapping[str, Any]) -> Observation:
        """Return the team's observation; store which agents act next."""
        with self._runner.guard(self._game):
            observation = self._observer.team_observation(self._game, self._team, cut_off)
            observation.actions, self._acting = {}, {}
            if not self._runner.is_over(self._game):
                observation.actions, self._acting = self._observer.actions.team_masks(self._game)
        return observation

    def _infos(self, outcome: GameStep) -> dict[str, Any]:
        infos = {agent: self._game.info(agent) for agent in self.agents}
        infos |= {a: outcome.ended[a].info for a in self._team if a in outcome.ended}
        return {agent: info for agent, info in infos.items() if info}

    def _shown_name(self) -> str:
        return self._game.name

    def render(self) -> Any:
        self._check_open()
        return self._game.env.render()

    def close(self) -> None:
        self._runner.close()

    def _check_open(self) -> None:
        if self._runner.closed:
            raise gymnasium.error.ClosedEnvironmentError(f"{self._game.name} has been closed")
