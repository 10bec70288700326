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

#: Those of `Policy`.
_MEMBERS = (
    *("act", "value", "evaluate", "update_normalization"),
    *("observation_space", "action_space", "config"),
)


def make_own_network(name: str, space: EntitySpace, options: Mapping[str, Any]) -> Any:
    """Make a new network of the class `name` for `space`, by a call with the two spaces and the options.

    Raises:
        UserError: there is no such class, or its constructor raised (the message has the place), or it is no
            `Policy`.
    """
    kind = find_own_class(name)
    with _of_its_code(name):
        network = kind(space, space.actions, **options)
    if missing := [member for member in _MEMBERS if not hasattr(network, member)]:
        raise UserError(f"network {name}: expected the members of entitize.Policy, got none of {missing}")
    return network


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
            make the network is to run its code. A file that can't be read names none.
    """
    run = run_of(path)
    if is_card(run) or not (run / RUN_CONFIG).is_file():
        return None
    try:
        data = read_yaml(run / RUN_CONFIG)
    except UserError:
        return None
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
