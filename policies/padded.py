"""`PaddedRogueNet`: RogueNet's rows of padded observations, for learners that want fixed arrays.

Shape alphabet: B steps, M_t slots of entity type t, M of all types, N entities that exist, F features,
A slots of an action's actors, E of its actees, D width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from ..envs import EntityBatch, PaddedSpace
from ..ragged import RaggedArray
from .compilation import not_compiled
from .engines.engine_choice import EngineChooser
from .engines.fused_engine import FusedRows
from .engines.proof import rows_difference
from .inputs.moments import FeatureColumns
from .inputs.prepare import Inputs, Prepared
from .padded_slots import Flags, Slots
from .rogue_net import RogueNet, RogueNetConfig
from .rogue_net.blocks import mean_of_steps
from .rogue_net.config import from_options
from .rogue_net.names import NamedModules
from .rogue_net.network import Encoder
from .rogue_net.normalization import InputNorm, take_in


class PaddedRogueNet(nn.Module):
    """RogueNet's embedding and blocks on the padded observations of `to_gymnasium(env, "padded", …)`.

        env = ez.to_gymnasium(MyEnv(), "padded", maxima=8, flat_actions=True)
        net = ez.PaddedRogueNet(env.observation_space, d_model=16, n_layer=2, n_head=2)
        features = net({name: torch.as_tensor(array) for name, array in observations.items()})

    It removes the padding first, so attention costs no more than the entities that exist. Values in empty
    slots are ignored, and the parameters do not depend on the maxima.

    The features (B, features_dim) are in this order, each D wide:

    - the mean of the step's rows, zeros at a step without any;
    - RogueNet's row for the step as a whole, which global actions read, where it has one (see `Inputs`);
    - with `slot_rows`, for each action that entities perform the rows of its A actors and, for a
      select-entity action, of its E actees, in the order of the observation's slots, zeros for empty slots.

    Linear maps of these features can compute what RogueNet's own heads for categorical actions and its value
    compute. Hidden entities (`EntitySpace(hidden=True)`) are left out, for values too: one module computes
    both.

    Inputs are normalized by running statistics. The first observations initialize them. Observations in
    training mode with gradients are added to them, and take effect when the module goes to evaluation mode,
    so inputs do not shift between the epochs of an update. SB3 and Tianshou switch modes themselves; in a
    loop of your own call `train()` before an update and `eval()` before acting.

    Args:
        observation_space: the environment's (of a vector environment its `single_observation_space`).
        slot_rows: True: the features contain the rows of actors and actees, if entities act.
        options: those of `RogueNetConfig`.

    Raises:
        TypeError: the space is not that of padded observations, or an option is unknown.
        ValueError: an array of the space is not as it was padded, or an option doesn't fit.
    """

    def __init__(
        self, observation_space: gymnasium.Space[Any], slot_rows: bool = True, **options: Any
    ) -> None:
        super().__init__()
        space = _checked_space(observation_space)
        self.space, self.layout = space, space.layout
        self.settings = from_options(RogueNetConfig, options)
        _check_settings(self.settings)
        self.inputs = Inputs(self.layout.space, self.settings)
        features = self.inputs.features
        # SB3's DQN copies to its target network, besides parameters, only what has "running_" in its name.
        self.running_normalization = NamedModules(
            {name: InputNorm(len(names)) for name, names in features.items() if names}
        )
        self.encoder = Encoder(self.settings, features)
        self._chooser = EngineChooser(self.settings, self.layout.space, self, is_static=False)
        self._fused: FusedRows | None = None  # made when it is needed
        self.slots = Slots(self.layout, slot_rows)
        self._counts = dict.fromkeys(self.running_normalization.names, 0.0)  # when last refreshed
        #: Width of the output.
        self.features_dim = self.settings.d_model * (1 + self.inputs.has_global_row + self.slots.num_rows)

    @not_compiled
    def forward(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Padded observations (B, …) to features (B, features_dim), with gradients for the parameters.

        Args:
            observations: tensors by the names of the space, of any dtype, on the module's device.

        Raises:
            TypeError: an array is no tensor.
            ValueError: an array is missing or of another shape; a flag of presence is neither 0 nor 1, as
                after `VecNormalize(norm_obs=True)`; or a feature is NaN or infinite in training.
        """
        observations = self.space.by_layout(observations)
        flags = self.slots.flags(observations)
        batch = self._batch(observations, flags)
        prepared = self.inputs.prepare(batch)
        self._move_statistics(prepared)
        like = next(self.encoder.parameters())
        choice = self._chooser.choose(like, self.training, torch.is_grad_enabled(), self._compare)
        self._chooser.log(choice)
        fused = self._fused if choice.name == "fused" else None
        x = self._rows(prepared) if fused is None else fused(prepared)  # (N, D)
        parts = [mean_of_steps(x, prepared.rows)]
        if self.inputs.has_global_row:  # a step's last
            parts.append(x.index_select(0, torch.from_numpy(prepared.rows.offsets[1:] - 1).to(x.device)))
        index = self.slots.row_indices(observations, flags, prepared.rows.offsets)
        if index.size:
            x = torch.cat([x, x.new_zeros(1, x.shape[1])])  # the last row is that of empty slots
            rows = x.index_select(0, torch.from_numpy(index.reshape(-1)).to(x.device))
            parts.append(rows.view(len(index), self.slots.num_rows * x.shape[1]))
        return torch.cat(parts, 1)

    def load_rogue_net(self, net: RogueNet) -> None:
        """Copy the embedding, blocks and statistics of `net`, a network that `ez.PPO` trained, for example.

        Raises:
            ValueError: its entity types, features or options are others; nothing was copied.
        """
        if difference := self.settings.difference(net.settings, heads=False):
            raise ValueError(f"the network differs: {difference}")
        if net.inputs.features != self.inputs.features:
            raise ValueError(
                f"the network differs: features: expected {self.inputs.features}, got {net.inputs.features}"
            )
        self.encoder.load_state_dict(net.policy_net.state_dict())
        self.running_normalization.load_state_dict(net.normalization.state_dict())

    def train(self, mode: bool = True) -> PaddedRogueNet:
        """Go to training or evaluation mode; in the latter the new statistics take effect."""
        super().train(mode)
        if not mode:
            self._refresh()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the engine, which refers to this object's modules: copies make their own."""
        return {**vars(self), "_fused": None}

    # -- inside ---------------------------------------------------------------------------------------------

    def _rows(self, prepared: Prepared) -> Tensor:
        """Compute the rows (N, D) in torch."""
        like = next(self.encoder.parameters())
        x = self.encoder.embedding(prepared, self.running_normalization, like)
        return self.encoder.encode(x, prepared, None, prepared.rows)

    def _compare(self, engine: str, learns: bool) -> str | None:
        """Make the fused engine anew; return where it differs from torch."""
        try:
            self._fused = self._fused_rows()
        except Exception as error:  # a module of the user's may have other parts
            return f"{type(error).__name__} in making kernels: {error}"
        return rows_difference(
            self, lambda copy: (copy._rows, copy._fused_rows()), self.inputs, self.settings, learns
        )

    def _fused_rows(self) -> FusedRows:
        norms = self.running_normalization
        return FusedRows(self.encoder, norms, self.inputs.features, self.settings)

    def _batch(self, observations: Mapping[str, Tensor], flags: Flags) -> EntityBatch:
        """Return the entities without padding and without actions."""
        entities = {}
        for name, features in self.layout.space.entities.items():
            present = flags[f"presence/{name}"]
            rows = np.zeros((int(present.sum()), len(features)), np.float32)
            if rows.size:
                padded = observations[f"entities/{name}"].detach()
                rows = padded[torch.from_numpy(present).to(padded.device)].float().cpu().numpy()
            entities[name] = RaggedArray.from_lengths(rows, present.sum(1))
        num_steps = self.slots.num_steps(observations)
        globals_ = np.zeros((num_steps, 0), np.float32)
        if self.layout.space.global_features:
            globals_ = observations["globals"].detach().float().cpu().numpy()
        return EntityBatch(entities, globals_, {})

    def _move_statistics(self, prepared: Prepared) -> None:
        norms: Any = {name: self.running_normalization[name] for name in self.running_normalization.names}
        learns = self.training and torch.is_grad_enabled()
        fresh = not any(float(norm.count) for norm in norms.values())
        if learns or fresh:
            columns = {name: [FeatureColumns(values)] for name, values in prepared.features.items()}
            take_in(norms, columns, self.inputs.features)
        if fresh or not self.training:
            self._refresh()

    def _refresh(self) -> None:
        """Normalize by what the statistics are now; others may have written to them."""
        for name in self.running_normalization.names:
            norm: Any = self.running_normalization[name]
            count = float(norm.count)
            if count != self._counts[name]:
                norm.refresh()
                self._counts[name] = count


_ALONE = "wrappers must not change observations"


def _checked_space(space: gymnasium.Space[Any]) -> PaddedSpace:
    build = "ez.to_gymnasium(env, 'padded', maxima=…, flat_actions=True)"
    if not isinstance(space, PaddedSpace):
        raise TypeError(
            f"PaddedRogueNet: expected the observation space of {build}, got {type(space).__name__}"
            f" {_keys(space)}; {_ALONE}, as VecFrameStack does"
        )
    for key, part in space.layout.observation_space.without_empty_arrays().spaces.items():
        name = key if space.names is None else space.names.get(key, key)
        if name not in space.spaces:
            raise ValueError(f"{name!r} is missing in the space of {build}; {_ALONE}")
        if space.spaces[name] != part:
            raise ValueError(
                f"{name!r} of the space of {build} was {part} and is {space.spaces[name]} now; {_ALONE}"
            )
    return space


def _keys(space: gymnasium.Space[Any]) -> str:
    names = list(space.spaces) if isinstance(space, gymnasium.spaces.Dict) else []
    return f"of {', '.join(names)}" if names else f"of shape {space.shape}"


def _check_settings(settings: RogueNetConfig) -> None:
    if settings.separate_value_net:
        raise ValueError(
            "separate_value_net: expected False, got True: this module is one network. Make two of them"
            " (SB3: policy_kwargs=dict(share_features_extractor=False))."
        )
    if settings.engine == "graphs":
        raise ValueError("engine: PaddedRogueNet runs on 'auto', 'fused' or 'torch', got 'graphs'")
    relative = settings.relative_position
    if relative is not None and (relative.key_projection or relative.value_projection):
        raise ValueError(
            "relative_position: key_projection and value_projection need statistics that only ez.PPO gathers"
        )
