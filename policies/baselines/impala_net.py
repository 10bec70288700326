"""`ImpalaNet`: IMPALA's residual network on frames, as Procgen's own results were made with.

Cobbe et al. 2019 (arXiv:1912.01588) and Espeholt et al. 2018 (arXiv:1802.01561). Shape alphabet: B steps,
A actors, C choices, H, W and F height, width and channels of a frame.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from ...envs import ActionMask, EntityBatch, GlobalCategorical
from ..rogue_net.heads import Choices
from ..rogue_net.tensors import as_tensor
from .baseline import Baseline
from .config import ImpalaNetConfig
from .cost import convolution_cost
from .gridnet import scaled
from .impala import ImpalaEncoder


class ImpalaNet(Baseline):
    """IMPALA's network on frames, with one global action; a `Policy`.

        venv = ez.make_vec("Procgen/coinrun", num_envs=64, features="pixels")
        net = ImpalaNet(venv.single_observation_space, venv.single_action_space)

    Frames are divided by 255, encoded (`ImpalaEncoder`), and read by one linear layer for the logits and one
    for the value. Entities and global features are not read: the space has none. Options are the fields of
    `ImpalaNetConfig`.
    """

    options = ImpalaNetConfig
    kind = GlobalCategorical
    frame: tuple[int, int, int]

    def _build(self) -> None:
        space = self.observation_space
        if space.frame is None or space.entities or space.global_features:
            raise ValueError(f"ImpalaNet: expected a space of frames alone, got {space}")
        self.distribution = Choices(self.name)
        self.frame = space.frame
        self.num_choices: int = self.action.num_choices
        height, width, channels = self.frame
        hidden = self.settings.hidden
        self.encoder = ImpalaEncoder(channels, height, width, self.settings.channels, hidden)
        self.actor = scaled(nn.Linear(hidden, self.num_choices), 0.01)
        self.critic = scaled(nn.Linear(hidden, 1), 1.0)

    def _logits_values(
        self, seen: Tensor, actors: NDArray[np.int64], rng: np.random.Generator | None
    ) -> tuple[Tensor, Tensor]:
        encoded = self.encoder(seen)
        logits = self.actor(encoded).index_select(0, as_tensor(actors, encoded))
        return logits, self.critic(encoded).squeeze(1)

    def _values(self, seen: Tensor) -> Tensor:
        return self.critic(self.encoder(seen)).squeeze(1)

    def _actors(self, seen: Tensor, mask: ActionMask) -> NDArray[np.int64]:
        steps = mask.actors.sequence_indices()
        if mask.mask.values.shape != (len(steps), self.num_choices):
            raise ValueError(
                f"action {self.name!r}: mask: expected shape ({len(steps)}, {self.num_choices}),"
                f" got {mask.mask.values.shape}"
            )
        return steps

    def _see(self, batch: EntityBatch) -> Tensor:
        """Return the batch's frames (B, F, H, W), from 0 to 1."""
        frames = batch.frames
        if (
            frames is None
            or frames.values.dtype != np.uint8
            or frames.values.shape != (len(batch), *self.frame)
        ):
            got = "none" if frames is None else f"{frames.values.dtype} {frames.values.shape}"
            raise ValueError(f"frames: expected uint8 {(len(batch), *self.frame)}, got {got}")
        weight = self.critic.weight
        # They go to the device as bytes, and lie in memory as cuDNN and oneDNN like it best (channels last).
        return as_tensor(frames.values, weight).permute(0, 3, 1, 2).to(weight.dtype) / 255

    def _cost(self, entities: float, actors: float) -> dict[str, float]:
        height, width, channels = self.frame
        return {
            "encoder": convolution_cost(self.encoder, (channels, height, width)),
            "actor": float(self.settings.hidden * self.num_choices),
            "critic": float(self.settings.hidden),
        }
