"""Alignments in launch signatures: what vector accesses of kernels need of tensors' addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilelang.runtime.signature import LaunchSpec, Param

_VECTOR = 16  # bytes of the widest memory access


def aligned(spec: LaunchSpec, alignments: Sequence[tuple[str, int]] | None) -> LaunchSpec:
    """``spec`` with the alignment that the kernels' vector accesses rely on.

    Args:
        spec: the signature.
        known: pairs of parameter name and bytes; None if any tensor may be accessed by vectors.
    """
    table = None if alignments is None else dict(alignments)

    def with_alignment(param: Param) -> Param:
        if param.kind == "scalar":
            return param
        if table is None:
            align = _widest(param) if param.kind == "tensor" else 0
        else:
            align = table.get(param.name, 0)
        return replace(param, align=align) if align > param.alignment else param

    return replace(spec, params=tuple(map(with_alignment, spec.params)))


def _widest(param: Param) -> int:
    """The widest vector that fits into a tensor at all."""
    size = param.itemsize
    for extent in param.shape:
        size = size * extent if isinstance(extent, int) else _VECTOR
        if not isinstance(extent, int):
            break
    width = _VECTOR
    while width > max(1, size):
        width //= 2
    return width
