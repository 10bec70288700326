"""Embedding and blocks on plain arrays, with their gradients; no torch.

Shape alphabet: B steps, N rows, D width, P numbers of all parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..inputs.prepare import Prepared
from ..inputs.rows import RowLayout, plain
from ..rogue_net.config import RogueNetConfig
from .block_kernels import (
    BlocksShape,
    block_scratch,
    blocks_backward,
    blocks_forward,
    fold,
    kept_size,
    unfold,
)
from .embedding_kernels import TypeTable, embed_types, embed_types_backward, embedding_scratch
from .gather_kernels import address
from .parallel import recycled, workspace
from .parameter_layout import Layout
from .tiles.step_tiles import tile_capacity

Floats = NDArray[np.float32]


@dataclass(eq=False)
class EncoderTable:
    """The features of a batch, as the embedding kernels read them."""

    types: NDArray[np.int64]  # (6, T): a `TypeTable` of all entities
    offsets: list[NDArray[np.int64]]  # per type (B + 1,): where its entities of each step start
    values: list[Floats]  # keeps the memory alive whose addresses stand in `types`
    destination: NDArray[np.int64]

    def of_steps(self, first: int, last: int) -> NDArray[np.int64]:
        """Return the table for the entities of steps first to last."""
        if first == 0 and last == len(self.offsets[0]) - 1:
            return self.types
        types = self.types.copy()
        types[TypeTable._fields.index("first")] = [offsets[first] for offsets in self.offsets]
        types[TypeTable._fields.index("last")] = [offsets[last] for offsets in self.offsets]
        return types


class FusedEncoder:
    """Runs the kernels for one embedding and its blocks; the parameters are parts of a flat array."""

    def __init__(
        self, layout: Layout, place: str, features: Mapping[str, tuple[str, ...]], settings: RogueNetConfig
    ) -> None:
        """Add the parameters to `layout`; `place`: the module's prefix, such as "policy_net."."""
        d = self.d = settings.d_model
        #: The sizes of the blocks.
        self.shape = BlocksShape(settings.n_layer, d, settings.n_head)
        self._tile = tile_capacity(0, d)
        self._types: dict[str, int] = {}
        for name, names in features.items():
            size, types = len(names), f"{place}embedding.types"
            if size:
                start = layout.add("normalization", name, shift=(size,), scale=(size,))
                layout.add(types, name, linear__weight=(d, size), linear__bias=(d,))
                layout.add(types, name, norm__weight=(d,), norm__bias=(d,))
            else:
                start = layout.add(types, name, vector=(1, d))
            self._types[name] = start
        #: Where the blocks' parameters start.
        self.blocks_place = layout.size
        for i in range(self.shape.layers):
            layout.add(
                f"{place}backbone.blocks.{i}", None,
                ln1__weight=(d,), ln1__bias=(d,),
                attn__qkv__weight=(3 * d, d), attn__qkv__bias=(3 * d,),
                attn__proj__weight=(d, d), attn__proj__bias=(d,),
                ln2__weight=(d,), ln2__bias=(d,),
                mlp__0__weight=(4 * d, d), mlp__0__bias=(4 * d,),
                mlp__2__weight=(d, 4 * d), mlp__2__bias=(d,),
            )  # fmt: skip
        self._end = layout.size
        #: Features of each entity type.
        self.widths = [len(names) for names in features.values()]
        self._embedding_scratch = embedding_scratch(self.widths, d)

    def fold(self, w: Floats) -> Floats:
        """Return the blocks' parameters with the layer norms' folded into the maps that follow them."""
        own = w[self.blocks_place : self._end]
        folded = own.copy()
        fold(own, folded, self.shape.layers, self.d)
        return folded

    def unfold(self, w: Floats, g: Floats) -> None:
        """Turn gradients of folded parameters into those of the parameters, in place."""
        unfold(w[self.blocks_place : self._end], g[self.blocks_place : self._end], self.shape.layers, self.d)

    def table(self, prepared: Prepared) -> EncoderTable:
        """Return the features of a batch as the kernels read them."""
        rows: list[tuple[int, ...]] = []
        values, start = [], 0
        for name, own in prepared.features.items():
            own = plain(own)
            count, features = own.shape
            rows.append((address(own), features, self._types[name], start, 0, count))
            values.append(own)
            start += count
        types = np.array(rows, np.int64).reshape(-1, len(TypeTable._fields)).T.copy()
        return EncoderTable(types, list(prepared.offsets.values()), values, prepared.destination)

    def embed(self, table: EncoderTable, w: Floats, out: Floats, first: int, last: int) -> None:
        """Embed the entities of steps first to last into `out` (N * D,)."""
        if table.values:
            scratch = workspace(self._embedding_scratch)
            embed_types(table.of_steps(first, last), self.d, w, table.destination, out, scratch)

    def embed_backward(
        self, table: EncoderTable, w: Floats, d_out: Floats, g: Floats, first: int, last: int
    ) -> None:
        """Add the gradients of the embedding's parameters, from those of its rows (N * D,), to `g`."""
        if table.values:
            scratch = workspace(self._embedding_scratch)
            part = table.of_steps(first, last)
            embed_types_backward(part, self.d, w, table.destination, d_out, g, scratch)

    def kept(self, x: Floats) -> Floats:
        """Return memory for what `blocks` keeps of embedded rows `x` for `blocks_backward`."""
        return recycled(kept_size(len(x), self.shape))

    def blocks(
        self, x: Floats, rows: RowLayout, folded: Floats, out: Floats, kept: Floats, first: int, last: int
    ) -> None:
        """Take embedded rows `x` (N * D,) of steps first to last through all blocks into `out` (N * D,).

        `kept`: see `kept`; empty where no backward follows.
        """
        scratch = workspace(block_scratch(self.shape, tile_capacity(rows.longest, self.d)))
        # Tuples enter kernels faster than NamedTuples.
        steps = (rows.offsets, first, last, self._tile)
        blocks_forward(folded, tuple(self.shape), x, out, kept, steps, scratch)

    def blocks_backward(
        self, x: Floats, kept: Floats, rows: RowLayout, folded: Floats, d_out: Floats, d_x: Floats, g: Floats,
        first: int, last: int,
    ) -> None:  # fmt: skip
        """Write the gradients of the embedded rows to `d_x` (N * D,), which `d_out` may be; add those of
        folded parameters to `g`."""
        scratch = workspace(block_scratch(self.shape, tile_capacity(rows.longest, self.d)))
        steps = (rows.offsets, first, last, self._tile)
        g_blocks = g[self.blocks_place : self._end]
        blocks_backward(folded, tuple(self.shape), x, kept, d_out, d_x, g_blocks, steps, scratch)
