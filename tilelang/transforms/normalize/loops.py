"""Canonical grids and loops: tight bounds, interchange, loop unrolling, and block rasterization,
the order in which blocks share the L2 cache and pages of memory."""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import rewrite_blocks, substitute, substitute_in
from tilelang.target import Context
from tilelang.transforms.analysis.dependence import have_own_elements
from tilelang.transforms.analysis.loops import static_extents, values_of
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.normalize.launch_versions import Renamed
from tilelang.transforms.rules import Cursor, Phase, rule


@rule(S.Parallel, needs="simt")
def branch_around_continues(loop: S.Parallel, cursor: Cursor) -> S.Stmt:
    """Replace ``continue`` in a parallel loop by branches.

    A thread that has one iteration has no loop around it, or another loop of the program.
    ``if c: continue`` becomes ``if not c:`` around the rest. Where a ``continue`` is deeper, a flag
    says for the rest that the iteration has ended.
    """
    if not _ends_iteration(loop.body):
        return loop
    flag = Buffer("has_ended", Shape((1,)), DType("bool"), "local.var")
    body = _without_continue(loop.body, flag, False)
    if flag.data in effects.written(body):
        body = S.seq(S.Alloc(buffer=flag, init=E.const(False), loc=loop.loc), body)
    return replace(loop, body=body)


def _ends_iteration(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` holds a ``continue`` of the loop around it."""
    if isinstance(stmt, (S.For, S.While, S.Parallel)):
        return False
    return isinstance(stmt, S.Continue) or any(map(_ends_iteration, stmt.blocks()))


def _without_continue(block: S.Stmt, flag: Buffer, is_nested: bool) -> S.Stmt:
    """``block`` with branches; a ``continue`` in one that is nested sets ``flag``."""
    stmts = S.flat(block)
    at = next((at for at, stmt in enumerate(stmts) if _ends_iteration(stmt)), None)
    if at is None:
        return block
    before, stmt, place = stmts[:at], stmts[at], (E.const(0),)
    if isinstance(stmt, S.Continue):
        ended = S.Store(buffer=flag, indices=place, value=E.const(True), loc=stmt.loc)
        return S.seq(*before, ended)
    rest = _without_continue(S.seq(*stmts[at + 1 :]), flag, is_nested)
    assert isinstance(stmt, S.If)
    if not is_nested and isinstance(stmt.then, S.Continue) and stmt.orelse is None:
        return S.seq(*before, S.If(cond=E.unary("lnot", stmt.cond), then=rest, loc=stmt.loc))
    branch = rewrite_blocks(stmt, lambda inner: _without_continue(inner, flag, True))
    guard = S.If(cond=E.unary("lnot", E.Load(flag, place)), then=rest, loc=stmt.loc)
    return S.seq(*before, branch, guard)


@rule(S.Parallel, needs="simt")
def tighten_parallel_bounds(loop: S.Parallel, cursor: Cursor) -> S.Stmt:
    """Shrink parallel loops to the iterations that pass their guard.

    ``for i, j in T.Parallel(32, n): if i < 16: S[i, j] = acc[i + 16, j]`` is the loop over 16: ``i
    + 16`` leaves the fragment where nothing happens, and no thread would hold what all iterations
    name. Relies on simplified conditions.
    """
    body = loop.body
    if loop.loop_layout is not None or not isinstance(body, S.If):
        return loop
    # With ordered side effects, such as random numbers, each thread keeps its iterations.
    has_effects = any(not call.atom.effect.is_repeatable for call in S.calls(body.then))
    limit = None if body.orelse is not None or has_effects else _limit(body.cond)
    if limit is None:
        return loop
    var, end = limit
    position = next((at for at, loop_var in enumerate(loop.vars) if loop_var is var), None)
    if position is None or not _has_offset_access(body.then, var):
        return loop
    extent = loop.extents[position]
    if not isinstance(extent, E.Const) or not 0 < end <= int(extent.value):
        return loop
    extents = list(loop.extents)
    extents[position] = E.const(end)
    return replace(loop, extents=tuple(extents), body=body.then)


def _has_offset_access(body: S.Stmt, var: E.Var) -> bool:
    """Whether ``body`` accesses elements of a fragment at an offset from ``var``. Without the guard
    the index would leave the fragment, and no thread map would hold them all."""
    return any(
        access.buffer.storage == FRAGMENT and index is not var and var in index.variables
        for access in effects.accesses(body, nested=True)
        for index in access.indices
    )


def _limit(cond: E.Expr) -> tuple[E.Var, int] | None:
    """(variable, end) of ``variable < end`` with a constant end."""
    if not isinstance(cond, E.Binary) or cond.op not in ("lt", "le"):
        return None
    if not isinstance(cond.a, E.Var) or not isinstance(cond.b, E.Const):
        return None
    return cond.a, int(cond.b.value) + (cond.op == "le")


MOST = 8  # iterations that are written out
# The same for tiles that no product holds in registers of its own, and the statements of all.
MOST_FREE, MOST_STATEMENTS = 64, 256


def _register_tiles(launch: S.Launch) -> set[E.Var]:
    """The tiles that products hold in registers of their own."""
    products = S.find(launch.body, S.Gemm)
    return {region.buffer.data for stmt in products for region in (stmt.a, stmt.b, stmt.c)}


@rule(S.For, needs="simt")
def unroll_register_slices(loop: S.For, cursor: Cursor) -> S.Stmt:
    """Interchange or unroll loops over slices of fragments: registers have no addresses.

    ``for k in range(2): for i, j in T.Parallel(16, n): S[i, j] = acc[k * 16 + i, j]`` reads
    registers whose numbers depend on ``k``. While ``k`` is a variable around the operation, a
    thread cannot name them, and the whole fragment would be exchanged in every iteration. Where
    iterations of the parallel loop touch elements of their own, the loops change places: ``k`` is
    one more parallel variable, or each thread runs a loop over it, and the layout of the fragment
    is chosen for all of it. Otherwise short loops are written out: ``k`` is a constant then. Relies
    on simplified loop bounds; runs before tiles get their layouts.
    """
    values = values_of(loop) if loop.kind in ("serial", "unroll") else None
    sliced = _sliced_fragments(loop) if values else set()
    if not sliced or not values:
        return loop
    nest = _interchange(loop, values)
    if nest is not None:
        return nest
    if len(values) > MOST_FREE or not _can_repeat(loop.body):
        return loop
    statements = len(values) * sum(1 for _ in S.walk(loop.body))
    if len(values) > MOST and (
        sliced & cursor.of(_register_tiles, cursor.kernel) or statements > MOST_STATEMENTS
    ):
        return loop
    return S.seq(*(_iteration(loop, value) for value in values))


def _interchange(loop: S.For, values: range) -> S.Parallel | None:
    """The parallel loop that is all of the body of ``loop``, with ``loop`` as its first dimension
    or, where its iterations conflict, inside it; None where that changes the program, and where
    it would be inside though it is to be unrolled and reads or writes global memory: what each of
    its iterations loads is vectors."""
    inner = loop.body
    while isinstance(inner, S.For) and values_of(inner) == range(1):
        inner = substitute_in(inner.body, {inner.var: inner.start})
    extents = static_extents(inner) if isinstance(inner, S.Parallel) else None
    if not isinstance(inner, S.Parallel) or extents is None or inner.loop_layout is not None:
        return None
    if values.step != 1 or loop.hints or inner.hints:
        return None
    own, around = dict(zip(inner.vars, extents)), {loop.var: len(values)}
    if have_own_elements(inner.body, {**own, **around}, {}):
        start = simplify(loop.var + values.start)
        body = inner.body if not values.start else substitute_in(inner.body, {loop.var: start})
        count = E.const(len(values), loop.var.dtype)
        return replace(
            inner, vars=(loop.var, *inner.vars), extents=(count, *inner.extents), body=body
        )
    accesses = effects.accesses(inner, nested=True)
    moves = loop.kind == "unroll" and any(a.buffer.storage == "global" for a in accesses)
    unrolled = moves and len(values) <= MOST and _can_repeat(inner)
    if unrolled or not have_own_elements(inner.body, own, around):
        return None
    return replace(inner, body=replace(loop, body=inner.body))


def _iteration(loop: S.For, value: int) -> S.Stmt:
    """The body of ``loop`` for one value, with variables of its own."""
    values: dict[E.Var, E.Expr] = {loop.var: E.const(value)}
    for stmt in S.walk(loop.body):
        values.update((var, E.Var(var.name, var.dtype)) for var in stmt.parts("var", "vars"))
    return _Iteration(values).rewrite(loop.body)


class _Iteration(Renamed):
    """The same with simple expressions."""

    def expr(self, expr: E.Expr) -> E.Expr:
        result = substitute(expr, self.names)
        return expr if result is expr else simplify(result)


def _sliced_fragments(loop: S.For) -> set[E.Var]:
    """The fragments of which a loop or a tile operation that threads share takes a slice that
    begins at an index with the variable of ``loop``."""
    names = {loop.var}
    for let in S.find(loop.body, S.Let):
        names |= {let.var} if names & let.value.variables else set()
    return {
        access.data
        for stmt in S.find(loop.body, S.Parallel, S.TileOp)
        for access in effects.accesses(stmt, nested=True)
        if access.buffer.storage == FRAGMENT and access.mode != effects.NAME
        if any(names & index.variables for index in access.indices)
    }


def _can_repeat(body: S.Stmt) -> bool:
    """Whether ``body`` may be repeated: it allocates no tiles, has no views, whose address may
    depend on the iteration, and does not leave the loop."""
    return not S.holds(body, S.Alloc, S.View, S.Break, S.Continue)


@rule(S.Launch, needs="page_locality")
def rasterize_blocks(launch: S.Launch, cursor: Cursor) -> S.Stmt:
    """Order the blocks of a grid so that neighbours write to neighbouring memory.

    The first axis of a grid counts fastest, so that its neighbours run at the same time. A kernel
    that moves each tile once, a transpose say, and whose second axis is the one along the rows of
    what it writes, gets the two axes exchanged: the pages of memory that are open are written to
    the end. On an H200 a transpose of 16384 x 16384 bfloat16 went from 0.956 to 0.975 of a copy or
    more. Products keep the order of the program: their blocks share what they read.

    What blocks do does not depend on their order, unless they tell each other something: kernels
    with atomic updates, waits or loops of unknown length stay. Relies on constant grids.
    """
    if not _can_transpose_grid(launch, cursor.context) or not _is_written_across(launch):
        return launch
    x, y, *other_extents = launch.grid
    i, j, *other_vars = launch.block_vars
    return replace(launch, grid=(y, x, *other_extents), block_vars=(j, i, *other_vars))


def _can_transpose_grid(launch: S.Launch, context: Context) -> bool:
    """Whether the order of blocks is free, and the transposed grid is within the limits."""
    own = ("swizzle", "cluster_dims", "import_source", "prelude")  # orders or names blocks itself
    if len(launch.grid) < 2 or launch.hints.without(*own) is not launch.hints:
        return False
    first, second = launch.grid[:2]
    if not (isinstance(first, E.Const) and isinstance(second, E.Const)):
        return False
    if not 1 < int(first) <= context.limits.grid[1] or int(second) == 1:
        return False
    ordered = any(call.atom.effect is not Effect.NONE for call in S.calls(launch.body))
    return not ordered and not S.holds(launch.body, S.Gemm, S.HardwareOp, S.AtomicTile, S.While)


def _is_written_across(launch: S.Launch) -> bool:
    """Whether all writes to global memory are along the second axis of the grid, and the tensors
    that are read along the first one are not larger."""
    first, second = launch.block_vars[:2]
    lets = {s.var: s.value for s in S.find(launch.body, S.Let)}

    def depends(expr: E.Expr) -> frozenset[E.Var]:
        variables = frozenset(expr.variables)
        return variables.union(*(depends(lets[var]) for var in variables if var in lets))

    orders, written, against = set[bool](), set[Buffer](), set[Buffer]()
    for access in effects.accesses(launch.body, nested=True):
        if access.buffer.storage != "global":
            continue
        *outer, last = map(depends, access.indices)
        if access.writes:
            orders.add(second in last and first not in last and first in frozenset().union(*outer))
            written.add(access.buffer)
        elif next(
            (first in each for each in (last, *outer[::-1]) if each & {first, second}), False
        ):
            against.add(access.buffer)
    sizes = [sum(buffer.constant_bytes for buffer in each) for each in (against, written)]
    return orders == {True} and sizes[0] <= sizes[1]


normalize_loops = Phase(
    branch_around_continues, tighten_parallel_bounds, unroll_register_slices, rasterize_blocks
)
