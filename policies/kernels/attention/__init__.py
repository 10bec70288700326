"""Attention within ragged sequences."""
