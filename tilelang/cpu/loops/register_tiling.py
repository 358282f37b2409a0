"""Register tiling: several iterations that load the same vectors are executed together.

A depthwise convolution with channels as the contiguous dimension is a loop over vectors of channels
inside loops over pixels. For each tap of a pixel it loads one vector of the image and one of the
weights: two loads per multiply-add, so the loads are the bottleneck. Two rows of four pixels
together load the weights once and share most of the image. They also have eight independent
accumulators, where a single one would be a dependence chain.

Outer loops around an innermost parallel loop are unrolled and jammed into it, as are blocks, which
have no order. The operations of each iteration keep their order, so results do not change.
Conditions: no iteration uses what another one writes, and the body is straight-line code of names,
variables and one store. Remaining iterations follow in the original form.

This pays where many loads do not depend on one of the loops. It does not where windows overlap only
along the vector: they are in the L1 cache anyway, and one row after the other is a better order for
memory. The pass counts which unrolling of which loop shares most loads; the variables of all copies
must fit into the registers of any machine. Runs after loop fusion and array contraction, and before
guards are inserted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import product
from math import prod

from tilelang.cpu.loops.nests import iteration, peel
from tilelang.cpu.loops.unroll_and_jam import jammed
from tilelang.cpu.loops.vectorization import is_position
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.linear import Linear, parted
from tilelang.ir.memo import memoized
from tilelang.ir.visitor import inline_lets, rewrite_blocks, rewrite_launches, substitute
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.analysis.dependence import Memory
from tilelang.transforms.analysis.loops import steps_by_one, trip_count
from tilelang.transforms.notes import with_lines

MOST = 8  # variables of the iterations that are taken at a time: half of sixteen registers
LEAST = 8  # vectors that an iteration loads: where it computes less, it waits for memory
SHORTEST = 16  # iterations of the innermost loop, if their number is known
STATEMENTS = 320  # of all that is written out: a C compiler takes its time for each
LOADS = 16  # of a statement, at most: what is shared stays in registers from one to the next
FEWEST = 32  # blocks that are left for the cores, at least


def tile_registers(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with iterations that update the same elements, or load the same vectors, taken
    several at a time."""
    memory = Memory(func)

    def shared(launch: S.Launch) -> S.Stmt:
        lines: list[str] = []
        rows: list[str] = []
        grid = launch.grid

        def with_rows(stmt: S.For) -> S.For:
            """``stmt`` with rows of its innermost loops jammed."""
            result = jammed(stmt, memory)
            if result is not None:
                rows.extend(filter(None, result[1:]))
                return result[0]
            inner = with_rows(stmt.body) if isinstance(stmt.body, S.For) else stmt.body
            return stmt if inner is stmt.body else replace(stmt, body=inner)

        def visit(stmt: S.Stmt) -> S.Stmt:
            nonlocal grid
            stmt = with_rows(stmt) if isinstance(stmt, S.For) else stmt
            nest = _nest(stmt)
            if nest is None:
                return rewrite_blocks(stmt, visit)
            blocks = _blocks(launch) if S.flat(launch.body) == (stmt,) else {}
            factors = _factors(nest, memory, blocks)
            if not factors:
                return stmt
            lines.append(_tiling_note(nest, factors))
            grid = tuple(
                E.const(blocks[var] // factors[var], n.dtype) if var in factors else n
                for var, n in zip(launch.block_vars, grid)
            )
            return _jam(nest, factors, launch)

        body = visit(launch.body)
        if body is launch.body:
            return launch
        return with_lines(replace(launch, grid=grid, body=body), (*rows, *lines))

    return rewrite_launches(func, shared)


# -- what can be jammed ----------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class _Nest:
    """Loops one in the other, the innermost one, which becomes vectors, and its statements."""

    around: tuple[S.For, ...]
    inner: S.For
    body: tuple[S.Stmt, ...]


def _nest(stmt: S.Stmt) -> _Nest | None:
    """The loops at the top of ``stmt`` and the straight body in them."""
    around, rest = peel(stmt, _is_plain)
    if isinstance(rest, S.For) or not around or not around[-1].hints:
        return None
    *around, inner = around
    body, count = S.flat(inner.body), trip_count(inner)
    short = count is not None and count < SHORTEST
    return None if short or not _is_straight(body) else _Nest((*around,), inner, body)


def _is_plain(loop: S.For) -> bool:
    """Whether a loop may be part of a nest."""
    calls = any(E.holds(x, E.Load, E.Call) for x in (loop.start, loop.stop))
    known = loop.hints.has_only("parallel")
    return steps_by_one(loop) and loop.kind == "serial" and not calls and known


def _is_straight(body: tuple[S.Stmt, ...]) -> bool:
    """Whether ``body`` is names, variables of its own and, at its end, the one store to memory."""
    local_vars = {
        stmt.buffer.data for stmt in body if isinstance(stmt, S.Alloc) and stmt.buffer.is_var
    }
    last = body[-1] if body else None
    if not isinstance(last, S.Store) or last.buffer.is_var or last.buffer.strides is not None:
        return False
    return all(
        isinstance(stmt, S.Let)
        or (isinstance(stmt, (S.Alloc, S.Store)) and stmt.buffer.data in local_vars)
        for stmt in body[:-1]
    )


def _blocks(launch: S.Launch) -> dict[E.Var, int]:
    """The block variables of a launch whose grid is constant, with their extents."""
    if not all(isinstance(extent, E.Const) for extent in launch.grid):
        return {}
    return {var: int(n) for var, n in zip(launch.block_vars, launch.grid)}


# -- what is shared --------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class _Address:
    """Where a vector is loaded from: in each dimension a distance and the steps that it goes with
    each loop that may be jammed, from ``base`` on. A ``loose`` loop leads anywhere."""

    base: tuple[object, ...]
    forms: tuple[tuple[int, tuple[int, ...]], ...]
    loose: tuple[bool, ...]

    def at(self, offsets: tuple[int, ...]) -> tuple[object, ...]:
        """The address in the iteration that is ``offsets`` further."""
        address: list[object] = [self.base]
        for distance, steps in self.forms:
            address.append(distance + sum(step * n for step, n in zip(steps, offsets)))
        return (*address, *(n for n, loose in zip(offsets, self.loose) if loose))


def _address(load: E.Load, dims: tuple[E.Var, ...]) -> _Address:
    base: list[object] = [load.buffer.data]
    forms: list[tuple[int, tuple[int, ...]]] = []
    loose = set[E.Var]()
    for index in load.indices:
        form = parted(index, frozenset(dims))
        if form is None:
            loose.update(index.variables)
            base.append(index)
            continue
        rest = Linear.of(form[1])
        base.append(rest.terms)
        forms.append((rest.constant, tuple(form[0].factor(var) for var in dims)))
    return _Address((*base,), (*forms,), tuple(var in loose for var in dims))


class _Loads:
    """The vectors that an iteration of a nest loads, and how many several of them do."""

    def __init__(self, nest: _Nest, dims: dict[E.Var, int]) -> None:
        self.dims = dims
        body = S.flat(inline_lets(S.seq(*nest.body), is_position))
        names = {stmt.var for stmt in body if isinstance(stmt, S.Let)}
        self.each = [list(_vectors(stmt, nest.inner.var, names)) for stmt in body]
        self.all = list(dict.fromkeys(load for stmt in self.each for load in stmt))

    def is_profitable(self) -> bool:
        """Whether there are many loads, and a third of them does not depend on some loop."""
        still = [load for load in self.all if any(v not in load.variables for v in self.dims)]
        longest = max(map(len, self.each))
        return len(self.all) >= LEAST and longest <= LOADS and 3 * len(still) >= len(self.all)

    @cached_property
    def addresses(self) -> list[_Address]:
        """The addresses of all loads."""
        return [_address(load, tuple(self.dims)) for load in self.all]

    @memoized
    def of(self, factors: tuple[int, ...]) -> int:
        """Number of distinct loads of this many iterations of each loop."""
        offsets = list(product(*map(range, factors)))
        return len({address.at(n) for address in self.addresses for n in offsets})

    def cost(self, factors: tuple[int, ...]) -> int:
        """The cost of all iterations with these factors, remaining iterations one by one: loads,
        and the latency of a dependent sum, once per jammed iteration."""
        groups = [
            ((factor, n // factor), (1, n % factor)) if factor > 1 else ((1, n),)
            for factor, n in zip(factors, self.dims.values())
        ]
        return sum(
            prod(count for _, count in group)
            * (self.of(tuple(n for n, _ in group)) + len(self.all) // 2)
            for group in product(*groups)
        )


def _vectors(stmt: S.Stmt, var: E.Var, names: set[E.Var]) -> Iterator[E.Load]:
    """The loads of ``stmt`` from memory that the innermost loop moves, and ``names`` do not."""
    for expr in stmt.exprs():
        for load in E.find(expr, E.Load):
            if load.buffer.is_var or var not in load.variables:
                continue
            if names.isdisjoint(load.variables):
                yield load


# -- how many at a time ----------------------------------------------------------------------------
def _factors(nest: _Nest, memory: Memory, blocks: dict[E.Var, int]) -> dict[E.Var, int]:
    """The unroll factors of loops and blocks; empty where nothing is jammed."""
    all_loops = (*nest.around, nest.inner)
    trips = {loop.var: trip_count(loop) or 0 for loop in nest.around}
    bounds = [bound for loop in all_loops for bound in (loop.start, loop.stop)]
    moved = {var for bound in bounds for var in bound.variables}
    dims = {var: n for var, n in {**blocks, **trips}.items() if n > 1 and var not in moved}
    loads = _Loads(nest, dims)
    if not loads.is_profitable() or not memory.facts(all_loops[0]).quiet:
        return {}
    for loop in nest.around:
        if loop.var in dims and not memory.is_fusion_legal(loop, loop):
            del dims[loop.var]
    if not loads.is_profitable():
        return {}
    best = min(_choices(nest, dims, blocks), key=lambda choice: _cost_key(choice, loads, blocks))
    if 5 * loads.cost(best) > 3 * loads.cost((1,) * len(dims)):
        return {}
    return {var: factor for var, factor in zip(dims, best) if factor > 1}


def _cost_key(
    choice: tuple[int, ...], loads: _Loads, blocks: dict[E.Var, int]
) -> tuple[int, int, int]:
    """The sort key of a choice: its cost, then its length, then the merged blocks."""
    shared = prod(factor for var, factor in zip(loads.dims, choice) if var in blocks)
    return loads.cost(choice), prod(choice), shared


def _choices(
    nest: _Nest, dims: dict[E.Var, int], blocks: dict[E.Var, int]
) -> Iterator[tuple[int, ...]]:
    """The possible unroll factors of each of ``dims``."""
    variables = sum(isinstance(stmt, S.Alloc) for stmt in nest.body)
    cap = MOST // max(1, variables + any(isinstance(stmt, S.Let) for stmt in nest.body))
    # The iterations that whole rounds leave are written once more.
    statements = STATEMENTS if (trip_count(nest.inner) or 1) % SHORTEST == 0 else STATEMENTS // 2
    for choice in product(*(_factors_of(n, var in blocks) for var, n in dims.items())):
        shared = prod(factor for var, factor in zip(dims, choice) if var in blocks)
        written = prod(factor + (n % factor > 0) for factor, n in zip(choice, dims.values()))
        if prod(choice) > max(1, cap) or (shared > 1 and prod(blocks.values()) // shared < FEWEST):
            continue
        if max(choice) == 1 or written * len(nest.body) <= statements:
            yield choice


def _factors_of(n: int, is_full: bool) -> list[int]:
    """The possible unroll factors for ``n`` iterations; for blocks only divisors."""
    return [few for few in range(1, min(n, MOST) + 1) if n % few == 0 or not is_full]


# -- the nest with several iterations at a time ----------------------------------------------------
def _tiling_note(nest: _Nest, factors: dict[E.Var, int]) -> str:
    """The note of the transformation, for reports."""
    loc = nest.body[-1].loc
    subject = f"line {loc.line}" if loc is not None else f"the loop of {nest.inner.var.name}"
    loops = {loop.var for loop in nest.around}
    counts = (f"{n} {'iterations' if var in loops else 'blocks'}" for var, n in factors.items())
    return f"{subject} takes {' x '.join(counts)} at a time (register tiling)"


def _jam(nest: _Nest, factors: dict[E.Var, int], launch: S.Launch) -> S.Stmt:
    """The nest in a block that takes so many iterations at a time."""
    iterations: list[dict[E.Var, E.Expr]] = [{}]
    for var in launch.block_vars:
        if var in factors:
            iterations = _split(iterations, var, var * factors[var], factors[var])
    return _loops((*nest.around, nest.inner), nest.body, factors, iterations)


def _split(
    iterations: list[dict[E.Var, E.Expr]], var: E.Var, first: E.Expr, count: int
) -> list[dict[E.Var, E.Expr]]:
    """``count`` iterations of ``var`` from ``first`` on for each of ``iterations``."""
    return [{**names, var: first + n} for names in iterations for n in range(count)]


def _loops(
    loops: tuple[S.For, ...], body: tuple[S.Stmt, ...], factors: dict[E.Var, int],
    iterations: list[dict[E.Var, E.Expr]],
) -> S.Stmt:  # fmt: skip
    """``loops``, which run ``body`` for all of ``iterations`` around them."""
    if not loops:
        copies = [iteration(body, names) for names in iterations]
        return S.seq(*(stmt for round_ in zip(*copies) for stmt in round_))
    loop, *inner = loops
    var = E.Var(loop.var.name, loop.var.dtype)
    start, stop = (substitute(bound, iterations[0]) for bound in (loop.start, loop.stop))
    factor, total = factors.get(loop.var, 1), trip_count(loop) or 0
    if factor == 1:
        body_of = _loops((*inner,), body, factors, _split(iterations, loop.var, var, 1))
        return replace(loop, var=var, start=start, stop=stop, body=body_of)
    rounds, zero = E.const(total // factor, var.dtype), E.const(0, var.dtype)
    several = _split(iterations, loop.var, start + var * factor, factor)
    tiled = replace(
        loop, var=var, start=zero, stop=rounds, body=_loops((*inner,), body, factors, several)
    )
    if total % factor == 0:
        return tiled
    var = E.Var(loop.var.name, loop.var.dtype)
    rest = _loops((*inner,), body, factors, _split(iterations, loop.var, var, 1))
    first = start + total // factor * factor
    return S.seq(tiled, replace(loop, var=var, start=first, stop=stop, body=rest))
