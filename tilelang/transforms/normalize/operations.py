"""Canonical tile operations and calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from tilelang.errors import TileUnsupportedError, TileValueError
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import interval
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.elementwise import INT, NAMES, as_nest, element, loop_of
from tilelang.ir.facts import bounds_of
from tilelang.ir.memo import memoized
from tilelang.ir.tables import ALL_OF, ANY_OF, MBARRIER_ARRIVE
from tilelang.ir.uniform import Varying
from tilelang.ir.visitor import let_values, map_exprs, rebuild, rewrite_exprs, substitute
from tilelang.target.operations import CP_ASYNC_COMMIT
from tilelang.transforms.analysis.dependence import is_same_region, may_overlap
from tilelang.transforms.analysis.groups import (
    MAX_BARRIERS,
    ThreadGroups,
    thread_groups,
    thread_number,
)
from tilelang.transforms.analysis.scopes import FRAGMENT, is_private
from tilelang.transforms.normalize.fold_zero_init import fold_zero_init
from tilelang.transforms.normalize.scalarize_vectors import scalarize_vectors
from tilelang.transforms.rules import Cursor, Phase, rule


@rule(S.Launch)
def number_barriers(launch: S.Launch, cursor: Cursor) -> S.Launch:
    """Map named barriers of the program to hardware barrier numbers.

    A block has 16 barriers, and the first is that of all its threads. The numbers of a program are
    names: those above 15 become free ones, and any two that differ still do. A number that is known
    at run time alone stays, with all that it may be.

    Raises:
        TileValueError: there are more of them than barriers.
    """
    used: set[int] = {0}
    above: dict[int, S.Stmt] = {}  # with the first statement that names it
    for stmt in S.walk(launch.body):
        for call in stmt.calls():
            for _, number in _numbers(call):
                if not isinstance(number, E.Const):
                    known = interval(number)
                    last = int(min(known.high + 1, MAX_BARRIERS))
                    used.update(range(int(max(known.low, 0)), last))
                elif int(number.value) < MAX_BARRIERS:
                    used.add(int(number.value))
                else:
                    above.setdefault(int(number.value), stmt)
    if not above:
        return launch
    free = [number for number in range(MAX_BARRIERS) if number not in used]
    if len(above) > len(free):
        refused, stmt = list(above.items())[len(free)]
        raise TileValueError(
            f"all named barriers are in use; none is left for number {refused}",
            expected=f"at most {MAX_BARRIERS - 1} different ones besides that of all threads",
            got=f"{len(above) + len(used) - 1}, all values of run-time numbers included",
            loc=stmt.loc,
        )
    new = dict(zip(above, free))

    def renamed(expr: E.Expr) -> E.Expr:
        if not isinstance(expr, E.Call):
            return expr
        args = list(expr.args)
        for at, number in _numbers(expr):
            if isinstance(number, E.Const) and int(number.value) in new:
                args[at] = E.const(new[int(number.value)], number.dtype)
        return replace(expr, args=tuple(args)) if tuple(args) != expr.args else expr

    return launch.with_body(map_exprs(launch.body, renamed))


def _numbers(call: E.Call) -> Iterator[tuple[int, E.Expr]]:
    """The barrier numbers among the operands of a call, with their positions."""
    for at, (operand, number) in enumerate(zip(call.atom.operands, call.args)):
        if operand.space == "barrier id":
            yield at, number


# Element i of their result needs element i, or those before.
_ALIGNED = (S.Copy, S.AtomicTile, S.Scan)
_SEPARATED = (*_ALIGNED, S.ElementOp, S.Reduce, S.Gemm)


@rule(*_SEPARATED)
def separate_overlaps(stmt: S.TileOp, cursor: Cursor) -> S.Stmt | list[S.Stmt]:
    """Copy an operand that an operation overwrites while it reads it.

    A tile operation reads all of its operands before it writes: ``T.copy(S[0:7], S[1:8])`` moves
    rows, ``T.transpose(S, S)`` transposes a tile in place. Loops over elements, and threads that
    share them out, would read what others have written already. Where the region that an operation
    reads may overlap the one that it writes, the elements are copied to a fragment first (an array
    of the thread where the tile is one), and the operation reads that.

    Operations on one region element by element (a copy onto itself, a scan in place) need none.
    Relies on constant extents having been folded; runs before any pass that turns operations into
    loops or plans copies.

    Raises:
        TileUnsupportedError: the extents of the tile that it would copy are not constants.
    """
    written = stmt.regions_written()
    moved: dict[str, Any] = {}
    before: list[S.Stmt] = []
    for slot in fields(stmt):
        region = getattr(stmt, slot.name)
        if not isinstance(region, Region) or any(region is other for other in written):
            continue
        met = [other for other in written if _may_overlap(stmt, region, other, cursor)]
        if met:
            tile = _tile(region, met[0], stmt)
            moved[slot.name] = tile
            before += [
                S.Alloc(buffer=tile.buffer, loc=stmt.loc),
                S.Copy(src=region, dst=tile, loc=stmt.loc),
            ]
    return [*before, replace(stmt, **moved)] if moved else stmt


def _may_overlap(stmt: S.Stmt, read: Region, written: Region, cursor: Cursor) -> bool:
    """Whether ``stmt`` may write an element of ``read`` that it reads for another one."""
    bounds, lets = cursor.of(bounds_of, cursor.kernel), cursor.of(_lets, cursor.kernel)
    if not may_overlap(read, written, bounds, lets):
        return False
    return not (isinstance(stmt, _ALIGNED) and is_same_region(read, written, bounds, lets))


def _lets(launch: S.Launch) -> dict[E.Var, E.Expr]:
    """The values of names. A value that comes from memory or a call may differ each time: it keeps
    its name."""
    return let_values(S.find(launch.body, S.Let), lambda value: not E.holds(value, E.Load, E.Call))


def _tile(region: Region, written: Region, stmt: S.Stmt, scope: str = FRAGMENT) -> Region:
    """A tile for the elements of ``region``, of which ``stmt`` may write some in ``written``."""
    buffer = region.buffer
    if not all(isinstance(extent, int) for extent in region.extents):
        raise TileUnsupportedError(
            f"an operation reads a region of `{buffer.name}` and writes one of "
            f"`{written.buffer.name}` that may overlap",
            expected="regions that do not overlap, or constant extents, for which the elements "
            "can be kept in a fragment meanwhile",
            got=f"{region!r} and {written!r}",
            hint="copy the elements to a tile of their own first, and write from there",
            loc=stmt.loc,
        )
    scope = "local" if is_private(region) else scope
    tile = Buffer(f"{buffer.name}_before", Shape(region.extents), buffer.dtype, scope)
    return Region(tile, (E.const(0),) * len(region.extents), region.extents)


@rule(E.Call, needs="async_products", where=lambda _, context: context.options.fast_math)
def fuse_exponents(expr: E.Call, cursor: Cursor) -> E.Expr:
    """Compute a scaled difference in an exponent by one fused multiply-add.

    ``exp2((x - y) * c)``, as softmax has it for every score ``x`` of a row with the maximum ``y``,
    becomes ``exp2(fma(x, c, -(y * c)))``: the product with ``y`` is one for a row. The results
    differ by the rounding of ``y * c``, so it is done where the program allows reassociation, and
    on machines whose products of warpgroups leave the threads with little more than that to do.
    """
    if expr.op != "exp2" or str(expr.dtype) != "float32":
        return expr
    (scaled,) = expr.args
    if not (isinstance(scaled, E.Binary) and scaled.op == "mul"):
        return expr
    for past, scale in ((scaled.a, scaled.b), (scaled.b, scaled.a)):
        if isinstance(scale, E.Const) and isinstance(past, E.Binary) and past.op == "sub":
            return E.call("exp2", E.call("fma", past.a, scale, E.unary("neg", past.b * scale)))
    return expr


_MOST_UNROLLED = 64  # iterations that are unrolled


@rule(S.Reduce, S.Scan)
def separate_threads(stmt: S.Reduce | S.Scan, cursor: Cursor) -> S.Stmt | list[S.Stmt]:
    """Give reductions and scans of a single thread private arrays.

    ``T.reduce_sum(S[tx, 0:16], M[tx : tx + 1], dim=1)`` has a region for each thread. So a thread
    copies its own, reduces that, and copies the result. Some threads of a warp cannot divide the
    work: the first of them does it for all, and scans a fragment in an array, too. Relies on
    constant extents having been folded.

    Raises:
        TileUnsupportedError: the extents are not constants.
    """
    groups, place, own = _groups(cursor), cursor.around[-1], _is_for_each_thread(stmt, cursor)
    few = place in groups.partial - groups.divergent and not own and not is_private(stmt.src)
    holds_fragment = any(region.buffer.storage == FRAGMENT for region in _regions(stmt))
    result: list[S.Stmt] = [stmt]
    if own or (few and isinstance(stmt, S.Scan) and holds_fragment):
        result = _with_arrays(stmt)
    if few and not groups.is_alone(place):
        is_first = thread_number(cursor.kernel).equal(groups.of(place)[0])
        return S.If(cond=is_first, then=S.seq(*result), loc=stmt.loc)
    return result if len(result) > 1 else stmt


def _with_arrays(stmt: S.Reduce | S.Scan) -> list[S.Stmt]:
    """``stmt`` on private arrays, with copies from and to its regions."""
    regions = {"src": stmt.src, "dst": stmt.dst}
    mine: dict[str, Any] = {
        name: _tile(region, stmt.dst, stmt, "local")
        for name, region in regions.items() if not is_private(region)
    }  # fmt: skip
    read = ("src",) if isinstance(stmt, S.Scan) or stmt.clear else ("src", "dst")
    return [
        *(S.Alloc(buffer=tile.buffer, loc=stmt.loc) for tile in mine.values()),
        *(S.Copy(src=regions[n], dst=mine[n], loc=stmt.loc) for n in read if n in mine),
        replace(stmt, **mine),
        *(S.Copy(src=mine[n], dst=stmt.dst, loc=stmt.loc) for n in mine if n == "dst"),
    ]


def _is_for_each_thread(stmt: S.Reduce | S.Scan, cursor: Cursor) -> bool:
    """Whether each thread reads a region of its own, or some threads of a warp read one that they
    cannot divide, for arrays of their own."""
    groups = _groups(cursor)
    is_partial = cursor.around[-1] in groups.partial | groups.divergent
    is_private_copy = is_partial and is_private(stmt.dst) and stmt.src.buffer.storage != FRAGMENT
    return is_private_copy or _begins_elsewhere(stmt, cursor)


def _groups(cursor: Cursor) -> ThreadGroups:
    return thread_groups(cursor.kernel, cursor.context.limits.warp)


def _begins_elsewhere(stmt: S.TileOp, cursor: Cursor) -> bool:
    """Whether a region of ``stmt`` begins elsewhere for some of the threads that run it."""
    varying, values = cursor.of(_without_broadcasts, cursor.kernel), _groups(cursor).values
    exprs = (expr for region in _regions(stmt) for expr in region.region_exprs())
    return any(values.differs(at, cursor.around[-1]) for at in filter(varying.varies, exprs))


def _without_broadcasts(launch: S.Launch) -> Varying:
    """The values that differ between threads, but for those that they get from each other."""
    return Varying(launch, broadcasts=True)


# Reductions and scans know such arrays.
@rule(S.Copy, S.Fill, S.ElementOp, S.AtomicTile)
def lower_thread_local_tiles(stmt: S.TileOp, cursor: Cursor) -> S.Stmt | list[S.Stmt]:
    """Lower tile operations on arrays and regions of a thread to loops.

    ``alloc_local`` gives each thread an array, and a region may begin elsewhere for each thread.
    An operation on one is not distributed over the threads: each of them copies, fills or adds all
    of its own elements. ``T.copy(A[tx * 4 : tx * 4 + 4], mine)`` brings each thread its four, and
    ``T.copy(A[tx, 0:16], S[tx, 0:16])`` one row. The loops need no layout; to later passes they are
    statements that every thread executes.

    Only an atomic update of memory that threads share, with an array of the thread, acts once for
    each element, with the array of whichever thread makes it: the front end has seen that it is the
    same in all of them.

    With a ``loop_layout`` threads share the elements of a copy, which is then left alone. So are
    asynchronous copies to registers, which they cannot write, and those of TMA, which one thread
    starts. An asynchronous copy of other regions is one that has arrived.

    Raises:
        TileUnsupportedError: each thread copies elements of its own to a fragment of the block.
    """
    own = any(map(is_private, _regions(stmt)))
    commits = False
    if isinstance(stmt, S.Copy):
        if stmt.mode not in ("copy", *([] if own else ["async"])) or stmt.loop_layout is not None:
            return stmt
        commits = stmt.mode == "async" and bool(stmt.hints.commit)
    if not own and not _begins_elsewhere(stmt, cursor):
        return stmt
    if isinstance(stmt, S.Copy) and stmt.dst.buffer.storage == FRAGMENT:
        return _refuse_fragment(stmt, cursor)
    loop = loop_of(stmt)
    assert loop is not None
    if own and isinstance(stmt, S.AtomicTile) and not is_private(stmt.dst):
        varying = cursor.of(Varying, cursor.kernel)
        if not any(map(varying.varies, stmt.dst.region_exprs())):  # all threads mean one place
            names, extents = loop.vars or (E.Var("i", INT),), loop.extents or (E.const(1),)
            return replace(loop, vars=names, extents=extents)
    nest = _as_registers(as_nest(loop))
    if commits and cursor.context.has("cp_async"):
        return [nest, S.do(CP_ASYNC_COMMIT, loc=stmt.loc)]
    return nest


def _refuse_fragment(copy: S.Copy, cursor: Cursor) -> S.Copy:
    """``copy`` into a fragment, if only data may make its region differ between threads.

    Raises:
        TileUnsupportedError: the thread index does.
    """
    lets, threads = cursor.of(_lets, cursor.kernel), set(cursor.kernel.thread_vars)
    for start in (substitute(expr, lets) for expr in copy.src.region_exprs()):
        if not E.holds(start, E.Load, E.Call) and threads & start.variables:
            raise TileUnsupportedError(
                f"each thread copies other elements into the fragment `{copy.dst.buffer.name}`",
                expected="one region: a fragment is one tile, which each thread would overwrite",
                got=f"{copy.src!r}, which depends on the thread index",
                hint="use T.alloc_local, of which each thread has its own", loc=copy.loc,
            )  # fmt: skip
    return copy


def _as_registers(loop: S.Stmt) -> S.Stmt:
    """``loop`` unrolled, so that elements of the array can be registers; its innermost
    elements as vectors."""
    if not isinstance(loop, S.For):
        return loop
    known = isinstance(loop.stop, E.Const) and int(loop.stop.value) <= _MOST_UNROLLED
    kind = "unroll" if isinstance(loop.body, S.For) else "vectorized"
    return replace(loop, body=_as_registers(loop.body), kind=kind if known else loop.kind)


def _regions(stmt: S.TileOp) -> list[Region]:
    return [*stmt.regions_read(), *stmt.regions_written()]


ASKS = (ANY_OF, ALL_OF)
FIRST = (E.const(0),)


@rule(S.Stmt)
def expand_any_all(stmt: S.Stmt, cursor: Cursor) -> S.Stmt | list[S.Stmt]:
    """Lower T.any_of and T.all_of to loops.

    A C expression holds no loop, so the answer is found in statements in front of the one that
    asks, which then reads a variable. A loop that asks in its condition asks at the head of its
    body. Relies on nothing; later passes see ordinary loads, to which the rules of bounds and of
    threads apply.
    """
    if not any(call.atom in ASKS for call in stmt.calls()):
        return stmt
    if isinstance(stmt, S.While):
        stop = S.If(cond=E.unary("lnot", stmt.cond), then=S.Break(loc=stmt.loc), loc=stmt.loc)
        head = expand_any_all.make(stop, cursor)
        assert isinstance(head, list)
        return replace(stmt, cond=E.const(True), body=S.seq(*head, stmt.body))
    answers = _Answers(stmt)
    result = rewrite_exprs(stmt, answers.expr)  # which finds what is asked
    return [*answers.out, result]


class _Answers:
    """The statements that find the answers which one statement asks for."""

    def __init__(self, stmt: S.Stmt) -> None:
        self.asking = stmt
        self.out: list[S.Stmt] = []

    @memoized
    def expr(self, expr: E.Expr) -> E.Expr:
        """``expr`` with variables for the answers."""
        rebuilt = rebuild(expr, self.expr)
        if isinstance(rebuilt, E.Call) and rebuilt.atom in ASKS:
            return self.answer(rebuilt)
        return rebuilt

    def answer(self, call: E.Call) -> E.Expr:
        """The variable with the answer of ``call``, whose loops go to ``out``."""
        is_all = call.op == "all_of"
        flag = Buffer("all" if is_all else "any", Shape((1,)), DType("bool"), "local.var")
        region = _region(call.args[0])
        dims = region.tile_dims()
        variables = tuple(E.Var(NAMES[d], INT) for d in range(len(dims)))
        value = E.Load(region.buffer, element(region, variables))
        holds = value if value.dtype.is_bool else E.binary("ne", value, E.const(0, value.dtype))
        loop = S.Parallel(
            vars=variables,
            extents=tuple(E.as_expr(region.extents[d]) for d in dims),
            body=S.If(
                cond=E.unary("lnot", holds) if is_all else holds,
                then=S.Store(buffer=flag, indices=FIRST, value=E.const(not is_all)),
                loc=self.asking.loc,
            ),
            loc=self.asking.loc,
        )
        self.out.append(S.Alloc(buffer=flag, init=E.const(is_all), loc=self.asking.loc))
        self.out.append(as_nest(loop))
        return E.Load(flag, FIRST)


def _region(arg: E.Expr) -> Region:
    """The elements that an operand names: a region, a whole buffer by its address, an element."""
    if isinstance(arg, E.RegionArg):
        return arg.region
    assert isinstance(arg, (E.AddressOf, E.Load))
    if isinstance(arg, E.AddressOf):
        return arg.buffer.whole()
    return Region(arg.buffer, arg.indices, (1,) * len(arg.indices))


@rule(S.Gemm)
def signal_gemm_completion(stmt: S.Gemm, cursor: Cursor) -> S.Stmt | list[S.Stmt]:
    """Let one thread arrive at the barrier of a GEMM.

    ``T.gemm(A, B, C, mbar=bar)`` arrives at ``bar`` once C may be read and A and B may be
    overwritten. So a barrier follows it (the barrier pass inserts it, and waits for what warpgroups
    have in flight), and the first of them arrives. Where the result is in tensor memory, the
    tensor core arrives itself.

    Runs before all passes that analyse waits, which see the arrival like one of the program.
    """
    if stmt.barrier is None:
        return stmt
    arrive = S.do(MBARRIER_ARRIVE, stmt.barrier, loc=stmt.loc)
    first = thread_number(cursor.kernel).equal(_groups(cursor).of(cursor.around[-1])[0])
    quiet = replace(stmt, barrier=None, hints=replace(stmt.hints, signals=True))
    return [quiet, S.If(cond=first, then=arrive, loc=stmt.loc)]


@rule(S.For)
def evaluate_ends_once(loop: S.For, cursor: Cursor) -> S.Stmt | list[S.Stmt]:
    """Name an end of a loop that its body changes, or that changes memory: it is evaluated once."""
    loads = {load.buffer.data for load in E.find(loop.stop, E.Load)}
    if E.is_repeatable(loop.stop) and not (loads and loads & effects.written(loop.body)):
        return loop
    end = E.Var(f"{loop.var.name}_end", loop.stop.dtype)
    return [S.Let(var=end, value=loop.stop, loc=loop.loc), replace(loop, stop=end)]


normalize_operations = Phase(
    number_barriers, separate_overlaps, fold_zero_init, fuse_exponents, separate_threads,
    lower_thread_local_tiles, expand_any_all, signal_gemm_completion, evaluate_ends_once,
    scalarize_vectors,
)  # fmt: skip
