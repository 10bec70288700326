"""Experiments on μRTS."""
