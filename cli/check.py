"""`entitize check`: check that an environment follows the rules."""

from __future__ import annotations

import contextlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from textwrap import fill
from typing import Any

import gymnasium
import numpy as np
import tyro

from ..adapters.environment_resolver import resolve
from ..adapters.gymnasium import ViewError, wrap, wrap_vec
from ..envs import (
    ConformanceError,
    EntityEnv,
    EntitySpace,
    EntityVectorEnv,
    MultiAgentEnv,
    ObservationError,
    Overview,
    WorkerError,
    check_entity_env,
    sample_actions,
)
from ..envs.actor_check import check_actors
from ..envs.gymnasium_checks import runs_check_env
from ..envs.registration import find_namespace
from ..envs.vector.infos import inactive_lanes
from ..experiments import Pairs, UserError, check_at_least, parse, where_raised
from ..experiments.errors import user_errors
from ..suggestions import check_options

#: Number of lanes of a vector environment that are checked.
_LANES = 3


@dataclass(frozen=True)
class CheckArguments:
    """Check that an environment follows the rules of entity environments; exit code 1 if it does not.

    Example: entitize check my_game:MyEnv --kwargs size=8
    """

    env: tyro.conf.Positional[str | None] = None
    """An id, or module:name of an environment, or of a class or function that makes one."""
    listen: str | None = None
    """In place of ENV: the address to which a game of any language connects, HOST:PORT."""
    token: str | None = None
    """What games must send; needed unless HOST is a loopback address (default: ENTITIZE_TOKEN)."""
    steps: int = 100
    """Random steps to play; enough for an episode to end."""
    seed: int = 0
    """The seed of the environment and of the actions."""
    render: bool = True
    """Render in every mode; --no-render where there is no display."""
    kwargs: Pairs = field(default_factory=dict)
    """Options of the environment, e.g. size=8; values as in YAML."""

    def __post_init__(self) -> None:
        check_at_least(self, 1, "steps")
        check_at_least(self, 0, "seed")
        if (self.env is None) == (self.listen is None):
            raise UserError("expected an environment or --listen, got " + ("both" if self.env else "neither"))
        if self.token is not None and self.listen is None:
            raise UserError("--token: expected it together with --listen, got it without. Remove it")


def main(arguments: Sequence[str]) -> int:
    """Parse and run the command; 0 if all rules are kept, 1 if not."""
    chosen = parse(CheckArguments, "check", arguments)
    try:
        if chosen.listen is not None:
            _check_games(chosen.listen, chosen)
        else:
            for target in find(str(chosen.env), chosen.kwargs):
                _check(target, chosen)
    except (UserError, KeyboardInterrupt):
        raise
    except (ConformanceError, ObservationError) as error:
        print(error)
        return 1
    except WorkerError as error:
        print(error if error.__cause__ is None else f"{error}\n{where_raised(error.__cause__)}")
        return 1
    except Exception as error:  # of the environment's own code
        notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        print(f"{type(error).__name__}: {error}\n{where_raised(error)}{notes}")
        return 1
    print("ok")
    return 0


@dataclass(frozen=True)
class CheckTarget:
    """An environment to be made."""

    name: str
    make: Callable[[], Any]
    remakes: bool = True  # every call makes another one


def find(env: str, options: dict[str, Any]) -> list[CheckTarget]:
    """Return the environments that `env` names: alone and, where there is one, as vector environment.

    Raises:
        UserError: there is no such module, attribute or environment, or it takes no such options.
    """
    with user_errors(gymnasium.error.Error):
        makers = resolve(env)
    if makers.is_object and options:
        raise UserError(f"{env} is an object, which takes no options; got {', '.join(options)}")
    if makers.is_function:
        make = makers.make or makers.make_vec
        assert make is not None
        options = options if makers.make else {"num_envs": _LANES, **options}
        try:
            inspect.signature(make).bind(**options)
        except TypeError as error:
            raise UserError(f"{env} can't be called with these options: {error}") from None
        except ValueError:  # a signature that can't be found out
            pass
        return [CheckTarget(env, partial(make, **options), not makers.is_object)]
    targets = []
    if makers.make is not None and find_namespace(env) is None:  # a namespace's are views of one lane
        targets.append(CheckTarget(env, partial(_made, env, makers.make, options)))
    if makers.make_vec is not None:
        targets.append(
            CheckTarget(env, partial(_made, env, makers.make_vec, {"num_envs": _LANES, **options}))
        )
    return targets


def _made(name: str, make: Callable[..., Any], options: dict[str, Any]) -> Any:
    try:
        return make(**options)
    except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
        raise UserError(f"{name} can't be made: {error}") from error


def _check(target: CheckTarget, chosen: CheckArguments) -> None:
    """Make and check one environment and print what was done.

    Raises:
        ConformanceError: a rule is broken.
        UserError: it is no environment of a known kind.
    """
    env = target.make()
    if isinstance(env, MultiAgentEnv):
        with user_errors(ImportError):
            from ..adapters.pettingzoo import check_multi_agent_env
        _say(
            f"{target.name} makes {type(env).__name__}, a MultiAgentEnv of {len(env.possible_agents)} agents"
        )
        with contextlib.closing(env):
            shown = check_multi_agent_env(target.make if target.remakes else env, chosen.steps, chosen.seed)
        kept = _played(*(overview for _, overview in shown))
        _say(f"{chosen.steps} random steps, three times from seed {chosen.seed}: {kept}, deaths")
        _say("pettingzoo's parallel_api_test and api_test, of what to_pettingzoo makes of it")
        for agents, overview in shown:
            if len(shown) > 1:
                _say(f"{', '.join(map(str, agents))}:")
            _say_overview(overview)
        return
    env = _entities(target, env)
    with contextlib.closing(env), _notes():
        overview = check_entity_env(env, chosen.steps, chosen.seed, chosen.render)
    _say(f"{chosen.steps} random steps, three times from seed {chosen.seed}: {_played(overview)}")
    if isinstance(env, gymnasium.Env) and runs_check_env(env):
        _say("gymnasium's check_env")
    _say_overview(overview)


def _check_games(address: str, chosen: CheckArguments) -> None:
    """Play games that connect, print what they have shown, and check that somebody acts in them.

    Raises:
        ConformanceError: no action ever had an actor.
        WorkerError: the first error of a game.
        UserError: there is no such address or option.
    """
    from ..adapters.programs import ListeningVectorEnv

    with user_errors(TypeError, ValueError, ImportError):
        check_options("--kwargs", ListeningVectorEnv, chosen.kwargs)
        venv = ListeningVectorEnv(address, token=chosen.token, strict=True, **chosen.kwargs)
    with contextlib.closing(venv):
        overview = _play_games(venv, chosen.steps, np.random.default_rng(chosen.seed))
    if overview.num_steps < chosen.steps:
        _say(f"note: the games have left after {overview.num_steps} of {chosen.steps} steps")
    _say(f"{overview.num_steps} random steps: messages, observations, scores")
    _say_overview(overview)
    with _notes():
        actions = venv.single_action_space.spaces
        check_actors("the game", actions, overview.acting, overview.num_steps)


def _play_games(venv: EntityVectorEnv, num_steps: int, rng: np.random.Generator) -> Overview:
    """Play random legal steps until the lanes have had `num_steps` together, or none is active.

    An actor is waited for up to ten times as many steps.
    """
    overview = Overview(venv.single_observation_space, venv.num_envs)
    batch, info = venv.reset()
    while True:
        inactive = inactive_lanes(info, venv.num_envs)
        overview.observe(batch, inactive)
        enough = num_steps if overview.acting else 10 * num_steps
        if overview.num_steps >= enough or inactive.all():
            return overview
        actions = sample_actions(venv.single_action_space, batch, rng)
        batch, rewards, terminated, truncated, info = venv.step(actions)
        overview.end_step(rewards, terminated, truncated, ~inactive)


@contextlib.contextmanager
def _notes() -> Iterator[None]:
    """Print warnings of the checker as notes, at the end and if there is no error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            _say(f"note: {warning.message}")
        else:
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)


def _played(*overviews: Overview) -> str:
    ends = "ends, " if any(overview.num_ended for overview in overviews) else ""
    return f"observations, rewards, {ends}masks, fresh arrays, the seed, illegal actions"


def _entities(target: CheckTarget, env: Any) -> gymnasium.Env[Any, Any] | EntityVectorEnv:
    """`env` as one of entities, and a line about what it is."""
    name, kind = target.name, type(getattr(env, "unwrapped", env)).__name__
    if isinstance(env, EntityVectorEnv):
        _say(f"{name} makes {kind}, an EntityVectorEnv of {env.num_envs} lanes")
        return env
    if isinstance(env, gymnasium.vector.VectorEnv):
        _say(f"{name} makes {kind}, which knows no entities: use ez.wrap_vec(env), which is what is checked")
        return _wrapped(wrap_vec, env)
    if isinstance(env, gymnasium.Env):
        is_of_entities = isinstance(getattr(env, "observation_space", None), EntitySpace)
        if is_of_entities or isinstance(env.unwrapped, EntityEnv):
            _say(f"{name} makes {kind}, an environment of entities")
            return env
        _say(f"{name} makes {kind}, which knows no entities: use ez.wrap(env), which is what is checked")
        return _wrapped(wrap, env)
    if "entity_gym" in sys.modules:
        from ..adapters.entity_gym import entity_gym, from_entity_gym

        if isinstance(env, entity_gym.Environment):
            _say(f"{name} makes {kind} for entity_gym: use ez.from_entity_gym(env), which is what is checked")
            return from_entity_gym(target.make if target.remakes else env)
    if "pettingzoo" in sys.modules:
        from pettingzoo import AECEnv, ParallelEnv

        from ..adapters.pettingzoo import from_pettingzoo

        if isinstance(env, (AECEnv, ParallelEnv)):
            made = "use ez.from_pettingzoo(env), which is what is checked"
            _say(f"{name} makes {kind}, a game of PettingZoo: {made}")
            return _wrapped(from_pettingzoo, target.make if target.remakes else env)
    raise UserError(f"{name} makes {env!r}, which is no environment")


def _wrapped(wrapper: Any, env: Any) -> Any:
    try:
        return wrapper(env)
    except ViewError as error:
        raise UserError(f"it can't be wrapped without a view: {error}") from error
    except (TypeError, ValueError) as error:
        raise UserError(f"{wrapper.__name__} refuses it: {error}") from error


def _say_overview(overview: Overview) -> None:
    for line in str(overview).splitlines():
        _say(fill(line, 140, initial_indent="  ", subsequent_indent="    ", break_long_words=False))


def _say(line: str) -> None:
    print(line, flush=True)
