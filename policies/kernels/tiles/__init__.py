"""The tile library: matrix products, norms and activations on tiles of rows."""
