"""Networks of the user, which configurations name "module:Class"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium
from torch import nn

from ..adapters.module_names import find_attribute
from ..envs import EntitySpace
from ..policies import RUN_CONFIG
from .config import is_card, run_of
from .config_file import read_yaml
from .error_place import where_raised
from .errors import UserError
from .network_options import is_own


def make_own_network(name: str, space: EntitySpace, options: Mapping[str, Any]) -> Any:
    """Make a new network of the class `name` for `space`, by a call with the two spaces and the options.

    Raises:
        UserError: there is no such class, or its constructor raised; the message has the place.
    """
    network = find_own_class(name)
    with _of_its_code(name):
        return network(space, space.actions, **options)


def find_own_class(name: str) -> type[nn.Module]:
    """Import the class "module:Class" of a network; the module may lie in the current folder.

    Raises:
        UserError: there is no such module or class, or the module raised; the message has the place.
    """
    module, _, attribute = name.partition(":")
    with _of_its_code(name):
        found = find_attribute(module, attribute)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise UserError(f"network {name}: expected a class of networks, such as of RogueNet, got {found!r}")
    return found


def own_name_of(path: Path) -> str | None:
    """Return the name "module:Class" that the configuration of a run gives its network; None: it gives none.

    Args:
        path: the run folder, or one of its checkpoints. A card names none: it may come from others, and to
            make the network is to run its code.
    """
    file = run_of(path) / RUN_CONFIG
    if not file.is_file() or is_card(path):
        return None
    data = read_yaml(file)
    name = data.get("network") if isinstance(data, Mapping) else None
    return name if isinstance(name, str) and is_own(name) else None


@contextmanager
def _of_its_code(name: str) -> Iterator[None]:
    """Raise what the user's code raises as `UserError`, with the place."""
    try:
        yield
    except gymnasium.error.NameNotFound as error:
        raise UserError(f"network: {error}") from error
    except Exception as error:
        text = f"network {name}: {type(error).__name__}: {error}"
        raise UserError("\n".join(filter(None, [text, where_raised(error)]))) from error
