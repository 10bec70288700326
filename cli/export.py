"""`entitize export`: a trained network as an ONNX file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from ..experiments import parse
from ..experiments.errors import user_errors
from ..policies import CheckpointError
from ..policies.export import ExportError, export_onnx
from ..policies.export.graph import LEAST_OPSET


@dataclass(frozen=True, kw_only=True)
class ExportArguments:
    """Write the network of a run as an ONNX file, for programs without Python.

    docs/onnx.md describes inputs and outputs.

    Example: entitize export runs/first --out agent.onnx
    """

    run: tyro.conf.Positional[Path]
    """The run folder, or a checkpoint folder."""
    out: Path
    """The file to write. A JSON file with the names of inputs and outputs is written beside it."""
    opset: int = LEAST_OPSET
    """Version of ONNX's operators."""


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command."""
    chosen = parse(ExportArguments, "export", arguments)
    with user_errors(CheckpointError, ExportError, ValueError, OSError, ImportError):
        file = export_onnx(chosen.run, chosen.out, chosen.opset)
    size = file.path.stat().st_size / 1000
    print(f"{file.path}: written ({size:,.0f} kB, opset {chosen.opset}); names in {file.names}")
    if file.difference is None:
        print("not compared with the network: ONNX Runtime is not installed: pip install 'entitize[onnx]'")
    else:
        print(f"ONNX Runtime differs from the network by at most {file.difference:.1e} on generated steps")
