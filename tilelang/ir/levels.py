"""IR levels: tables of what is legal at each of the three.

*Tile IR* is what tracing makes: tile operations and parallel loops over logical tiles. *Scheduled
IR* also says in what order threads and copies go on, and where tiles live: pipelines, roles and
fences, layouts. *Thread IR* is what text is printed from: loops, loads, stores and calls only; a
fragment is an array of registers, or of the block where one core runs it.

What statements and buffers carry besides are fields (``ir/hints.py``).
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import schedule as H, stmt as S
from tilelang.ir.buffer import SCOPES
from tilelang.records import dataclass

_PLAIN: frozenset[type[S.Stmt]] = frozenset(
    (
        S.Seq, S.Let, S.Alloc, S.View, S.Store, S.For, S.While, S.If, S.Eval, S.Assert, S.Break,
        S.Continue, S.ThreadReturn, S.Launch,
    )
)  # fmt: skip
_TILE: frozenset[type[S.Stmt]] = frozenset(
    (*S.TileOp.__subclasses__(), *S.ElementOp.__subclasses__(), S.ReducerUpdate, S.Parallel, S.Attr)
) - {S.ElementOp}
_SCHEDULE: frozenset[type[S.Stmt]] = frozenset(
    (
        H.Pipeline, H.Run, H.Acquire, H.Commit, H.Wait, H.Release, H.Roles, H.Role, H.Fence,
        H.WaitProducts,
    )
)  # fmt: skip
# What the host executes before, between and around kernels.
HOST: frozenset[type[S.Stmt]] = frozenset(
    (S.Seq, S.Let, S.Assert, S.If, S.For, S.While, S.Attr, S.View, S.Alloc, S.Launch)
)


@dataclass(frozen=True)
class Level:
    """One row: what may appear.

    Attributes:
        lowered: accesses are of elements: no call has a region as its operand, and constant
            indices of on-chip memory are in bounds.
        planned: a product may say how threads compute it.
    """

    name: str
    statements: frozenset[type[S.Stmt]]
    loop_kinds: frozenset[str]
    scopes: frozenset[str]
    lowered: bool = False
    planned: bool = False


_ORDERLY = frozenset(("serial", "unroll", "vectorized"))
LEVELS: dict[str, Level] = {
    "tile": Level("Tile IR", _PLAIN | _TILE, _ORDERLY | {"pipelined"}, frozenset(SCOPES)),
    "scheduled": Level(
        "Scheduled IR",
        _PLAIN | _TILE | _SCHEDULE,
        _ORDERLY | {"pipelined"},
        frozenset(SCOPES),
        planned=True,
    ),
    # Back ends with matrix kernels of their own print a Gemm as a call.
    "thread": Level(
        "Thread IR",
        _PLAIN | {S.Gemm},
        _ORDERLY,
        frozenset(SCOPES) - {"local.fragment"},
        lowered=True,
    ),
}


def with_known_hints(stmt: S.Stmt, level: str) -> S.Stmt:
    """``stmt`` itself without those of its hints that mean nothing at ``level``."""
    hints = getattr(stmt, "hints", None)
    if hints is None:
        return stmt
    left = hints.without("other", *(hints.schedule if LEVELS[level].lowered else ()))
    return stmt if left is hints else replace(stmt, hints=left)  # type: ignore[call-arg]  # all that have hints
