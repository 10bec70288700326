"""Embedding and blocks on plain arrays, with their gradients: what the fused engine runs; no torch.

Shape alphabet: B steps, N rows, D width, P numbers of all parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..inputs.prepare import Prepared
from ..inputs.rows import Rows, plain
from ..rogue_net.config import RogueNetConfig
from .attention.tile_attention import tile_capacity
from .embedding_kernels import COLUMNS, embed_types, embed_types_backward, embedding_scratch
from .flat import Layout
from .fused_kernels import (
    backward_scratch,
    blocks_backward,
    blocks_forward,
    fold,
    forward_scratch,
    kept_size,
    unfold,
)
from .gather_kernels import address
from .parallel import recycled, workspace

Floats = NDArray[np.float32]


@dataclass(eq=False)
class Table:
    """What the embedding kernels get to know of the features of a batch."""

    rows: NDArray[np.int64]  # (T, COLUMNS)
    offsets: list[NDArray[np.int64]]  # per type (B + 1,): where its entities of each step start
    values: list[Floats]  # keeps the memory alive whose addresses stand in `rows`
    destination: NDArray[np.int64]

    def of_steps(self, first: int, last: int) -> NDArray[np.int64]:
        """The table (T * COLUMNS,) for the entities of steps first to last."""
        if first == 0 and last == len(self.offsets[0]) - 1:
            return self.rows.reshape(-1)
        part = self.rows.copy()
        for row, offsets in zip(part, self.offsets, strict=True):
            row[4], row[5] = offsets[first], offsets[last]
        return part.reshape(-1)


class FusedEncoder:
    """Runs the kernels for one embedding and its blocks; the parameters are parts of a flat array."""

    def __init__(
        self, layout: Layout, place: str, features: Mapping[str, tuple[str, ...]], settings: RogueNetConfig
    ) -> None:
        """Adds its parameters to `layout`; `place`: "policy_net.", say."""
        d = self.d = settings.d_model
        self.n_head, self.n_layer = settings.n_head, settings.n_layer
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
        for i in range(self.n_layer):
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

    def fold(self, w: Floats) -> Floats:
        """The blocks' parameters with the layer norms' folded into the maps behind them."""
        own = w[self.blocks_place : self._end]
        folded = own.copy()
        fold(own, folded, self.n_layer, self.d)
        return folded

    def unfold(self, w: Floats, g: Floats) -> None:
        """Gradients of folded parameters to those of the parameters, in place."""
        unfold(w[self.blocks_place : self._end], g[self.blocks_place : self._end], self.n_layer, self.d)

    def table(self, prepared: Prepared) -> Table:
        """What the kernels need to know of a batch's features."""
        rows: list[int] = []
        values, start = [], 0
        for name, own in prepared.features.items():
            own = plain(own)
            count, features = own.shape
            rows += address(own), features, self._types[name], start, 0, count
            values.append(own)
            start += count
        table = np.array(rows, np.int64).reshape(-1, COLUMNS)
        return Table(table, list(prepared.offsets.values()), values, prepared.destination)

    def embed(self, table: Table, w: Floats, out: Floats, first: int, last: int) -> None:
        """Embed the entities of steps first to last into `out` (N * D,)."""
        if len(table.rows):
            scratch = workspace(embedding_scratch(table.rows, self.d))
            embed_types(table.of_steps(first, last), self.d, w, table.destination, out, scratch)

    def embed_backward(
        self, table: Table, w: Floats, d_out: Floats, g: Floats, first: int, last: int
    ) -> None:
        """Add the gradients of the embedding's parameters, from those of its rows (N * D,), to `g`."""
        if len(table.rows):
            scratch = workspace(embedding_scratch(table.rows, self.d))
            part = table.of_steps(first, last)
            embed_types_backward(part, self.d, w, table.destination, d_out, g, scratch)

    def kept(self, x: Floats) -> Floats:
        """Memory for what `blocks` keeps of a batch with embedded rows `x` for `blocks_backward`."""
        return recycled(kept_size(len(x), self.n_layer, self.d, self.n_head))

    def blocks(
        self, x: Floats, rows: Rows, folded: Floats, out: Floats, kept: Floats, first: int, last: int
    ) -> None:
        """Embedded rows (N * D,) through all blocks into `out` (N * D,), those of steps first to last.

        `kept`: see `kept`; empty where no backward follows.
        """
        scratch = workspace(forward_scratch(tile_capacity(rows.longest, self.d), self.d, self.n_head))
        blocks_forward(
            x, out, kept, folded, rows.offsets, first, last, self._tile, self.n_layer, self.d, self.n_head,
            scratch,
        )  # fmt: skip

    def blocks_backward(
        self, x: Floats, kept: Floats, rows: Rows, folded: Floats, d_out: Floats, d_x: Floats, g: Floats,
        first: int, last: int,
    ) -> None:  # fmt: skip
        """Gradients of the embedded rows to `d_x` (N * D,), which `d_out` may be; of folded parameters added
        to `g`."""
        scratch = workspace(backward_scratch(tile_capacity(rows.longest, self.d), self.d, self.n_head))
        blocks_backward(
            x, kept, d_out, d_x, folded, g[self.blocks_place : self._end], rows.offsets, first, last,
            self._tile, self.n_layer, self.d, self.n_head, scratch,
        )  # fmt: skip
