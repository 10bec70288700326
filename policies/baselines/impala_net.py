"""`ImpalaNet`: IMPALA's residual network on frames, as Procgen's own results were made with.

Cobbe et al. 2019 (arXiv:1912.01588) and Espeholt et al. 2018 (arXiv:1802.01561). Shape alphabet: B steps,
A actors, C choices, H, W and F height, width and channels of a frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...envs import ActionMask, EntityActionSpace, EntityBatch, EntitySpace, GlobalCategorical
from ...ragged import RaggedArray
from ..inputs.actors import FORBIDDEN, check_choices, items_of, no_choice, uniform
from ..inputs.rows import plain
from ..policy import ActResult, Evaluation
from ..rogue_net.config import from_options
from ..rogue_net.sampling import draw_categorical
from ..rogue_net.summary import Cost, Summary, impala_cost
from ..rogue_net.tensors import as_tensor
from .config import ImpalaNetConfig
from .cost import convolution_cost, parameters_by_part
from .gridnet import scaled
from .impala import ImpalaEncoder


class ImpalaNet(nn.Module):
    """IMPALA's network on frames, with one global action; a `Policy`.

        venv = ez.make_vec("Procgen/coinrun", num_envs=64, features="pixels")
        net = ImpalaNet(venv.single_observation_space, venv.single_action_space)

    Frames are divided by 255, encoded (`ImpalaEncoder`), and read by one linear layer for the logits and one
    for the value. Entities and global features are not read: the space has none. Options are the fields of
    `ImpalaNetConfig`.
    """

    def __init__(
        self, observation_space: EntitySpace, action_space: EntityActionSpace, **options: Any
    ) -> None:
        """
        Raises:
            TypeError: other spaces than these, or an unknown option.
            ValueError: a space without frames or with more than frames, another action than one
                `GlobalCategorical`, or an option that does not fit.
        """
        super().__init__()
        if not isinstance(observation_space, EntitySpace) or not isinstance(action_space, EntityActionSpace):
            raise TypeError(
                "ImpalaNet: expected an EntitySpace and an EntityActionSpace, got"
                f" {type(observation_space).__name__} and {type(action_space).__name__}"
            )
        frame = observation_space.frame
        if frame is None or observation_space.entities or observation_space.global_features:
            raise ValueError(f"expected a space of frames alone, got {observation_space}")
        actions = list(action_space.items())
        if len(actions) != 1 or not isinstance(actions[0][1], GlobalCategorical):
            raise ValueError(f"expected one action, a GlobalCategorical, got {action_space}")
        self.observation_space = observation_space
        self.action_space = action_space
        self.settings = from_options(ImpalaNetConfig, options)
        #: The options as plain JSON-able values: the same class with `**config` builds the same network.
        self.config: dict[str, Any] = self.settings.to_dict()
        self.frame = frame
        self.name, self.num_choices = actions[0][0], actions[0][1].num_choices
        height, width, channels = frame
        hidden = self.settings.hidden
        self.encoder = ImpalaEncoder(channels, height, width, self.settings.channels, hidden)
        self.actor = scaled(nn.Linear(hidden, self.num_choices), 0.01)
        self.critic = scaled(nn.Linear(hidden, 1), 1.0)

    # -- the policy's interface -----------------------------------------------------------------------------

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        """Choose an action at every step; see `Policy.act`.

        Raises:
            ValueError: the batch does not fit the space, or a step allows nothing.
        """
        mask, steps = self._mask(batch)
        draws = uniform(mask, None if deterministic else rng)
        with torch.inference_mode():
            encoded = self._encode(batch)
            values = self.critic(encoded).squeeze(1).float().cpu().numpy()
            logits = self.actor(encoded).float().cpu().numpy()[steps]
        choices, log_probs = np.empty(len(steps), np.int64), np.empty(len(steps), np.float32)
        stuck = draw_categorical(logits, plain(mask.mask.values), draws, choices, log_probs)
        if stuck >= 0:
            raise no_choice(self.name, mask.actors, stuck)
        return ActResult(
            {self.name: mask.actors.with_values(choices)},
            {self.name: mask.actors.with_values(log_probs)},
            values,
        )

    def value(self, batch: EntityBatch) -> NDArray[np.float32]:
        """Predicted return of each step (B,), without gradients."""
        with torch.inference_mode():
            return self.critic(self._encode(batch)).squeeze(1).float().cpu().numpy()

    def evaluate(self, batch: EntityBatch, actions: Mapping[str, RaggedArray]) -> Evaluation:
        """Log-probabilities, entropies and values of `actions` taken at `batch`, with gradients.

        Raises:
            ValueError: the action is missing, has the wrong number of items, or was not allowed.
        """
        mask, steps = self._mask(batch)
        chosen, allowed = items_of(self.name, actions, mask.actors), mask.mask.values
        check_choices(self.name, chosen, allowed)
        encoded = self._encode(batch)
        logits = self.actor(encoded).index_select(0, as_tensor(steps, encoded))
        if not allowed.all():
            logits = logits.masked_fill(as_tensor(~allowed, logits), FORBIDDEN)
        log_probs = torch.log_softmax(logits, 1)
        entropies = -(log_probs.exp() * log_probs).sum(1)
        taken = log_probs.gather(1, as_tensor(chosen.values, logits)[:, None]).squeeze(1)
        return Evaluation({self.name: taken}, {self.name: entropies}, self.critic(encoded).squeeze(1))

    def forward(self, batch: EntityBatch, actions: Mapping[str, RaggedArray]) -> Evaluation:
        """Return `evaluate(batch, actions)`."""
        return self.evaluate(batch, actions)

    def update_normalization(self, batch: EntityBatch) -> None:
        """Nothing: frames are divided by 255, whatever they show."""

    def adapt_to(self, space: EntitySpace) -> None:
        """Check that batches of `space` can be read.

        Raises:
            ValueError: its frames or its actions are others.
        """
        if space.actions != self.action_space:
            raise ValueError(f"the actions differ: expected {self.action_space!r}, got {space.actions!r}")
        if space.frame != self.frame:
            raise ValueError(f"the frames differ: expected {self.frame}, got {space.frame}")

    def summary(
        self, entity_counts: Mapping[str, float] | None = None, actors: Mapping[str, float] | None = None
    ) -> Summary:
        """Parameters, itemised, and where `entity_counts` is given (it has no types) multiply-adds of a step.

        Activations, maxima and softmax are not counted.

        Raises:
            ValueError: an entity type, of which there are none, or an unknown action.
        """
        for name in entity_counts or {}:
            raise ValueError(f"there is no entity type {name!r}; ImpalaNet reads frames")
        for name in actors or {}:
            if name != self.name:
                raise ValueError(f"there is no action {name!r}; there is {self.name}")
        cost = None
        if entity_counts is not None:
            height, width, channels = self.frame
            items = {
                "encoder": convolution_cost(self.encoder, (channels, height, width)),
                "actor": float(self.settings.hidden * self.num_choices),
                "critic": float(self.settings.hidden),
            }
            cost = Cost({}, items, None)
        return Summary(parameters_by_part(self), None, 0, cost, impala_cost())

    # -- inside ---------------------------------------------------------------------------------------------

    def _mask(self, batch: EntityBatch) -> tuple[ActionMask, NDArray[np.int64]]:
        """The mask of the action, and the step of each actor (A,)."""
        mask = batch.actions[self.name]
        steps = mask.actors.sequence_indices()
        if mask.mask.values.shape != (len(steps), self.num_choices):
            raise ValueError(
                f"action {self.name!r}: mask: expected shape ({len(steps)}, {self.num_choices}),"
                f" got {mask.mask.values.shape}"
            )
        return mask, steps

    def _encode(self, batch: EntityBatch) -> Tensor:
        """The batch's frames, encoded (B, hidden)."""
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
        images = as_tensor(frames.values, weight).permute(0, 3, 1, 2).to(weight.dtype) / 255
        return self.encoder(images)
