"""RogueNet in Numba kernels; no torch, no PPO."""
