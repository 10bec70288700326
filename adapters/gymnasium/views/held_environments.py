"""Search for environments that a view's function reads without being given them."""

from __future__ import annotations

import dis
import sysconfig
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from inspect import getattr_static, ismemberdescriptor
from itertools import islice
from types import (
    BuiltinMethodType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any

import gymnasium
import numpy as np

#: Objects that the search looks into, and items that it looks at in each of them: what is used is near.
MAX_OBJECTS = 2_000

_ENVIRONMENTS = (gymnasium.Env, gymnasium.vector.VectorEnv)
_LEAVES = (str, bytes, int, float, complex, type(None), np.ndarray, np.generic, type, ModuleType, CodeType)
_CONTAINERS = (list, tuple, set, frozenset, deque)
_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def holds_environment(function: Any) -> bool:
    """Return True if `function` reaches an environment other than by its arguments.

    The search goes through variables and functions that the code names, default arguments, what a method or
    a callable object has as attributes, and items of containers. It does not look into modules, nor at the
    variables of other installed packages.
    """
    package = _package(function)
    waiting: deque[Any] = deque([function])
    seen: dict[tuple[int, ...], Any] = {}  # the objects are kept, so that their ids are not used again
    while waiting and len(seen) < MAX_OBJECTS:
        value = waiting.popleft()
        if isinstance(value, _ENVIRONMENTS):
            return True
        # A method is another object each time it is looked up.
        is_method = isinstance(value, MethodType)
        key = (id(value.__func__), id(value.__self__)) if is_method else (id(value),)
        if isinstance(value, _LEAVES) or key in seen:
            continue
        seen[key] = value
        waiting.extend(islice(_parts(value, package), MAX_OBJECTS))
    return False


def _parts(value: Any, package: str) -> Iterator[Any]:
    if isinstance(value, MethodType):
        yield value.__self__
        yield value.__func__
        yield from _class_attributes(value)
    elif isinstance(value, FunctionType):
        yield from _variables(value, package)
    elif isinstance(value, dict | MappingProxyType):
        yield from value.values()
    elif isinstance(value, _CONTAINERS):
        yield from value
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(call := getattr_static(type(value), "__call__", None), FunctionType):
        yield MethodType(call, value)
    elif isinstance(value, BuiltinMethodType | MethodWrapperType):
        yield value.__self__
    yield from _attributes(value)


def _variables(function: FunctionType, package: str) -> Iterator[Any]:
    """Yield default arguments, and the variables outside `function` that its code names."""
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # nothing is assigned to the variable yet
            continue
    installed = function.__code__.co_filename.startswith(_INSTALLED)
    if not installed or _package(function) == package:
        for name in _names(function.__code__, _GLOBALS):
            yield function.__globals__.get(name)


def _class_attributes(method: MethodType) -> Iterator[Any]:
    """Yield methods, properties and values of the class that the code of `method` names."""
    code = getattr(method.__func__, "__code__", None)
    for name in () if code is None else _names(code, _ATTRIBUTES):
        found = getattr_static(type(method.__self__), name, None)
        if isinstance(found, property):
            found = found.fget
        yield MethodType(found, method.__self__) if isinstance(found, FunctionType) else found


def _attributes(value: Any) -> Iterator[Any]:
    """Yield the attributes of an object, without running code of its class."""
    with suppress(AttributeError):
        yield from object.__getattribute__(value, "__dict__").values()
    for kind in type(value).__mro__:
        for slot in vars(kind).values() if "__slots__" in vars(kind) else ():
            if ismemberdescriptor(slot):
                yield getattr(value, slot.__name__, None)


def _names(code: CodeType, instructions: tuple[str, ...]) -> set[str]:
    """Return names that `code`, or code within it (a comprehension, a lambda), loads by `instructions`."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname in instructions}
    return names.union(*(_names(part, instructions) for part in code.co_consts if isinstance(part, CodeType)))


def _package(function: Any) -> str:
    return (getattr(function, "__module__", None) or "").partition(".")[0]
