"""Trained networks that act with NumPy and Numba alone: no torch, and microseconds per decision."""

import importlib.util

if importlib.util.find_spec("safetensors") is None:
    raise ModuleNotFoundError(
        "load_agent needs safetensors: pip install 'entitize[runtime]'", name="safetensors"
    )

from .agent import Agent
from .loading import load_agent

__all__ = ["Agent", "load_agent"]
