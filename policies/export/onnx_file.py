"""`export_onnx`: a RogueNet as an ONNX file, with a JSON file of its names beside it."""

from __future__ import annotations

import importlib.util
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from ...envs import Continuous
from ...envs.errors import whole_number
from ...envs.spaces.space_schema import space_schema
from ...files import replace_file
from ...version import __version__
from ..inputs.number_units import units
from .graph import LEAST_OPSET, Graph
from .network import add_network
from .source import ExportError, Source, read_source


@dataclass(frozen=True)
class OnnxFile:
    """The files that `export_onnx` has written."""

    path: Path
    """The ONNX file."""
    names: Path
    """The JSON file: spaces, inputs and outputs."""
    difference: float | None
    """The largest difference between ONNX Runtime and the network on generated steps (log-probabilities and
    values); None: ONNX Runtime is not installed, and nothing was compared."""


def export_onnx(source: Any, path: str | os.PathLike[str], opset: int = LEAST_OPSET) -> OnnxFile:
    """Write a RogueNet as an ONNX file that computes one step, and its names as JSON beside it.

        ez.export_onnx("runs/first", "agent.onnx")

    Inputs are the arrays of an observation, with any number of entities; outputs are logits and the value.
    docs/onnx.md describes them. Normalization and everything else that the options ask for is inside.
    If ONNX Runtime is installed, the file is compared with the network before it is written.

    Args:
        source: a run folder (its newest checkpoint), a checkpoint folder, or a RogueNet.
        path: the file to write, `….onnx`.
        opset: version of ONNX's operators; 17 is the oldest that has all.

    Raises:
        TypeError: `source` is nothing of these, or `opset` no whole number.
        ValueError: `path` ends otherwise, or there is no such opset.
        CheckpointError: there is no checkpoint, or it is corrupt.
        ExportError: the network has a part that can't be exported, or the file gives other numbers.
        OSError: a file can't be written, or the JSON file would replace one of something else.
    """
    path = Path(path)
    if path.suffix != ".onnx":
        raise ValueError(f"export_onnx: path: expected a name that ends in .onnx, got {path.name!r}")
    _check_opset(opset)
    _check_folder(path.parent)
    names = path.with_suffix(".json")
    _check_is_ours(names)
    found = read_source(source)
    graph = Graph(opset)
    add_network(graph, found.space, found.settings, found.weights)
    content = graph.model(__version__).SerializeToString()
    error = None
    if importlib.util.find_spec("onnxruntime") is not None:
        error = _compare(content, found)
    replace_file(path, content)
    replace_file(names, json.dumps(describe(graph, found), indent=1).encode())
    return OnnxFile(path, names, error)


def _check_opset(opset: int) -> None:
    newest = onnx.defs.onnx_opset_version()
    whole_number("export_onnx: opset", opset, LEAST_OPSET, newest)


def _check_is_ours(path: Path) -> None:
    """Check that the file for the names is missing, or one of an earlier export."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return
    except ValueError:
        content = None
    if not isinstance(content, dict) or "entitize" not in content:
        raise FileExistsError(f"export_onnx: {path} is another file: expected a name whose .json is free")


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise FileNotFoundError(f"export_onnx: path: expected a folder that exists, got {folder}")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"export_onnx: path: expected a folder that can be written, got {folder}")


def _compare(content: bytes, source: Source) -> float:
    from .comparison import difference, exceeds

    error, what = difference(content, source)
    if exceeds(error):
        raise ExportError(
            f"export_onnx: {what}: ONNX Runtime and the network differ by {error:.1e}: expected at most 1e-4."
            " A class or function of the network was changed, which has no ONNX export."
        )
    return error


def describe(graph: Graph, source: Source) -> dict[str, Any]:
    """Return the content of the JSON file."""
    raw = {}
    for name, action in source.space.actions.items():
        if isinstance(action, Continuous):
            origin, scale = units(action)
            raw[name] = {"origin": origin.tolist(), "scale": scale.tolist(), "squash": source.settings.squash}
    return {
        "entitize": __version__,
        "opset": graph.opset,
        "spaces": space_schema(source.space),
        "raw_numbers": raw,
        "inputs": {name: _described(info) for name, info in graph.inputs.items()},
        "outputs": {name: _described(info) for name, info in graph.outputs.items()},
    }


def _described(info: onnx.ValueInfoProto) -> dict[str, Any]:
    tensor = info.type.tensor_type
    shape = [dim.dim_param or dim.dim_value for dim in tensor.shape.dim]
    return {"dtype": onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name, "shape": shape}
