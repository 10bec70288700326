"""The options of the published networks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from ...envs.errors import one_of
from ..rogue_net.config import Composite, retire_attention

#: The planes that are 1 in an empty cell of μRTS: no hit points, no resources, no owner, no type, no action.
EMPTY_PLANES = (0, 5, 10, 13, 21)
#: Name of a further plane that is 1 in an empty cell, where there is one.
FREE_PLANE = "terrain_free"


@dataclass(frozen=True)
class BaselineConfig:
    """Base class of the configurations."""

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings: the same class with `**config.to_dict()` gives an equal one."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}


@dataclass(frozen=True)
class ImpalaNetConfig(BaselineConfig):
    """Every option of an `ImpalaNet`."""

    channels: tuple[int, ...] = (16, 32, 32)
    """Channels of the convolution sequences."""
    hidden: int = 256
    """Width of the linear layer behind them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "channels", tuple(self.channels))  # JSON has lists
        if not self.channels or min(self.hidden, *self.channels) < 1:
            raise ValueError(
                f"channels and hidden: expected positive sizes, got {self.channels} and {self.hidden}"
            )


@dataclass(frozen=True)
class MapConfig(BaselineConfig):
    """Configuration of networks that read maps."""

    height: int
    """Cells of the map from top to bottom."""
    width: int
    """Cells of the map from left to right."""
    composite: Composite = "used"
    """Components of an action that count: those that its kind uses, or "all", as in the papers."""

    def __post_init__(self) -> None:
        if self.height < 1 or self.width < 1:
            raise ValueError(
                f"map: expected height and width of at least 1, got {self.height} and {self.width}"
            )
        one_of("composite", self.composite, ("used", "all"))


@dataclass(frozen=True)
class TransformerConfig(MapConfig):
    """Every option of a `TransformerNet`."""

    position: Literal["one_hot", "embedding"] | None = None
    """Encoding of an entity's cell: one number per cell, or a learned vector. None: "one_hot" up to
    64 cells."""
    position_width: int = 64
    """Width of the learned vector."""
    n_layer: int = 5
    """Number of layers."""
    n_head: int = 7
    """Attention heads; divides the width, which is that of the position and the planes together."""
    d_hidden: int = 512
    """Width of the layers' feed-forward networks."""
    dropout: float = 0.1
    """Probability of dropping a number, where gradients are computed in training mode."""
    dropout_while_acting: bool = False
    """Drop in `act` and `value` as well, in any mode, unless the most probable actions are asked for."""
    mean_over_padding: bool = False
    """Let the critic's means divide by the most entities of any step of the batch, not by their number."""
    attention: str = "auto"
    """Deprecated: has no effect."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.position is None:
            position = "one_hot" if self.height * self.width <= 64 else "embedding"
            object.__setattr__(self, "position", position)
        one_of("position", self.position, ("one_hot", "embedding"))
        for name in ("position_width", "n_layer", "n_head", "d_hidden"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout: expected a probability below 1, got {self.dropout}")
        retire_attention(self)


@dataclass(frozen=True)
class GridConfig(MapConfig):
    """Every option of a `GridNet`."""

    empty_planes: tuple[int, ...] | None = None
    """The planes that are 1 in a cell without entity. None: 0, 5, 10, 13, 21, and "terrain_free" if there is
    such a plane."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.empty_planes is not None:
            object.__setattr__(self, "empty_planes", tuple(self.empty_planes))  # JSON has lists

    def empty_planes_of(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """The planes that are 1 in a cell without entity, where the planes have these names."""
        if self.empty_planes is not None:
            return self.empty_planes
        return (*EMPTY_PLANES, *(place for place, name in enumerate(names) if name == FREE_PLANE))


@dataclass(frozen=True)
class ImpalaConfig(ImpalaNetConfig, GridConfig):
    """Every option of an `ImpalaGridNet` and of a `UnitActionNet`."""

    def __post_init__(self) -> None:
        GridConfig.__post_init__(self)
        ImpalaNetConfig.__post_init__(self)
