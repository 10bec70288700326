"""`EntityVectorWrapper`: the base of vector environments around another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..seeds import Seeds
from .saved_state import EvolvingVectorEnv
from .vector_env import EntityVectorEnv


class EntityVectorWrapper(EntityVectorEnv):
    """An entity vector environment around another one, with its lanes, spaces and metadata. Abstract.

    A subclass writes `_reset(seeds, options)` and `_step(actions)`, which call
    `venv.reset(seed=seeds, options=options)` and `venv.step(actions)` and return what these do; `seeds` is
    what `reset` was given: a number, one for each lane, or None. Frames, training progress, `starts_over`,
    `first_lane` and `close` are passed on. `vector_spec` is None, as its name would make other environments;
    a subclass that plays the same game sets it to that of `venv`. For one whose runs resume bit for bit write
    `get_state` and `set_state` of `StatefulVectorEnv` too; the latter ends with
    `return self._continue_from(batch)`.

    Args:
        venv: the inner vector environment; it is closed with this one.
    """

    _PASSED_ON = frozenset({"starts_over", "first_lane"})

    def __init__(self, venv: EntityVectorEnv) -> None:
        self.venv = venv
        self.num_envs = venv.num_envs
        self.single_observation_space = venv.single_observation_space
        self.single_action_space = venv.single_action_space
        self.metadata = venv.metadata
        self.render_mode = venv.render_mode
        self.lane_games = venv.lane_games

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in self._PASSED_ON:
            setattr(self.venv, name, value)

    def set_progress(self, fraction: float) -> None:
        """Pass the progress of training on to `venv`."""
        self.venv.set_progress(fraction)

    def _seeds(self, seed: Seeds) -> Any:
        if isinstance(seed, Iterator):
            seed = list(seed)
        self.venv._seeds(seed)  # which raises for one that can't be used
        return seed  # None: that of the constructor of `venv`, if it was given one

    def _render(self) -> tuple[Any, ...] | None:
        return self.venv.render()

    def close_extras(self, **kwargs: Any) -> None:
        self.venv.close(**kwargs)


def evolving_layer(venv: Any) -> EvolvingVectorEnv | None:
    """Return the `EvolvingVectorEnv` that `venv` is, or that it wraps; None: there is none."""
    while isinstance(venv, EntityVectorWrapper) and not isinstance(venv, EvolvingVectorEnv):
        venv = venv.venv
    return venv if isinstance(venv, EvolvingVectorEnv) else None


def uncounted(venv: EntityVectorEnv) -> AbstractContextManager[None]:
    """Let the steps of `venv` count in no pool of opponents meanwhile (`PastSelfPlay.uncounted`)."""
    counted: AbstractContextManager[None] = getattr(evolving_layer(venv), "uncounted", nullcontext)()
    return counted
