"""Training against learned opponents."""
