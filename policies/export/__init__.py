"""Trained networks as files for other programs: ONNX.

`network.py` adds the nodes of a RogueNet to a graph: read it beside `rogue_net/network.py`. `onnx_file.py`
compares the result with the network and writes the file.
"""

from .onnx_file import OnnxFile, export_onnx
from .source import ExportError

__all__ = ["ExportError", "OnnxFile", "export_onnx"]
