"""Operations that the device's compiler calls, or computes with a branch, before which it issues no
later load of memory."""

from __future__ import annotations

from math import frexp

from tilelang.ir import expr as E

_SLOW = "sqrt sigmoid sin cos tan pow fmod hypot atan2 ieee_frcp ieee_fsqrt ieee_fdiv".split()


def has_slow_path(node: E.Expr) -> bool:
    """Whether ``node`` is such an operation of ``nvcc`` (seen in the machine code of each)."""
    if isinstance(node, E.Binary) and node.op.endswith(("div", "mod")):
        is_float, b = node.dtype.is_float, node.b
        is_exact = isinstance(b, E.Const) and (not is_float or abs(frexp(b.value)[0]) == 0.5)
        return not is_exact and (is_float or node.dtype.bits == 64)
    return isinstance(node, E.Call) and node.op in _SLOW and node.dtype.bits >= 32
