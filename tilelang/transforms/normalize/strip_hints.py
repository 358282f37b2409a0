"""Drop keys that no pass reads, and what asks a core to run ahead.

Programs may put keys of their own on loops and statements. They mean nothing, so that below every
key is one that a pass knows. A copy of one thread (``T.ptx_cp_async``) is asynchronous only in a
program that waits for such copies itself. A core that runs a whole block has nothing to run ahead
with: there a pipelined loop is the serial loop that it means, whatever its stages.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import stmt as S
from tilelang.ir.hints import LoopHints
from tilelang.ir.levels import with_known_hints
from tilelang.ir.visitor import map_stmts
from tilelang.target import Context


def strip_hints(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` without keys that mean nothing to the target."""
    in_order = context.has("cores")
    waits = any(
        call.atom.waits_for("cp_async")
        or (call.atom.orders is not None and call.atom.orders.group == "cp_async")
        for call in S.calls(func.body)
    )

    def known(stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Attr):
            return stmt.body
        if isinstance(stmt, S.For) and stmt.kind == "pipelined" and in_order:
            return replace(stmt, kind="serial", hints=LoopHints())
        if isinstance(stmt, S.For) and not waits and stmt.hints.asynchronous:
            return replace(stmt, hints=LoopHints())
        return with_known_hints(stmt, "tile")

    return func.with_body(map_stmts(func.body, S.Stmt, known))
