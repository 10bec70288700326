"""Modules by entity type or action name, whatever the name."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from ..kernels.parameter_layout import escaped

#: Attributes of `NamedModules` besides those of `nn.ModuleDict`.
_OWN = ("names", "_keys")


def module_key(name: str) -> str:
    """`name` where torch allows it as a module's name; otherwise with dots escaped or marked with a %.

    torch refuses dots, the empty string and the names of its own attributes ("type", "train", "values", ...).
    """
    key = escaped(name)
    return f"{key}%" if not key or key in _OWN or hasattr(nn.ModuleDict(), key) else key


class NamedModules(nn.ModuleDict):
    """A `ModuleDict` that takes any names."""

    def __init__(self, modules: Mapping[str, nn.Module]) -> None:
        super().__init__({module_key(name): module for name, module in modules.items()})
        self.names: tuple[str, ...] = tuple(modules)
        self._keys = {name: module_key(name) for name in modules}

    def __getitem__(self, name: str) -> nn.Module:
        return self._modules[self._keys[name]]
