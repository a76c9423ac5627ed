"""User headers of rows as the blocks that messages carry, without a loop over rows.

A column is a map of texts to bytes or texts, or an array of structs with kinds, as the source gives
it. The pairs of all rows are one Arrow array whose memory is all pairs back to back. As the pairs
of a row follow each other, the blocks are the same memory with fewer boundaries. A block is drawn
in protocol/headers.py.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from borzoi.protocol.headers import FIELD, FIXED_SIZES, HEADER_FIELD_SIZE_MAX, HeaderKind
from borzoi.spark.failures import InvalidRow

# What stands before each key and each value, back to back.
PREFIX: Final = np.dtype([("kind", "u1"), ("size", "<u4")])
KIND_MAX: Final = max(HeaderKind)
STRUCT_FIELDS: Final = 4  # key, key_kind, value, value_kind
# By kind, the sizes a field may have; a kind that is not there has none.
SIZES_MIN: Final = np.full(KIND_MAX + 1, HEADER_FIELD_SIZE_MAX + 1)
SIZES_MAX: Final = np.zeros(KIND_MAX + 1, np.int64)
for _kind in HeaderKind:
    SIZES_MIN[_kind] = FIXED_SIZES.get(_kind, 1)
    SIZES_MAX[_kind] = FIXED_SIZES.get(_kind, HEADER_FIELD_SIZE_MAX)

Kinds = npt.NDArray[np.int64]


def header_blocks(column: pa.Array) -> pa.Array:
    """One block per row; empty where a row has no headers."""
    if pa.types.is_map(column.type):
        as_pairs = pa.list_(
            pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])
        )
        column = column.cast(as_pairs)
    pairs = column.flatten().flatten()
    if len(pairs) == STRUCT_FIELDS:
        keys, key_kinds, values, value_kinds = pairs
    else:
        keys, values = pairs
        key_kinds = value_kinds = None
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    value_kind = HeaderKind.STRING if is_text else HeaderKind.RAW
    parts = [
        *_field("key", keys, _kinds(key_kinds, len(keys), HeaderKind.STRING)),
        *_field("value", values, _kinds(value_kinds, len(values), value_kind)),
    ]
    joined = pc.binary_join_element_wise(*parts, b"")
    counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    bounds = np.concatenate(([0], np.cumsum(counts)))
    ends = np.frombuffer(joined.buffers()[1], np.int32, len(joined) + 1) if len(joined) else ZERO
    blocks = pa.py_buffer(np.ascontiguousarray(ends[bounds]))
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(column), [None, blocks, joined.buffers()[2] or pa.py_buffer(b"")]
    )


ZERO: Final = np.zeros(1, np.int32)


def _kinds(column: pa.Array | None, count: int, default: HeaderKind) -> Kinds:
    if column is None:
        return np.full(count, default, np.int64)
    kinds: Kinds = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return kinds


def _field(what: str, column: pa.Array, kinds: Kinds) -> tuple[pa.Array, pa.Array]:
    """The prefixes of these keys or values, and they themselves."""
    data = column.cast(pa.binary()).fill_null(b"")
    sizes = pc.binary_length(data).to_numpy(zero_copy_only=False)
    known = np.clip(kinds, 0, KIND_MAX)
    is_wrong = (known != kinds) | (sizes < SIZES_MIN[known]) | (sizes > SIZES_MAX[known])
    if is_wrong.any():
        at = int(np.argmax(is_wrong))
        raise InvalidRow(
            f"headers cannot be sent: a {what} of kind {int(kinds[at])} with {int(sizes[at])} bytes"
        )
    prefixes = np.empty(len(data), PREFIX)
    prefixes["kind"] = kinds
    prefixes["size"] = sizes
    ends = pa.py_buffer(np.arange(len(data) + 1, dtype=np.int32) * FIELD.size)
    binary = [None, ends, pa.py_buffer(prefixes)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(data), binary), data
