"""`compiled`: the decorator of our Numba kernels, and their cache on disk.

A kernel depends on all kernels that it calls, but Numba's own cache notices only edits of the file that the
kernel itself stands in. Here the name of a cached file contains hashes of all that its code was made from:

    <module>.<function>-<hash of the sources>-<hash of the types>.nbc

- sources: the files of all functions that the kernel reaches (other kernels, intrinsics and their helpers,
  through global names, closures and defaults), their compile options, the values of constants that they read;
- types: of the arguments, with the fields of named tuples, and the processor and versions that it is for.

A name is never written with other contents, so any number of processes, checkouts and environments share one
folder: `NUMBA_CACHE_DIR/entitize` if that is set, else the user's cache folder, else (not writable) the
`__pycache__` beside this file. Files of older sources are removed after 30 days.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import logging
import multiprocessing
import os
import pickle
import sys
import tempfile
import time
import types as python_types
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import caching, config, serialize, sigutils
from numba.core.ccallback import CFunc
from numba.core.runtime import rtsys
from numba.core.typing import Signature
from numba.misc.appdirs import AppDirs

from .compiler import KernelCompiler
from .linking import Kernel, called_by, is_inner, load_called

_PACKAGE = __name__.partition(".")[0]
#: How long compiled kernels of other sources are kept, in seconds.
_KEPT = 30 * 24 * 3600
#: Of files of kernels with a wrapper for Python, and of those that only other kernels call.
_ENDINGS = (".nbc", ".inner.nbc")
_CONSTANTS = (int, float, complex, str, bytes, np.generic, np.dtype, type(None))

#: With this one it takes seconds.
_REPORTED_AT = 5
#: Numbers the kernels that this process compiles.
_compilations = itertools.count(1)

#: A hash of source and options for each compiled function, as they were when it was imported.
_origins: weakref.WeakKeyDictionary[Callable[..., Any], str] = weakref.WeakKeyDictionary()


def compiled(
    function: Callable[..., Any] | None = None, *, cache: bool = True, separate: bool = False, **options: Any
) -> Any:
    """Compile a function with Numba and keep the result on disk until one of its sources changes.

    Args:
        function: a kernel; left out where the decorator is given options.
        cache: keep the result on disk; False for small functions that only other kernels call.
        separate: other kernels call it where it is, instead of getting a copy that LLVM can inline (see
            `linking`): for all but small functions. Then a callee's constants are variables.
        **options: of `numba.njit`. Division by zero gives inf or NaN, as in NumPy, unless `error_model` says
            otherwise.
    """
    if function is None:
        return functools.partial(compiled, cache=cache, separate=separate, **options)
    options = {"error_model": "numpy", **options}
    if config.DISABLE_JIT:
        return function
    listed = sorted((k, sorted(v) if isinstance(v, set) else v) for k, v in options.items())
    _origins[function] = _hash([_source(function.__module__), repr(listed), repr(separate)])
    if not cache:
        return numba.njit(pipeline_class=KernelCompiler, **options)(function)
    return Kernel(function, options, KernelCache(function), separate)


def compiled_callback(signature: Any) -> Callable[[Callable[..., Any]], CFunc]:
    """Compile a function for callers in C, as `numba.cfunc` does, and keep the result as `compiled` does.

    Args:
        signature: the types of the result and the arguments, of Numba: `types.int64(types.voidptr)`.
    """

    def decorate(function: Callable[..., Any]) -> CFunc:
        _origins[function] = _hash([_source(function.__module__), repr(signature)])
        callback = CFunc(function, sigutils.normalize_signature(signature), {}, {})
        callback._cache = KernelCache(function, for_python=False)  # type: ignore[attr-defined]
        callback.compile()
        return callback

    return decorate


class KernelCache(caching.NullCache):
    """The compiled versions of one kernel on disk, for Numba's dispatchers."""

    def __init__(self, function: Callable[..., Any], for_python: bool = True) -> None:
        self._function = function
        #: The part of the files' names that is the same for all sources.
        self.name = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")
        #: Python asks for the kernel; False: another kernel or C does, which need no wrapper for Python.
        self.for_python = for_python

    @functools.cached_property
    def _format(self) -> Any:
        """Numba's: how a compiled kernel becomes bytes, and which may."""
        return caching.CompileResultCacheImpl(self._function)

    @functools.cached_property
    def sources(self) -> str:
        """A hash of the sources."""
        return fingerprint(self._function)  # at first use: only then is everything imported

    @property
    def cache_path(self) -> str | None:
        folder = cache_folder()
        return None if folder is None else str(folder)

    def symbol(self, signature: Any, codegen: Any) -> str:
        """Return the name of the kernel for these types, in files and for the linker.

        Args:
            signature: the types of the arguments, or a signature of Numba.
        """
        args = signature.args if isinstance(signature, Signature) else signature
        versions = (numba.__version__, llvmlite.__version__, np.__version__, sys.implementation.cache_tag)
        target = (*codegen.magic_tuple(), config.OPT, config.BOUNDSCHECK)
        key = _hash([*versions, repr(target), *map(_type_name, args)])
        return f"{self.name}-{self.sources}-{key}"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the kernel compiled for these types, or None."""
        folder = cache_folder()
        if folder is None:
            return None
        rtsys.initialize(target_context)  # all that a loaded kernel needs; to compile one takes more
        symbol = self.symbol(sig, target_context.codegen())
        for ending in _ENDINGS[:1] if self.for_python else _ENDINGS:
            try:
                called, data = pickle.loads((folder / (symbol + ending)).read_bytes())
            except (OSError, EOFError, pickle.UnpicklingError):
                continue
            if load_called(called):
                return self._format.rebuild(target_context, data)
        _report_compilation()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled kernel, and remove old ones of other sources."""
        folder = cache_folder()
        if folder is None or not self._format.check_cachable(data):
            return
        file = folder / (self.symbol(sig, data.codegen) + _ENDINGS[is_inner(data)])
        data = data._replace(type_annotation="")  # for inspection only, and slow to write
        try:
            _write(file, serialize.dumps((called_by(data), self._format.reduce(data))))
            for old in folder.glob(f"{self.name}-*.nbc"):
                of_these_sources = old.name.startswith(f"{self.name}-{self.sources}-")
                if not of_these_sources and time.time() - old.stat().st_mtime > _KEPT:
                    old.unlink()
        except FileNotFoundError:
            pass  # another process removed it first
        except OSError as error:
            _warn(f"{folder}: compiled kernels cannot be kept: {error}")


def cache_folder() -> Path | None:
    """Return the folder of compiled kernels; None, after a warning, where none can be written."""
    return _writable_folder(config.CACHE_DIR)


@functools.cache
def _writable_folder(numba_cache_dir: str) -> Path | None:
    folders = [Path(AppDirs(_PACKAGE, appauthor=False).user_cache_dir), Path(__file__).parent / "__pycache__"]
    if numba_cache_dir:
        folders = [Path(numba_cache_dir, _PACKAGE)]
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        return folder
    _warn(f"compiled kernels cannot be kept: {' and '.join(map(str, folders))} cannot be written")
    return None


def fingerprint(function: Callable[..., Any]) -> str:
    """Return a hash of the sources and constants that a kernel's machine code depends on."""
    package = function.__module__.partition(".")[0]
    parts: set[str] = set()
    seen: set[int] = set()
    pending: list[tuple[str, Any, tuple[str, ...]]] = [("", function, ())]
    while pending:
        where, value, names = pending.pop()
        value = inspect.unwrap(value) if callable(value) else value
        if isinstance(value, tuple | list):
            pending += [(f"{where}[{i}]", item, ()) for i, item in enumerate(value)]
        elif isinstance(value, _CONSTANTS):
            parts.add(f"{where} = {value!r}")
        elif isinstance(value, np.ndarray):
            parts.add(f"{where} = {value.dtype} {value.shape} {_hash([value.tobytes()])}")
        elif isinstance(value, python_types.ModuleType):
            if id(value) not in seen and _is_of(package, value.__name__):
                seen.add(id(value))
                parts.add(f"{value.__name__} {_source(value.__name__)}")
                pending += [
                    (f"{value.__name__}.{n}", getattr(value, n), names) for n in names if hasattr(value, n)
                ]
        elif isinstance(value, python_types.FunctionType):
            if id(value) not in seen and _is_of(package, value.__module__):
                seen.add(id(value))
                parts.add(f"{value.__module__} {_origins.get(value) or _source(value.__module__)}")
                pending += _read_by(value)
        else:  # a class, or an object of one, of which only the source is known
            module = getattr(value, "__module__", None) or ""
            if isinstance(module, str) and _is_of(package, module):
                parts.add(f"{module} {_source(module)}")
    return _hash(sorted(parts))


def _read_by(function: Any) -> list[tuple[str, Any, tuple[str, ...]]]:
    """List what a function reads from outside: (name, value, names that it reads from values)."""
    codes, names = [function.__code__], set[str]()
    for code in codes:
        names |= {*code.co_names}
        codes += [c for c in code.co_consts if isinstance(c, python_types.CodeType)]
    attributes = tuple(sorted(names))
    own = function.__globals__
    found = [(f"{function.__module__}.{name}", own[name], attributes) for name in names if name in own]
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    inner = f"{function.__module__}.{function.__qualname__}"
    found += [(f"{inner}.{name}", cell.cell_contents, attributes) for name, cell in cells]
    return [*found, (f"{inner} defaults", function.__defaults__ or (), ())]


def _is_of(package: str, module: str) -> bool:
    return module.partition(".")[0] in (package, _PACKAGE) and module in sys.modules


def _source(module: str) -> str:
    """Return a hash of a module's source, as it now stands on disk (or in a zip archive)."""
    found: Any = sys.modules[module]
    file = getattr(found, "__file__", None)
    if file is None:
        return ""
    if not os.path.exists(file):
        return _hash([found.__loader__.get_data(file)])
    status = os.stat(file)
    return _file_hash(file, status.st_mtime_ns, status.st_size)


@functools.cache
def _file_hash(file: str, modified: int, size: int) -> str:
    return _hash([Path(file).read_bytes()])


def _type_name(numba_type: Any) -> str:
    """Return a name that differs where the compiled code may: Numba's, and the fields of named tuples."""
    if isinstance(numba_type, numba.types.BaseTuple):
        fields = ""
        if isinstance(numba_type, numba.types.BaseNamedTuple):
            fields = f"{numba_type.instance_class.__module__}.{numba_type.instance_class.__qualname__}"
            fields += repr(numba_type.fields)
        return f"{fields}({', '.join(_type_name(t) for t in numba_type)})"
    return str(numba_type)


def _write(file: Path, data: bytes) -> None:
    """Write a file that others see whole or not at all."""
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as scratch:
        scratch.write(data)
    try:
        os.replace(scratch.name, file)
    except OSError:
        os.unlink(scratch.name)
        raise


def _hash(parts: Iterable[str | bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()[:20]


def _report_compilation() -> None:
    """Say, once in a process that a user started, that kernels are compiled, which takes its time."""
    if next(_compilations) == _REPORTED_AT and multiprocessing.parent_process() is None:
        logging.getLogger(__name__).warning(
            "Entitize compiles its kernels at first use, which can take half a minute, and keeps them on disk"
        )


@functools.cache
def _warn(problem: str) -> None:
    logging.getLogger(__name__).warning(
        "%s. Each process compiles them again: set NUMBA_CACHE_DIR to a writable folder.", problem
    )
