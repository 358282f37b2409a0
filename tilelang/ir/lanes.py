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
    calls = (call for node in walk(stmt) for call in node.calls())
    return next((call for call in calls if call.atom.exchanges), None)


def exchange_in_shared_loop(call: Call, count: int = 1, loc: Loc | None = None) -> Exception:
    """The error for ``call``, by which threads exchange values, where ``count`` iterations
    of a ``T.Parallel`` belong to a thread: which of them are neighbours is the compiler's choice,
    not the program's."""
    return TileUnsupportedError(
        f"T.{call.op} is called in the iterations of T.Parallel",
        expected="thread code, outside T.Parallel or with an iteration for each thread",
        got=f"`{call!r}`" + (f", with {count} iterations for a thread" if count > 1 else ""),
        hint="neighbouring iterations are not defined; use the thread index",
        loc=loc,
    )
