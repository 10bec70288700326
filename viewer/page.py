"""A recording as one page for browsers: HTML with all it needs inside, which loads nothing from anywhere.

The data are JSON, compressed and in base64: no name of an environment can be read as HTML there, and the
page's program only ever sets text. Shape alphabet: n rows, H heads.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import zlib
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..envs import Categorical, Continuous, EntitySpace, MultiCategorical, SelectEntity
from ..files import replace_file
from .attention import largest_weights
from .recording import Decision, Recording
from .scene import COLOURS, grows_downwards, position_columns

#: The parts of the page's program, in order.
_PROGRAM = ("page_data.js", "page_scene.js", "page_panel.js", "page.js")


def write_page(
    path: str | Path,
    recording: Recording,
    *,
    title: str = "",
    position: tuple[str, str] | None = None,
    max_megabytes: float = 100.0,
) -> int:
    """Write a recording as a page that browsers open from disk; returns the number of steps in it.

    Args:
        path: the file, .html.
        title: stands above the page.
        position: the features that say where entities are; None: chosen by their names (`position_columns`).
        max_megabytes: steps that would make the page's data larger are left out.

    Raises:
        OSError: the file can't be written.
        ValueError: the environment has neither entities nor global features, no entity type has the features
            `position`, or the first step is already larger than the page may be.
        TypeError: the page has no form for an action space.
    """
    document = page_data(recording, title, position, max_megabytes)
    replace_file(Path(path), fill_template(title or "Entitize", document).encode())
    return len(document["steps"])


def page_data(
    recording: Recording,
    title: str = "",
    position: tuple[str, str] | None = None,
    max_megabytes: float = 100.0,
) -> dict[str, Any]:
    """Return what the page shows, as JSON-able values.

    Raises:
        ValueError: see `write_page`.
    """
    check_has_entities(recording.space, position)
    types = _types(recording.space, position)
    frames = _Frames()
    steps: list[Any] = []
    compressor, size = zlib.compressobj(), 0
    for step in recording.steps:
        before = len(frames.urls)
        encoded = [_decision(recording.space, decision, frames) for decision in step]
        text = json.dumps(encoded, separators=(",", ":")).encode()
        size += len(compressor.compress(text)) + len(compressor.flush(zlib.Z_SYNC_FLUSH))
        if 4 / 3 * size + frames.size > max_megabytes * 1e6:  # of each 3 bytes base64 makes 4
            del frames.urls[before:]
            break
        steps.append(encoded)
    if recording.steps and not steps:
        raise ValueError(f"the page: expected at most {max_megabytes} MB, got more with the first step")
    first = next((d.explanation for step in recording.steps for d in step if d.explanation), None)
    layers = [] if first is None else first.attention
    return {
        "title": title,
        "policy": recording.policy,
        "types": types,
        "colours": COLOURS,
        "actions": _actions(recording.space),
        "attention": [len(layers), len(layers[0]) if layers else 0],
        "explains": first is not None and bool(first.distributions),
        "lanes": recording.lanes,
        "frames": frames.urls,
        "steps": steps,
    }


def fill_template(title: str, document: dict[str, Any]) -> str:
    """Return the page: `page.html` with its style, its program, its title and the data in their places."""
    packed = gzip.compress(json.dumps(document, separators=(",", ":"), allow_nan=False).encode(), mtime=0)
    folder = resources.files(__package__)
    parts = {
        "title": html.escape(title),
        "style": (folder / "page.css").read_text("utf-8"),
        "program": "\n".join((folder / name).read_text("utf-8") for name in _PROGRAM),
        "data": base64.b64encode(packed).decode(),
    }
    template = (folder / "page.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def check_has_entities(space: EntitySpace, position: tuple[str, str] | None = None) -> None:
    """Check that there is something to show.

    Raises:
        ValueError: `space` has neither entities nor global features, or no type has the features `position`.
    """
    if not space.entities and not space.global_features:
        raise ValueError("the environment: expected entities or global features, got none: nothing to show")
    if position is not None:
        everything = [*space.entities.values(), space.global_features]
        if not any({*position} <= {*features} for features in everything):
            names = dict.fromkeys(name for features in everything for name in features)
            raise ValueError(
                f"position: expected two features of one entity type, got {' and '.join(position)}."
                f" Features: {', '.join(names)}"
            )


# -- what the environment is --------------------------------------------------------------------------------


def _types(space: EntitySpace, position: tuple[str, str] | None) -> list[dict[str, Any]]:
    """Return the entity types, and last the step as a whole with the global features."""
    types = {**space.entities, "whole step": space.global_features}
    described = []
    for name, features in types.items():
        columns = position_columns(features, position)
        downwards = columns is not None and grows_downwards(features, columns)
        described.append({"name": name, "features": features, "position": columns, "downwards": downwards})
    return described


def _actions(space: EntitySpace) -> list[dict[str, Any]]:
    return [
        {"name": name, "global": action.is_global, **_kind(action)} for name, action in space.actions.items()
    ]


def _kind(action: Any) -> dict[str, Any]:
    """Return the kind of an action and the names of its choices."""
    match action:
        case Categorical():
            return {"kind": "discrete", "choices": action.choices}
        case MultiCategorical():
            components = [{"name": name, "choices": names} for name, names in action.components.items()]
            return {"kind": "multi-discrete", "components": components, "used": action.used.tolist()}
        case Continuous():
            return {"kind": "continuous", "low": _numbers(action.low), "high": _numbers(action.high)}
        case SelectEntity():
            return {"kind": "select-entity"}
    raise TypeError(f"the page has no form for {action!r}")


# -- steps --------------------------------------------------------------------------------------------------


class _Frames:
    """Pictures as data URLs, each once."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self.size = 0
        self._places: dict[bytes, int] = {}

    def place(self, file: bytes | None) -> int | None:
        """Return the place of a picture in `urls`."""
        if file is None:
            return None
        if file not in self._places:
            kind = "png" if file.startswith(b"\x89PNG") else "jpeg"
            self._places[file] = len(self.urls)
            self.urls.append(f"data:image/{kind};base64,{base64.b64encode(file).decode()}")
            self.size += len(self.urls[-1])
        return self._places[file]


def _decision(space: EntitySpace, decision: Decision, frames: _Frames) -> dict[str, Any]:
    observation, camera = decision.observation, decision.camera
    shown = np.concatenate(
        [observation.visibility(name).values for name in space.entities] or [np.ones(0, bool)]
    )
    return {
        "episode": decision.episode,
        "step": decision.step,
        "active": decision.active,
        "ended": decision.ended,
        "reward": _number(decision.reward),
        "value": None if decision.value is None else _number(decision.value),
        "entities": [_numbers(rows.values) for rows in observation.entities.values()],
        "globals": _numbers(observation.globals[0]),
        "hidden": np.flatnonzero(~shown).tolist(),
        "frame": frames.place(decision.frame),
        "camera": None if camera is None else [camera.left, camera.bottom, camera.width, camera.height],
        "actions": [_action(space, name, decision) for name in space.actions],
        "attention": _attention(decision),
    }


def _action(space: EntitySpace, name: str, decision: Decision) -> dict[str, Any]:
    """Return actors, choices, and the distribution of each actor: null where a choice is masked."""
    part = decision.observation.actions[name]
    actors = part.actors.values
    found = decision.explanation.distributions.get(name) if decision.explanation else None
    distribution: Any = None
    if found is not None and isinstance(space.actions[name], Continuous):
        distribution = _numbers(found)
    elif found is not None:
        allowed = part.mask.values.reshape(found.shape)
        rounded = found.astype(np.float64).round(4).tolist()
        distribution = [
            [p if ok else None for p, ok in zip(*row, strict=True)]
            for row in zip(rounded, allowed.tolist(), strict=True)
        ]
    return {
        "actors": actors.tolist(),
        "chosen": _numbers(decision.actions[name]),
        "distribution": distribution,
        **({} if part.actees is None else {"actees": part.actees.values.tolist()}),
    }


def _attention(decision: Decision) -> dict[str, Any] | None:
    """Return the largest weights: for each layer, head and row k pairs of another row and weight × 255."""
    if decision.explanation is None or not decision.explanation.attention:
        return None
    entities = decision.explanation.rows
    if not len(entities):
        return None
    layers = list(map(largest_weights, decision.explanation.attention))
    pairs = np.stack([(layer.rows, np.rint(layer.weights * 255)) for layer in layers])  # (layers, 2, H, n, k)
    pairs = np.moveaxis(pairs, 1, -1).astype("<u1" if len(entities) <= 256 else "<u2")
    return {
        "k": pairs.shape[-2],
        "bytes": pairs.dtype.itemsize,
        "rows": entities.tolist(),
        "pairs": base64.b64encode(pairs.tobytes()).decode(),
    }


def _number(value: float) -> float | None:
    return _numbers(np.array([value]))[0]


def _numbers(values: NDArray[Any]) -> Any:
    """Return nested lists of numbers of five significant digits; null for those that are not finite."""
    if values.dtype.kind in "iub":
        return values.tolist()
    values = values.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        digits = 4 - np.floor(np.log10(np.abs(values)))
        scale = 10.0 ** np.clip(np.nan_to_num(digits), -300, 300)
        rounded = np.where(np.isfinite(values) & (values != 0), np.rint(values * scale) / scale, values)
    if np.isfinite(rounded).all():
        return rounded.tolist()
    known = rounded.astype(object)
    known[~np.isfinite(rounded)] = None
    return known.tolist()
