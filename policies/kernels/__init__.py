"""RogueNet in Numba kernels, forward and backward; no torch, no PPO.

The definition of what is computed is `policies/rogue_net`, in torch. These kernels compute the same in
float32 on the CPU, with gradients derived by hand; the tests compare the two.

Start with `fused_network.py`, and read from there down:

    fused_network.py        act, values, evaluate and gradients of a whole network, in plain Python
      fused_encoder.py        embedding and blocks of one encoder
        embedding_kernels.py    features -> rows
        block_kernels.py        rows -> rows, layer by layer
        folding.py              layer norms as parts of the maps behind them
          attention/              self-attention within each step, with relative positions or without
          relative_gate.py        factors of relative values
        relative_parameters.py  where rows are, and the tables that relative positions select from
      fused_heads.py          an action head of each kind
        heads/                  choices, selected entities, real numbers; and the value head
    parameter_layout.py     where each parameter lies in one flat array
    gather_kernels.py       many arrays into one; rows of entities by index
    parallel.py             threads and scratch memory
    tiles/                  what all of these are made of: vectors, matrices, products, layer norm, GELU

**The way of a batch.** `Inputs.prepare` gives the features of each entity type and the layout of rows: B
steps with N rows in all, those of step b from offsets[b] to offsets[b + 1]. Steps are split over threads
(`over_sequences`); a thread takes its steps through these stages:

    forward   embed_types -> blocks_forward -> evaluate_values, evaluate_choices / _selections / _numbers
    backward  values_backward, choices_ / selections_ / numbers_backward -> blocks_backward
              -> embed_types_backward -> unfold (layer norms' parameters, once for all threads)

Between stages there are flat arrays of rows (N * d,), row by row. Forward stages write rows; backward stages
add to gradients of rows, and to gradients `g` of all parameters, of which each thread has its own.

**Tiles.** Inside a stage some 64 to 256 rows at a time become a tile in scratch memory `s`: line m has
feature m, column t has row t of the tile.

                  row 0  row 1  …  row 15 │ row 16 …            lines are `stride` floats apart;
    feature 0       .      .          .   │   .                  one vector is 16 neighbouring rows
    feature 1       .      .          .   │   .

So what a network does per row (layer norm, biases, activations) needs no work across lanes, and a matrix
product is one weight times 16 rows. Kernels take parts of flat arrays as small NamedTuples: `Line`,
`Tile`, `Strided` (`tiles/matrices.py`), `Linear` (`tiles/linear_maps.py`). Where a stage's tiles lie in
`s` is written down in a NamedTuple of places, such as `BlockTiles` or `ChoicePlaces`.

**How to add an action head.** Write `heads/x_kernels.py` like `heads/choice_kernels.py`: formulas of forward
and backward in the docstring; a NamedTuple for the head (its place in `w`) and one for the actors of a batch;
kernels to draw, to evaluate and to go backward. Then write a subclass of `FusedHead` in `fused_heads.py`,
return it from `fused_head`, and list the kind of action in `engines/engine_limits.py`. Where else a head has
a part: docs/how-it-is-built.md.

**How to add something to a block.** Name its parameters in `BlockParameters`, in the order in which
`FusedEncoder` adds them to the layout; give its activations lines in `BlockTiles`; compute them in
`block_forward` and undo them, in reverse order, in `block_backward`. `_keep` and `_restore` decide what
is kept for backward and what is computed again.

Numba compiles a kernel once, when it is first called, and keeps the machine code on disk
(`ragged/compiled.py`). Other kernels call it there (`ragged/linking.py`); functions that are `inlined` become
part of the code of each of their callers.
"""
