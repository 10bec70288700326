"""Run folders, checkpoints, trainer state."""
