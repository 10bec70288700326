"""Entity batches as networks read them; no torch."""
