"""The error of everything that reads a dataset."""

from __future__ import annotations


class DatasetError(ValueError):
    """A dataset is missing, damaged, of another version, or does not fit what it is used for."""
