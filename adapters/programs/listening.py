"""`listen`: the environment of `entitize train --listen`."""

from __future__ import annotations

import logging

from ...envs.errors import positive_number
from ...envs.spaces import EntitySpace
from .protocol import Limits
from .server import ListeningVectorEnv

_log = logging.getLogger(__name__)


def listen(
    num_envs: int,
    address: str,
    max_wait: float | None = 0.1,
    space: EntitySpace | None = None,
    players: int = 1,
    silence: float = Limits.silence,
) -> ListeningVectorEnv:
    """Make a `ListeningVectorEnv`.

    Args:
        silence: seconds without a message, after which a game loses its connection.

    Raises:
        TypeError, ValueError: a number is out of its range; see also `ListeningVectorEnv`.
    """
    limits = Limits(silence=positive_number("listen: silence", silence))
    venv = ListeningVectorEnv(address, num_envs, space, max_wait=max_wait, limits=limits, players=players)
    if space is not None:  # otherwise it has said so before it waited for them
        _log.warning("listening on ws://%s", venv.address)
    return venv
