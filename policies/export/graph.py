"""`Graph`: ONNX nodes in the order of computation.

Values between nodes are their names (`str`). An array or a list of integers among the inputs of a node is a
constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import DTypeLike, NDArray
from onnx import TensorProto, helper, numpy_helper

Value: TypeAlias = str
Input: TypeAlias = Value | NDArray[Any] | np.generic | Sequence[int]
Shape: TypeAlias = Sequence[int | str]

#: The lowest version of ONNX's operators with `LayerNormalization`.
LEAST_OPSET = 17
#: Versions of operators from here on take the axes of every reduction as an input.
_AXES_ARE_INPUTS = 18


class Graph:
    """Nodes, constants, inputs and outputs of one model."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.inputs: dict[str, onnx.ValueInfoProto] = {}
        self.outputs: dict[str, onnx.ValueInfoProto] = {}
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[tuple[Any, ...], onnx.TensorProto] = {}

    def input(self, name: str, dtype: DTypeLike, shape: Shape) -> Value:
        """Add an input; a string in `shape` names a size that is free."""
        self.inputs[name] = helper.make_tensor_value_info(name, _element(dtype), shape)
        return name

    def output(self, name: str, value: Value, dtype: DTypeLike, shape: Shape) -> None:
        """Give `value` out as `name`."""
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs[name] = helper.make_tensor_value_info(name, _element(dtype), shape)

    def constant(self, numbers: NDArray[Any] | np.generic | Sequence[int]) -> Value:
        """Return a constant; equal ones are stored once."""
        array = np.array(numbers, np.int64 if isinstance(numbers, list) else None, order="C")
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._constants:
            self._constants[key] = numpy_helper.from_array(array, f"constant_{len(self._constants)}")
        return self._constants[key].name

    def add(self, operator: str, *inputs: Input, **attributes: Any) -> Value:
        """Add a node; return its value."""
        return self._node(operator, inputs, 1, attributes)[0]

    def split(self, value: Value, sizes: Sequence[int], axis: int) -> list[Value]:
        """Cut a value into parts of these sizes."""
        return self._node("Split", (value, list(sizes)), len(sizes), {"axis": axis})

    def _node(
        self, operator: str, inputs: Sequence[Input], outputs: int, attributes: Mapping[str, Any]
    ) -> list[Value]:
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        results = [f"{operator}_{len(self._nodes)}_{i}" for i in range(outputs)]
        self._nodes.append(helper.make_node(operator, names, results, **attributes))
        return results

    # -- several nodes under one name -----------------------------------------------------------------------

    def cast(self, value: Value, dtype: DTypeLike) -> Value:
        """Return the value in another type of numbers."""
        return self.add("Cast", value, to=_element(dtype))

    def reduce(self, kind: str, value: Value, axis: int) -> Value:
        """Reduce an axis to length 1 by "Sum" or "Max"."""
        if kind == "Sum" or self.opset >= _AXES_ARE_INPUTS:
            return self.add(f"Reduce{kind}", value, [axis], keepdims=1)
        return self.add(f"Reduce{kind}", value, axes=[axis], keepdims=1)

    def columns(self, value: Value, columns: Sequence[int]) -> Value:
        """Return some items of the last axis."""
        return self.add("Gather", value, list(columns), axis=-1)

    def length(self, value: Value) -> Value:
        """Return the number of rows, int64 (1,)."""
        return self.add("Shape", value, start=0, end=1)

    def expand(self, row: Value | NDArray[Any], like: Value, width: Sequence[int]) -> Value:
        """Repeat one row for each row of `like`."""
        shape = self.add("Concat", self.length(like), list(width), axis=0)
        return self.add("Expand", row, shape)

    def join(self, parts: Sequence[Value], axis: int) -> Value:
        """Return the parts behind each other."""
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=axis)

    def norm(self, vectors: Value, axis: int = -1) -> Value:
        """Return Euclidean lengths, with an axis of length 1."""
        return self.add("Sqrt", self.reduce("Sum", self.add("Mul", vectors, vectors), axis))

    # -- the model ------------------------------------------------------------------------------------------

    def model(self, version: str) -> onnx.ModelProto:
        """Return the checked model, in the oldest file format that has the operators."""
        graph = helper.make_graph(
            self._nodes,
            "entitize",
            list(self.inputs.values()),
            list(self.outputs.values()),
            list(self._constants.values()),
        )
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(
            graph, opset_imports=opsets, producer_name="entitize", producer_version=version
        )
        model.ir_version = helper.find_min_ir_version_for(opsets)
        onnx.checker.check_model(model, full_check=True)
        return model


def _element(dtype: DTypeLike) -> TensorProto.DataType:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
