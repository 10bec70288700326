"""`GamePlayer`: a policy that acts in a game's own loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...envs.errors import named_kind, whole_number
from .agent_names import resolve
from .conversion import known_view, observer_factory
from .game import FinalObserver, GameStep, PettingZooGame
from .game_makers import pettingzoo_classes
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
            was trained in lanes of `from_pettingzoo`, either of these agents or of all agents; not in a team.
        env: the `ParallelEnv` or `AECEnv`, of which a `GameView` reads the state. Without agents in play
            (before its first reset, or at the end of a game) it may be reset here.
        view: as it was in training, see `from_pettingzoo`.
        agents: a name or kind, or several, of the agents that it plays; None: all.
        deterministic: take the most probable actions instead of sampling.
        seed: of the sampling; None: from the operating system.

    Raises:
        ImportError: PettingZoo is not installed.
        TypeError: `env` is no PettingZoo game, or `policy` does not act.
        ValueError: an unknown agent or kind, no agent, or a policy with other spaces.
        ViewError: a view that does not fit.
    """

    def __init__(
        self,
        policy: OpponentPolicy,
        env: Any,
        view: Views | type[GameView] = None,
        *,
        agents: str | Sequence[str] | None = None,
        deterministic: bool = False,
        seed: int | None = None,
    ) -> None:
        if not isinstance(env, pettingzoo_classes()):
            raise TypeError(
                f"GamePlayer: env: expected a PettingZoo ParallelEnv or AECEnv, got {named_kind(env)}"
            )
        if not isinstance(policy, OpponentPolicy):
            hint = ". Use its policy.network" if hasattr(getattr(policy, "policy", None), "network") else ""
            raise TypeError(
                f"GamePlayer: policy: expected one with a method act, got {named_kind(policy)}{hint}"
            )
        if seed is not None:
            seed = whole_number("GamePlayer: seed", seed, 0)
        self._game = _WatchedGame(env)
        everyone = self._game.possible_agents
        names = [agents] if isinstance(agents, str) else agents
        self.agents = tuple(everyone if names is None else resolve(names, everyone, "GamePlayer: agents"))
        if not self.agents:
            raise ValueError("GamePlayer: agents: expected one agent or more, got none")
        observer_of = observer_factory(self._game, known_view([self._game]) if view is None else view)
        observer = observer_for(self._game, self.agents, policy, observer_of)
        self._player = PolicyOpponent(observer, policy, deterministic)
        self._rng = np.random.default_rng(seed)

    def act(self, agent: str, observation: Any, info: Mapping[str, Any] | None = None) -> Any:
        """Return the agent's action, as the game takes it.

        Args:
            agent: must act now.
            observation: its observation, as the game returned it. A `GameView` reads the game itself, and of
                the observation at most the action mask.
            info: its info. Pass it if the game has its action masks there.

        Raises:
            ValueError: an agent that this player does not play, or that must not act now.
            ObservationError: an observation that the view cannot read.
        """
        if agent not in self.agents:
            raise ValueError(
                f"GamePlayer: agent: expected one of {', '.join(map(repr, self.agents))}, got {agent!r}"
            )
        if not isinstance(info, Mapping | None):
            raise TypeError(f"GamePlayer: info of {agent!r}: expected a dict, got {info!r:.100}")
        self._game.watch(agent, observation, info or {})
        (action,) = self._player.choose([(self._game, agent)], self._rng)
        return action


class _WatchedGame(PettingZooGame):
    """A game that the user steps, of which the observation of one agent, `acting`, is known."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.agents = list(getattr(env, "agents", ()))
        self._observation: Any = None
        self._info: Mapping[str, Any] = {}

    def watch(self, agent: str, observation: Any, info: Mapping[str, Any]) -> None:
        """Take what an agent observes; it acts next.

        Raises:
            ValueError: it must not act now.
        """
        self.agents, self.acting = list(self.env.agents), (agent,)
        turn = getattr(self.env, "agent_selection", None)  # of a game in turns
        acting = self.agents if turn is None else [one for one in self.agents if one == turn]
        if agent not in acting:
            raise ValueError(f"GamePlayer: agent: expected one that acts now, of {acting}, got {agent!r}")
        self._observation, self._info = observation, info

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> None:
        self.env.reset(seed=seed, options=options)
        self.agents = list(self.env.agents)

    def step(self, actions: dict[str, Any], observe_final: FinalObserver) -> GameStep:
        raise NotImplementedError("the user steps this game")

    def observation(self, agent: str) -> Any:
        return self._observation

    def info(self, agent: str) -> dict[str, Any]:
        return dict(self._info)

    @property
    def has_infos(self) -> bool:
        return bool(self._info)
