"""For every test."""

from __future__ import annotations

import os

# Torch's threads spin while they wait: on a busy machine two are many times slower than one for small nets.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# pytest imports the checkout's __init__.py too, by the folder's name; the first to come registers the games.
import entitize  # noqa: F401
