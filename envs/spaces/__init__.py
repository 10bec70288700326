"""Spaces of entity environments."""
