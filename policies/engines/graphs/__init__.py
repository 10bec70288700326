"""RogueNet on batches of fixed shapes, for GPUs: few launches, one transfer in, one out, and CUDA graphs.

A batch is laid out in arrays whose sizes are rounded up to a capacity, so that shapes repeat (`capacity`,
`static_tiles`); all arrays lie in one block of bytes (`packing`), which goes to the device in one transfer
(`staging`). The computation there (`static_network`, `static_heads`, `static_attention`) depends on no number
that only the device knows, so it can be captured once per capacity and replayed (`captured_graphs`). None of
it needs a GPU: on the CPU the same functions run without graphs, and are tested that way.
"""
