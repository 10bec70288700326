"""IMPALA's residual network (Espeholt et al. 2018, arXiv:1802.01561, figure 3, right) for images of any size.

Shape alphabet: B images, C channels, H and W height and width.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional


class ResidualBlock(nn.Module):
    """x + conv(ReLU(conv(ReLU(x)))), both 3 × 3: (B, C, H, W) to the same."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv1(functional.relu(self.conv0(functional.relu(x))))


class ConvSequence(nn.Module):
    """A 3 × 3 convolution, a 3 × 3 maximum with stride 2, two residual blocks.

    (B, C, H, W) to (B, C', ⌈H / 2⌉, ⌈W / 2⌉).
    """

    def __init__(self, channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out_channels, 3, padding=1)
        self.block0 = ResidualBlock(out_channels)
        self.block1 = ResidualBlock(out_channels)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(self.conv(x), 3, stride=2, padding=1)
        return self.block1(self.block0(x))


class ImpalaEncoder(nn.Module):
    """Convolution sequences, then ReLU, one linear layer, ReLU: (B, C, H, W) to (B, hidden).

    The weights start as torch has them, as in the programs of Gym-μRTS and CleanRL's for Procgen.
    """

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        sequences: Sequence[int] = (16, 32, 32),
        hidden: int = 256,
    ) -> None:
        """
        Raises:
            ValueError: a size below 1, or no sequence.
        """
        super().__init__()
        if not sequences or min(channels, height, width, hidden, *sequences) < 1:
            raise ValueError(
                f"ImpalaEncoder: expected positive sizes, got {channels} channels, {height} × {width},"
                f" sequences {tuple(sequences)} and {hidden} outputs"
            )
        self.hidden = hidden
        layers = []
        for out_channels in sequences:
            layers.append(ConvSequence(channels, out_channels))
            channels, height, width = out_channels, (height + 1) // 2, (width + 1) // 2
        self.sequences = nn.Sequential(*layers)
        self.linear = nn.Linear(channels * height * width, hidden)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.linear(functional.relu(self.sequences(x).flatten(1))))
