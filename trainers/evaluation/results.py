"""`EpisodeResults`: returns, lengths and infos of whole episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs.vector.infos import SUCCESS, success_of
from .intervals import Interval, bootstrap_interval


@dataclass(frozen=True, eq=False)
class EpisodeResults:
    """n finished episodes, ordered by environment and then by time."""

    returns: NDArray[np.float64]  # (n,)
    lengths: NDArray[np.int64]  # (n,), in steps at which the environment was active
    lanes: NDArray[np.int64]  # (n,), the environment that each was played in
    #: (n,), equal for what the lanes of one game played at the same time; by default all differ.
    games: NDArray[np.int64] = None  # type: ignore[assignment]
    #: Values (n,) of the infos of the episodes' last steps, by key; None in episodes without one.
    infos: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.games is None:
            object.__setattr__(self, "games", np.arange(len(self.returns)))

    def __repr__(self) -> str:
        lengths = f"mean length {self.lengths.mean():.1f}" if len(self.lengths) else "none"
        mean = f"mean return {self.interval()}, " if len(self.returns) else ""
        rate = "" if self.success_rate is None else f"success rate {self.success_rate}, "
        return f"EpisodeResults({len(self.returns)} episodes: {mean}{rate}{lengths})"

    def interval(self, level: float = 0.95, by: str | None = None) -> Interval:
        """Mean return with its bootstrap interval, in which the episodes of a game count as one piece.

        Args:
            by: a key of `infos`: all episodes with the same value count as one piece, such as those of a
                level, where the mean is to hold for other levels as well. Not for values that follow from the
                return, such as outcomes. Episodes without a value each count for themselves.
        """
        groups = self.games
        if by is not None:
            parts = self._rows_by(by)
            groups = len(parts) + np.arange(len(self.returns))
            for number, (value, rows) in enumerate(parts.items()):
                if value is not None:
                    groups[rows] = number
        return bootstrap_interval(self.returns, level, groups=groups)

    @cached_property
    def success_rate(self) -> Interval | None:
        """The share of successes (`is_success`) with its bootstrap interval, as that of the mean return.

        Of the episodes that say whether they were one; None without such episodes.
        """
        successes = np.array([success_of(value) for value in self.infos.get(SUCCESS, ())])
        given = np.flatnonzero(~np.isnan(successes))
        return bootstrap_interval(successes[given], groups=self.games[given]) if len(given) else None

    def split(self, by: str) -> dict[Any, EpisodeResults]:
        """Return the episodes by their value of a key of `infos`, such as those of each level.

        Values are in order, None comes last.

        Raises:
            KeyError: no episode had it, or `evaluate` was not asked for it.
            TypeError: its values are neither numbers nor strings.
        """
        return {value: self._take(np.array(rows)) for value, rows in self._rows_by(by).items()}

    def _take(self, rows: NDArray[np.int64]) -> EpisodeResults:
        infos = {key: column[rows] for key, column in self.infos.items()}
        return EpisodeResults(
            self.returns[rows], self.lengths[rows], self.lanes[rows], self.games[rows], infos
        )

    def _rows_by(self, key: str) -> dict[Any, list[int]]:
        """Return which episodes have each value of a key of `infos`; see `split`."""
        if key not in self.infos:
            raise KeyError(
                f"EpisodeResults: expected one of the infos {sorted(self.infos)}, got {key!r}. evaluate keeps"
                " those that info_keywords names, where an episode has them"
            )
        rows: dict[Any, list[int]] = {}
        for row, value in enumerate(self.infos[key].tolist()):
            if not isinstance(value, str | int | float | None):
                raise TypeError(
                    f"EpisodeResults: infos[{key!r}]: expected numbers or strings, got a"
                    f" {type(value).__name__}"
                )
            rows.setdefault(None if value != value else value, []).append(row)  # NaN is no value
        return dict(sorted(rows.items(), key=lambda item: (item[0] is None, type(item[0]) is str, item[0])))
