"""Reduction updates: an element changed by an operation in any order, such as ``s[i] += x``.

``s[i] = s[i] + x``, ``max``, ``min``, ``*``, ``&``, ``|``, ``^``, the boolean forms of these; with
casts to a wider dtype and back, under a choice that else keeps the element, and as a comparison
that keeps the larger or smaller one. Several of them on an element give the same value in every
order, apart from the rounding of floats.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.records import dataclass

_KINDS = {
    "add": "sum", "mul": "mul", "max": "max", "min": "min",
    "bitand": "bitand", "bitor": "bitor", "bitxor": "bitxor",
}  # fmt: skip
_OF_BOOLEANS = {"land": "bitand", "lor": "bitor", "ne": "bitxor"}
_KEEPS = {"gt": "max", "ge": "max", "lt": "min", "le": "min"}  # x > s: the larger one is kept


@dataclass(frozen=True)
class Update:
    """``load = kind(load, value)`` in the dtype of ``value``, where ``conditions`` holds."""

    load: E.Load
    kind: str  # of a reduction: "sum", "max", ...
    value: E.Expr
    conditions: tuple[E.Expr, ...] = ()


def update_of(stmt: S.Stmt) -> Update | None:
    """The update that a statement makes, if it does nothing else."""
    if isinstance(stmt, S.If) and stmt.orelse is None and isinstance(stmt.then, S.Store):
        target = _target_of(stmt.then)
        op = _larger(stmt.cond, stmt.then.value, target)
        return None if op is None else Update(target, op, stmt.then.value)
    return _value_update(_target_of(stmt), stmt.value) if isinstance(stmt, S.Store) else None


def is_idle(stmt: S.Store) -> bool:
    """Whether the element that a statement stores is the one that it reads."""
    return _target_of(stmt) is stmt.value


def _target_of(stmt: S.Store) -> E.Load:
    return E.Load(stmt.buffer, stmt.indices)


def reads(exprs: Iterable[E.Expr], buffer: Buffer) -> bool:
    """Whether an element of ``buffer`` is read, under any of its names."""
    return any(load.buffer.data is buffer.data for e in exprs for load in E.find(e, E.Load))


def _value_update(target: E.Load, value: E.Expr) -> Update | None:
    if isinstance(value, E.Select):
        return _select_update(target, value)
    inner = value
    if (
        isinstance(value, E.Cast)
        and not value.rounding
        and _is_wider(target.dtype, value.value.dtype)
    ):
        inner = value.value
    update = _chain(target, inner)
    if update is None or reads((update[1], *target.indices), target.buffer):
        return None
    kind, added = update
    if added.dtype is not target.dtype and target.dtype.is_integer and kind in ("max", "min"):
        # A value that the element cannot hold would change when it is stored.
        if not (isinstance(added, E.Cast) and added.value.dtype is target.dtype):
            return None
    return Update(target, kind, added)


def _select_update(target: E.Load, value: E.Select) -> Update | None:
    for side, other, holds in ((value.t, value.f, True), (value.f, value.t, False)):
        if not _is_element(other, target):
            continue
        cond = value.cond if holds else E.unary("lnot", value.cond)
        op = _larger(value.cond, side, target)
        if op is not None:
            # `x if x > s else s` keeps the larger one, `s if x > s else x` the smaller one.
            return Update(target, op if holds else {"max": "min", "min": "max"}[op], side)
        if reads((cond,), target.buffer):
            return None
        update = _value_update(target, side)
        if update is not None:
            return Update(target, update.kind, update.value, (cond, *update.conditions))
        return None
    return None


def _larger(cond: E.Expr, value: E.Expr, target: E.Load) -> str | None:
    """ "max" if ``cond`` says that ``value`` is larger than the element, "min" if smaller."""
    if not isinstance(cond, E.Binary) or cond.op not in _KEEPS or value.dtype is not target.dtype:
        return None
    if reads((value, *target.indices), target.buffer):
        return None
    if cond.a is value and _is_element(cond.b, target):
        return _KEEPS[cond.op]
    if cond.b is value and _is_element(cond.a, target):
        return {"max": "min", "min": "max"}[_KEEPS[cond.op]]
    return None


def _chain(target: E.Load, expr: E.Expr) -> tuple[str, E.Expr] | None:
    """The kind of operation and what it takes besides ``load``, in the dtype of ``expr``."""
    kind, others = "", []
    while not _is_element(expr, target):
        if not isinstance(expr, E.Binary):
            return None
        own, other = expr.a, expr.b
        if not reads((own,), target.buffer):
            own, other = other, own
        boolean_kinds = _OF_BOOLEANS if own.dtype.is_bool else {}
        term_kind = boolean_kinds.get(expr.op) or _KINDS.get(expr.op, "")
        if expr.op == "sub" and own is expr.a:
            term_kind, other = "sum", E.unary("neg", other)
        if not term_kind or kind not in ("", term_kind) or other.dtype is not own.dtype:
            return None
        kind, expr = term_kind, own
        others.append(other)
    if not others:
        return None
    total = others[0]
    op = next(op for op, name in _KINDS.items() if name == kind)
    for other in others[1:]:
        total = E.cast(E.binary(op, total, other), total.dtype)
    return kind, total


def _is_element(expr: E.Expr, target: E.Load) -> bool:
    """Whether ``expr`` is the element, as it is or in a wider dtype."""
    if isinstance(expr, E.Cast) and not expr.rounding and _is_wider(target.dtype, expr.dtype):
        expr = expr.value
    return expr is target


def _is_wider(narrow: DType, wide: DType) -> bool:
    """Whether ``wide`` holds every value of ``narrow``, and results in it round to its own."""
    if narrow.is_bool or wide.is_bool or wide.bits < narrow.bits:
        return narrow is wide
    return (narrow.is_float and wide.is_float) or (narrow.is_integer and wide.is_integer)
