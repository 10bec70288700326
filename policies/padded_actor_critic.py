"""`PaddedActorCritic`: the whole RogueNet on padded observations, with its heads.

Shape alphabet: B steps, A slots of an action's actors, E of its actees, C choices, D width, S sum of choices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from ..envs.spaces.changes import action_changes
from .compilation import not_compiled
from .padded import PaddedRogueNet
from .rogue_net import RogueNet
from .rogue_net.heads import SelectEntityHead
from .rogue_net.names import NamedModules
from .rogue_net.tensors import forbid


class PaddedActorCritic(nn.Module):
    """RogueNet with its heads on the padded observations of `to_gymnasium(env, "padded", flat_actions=True)`.

        net = ez.PaddedActorCritic(env.observation_space, d_model=16, n_layer=2, n_head=2)
        logits, values = net({name: torch.as_tensor(array) for name, array in observations.items()})
        distributions = [Categorical(logits=part) for part in logits.split(net.num_choices, 1)]

    The logits (B, S) are those of the flat action, a Discrete or MultiDiscrete: for each of its choices as
    many as `num_choices` says. Masked choices have a very low logit. A choice without an actor, or of which
    the mask allows nothing, has one allowed value, 0, so it adds nothing to log-probabilities and entropies.
    The components of a conditional multi-discrete action are independent, and all of them count
    (`composite="all"`).

    Parameters do not depend on the maxima: actors share a head, and actees are selected by their rows.

    Args:
        observation_space: the environment's (of a vector environment its `single_observation_space`).
        options: those of `RogueNetConfig`.

    Attributes:
        net: computes the rows; see `PaddedRogueNet` for its statistics, its modes and its errors.
        num_choices: the number of values of each choice of the flat action; they sum to S.

    Raises:
        TypeError: the space is not that of padded observations, or an option is unknown.
        ValueError: an action is continuous, or an option doesn't fit.
    """

    def __init__(self, observation_space: gymnasium.Space[Any], **options: Any) -> None:
        super().__init__()
        self.net = PaddedRogueNet(observation_space, **options)
        space = self.net.layout.space
        real = [name for name, action in space.actions.items() if action.is_continuous]
        if real:
            raise ValueError(
                f"PaddedActorCritic: action {real[0]!r}: expected discrete actions, got a continuous one."
                " Put a head of your own on the features of PaddedRogueNet"
            )
        # RogueNet makes the heads, so that they begin as its own do.
        heads = RogueNet(space, space.actions, **options)
        self.action_heads: NamedModules = heads.action_heads
        self.value_head = heads.value_head
        #: In the order of flat actions: Gymnasium's Dict sorts its names.
        self._names = sorted(space.actions)
        self._places = self._row_places()
        counts = self.net.layout.max_actors
        self.num_choices = [size for name in self._names for size in self._components(name) * counts[name]]

    @not_compiled
    def forward(self, observations: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return masked logits (B, S) and values (B,) of padded observations (B, …), with gradients.

        Raises:
            TypeError, ValueError: as `PaddedRogueNet` does, for masks as well.
        """
        features = self.net(observations)
        width = self.net.settings.d_model
        rows = features.view(len(features), self.net.features_dim // width, width)  # (B, R, D)
        values = self.value_head.proj(rows[:, 0]).squeeze(1)
        logits = [self._logits(name, rows).flatten(1) for name in self._names]
        return forbid(torch.cat(logits, 1), ~self.action_masks(observations)), values

    @not_compiled
    def action_masks(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Return what the observations (B, …) allow, bool (B, S), as `action_masks()` of the environment.

        Raises:
            TypeError, ValueError: a mask is missing, no tensor, or of another shape.
        """
        observations = self.net.space.by_layout(observations)
        self.net.slots.check_arrays(observations, [f"actions/{name}/mask" for name in self._names])
        masks = []
        for name in self._names:
            if f"actions/{name}/mask" in observations:  # otherwise there are no slots
                pieces = []
                allowed = observations[f"actions/{name}/mask"].bool()  # (B, A, C)
                for part in allowed.split(self._components(name), -1):
                    pieces += [part[..., :1] | ~part.any(-1, keepdim=True), part[..., 1:]]
                masks.append(torch.cat(pieces, -1).flatten(1))
        return torch.cat(masks, 1)

    def load_rogue_net(self, net: RogueNet) -> None:
        """Copy all weights and statistics of `net`, a network that `ez.PPO` trained, for example.

        Raises:
            ValueError: its entity types, features, actions or options are others; nothing was copied.
        """
        space = self.net.layout.space
        if net.action_space != space.actions:
            raise ValueError(f"the network differs: {action_changes(space.actions, net.action_space)}")
        self.net.load_rogue_net(net)
        self.action_heads.load_state_dict(net.action_heads.state_dict())
        self.value_head.load_state_dict(net.value_head.state_dict())

    # -- inside ---------------------------------------------------------------------------------------------

    def _logits(self, name: str, rows: Tensor) -> Tensor:
        """Return the logits (B, A, C), or (B, A, E), of an action, from rows (B, R, D)."""
        head: Any = self.action_heads[name]
        actors = rows[:, self._places[name]]
        if not isinstance(head, SelectEntityHead):
            return head.proj(actors)
        queries, keys = head.query_proj(actors), head.key_proj(rows[:, self._places[f"{name} actees"]])
        return queries @ keys.transpose(1, 2) / math.sqrt(queries.shape[2])

    def _row_places(self) -> dict[str, slice]:
        """Return where the rows of actors and of actees are among the features of `PaddedRogueNet`."""
        layout, places = self.net.layout, {}
        start = 1 + self.net.inputs.has_global_row
        for name, action in layout.space.actions.items():
            if action.is_global:
                places[name] = slice(1, 2)
                continue
            places[name] = slice(start, start + layout.max_actors[name])
            start += layout.max_actors[name]
            if action.selects_entities:
                places[f"{name} actees"] = slice(start, start + layout.max_actees[name])
                start += layout.max_actees[name]
        return places

    def _components(self, name: str) -> list[int]:
        """Return the number of values of each choice that an actor of the action has."""
        action, layout = self.net.layout.space.actions[name], self.net.layout
        width = layout.max_actees[name] if action.selects_entities else action.mask_columns
        return np.diff([*action.choice_columns, width]).tolist()
