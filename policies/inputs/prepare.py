"""Conversion of an `EntityBatch` to a network's input: arrays per entity type and one layout of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...envs import EntityBatch, EntitySpace
from ...envs.errors import named_kind
from ...envs.spaces.changes import action_changes
from ...ragged import RaggedArray
from ...ragged.index_kernels import fill_join_rows
from ..rogue_net.config import RogueNetConfig
from .fourier import FourierEncoder
from .moments import FeatureColumns
from .rows import RowLayout
from .translation import Translator

_FLOAT32 = np.dtype(np.float32)

#: The type of the row that represents the step as a whole.
GLOBAL = "__global__"


def check_batch(batch: object) -> None:
    """Check that a network is given a batch.

    Raises:
        TypeError: it is something else, such as the observation of a single environment.
    """
    if not isinstance(batch, EntityBatch):
        raise TypeError(
            f"expected an EntityBatch, got {type(batch).__name__}. Make one with batch_observations."
        )


@dataclass(frozen=True, eq=False)
class Prepared:
    """A batch as input of the network."""

    features: dict[str, NDArray[np.float32]]  # per type that occurs (N_t, F_t), raw
    offsets: dict[str, NDArray[np.int64]]  # likewise (B + 1,): where each step's entities start
    destination: NDArray[np.int64]  # the row of each entity, type after type in the order of `features` (N,)
    rows: RowLayout
    visible: NDArray[np.bool_] | None  # by row (N,); None: all are

    def by_row(self, parts: Sequence[NDArray[np.generic]]) -> NDArray[np.generic]:
        """Join one array per type of `features` in the order of the rows."""
        joined = np.concatenate(parts)
        result = np.empty_like(joined)
        result[self.destination] = joined
        return result


class Inputs:
    """Selects, translates, extends and lays out the features of batches.

    Global features: with `global_features="concat"`, as in the reference, they are appended to every entity;
    a step without entities then has no row for them. With "entity" (the default) each step has one more row
    for them, after its entities, that every row can attend to: they are embedded once, and a step without
    entities still has a value and global actions that depend on them.

    Global actions read that row. So the row exists if the action space has a global action (then also with
    "concat", as in the reference), or if there are global features. Otherwise it would be the same in every
    step and is left out; a step without entities, about which nothing is known, then gets the value head's
    bias.
    """

    def __init__(self, space: EntitySpace, config: RogueNetConfig) -> None:
        if GLOBAL in space.entities:
            raise ValueError(
                f"entity type {GLOBAL!r}: the network has a row of this name. Rename the entity type."
            )
        if space.frame is not None:
            raise ValueError("RogueNet: expected a space without frames, got one with frames. Use ImpalaNet.")
        self.space = space
        self.concatenates = config.global_features == "concat" and bool(space.global_features)
        acts = any(action.is_global for _, action in space.actions.items())
        self.has_global_row = acts or (bool(space.global_features) and not self.concatenates)
        self._translator = Translator(config.translation, space.entities) if config.translation else None
        entities = self._translator.entities if self._translator else dict(space.entities)
        self._fourier = FourierEncoder(config.fourier, entities) if config.fourier else None
        entities = self._fourier.entities if self._fourier else entities
        if self.concatenates:
            entities = {name: (*features, *space.global_features) for name, features in entities.items()}
        #: Names of the features that the network sees, by type.
        self.features: dict[str, tuple[str, ...]] = dict(entities)
        if self.has_global_row:
            self.features[GLOBAL] = space.global_features
        self.adapt_to(space)

    def adapt_to(self, space: EntitySpace) -> None:
        """Read batches of `space`; see `RogueNet.adapt_to`."""
        if not isinstance(space, EntitySpace):
            raise TypeError(f"adapt_to: expected an EntitySpace, got {named_kind(space)}")
        if space.actions != self.space.actions:
            raise ValueError(f"{action_changes(space.actions, self.space.actions)} of the network")
        for name in self.space.entities:
            if name not in space.entities:
                raise ValueError(f"the space: expected entity type {name!r}, got {', '.join(space.entities)}")
        columns = {
            name: _columns(f"entity type {name!r}", wanted, space.entities[name])
            for name, wanted in self.space.entities.items()
        }
        self._global_columns = _columns("globals", self.space.global_features, space.global_features)
        self._columns = columns
        self.reads = space
        self._widths = {name: len(features) for name, features in space.entities.items()}
        self._num_globals = len(space.global_features)

    def prepare(self, batch: EntityBatch) -> Prepared:
        """Return the batch as input of the network.

        Raises:
            TypeError: the argument is not an `EntityBatch` (an observation, for example).
            ValueError: an entity type or a number of features that the space does not have.
        """
        entities, globals_ = self._known(batch)
        if self.concatenates:
            entities = {
                name: rows.with_values(np.concatenate([rows.values, rows.broadcast(globals_)], 1))
                for name, rows in entities.items()
            }
        features, starts = {}, {}
        for name, part in entities.items():
            if len(part.values):
                features[name], starts[name] = part.values, part.offsets
        if self.has_global_row and len(batch):
            features[GLOBAL], starts[GLOBAL] = globals_, np.arange(len(batch) + 1)
        destination, offsets = _places(list(starts.values()), len(batch))
        rows = self._rows(batch, features, destination, offsets)
        return Prepared(features, starts, destination, rows, _visible(batch, features, destination))

    def columns(self, batch: EntityBatch) -> dict[str, list[FeatureColumns]]:
        """Return the features of each type that occurs, without copies, for the statistics.

        Raises:
            ValueError: see `prepare`.
        """
        entities, globals_ = self._known(batch)
        result = {name: [FeatureColumns(rows.values)] for name, rows in entities.items() if len(rows.values)}
        if self.concatenates:
            for name, parts in result.items():
                parts.append(FeatureColumns(globals_, entities[name].lengths))
        if self.has_global_row and len(batch):
            result[GLOBAL] = [FeatureColumns(globals_)]
        return result

    def _known(self, batch: EntityBatch) -> tuple[dict[str, RaggedArray], NDArray[np.float32]]:
        """Return the features that the network knows, translated and with their Fourier features.

        By type, and the global ones (B, G).
        """
        entities = self._select(batch)
        if self._translator:
            entities = self._translator.apply(entities, batch.visible)
        if self._fourier:
            entities = self._fourier.apply(entities)
        chosen = self._global_columns
        return entities, batch.globals if chosen is None else batch.globals[:, chosen]

    def _select(self, batch: EntityBatch) -> dict[str, RaggedArray]:
        """Return the entity types and features that the network knows."""
        check_batch(batch)
        if batch.globals.shape[1] != self._num_globals or batch.globals.dtype != _FLOAT32:
            raise ValueError(
                f"globals: expected {self._num_globals} features of float32, "
                f"got {batch.globals.shape[1]} of {batch.globals.dtype}"
            )
        entities, num_offsets = {}, len(batch.globals) + 1
        for name, rows in batch.entities.items():
            if len(rows.offsets) != num_offsets:
                raise ValueError(
                    f"entity type {name!r}: expected {len(batch)} steps as in globals, got {len(rows)}"
                )
            if name not in self._widths:
                raise ValueError(
                    f"unknown entity type {name!r}: expected {', '.join(self._widths)}. "
                    "For an environment with more types call adapt_to(space)."
                )
            values = rows.values
            if values.dtype != _FLOAT32 or values.ndim != 2 or values.shape[1] != self._widths[name]:
                raise ValueError(
                    f"entity type {name!r}: expected items of shape ({self._widths[name]},) and float32, "
                    f"got {rows.inner_shape} and {rows.dtype}"
                )
            if name in self._columns:
                columns = self._columns[name]
                entities[name] = rows if columns is None else rows.with_values(rows.values[:, columns])
        return entities

    def _rows(
        self, batch: EntityBatch, features: Mapping[str, NDArray[np.float32]],
        destination: NDArray[np.int64], offsets: NDArray[np.int64],
    ) -> RowLayout:  # fmt: skip
        """Return the layout of rows whose steps start at `offsets`."""
        if batch.entities.keys() <= self._columns.keys():
            # Every entity has a row, in the same order; behind them comes the global row.
            globals_before = np.arange(len(offsets)) if self.has_global_row else 0
            return RowLayout(offsets, offsets - globals_before)
        by_type = _by_type(features, destination)
        row_of_entity = np.full(batch.num_entities, -1)
        for name, sequential in batch.entity_rows()[0].items():
            if name in by_type:
                row_of_entity[sequential] = by_type[name]
        return RowLayout(offsets, batch.entity_offsets, row_of_entity)


def _columns(what: str, wanted: tuple[str, ...], given: tuple[str, ...]) -> NDArray[np.int64] | None:
    """Return the columns of the wanted features among the given ones; None if they are the same."""
    if wanted == given:
        return None
    missing = [feature for feature in wanted if feature not in given]
    if missing:
        raise ValueError(f"{what}: expected the features {', '.join(missing)}, got {', '.join(given)}")
    return np.array([given.index(feature) for feature in wanted], np.int64)


def _places(starts: list[NDArray[np.int64]], steps: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row of each entity, type after type (N,), and the start of each step's rows (B + 1,)."""
    offsets = np.zeros(steps + 1, np.int64)
    destination = np.empty(sum([one.item(-1) for one in starts]), np.int64)
    if starts:
        fill_join_rows(np.concatenate(starts).reshape(len(starts), -1), destination, offsets)
    return destination, offsets


def _by_type(
    features: Mapping[str, NDArray[np.float32]], destination: NDArray[np.int64]
) -> dict[str, NDArray[np.int64]]:
    """Cut `destination` into the parts of the types."""
    ends = np.cumsum([len(values) for values in features.values()])
    return dict(zip(features, np.split(destination, ends[:-1]), strict=True)) if features else {}


def _visible(
    batch: EntityBatch, features: Mapping[str, NDArray[np.float32]], destination: NDArray[np.int64]
) -> NDArray[np.bool_] | None:
    """Return, by row, whether the policy may observe it; None if nothing is hidden."""
    if not batch.visible:
        return None
    for name, flags in batch.visible.items():
        if name not in batch.entities:
            raise ValueError(f"visible: expected entity types of the batch, got {name!r}")
        if not np.array_equal(flags.offsets, batch.entities[name].offsets):
            of_steps = f"{batch.entities[name].lengths[:8].tolist()} at the first steps"
            raise ValueError(
                f"visible: entity type {name!r}: expected a flag for each entity, {of_steps}, got"
                f" {flags.lengths[:8].tolist()}"
            )
    hidden = {n: v for n, v in batch.visible.items() if n in features and not v.values.all()}
    if not hidden:
        return None
    visible = np.ones(len(destination), bool)
    by_type = _by_type(features, destination)
    for name, flags in hidden.items():
        visible[by_type[name]] = flags.values
    return visible
