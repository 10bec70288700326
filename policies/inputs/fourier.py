"""Fourier features of positions: sines and cosines at several wavelengths, before anything is normalized.

Shape alphabet: N entities, F features, P of them positions, W wavelengths.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ...suggestions import did_you_mean
from ..kernels.parallel import over_rows
from ..rogue_net.config import FourierFeatures

#: Turns so near to a zero of the sine are that zero. On a grid all positions may be there but for rounding,
#: which normalization would scale up to the size of other features.
_ROUNDING = np.float32(1e-5)

#: Rows that the kernel computes together, so that the compiler can vectorize over them.
_BLOCK = 64


class FourierEncoder:
    """Appends the Fourier features that a `FourierFeatures` asks for.

    Columns, feature by feature and wavelength by wavelength: sin(2π x / wavelength), cos(2π x / wavelength).
    """

    def __init__(self, config: FourierFeatures, entities: Mapping[str, tuple[str, ...]]) -> None:
        """`entities`: feature names by type, in the order of the columns.

        Raises:
            ValueError: no entity type has one of the features; the message suggests the nearest name.
        """
        known = dict.fromkeys(feature for features in entities.values() for feature in features)
        for feature in config.features:
            if feature not in known:
                raise ValueError(
                    f"fourier: unknown feature: expected one of the entities' {', '.join(known)},"
                    f" got {feature!r}{did_you_mean(feature, known, 1)}"
                )
        order = {feature: place for place, feature in enumerate(config.features)}
        self._columns = {}
        for name, features in entities.items():
            own = sorted((order[f], column) for column, f in enumerate(features) if f in order)
            self._columns[name] = np.array([column for _, column in own], np.int64)
        self._frequencies = 1.0 / np.array(config.wavelengths)
        #: Feature names by type, with the new ones behind the others.
        self.entities: dict[str, tuple[str, ...]] = {
            name: (
                *features,
                *(
                    f"{wave}({features[column]} / {wavelength:g})"
                    for column in self._columns[name]
                    for wavelength in config.wavelengths
                    for wave in ("sin", "cos")
                ),
            )
            for name, features in entities.items()
        }

    def apply(self, entities: Mapping[str, RaggedArray]) -> dict[str, RaggedArray]:
        """The features of each type with its Fourier features; inputs are left as they are."""
        return {
            name: rows.with_values(self._extended(np.ascontiguousarray(rows.values), self._columns[name]))
            if len(self._columns[name])
            else rows
            for name, rows in entities.items()
        }

    def _extended(self, values: NDArray[np.float32], columns: NDArray[np.int64]) -> NDArray[np.float32]:
        num_rows, num_features = values.shape
        width = num_features + 2 * len(columns) * len(self._frequencies)
        result = np.empty((num_rows, width), np.float32)
        over_rows(
            num_rows,
            lambda _, start, stop: _extend(values, columns, self._frequencies, start, stop, result),
        )
        return result


@compiled(nogil=True, inline="always")
def _sine(turns):  # type: ignore[no-untyped-def]
    """sin(2π turns) for at most a quarter turn, by a minimax polynomial: error at most 1e-7 in float32, and
    where the exact sine is below 7e-5 as much as that."""
    square = turns * turns
    y = square * np.float32(39.53666515) - np.float32(76.54977658)
    y = square * y + np.float32(81.60100381)
    y = square * y - np.float32(41.34165503)
    sine = turns * (square * y + np.float32(6.28318516))
    return np.float32(0.0) if abs(turns) < _ROUNDING else sine


@compiled(nogil=True)
def _extend(values, columns, frequencies, start, stop, out):  # type: ignore[no-untyped-def]
    """Rows start to stop of `out` (N, F + 2 P W): those of `values` (N, F), then sines and cosines.

    Turns are counted and cut to half a turn in float64: float32 loses digits where there are many of them.
    """
    quarter, half = np.float32(0.25), np.float32(0.5)
    num_features = values.shape[1]
    positions = np.empty(_BLOCK)
    sines, cosines = np.empty(_BLOCK, np.float32), np.empty(_BLOCK, np.float32)
    for first in range(start, stop, _BLOCK):
        rows = min(_BLOCK, stop - first)
        for row in range(first, first + rows):
            for feature in range(num_features):
                out[row, feature] = values[row, feature]
        at = num_features
        for column in columns:
            for i in range(rows):
                positions[i] = values[first + i, column]
            for frequency in frequencies:
                for i in range(rows):
                    turns = positions[i] * frequency
                    turn = np.float32(turns - np.floor(turns + 0.5))  # between -½ and ½; NaN stays
                    size = abs(turn)
                    cosines[i] = _sine(quarter - size)
                    sines[i] = _sine(math.copysign(half - size if size > quarter else size, turn))
                for i in range(rows):
                    out[first + i, at] = sines[i]
                    out[first + i, at + 1] = cosines[i]
                at += 2
