"""RogueNet on batches of fixed shapes, for GPUs: few launches, one transfer in, one out, and CUDA graphs.

A batch is laid out in arrays whose sizes are rounded up to a capacity, so that shapes repeat (`capacity`,
`layout`); all of them lie in one block of bytes (`packing`) that goes to the device in one transfer
(`staging`). What is computed there (`network`, `heads`, `tile_attention`) depends on no number that only the
device knows, so that it can be captured once per capacity and replayed (`graphs`). Nothing of it needs a GPU:
on the CPU the same functions run without graphs, which is how they are tested.
"""
