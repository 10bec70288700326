"""Action heads and the value head."""
