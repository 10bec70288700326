"""`Fingerprint`: notices that the modules of a network, or the code that they run, have changed."""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from ..rogue_net.normalization import InputNorm

_PACKAGE = f"{__name__.partition('.')[0]}."

#: Kinds of values of attributes and globals that are compared.
_PLAIN = (bool, int, float, str, type(None), types.FunctionType, types.BuiltinFunctionType, type)

#: Attributes that every module has, and those in which networks of ours keep their engines.
_UNREAD = frozenset({*vars(nn.Module()), "_chooser", "_fused", "_static", "_precision"})

#: Code of these is not of the user; what it holds is not compared.
_LIBRARIES = frozenset({__name__.partition(".")[0], "torch", "numpy", "gymnasium", *sys.stdlib_module_names})

#: So many parts of a value are compared, nested no deeper than this; of others, whether they are the same.
_MOST_ITEMS, _MOST_DEPTH = 200, 8

_code = attrgetter("__code__")


class Fingerprint:
    """Snapshot of a network's structure: modules, classes, plain attributes, buffers and source.

    Comparing takes some ten microseconds, so it is done at each call. What is found to have changed need not
    change any number: it is the occasion to compare the engines again.
    """

    def __init__(self, network: nn.Module) -> None:
        self._modules = list(network.modules())
        self._namespaces = list(map(vars, self._modules))
        self._kinds = list(map(type, self._modules))
        self._sizes = list(map(len, self._namespaces))
        self._parameters = [module._parameters for module in self._modules if module._parameters]
        self._parameters_then = self._identities()
        self._children = [module._modules for module in self._modules]
        self._children_then = list(map(dict, self._children))
        self._noted: dict[int, tuple[Any, set[str]]] = {}  # by namespace: names of values that are compared
        #: Namespace and name of each container, array or object of the user's code, and what was in it.
        self._held: list[tuple[Any, str, Any]] = []
        for module, namespace in zip(self._modules, self._namespaces, strict=True):
            if type(module) is not nn.Linear:
                ours = type(module).__module__.startswith(_PACKAGE)
                names = [name for name in namespace if name not in _UNREAD and not (ours and name[0] == "_")]
                self._note(namespace, names, not _is_of_library(type(module)))
        #: Buffers and other tensors, except the statistics of inputs, which the kernels read.
        self._tensors: list[tuple[dict[str, Any], str, weakref.ref[Tensor], int]] = [
            (space, name, weakref.ref(tensor), _version(tensor))
            for module in self._modules
            if not isinstance(module, InputNorm)
            for space in (vars(module), module._buffers)
            for name, tensor in space.items()
            if isinstance(tensor, Tensor)
        ]
        self._functions: dict[types.FunctionType, None] = {}
        for kind in {kind for module in self._modules for kind in type(module).__mro__[:-1]} - {nn.Module}:
            self._read_class(kind)
        #: Reads of all such values of one namespace, and what they gave.
        self._reads: list[tuple[Callable[[Any], Any], Any, Any]] = [
            (read := itemgetter(*names), namespace, read(namespace))
            for namespace, names in self._noted.values()
            if names
        ]
        self._then = {
            key: [namespace[name] for name in names] for key, (namespace, names) in self._noted.items()
        }
        self._codes = list(map(_code, self._functions))
        self._hooks: list[Any] = [
            hooks
            for module in self._modules
            if module is not network
            for hooks in (
                *(module._forward_hooks, module._forward_pre_hooks),
                *(module._backward_hooks, module._backward_pre_hooks),
            )
        ]

    def has_changed(self) -> bool:
        """Return whether a module, a parameter, a class, an attribute, a tensor or a source has changed."""
        try:
            return not (
                list(map(type, self._modules)) == self._kinds
                and list(map(len, self._namespaces)) == self._sizes
                and self._children == self._children_then
                and self._identities() == self._parameters_then
                and list(map(_code, self._functions)) == self._codes
                and all(read(namespace) == then for read, namespace, then in self._reads)
                and all(_is_as_then(*noted) for noted in self._tensors)
                and all(_content(namespace[name]) == then for namespace, name, then in self._held)
            )
        except KeyError:  # an attribute is gone
            return True

    def changed_values(self) -> set[str]:
        """Return the names of the attributes and tensors that are others now."""
        plain = {
            name
            for namespace, names in self._noted.values()
            for name, then in zip(names, self._then[id(namespace)], strict=True)
            if namespace.get(name, self) != then
        }
        held = {name for space, name, then in self._held if _content(space.get(name, self)) != then}
        return plain | held | {noted[1] for noted in self._tensors if not _is_as_then(*noted)}

    def _identities(self) -> list[int]:
        return list(map(id, chain.from_iterable(map(dict.values, self._parameters))))

    def has_hooks(self) -> bool:
        """Return whether a module inside has hooks, which only torch runs."""
        return any(self._hooks)

    def _note(self, namespace: Any, names: list[str], of_user: bool = False) -> None:
        """Note plain values of a namespace; of one `of_user` also the content of other values."""
        known = self._noted.setdefault(id(namespace), (namespace, set()))[1]
        known.update(name for name in names if isinstance(namespace[name], _PLAIN))
        if of_user:
            self._held += [
                (namespace, name, _content(namespace[name])) for name in names if name not in known
            ]

    def _read_class(self, kind: type) -> None:
        """Note the methods of a class, and the functions that these call; of torch's own only `forward`."""
        ours = not kind.__module__.startswith("torch.")
        methods = {
            name: value
            for name, value in vars(kind).items()
            if isinstance(value, types.FunctionType) and (ours or name == "forward")
        }
        of_user = not _is_of_library(kind)
        self._note(
            kind.__dict__, [n for n in vars(kind) if n[:2] != "__"] if of_user else list(methods), of_user
        )
        for method in methods.values():
            inner: Any = method
            while isinstance(inner, types.FunctionType):  # a decorated one, too
                self._read_function(inner, follow=ours)
                inner = getattr(inner, "__wrapped__", None)

    def _read_function(self, function: types.FunctionType, follow: bool) -> None:
        """Note the source of a function, the globals that it reads, and the functions that it calls."""
        if function in self._functions:
            return
        self._functions[function] = None
        if not follow:
            return
        names, space = function.__code__.co_names, function.__globals__
        self._note(space, [name for name in names if name in space], not _is_of_library(function))
        for name in names:
            called = space.get(name)
            if isinstance(called, types.FunctionType):
                self._read_function(called, follow=called.__module__ == function.__module__)


def _is_of_library(definition: Any) -> bool:
    return str(definition.__module__).partition(".")[0] in _LIBRARIES


def _content(value: Any, depth: int = 0, left: list[int] | None = None) -> Any:
    """Return what a value holds, in a form to be compared with `==`.

    `left`: how many more parts are looked at, as its one item.
    """
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Tensor):
        return id(value), _version(value)
    left = [_MOST_ITEMS] if left is None else left
    if isinstance(value, np.ndarray | np.generic):
        return (value.shape, value.dtype, value.tobytes()) if value.size <= _MOST_ITEMS else id(value)
    is_container = isinstance(value, dict | list | tuple | set | frozenset)
    is_module = isinstance(value, nn.Module | types.ModuleType)  # submodules are looked at anyway
    if not is_container and (is_module or not hasattr(value, "__dict__") or _is_of_library(type(value))):
        return id(value)
    parts = value if is_container else vars(value)
    left[0] -= len(parts)
    if depth >= _MOST_DEPTH or left[0] < 0:
        return id(value), len(parts)
    if isinstance(parts, dict):
        return {name: _content(part, depth + 1, left) for name, part in dict(parts).items()}
    return set(parts) if isinstance(parts, set | frozenset) else [_content(v, depth + 1, left) for v in parts]


def _is_as_then(space: dict[str, Any], name: str, then: weakref.ref[Tensor], version: int) -> bool:
    """Return whether a namespace still has this tensor, with these numbers."""
    tensor = space.get(name)
    return tensor is not None and tensor is then() and _version(tensor) == version


def _version(tensor: Any) -> int:
    """Return how often a tensor was written in place."""
    return 0 if tensor.is_inference() else int(tensor._version)


def has_dropout(module: nn.Module) -> bool:
    """Return True if a part drops numbers in training, by an option or because it was put there."""
    return any(
        part.p > 0 if isinstance(part, _DropoutNd) else bool(getattr(part, "dropout", 0.0))
        for part in module.modules()
    )
