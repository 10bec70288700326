"""`GridNet` and `ImpalaGridNet`: networks of Gym-μRTS that give every cell of the map its logits.

Huang et al. 2021 (arXiv:2105.13807). Shape alphabet: B steps, A actors, C choices of all components of an
order, P planes, H and W height and width of the map.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from ..rogue_net.tensors import as_tensor
from .config import GridConfig, ImpalaConfig
from .cost import convolution_cost
from .entity_map import MapEntities
from .impala import ImpalaEncoder
from .map_policy import ImagePolicy

#: Channels of the encoder; the decoder goes back through them.
_CHANNELS = (32, 64, 128, 256)
#: What the encoder divides height and width by.
_SHRINKS = 2 ** len(_CHANNELS)


_Layer = TypeVar("_Layer", nn.Linear, nn.Conv2d, nn.ConvTranspose2d)


def scaled(layer: _Layer, gain: float) -> _Layer:
    """`layer` with orthogonal weights of this gain and biases of 0, as in CleanRL."""
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def _encoder(planes: int) -> nn.Sequential:
    """(B, P, H, W) to (B, 256, H / 16, W / 16)."""
    layers: list[nn.Module] = []
    for before, after in zip((planes, *_CHANNELS[:-1]), _CHANNELS, strict=True):
        layers += [scaled(nn.Conv2d(before, after, 3, padding=1), math.sqrt(2))]
        layers += [nn.MaxPool2d(3, stride=2, padding=1), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _decoder(choices: int) -> nn.Sequential:
    """(B, 256, H / 16, W / 16) to (B, C, H, W)."""
    layers: list[nn.Module] = []
    for before, after in zip(_CHANNELS[::-1], (*_CHANNELS[-2::-1], choices), strict=True):
        up = nn.ConvTranspose2d(before, after, 3, stride=2, padding=1, output_padding=1)
        layers += [scaled(up, math.sqrt(2)), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class GridNet(ImagePolicy):
    """The encoder-decoder of Gym-μRTS on the planes of all cells; a `Policy`.

        net = GridNet(venv.single_observation_space, venv.single_action_space, height=16, width=16)

    The decoder gives every cell logits, of which those of the acting units' cells are read. On maps whose
    sides are no multiples of 16 the image is continued by zeros, so that what the decoder gives covers the
    map. Options are the fields of `GridConfig`.
    """

    options = GridConfig
    multiple = _SHRINKS

    def _build(self) -> None:
        super()._build()
        height, width = (-(-side // _SHRINKS) for side in (self.map.height, self.map.width))
        self.encoder = _encoder(self.map.num_planes)
        self.decoder = _decoder(self.action.num_choices)
        self.critic = nn.Sequential(
            nn.Flatten(),
            scaled(nn.Linear(_CHANNELS[-1] * height * width, 128), 1.0),
            nn.ReLU(),
            scaled(nn.Linear(128, 1), 1.0),
        )

    def _logits_values(
        self, seen: MapEntities, actors: NDArray[np.int64], rng: np.random.Generator | None
    ) -> tuple[Tensor, Tensor]:
        encoded = self._encode(self._grid(seen))
        logits = self.decoder(encoded).permute(0, 2, 3, 1)  # (B, H', W', C)
        cells = seen.cells[actors]
        place = (as_tensor(i, encoded) for i in (seen.steps[actors], *np.divmod(cells, self.map.width)))
        return logits[tuple(place)], self.critic(encoded).squeeze(1)

    def _cost(self, entities: float, actors: float) -> dict[str, float]:
        height, width = (-(-side // _SHRINKS) * _SHRINKS for side in (self.map.height, self.map.width))
        shape = (self.map.num_planes, height, width)
        small = (_CHANNELS[-1], height // _SHRINKS, width // _SHRINKS)
        return {
            "encoder": convolution_cost(self.encoder, shape),
            "decoder": convolution_cost(self.decoder, small),
            "critic": convolution_cost(self.critic, small),
        }


class ImpalaGridNet(ImagePolicy):
    """IMPALA's network on the planes of all cells, with logits for every cell; a `Policy`.

    Gym-μRTS's "GridNet diverse IMPALA". Options are the fields of `ImpalaConfig`.
    """

    options = ImpalaConfig
    encoder: ImpalaEncoder

    def _build(self) -> None:
        super()._build()
        settings, entity_map = self.settings, self.map
        self.encoder = ImpalaEncoder(
            entity_map.num_planes, entity_map.height, entity_map.width, settings.channels, settings.hidden
        )
        self.actor = scaled(nn.Linear(settings.hidden, entity_map.num_cells * self.action.num_choices), 0.01)
        self.critic = scaled(nn.Linear(settings.hidden, 1), 1.0)

    def _logits_values(
        self, seen: MapEntities, actors: NDArray[np.int64], rng: np.random.Generator | None
    ) -> tuple[Tensor, Tensor]:
        encoded = self._encode(self._grid(seen))
        logits = self.actor(encoded).view(-1, self.action.num_choices)  # (B · H · W, C)
        cells = seen.steps[actors] * self.map.num_cells + seen.cells[actors]
        return logits.index_select(0, as_tensor(cells, encoded)), self.critic(encoded).squeeze(1)

    def _cost(self, entities: float, actors: float) -> dict[str, float]:
        shape = (self.map.num_planes, self.map.height, self.map.width)
        outputs = self.map.num_cells * self.action.num_choices
        return {
            "encoder": convolution_cost(self.encoder, shape),
            "actor": self.settings.hidden * outputs,
            "critic": self.settings.hidden,
        }
