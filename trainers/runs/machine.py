"""Facts about the machine that affect speed."""

from __future__ import annotations

import platform
from pathlib import Path


def processor() -> str:
    """The model where the system tells it, else the family."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
