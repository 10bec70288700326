"""Numba kernels from the engine's records to features and masks."""
