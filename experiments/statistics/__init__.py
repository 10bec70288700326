"""Aggregates, intervals and learning curves."""
