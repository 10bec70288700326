"""Gradient steps."""
