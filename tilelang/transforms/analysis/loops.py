"""Properties of loops at compile time: extents and trip counts."""

from __future__ import annotations

from math import prod

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.simplify import simplify
from tilelang.target.limits import Limits

UNROLLED = ("unroll", "vectorized")
IN_FLIGHT = 96 * 1024  # bytes that a multiprocessor asks for at once, at least


def trip_count(loop: S.For) -> int | None:
    """The number of iterations if it is a constant."""
    values = values_of(loop)
    return None if values is None else len(values)


def values_of(loop: S.For) -> range | None:
    """The values of the variable if the bounds are constants."""
    bounds = (loop.start, loop.stop, loop.step)
    ends = [int(bound.value) for bound in bounds if isinstance(bound, E.Const)]
    return range(*ends) if len(ends) == 3 and ends[2] else None


def steps_by_one(loop: S.For) -> bool:
    """Whether the variable counts up by one."""
    return isinstance(loop.step, E.Const) and loop.step.value == 1


def trips(loop: S.For) -> E.Expr:
    """The number of iterations of a loop whose step is a constant."""
    step = int(loop.step)
    past = loop.stop - loop.start if step > 0 else loop.start - loop.stop
    count = (past + (abs(step) - 1)) // abs(step) if abs(step) > 1 else past
    return simplify(E.binary("max", count, E.const(0, count.dtype)))


def is_unrolled(loop: S.For) -> bool:
    """Whether every iteration is written out, so that the loop's variable is a constant in it."""
    return loop.kind in UNROLLED and loop.hints.unroll_factor is None


def may_end_early(loop: S.For) -> bool:
    """Whether some iteration of ``loop`` may be its last before its time."""

    def ends(stmt: S.Stmt) -> bool:
        if isinstance(stmt, (S.For, S.While)):  # its breaks are its own
            return S.holds(stmt, S.ThreadReturn)
        return isinstance(stmt, (S.Break, S.ThreadReturn)) or any(map(ends, stmt.blocks()))

    return ends(loop.body)


def array_registers(stmt: S.Stmt) -> int:
    """The most registers that arrays of a thread take in ``stmt`` at once: those of an unrolled
    loop for each of its iterations, whose loads may all be in flight."""
    if isinstance(stmt, S.Alloc):
        return stmt.buffer.constant_bytes // 4 if stmt.buffer.storage == "local" else 0
    arrays = [array_registers(s) for s in stmt.blocks() if isinstance(s, S.Alloc)]
    others = [array_registers(s) for s in stmt.blocks() if not isinstance(s, S.Alloc)]
    each = sum(arrays) + max(others, default=0)
    count = trip_count(stmt) if isinstance(stmt, S.For) and stmt.kind == "unroll" else None
    return each * (count or 1)


def blocks_each(launch: S.Launch, limits: Limits) -> int:
    """Blocks of the grid for each multiprocessor; what it can hold where that is not known."""
    known = [int(n) for n in launch.grid if isinstance(n, (int, E.Const))]
    if len(known) < len(launch.grid) or not limits.processors:
        return limits.blocks_processor
    return -(-prod(known) // limits.processors)


def matrix_calls(stmt: S.Stmt) -> int:
    """The most matrix instructions in `stmt`, or in one iteration of a loop in it that is not
    unrolled."""
    highest = 0

    def count(node: S.Stmt) -> int:
        nonlocal highest
        if isinstance(node, S.For):
            inside = count(node.body)
            if node.kind not in UNROLLED:
                highest = max(highest, inside)
                return 0
            times = trip_count(node)
            return inside * (1 if times is None else times)
        if isinstance(node, S.Eval):
            return int(isinstance(node.value, E.Call) and _is_mma(node.value))
        return sum(count(child) for child in node.blocks())

    return max(count(stmt), highest)


def _is_mma(call: E.Call) -> bool:
    """Whether ``call`` is a matrix instruction: d += a @ b."""
    return [operand.role for operand in call.atom.operands[:3]] == ["d", "a", "b"]


def static_extents(loop: S.Parallel) -> tuple[int, ...] | None:
    """The extents of a loop if all are constants."""
    extents = [int(e.value) if isinstance(e, E.Const) else -1 for e in map(E.as_expr, loop.extents)]
    return None if -1 in extents else tuple(extents)
