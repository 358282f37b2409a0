"""Script text of tile operations: one row per class says its function and its leading operands.

Fields that are not leading operands are printed as keyword arguments where they differ from their
defaults, so a new field is never silently left out.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any, cast

from tilelang.errors import InternalError
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Const, Expr
from tilelang.ir.hints import Hints
from tilelang.ir.print_expr import ExprPrinter
from tilelang.records import dataclass


@dataclass(frozen=True)
class _Row:
    """``function`` is a template over the fields; ``lead`` are the positional operands."""

    function: str
    lead: tuple[str, ...]
    within: tuple[str, ...] = ()  # fields that the function already says
    silent: tuple[str, ...] = ()  # decisions of passes that have no form in a program
    renamed: tuple[tuple[str, str], ...] = ()


_ROWS: dict[type[S.TileOp], _Row] = {
    S.Copy: _Row("copy", ("src", "dst"), ("mode",)),
    S.Fill: _Row("fill", ("dst", "value")),
    S.Gemm: _Row(
        "gemm",
        ("a", "b", "c"),
        ("asynchronous",),
        ("plan",),
        (
            ("trans_a", "transpose_A"),
            ("trans_b", "transpose_B"),
            ("clear", "clear_accum"),
            ("barrier", "mbar"),
        ),
    ),
    S.Reduce: _Row("reduce_{kind}", ("src", "dst"), ("kind",)),
    S.Scan: _Row("cum{kind}", ("src", "dst"), ("kind",)),
    S.ReducerInit: _Row("init_reducer", ("reducer",)),
    S.ReducerFinalize: _Row("finalize_reducer", ("reducer",)),
    S.AtomicTile: _Row("atomic_{op}", ("dst", "src"), ("op",)),
    S.Im2col: _Row("im2col", ("src", "dst", "nhw_step", "c_step")),
    S.PrintTile: _Row("print", ("src",)),
    S.HardwareOp: _Row("{name}", ("writes", "reads", "args"), ("name",)),
}
# Between blocks of a cluster the barrier is that of the other one.
_BETWEEN_BLOCKS = _Row(
    "copy_cluster", ("src", "dst"), ("mode",), renamed=(("barrier", "remote_barrier"),)
)
_COPY_WORDS = {"copy": "copy", "async": "async_copy", "tma": "tma_copy", "cluster": "copy_cluster"}


def tile_text(stmt: S.TileOp, text: ExprPrinter) -> str:
    """``stmt`` as a call."""
    row = _ROWS.get(type(stmt))
    if isinstance(stmt, S.Copy) and stmt.mode == "cluster":
        row = _BETWEEN_BLOCKS
    if row is None and isinstance(stmt, S.ElementOp):
        needed = (spec.name for spec in fields(stmt) if spec.default is MISSING)
        row = _Row(type(stmt).__name__.lower(), tuple(needed))
    if row is None:
        raise InternalError(f"the printer does not know the tile operation {type(stmt).__name__}")
    args: list[str] = []
    for name in row.lead:
        value = getattr(stmt, name)
        values = value if isinstance(value, tuple) else (value,)
        args.extend(_operand(spec, text) for spec in values)
    for spec in fields(stmt):
        if spec.name in (*row.lead, *row.within, *row.silent, "loc"):
            continue
        args.extend(_option(spec, getattr(stmt, spec.name), row, text))
    return f"T.{_word(stmt, row)}({', '.join(args)})"


def _word(stmt: S.TileOp, row: _Row) -> str:
    if isinstance(stmt, S.Copy):
        return _COPY_WORDS.get(stmt.mode, f"{stmt.mode}_copy")
    if isinstance(stmt, S.Gemm) and stmt.asynchronous:
        return "wgmma_gemm"
    return row.function.format(**{name: getattr(stmt, name) for name in row.within})


def _operand(value: object, text: ExprPrinter) -> str:
    return text.region(value) if isinstance(value, Region) else text.value(value)


def _option(spec: Field[Any], value: object, row: _Row, text: ExprPrinter) -> list[str]:
    """The keyword argument for a field, or the ones it holds."""
    if spec.name in ("hints", "options"):
        pairs = value.stated if isinstance(value, Hints) else cast(S.Pairs, value)
        return list(text.options(pairs))
    if isinstance(value, Expr) and isinstance(value, Const) and value.value is False:
        return []
    if spec.default is not MISSING and not isinstance(value, Expr) and value == spec.default:
        return []
    return [f"{dict(row.renamed).get(spec.name, spec.name)}={_operand(value, text)}"]
