"""`check_multi_agent_env`: check that a `MultiAgentEnv` keeps its own rules and PettingZoo's."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import data_equivalence
from numpy.typing import NDArray

from ....envs import (
    ActionError,
    ConformanceError,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    MultiAgentEnv,
    ObservationError,
    Overview,
    batch_observations,
    sample_actions,
)
from ....envs.batch.batch_actions import illegal_actions
from ....envs.check_subjects import arrays_of
from ....ragged import RaggedArray
from .conversion import to_pettingzoo
from .parallel_env import EntityParallelEnv


def check_multi_agent_env(
    env: MultiAgentEnv | Callable[[], MultiAgentEnv], num_steps: int = 100, seed: int = 0
) -> list[tuple[list[Any], Overview]]:
    """Check that a game keeps the rules of `MultiAgentEnv`, and PettingZoo's.

    Plays `num_steps` random legal steps three times from one seed; the third time illegal actions are tried
    before each step. Then PettingZoo's `parallel_api_test` and `api_test` check the result of
    `to_pettingzoo`, and, if `env` is a class or function, its `parallel_seed_test` checks two of them.

    Returns:
        agents that share a space, and what the game showed them, to print; for each space.

    Raises:
        ConformanceError: names the broken rule and where it is broken.
    """
    game = env if isinstance(env, MultiAgentEnv) else env()
    subject = _GameUnderTest(game)
    subject.check_spaces()
    played, again = subject.play(num_steps, seed), subject.play(num_steps, seed)
    subject.compare(played, again, "expected the same results for the same seed and actions")
    provoked = subject.play(num_steps, seed, provoke=True)
    subject.compare(played, provoked, "expected an unchanged game after an illegal action (ActionError)")
    subject.check_left_out(seed)
    subject.check_with_pettingzoo(num_steps, env)
    return subject.overviews(played)


#: Number of earlier observations that a new one must not share arrays with.
_MEMORY = 3


class _GameUnderTest:
    """A game that is being checked."""

    def __init__(self, game: MultiAgentEnv) -> None:
        self.game = game
        self.name = type(game).__name__
        self._kept: list[list[NDArray[Any]]] = []  # what was returned last
        try:
            env = to_pettingzoo(game)
        except ValueError as error:
            raise ConformanceError(str(error)) from error
        assert isinstance(env, EntityParallelEnv)
        self.env = env

    def fail(self, sentence: str) -> NoReturn:
        raise ConformanceError(f"{self.name}: {sentence}")

    def check_spaces(self) -> None:
        for agent in self.game.possible_agents:
            space, actions = self.game.observation_space(agent), self.game.action_space(agent)
            if not isinstance(space, EntitySpace) or not isinstance(actions, EntityActionSpace):
                self.fail(
                    f"agent {agent!r}: spaces: expected an EntitySpace and an EntityActionSpace,"
                    f" got {space!r} and {actions!r}"
                )
            if space.actions != actions:
                self.fail(
                    f"agent {agent!r}: observation space: expected one made for its actions {actions!r},"
                    f" got one for {space.actions!r}"
                )
            again = self.game.observation_space(agent), self.game.action_space(agent)
            if again[0] is not space or again[1] is not actions:
                self.fail(
                    f"agent {agent!r}: spaces: expected the same objects at every call, got different ones"
                )

    def play(self, num_steps: int, seed: int, provoke: bool = False) -> list[Any]:
        """Play random legal steps, over several episodes if games end, and return their results."""
        rng = np.random.default_rng(seed)
        seen = self._reset(seed)
        played: list[Any] = [seen]
        for _ in range(num_steps):
            batches = {
                agent: batch_observations(self.game.observation_space(agent), [seen[agent]])
                for agent in self.env.agents
            }
            actions = {
                agent: _plain(sample_actions(self.game.action_space(agent), batch, rng))
                for agent, batch in batches.items()
            }
            if provoke:
                self._provoke(batches, actions)
            seen, *rest = self._step(actions)
            played.append((seen, *rest))
            if not self.env.agents:
                self._check_raises(gymnasium.error.ResetNeeded, "step without agents in play", {})
                seen = self._reset(None)
        return played

    def overviews(self, played: list[Any]) -> list[tuple[list[Any], Overview]]:
        """Return agents that share a space, and what they were shown in the steps `played`."""
        groups: dict[int, list[Any]] = {}
        for agent in self.game.possible_agents:
            groups.setdefault(id(self.game.observation_space(agent)), []).append(agent)
        return [(agents, self._overview(agents, played)) for agents in groups.values()]

    def _overview(self, agents: list[Any], played: list[Any]) -> Overview:
        space = self.game.observation_space(agents[0])
        shown = Overview(space, len(agents))
        shown.observe(batch_observations(space, [played[0][a] for a in agents if a in played[0]]))
        for seen, rewards, terminated, truncated, _ in played[1:]:
            shown.observe(batch_observations(space, [seen[a] for a in agents if a in seen]))
            shown.end_step(
                np.array([rewards.get(a, 0) for a in agents], np.float32),
                np.array([terminated.get(a, False) for a in agents]),
                np.array([truncated.get(a, False) for a in agents]),
                np.array([a in rewards for a in agents]),
            )
        return shown

    def compare(self, one: list[Any], other: list[Any], sentence: str) -> None:
        for step, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            if not data_equivalence(mine, theirs, exact=True):
                self.fail(f"{sentence}, got different results in {f'step {step}' if step else 'reset'}")

    def check_left_out(self, seed: int) -> None:
        """Actions with actors may be left out where an agent's space is `optional`, and nowhere else."""
        seen = self._reset(seed)
        needed = [
            (agent, name)
            for agent in self.game.agents
            for name, part in seen[agent]["actions"].items()
            if len(part["mask"]) and not self.game.action_space(agent).optional
        ]
        try:
            self.game.step({})
        except ActionError as error:
            if not needed:
                self.fail(f"step({{}}): no action is required: expected no error, got ActionError: {error}")
            return
        if needed:
            agent, name = needed[0]
            self.fail(
                f"agent {agent!r}: step({{}}) without action {name!r}: expected ActionError, got no error"
            )

    def check_with_pettingzoo(self, num_steps: int, env: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # advice, and that it imports its own games in the old way
            from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test

            tests: list[Callable[[], None]] = [
                lambda: parallel_api_test(to_pettingzoo(self.game), num_cycles=num_steps),
                lambda: api_test(to_pettingzoo(self.game, "aec"), num_cycles=num_steps),
            ]
            names = ["parallel_api_test", "api_test"]
            if not isinstance(env, MultiAgentEnv):
                tests.append(lambda: parallel_seed_test(lambda: to_pettingzoo(env()), num_cycles=num_steps))
                names.append("parallel_seed_test")
            for name, test in zip(names, tests, strict=True):
                try:
                    with contextlib.redirect_stdout(io.StringIO()):
                        test()
                except (AssertionError, ObservationError) as error:
                    raise ConformanceError(f"{self.name}: pettingzoo's {name}: {error}") from error

    def _reset(self, seed: int | None) -> dict[str, Any]:
        try:
            seen, _ = self.env.reset(seed=seed)
        except ObservationError as error:
            raise ConformanceError(str(error)) from error
        self._check_observations("reset", seen)
        return seen

    def _step(self, actions: dict[str, Any]) -> tuple[Any, ...]:
        try:
            parts = self.env.step(actions)
        except ActionError as error:
            self.fail(f"step with a legal action: expected no error, got ActionError: {error}")
        except ObservationError as error:
            raise ConformanceError(str(error)) from error
        self._check_observations("step", parts[0])
        return parts

    def _check_observations(self, where: str, seen: dict[str, Any]) -> None:
        for agent, observation in seen.items():
            problem = self.game.observation_space(agent).problem(observation)
            if problem:
                self.fail(f"{where}: agent {agent!r}: {problem}")
        arrays = [array for observation in seen.values() for array in arrays_of(observation) if array.size]
        for earlier in self._kept:
            if any(np.may_share_memory(old, new) for old in earlier for new in arrays):
                self.fail(f"{where}: expected new arrays at every call, got arrays that were returned before")
        self._kept = [*self._kept[-_MEMORY + 1 :], arrays]

    def _provoke(self, batches: dict[str, EntityBatch], actions: dict[str, Any]) -> None:
        """Try illegal actions of one agent, with legal actions of the others."""
        for agent, batch in batches.items():
            space = self.game.observation_space(agent)
            # Drawn elsewhere, so that what is played stays the same.
            legal = sample_actions(space.actions, batch, np.random.default_rng(0))
            for what, illegal in illegal_actions(space, batch, legal):
                self._check_raises(
                    ActionError, f"agent {agent!r}: {what}", {**actions, agent: _plain(illegal)}
                )
        stranger = "".join(self.game.possible_agents)
        what = f"an action of the unknown agent {stranger!r}"
        self._check_raises(ActionError, what, {**actions, stranger: {}})
        dead = [agent for agent in self.game.possible_agents if agent not in self.game.agents]
        if dead:
            what = f"an action of the ended agent {dead[0]!r}"
            self._check_raises(ActionError, what, {**actions, dead[0]: {}})

    def _check_raises(self, expected: type[Exception], what: str, actions: dict[str, Any]) -> None:
        try:
            self.game.step(actions)
        except expected:
            return
        except Exception as error:
            self.fail(f"{what}: expected {expected.__name__}, got {error!r}")
        self.fail(f"{what}: expected {expected.__name__}, got no error")


def _plain(actions: dict[str, RaggedArray]) -> dict[str, NDArray[Any]]:
    """Return the actions of a batch of one as one agent's actions."""
    return {name: given[0].copy() for name, given in actions.items()}
