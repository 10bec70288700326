"""The table of tensors with which a safetensors file begins."""

from __future__ import annotations

from ..files import parse_json

#: A file with more tensors is refused, and not written: reading one takes 50 µs, however small.
MAX_TENSORS = 10_000
#: Bytes of a table.
MAX_TABLE = 8 * 2**20


def check_tensor_count(content: bytes) -> None:
    """Check the table of a safetensors file, before anything is made of it.

    Raises:
        ValueError: there is no table, or it has more than `MAX_TENSORS` tensors.
    """
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > len(content) - 8:
        raise ValueError(f"table of tensors: expected {length} bytes, got {max(len(content) - 8, 0)}")
    if length > MAX_TABLE:
        raise ValueError(f"table of tensors: expected at most {MAX_TABLE} bytes, got {length}")
    table = parse_json(content[8 : 8 + length])
    if not isinstance(table, dict):
        raise ValueError(f"table of tensors: expected a JSON object, got {type(table).__name__}")
    if len(table) > MAX_TENSORS:
        raise ValueError(f"expected at most {MAX_TENSORS} tensors, got {len(table)}")
