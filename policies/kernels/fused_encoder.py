"""Embedding and blocks on plain arrays, with their gradients; no torch.

Shape alphabet: B steps, N rows, D width, P numbers of all parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
    kept_size,
)
from .embedding_kernels import TypeTable, embed_types, embed_types_backward, embedding_scratch
from .folding import fold, unfold
from .gather_kernels import address
from .parallel import recycled, workspace
from .parameter_layout import Layout
from .relative_parameters import RelativeParameters
from .tiles.step_tiles import tile_capacity

Floats = NDArray[np.float32]
NOTHING = np.zeros(0, np.float32)


@dataclass(eq=False)
class EncoderRun:
    """A batch in an encoder: its rows, embedded and after the blocks. Methods do the steps first to last."""

    encoder: FusedEncoder
    w: Floats  # (P,): all parameters
    folded: Floats  # those of the blocks, see `FusedEncoder.fold`
    rows: RowLayout  # of the blocks
    types: NDArray[np.int64]  # (6, T): a `TypeTable` of all entities
    values: list[Floats]  # keeps the memory alive whose addresses stand in `types`
    prepared: Prepared
    embedded: Floats  # (N * D,)
    out: Floats  # (N * D,)
    kept: Floats  # what the blocks keep for their backward; empty where none follows
    relative: tuple[Any, ...] | None  # the fields of `RelativeTables`

    def embed(self, first: int, last: int, target: Floats | None = None) -> None:
        """Embed the entities into `embedded`, or into `target`."""
        if self.values:
            e = self.encoder
            out = self.embedded if target is None else target
            scratch = workspace(e.embedding_scratch)
            embed_types(self._types(first, last), e.d, self.w, self.prepared.destination, out, scratch)

    def embed_backward(self, d_x: Floats, g: Floats, first: int, last: int) -> None:
        """Add the gradients of the embedding's parameters, from those of its rows (N * D,), to `g`."""
        if self.values:
            e, types = self.encoder, self._types(first, last)
            scratch = workspace(e.embedding_scratch)
            embed_types_backward(types, e.d, self.w, self.prepared.destination, d_x, g, scratch)

    def blocks(self, first: int, last: int) -> None:
        """Take the embedded rows through all blocks into `out`."""
        shape, steps, scratch = self._block_arguments(first, last)
        blocks_forward(self.folded, shape, self.embedded, self.out, self.kept, steps, scratch, self.relative)

    def blocks_backward(self, d_out: Floats, d_x: Floats, g: Floats, first: int, last: int) -> None:
        """Write the gradients of the embedded rows to `d_x` (N * D,), which `d_out` may be; add those of
        folded parameters to `g`."""
        shape, steps, scratch = self._block_arguments(first, last)
        own = g[self.encoder.blocks]
        relative = self.encoder.relative
        tables = None if relative is None else relative.zeros()
        blocks_backward(
            self.folded, shape, self.embedded, self.kept, d_out, d_x, own, steps, scratch, self.relative,
            tables,
        )  # fmt: skip
        if relative is not None and tables is not None:
            relative.add_gradients(own, *tables)

    def _block_arguments(self, first: int, last: int) -> tuple[tuple[int, ...], tuple[Any, ...], Floats]:
        """Return the fields of `BlocksShape` and `StepRange` (tuples enter kernels faster than NamedTuples),
        and scratch memory."""
        e = self.encoder
        capacity = tile_capacity(self.rows.longest, e.d)
        scratch = workspace(block_scratch(e.shape, capacity, self.relative is not None))
        return tuple(e.shape), (self.rows.offsets, first, last, tile_capacity(0, e.d)), scratch

    def _types(self, first: int, last: int) -> NDArray[np.int64]:
        """Return the table for the entities of steps first to last."""
        if first == 0 and last == len(self.rows):
            return self.types
        types, offsets = self.types.copy(), self.prepared.offsets.values()
        types[TypeTable._fields.index("first")] = [own[first] for own in offsets]
        types[TypeTable._fields.index("last")] = [own[last] for own in offsets]
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
        start = layout.size
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
        #: Where the places of rows are read, and the tables are, behind the blocks.
        self.relative: RelativeParameters | None = None
        if settings.relative_position is not None:
            self.relative = RelativeParameters(
                layout, place, features, settings.relative_position, self.shape, start
            )
        #: Where the blocks' parameters are.
        self.blocks = slice(start, layout.size)
        self.embedding_scratch = embedding_scratch([len(names) for names in features.values()], d)

    def fold(self, w: Floats) -> Floats:
        """Return the blocks' parameters with the layer norms' folded into the maps that follow them."""
        folded = w[self.blocks].copy()
        fold(w[self.blocks], folded, self.shape.layers, self.d)
        return folded

    def unfold(self, w: Floats, g: Floats) -> None:
        """Turn gradients of folded parameters into those of the parameters, in place."""
        unfold(w[self.blocks], g[self.blocks], self.shape.layers, self.d)

    def start(
        self, prepared: Prepared, rows: RowLayout, w: Floats, folded: Floats, learns: bool
    ) -> EncoderRun:
        """Allocate memory for a batch, whose blocks run over `rows`; `learns`: a backward follows."""
        table: list[tuple[int, ...]] = []
        values, start = [], 0
        for name, own in prepared.features.items():
            own = plain(own)
            count, features = own.shape
            table.append((address(own), features, self._types[name], start, 0, count))
            values.append(own)
            start += count
        types = np.array(table, np.int64).reshape(-1, len(TypeTable._fields)).T.copy()
        size = rows.num_rows * self.d
        kept = recycled(kept_size(size, self.shape)) if learns else NOTHING
        relative = None
        if self.relative is not None:
            relative = self.relative.tables(folded, prepared, rows.num_rows)
        return EncoderRun(
            self, w, folded, rows, types, values, prepared, recycled(size), recycled(size), kept, relative
        )
