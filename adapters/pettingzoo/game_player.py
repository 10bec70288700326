"""`GamePlayer`: a policy that acts in a game's own loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .agent_names import resolve
from .conversion import known_view, observer_factory, pettingzoo_classes
from .game import FinalObserver, GameStep, PettingZooGame
from .game_view import GameView
from .opponents import OpponentPolicy, PolicyOpponent, observer_for
from .space_observer import Views


class GamePlayer:
    """Acts for agents of a PettingZoo game that you step yourself, with a policy trained in its lanes.

        player = ez.pettingzoo.GamePlayer(ez.load_policy("runs/connect_four"), game)
        game.reset(seed=1)
        for agent in game.agent_iter():
            observation, reward, terminated, truncated, info = game.last()
            over = terminated or truncated
            game.step(None if over else player.act(agent, observation, info))

    The game stays as it is: its observations go in, and its own actions come out.

    Args:
        policy: has `act(batch, rng, deterministic)`, such as one of `ez.load_policy` or `ez.load_agent`. It
            was trained in lanes of `from_pettingzoo`: of these agents, or of all agents.
        env: the `ParallelEnv` or `AECEnv`, of which a `GameView` reads the state. One that has not been
            reset yet may be reset here.
        view: as it was in training, see `from_pettingzoo`.
        agents: names or kinds of the agents that it plays; None: all.
        deterministic: take the most probable actions instead of sampling.
        seed: of the sampling; None: from the operating system.

    Raises:
        ImportError: PettingZoo is not installed.
        TypeError: `env` is no PettingZoo game, or `policy` does not act.
        ValueError: an unknown agent or kind, or a policy with other spaces.
        ViewError: a view that does not fit.
    """

    def __init__(
        self,
        policy: OpponentPolicy,
        env: Any,
        view: Views | type[GameView] = None,
        *,
        agents: Sequence[str] | None = None,
        deterministic: bool = False,
        seed: int | None = None,
    ) -> None:
        if not isinstance(env, pettingzoo_classes()):
            raise TypeError(f"env: expected a PettingZoo ParallelEnv or AECEnv, got {env!r}")
        if not isinstance(policy, OpponentPolicy):
            raise TypeError(f"policy: expected one with act(batch, rng), got {policy!r}")
        self._game = _WatchedGame(env)
        everyone = self._game.possible_agents
        self.agents = tuple(everyone if agents is None else resolve(agents, everyone, "agents"))
        observer_of = observer_factory(self._game, known_view([self._game]) if view is None else view)
        observer = observer_for(self._game, self.agents, policy, observer_of)
        self._player = PolicyOpponent(observer, policy, deterministic)
        self._rng = np.random.default_rng(seed)

    def act(self, agent: str, observation: Any, info: Mapping[str, Any] | None = None) -> Any:
        """Return the agent's action, as the game takes it.

        Args:
            agent: is in play.
            observation: its observation, as the game returned it.
            info: its info, which may hold the action mask.

        Raises:
            ValueError: an agent that this player does not play.
            ObservationError: an observation outside the agent's space.
        """
        if agent not in self.agents:
            raise ValueError(f"agent: expected one of {', '.join(map(repr, self.agents))}, got {agent!r}")
        self._game.watch(agent, observation, info or {})
        (action,) = self._player.choose([(self._game, agent)], self._rng)
        return action


class _WatchedGame(PettingZooGame):
    """A game that somebody else steps, of which one agent's observation at a time is known."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.agents = list(getattr(env, "agents", ()))
        self._observation: Any = None
        self._info: Mapping[str, Any] = {}

    def watch(self, agent: str, observation: Any, info: Mapping[str, Any]) -> None:
        """Take what an agent observes; it acts next."""
        self.agents, self.acting = list(self.env.agents), (agent,)
        self._observation, self._info = observation, info

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> None:
        self.env.reset(seed=seed, options=options)
        self.agents = list(self.env.agents)

    def step(self, actions: dict[str, Any], observe_final: FinalObserver) -> GameStep:
        raise NotImplementedError("somebody else steps this game")

    def observation(self, agent: str) -> Any:
        return self._observation

    def info(self, agent: str) -> dict[str, Any]:
        return dict(self._info)

    @property
    def has_infos(self) -> bool:
        return bool(self._info)
