"""Lanes of a warp: the one width that programs see, and calls that exchange values between them."""

from __future__ import annotations

from tilelang.errors import Loc, TileUnsupportedError
from tilelang.ir.expr import Call
from tilelang.ir.stmt import Stmt, walk

# Lanes of a warp in the language: ``T.shfl_sync`` and the other warp functions count 32 lanes,
# wherever a program runs, as the warps of NVIDIA's GPUs have. What the hardware of a target has is
# in its limits.
WARP = 32


def exchange_in(stmt: Stmt) -> Call | None:
    """A call in ``stmt`` by which threads tell each other values."""
    return next((c for node in walk(stmt) for c in node.calls() if c.atom.exchanges), None)


def is_uneven(iterations: int, threads: int) -> bool:
    """Whether a thread has several ``iterations`` of a loop, or one that other lanes of its warp
    lack."""
    return iterations > threads or (iterations < threads and iterations % WARP > 0)


def exchange_in_shared_loop(call: Call, *counts: int, loc: Loc | None = None) -> Exception:
    """The error for ``call``, by which threads exchange values, in an uneven ``T.Parallel``: which
    iterations are neighbours is the compiler's choice, not the program's, and on GPUs all lanes of
    a warp have to take part. ``counts``: of iterations and threads, if they are known."""
    work = ", with {} iterations for {} threads".format(*counts) if counts else ""
    return TileUnsupportedError(
        f"T.{call.op} is called in the iterations of T.Parallel",
        expected="thread code, outside T.Parallel or with an iteration for each lane of a warp",
        got=f"`{call!r}`{work}",
        hint="neighbouring iterations are not defined; use the thread index",
        loc=loc,
    )
