"""The queue that runs experiments."""
