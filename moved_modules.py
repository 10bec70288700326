"""Modules of 0.1 that have moved: pickles that name them, as those in zip files of Stable-Baselines3 do, load
(floor 0: the standard library only)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_PACKAGE = __package__ or "entitize"

#: Of each module whose classes are in such files, where they are now.
_MOVED = {
    "envs.action_spaces": ("envs.actions", "envs.actions.array_checks"),
    "envs.batch_spaces": ("envs.batch.batch_spaces",),
    "envs.continuous": ("envs.actions",),
    "envs.multi_categorical": ("envs.actions",),
    "envs.packed_spaces": ("envs.batch.packed_spaces",),
    "envs.padded_space": ("envs.batch.padding",),
    "envs.padding": ("envs.batch.padding",),
    "policies.sb3": ("trainers.sb3",),
    "policies.sb3.extractor": ("trainers.sb3.extractor",),
    "policies.sb3.policy": ("trainers.sb3.sb3_policy",),
}


class MovedModules(MetaPathFinder):
    """Finds modules of 0.1 for `sys.meta_path`, which asks it when a module does not exist."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module that has moved; None: it has not."""
        package, _, rest = fullname.partition(".")
        if package != _PACKAGE or rest not in _MOVED:
            return None
        return ModuleSpec(fullname, _Alias(), is_package=True)


class _Alias(Loader):
    """Loads a module that takes its names from where they are now."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        alias = ModuleType(spec.name)
        for place in _MOVED[spec.name.partition(".")[2]]:
            module = import_module(f"{_PACKAGE}.{place}")
            vars(alias).update({n: getattr(module, n) for n in dir(module) if not n.startswith("__")})
        return alias

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do."""


def register() -> None:
    """Let `import` find what has moved."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
