"""`RolloutActor`: plays a network in environments of its own, in a process without torch.

Shape alphabet: T steps, E environments of this actor, P numbers of all parameters.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...envs import EntityActionSpace, EntityBatch, EntitySpace, EntityVectorEnv
from ...envs.vector.vector_checks import check_autoreset
from ...envs.vector.wrapper import evolving_layer
from ...policies.rogue_net.config import RogueNetConfig, from_options
from ...policies.runtime.network import FlatNetwork
from ...ragged import set_num_threads
from ..player import Player
from ..rollout import Rollout
from ..schedule import Clock

if TYPE_CHECKING:
    from ...envs.vector.vector_spec import VectorSpec


@dataclass(frozen=True, eq=False)
class Environments:
    """Spaces and origin of an actor's environments."""

    observation_space: EntitySpace
    action_space: EntityActionSpace
    vector_spec: VectorSpec | None


class RolloutActor:
    """Plays rollouts, one call after the other.

    Args:
        make_venv: makes the environments, given their number.
    """

    def __init__(self, make_venv: Callable[[int], EntityVectorEnv]) -> None:
        self._make_venv = make_venv
        self._renewed = False

    def make(self, num_envs: int) -> Environments:
        """Make the environments.

        Raises:
            ValueError: they do not reset in the step that ends an episode, their number is another, or they
                change with the policy.
        """
        set_num_threads(1)
        venv = self._venv = self._make_venv(num_envs)
        if venv.num_envs != num_envs:
            raise ValueError(f"make_env: expected {num_envs} environments, got {venv.num_envs}")
        check_autoreset("make_env", venv)
        if evolving_layer(venv) is not None:
            raise ValueError(
                f"{type(venv).__name__}: expected environments that do not change with the policy. Learned"
                " opponents play in one process only"
            )
        return Environments(venv.single_observation_space, venv.single_action_space, venv.vector_spec)

    def open(self, space: EntitySpace, options: Mapping[str, Any], num_steps: int) -> None:
        """Prepare to play `num_steps` steps at a time with a RogueNet of these `options` over `space`."""
        self._network = FlatNetwork(space, from_options(RogueNetConfig, dict(options)))
        if self._venv.single_observation_space != space:
            self._network.adapt_to(self._venv.single_observation_space)
        self._player = Player(self._network, self._venv, num_steps, lambda: None, Clock())

    def start_episodes(self, seed: int, is_renewed: bool = False) -> EntityBatch:
        """Start an episode in every environment, lane i with `seed + i`; return the steps of active lanes.

        Args:
            is_renewed: the environments take the place of others, whose running episodes are lost.
        """
        self._renewed = is_renewed
        return self._player.start_episodes(seed)

    def play(self, weights: NDArray[np.float32], draws: Sequence[int], fraction: float) -> Rollout:
        """Return the next rollout, valid until the next call.

        Args:
            weights: all parameters (P,), as `FusedNetwork.layout` orders them.
            draws: seeds the generator of the actions.
            fraction: of training that is done; goes to the environments.
        """
        # A copy: Ray's arrays are read-only, for which kernels are not compiled.
        self._network.load(np.array(weights))
        self._venv.set_progress(fraction)
        rollout = self._player.play(np.random.default_rng(draws))
        if self._renewed:
            rollout = replace(rollout, renewed=np.ones(self._venv.num_envs, bool))
            self._renewed = False
        return rollout

    def process(self) -> tuple[int, bool]:
        """Return the process id, and True if the process has loaded torch."""
        return os.getpid(), "torch" in sys.modules
