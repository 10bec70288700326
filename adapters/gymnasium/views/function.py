"""`Function`: a view that is a function from an observation to rows of entities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ....envs import ObservationError
from ....ragged import RaggedArray
from .batches import pick
from .scope import EntityEncoder, Scope, View, ViewError, imported


@dataclass(frozen=True, repr=False)
class Function(View):
    """A function from an observation to rows of entities.

    Args:
        function: from one observation to `{type: array (n, F)}`, where types without entities may be left
            out; or, with `batched`, from a batched observation to `{type: RaggedArray}`. As "module:function"
            it is imported, and the environment's spec can be written as JSON.
        entities: the types, with their feature names.
        batched: the function takes the observations of all lanes at once.
        source: what the function gets as a second argument: nothing ("observation"), the environment ("env",
            whose objects are in `env.unwrapped`), or the info of the step ("info"); with `batched` a list of
            these.

    Raises:
        ViewError: `function` can't be imported, or `entities` or `source` is of another form.
        ObservationError: the function returned something else, by environment, lane and type.
    """

    function: Callable[..., Mapping[str, Any]] | str
    entities: Mapping[str, Sequence[str]]
    batched: bool = False
    source: Literal["observation", "env", "info"] = "observation"

    def bind(self, space: spaces.Space[Any], scope: Scope) -> EntityEncoder:
        function = imported(self.function)
        entities = _declared(self.entities, scope)
        beside = self._beside(scope)

        def encode(observation: Any, batch_size: int) -> dict[str, RaggedArray]:
            if self.batched:
                return _checked(function(observation, *beside()), entities, batch_size, scope)
            lanes = [pick(space, observation, lane) for lane in range(batch_size)]
            parts = [function(*both) for both in zip(lanes, *beside(), strict=True)]
            for part in parts:
                _refuse_other_kinds(part, scope)
            _refuse_unknown({name for part in parts for name in part}, entities, scope)
            rows = {}
            for name, features in entities.items():
                given = [_numbers(part.get(name, ()), name, lane, scope) for lane, part in enumerate(parts)]
                for lane, array in enumerate(given):
                    if array.shape not in ((0,), (len(array) if array.ndim else 0, len(features))):
                        raise ObservationError(
                            f"{scope.place}: lane {lane}: the function: expected rows of {name!r} of shape"
                            f" (n, {len(features)}), got shape {array.shape}"
                        )
                rows[name] = RaggedArray.from_arrays(given, dtype=np.float32, inner_shape=(len(features),))
            return _checked(rows, entities, batch_size, scope)

        return EntityEncoder(entities, encode)

    def _beside(self, scope: Scope) -> Callable[[], tuple[Sequence[Any], ...]]:
        """Return what gives the further arguments of a batch, one per lane each."""
        if self.source == "observation":
            return lambda: ()
        if self.source not in ("env", "info"):
            raise ViewError(
                f"{scope.place}: source: expected 'observation', 'env' or 'info', got {self.source!r}"
            )
        if scope.sources is None:
            raise ViewError(
                f"{scope.place}: source={self.source!r}: expected a function of the observation here, where"
                " batches are not environments. Declare the Function for the whole observation of a Gymnasium"
                " environment"
            )
        sources, name = scope.sources, self.source
        sources.needed.add(name)
        return lambda: (sources.lanes[name],)


def _declared(entities: Any, scope: Scope) -> dict[str, tuple[str, ...]]:
    if not isinstance(entities, Mapping) or any(isinstance(features, str) for features in entities.values()):
        raise ViewError(
            f"{scope.place}: view Function: entities: expected a dict from entity type to a list of features,"
            f" got {entities!r}"
        )
    return {name: tuple(features) for name, features in entities.items()}


def _numbers(rows: Any, name: str, lane: int, scope: Scope) -> NDArray[np.float32]:
    try:
        return np.asarray(rows, np.float32)
    except (TypeError, ValueError) as error:
        raise ObservationError(
            f"{scope.place}: lane {lane}: the function: expected rows of numbers of {name!r}, got {rows!r}"
        ) from error


def _refuse_other_kinds(given: Any, scope: Scope) -> None:
    if not isinstance(given, Mapping):
        raise ObservationError(
            f"{scope.place}: the function: expected a dict from entity type to rows, got"
            f" {type(given).__name__}"
        )


def _refuse_unknown(names: set[str], entities: dict[str, tuple[str, ...]], scope: Scope) -> None:
    unknown = names - set(entities)
    if unknown:
        raise ObservationError(
            f"{scope.place}: the function: expected the declared entity types {list(entities)},"
            f" got type {min(unknown)!r}"
        )


def _checked(
    rows: Mapping[str, RaggedArray], entities: dict[str, tuple[str, ...]], batch_size: int, scope: Scope
) -> dict[str, RaggedArray]:
    _refuse_other_kinds(rows, scope)
    _refuse_unknown(set(rows), entities, scope)
    checked = {}
    for name, features in entities.items():
        array = rows.get(name)
        if array is None:
            array = RaggedArray.empty(batch_size, (len(features),))
        if not isinstance(array, RaggedArray):
            raise ObservationError(
                f"{scope.place}: the function: expected a RaggedArray for {name!r},"
                f" got {type(array).__name__}"
            )
        if len(array) != batch_size or array.inner_shape != (len(features),):
            raise ObservationError(
                f"{scope.place}: the function: expected {batch_size} sequences of {name!r} with rows of shape"
                f" ({len(features)},), got {len(array)} with rows of shape {array.inner_shape}"
            )
        if not np.isfinite(array.values).all():
            raise ObservationError(
                f"{scope.place}: the function: expected finite numbers in {name!r}, got NaN or infinity"
            )
        checked[name] = (
            array if array.dtype == np.float32 else array.with_values(array.values.astype(np.float32))
        )
    return checked
