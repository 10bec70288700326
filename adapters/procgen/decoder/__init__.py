"""Procgen's state dumps decoded into entity batches."""
