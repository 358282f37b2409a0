"""Work outside every kernel becomes kernels of one block and one thread.

On a target whose cores run the host code as well, a program may compute outside ``T.Kernel``:
loops, stores, tile operations. What stands between two kernels is one such kernel; declarations,
assertions, and values that kernels use later stay what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilelang.errors import TileUnsupportedError
from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.levels import HOST
from tilelang.ir.visitor import rewrite_blocks
from tilelang.target import Context


def wrap_host_statements(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with all its work in kernels.

    Relies on nothing. Raises:
        TileUnsupportedError: memory made outside kernels is used by several of them.
    """
    if not any(map(_is_work, _outside(func.body))):
        return func
    return replace(func, body=_wrapped(func.body))


def _outside(stmt: S.Stmt) -> list[S.Stmt]:
    """``stmt`` and the statements in it that are in no kernel."""
    if isinstance(stmt, S.Launch):
        return []
    return [stmt, *(child for block in stmt.blocks() for child in _outside(block))]


def _is_work(stmt: S.Stmt) -> bool:
    """Whether a statement by itself is one that kernels are made of."""
    private = isinstance(stmt, S.Alloc) and stmt.buffer.storage != "global"
    return type(stmt) not in HOST or private


def _launches(stmt: S.Stmt) -> bool:
    return S.holds(stmt, S.Launch)


def _wrapped(stmt: S.Stmt) -> S.Stmt:
    if isinstance(stmt, S.Launch):
        return stmt
    if not isinstance(stmt, S.Seq):
        if _launches(stmt):
            return rewrite_blocks(stmt, _wrapped)
        return _kernel([stmt]) if any(map(_is_work, _outside(stmt))) else stmt
    out: list[S.Stmt] = []
    group: list[S.Stmt] = []
    items = S.flat(stmt)
    for at, item in enumerate(items):
        if _launches(item) or isinstance(item, S.Assert) or _stays(item, items[at + 1 :]):
            out += _closed(group, items[at:])
            group = []
            out.append(_wrapped(item) if _launches(item) else item)
        else:
            group.append(item)
    return S.seq(*out, *_closed(group, []))


def _stays(stmt: S.Stmt, after: Sequence[S.Stmt]) -> bool:
    """Whether ``stmt`` makes something for later kernels: a value, a workspace, a tensor."""
    if isinstance(stmt, S.Let):
        return _mentions(stmt.var, _behind_kernel(after))
    if isinstance(stmt, S.Alloc) and stmt.buffer.storage == "global":
        return True
    return isinstance(stmt, S.View) and stmt.source is not None


def _behind_kernel(stmts: Sequence[S.Stmt]) -> Sequence[S.Stmt]:
    """What comes from the next kernel or assertion on, where the present group has ended."""
    for at, stmt in enumerate(stmts):
        if _launches(stmt) or isinstance(stmt, S.Assert):
            return stmts[at:]
    return []


def _mentions(var: E.Var, stmts: Sequence[S.Stmt]) -> bool:
    return any(
        var in expr.variables for stmt in stmts for node in S.walk(stmt) for expr in node.exprs()
    )


def _closed(group: list[S.Stmt], after: Sequence[S.Stmt]) -> list[S.Stmt]:
    """A group of statements, as a kernel if there is work among them."""
    if not any(_is_work(node) for stmt in group for node in _outside(stmt)):
        return group
    used = {id(access.buffer) for stmt in after for access in effects.accesses(stmt, nested=True)}
    for stmt in group:
        if isinstance(stmt, S.Alloc) and id(stmt.buffer) in used:
            raise TileUnsupportedError(
                f"`{stmt.buffer.name}` is made outside of the kernels that use it",
                expected="memory that lives as long as one kernel, or T.alloc_global",
                got=f"{stmt.buffer.storage} memory used before and in a later kernel",
                loc=stmt.loc,
            )
    return [_kernel(group)]


def _kernel(stmts: list[S.Stmt]) -> S.Launch:
    thread_vars = tuple(E.Var(name, DType("int32")) for name in ("tx", "ty", "tz"))
    return S.Launch(
        grid=(), block_vars=(), thread_vars=thread_vars, threads=(1, 1, 1), body=S.seq(*stmts),
        loc=stmts[0].loc,
    )  # fmt: skip
