"""Experiments on Procgen."""
