"""For every test."""

from __future__ import annotations

import importlib.util
import os
import signal

# Torch's threads spin while they wait: on a busy machine two are many times slower than one for small nets.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# pytest imports the checkout's __init__.py too, by the folder's name; the first to come registers the games.
import entitize  # noqa: F401
from hypothesis import HealthCheck, settings

# Machines are slow at times; no test is about that.
settings.register_profile("entitize", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("entitize")

# A shell starts what runs in the background without Ctrl-C, and tests that press it would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# entity_gym needs ragged-buffer, of which there is no build for Python 3.12.
collect_ignore = ["adapters/test_entity_gym_from.py", "adapters/test_entity_gym_to.py"]
if importlib.util.find_spec("ragged_buffer") is not None:
    collect_ignore.clear()
