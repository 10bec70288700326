"""Vector environments."""
