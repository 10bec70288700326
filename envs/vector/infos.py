"""Infos of many environments as one, in Gymnasium's vector layout."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..batch.entity_batch import EntityBatch
from ..errors import ObservationError, named_kind

#: The key of infos under which the last step of an episode says whether it was a success.
SUCCESS = "is_success"

#: Keys of what an episode that ended left behind.
FINAL = frozenset({"final_obs", "final_info", "_final_obs", "_final_info"})
#: Keys that vector environments give of all lanes at once.
_OF_ALL_LANES = FINAL | {"inactive", "idle", "_inactive", "_idle"}


def final_observations(info: Mapping[str, Any]) -> tuple[NDArray[np.int64], EntityBatch] | None:
    """The lanes whose last observations `info` has, and those in the same order; None: it has none.

    Raises:
        ObservationError: there is not one observation for each lane that `info["_final_obs"]` marks.
    """
    final = info.get("final_obs")
    if final is None:
        return None
    lanes = np.flatnonzero(info.get("_final_obs", ()))
    if not isinstance(final, EntityBatch) or len(final) != len(lanes):
        got = f"one of {len(final)}" if isinstance(final, EntityBatch) else named_kind(final)
        raise ObservationError(
            f"info['final_obs']: expected an EntityBatch of the {len(lanes)} lanes that info['_final_obs']"
            f" marks, got {got}"
        )
    return lanes, final


def merge_infos(infos: Mapping[int, Mapping[str, Any]], num_envs: int) -> dict[str, Any]:
    """The infos of some lanes, by lane, as one dict.

    As in `gymnasium.vector.VectorEnv`, each key gets an array (num_envs, …) and, under `_key`, a mask
    (num_envs,) bool of the lanes that have it; dicts are merged in the same way. Unlike there, arrays of
    differing shapes don't raise: they are kept as they are, in an object array.
    """
    merged: dict[str, Any] = {}
    for key in dict.fromkeys(key for info in infos.values() for key in info):
        values = {lane: info[key] for lane, info in infos.items() if key in info}
        if all(isinstance(value, dict) for value in values.values()):
            merged[key] = merge_infos(values, num_envs)
        else:
            merged[key] = _column(values, num_envs)
        merged[f"_{key}"] = lane_mask(values, num_envs)
    return merged


def copied(data: Any) -> Any:
    """Return an info or an observation with copies of its dicts, lists, tuples and arrays.

    Environments may change theirs later.
    """
    if isinstance(data, np.ndarray):
        return data.copy()
    if isinstance(data, dict):
        return {key: copied(value) for key, value in data.items()}
    return type(data)(map(copied, data)) if type(data) in (list, tuple) else data


def join_infos(infos: Sequence[Mapping[str, Any]], counts: Sequence[int]) -> dict[str, Any]:
    """The infos of several vector environments as that of one, whose lanes are theirs in turn.

    Args:
        infos: in Gymnasium's vector layout: arrays (counts[i], …), or dicts of such.
        counts: how many lanes each of them has.

    Returns:
        arrays (sum of counts, …), zero (or None) for lanes of environments that have no such key. What is not
        given lane by lane is taken from the first environment that has it.
    """
    joined: dict[str, Any] = {}
    for key in dict.fromkeys(key for info in infos for key in info):
        given = [info[key] for info in infos if key in info]
        if all(
            isinstance(info[key], np.ndarray) and info[key].shape[:1] == (count,)
            for info, count in zip(infos, counts, strict=True)
            if key in info
        ):
            joined[key] = _joined_column([info.get(key) for info in infos], counts)
        elif all(isinstance(value, Mapping) for value in given):
            joined[key] = join_infos([info.get(key, {}) for info in infos], counts)
        else:
            joined[key] = given[0]
    return joined


def _joined_column(parts: Sequence[NDArray[Any] | None], counts: Sequence[int]) -> NDArray[Any]:
    """Arrays (counts[i], …) one after the other, None standing for lanes without a value."""
    given = [part for part in parts if part is not None]
    if len({part.shape[1:] for part in given}) > 1 or any(part.dtype == object for part in given):
        column = np.full(sum(counts), None, object)
        for part, first in zip(parts, np.cumsum([0, *counts[:-1]]).tolist(), strict=True):
            for lane, value in enumerate(() if part is None else part, first):
                column[lane] = value
        return column
    nothing = given[0][:0]
    return np.concatenate(
        [
            np.zeros((count, *nothing.shape[1:]), nothing.dtype) if part is None else part
            for part, count in zip(parts, counts, strict=True)
        ]
    )


def lane_mask(lanes: Mapping[int, Any], num_envs: int) -> NDArray[np.bool_]:
    """True at `lanes` (num_envs,)."""
    mask = np.zeros(num_envs, bool)
    if lanes:
        mask[list(lanes)] = True
    return mask


def lane_infos(info: Mapping[str, Any], num_envs: int) -> list[dict[str, Any]]:
    """`info`, in Gymnasium's vector layout, as one dict for each lane: what `merge_infos` merged.

    Numbers are Python's. A value without an entry for each lane holds for all of them.
    """
    infos: list[dict[str, Any]] = [{} for _ in range(num_envs)]
    for key, value in info.items():
        if is_lane_mask(key, info):
            continue
        values = lane_values(value, num_envs)
        if isinstance(values, np.ndarray) and values.ndim == 1:
            values = values.tolist()
        mask = info.get(f"_{key}")
        for lane in range(num_envs) if mask is None else np.flatnonzero(mask).tolist():
            infos[lane][key] = values[lane]
    return infos


def present_infos(info: Mapping[str, Any], num_envs: int) -> list[dict[str, Any]]:
    """Return `lane_infos` without what an episode that ended left behind: `final_obs` and `final_info`."""
    return lane_infos(_without(info, FINAL), num_envs)


def step_infos(
    info: Mapping[str, Any], ended: NDArray[np.bool_]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return each lane's info of its step, and that of its present observation.

    The two are the same dict, unless the lane has `ended` (num_envs,) and has a `final_info`. Neither has
    what the vector environment gives of all lanes at once, such as `inactive`.
    """
    present = lane_infos(_without(info, _OF_ALL_LANES), len(ended))
    if "final_info" not in info:
        return present, present
    last = lane_infos(_without(info["final_info"], _OF_ALL_LANES), len(ended))
    has_final = ended & info.get("_final_info", True)
    of_step = [final if has else own for own, final, has in zip(present, last, has_final, strict=True)]
    return of_step, present


def _without(info: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in info.items() if key not in keys}


def lane_values(value: Any, num_envs: int) -> Sequence[Any] | NDArray[Any]:
    """Return a value of infos in Gymnasium's vector layout as one for each lane; see `lane_infos`."""
    if isinstance(value, Mapping):
        return lane_infos(value, num_envs)
    if isinstance(value, np.ndarray) and value.shape[:1] == (num_envs,):
        return value
    if isinstance(value, (list, tuple)) and len(value) == num_envs:
        return value
    return [value] * num_envs


def ended_values(info: Mapping[str, Any], key: str, lanes: Sequence[int], num_envs: int) -> list[Any]:
    """Return the values of `key` in the infos of the last step of the episodes that ended in `lanes`.

    They are in `final_info`, if the lane has one, as `info` then is that of the next episode's reset; else in
    `info`. None where a lane has no such value.
    """
    finals = info.get("final_info", {})
    has_final = info.get("_final_info", np.full(num_envs, "final_info" in info))
    columns = [
        (lane_values(source[key], num_envs), source.get(f"_{key}")) if key in source else None
        for source in (info, finals)
    ]
    found: list[Any] = []
    for lane in lanes:
        column = columns[bool(has_final[lane])]
        is_given = column is not None and (column[1] is None or column[1][lane])
        found.append(column[0][lane] if column is not None and is_given else None)
    return found


def ended_successes(info: Mapping[str, Any], ended: NDArray[np.bool_]) -> NDArray[np.float32] | None:
    """Return whether the episodes that `ended` (E,) were successes: 0 to 1, NaN without an answer, (E,).

    That is `is_success` of the last step's info, as Gymnasium-Robotics and Stable-Baselines3 call it; None
    where no episode that ended has a number or a bool there.
    """
    if not ended.any() or (SUCCESS not in info and SUCCESS not in info.get("final_info", {})):
        return None
    successes = np.full(len(ended), np.nan, np.float32)
    lanes = np.flatnonzero(ended).tolist()
    for lane, value in zip(lanes, ended_values(info, SUCCESS, lanes, len(ended)), strict=True):
        successes[lane] = success_of(value)
    return None if np.isnan(successes).all() else successes


def success_of(value: Any) -> float:
    """Return an `is_success` of infos as a number; NaN where it is none from 0 to 1, and no bool."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    is_rate = isinstance(value, bool | int | float | np.bool_ | np.number) and 0 <= value <= 1
    return float(value) if is_rate else math.nan


def is_lane_mask(key: Any, info: Mapping[Any, Any]) -> bool:
    """Return True if `key` says which lanes have another key of `info`."""
    if not isinstance(key, str) or not key.startswith("_"):
        return False
    return key[1:] in info or any(key == f"_{other}" for other in info)  # which may be no text


def inactive_lanes(info: Mapping[str, Any], num_envs: int) -> NDArray[np.bool_]:
    """Return which lanes (num_envs,) are inactive in the batch that came with `info`."""
    flags = inactive_flags(info)
    return np.zeros(num_envs, bool) if flags is None else np.asarray(flags, bool)


def inactive_flags(info: Mapping[str, Any]) -> Any | None:
    """Return `info["inactive"]`; None without it. Its former name "idle" still works, with a warning.

    Where a mask says which lanes have the key, it is one that the environments of the lanes gave.
    """
    if "inactive" in info and "_inactive" not in info:
        return info["inactive"]
    if "idle" not in info or "_idle" in info:
        return None
    warnings.warn('info["idle"] has been renamed: use info["inactive"]', DeprecationWarning, stacklevel=3)
    return info["idle"]


def _column(values: Mapping[int, Any], num_envs: int) -> NDArray[Any]:
    """One key's values, zero (or None) in the lanes without it."""
    kinds = {type(value) for value in values.values()}
    numbers = all(kind in (bool, int, float) or issubclass(kind, np.number) for kind in kinds)
    arrays = kinds == {np.ndarray}
    if numbers or (arrays and len({(value.shape, value.dtype) for value in values.values()}) == 1):
        stacked = np.array(list(values.values()))
        column = np.zeros((num_envs, *stacked.shape[1:]), stacked.dtype)
        column[list(values)] = stacked
        return column
    column = np.full(num_envs, None, object)
    for lane, value in values.items():
        column[lane] = value
    return column
