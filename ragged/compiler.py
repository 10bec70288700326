"""`KernelCompiler`: Numba's compiler without work that our kernels gain nothing from.

**What this uses of Numba that is not documented**, tried with Numba 0.68.1: `JITCodeLibrary`, the LLVM module
of one kernel. (`CompilerBase.define_pipelines` and `pipeline_class` are documented.)
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _Library(JITCodeLibrary):
    def _optimize_functions(self, ll_module: Any) -> None:
        """Optimize the functions of a module, before kernels are linked and optimized as a whole.

        Numba makes a pass manager for each declaration too, of which there are ten times as many: that was a
        twentieth of the time to compile.
        """
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if not function.is_declaration:
                passes, builder = self._codegen._function_pass_manager()
                passes.run(function, builder)


class KernelCompiler(Compiler):
    """Compiles a kernel, or a function that kernels call."""

    def define_pipelines(self) -> Any:
        if self.state.library is None:
            self.state.library = _Library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
        return super().define_pipelines()


@contextmanager
def no_collections() -> Iterator[None]:
    """Let Python not look for unreachable objects, which took a twentieth of the time to compile."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
