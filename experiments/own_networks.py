"""Networks of the user, which configurations name "module:Class"."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from ..envs import EntitySpace
from ..policies import RUN_CONFIG, check_members
from .config import is_card, run_of
from .config_file import read_yaml
from .errors import UserError
from .network_options import is_own
from .user_code import find_named, user_code


def make_own_network(name: str, space: EntitySpace, options: Mapping[str, Any]) -> Any:
    """Make a new network of the class `name` for `space`, by a call with the two spaces and the options.

    Raises:
        UserError: there is no such class, or its constructor raised (the message has the place), or it is no
            `Policy`.
    """
    kind = find_own_class(name)
    with user_code(f"network {name}"):
        network = kind(space, space.actions, **options)
    try:
        check_members(f"network {name}", network)
    except TypeError as error:
        raise UserError(str(error)) from error
    return network


def find_own_class(name: str) -> type[nn.Module]:
    """Import the class "module:Class" of a network; the module may lie in the current folder.

    Raises:
        UserError: there is no such module or class, or the module raised; the message has the place.
    """
    found = find_named(f"network {name}", name)
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
