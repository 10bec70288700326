"""`to_pettingzoo`: wrap games with entity observations as PettingZoo environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import gymnasium

from ....envs import ActionError, EntityActionSpace, EntitySpace, MultiAgentEnv
from ....envs.errors import one_of, reset_needed
from ....envs.multi_agent import MultiAgentStep
from ....envs.returned import env_name
from ...gymnasium.faces import Illegal, Layout
from ...gymnasium.limits import Beyond
from ..agent_names import repeated
from .aec_env import EntityAECEnv
from .agent_interface import AgentInterface, AgentPlaceholderEnv
from .parallel_env import EntityParallelEnv

AGENT = "agent_0"


class SingleAgentGame(MultiAgentEnv):
    """An entity environment as a game with one agent, "agent_0"."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self.env = env
        self.metadata = {"name": env_name(env), **env.metadata}
        self.render_mode = env.render_mode
        self.possible_agents = [AGENT]
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> EntitySpace:
        assert isinstance(self.env.observation_space, EntitySpace)
        return self.env.observation_space

    def action_space(self, agent: str) -> EntityActionSpace:
        assert isinstance(self.env.action_space, EntityActionSpace)
        return self.env.action_space

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        observation, info = self.env.reset(seed=seed, options=options)
        self.agents = [AGENT]
        return {AGENT: observation}, {AGENT: info}

    def step(self, actions: Mapping[str, Mapping[str, Any]]) -> MultiAgentStep:
        if not self.agents:
            raise reset_needed(self.metadata["name"], "step()")
        if actions.keys() - {AGENT}:
            raise ActionError(f"{self.metadata['name']}: the only agent is {AGENT!r}, got {list(actions)}")
        observation, reward, terminated, truncated, info = self.env.step(actions.get(AGENT, {}))
        self.agents = [] if terminated or truncated else [AGENT]
        return (
            {AGENT: observation},
            {AGENT: float(reward)},
            {AGENT: bool(terminated)},
            {AGENT: bool(truncated)},
            {AGENT: info},
        )

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()


def to_pettingzoo(
    env: MultiAgentEnv | gymnasium.Env[Any, Any],
    api: Literal["parallel", "aec"] = "parallel",
    layout: Layout = "ragged",
    *,
    maxima: Mapping[str, int] | int | None = None,
    beyond: Beyond = "error",
    max_actors: Mapping[str, int] | None = None,
    illegal: Illegal | None = None,
    max_cycles: int | None = None,
) -> EntityParallelEnv | EntityAECEnv:
    """Wrap a game with entity observations as a PettingZoo environment.

        env = ez.to_pettingzoo(MultiSnakeAgents(num_snakes=4))
        env = ez.to_pettingzoo(MultiSnakeAgents(num_snakes=4), "aec", "flat", maxima=32, beyond="drop")

    In the ragged layout `observation_space(agent)` is the agent's `EntitySpace` and `action_space(agent)` its
    `EntityActionSpace`: `action_space(agent).sample()` draws a legal action for the agent's last observation.
    The other layouts are those of `to_gymnasium`, for each agent. In all layouts a masked or missing choice
    raises an `ActionError`, unless `illegal="replace"`.

    Args:
        env: a `MultiAgentEnv`, or an environment with an `EntitySpace`, which becomes a game of "agent_0".
        api: "parallel" for a `ParallelEnv`, "aec" for an `AECEnv`.
        layout: "ragged", "padded" or "flat".
        maxima, beyond, max_actors, illegal: options of `to_gymnasium` for the padded and the flat layout;
            `maxima` is by entity type, and `max_actors` by action, of all agents.
        max_cycles: truncate all agents after this many steps.

    Raises:
        ImportError: PettingZoo is not installed.
        TypeError: `env` is neither.
        ValueError: an option that does not fit, or two agents with one name.
    """
    one_of("api", api, ("parallel", "aec"))
    one_of("layout", layout, ("ragged", "padded", "flat"))
    if max_cycles is not None and max_cycles < 1:
        raise ValueError(f"max_cycles: expected at least 1, got {max_cycles}")
    options = {"maxima": maxima, "max_actors": max_actors, "beyond": beyond, "illegal": illegal}
    if layout == "ragged":
        given = [name for name, value in options.items() if value not in (None, "error")]
        if given:
            raise ValueError(
                f"{given[0]}: expected none in the ragged layout, got {options[given[0]]!r}. Remove it, or"
                " use layout='padded' or 'flat'"
            )
    game = _game(env)
    interfaces = _interfaces(game, layout, {**options, "illegal": illegal or "error"})
    parallel = EntityParallelEnv(game, interfaces, max_cycles)
    return parallel if api == "parallel" else EntityAECEnv(parallel)


def _game(env: Any) -> MultiAgentEnv:
    if isinstance(env, gymnasium.Env) and isinstance(env.observation_space, EntitySpace):
        return SingleAgentGame(env)
    if not isinstance(env, MultiAgentEnv):
        raise TypeError(f"to_pettingzoo: expected a MultiAgentEnv or an entity environment, got {env!r}")
    name = type(env).__name__
    if not hasattr(env, "possible_agents"):
        raise AttributeError(f"{name} has no possible_agents: set self.possible_agents in __init__")
    agents = list(env.possible_agents)
    if not agents:
        raise ValueError(f"{name}: possible_agents is empty: expected one agent or more, got none")
    twice = repeated(agents)
    if twice is not None:
        raise ValueError(
            f"{name}: agent {twice!r} appears twice in possible_agents: expected distinct agents,"
            f" got {agents}"
        )
    return env


def _interfaces(game: MultiAgentEnv, layout: Layout, options: dict[str, Any]) -> dict[str, AgentInterface]:
    """Return the interface of each agent, with the options that concern it."""
    spaces = {agent: game.observation_space(agent) for agent in game.possible_agents}
    if layout == "ragged":
        return {
            agent: AgentInterface(space, game.action_space(agent), None) for agent, space in spaces.items()
        }
    known = {
        "maxima": {name for space in spaces.values() for name in space.entities},
        "max_actors": {name for space in spaces.values() for name in space.actions},
    }
    by_name = {what: options[what] for what in known if isinstance(options[what], Mapping)}
    for what, given in by_name.items():
        unknown = [name for name in given if name not in known[what]]
        if unknown:
            names = ", ".join(sorted(known[what]))
            raise ValueError(f"{what}: expected names of {names}, got {unknown[0]!r}")
    interfaces: dict[str, AgentInterface] = {}
    for agent, space in spaces.items():
        own_names = {"maxima": set(space.entities), "max_actors": set(space.actions)}
        own = {
            what: {name: value for name, value in given.items() if name in own_names[what]}
            for what, given in by_name.items()
        }
        try:
            interfaces[agent] = AgentInterface(
                space, game.action_space(agent), {**options, **own, "layout": layout}
            )
        except ValueError as error:
            sentence = str(error).removeprefix(AgentPlaceholderEnv.__name__).lstrip(": ")
            raise ValueError(f"{type(game).__name__}: agent {agent!r}: {sentence}") from None
    return interfaces
