"""`EntityAECEnv`: a `MultiAgentEnv` as a PettingZoo `AECEnv`.

PettingZoo's own conversion (`parallel_to_aec`) submits all actions at the end of a cycle: an error would be
raised at the last agent whoever caused it, and the game could not continue after it. This class checks each
action at its agent's turn.
"""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

from ....envs import ActionError
from ....envs.errors import reset_needed
from .parallel_env import AECEnv, EntityParallelEnv


class EntityAECEnv(AECEnv[str, Any, Any]):
    """Agents act one after the other; the game steps when all agents in play have acted.

    The action None leaves out all actions of the agent (see `EntityParallelEnv`). An agent that has ended is
    stepped once more, with None, as in every AEC environment. Made by `to_pettingzoo`.

    Attributes:
        parallel: the same game behind the parallel interface.
    """

    def __init__(self, parallel: EntityParallelEnv) -> None:
        super().__init__()
        self.parallel = parallel
        self.metadata = parallel.metadata
        self.render_mode = parallel.render_mode
        self.possible_agents = parallel.possible_agents
        self.agents: list[str] = []
        self.agent_selection = ""
        self._actions: dict[str, Any] = {}

    @property
    def max_cycles(self) -> int | None:
        """Number of cycles after which all agents are truncated; None: no limit."""
        return self.parallel.max_cycles

    @max_cycles.setter
    def max_cycles(self, value: int | None) -> None:
        self.parallel.max_cycles = value

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the observation space of `agent`; the same object at every call."""
        return self.parallel.observation_space(agent)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the action space of `agent`; the same object at every call."""
        return self.parallel.action_space(agent)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode."""
        self.agents = []
        self._observations, infos = self.parallel.reset(seed=seed, options=options)
        self.agents = list(self.parallel.agents)
        self.infos = infos
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._skip_agent_selection = None
        self._start_cycle()

    def observe(self, agent: str) -> Any:
        """Return the last observation of `agent`, made at the start of the cycle."""
        if agent not in self._observations:
            raise ActionError(f"{self}: unknown agent {agent!r}: expected one of {', '.join(self.agents)}")
        return self._observations[agent]

    def step(self, action: Any) -> None:
        """Act for the selected agent.

        Raises:
            ActionError: a masked or invalid action, one that is left out, or any but None for an agent that
                has ended; nothing has changed.
            gymnasium.error.ResetNeeded: before the first reset, or when no agent is left.
        """
        if not self.agents:
            raise reset_needed(f"{self}: no agent is alive", "step()")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            if action is not None:
                raise ActionError(
                    f"{self}: agent {agent!r} has ended: expected the action None, got {action!r}"
                )
            self._was_dead_step(None)
            return
        self.parallel.check(agent, action)
        self._actions[agent] = action
        self._cumulative_rewards[agent] = 0.0
        living = self.parallel.agents
        if agent != living[-1]:
            self._clear_rewards()
            self.agent_selection = living[living.index(agent) + 1]
            return
        self._finish_cycle()

    def _start_cycle(self) -> None:
        self._actions = {}
        self.agent_selection = self.parallel.agents[0] if self.parallel.agents else ""

    def _finish_cycle(self) -> None:
        try:
            self._observations, rewards, terminations, truncations, infos = self.parallel.step(self._actions)
        except ActionError:  # the game is stricter than its space: the cycle can be repeated
            self._start_cycle()
            raise
        self.rewards, self.terminations, self.truncations, self.infos = (
            rewards,
            terminations,
            truncations,
            infos,
        )
        self._accumulate_rewards()
        self._start_cycle()
        self._deads_step_first()

    def render(self) -> Any:
        """Return the game's frame."""
        return self.parallel.render()

    def close(self) -> None:
        """Close the game."""
        self.parallel.close()
