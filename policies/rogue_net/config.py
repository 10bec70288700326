"""The options of a RogueNet, as frozen dataclasses that turn into JSON and back."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ...envs.errors import one_of, whole_options
from ...suggestions import unknown

Engine = Literal["auto", "fused", "torch", "graphs"]
PoolingKind = Literal["mean", "max", "meanmax"]
GlobalFeatures = Literal["entity", "concat"]
Composite = Literal["used", "all"]
ValueGate = Literal["linear", "relu", "gelu", "sigmoid"]

#: Options that do not change what a network computes of given weights, without dropout.
_NOT_COMPUTED = {
    *("dropout", "embedding_dropout", "residual_dropout", "attention_dropout"),
    *("engine", "attention", "log_std_init"),
    "d_qk",  # weights of another width do not fit
}
#: Options of the heads and of the separate value network.
_OF_HEADS = {
    *("squash", "composite"),
    *("separate_value_net", "value_d_model", "value_n_layer", "value_n_head"),
}

_T = TypeVar("_T")


def from_options(kind: type[_T], options: Mapping[str, Any]) -> _T:
    """An instance of a config dataclass; an unknown name is an error that offers the nearest known one."""
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for name in options:
        if name not in names:
            raise TypeError(f"{kind.__name__}: {unknown('option', name, names)}")
    return kind(**options)


def _tuples(place: str, config: Any, *names: str) -> None:
    """Lists, as they come from JSON and YAML, as tuples."""
    for name in names:
        value = getattr(config, name)
        if value is None and name == "rotation_vector":
            continue
        if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
            hint = f". Use [{value!r}]" if isinstance(value, str) else ""
            raise TypeError(f"{place}: {name}: expected a list, got {value!r}{hint}")
        items = tuple(value)
        for item in items if name != "extent" else ():
            if not isinstance(item, str):
                raise TypeError(f"{place}: {name}: expected names, got {item!r}")
        object.__setattr__(config, name, items)


def _distinct(name: str, values: Sequence[Any]) -> None:
    repeated = [value for value, count in Counter(values).items() if count > 1]
    if repeated:
        raise ValueError(f"{name}: expected each once, got {repeated[0]!r} more than once")


def engine_of(options: Mapping[str, Any]) -> Engine:
    """Return the engine that options ask for, which may name it as `attention`, as version 0.1 did."""
    engine, attention = options.get("engine", "auto"), options.get("attention", "auto")
    if engine != "auto" or attention == "auto":
        return engine
    return "fused" if attention == "fused" else "torch"


def retire_attention(config: Any) -> None:
    """Set `attention`, an option of version 0.1, to "auto"; warn if it was another one."""
    one_of("attention", config.attention, ("auto", "numba", "sorted", "padded"))
    if config.attention != "auto":
        warnings.warn(
            f"attention={config.attention!r} is deprecated: there is one implementation. Remove the option;"
            " for a RogueNet that torch computes use engine='torch'.",
            DeprecationWarning,
            stacklevel=5,
        )
    object.__setattr__(config, "attention", "auto")


def _typed(config: Any, kind: type | tuple[type, ...], *names: str, place: str = "") -> None:
    for name in names:
        value = getattr(config, name)
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            wanted = "True or False" if kind is bool else "a number"
            raise TypeError(f"{place}{name}: expected {wanted}, got {value!r}")


class _Rotated:
    """Options with a heading, given by the names of two features or of one."""

    rotation_vector: tuple[str, ...] | None
    rotation_angle: str | None

    @property
    def heading(self) -> tuple[str, ...]:
        """The names of the features that hold the heading; none without a rotation."""
        return self.rotation_vector or ((self.rotation_angle,) if self.rotation_angle else ())

    def _check_rotation(self) -> None:
        vector = self.rotation_vector
        if vector is not None and len(vector) != 2:
            raise ValueError(f"rotation_vector: expected two features (cosine, sine), got {vector}")
        if vector is not None and self.rotation_angle is not None:
            raise ValueError("rotation: expected rotation_vector or rotation_angle, got both")


@dataclass(frozen=True)
class Translation(_Rotated):
    """Positions as seen from one entity: subtract its position and, if asked, turn by its heading."""

    reference: str
    """Entity type of the origin; a step has one of them, or none (then positions stay as they are)."""
    position: tuple[str, ...]
    """Names of the position features; types that lack one of them are left alone."""
    rotation_vector: tuple[str, ...] | None = None
    """Names of the reference's two features that hold its heading as a unit vector; needs 2-D positions."""
    rotation_angle: str | None = None
    """Name of the reference's feature that holds its heading in radians; needs 2-D positions."""
    add_distance: bool = False
    """Append the distance to the reference as a feature of the other types."""
    keep_reference: bool = True
    """Let the reference itself keep its absolute position and heading; False zeroes them, which makes the
    network exactly invariant to moving (and turning) the whole scene."""

    def __post_init__(self) -> None:
        _tuples("translation", self, "position", "rotation_vector")
        _typed(self, bool, "add_distance", "keep_reference", place="translation: ")
        self._check_rotation()
        if not self.position:
            raise ValueError("translation: position: expected at least one feature, got none")
        _distinct("translation: position", self.position)
        if self.heading and len(self.position) != 2:
            raise ValueError(
                f"translation: position: expected two features for a rotation, got {self.position}"
            )


@dataclass(frozen=True)
class FourierFeatures:
    """Sines and cosines of positions as further features of the entities that have them.

    A linear embedding of a coordinate can't separate near from far, nor one cell from the next; one of its
    sines and cosines at several wavelengths can. Known as Fourier features (Tancik et al., arXiv:2006.10739).
    """

    features: tuple[str, ...]
    """Names of features; every entity type gets the sines and cosines of those that it has. They are computed
    after `translation` and normalized like all features."""
    wavelengths: tuple[float, ...]
    """In the unit of the features, e.g. doubling from 2 cells to the width of what is observed."""

    def __post_init__(self) -> None:
        for name in ("features", "wavelengths"):
            value = getattr(self, name)
            if not isinstance(value, Sequence) or isinstance(value, str):
                raise TypeError(f"fourier: {name}: expected a list, got {value!r}")
            if not value:
                raise ValueError(f"fourier: {name}: expected at least one, got none")
        for feature in self.features:
            if not isinstance(feature, str):
                raise TypeError(f"fourier: features: expected names, got {feature!r}")
        for wavelength in self.wavelengths:
            if not isinstance(wavelength, int | float) or isinstance(wavelength, bool):
                raise TypeError(f"fourier: wavelengths: expected numbers, got {wavelength!r}")
            if not 0 < wavelength < math.inf:
                raise ValueError(f"fourier: wavelengths: expected finite numbers above 0, got {wavelength!r}")
        object.__setattr__(self, "features", tuple(self.features))
        object.__setattr__(self, "wavelengths", tuple(map(float, self.wavelengths)))
        _distinct("fourier: features", self.features)
        _distinct("fourier: wavelengths", self.wavelengths)


@dataclass(frozen=True)
class RelativePosition(_Rotated):
    """Attention that knows where the other entity is: learned keys and values per relative position.

    By default buckets form a grid of 2 extent + 1 per axis; `radial` makes buckets of angles, `distance` of
    distances, both together polar ones with `extent = (angles, distances)`.
    """

    extent: tuple[int, ...]
    """Grid: largest offset per axis, beyond which positions are clamped; otherwise numbers of buckets."""
    position: tuple[str, ...]
    """Names of the position features; entities of types that lack one take no part in the encoding."""
    scale: float = 1.0
    """Positions are divided by this before they fall into buckets."""
    per_entity_values: bool = False
    """Values of their own for each entity type that is looked at."""
    exclude: tuple[str, ...] = ()
    """Entity types that take no part in the encoding."""
    key_projection: bool = False
    """Add a learned linear map of (offset, distance) to the relative keys."""
    value_projection: bool = False
    """Add a learned linear map of (offset, distance) to the relative values."""
    per_entity_projections: bool = False
    """Projections of their own for each entity type that is looked at."""
    radial: bool = False
    distance: bool = False
    rotation_vector: tuple[str, ...] | None = None
    """Names of two features with the looking entity's heading, from which angles are measured."""
    rotation_angle: str | None = None
    """Name of the feature with the looking entity's heading in radians."""
    interpolate: bool = False
    """Blend neighbouring buckets linearly; not for the grid."""
    value_gate: ValueGate | None = "relu"
    """Multiply relative values by this activation of a projection of the entity that is looked at."""

    def __post_init__(self) -> None:
        place = "relative_position"
        flags = ("key_projection", "value_projection", "radial", "distance", "interpolate")
        _tuples(place, self, "extent", "position", "exclude", "rotation_vector")
        _typed(self, (int, float), "scale", place=f"{place}: ")
        _typed(self, bool, "per_entity_values", "per_entity_projections", *flags, place=f"{place}: ")
        self._check_rotation()
        if not self.position:
            raise ValueError("relative_position: position: expected at least one feature, got none")
        _distinct("relative_position: position", self.position)
        one_of("value_gate", self.value_gate, ("linear", "relu", "gelu", "sigmoid", None))
        wanted = (
            2 if self.radial and self.distance else 1 if self.radial or self.distance else len(self.position)
        )
        if len(self.extent) != wanted:
            raise ValueError(f"relative_position: extent: expected {wanted} numbers, got {len(self.extent)}")
        if not all(type(extent) is int and extent > 0 for extent in self.extent):
            raise ValueError(f"relative_position: extent: expected whole numbers above 0, got {self.extent}")
        if not 0 < self.scale < math.inf:
            raise ValueError(f"relative_position: scale: expected a positive number, got {self.scale}")
        object.__setattr__(self, "scale", float(self.scale))
        if self.radial and len(self.position) != 2:
            raise ValueError(
                f"relative_position: position: expected two features for angles, got {self.position}"
            )
        if not self.radial and (self.rotation_vector or self.rotation_angle):
            raise ValueError("relative_position: radial: expected True with a rotation, got False")
        if self.interpolate and not (self.radial or self.distance):
            raise ValueError("relative_position: interpolate: expected radial or distance, got a grid")

    @property
    def num_buckets(self) -> int:
        buckets = 1
        for extent in self.extent:
            buckets *= extent if self.radial or self.distance else 2 * extent + 1
        return buckets


@dataclass(frozen=True)
class RogueNetConfig:
    """Every option of a RogueNet."""

    d_model: int = 16
    """Width of an entity's embedding."""
    n_layer: int = 2
    """Number of transformer blocks; 0 leaves the embeddings as they are."""
    n_head: int = 2
    """Attention heads; divides d_model."""
    d_qk: int = 16
    """Width of queries and keys in select-entity heads."""
    dropout: float = 0.0
    """Probability of dropping a number, wherever the three below say nothing else. Only with gradients."""
    embedding_dropout: float | None = None
    residual_dropout: float | None = None
    attention_dropout: float | None = None
    pooling: PoolingKind | None = None
    """Replace attention by a mean, a maximum or both over the step's entities."""
    relative_position: RelativePosition | None = None
    translation: Translation | None = None
    fourier: FourierFeatures | None = None
    """Sines and cosines of positions as further features."""
    global_features: GlobalFeatures = "entity"
    """"entity": one more row per step holds them; "concat": appended to every entity, as in the reference."""
    engine: Engine = "auto"
    """Engine that computes the network: "fused" kernels on the CPU, "torch", or "graphs" (arrays of fixed
    shapes, with CUDA graphs on a GPU). "auto": fused on the CPU where it is faster than torch, graphs on a
    GPU, else torch."""
    attention: str = "auto"
    """Deprecated: use `engine`. "numba", "sorted" and "padded" of version 0.1 select engine "torch"."""
    squash: bool = False
    """Continuous actions: squash normal numbers between the bounds by tanh instead of clipping them."""
    log_std_init: float = 0.0
    """Continuous actions: log of the first standard deviation, in units of half the range of the bounds."""
    composite: Composite = "used"
    """Components of conditional multi-discrete actions that count in log-probabilities and entropies: those
    that the kind uses or, as in Gym-μRTS, all."""
    separate_value_net: bool = False
    """Embedding and blocks of its own for the value function."""
    value_d_model: int | None = None
    """Width of the separate value network; None: as the policy's. Likewise the next two."""
    value_n_layer: int | None = None
    value_n_head: int | None = None

    def __post_init__(self) -> None:
        sections = {
            "relative_position": RelativePosition,
            "translation": Translation,
            "fourier": FourierFeatures,
        }
        for name, kind in sections.items():
            value = getattr(self, name)
            if isinstance(value, Mapping):
                object.__setattr__(self, name, from_options(kind, value))
            elif value is not None and not isinstance(value, kind):
                raise TypeError(f"{name}: expected a {kind.__name__} or a dict of its options, got {value!r}")
        object.__setattr__(self, "engine", engine_of(vars(self)))
        if self.attention == "fused":  # as it was called before the heads were fused as well
            object.__setattr__(self, "attention", "auto")
        retire_attention(self)
        one_of("engine", self.engine, ("auto", "fused", "torch", "graphs"))
        one_of("pooling", self.pooling, (None, "mean", "max", "meanmax"))
        one_of("composite", self.composite, ("used", "all"))
        one_of("global_features", self.global_features, ("entity", "concat"))
        _typed(self, bool, "squash", "separate_value_net")
        _typed(self, (int, float), "log_std_init")
        self._check_sizes()
        if not math.isfinite(self.log_std_init):
            raise ValueError(f"log_std_init: expected a finite number, got {self.log_std_init}")
        if self.pooling and self.relative_position:
            raise ValueError(f"pooling: expected None with relative_position, got {self.pooling!r}: use one")

    def _check_sizes(self) -> None:
        whole_options(self, d_model=(1, None), n_head=(1, None), d_qk=(1, None), n_layer=(0, None))
        whole_options(self, value_d_model=(1, None), value_n_head=(1, None), value_n_layer=(0, None))
        for name in ("dropout", "embedding_dropout", "residual_dropout", "attention_dropout"):
            value = getattr(self, name)
            if value is None:
                continue
            _typed(self, (int, float), name)
            if not 0 <= value < 1:
                raise ValueError(f"{name}: expected a probability below 1, got {value}")
        for config in (self, self.for_value()):
            if config.d_model % config.n_head:
                raise ValueError(
                    f"n_head: expected a divisor of d_model {config.d_model}, got {config.n_head}"
                )
        for name in ("value_d_model", "value_n_layer", "value_n_head"):
            if not self.separate_value_net and getattr(self, name) is not None:
                raise ValueError(
                    f"{name}: expected separate_value_net=True with {name}={getattr(self, name)}, got False"
                )

    def for_value(self) -> RogueNetConfig:
        """The options of the separate value network as those of a network of its own."""
        if not self.separate_value_net:
            return self
        return dataclasses.replace(
            self,
            d_model=self.d_model if self.value_d_model is None else self.value_d_model,
            n_layer=self.n_layer if self.value_n_layer is None else self.value_n_layer,
            n_head=self.n_head if self.value_n_head is None else self.value_n_head,
            separate_value_net=False,
            value_d_model=None,
            value_n_layer=None,
            value_n_head=None,
        )

    def rate(self, place: Literal["embedding", "residual", "attention"]) -> float:
        """The dropout probability at a place."""
        own: float | None = getattr(self, f"{place}_dropout")
        return self.dropout if own is None else own

    def computing(self, heads: bool = True) -> dict[str, Any]:
        """The options that decide what a network computes of given weights, dropout apart.

        `heads=False`: only those that decide on the embeddings of entities.
        """
        left_out = _NOT_COMPUTED | (set() if heads else _OF_HEADS)
        names = [option.name for option in dataclasses.fields(self) if option.name not in left_out]
        value = self.for_value()
        own = {f"value_{name}": getattr(value, name) for name in ("d_model", "n_layer", "n_head")}
        return {name: own.get(name, getattr(self, name)) for name in names}

    def difference(self, other: RogueNetConfig, heads: bool = True) -> str | None:
        """Return the first option of `computing` that differs, with both values; None: none does."""
        given = other.computing(heads)
        for name, ours in self.computing(heads).items():
            if given[name] != ours:
                return f"{name}: expected {ours!r}, got {given[name]!r}"
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and strings: `RogueNetConfig(**config.to_dict()) == config`."""

        def plain(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: plain(v) for key, v in value.items()}
            return [plain(v) for v in value] if isinstance(value, tuple) else value

        return plain(dataclasses.asdict(self))
