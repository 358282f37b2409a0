"""Plain updates: an update needs no atomic where no other core accesses the memory.

One core runs a block, so the tiles of the block are its own. A loop with atomic updates of tensors
gets two versions. The one with plain updates runs where one core runs all blocks and no other
launch of the process updates tensors (``tl_begin_updates`` of the header). It may become a vector
loop, and its updates need no locked instruction. Where another launch begins to update, the one
alone continues with atomics from its next loop on. A launch whose threads may wait for other
launches has no such version: those would wait for it. Runs before guards are inserted: a guard of a
store covers a whole loop.
"""

from __future__ import annotations

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.atoms import Atom
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.visitor import map_stmts, rewrite_blocks, rewrite_bodies

# Whether no other core updates tensors.
EXCLUSIVE = Atom("exclusive", 0, 0, "bool", lowered=True)
LARGEST = 32  # statements of a loop of which there are two versions
_OPERATORS = {"add": "add", "or": "bitor", "and": "bitand", "xor": "bitxor"}


def plain_updates(func: S.PrimFunc) -> S.PrimFunc:
    """``func`` with plain updates of what one core accesses."""

    def rewrite(launch: S.Launch) -> S.Stmt:
        body = _plain(launch.body, "global")
        may_wait = S.holds(body, S.While)
        may_wait |= any(call.atom.orders or call.atom.by_name for call in S.calls(body))
        return body if may_wait else _with_versions(body)

    return rewrite_bodies(func, rewrite)


def _with_versions(stmt: S.Stmt) -> S.Stmt:
    """``stmt`` with two versions of each small loop that updates tensors."""
    if not isinstance(stmt, S.For) or sum(1 for _ in S.walk(stmt)) > LARGEST:
        return rewrite_blocks(stmt, _with_versions)
    plain, test = _plain(stmt), E.Call(EXCLUSIVE, (), DType("bool"))
    return stmt if plain is stmt else S.If(cond=test, then=plain, orelse=stmt, loc=stmt.loc)


def _plain(stmt: S.Stmt, shared: str = "") -> S.Stmt:
    """``stmt`` with plain updates of all memory but that of the scope ``shared``."""

    def rewrite(update: S.Eval) -> S.Stmt:
        call = update.call
        op = _OPERATORS.get(call.atom.update) if call is not None else None
        if call is None or op is None or len(call.args) != 2 or call.atom.elements != 1:
            return update
        target, value = call.args
        assert isinstance(target, E.AddressOf)
        if target.buffer.storage == shared:
            return update
        old = E.Load(target.buffer, target.indices)
        new = E.binary(op, old, E.cast(value, old.dtype))
        return S.Store(buffer=target.buffer, indices=target.indices, value=new, loc=update.loc)

    return map_stmts(stmt, S.Eval, rewrite)
