"""`Program`: a game with a loop of its own, and the spaces of what it asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial, update_wrapper
from inspect import signature
from typing import Any

from ...envs.actions import ActionSpace
from ...envs.entities import declare

#: A game: takes an agent, asks it for decisions, and reports the end of each episode.
Main = Callable[[Any], object]


class Program:
    """A game with a loop of its own: a function `main(agent)` and what it asks for.

    `program(agent)` plays the game with any agent, trained or in training. `ez.make_vec(program)` and
    `ez.make_vec("module:main")` make the environment for trainers.

    Args:
        main: the game. It calls `agent.act(ez.Obs(...), Choices)` for a decision and `agent.game_over()` at
            the end of an episode. Training calls it again where it returns between episodes.
        entities, actions, global_features, hidden: as for `ez.declare`.

    Raises:
        TypeError: `main` is no function; or an entity or action can't be used (see `ez.declare`).
    """

    def __init__(
        self,
        main: Main,
        entities: Sequence[type],
        actions: Mapping[str, type[Enum] | ActionSpace],
        global_features: type | Sequence[str] = (),
        hidden: bool = False,
    ) -> None:
        self.observation_space, self.action_space = declare(entities, actions, global_features, hidden)
        if not _takes_agent(main):
            raise TypeError(f"program: expected a function that takes an agent, got {main!r}")
        self.main = main
        update_wrapper(self, main)

    @property
    def name(self) -> str:
        """The name of the game in errors: "module:function"."""
        function = getattr(self.main, "__qualname__", type(self.main).__name__)
        return f"{getattr(self.main, '__module__', '?')}:{function}"

    def __call__(self, agent: Any) -> Any:
        """Play with `agent`."""
        return self.main(agent)


def _takes_agent(main: Any) -> bool:
    """Return False where `main` can't be called with one argument."""
    if not callable(main):
        return False
    try:
        signature(main).bind(None)
    except TypeError:
        return False
    except ValueError:  # a function in C need not say what it takes
        pass
    return True


def program(
    *,
    entities: Sequence[type],
    actions: Mapping[str, type[Enum] | ActionSpace],
    global_features: type | Sequence[str] = (),
    hidden: bool = False,
) -> Callable[[Main], Program]:
    """Declare what a game with a loop of its own asks for.

        @ez.program(entities=[Player, Enemy], actions={"move": Move})
        def main(agent):
            game = Game()
            while not game.is_over:
                game.move(agent.act(ez.Obs(game.player, game.enemies, score=game.score), Move))
            agent.game_over(score=game.score)

    Args:
        entities, actions, global_features, hidden: as for `ez.declare`.

    Returns:
        a decorator that makes a `Program` of a function.

    Raises:
        TypeError: an entity or action can't be used (see `ez.declare`).
    """
    return partial(
        Program, entities=entities, actions=actions, global_features=global_features, hidden=hidden
    )
