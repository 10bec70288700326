"""The spaces of packed batches and actions, for libraries that ask what arrays have for shapes.

The paths of these classes are part of saved models: they stay where they are.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import DTypeLike, NDArray

from ..actions.array_checks import ordered
from ..actions.entity_action_space import EntityActionSpace
from ..errors import ObservationError
from ..spaces.entity_space import EntitySpace
from .entity_batch import batch_observations
from .packed import PackedLayout

#: Stable-Baselines3 puts the space that it can't use into its error messages; this says what to do instead.
_ADVICE = (
    "use stable_baselines3.PPO or A2C with entitize.sb3.RogueNetPolicy and"
    " rollout_buffer_class=entitize.sb3.RaggedRolloutBuffer (entitize.sb3.PPO fills these in), without"
    " VecFrameStack, and VecNormalize only with norm_obs=False, since RogueNet normalizes its inputs itself"
)
_ON_POLICY = "ragged, for stable_baselines3.PPO and A2C; others can train on padded observations"


class RaggedPart(spaces.Space[NDArray[Any]]):
    """One array of a packed batch: its length differs from batch to batch, so it has no shape.

    It is of no class that a library could take for a fixed shape.
    """

    def __init__(self, name: str, item_shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self.name = name
        self.item_shape = item_shape
        super().__init__(None, dtype)

    def contains(self, x: Any) -> bool:
        return isinstance(x, np.ndarray) and x.dtype == self.dtype and x.shape[1:] == self.item_shape

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> NDArray[Any]:
        """The array of a batch without steps or items."""
        return np.zeros((0, *self.item_shape), self.dtype)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedPart) and (self.name, self.item_shape, self.dtype) == (
            other.name,
            other.item_shape,
            other.dtype,
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shape = ", ".join(["n", *map(str, self.item_shape)])
        return f"<ragged array {self.name!r}, {self.dtype} ({shape}) for any n: {_ADVICE}>"


class PackedBatchSpace(spaces.Dict):
    """Batches of `entity_space`, of any number of steps, packed as `PackedLayout` says.

    Shallow, with one `RaggedPart` for each array of a packed batch.
    """

    def __init__(self, entity_space: EntitySpace) -> None:
        if not isinstance(entity_space, EntitySpace):
            raise TypeError(f"entity_space: expected an EntitySpace, got {entity_space!r}")
        self.entity_space = entity_space
        packed = self.layout.pack(batch_observations(entity_space, []))
        super().__init__(ordered({k: RaggedPart(k, a.shape[1:], a.dtype) for k, a in packed.items()}))

    @cached_property
    def layout(self) -> PackedLayout:
        """Names, shapes and dtypes of the packed arrays, and the functions that pack and unpack batches."""
        return PackedLayout(self.entity_space)

    def contains(self, x: Any) -> bool:
        try:
            self.layout.unpack_checked(x)
        except (ObservationError, TypeError):
            return False
        return True

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> dict[str, Any]:
        """A batch of one random step."""
        return self.layout.pack(batch_observations(self.entity_space, [self.entity_space.sample()]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedBatchSpace) and self.entity_space == other.entity_space

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.entity_space,)

    def __repr__(self) -> str:
        return f"PackedBatchSpace({self.entity_space!r})"


class PackedActionSpace(spaces.MultiDiscrete):
    """Actions of `entity_actions` as one array of any length, packed as `PackedLayout` says.

    It is a `MultiDiscrete` in name only: Stable-Baselines3 asks for one of four classes of action spaces,
    and of these the actions of a `MultiDiscrete` are the ones that PPO and A2C pass on untouched.
    """

    def __init__(self, entity_actions: EntityActionSpace) -> None:
        if not isinstance(entity_actions, EntityActionSpace):
            raise TypeError(f"entity_actions: expected an EntityActionSpace, got {entity_actions!r}")
        self.entity_actions = entity_actions
        super().__init__([1])

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> NDArray[Any]:
        """Return an empty array: only a batch says which actors act."""
        return np.zeros(0, np.int64)

    def contains(self, x: Any) -> bool:
        return isinstance(x, np.ndarray) and x.ndim == 1 and x.dtype.kind in "if"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedActionSpace) and self.entity_actions == other.entity_actions

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.entity_actions,)

    def __repr__(self) -> str:
        return f"PackedActionSpace({self.entity_actions!r}; {_ON_POLICY})"
