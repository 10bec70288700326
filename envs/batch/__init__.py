"""Observations of one step and of many: batches, buffers, packing and padding."""
