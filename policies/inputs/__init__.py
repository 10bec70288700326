"""Entity batches as input of networks; without torch."""
