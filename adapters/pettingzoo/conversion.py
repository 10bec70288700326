"""`from_pettingzoo`: turn PettingZoo games into entity environments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, overload

from ...envs import EntitySpace, ListVectorEnv
from ...envs.errors import one_of
from ...envs.vector.process_vector import ProcessVectorEnv
from ...envs.vector.workers.worker_pool import WORKER_TIMEOUT
from ..gymnasium.views.auto import auto
from ..gymnasium.views.scope import ViewError
from .agent_names import resolve, same
from .agent_observer import AgentObserver
from .entity_observer import EntitySpaceObserver
from .game import PettingZooGame
from .game_makers import close_games, game_makers, make_games, pettingzoo_classes
from .game_view import GameView
from .game_view_observer import GameViewObserver, GameViews
from .games import find_view
from .lanes import GameLanes
from .observation_wrappers import changing_wrapper
from .opponents import OpponentSpec, make_opponents
from .sharded_lanes import ShardedGameLanes
from .space_observer import SpaceObserver, Views
from .team_env import POOLINGS, Pooling, TeamEnv

MakeGame = Callable[[], Any]
MODES = ("lanes", "team")


@overload
def from_pettingzoo(
    env: Any | MakeGame | Sequence[MakeGame],
    mode: Literal["lanes"] = "lanes",
    view: Views | type[GameView] = None,
    *,
    opponents: Mapping[str, OpponentSpec] | None = None,
    num_envs: int | None = None,
) -> GameLanes: ...
@overload
def from_pettingzoo(
    env: MakeGame | Sequence[MakeGame],
    mode: Literal["lanes"] = "lanes",
    view: Views | type[GameView] = None,
    *,
    opponents: Mapping[str, OpponentSpec] | None = None,
    num_envs: int | None = None,
    num_workers: int,
    worker_timeout: float | None = WORKER_TIMEOUT,
) -> GameLanes | ShardedGameLanes: ...
@overload
def from_pettingzoo(
    env: Any | MakeGame | Sequence[MakeGame],
    mode: Literal["team"],
    view: Views | type[GameView] = None,
    *,
    team: str | Sequence[str] | None = None,
    opponents: OpponentSpec | Mapping[str, OpponentSpec] | None = None,
    reward: Pooling = "sum",
    num_envs: int | None = None,
    num_workers: int = 0,
    worker_timeout: float | None = WORKER_TIMEOUT,
) -> TeamEnv | ListVectorEnv | ProcessVectorEnv: ...
def from_pettingzoo(
    env: Any | MakeGame | Sequence[MakeGame],
    mode: Literal["lanes", "team"] = "lanes",
    view: Views | type[GameView] = None,
    *,
    team: str | Sequence[str] | None = None,
    opponents: OpponentSpec | Mapping[str, OpponentSpec] | None = None,
    reward: Pooling = "sum",
    num_envs: int | None = None,
    num_workers: int = 0,
    worker_timeout: float | None = WORKER_TIMEOUT,
) -> GameLanes | ShardedGameLanes | TeamEnv | ListVectorEnv | ProcessVectorEnv:
    """Turn a PettingZoo game, parallel or turn-based, into an entity environment.

        make = functools.partial(pettingzoo.make, "aec", "classic/connect_four-v3")
        venv = ez.from_pettingzoo(make, num_envs=32)
        venv = ez.from_pettingzoo(make, num_envs=32, opponents={"player_1": "random"})
        env = ez.from_pettingzoo(simple_tag_v3.parallel_env(), "team", team="adversary", opponents="random")

    Args:
        env: a `ParallelEnv` or an `AECEnv`, a function that makes one, or a list of such functions.
        mode: "lanes" makes every agent a lane of a vector environment, with one policy for all; "team" makes
            the agents of a team the actors of one observation.
        view: which parts of an observation are entities. None: the game's own `GameView` if there is one
            (and no wrapper may change the observations), otherwise `ez.views.auto` of the game's
            observations (in a team, each agent is one entity whose features are its observation). Otherwise
            one of `ez.views`, a dict of views by agent or kind of agent, a function from agent to view, or a
            `GameView` class. `ez.views.auto` ignores the game's own `GameView`. Games of `ez.to_pettingzoo`,
            whose observations are entities, take no view.
        team: the team's agents: names, or kinds such as "adversary" for "adversary_0". None: all agents
            without opponents.
        opponents: controllers of the other agents, by name or kind (the name takes precedence): "random"; a
            function (observation, action_mask, agent) -> action that gets the game's own observation and
            mask (or None); or a policy with `act(batch, rng)`, such as one of `ez.load_policy`, which gets
            the observation of a lane. For a team, a single controller stands for all other agents.
        reward: of a team: the "sum" of its agents' rewards, or their "mean".
        num_envs: the number of games to make with a single function.
        num_workers: how many processes share the games, 0: they are in this one. With workers one more game
            is made here, to see what it is, and closed.
        worker_timeout: seconds after which a worker that does not answer is ended; see `ShardedVectorEnv`.

    Returns:
        for "lanes" an `EntityVectorEnv` of games × agents lanes (see `GameLanes`, and with workers
        `ShardedGameLanes`); for "team" a `gymnasium.Env` (see `TeamEnv`), or with a list or `num_envs` a
        `ListVectorEnv` of them, with workers a `ProcessVectorEnv`.

    Raises:
        ImportError: PettingZoo is not installed.
        TypeError: `env` is not a PettingZoo game, or an opponent cannot act; with workers, one of them is no
            function that makes games, or can't be pickled.
        ValueError: an unknown mode, agent or kind, an option of teams in mode "lanes", no agent to control,
            games that differ, or a `num_workers` that is not between 0 and the number of games.
        ViewError: a view that does not fit.
    """
    one_of("mode", mode, MODES)
    one_of("reward", reward, POOLINGS)
    if mode == "lanes" and team is not None:
        raise ValueError(
            "team: expected None in mode 'lanes', got "
            + repr(team)
            + ". Use mode='team', or opponents= for agents without a lane"
        )
    if mode == "lanes" and reward != "sum":
        raise ValueError(f"reward: expected no pooling in mode 'lanes', got {reward!r}. Use mode='team'")
    makers = game_makers(env, num_envs)
    if num_workers:
        return _in_workers(makers, mode, view, team, opponents, reward, num_workers, worker_timeout)
    games = make_games(makers)
    try:
        if view is None:
            view = known_view(games)
        if mode == "lanes":
            return _lanes(games, view, opponents)
        envs = [_team(game, view, team, opponents, reward) for game in games]
        several = num_envs is not None or isinstance(env, Sequence)
        made = iter(envs)
        return ListVectorEnv([lambda: next(made)] * len(envs)) if several else envs[0]
    except Exception:
        close_games(games, makers)
        raise


def _lanes(games: list[PettingZooGame], view: Any, opponents: Any) -> GameLanes:
    first = games[0]
    if opponents is not None and not isinstance(opponents, Mapping):
        raise ValueError(
            f"{first.name}: opponents: expected a dict by agent or kind in mode 'lanes', got {opponents!r}."
            f" The agents are {list(first.possible_agents)}"
        )
    observer_of = observer_factory(first, view)
    opponents_by_agent = make_opponents(first, opponents or {}, observer_of)
    learners = [agent for agent in first.possible_agents if agent not in opponents_by_agent]
    if not learners:
        raise ValueError(
            f"{first.name}: opponents: expected an agent without an opponent, got opponents for all agents"
        )
    return GameLanes(games, learners, opponents_by_agent, observer_of(learners))


def _team(game: PettingZooGame, view: Any, team: Any, opponents: Any, reward: Pooling) -> TeamEnv:
    everyone = game.possible_agents
    by_name = {} if opponents is None else opponents if isinstance(opponents, Mapping) else None
    if team is not None:
        members = resolve([team] if isinstance(team, str) else list(team), everyone, f"{game.name}: team")
    elif by_name is not None:
        absent = resolve(list(by_name), everyone, f"{game.name}: opponents")
        members = [agent for agent in everyone if agent not in absent]
    else:
        raise ValueError(f"{game.name}: the team is not given. Pass team=, some of {list(everyone)}")
    if not members:
        raise ValueError(f"{game.name}: team: expected one agent or more, got none")
    others = [agent for agent in everyone if agent not in members]
    opponents_by_agent = make_opponents(
        game, dict.fromkeys(others, opponents) if by_name is None else by_name, observer_factory(game, view)
    )
    for agent in others:
        if agent not in opponents_by_agent:
            raise ValueError(
                f"{game.name}: agent {agent!r} is not in the team and has no opponent. Pass opponents="
            )
    for agent in members:
        if agent in opponents_by_agent:
            raise ValueError(
                f"{game.name}: agent {agent!r} is in the team and in opponents: expected one of the two"
            )
    return TeamEnv(game, members, opponents_by_agent, _team_observer(game, members, view), reward)


# -- worker processes ---------------------------------------------------------------------------------------


def _in_workers(
    makers: Sequence[Any],
    mode: Literal["lanes", "team"],
    view: Any,
    team: Any,
    opponents: Any,
    reward: Pooling,
    num_workers: int,
    worker_timeout: float | None,
) -> ShardedGameLanes | ProcessVectorEnv:
    """Make the games in workers; another first one here, to check the options before."""
    for index, make in enumerate(makers):
        if isinstance(make, pettingzoo_classes()):
            raise TypeError(
                f"game {index}: with num_workers expected a function that makes a game, got {make!r}"
            )
    games = make_games(makers[:1])
    try:
        if view is None:
            view = known_view(games)
        if mode == "lanes":
            learners = [agent for _, agent in _lanes(games, view, opponents).agents]
        else:
            _team(games[0], view, team, opponents, reward)
    finally:
        close_games(games, makers)
    if mode == "lanes":
        make_lanes = partial(_made_lanes, view=view, opponents=opponents)
        return ShardedGameLanes(make_lanes, makers, learners, num_workers, worker_timeout)
    options = {"view": view, "team": team, "opponents": opponents, "reward": reward}
    env_fns = [partial(_made_team, make, index, **options) for index, make in enumerate(makers)]
    return ProcessVectorEnv(env_fns, num_workers, worker_timeout)


def _made_lanes(makers: Sequence[MakeGame], first: int, view: Any, opponents: Any) -> GameLanes:
    return _lanes(make_games(makers, first), view, opponents)


def _made_team(make: MakeGame, index: int, **options: Any) -> TeamEnv:
    [game] = make_games([make], index)
    return _team(game, **options)


# -- views ---------------------------------------------------------------------------------------------------


def known_view(games: Sequence[PettingZooGame]) -> Any:
    """Return the `GameView` class of known games, `auto` if their observations are wrapped, else None."""
    known = find_view(games[0].env.unwrapped)
    if known is None:
        return None
    reason = next(filter(None, map(_observation_change, games)), None)
    if reason is None:
        return known
    view = known.__name__
    warnings.warn(
        f"{games[0].name}: {reason}, which {view} would not read: the wrapped observations are used. Pass"
        f" view=ez.views.auto to use them without this warning, or view={view} of"
        " entitize.adapters.pettingzoo.games to read the state of the unwrapped game",
        stacklevel=3,
    )
    return auto


def _is_game_view(view: Any) -> bool:
    return isinstance(view, type) and issubclass(view, GameView)


def _observation_change(game: PettingZooGame) -> str | None:
    """Return a sentence about the wrapper that may change a game's observations, None without one."""
    wrapper = changing_wrapper(game.env)
    if wrapper is not None:
        return f"the wrapper {wrapper} may change the observations"
    inner = game.env.unwrapped
    if any(not same(space, inner.observation_space(a)) for a, space in game.observation_spaces.items()):
        return "its wrappers change the observation spaces"
    return None


def _shows_entities(game: PettingZooGame, agents: Sequence[str]) -> bool:
    return all(isinstance(game.observation_spaces[agent], EntitySpace) for agent in agents)


def observer_factory(first: PettingZooGame, view: Any) -> Callable[[Sequence[str]], AgentObserver]:
    """Return a function from agents to their observer, for lanes and for policies that act as opponents."""
    if _shows_entities(first, first.possible_agents):
        if view is not None:
            raise ViewError(
                f"{first.name}: view: expected None for observations of entities, got {view!r}. Remove it"
            )
        return partial(EntitySpaceObserver, first)
    if _is_game_view(view):
        views = GameViews(view, first)
        return lambda agents: GameViewObserver(first, agents, views)
    return lambda agents: SpaceObserver(first, agents, None if view is auto else view)


def _team_observer(game: PettingZooGame, team: Sequence[str], view: Any) -> SpaceObserver | GameViewObserver:
    if _is_game_view(view):
        return GameViewObserver(game, team, GameViews(view, game), team=True)
    if any(isinstance(game.observation_spaces[agent], EntitySpace) for agent in team):
        raise ViewError(
            f"{game.name}: mode 'team': expected one observation of the whole team, got entity observations"
            " of each agent. Use mode='lanes', or a GameView with observe_team"
        )
    return SpaceObserver(game, team, None if view is auto else view, team=True)
