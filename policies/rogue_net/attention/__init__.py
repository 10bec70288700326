"""Attention within each step; `paths` tells the ways there are."""
