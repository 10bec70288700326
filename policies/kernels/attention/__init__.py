"""Attention within steps of different lengths.

tile_attention.py      the mathematics, and all steps of a tile
score_kernels.py       the innermost loops: softmax beside the products
short_attention.py     several short steps in one vector, for processors with AVX-512
relative_attention.py  the same as tile_attention with keys and values per offset between two rows
line_kernels.py        its innermost loops: lines of a table to vectors and back
"""
