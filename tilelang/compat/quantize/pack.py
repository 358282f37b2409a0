"""Packing of quantised weights, on numpy arrays and torch tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilelang.errors import TileValueError

# Where fields of a 32-bit word go after the general interleaving, for narrow fields: (mask of the
# bits, positions to the left); what no entry names stays. Key: bits of a field, target dtype.
_MOVES: dict[tuple[int, str], tuple[tuple[int, int], ...]] = {
    (1, "int8"): (
        (0x000000F0, 12), (0x0000F000, 12), (0x000F0000, -12), (0x0F000000, -12),
    ),
    (2, "float16"): ((0x0000FF00, 8), (0x00FF0000, -8)),
    (1, "float16"): (
        (0x000000F0, 4), (0x00000F00, 8), (0x0000F000, 12), (0x000F0000, -12),
        (0x00F00000, -8), (0x0F000000, -4),
    ),
}  # fmt: skip


def general_compress(
    lowprecision_weight: Any, source_bits: int = 4, storage_dtype: Any = None
) -> Any:
    """Neighbours of the last dimension packed into bytes, the first one lowest.

    Args:
        lowprecision_weight: integers (or integral floats) that fit into ``source_bits`` bits,
            signed or not; a numpy array or torch tensor whose last extent fills whole bytes.
        source_bits: 1, 2, 4 or 8.
        storage_dtype: of the result, int8 by default.

    Raises:
        TileValueError: other bits, or a last extent that does not fill whole bytes.
    """
    values = _array(lowprecision_weight).astype(np.int64)
    count = 8 // source_bits if source_bits in (1, 2, 4, 8) else 0
    if not count or not values.ndim or values.shape[-1] % count:
        raise TileValueError(
            "these weights cannot be packed into bytes",
            expected=f"1, 2, 4 or 8 bits, and a last extent that is a multiple of {count or '8'}",
            got=f"{source_bits} bits, shape {values.shape}",
        )
    fields = values.reshape(*values.shape[:-1], -1, count) & ((1 << source_bits) - 1)
    packed = (fields << source_bits * np.arange(count)).sum(-1).astype(np.uint8).view(np.int8)
    return _convert(lowprecision_weight, packed, storage_dtype)


def interleave_weight(qweight: Any, nbits: int = 4, target_dtype: str = "float16") -> Any:
    """Fields of 32-bit words in the order in which they can be converted several at a time.

    Field number f goes to lane ``f % lanes``, place ``f // lanes``, where a word has 2 lanes of 16
    bits for float16 and 4 of 8 bits for int8; narrow fields are exchanged once more.

    Args:
        qweight: packed weights, a numpy array or torch tensor whose last dimension fills words.
        nbits: of a field: 1, 2 or 4.
        target_dtype: "float16" or "int8".

    Raises:
        TileValueError: another dtype or other bits.
    """
    lane = {"float16": 16, "int8": 8}.get(target_dtype)
    if lane is None or nbits not in (1, 2, 4):
        raise TileValueError(
            "weights are interleaved for another type",
            expected='1, 2 or 4 bits and target_dtype "float16" or "int8"',
            got=f"{nbits} bits, {target_dtype!r}",
        )
    registers = np.ascontiguousarray(_array(qweight)).view(np.uint32).astype(np.uint64)
    lanes = 32 // lane
    interleaved = np.zeros_like(registers)
    for field in range(32 // nbits):
        shift = field % lanes * lane + field // lanes * nbits
        interleaved |= (
            registers >> np.uint64(nbits * field) & np.uint64((1 << nbits) - 1)
        ) << np.uint64(shift)
    moves = _MOVES.get((nbits, target_dtype), ())
    unmoved = 0xFFFFFFFF & ~sum(mask for mask, _ in moves)
    result = interleaved & np.uint64(unmoved)
    for mask, left in moves:
        part = interleaved & np.uint64(mask)
        result |= part << np.uint64(left) if left > 0 else part >> np.uint64(-left)
    return _convert(qweight, result.astype(np.uint32).view(np.int8), None)


def _array(weight: Any) -> Any:
    return weight.detach().cpu().numpy() if hasattr(weight, "detach") else np.asarray(weight)


def _convert(weight: Any, array: Any, dtype: Any) -> Any:
    """``array`` in the framework and on the device of ``weight``."""
    if not hasattr(weight, "detach"):
        return array if dtype is None else array.astype(dtype)
    import torch

    tensor = torch.from_numpy(array).to(weight.device)
    return tensor if dtype is None else tensor.to(dtype)
