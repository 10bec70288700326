"""Namespaces of the package: `import` finds them by their public names."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

import entitize as ez
import pytest

NAMESPACES = [name for name in ez.__all__ if isinstance(getattr(ez, name), ModuleType)]


@pytest.mark.parametrize("name", NAMESPACES)
def test_a_namespace_is_imported_as_what_it_is(name: str) -> None:
    found = importlib.import_module(f"entitize.{name}")
    assert found is getattr(ez, name) is sys.modules[found.__name__]
    assert found.__spec__ is not None and found.__spec__.name == found.__name__
    assert importlib.import_module(f"entitize.{name}") is found


def test_a_module_below_a_namespace_is_loaded_once() -> None:
    below = importlib.import_module("entitize.sb3.buffer")
    assert below is importlib.import_module("entitize.trainers.sb3.buffer")
    assert below.RaggedRolloutBuffer is ez.sb3.RaggedRolloutBuffer
    assert importlib.util.find_spec("entitize.vector.nothing_of_this_name") is None


@pytest.mark.parametrize("name", ["PPO", "record", "export_onnx", "make", "Obs", "nothing_of_this_name"])
def test_what_is_no_module_is_not_imported(name: str) -> None:
    assert importlib.util.find_spec(f"entitize.{name}") is None
    with pytest.raises(ModuleNotFoundError, match=f"entitize.{name}"):
        importlib.import_module(f"entitize.{name}")
