"""`EntityAECEnv`: a `MultiAgentEnv` as a PettingZoo `AECEnv`.

PettingZoo's own conversion submits all actions at the end of a cycle: an error would be raised at the last
agent, whichever agent caused it. This class checks each action at its agent's turn.
"""

from __future__ import annotations

from typing import Any

from ....envs import ActionError
from ....envs.errors import reset_needed
from .parallel_env import EntityParallelEnv, parallel_to_aec_wrapper


class EntityAECEnv(parallel_to_aec_wrapper[str, Any, Any]):
    """Agents act one after the other; the game steps when all agents in play have acted.

    The action None leaves out all actions of the agent (see `EntityParallelEnv`). An agent that has ended is
    stepped once more, with None, as in every AEC environment. Made by `to_pettingzoo`.

    Attributes:
        parallel: the same game behind the parallel interface.
    """

    agent_selection: str

    def __init__(self, parallel: EntityParallelEnv) -> None:
        super().__init__(parallel)
        self.parallel = parallel
        self.agents: list[str] = []

    @property
    def max_cycles(self) -> int | None:
        """Number of cycles after which all agents are truncated; None: no limit."""
        return self.parallel.max_cycles

    @max_cycles.setter
    def max_cycles(self, value: int | None) -> None:
        self.parallel.max_cycles = value

    def set_progress(self, fraction: float) -> None:
        """Pass the progress of training on to the game."""
        self.parallel.set_progress(fraction)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode."""
        self.agents = []
        self._skip_agent_selection = None
        super().reset(seed=seed, options=options)

    def observe(self, agent: str) -> Any:
        """Return the last observation of `agent`, made at the start of the cycle."""
        if agent not in self._observations:
            raise ActionError(f"{self}: unknown agent {agent!r}: expected one of {', '.join(self.agents)}")
        return super().observe(agent)

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
        if not (self.terminations[agent] or self.truncations[agent]):
            self.parallel.check(agent, action)
        elif action is not None:
            raise ActionError(f"{self}: agent {agent!r} has ended: expected the action None, got {action!r}")
        try:
            super().step(action)
        except ActionError:  # the game is stricter than its space: the cycle can be repeated
            self.agent_selection = self._agent_selector.reset()
            raise
