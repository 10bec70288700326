"""Public names that load their modules at first use (floor 0: the standard library only).

A package lists its public names once, as imports under `if TYPE_CHECKING`, where type checkers and editors
read them. `attach` reads the same imports and makes the package's `__getattr__` from them:

    if TYPE_CHECKING:
        from .array import RaggedArray as RaggedArray
    else:
        __getattr__, __dir__, __all__ = attach(__name__)
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

#: Third-party package -> the extra of this package that installs it.
_EXTRAS = {
    "PIL": "train",
    "ale_py": "atari",
    "griddly": "griddly",
    "jpype": "microrts",
    "matplotlib": "train",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "optuna": "search",
    "pettingzoo": "pettingzoo",
    "procgen": "procgen",
    "pyarrow": "datasets",
    "ray": "ray",
    "rich": "train",
    "safetensors": "train",
    "stable_baselines3": "sb3",
    "tensorboard": "train",
    "torch": "train",
    "vizdoom": "vizdoom",
    "wandb": "wandb",
    "websockets": "serve",
}


#: Public name -> its extra, where that is another than the one of the first package that is missing.
_EXTRAS_OF_NAMES = {
    "entitize.load_agent": "runtime",
    "entitize.runtime": "runtime",
    "entitize.sb3": "sb3",
    "entitize serve": "runtime,serve",
    "entitize.trainers.distributed.RayRollouts": "ray",
}


def attach(
    package: str, moved: Mapping[str, str] | None = None, renamed: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose imports stand under `TYPE_CHECKING`.

    Args:
        package: the package's `__name__`.
        moved: namespace -> names in it, separated by spaces, that were once names of the package itself.
            Using one of them there issues a DeprecationWarning.
        renamed: former name -> today's name in the package, or in another one ("entitize.make_vec"); with a
            DeprecationWarning as well.
    """
    homes = {name: (module, original) for name, module, original in _typing_imports(package)}
    former = {name: namespace for namespace, names in (moved or {}).items() for name in names.split()}

    def __getattr__(name: str) -> Any:
        if name in former:
            new = f"{package}.{former[name]}.{name}"
            warnings.warn(f"{package}.{name} has moved: use {new}", DeprecationWarning, stacklevel=2)
            with warnings.catch_warnings():  # one warning is enough for a name that was also renamed
                warnings.simplefilter("ignore", DeprecationWarning)
                return getattr(getattr(sys.modules[package], former[name]), name)
        if renamed and name in renamed:
            message = f"{package}: {name} has been renamed: use {renamed[name]}"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            home, _, new_name = renamed[name].rpartition(".")
            return getattr(sys.modules[home or package], new_name)
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = _load(*homes[name])
        except ModuleNotFoundError as error:
            raise needs_extra(f"{package}.{name}", error) from error
        setattr(sys.modules[package], name, value)
        return value

    names = sorted(homes)
    return __getattr__, lambda: names, names


def make_importable(package: str) -> None:
    """Let `import` find the public modules of `package` that are elsewhere: `from entitize.sb3 import …`."""
    if not any(isinstance(finder, _Namespaces) and finder.package == package for finder in sys.meta_path):
        sys.meta_path.insert(0, _Namespaces(package))


class _Namespaces(MetaPathFinder):
    """Of `sys.meta_path`. It comes first: files below a namespace would be loaded a second time."""

    def __init__(self, package: str) -> None:
        self.package = package
        self._homes = {name: (home, original) for name, home, original in _typing_imports(package)}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        parent, _, name = fullname.rpartition(".")
        if parent.partition(".")[0] != self.package:
            return None
        package = sys.modules[parent].__name__
        if package != parent:  # below a namespace
            home, original = package, name
        elif parent == self.package and name in self._homes and not PathFinder.find_spec(fullname, path):
            home, original = self._homes[name]
        else:
            return None
        place = f"{home}.{original}"
        return ModuleSpec(fullname, _Elsewhere(place)) if _is_module(home, place) else None


def _is_module(home: str, place: str) -> bool:
    """Return True if `place` is a module in the package `home`; False if it is another name in it."""
    spec = importlib.util.find_spec(home)
    is_package = spec is not None and spec.submodule_search_locations is not None
    return is_package and importlib.util.find_spec(place) is not None


class _Elsewhere(Loader):
    """Loads a module of another name."""

    def __init__(self, place: str) -> None:
        self.place = place

    def exec_module(self, module: ModuleType) -> None:
        """Put the module itself in the place of the empty one, which `import` takes from there."""
        sys.modules[module.__name__] = importlib.import_module(self.place)


def needs_extra(what: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return `error` as one that names the extra to install, or as it is where no extra has the package."""
    missing = (error.name or "").partition(".")[0]
    if missing not in _EXTRAS:
        return error
    extra = _EXTRAS_OF_NAMES.get(what, _EXTRAS[missing])
    return ModuleNotFoundError(
        f"{what} needs the package {missing}: pip install 'entitize[{extra}]'", name=error.name
    )


def _load(module: str, name: str) -> Any:
    """Return the attribute or submodule `name` of `module`."""
    home = importlib.import_module(module)
    if name in vars(home):
        return vars(home)[name]
    if hasattr(home, "__path__") and importlib.util.find_spec(f"{module}.{name}") is not None:
        return importlib.import_module(f"{module}.{name}")
    return getattr(home, name)


def _typing_imports(package: str) -> Iterator[tuple[str, str, str]]:
    """Yield (public name, module, name in that module) of the imports under `if TYPE_CHECKING`."""
    spec = sys.modules[package].__spec__
    source = spec.loader.get_source(package) if spec and spec.loader else None  # type: ignore[attr-defined]
    if source is None:
        raise ImportError(f"{package}: its source file is needed to find its public names")
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            for node in statement.body:
                if isinstance(node, ast.ImportFrom):
                    home = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                    for alias in node.names:
                        yield alias.asname or alias.name, home.rstrip("."), alias.name
