"""Sharing memory with Arrow."""

import subprocess
import sys

import numpy as np
from entitize.ragged import RaggedArray

from facts import raises


def test_arrow_shares_memory_where_it_is_installed() -> None:
    array = RaggedArray(np.arange(6, dtype=np.float32).reshape(3, 2), [0, 1, 1, 3])
    try:
        import pyarrow
    except ImportError:
        with raises(ImportError, "pyarrow", "pip install"):
            array.to_arrow()
        return
    other = array.to_arrow()
    assert other.type == pyarrow.large_list(pyarrow.list_(pyarrow.float32(), 2))
    assert other.to_pylist() == [s.tolist() for s in array]
    assert other.buffers()[1].address == array.offsets.ctypes.data
    assert other.values.values.buffers()[1].address == array.values.ctypes.data


def test_arrow_has_no_items_without_features() -> None:
    with raises(ValueError, "Arrow", "(0,)"):
        RaggedArray.empty(1, (0,)).to_arrow()


def test_importing_ragged_arrays_imports_none_of_them() -> None:
    # only the import: Numba itself loads awkward, where it is installed, before it runs its first kernel
    code = (
        "import sys, entitize.ragged; "
        "print([name for name in ('torch', 'awkward', 'pyarrow') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
