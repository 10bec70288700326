"""`Kernel`: a Numba dispatcher whose compiled code other kernels may call through a symbol.

Numba copies the code of every function that a kernel calls into the kernel, and LLVM optimizes the copies
again, at each level of a tree of calls: the leaves of a tree of depth k are compiled k times. A *separate*
kernel is compiled once. Its callers contain its symbol only, which the just-in-time linker resolves when they
are loaded. So the cached file of a kernel names the kernels that it calls, and loading it loads those first.

The symbol is the name of the cached file: equal symbols mean equal code, in every process.

**What this uses of Numba that is not documented**, tried with Numba 0.68.1:

- `CPUDispatcher.compile`, `get_call_template` and `add_overload`: what runs when Python or a kernel asks for
  new types. A kernel that only kernels have asked for has no wrapper for Python, which takes as long to
  compile as a small kernel; Python's first call compiles it again, with one.
- the target context's table of implementations (`_defns`), in which the call through the symbol replaces the
  one that links a copy.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from numba import types
from numba.core import cgutils, imputils, sigutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from .compiler import KernelCompiler, no_collections

#: Where the kernel of a symbol is found: the dispatcher, and the types of its arguments.
_symbols: dict[str, tuple[weakref.ref[Kernel], tuple[Any, ...]]] = {}

#: All kernels, by name: several where a function is made more than once.
_kernels: dict[str, weakref.WeakSet[Kernel]] = {}


class Kernel(CPUDispatcher):
    """The compiled versions of a function, for Python and for other kernels; see the module."""

    def __init__(
        self, function: Callable[..., Any], options: dict[str, Any], cache: Any, separate: bool
    ) -> None:
        """`cache` keeps the compiled versions and names the symbols: a `KernelCache`."""
        plain = {"nopython": True, "boundscheck": None, "no_cfunc_wrapper": True}
        super().__init__(function, targetoptions={**plain, **options}, pipeline_class=KernelCompiler)
        self._cache = cache
        self._separate = separate
        self._for_python = True
        _kernels.setdefault(cache.name, weakref.WeakSet()).add(self)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile for a call from another kernel.

        A separate kernel is compiled once for constants and variables alike. Left alone, Numba compiles a
        function again for each combination of constants.
        """
        if self._separate:
            args = tuple(types.unliteral(a) for a in args)
        with global_compiler_lock:
            before, self._for_python = self._for_python, False
            try:
                return super().get_call_template(args, kws)
            finally:
                self._for_python = before

    @global_compiler_lock
    def compile(self, sig: Any) -> Any:
        args = tuple(sigutils.normalize_signature(sig)[0])
        known = self.overloads.get(args)
        if known is not None:
            if not (self._for_python and is_inner(known)):
                return known.entry_point
            del self.overloads[args]
        self._cache.for_python = self._for_python
        self.targetoptions["no_cpython_wrapper"] = not self._for_python
        with no_collections():
            entry = super().compile(sig)
        if self._separate:
            self._export(args)
        return entry

    def add_overload(self, cres: Any) -> None:
        if is_inner(cres):
            self.overloads[tuple(cres.signature.args)] = cres  # and Python's table does not know it
        else:
            super().add_overload(cres)

    def _export(self, args: tuple[Any, ...]) -> None:
        """Give the version for `args` its symbol, and let kernels call it through that."""
        cres = self.overloads[args]
        symbol = self._cache.symbol(args, cres.codegen)
        llvm.add_symbol(symbol, cres.library.get_pointer_to_function(cres.fndesc.llvm_func_name))
        _symbols[symbol] = weakref.ref(self), args
        context = self.targetctx
        context.remove_user_function(cres.entry_point)
        implementation = _call_through(symbol, cres.fndesc)
        context._defns[cres.entry_point].append(implementation, implementation.signature)


def is_inner(cres: Any) -> bool:
    """Return True if a compiled version has no wrapper for Python."""
    return bool(cres.library.get_pointer_to_function(cres.fndesc.llvm_cpython_wrapper_name) == 0)


def called_by(cres: Any) -> list[tuple[str, str, tuple[Any, ...]]]:
    """Return the linked kernels that a compiled version calls: name, hash of the sources, types."""
    found = []
    for function in cres.library._final_module.functions:
        kernel, args = _symbols.get(function.name, (None, ())) if function.is_declaration else (None, ())
        kernel = None if kernel is None else kernel()
        if kernel is not None:
            found.append((kernel._cache.name, kernel._cache.sources, args))
    return found


def load_called(called: list[tuple[str, str, tuple[Any, ...]]]) -> bool:
    """Load or compile what `called_by` has named; return False if one of them does not exist (any more)."""
    for name, sources, args in called:
        kernels = [kernel for kernel in _kernels.get(name, ()) if kernel._cache.sources == sources]
        if not kernels:
            return False
        kernels[0].get_call_template(args, {})
    return True


def _call_through(symbol: str, fndesc: Any) -> Any:
    """Return what generates a call; Numba's own, `imputils.user_function`, but for the name."""

    def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        function_type = context.call_conv.get_function_type(fndesc.restype, fndesc.argtypes)
        function = cgutils.get_or_insert_function(builder.module, function_type, symbol)
        context.apply_target_attributes(function, fndesc.argtypes, fndesc.restype)
        context.call_conv.decorate_function(function, fndesc.args, fndesc.argtypes, noalias=fndesc.noalias)
        status, value = context.call_conv.call_function(
            builder, function, fndesc.restype, fndesc.argtypes, args
        )
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        value = imputils.fix_returning_optional(context, builder, sig, status, value)
        return imputils.impl_ret_new_ref(context, builder, fndesc.restype, value)

    call.signature = fndesc.argtypes  # type: ignore[attr-defined]
    call.libs = ()  # type: ignore[attr-defined]
    return call
