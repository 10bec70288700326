"""Attention within steps of different lengths, at the sizes of reinforcement learning: ways of torch.

    python benchmarks/attention.py [--rows 5 10] [--heads 8] [--precisions float32] [--json PATH]
    python benchmarks/attention.py --cpu      a tiny version on the CPU, to see that it works

Thousands of short sequences ("steps", 5 to 100 rows on average, skewed) with heads of width 8 to 32, forward
and backward from queries, keys and values that lie behind each other without padding, and back to that form:

- padded: `scaled_dot_product_attention` over all steps padded to the longest, with a mask;
- sorted: the same for groups of steps of similar length, without a mask where lengths are equal;
- nested: `scaled_dot_product_attention` over a jagged tensor (CUDA);
- varlen: `torch.nn.attention.varlen` (CUDA, bfloat16);
- flex: FlexAttention, compiled, with a mask of documents (CUDA, heads of at least 16, some of the lengths);
- tiles: whole steps in tiles of fixed widths, with a mask;
- kernel: the same, but tiles of 64 rows by a kernel in Triton (CUDA, float32, with ENTITIZE_TRITON=1).

`engine="graphs"` computes as "tiles" does, with ENTITIZE_TRITON=1 as "kernel".

Indices and masks that depend on the lengths alone are made before the clock starts: a network needs them
once for all layers. Every way is compared with a float64 loop over the steps first. Reported are medians in
µs, and the products' share of the device's peak (forward 4, backward 10 operations per pair of rows and
column; `--peak` in TFLOP/s for the precision measured). "-": the way can't do it; "fails": torch's error is
printed below the table.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from entitize.policies.engines.graphs import Tiles, static_attention
from entitize.policies.engines.graphs.static_attention import Tiling, masked_products
from entitize.policies.gpu_kernels import runs_triton
from entitize.policies.inputs import RowLayout
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from rows import script_parser, write_json

WAYS = ("padded", "sorted", "nested", "varlen", "flex", "tiles", "kernel")
#: TFLOP/s of dense products, from NVIDIA's data sheets.
PEAKS = {"H100": {"bfloat16": 989, "float32": 67}, "H200": {"bfloat16": 989, "float32": 67},
         "A100": {"bfloat16": 312, "float32": 19.5}}  # fmt: skip
#: Mean lengths for FlexAttention, which is compiled for each case.
FLEX_MEANS = (5, 20, 100)
#: Scores that the padded way may compute at most, as a multiple of the needed ones.
MAX_PADDING = 40.0

Attend = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Case:
    """Steps and heads."""

    mean: int  # rows of a step on average
    d_head: int
    n_head: int
    dtype: str
    steps: int


@dataclass
class Result:
    """Medians."""

    forward_us: float
    both_us: float
    share: float | None  # of the device's peak, forward and backward

    def __str__(self) -> str:
        share = "" if self.share is None else f" ({self.share:.1%})"
        return f"{self.forward_us:,.0f} / {self.both_us:,.0f}{share}"


def draw_lengths(mean: int, steps: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Geometric above a third of the mean: skewed, as numbers of entities are."""
    least = max(1, mean // 3)
    return np.minimum(least + rng.geometric(1 / (mean - least + 1), steps) - 1, 8 * mean).astype(np.int64)


# -- ways ---------------------------------------------------------------------------------------------------


def heads(x: Tensor, n_head: int) -> tuple[Tensor, ...]:
    """(b, M, 3 D) to queries, keys and values (b, H, M, d_head)."""
    return x.view(*x.shape[:2], 3, n_head, -1).permute(2, 0, 3, 1, 4).unbind(0)


def group(
    steps: NDArray[np.int64], rows: RowLayout, device: torch.device
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Rows of `steps` (b, M), which are real (None: all), and those rows in their order."""
    lengths = rows.lengths[steps][:, None]
    slots = np.arange(int(lengths.max()))[None]
    index, real = rows.offsets[steps][:, None] + np.minimum(slots, lengths - 1), slots < lengths
    mask = None if real.all() else torch.as_tensor(real, device=device)
    return torch.as_tensor(index, device=device), mask, torch.as_tensor(index[real], device=device)


def grouped(groups: list[NDArray[np.int64]], rows: RowLayout, n_head: int, device: torch.device) -> Attend:
    made = [group(steps, rows, device) for steps in groups]
    places = torch.cat([place for _, _, place in made])

    def attend(qkv: Tensor) -> Tensor:
        parts = []
        for index, real, _ in made:
            q, k, v = heads(qkv[index.reshape(-1)].view(*index.shape, -1), n_head)
            mask = None if real is None else real[:, None, None, :]
            y = (
                functional.scaled_dot_product_attention(q, k, v, mask)
                .transpose(1, 2)
                .flatten(0, 1)
                .flatten(1)
            )
            parts.append(y if real is None else y[real.reshape(-1)])
        out = qkv.new_empty(len(qkv), qkv.shape[1] // 3)
        return out.index_copy(0, places, torch.cat(parts))

    return attend


def padded(rows: RowLayout, case: Case, device: torch.device) -> Attend | None:
    if len(rows) * rows.longest**2 > MAX_PADDING * float((rows.lengths**2).sum()):
        return None
    return grouped([np.arange(len(rows))], rows, case.n_head, device)


def by_length(rows: RowLayout, case: Case, device: torch.device) -> Attend:
    order = np.argsort(rows.lengths, kind="stable")
    cuts, start = [], 0
    while start < len(order):
        longest = rows.lengths[order[start]] * 1.25 + 2
        end = int(np.searchsorted(rows.lengths[order], longest, "right"))
        cuts.append(order[start:end])
        start = end
    return grouped(cuts, rows, case.n_head, device)


def nested(rows: RowLayout, case: Case, device: torch.device) -> Attend | None:
    if device.type != "cuda":
        return None  # torch has no kernel for jagged tensors on the CPU
    offsets = torch.as_tensor(rows.offsets, device=device)
    longest, shortest = rows.longest, int(rows.lengths.min())

    def attend(qkv: Tensor) -> Tensor:
        parts = qkv.view(len(qkv), 3, case.n_head, -1).unbind(1)
        q, k, v = (
            torch.nested.nested_tensor_from_jagged(
                part, offsets, min_seqlen=shortest, max_seqlen=longest
            ).transpose(1, 2)
            for part in parts
        )
        y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return y.values().reshape(len(qkv), -1)

    return attend


def varlen(rows: RowLayout, case: Case, device: torch.device) -> Attend | None:
    if device.type != "cuda" or case.dtype != "bfloat16":
        return None
    from torch.nn.attention.varlen import varlen_attn

    starts = torch.as_tensor(rows.offsets, dtype=torch.int32, device=device)

    def attend(qkv: Tensor) -> Tensor:
        q, k, v = qkv.view(len(qkv), 3, case.n_head, -1).unbind(1)
        y: Tensor = varlen_attn(q, k, v, starts, starts, rows.longest, rows.longest)
        return y.reshape(len(qkv), -1)

    return attend


@cache
def compiled_flex() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    torch._dynamo.config.recompile_limit = 100  # each case is compiled with and without gradients
    return torch.compile(flex_attention, dynamic=False)


def flex(rows: RowLayout, case: Case, device: torch.device) -> Attend | None:
    if device.type != "cuda" or case.d_head < 16 or case.mean not in FLEX_MEANS:
        return None
    from torch.nn.attention.flex_attention import create_block_mask

    document = torch.as_tensor(np.repeat(np.arange(len(rows)), rows.lengths), device=device)
    size = len(document)

    def same(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return document[q] == document[k]

    mask = torch.compile(create_block_mask)(same, None, None, size, size, device=device)

    def attend(qkv: Tensor) -> Tensor:
        q, k, v = heads(qkv[None], case.n_head)
        y: Tensor = compiled_flex()(q, k, v, block_mask=mask)
        return y[0].transpose(0, 1).reshape(size, -1)

    return attend


def in_tiles(
    attend_tiles: Callable[[Tensor, Tiling, int], Tensor], rows: RowLayout, case: Case, device: torch.device
) -> Attend:
    """Put the rows into slots of tiles, and their results back."""
    layout = Tiles(rows)
    room = layout.counts
    num_slots = sum(width * count for width, count in room.items())
    steps = np.full(num_slots, len(rows), np.int64)
    slots = torch.as_tensor(layout.place(room, steps), device=device)
    tiling = Tiling(room, torch.as_tensor(steps, device=device))

    def attend(qkv: Tensor) -> Tensor:
        spread = qkv.new_zeros(num_slots, qkv.shape[1]).index_copy(0, slots, qkv)
        return attend_tiles(spread, tiling, case.n_head)[slots]

    return attend


def tiles(rows: RowLayout, case: Case, device: torch.device) -> Attend:
    def attend_tiles(qkv: Tensor, tiling: Tiling, n_head: int) -> Tensor:
        parts = zip(tiling.room, tiling.parts(qkv), strict=True)
        return torch.cat([masked_products(x, tiling.mask(width, x.dtype), n_head) for width, x in parts])

    return in_tiles(attend_tiles, rows, case, device)


def kernel(rows: RowLayout, case: Case, device: torch.device) -> Attend | None:
    has_kernel = runs_triton(torch.empty(0, dtype=getattr(torch, case.dtype), device=device))
    return in_tiles(static_attention.attend, rows, case, device) if has_kernel else None


MAKERS: dict[str, Callable[[RowLayout, Case, torch.device], Attend | None]] = dict(
    zip(WAYS, (padded, by_length, nested, varlen, flex, tiles, kernel), strict=True)
)


def exact(qkv: Tensor, rows: RowLayout, n_head: int) -> Tensor:
    """The definition, in float64, step by step."""
    result = []
    for first, last in zip(rows.offsets[:-1], rows.offsets[1:], strict=True):
        q, k, v = heads(qkv[None, first:last], n_head)
        y = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), -1) @ v
        result.append(y[0].transpose(0, 1).flatten(1))
    return torch.cat(result)


# -- measuring ----------------------------------------------------------------------------------------------


def layout(case: Case) -> RowLayout:
    lengths = draw_lengths(case.mean, case.steps, np.random.default_rng(0))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return RowLayout(offsets, offsets)


def compare(way: str, case: Case, device: torch.device) -> float:
    """The largest error of outputs and gradients, relative to the largest number."""
    rows = layout(Case(case.mean, case.d_head, case.n_head, case.dtype, min(case.steps, 64)))
    attend = MAKERS[way](rows, case, device)
    assert attend is not None
    torch.manual_seed(0)
    width = 3 * case.d_head * case.n_head
    given = torch.randn(rows.num_rows, width, device=device).to(getattr(torch, case.dtype)).requires_grad_()
    right = given.detach().cpu().double().requires_grad_()
    out, wanted = attend(given), exact(right, rows, case.n_head)
    gradient = torch.randn(out.shape, device=device).to(out.dtype)
    out.backward(gradient)
    wanted.backward(gradient.cpu().double())
    assert given.grad is not None and right.grad is not None
    pairs = ((out.detach(), wanted.detach()), (given.grad, right.grad))
    return max(float((a.cpu().double() - b).abs().max() / b.abs().max()) for a, b in pairs)


def time_us(run: Callable[[], Any], device: torch.device, repeats: int) -> float:
    times = []
    for _ in range(repeats + 2):
        if device.type == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()  # type: ignore[no-untyped-call]
            run()
            end.record()  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
            times.append(1e3 * begin.elapsed_time(end))
        else:
            start = time.perf_counter()
            run()
            times.append(1e6 * (time.perf_counter() - start))
    return statistics.median(times[2:])


def measure(way: str, case: Case, device: torch.device, peak: float | None, repeats: int) -> Result | None:
    rows = layout(case)
    attend = MAKERS[way](rows, case, device)
    if attend is None:
        return None
    error = compare(way, case, device)
    if error > (3e-2 if case.dtype == "bfloat16" else 1e-4):
        raise SystemExit(f"{way}, {case}: differs from float64 by {error:.1e}")
    width = case.d_head * case.n_head
    qkv = torch.randn(rows.num_rows, 3 * width, device=device).to(getattr(torch, case.dtype)).requires_grad_()
    gradient = torch.randn(rows.num_rows, width, device=device).to(qkv.dtype)

    def forward() -> None:
        with torch.no_grad():
            attend(qkv)

    def both() -> None:
        qkv.grad = None
        attend(qkv).backward(gradient)

    forward_us, both_us = time_us(forward, device, repeats), time_us(both, device, repeats)
    operations = 14.0 * float((rows.lengths.astype(float) ** 2).sum()) * width
    share = None if peak is None else operations / (both_us * 1e-6) / (peak * 1e12)
    return Result(forward_us, both_us, share)


def main() -> None:
    parser = script_parser(__doc__, json=True)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument(
        "--rows", nargs="+", type=int, default=[5, 10, 20, 40, 100], help="of a step, on average"
    )
    parser.add_argument("--heads", nargs="+", type=int, default=[8, 16, 32], help="widths of a head")
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--steps", type=int, default=4096, help="sequences")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--peak", type=float, help="TFLOP/s of the device, for all precisions")
    parser.add_argument("--cpu", action="store_true", help="a tiny version, to see that it works")
    options = parser.parse_args()
    if not options.cpu and not torch.cuda.is_available():
        print("This machine has no GPU that torch can use, so nothing was measured.")
        return
    if options.cpu:
        device, name, steps, repeats = torch.device("cpu"), "CPU, tiny", 32, 1
        means, widths, dtypes = (5, 20), (8, 16), ("float32",)
    else:
        device, name, steps, repeats = (
            torch.device("cuda"), torch.cuda.get_device_name(), options.steps, options.repeats,
        )  # fmt: skip
        means, widths, dtypes = options.rows, options.heads, options.precisions
    peaks = next((found for gpu, found in PEAKS.items() if gpu in name), {})
    print(name, "torch", torch.__version__, f"{steps} steps; µs forward / with backward (share of peak)")
    print("rows  d_head  dtype    ", "".join(f"{way:>26}" for way in options.ways))
    results, failures = [], {}
    for dtype in dtypes:
        for mean in means:
            for d_head in widths:
                case = Case(mean, d_head, 64 // d_head, dtype, steps)
                cells = []
                for way in options.ways:
                    try:
                        result = measure(way, case, device, options.peak or peaks.get(dtype), repeats)
                    except RuntimeError as error:
                        failures[way, dtype] = str(error).splitlines()[0]
                        results.append({**asdict(case), "way": way, "fails": failures[way, dtype]})
                        cells.append("fails")
                        continue
                    results.append({**asdict(case), "way": way, **(asdict(result) if result else {})})
                    cells.append(
                        "-" if result is None else f"{result.forward_us:,.0f} / {result.both_us:,.0f}"
                    )
                    if result is not None and result.share is not None:
                        cells[-1] += f" ({result.share:.1%})"
                print(
                    f"{mean:4}  {d_head:6}  {dtype:9}", "".join(f"{cell:>26}" for cell in cells), flush=True
                )
                write_json(options.json, {"device": name, "torch": torch.__version__, "rows": results})
    for (way, dtype), message in failures.items():
        print(f"{way}, {dtype}: {message}")


if __name__ == "__main__":
    main()
