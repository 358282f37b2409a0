"""Placement checks while tracing: parallel loops, values, the protocol of reducers.

An iteration of ``T.Parallel`` is the work of one thread, so nothing in it may need all of them.
A reducer holds a partial result for each thread: it is started, updated, finalized, and only then
read. A sum may be scaled in between, which scales all its partial results.
"""

from __future__ import annotations

from tilelang.errors import TileSyntaxError, TileTypeError, TileValueError
from tilelang.ir import stmt as S
from tilelang.ir.buffer import OPAQUE, Buffer
from tilelang.ir.expr import Binary, Call, Cast, Expr, Load, find, walk

_COLLECTIVE = (
    S.Gemm, S.Reduce, S.Scan, S.ReducerInit, S.ReducerFinalize, S.ElementOp, S.HardwareOp,
)  # fmt: skip
_MOVES = (S.Copy, S.Fill)
_OWN = ("local", "local.var")


def check_position(stmt: S.Stmt, parallel: bool, reducers: dict[Buffer, str]) -> None:
    """Reject ``stmt`` at a position where it is not allowed.

    Args:
        parallel: whether it is in a parallel loop.
        reducers: how far each reducer is.
    Raises:
        TileSyntaxError: it needs all threads, in a parallel loop.
        TileTypeError: it computes with what has no value.
        TileValueError: it uses a reducer in the wrong state.
    """
    _check_values(stmt)
    if parallel:
        _check_parallel(stmt)
    if reducers or isinstance(stmt, S.Alloc):
        _check_reducers(reducers, stmt, _scaled(stmt) if parallel else None)


def _check_values(stmt: S.Stmt) -> None:
    """Refuse an instruction without a result, and a barrier, where a number is needed."""
    if isinstance(stmt, S.Store) and stmt.buffer.storage in OPAQUE:
        raise _no_number(Load(stmt.buffer, stmt.indices), stmt)
    for expr in stmt.exprs():
        numbers = [expr]
        for node in walk(expr):
            if not isinstance(node, Call):
                numbers += node.children()
            elif node.dtype == "void" and node is not stmt.call:
                raise TileTypeError(
                    f"`{node!r}` has no value",
                    expected="an instruction with a result",
                    loc=stmt.loc,
                    hint="write it as a separate statement",
                )
        for node in numbers:
            if isinstance(node, Load) and node.buffer.storage in OPAQUE:
                raise _no_number(node, stmt)


def _no_number(element: Load, stmt: S.Stmt) -> TileTypeError:
    noun, takes = _NO_NUMBERS[element.buffer.storage.rpartition(".")[2]]
    return TileTypeError(
        f"{noun} `{element!r}` is used as a number",
        expected=f"an argument of {takes}",
        loc=stmt.loc,
    )


_NO_NUMBERS = {
    "barrier": ("the barrier", "a barrier instruction"),
    "cluster_barrier": ("the barrier", "a barrier instruction"),
    "tmem": ("the element of tensor memory", "T.copy, e.g. T.copy(tmem, fragment)"),
    "descriptor": ("the descriptor", "an instruction that takes one"),
}


def _check_parallel(stmt: S.Stmt) -> None:
    construct = ""
    if isinstance(stmt, _COLLECTIVE):
        construct = _program_name(stmt)
    elif isinstance(stmt, S.Launch):
        construct = "T.Kernel"
    elif isinstance(stmt, _MOVES):
        regions = (*stmt.regions_read(), *stmt.regions_written())
        if not any(region.buffer.storage in _OWN for region in regions):
            construct = _program_name(stmt)
    elif isinstance(stmt, (S.Alloc, S.View)) and stmt.buffer.storage == "local.fragment":
        alloc = isinstance(stmt, S.Alloc)
        raise TileSyntaxError(
            f"{'T.alloc_fragment' if alloc else 'a view of a fragment'} in a T.Parallel loop",
            expected="T.alloc_local or T.alloc_var, of the thread that runs the iteration",
            hint="a fragment belongs to all threads of the block; "
            f"{'allocate it' if alloc else 'make the view'} before the loop",
        )
    else:
        calls = stmt.calls()
        construct = next((_word(node, stmt) for node in calls if _is_collective(node)), "")
    if construct:
        raise TileSyntaxError(
            f"{construct} in a T.Parallel loop",
            expected="loads, stores and arithmetic of single elements",
            hint="an iteration is the work of one thread; end the loop before it, or use T.serial",
        )


def _program_name(stmt: S.Stmt) -> str:
    """A tile operation as programs call it, ``T.reduce_sum``: the printer begins with that."""
    return f"the tile operation {str(stmt).partition('(')[0]}"


def _word(node: Call, stmt: S.Stmt) -> str:
    """An intrinsic as the program's line calls it: a row may have several names."""
    line = (stmt.loc and stmt.loc.source()) or ""
    names = (*node.atom.names, *node.atom.strict)
    return "T." + next((name for name in names if f".{name}(" in line), node.atom.usual)


def _is_collective(node: Call) -> bool:
    """Whether threads wait for each other at an intrinsic, or those of several warps exchange."""
    atom = node.atom
    return atom.is_barrier("warp", "block", "grid") or atom.signals or atom.exchanges == "block"


# How far a reducer is: made, started by stores, updated, finalized (then it is a fragment).
# A fragment that is stored to may be started anew.
_FRESH, _BEGUN, _OPEN, _DONE, _AGAIN = "made", "started", "updated", "finalized", "stored to"


def _check_reducers(states: dict[Buffer, str], stmt: S.Stmt, scaled: Buffer | None) -> None:
    if isinstance(stmt, S.Alloc):
        if stmt.buffer.attrs.reducer is not None:
            states[stmt.buffer] = _FRESH
        return
    for buffer in _read(stmt):
        if states.get(buffer, _DONE) in (_BEGUN, _OPEN) and buffer is scaled:
            states[buffer] = _OPEN
            return
        if states.get(buffer, _DONE) not in (_DONE, _AGAIN):
            if isinstance(stmt, S.Store) and stmt.buffer is buffer:
                op, _ = buffer.attrs.reducer or ("", "")
                raise _misused(buffer, f"is updated by an operation other than {op!r}", _UPDATE)
            raise _misused(buffer, "is read before T.finalize_reducer", _ORDER)
    if isinstance(stmt, S.ReducerUpdate):
        if states.get(stmt.buffer) == _FRESH:
            raise _misused(stmt.buffer, "is updated before it is started", _START)
        if states.get(stmt.buffer) == _DONE:
            raise _misused(stmt.buffer, "is updated after T.finalize_reducer", _START)
        states[stmt.buffer] = _OPEN
    elif isinstance(stmt, S.ReducerFinalize):
        buffer = stmt.reducer.buffer
        if states.get(buffer) == _FRESH:
            raise _misused(buffer, "is finalized before it is started", _START)
        if states.get(buffer) == _DONE:
            raise _misused(buffer, "is finalized twice", _START)
        states[buffer] = _DONE
    elif isinstance(stmt, S.Store) and states.get(stmt.buffer) == _OPEN:
        raise _misused(stmt.buffer, "is stored to while it collects", _UPDATE)
    else:
        written = {region.buffer for region in stmt.regions_written()}
        written |= {stmt.buffer} if isinstance(stmt, S.Store) else set()
        for buffer in written & states.keys():
            states[buffer] = _AGAIN if states[buffer] in (_DONE, _AGAIN) else _BEGUN


_ORDER = "call T.finalize_reducer first: until then each thread has a partial result"
_START = "start it with T.clear, T.fill or T.reducer_init"
_UPDATE = "update it: `acc[i] += x`, or T.max, T.min and so on for its operation"


def _read(stmt: S.Stmt) -> set[Buffer]:
    """Reducers that ``stmt`` reads other than to finalize them."""
    buffers = {node.buffer for expr in stmt.exprs() for node in find(expr, Load)}
    if not isinstance(stmt, (S.ReducerFinalize, S.ReducerInit)):
        buffers |= {region.buffer for region in stmt.regions_read()}
    return {buffer for buffer in buffers if buffer.attrs.reducer is not None}


def _scaled(stmt: S.Stmt) -> Buffer | None:
    """The sum of which ``stmt``, in a parallel loop, multiplies or divides an element by something
    else: there, every thread that holds a part does so."""
    if not isinstance(stmt, S.Store) or (stmt.buffer.attrs.reducer or ("",))[0] != "sum":
        return None
    value = strip(stmt.value)
    if not isinstance(value, Binary) or value.op not in ("mul", "div"):
        return None
    pairs = [(value.a, value.b), (value.b, value.a)][: 1 + (value.op == "mul")]
    target = Load(stmt.buffer, stmt.indices)
    factor = next((other for old, other in pairs if old is target), target)
    return None if any(node.buffer is stmt.buffer for node in find(factor, Load)) else stmt.buffer


def strip(value: Expr) -> Expr:
    """``value`` without the conversions around it."""
    while isinstance(value, Cast):
        value = value.value
    return value


def _misused(buffer: Buffer, problem: str, hint: str) -> TileValueError:
    return TileValueError(
        f"the reducer `{buffer.name}` {problem}",
        expected="start, updates, T.finalize_reducer, reads, in this order",
        hint=hint,
    )
