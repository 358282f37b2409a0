"""Numbers that Metal has no type for are refused where the program uses them."""

from __future__ import annotations

from tilelang.errors import Loc, TileUnsupportedError
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.visitor import postorder
from tilelang.target import Context

# Small floats by functions of the header; no float64, of which the language has none.
_FLOATS = frozenset(
    "float32 float16 bfloat16 float8_e4m3 float8_e4m3fn float8_e5m2".split()
)  # fmt: skip


def check_dtypes(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` itself, if all of its numbers have a type.

    Runs on the program in normal form, whose statements are the user's.

    Raises:
        TileUnsupportedError: a number of another dtype, with the line that has it.
    """
    for param in func.params:
        _check(param.dtype, f"the parameter `{param.name}`", func.loc)
    for stmt in S.walk(func.body):
        if isinstance(stmt, S.Alloc):
            _check(stmt.buffer.dtype, f"`{stmt.buffer.name}`", stmt.loc)
        for root in stmt.exprs():
            for node in postorder(root):
                if not isinstance(node, Buffer):
                    _check(node.dtype, f"`{node!r}`", stmt.loc)
    return func


def _check(dtype: DType, what: str, loc: Loc | None) -> None:
    kind = dtype.element_of
    if kind.is_float and str(kind) not in _FLOATS:
        raise TileUnsupportedError(
            f"{what} is of dtype {kind}, which Metal has not",
            expected=", ".join(sorted(_FLOATS)) + ", or an integer",
            got=str(kind),
            hint="float32 is the widest float of Apple's GPUs",
            loc=loc,
        )
