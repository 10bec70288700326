"""For every test."""

from __future__ import annotations

import os

# First of all: pytest later imports the checkout's __init__.py once more, by the name of its folder, and the
# games are registered by whoever comes first.
import entitize  # noqa: F401

# Torch's threads spin while they wait: on a busy machine two are many times slower than one for small nets.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# pytest imports the checkout's __init__.py too, under the folder's name. Whoever is first registers the games.
import entitize  # noqa: E402, F401
