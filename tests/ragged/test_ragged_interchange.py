"""Sharing memory with torch, awkward and Arrow."""

import subprocess
import sys
from typing import Any

import awkward
import numpy as np
import pytest
import torch
from entitize.ragged import RaggedArray
from hypothesis import given, settings
from hypothesis import strategies as st

quick = settings(deadline=None, derandomize=True, max_examples=30)


@quick
@given(data=st.data())
def test_torch_and_back_shares_memory(cases: Any, same: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    values, offsets = array.to_torch()
    assert values.data_ptr() == array.values.ctypes.data or array.values.size == 0
    assert offsets.data_ptr() == array.offsets.ctypes.data
    back = RaggedArray.from_torch(values, offsets)
    same(back, sequences)
    assert np.shares_memory(back.values, array.values) or array.values.size == 0


def test_torch_tensors_are_taken_without_gradient_and_in_any_layout() -> None:
    values = torch.arange(6.0, requires_grad=True).reshape(2, 3).T
    array = RaggedArray.from_torch(values, torch.tensor([0, 1, 3], dtype=torch.int32))
    assert array[1].tolist() == [[1.0, 4.0], [2.0, 5.0]]


def test_torch_dtypes_that_numpy_lacks_are_named() -> None:
    with pytest.raises(ValueError, match=r"dtype torch.bfloat16 has no NumPy counterpart"):
        RaggedArray.from_torch(torch.zeros(2, dtype=torch.bfloat16), torch.tensor([0, 2]))
    with pytest.raises(ValueError, match="dtype float16 is not one of"):
        RaggedArray.from_torch(torch.zeros(2, dtype=torch.float16), torch.tensor([0, 2]))


def test_read_only_memory_does_not_become_a_writable_tensor() -> None:
    values = np.zeros(2, np.float32)
    values.flags.writeable = False
    array = RaggedArray(values, [0, 2])
    with pytest.raises(ValueError, match="the values are read-only"):
        array.to_torch()
    assert array.copy().to_torch()[0].tolist() == [0.0, 0.0]


@quick
@given(data=st.data())
def test_awkward_and_back_shares_memory(cases: Any, same: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    other = array.to_awkward()
    assert other.to_list() == [s.tolist() for s in sequences]
    assert np.shares_memory(other.layout.content.data, array.values) or array.values.size == 0
    back = RaggedArray.from_awkward(other)
    same(back, sequences)
    assert np.shares_memory(back.values, array.values) or array.values.size == 0


def test_awkward_arrays_of_other_layouts_are_taken_too() -> None:
    shuffled = awkward.Array([[1.0, 2.0], [], [3.0]])[[2, 1, 0]]
    assert RaggedArray.from_awkward(shuffled) == RaggedArray([3.0, 1.0, 2.0], [0, 1, 1, 3])
    assert RaggedArray.from_awkward(shuffled[1:]) == RaggedArray([1.0, 2.0], [0, 0, 2])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1.0, 2.0], r"expected an array of type B \* var \* items, got 2 \* float64"),
        ([[[1.0], []]], "are not all of one shape"),
        ([[1.0, None]], "are not all of one shape"),
        (["text"], r"expected an array of type B \* var \* items"),
        ([[1.0], None], r"expected an array of type B \* var \* items"),
    ],
)
def test_awkward_arrays_that_are_not_ragged_arrays_are_refused(content: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RaggedArray.from_awkward(awkward.Array(content))


@pytest.mark.parametrize(
    ("method", "package"), [("to_torch", "torch"), ("to_awkward", "awkward"), ("to_arrow", "pyarrow")]
)
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, method: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"this needs the package '{package}': pip install {package}"):
        getattr(RaggedArray.empty(1), method)()


def test_arrow_shares_memory_where_it_is_installed() -> None:
    array = RaggedArray(np.arange(6, dtype=np.float32).reshape(3, 2), [0, 1, 1, 3])
    try:
        import pyarrow
    except ImportError:
        with pytest.raises(ImportError, match="pip install pyarrow"):
            array.to_arrow()
        return
    other = array.to_arrow()
    assert other.type == pyarrow.large_list(pyarrow.list_(pyarrow.float32(), 2))
    assert other.to_pylist() == [s.tolist() for s in array]
    assert other.buffers()[1].address == array.offsets.ctypes.data
    assert other.values.values.buffers()[1].address == array.values.ctypes.data


def test_arrow_has_no_items_without_features() -> None:
    with pytest.raises(ValueError, match=r"Arrow has no items without features, these have shape \(0,\)"):
        RaggedArray.empty(1, (0,)).to_arrow()


def test_importing_ragged_arrays_imports_none_of_them() -> None:
    # only the import: Numba itself loads awkward, where it is installed, before it runs its first kernel
    code = (
        "import sys, entitize.ragged; "
        "print([name for name in ('torch', 'awkward', 'pyarrow') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
