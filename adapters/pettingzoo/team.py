"""`TeamEnv`: the agents of a team as actor entities of one observation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import gymnasium

from ...envs import EntityEnv, Observation
from ...envs.actions import Action
from ...envs.batch.dispatch import Dispatcher
from ...envs.batch.resolve import Resolver
from ...envs.env import Transition
from .match import Match, Outcome
from .opponents import Opponent
from .table import Table
from .team_sight import TeamSight, raw_actions

#: How the rewards of a team become one.
Pooling = Literal["sum", "mean"]
POOLINGS = ("sum", "mean")


class TeamEnv(EntityEnv):
    """A team of a PettingZoo game as one environment, ordered jointly; made by `from_pettingzoo`.

    Every agent of the team that is in play is an entity with its name as id, and acts where it must move: all
    of them in a parallel game, one in a game that is played in turns. An agent that has ended is an entity
    less. The episode ends when no agent of the team is left: `truncated` if one of the last was only cut off,
    and then the observation shows those, otherwise `terminated`.

    An agent that is told nothing takes its first legal choice, and of real numbers the one nearest to 0. The
    reward is the team's, pooled; `info` has each agent's info by name.

    Args:
        match: the game.
        opponents: who plays for the agents that are not of the team.
        sight: how the team sees.
        pooling: the sum of the rewards, or the mean over the agents that were in play.

    Raises, besides what `EntityEnv` raises:
        WorkerError: the game or an opponent raised; game and move are named, and the game has been closed.
        gymnasium.error.ClosedEnvironmentError: a call after that, or after `close`.
    """

    def __init__(
        self, match: Match, opponents: Mapping[str, Opponent], sight: TeamSight, pooling: Pooling = "sum"
    ) -> None:
        self._match, self._sight, self._pooling = match, sight, pooling
        self._table = Table([match], sight.team, opponents, sight.last_look)
        self.observation_space = sight.observation_space
        self.action_space = sight.observation_space.actions
        self.metadata = dict(match.env.metadata)
        self.render_mode = getattr(match.env, "render_mode", None)
        self._seed: int | None = None
        self._moving: dict[Any, Any] = {}

    @property
    def agents(self) -> list[str]:
        """The agents of the team that are in play."""
        return [agent for agent in self._sight.team if agent in self._match.living]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start a game; the seed is the game's and the opponents'."""
        self._check_open()
        self._seed = seed
        observation, _ = super().reset(seed=seed, options=options)
        return observation, self._infos(Outcome())

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self._check_open()
        return super().step(action)

    def _reset(self, options: dict[str, Any]) -> Observation:
        self._table.reset(self._seed, options or None)
        return self._look({})

    def _step(self, actions: dict[str, Action]) -> Transition:
        (outcome,) = self._table.play({0: raw_actions(self._moving, actions)})
        team = self._sight.team
        rewards = [outcome.rewards[agent] for agent in team if agent in outcome.rewards]
        reward = sum(rewards) / (max(len(rewards), 1) if self._pooling == "mean" else 1)
        over = self._table.is_over(self._match)
        endings = {agent: outcome.ended[agent] for agent in team if agent in outcome.ended}
        cut_off = {a: ending.last for a, ending in endings.items() if over and not ending.terminated}
        observation = self._look(cut_off)
        return observation, reward, over and not cut_off, bool(cut_off), self._infos(outcome)

    def _look(self, cut_off: Mapping[str, Any]) -> Observation:
        """What the team sees now; notes who moves next."""
        with self._table.guard(self._match):
            observation = self._sight.entities(self._match, cut_off)
            observation.actions, self._moving = {}, {}
            if not self._table.is_over(self._match):
                observation.actions, self._moving = self._sight.orders(self._match)
        return observation

    def _infos(self, outcome: Outcome) -> dict[str, Any]:
        infos = {agent: self._match.info(agent) for agent in self.agents}
        infos |= {a: outcome.ended[a].info for a in self._sight.team if a in outcome.ended}
        return {agent: info for agent, info in infos.items() if info}

    def _prepare(self) -> None:
        """Error messages name the game, not this class."""
        super()._prepare()
        self._dispatcher = Dispatcher(self.action_space, self._match.name)
        self._resolver = Resolver(self.observation_space, self._match.name)

    def render(self) -> Any:
        self._check_open()
        return self._match.env.render()

    def close(self) -> None:
        self._table.close()

    def _check_open(self) -> None:
        if self._table.closed:
            raise gymnasium.error.ClosedEnvironmentError(f"{self._match.name} has been closed")
