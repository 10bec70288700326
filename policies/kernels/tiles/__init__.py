"""The tile library: what all stages of the network are made of.

simd.py             a vector of 16 float32 in a local variable: load, store, arithmetic
functions.py        exp, log, erf of such vectors
exponential.py      2 ** x, cheaper than `exp`
matrices.py         Line, Tile and Strided: matrices inside flat arrays
matrix_products.py  products of them
linear_maps.py      y = W x + b, forward and backward
tile_kernels.py     layer norm, GELU, copies between rows and tiles
step_tiles.py       which steps make up a tile
actor_tiles.py      the rows of some actors as a tile, and gradients back to them
"""
