"""`RaggedRolloutBuffer`: where Stable-Baselines3 keeps a rollout of packed batches.

The path of the class is part of saved models: it stays where it is.
Shape alphabet: T steps, E environments, B = T · E rows; step t of environment e is row t · E + e.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from stable_baselines3.common.utils import get_device
from stable_baselines3.common.vec_env import VecNormalize
from torch import Tensor

from ...envs import EntityBatch, EntityBatchBuffer, PackedActionSpace, PackedBatchSpace
from ...envs.batch.packed import PackedBatch
from ...ragged import RaggedArray, RaggedBuffer, keep_freed_memory
from .sb3_policy import RolloutSteps


class RaggedRolloutBuffer(RolloutBuffer):
    """Collects rollouts of an `entitize.sb3.RaggedVecEnv`, without padding, and keeps its memory.

    Rewards, values and advantages (T, E) and how they are computed are inherited. Samples hold what
    `RogueNetPolicy` takes: observations as `RolloutSteps`, actions as a dict of `RaggedArray`s.

    Args:
        buffer_size: T.
        observation_space, action_space: those of the environment.
        device: of the tensors in the samples.
        gae_lambda, gamma: λ and γ of the advantages.
        n_envs: E.

    Raises:
        TypeError: spaces of another environment.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        gae_lambda: float = 1,
        gamma: float = 0.99,
        n_envs: int = 1,
    ) -> None:
        # Not super().__init__: it asks the spaces for shapes.
        if not isinstance(observation_space, PackedBatchSpace) or not isinstance(
            action_space, PackedActionSpace
        ):
            raise TypeError(
                "RaggedRolloutBuffer: expected an environment of entitize.sb3.make_vec or vec_env, without a"
                f" wrapper of observations or actions, got {observation_space!r} and {action_space!r}"
            )
        keep_freed_memory()
        self.buffer_size = buffer_size
        self.observation_space: PackedBatchSpace = observation_space
        self.action_space = action_space
        self.device = get_device(device)
        self.gae_lambda = gae_lambda
        self.gamma = gamma
        self.n_envs = n_envs
        self._layout = observation_space.layout
        self._steps = EntityBatchBuffer(observation_space.entity_space)
        self._orders = {
            name: RaggedBuffer(action.item_shape, action.dtype)
            for name, action in action_space.entity_actions.items()
        }
        self.reset()

    def reset(self) -> None:
        """Forget the rollout."""
        shape = (self.buffer_size, self.n_envs)
        self.rewards, self.returns, self.episode_starts, self.values, self.log_probs, self.advantages = (
            np.zeros(shape, np.float32) for _ in range(6)
        )
        self._steps.clear()
        for orders in self._orders.values():
            orders.clear()
        self._rollout: tuple[EntityBatch, dict[str, RaggedArray]] | None = None
        self.pos = 0
        self.full = False

    def add(  # type: ignore[override]
        self,
        obs: PackedBatch,
        action: NDArray[Any],
        reward: NDArray[Any],
        episode_start: NDArray[Any],
        value: Tensor,
        log_prob: Tensor,
    ) -> None:
        """Store a step of all environments: what they showed, what was done (M,), and (E,) for the rest."""
        batch = self._layout.unpack(obs)
        for name, order in self._layout.unpack_actions(batch, action, as_raw=True).items():
            self._orders[name].append(order)
        self._steps.append(batch)
        self.rewards[self.pos] = reward
        self.episode_starts[self.pos] = episode_start
        self.values[self.pos] = value.cpu().numpy()
        self.log_probs[self.pos] = log_prob.cpu().numpy()
        self.pos += 1
        self.full = self.pos == self.buffer_size

    def get(self, batch_size: int | None = None) -> Generator[RolloutBufferSamples, None, None]:
        """All rows in random order, `batch_size` at a time; None: all at once.

        Raises:
            RuntimeError: the rollout is not complete.
        """
        if not self.full:
            raise RuntimeError(
                f"the rollout is not complete: expected {self.buffer_size} steps, got {self.pos}"
            )
        indices = np.random.permutation(self.buffer_size * self.n_envs)  # noqa: NPY002 - seeded by the algorithm
        size = len(indices) if batch_size is None else batch_size
        for start in range(0, len(indices), size):
            yield self._get_samples(indices[start : start + size])

    def _get_samples(
        self, batch_inds: NDArray[np.int64], env: VecNormalize | None = None
    ) -> RolloutBufferSamples:
        if self._rollout is None:
            self._rollout = self._steps.batch(), {name: b.array() for name, b in self._orders.items()}
        rollout, orders = self._rollout
        steps = RolloutSteps(rollout.gather(batch_inds), rollout)
        actions = {name: order.gather(batch_inds) for name, order in orders.items()}
        columns = (self.values, self.log_probs, self.advantages, self.returns)
        return RolloutBufferSamples(
            cast(Any, steps),
            cast(Any, actions),
            *(self.to_torch(column.reshape(-1)[batch_inds], copy=False) for column in columns),
        )
