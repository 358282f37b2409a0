"""Vectorize lane loops: vectorized loads, values lane by lane in registers, vectorized stores.

A loop of kind "vectorized" uses the widest accesses for which :mod:`vectors` proves contiguous and
aligned elements. Predicates, those of bounds guards included, are tested once per access if they
have one value for all of its lanes; otherwise the access gets narrower until they do, or one lane
shows whether all are inside: a vector if they are, single elements if not. A copy from global to
shared memory that is marked "async" becomes ``cp.async``, which writes zeros where its predicate is
false.

Loops with a loop-carried dependence stay loops. Their loads of memory that the kernel does not
write become vectors ahead of several iterations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from math import gcd

from tilelang.ir import effects, expr as E, stmt as S, visitor
from tilelang.ir.atoms import Effect
from tilelang.ir.bounds import Bounds, is_divisible
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.facts import bounds_of, in_branches
from tilelang.ir.prover import prove
from tilelang.ir.simplify import simplify
from tilelang.ir.tables import VECTOR_COPY
from tilelang.ir.uniform import PRIVATE
from tilelang.ir.visitor import inline_lets, map_exprs, rebuild, substitute, substitute_in
from tilelang.target import operations
from tilelang.transforms.analysis.lanes import Chunk, Lanes
from tilelang.transforms.analysis.loops import values_of
from tilelang.transforms.analysis.vectors import MAX_LANES, VECTOR_BITS, Window, guarded, window_of
from tilelang.transforms.lower.context import HIDDEN, INT
from tilelang.transforms.lower.lane_loops import ahead, drawing, draws, is_lane_parallel, privatized
from tilelang.transforms.lower.pack_f16x2 import packed
from tilelang.transforms.lower.vector_atomics import vectorize_atomics
from tilelang.transforms.rules import Cursor, Phase, rule

WIDE_BITS = 256  # of T.ldg256 and T.stg256 where there is such an access
ASYNC_BYTES = (4, 8, 16)
_JOINS = {"land": True, "bitand": True, "lor": False, "bitor": False}  # whether both have to hold
_ORDERS = {"lt": True, "le": True, "gt": False, "ge": False}  # whether it holds for less, too
_PASSED = {S.Seq, S.Let, S.Store, S.If, S.Eval}  # by loads of what no thread writes
MAX_UNROLLED = 24  # statements of a loop in order that is unrolled for its vectors


@rule(S.Let, S.For)
def vectorize_lanes(stmt: S.Stmt, cursor: Cursor) -> S.Stmt | list[S.Stmt]:
    """Turn loops over lanes into vector accesses."""
    return stmt if cursor.launch is None else cursor.of(_Lanes, cursor.launch).stmt(stmt, cursor)


@rule(S.For)
def pack_f16x2(loop: S.For, cursor: Cursor) -> S.Stmt:
    """Pack 16-bit float arithmetic of lanes in registers in pairs."""
    if loop.kind != "unroll" or cursor.launch is None:
        return loop
    return packed(loop, cursor.of(_Lanes, cursor.launch).bounds, cursor.context)


vectorize_loops = Phase(vectorize_atomics, vectorize_lanes, pack_f16x2)


class _Lanes:
    """Rewrites the lane loops of one launch, innermost first."""

    def __init__(self, launch: S.Launch) -> None:
        self.bounds = bounds_of(launch)
        self.written = effects.written(launch.body)
        self.around: list[S.Stmt] = []  # the loop and what it is in
        self.holding: tuple[E.Expr, ...] = ()  # conditions of the branches inside the loop
        self.known = Bounds()  # nothing: what is simple for one lane is so everywhere
        self.lets: dict[E.Var, E.Expr] = {}  # values of names without loads
        self.accesses: list[effects.Access] = []  # of the loop
        self.stored: set[E.Var] = set()  # storage that the loop stores to
        self.vectors: dict[tuple[object, ...], Buffer] = {}  # loads of the block and those around
        self.widest = VECTOR_BITS
        self.through = ""  # the intrinsic whose access the lanes are, if they are one's

    def stmt(self, stmt: S.Stmt, cursor: Cursor) -> S.Stmt | list[S.Stmt]:
        """A loop over lanes as vectors; names are noted."""
        if isinstance(stmt, S.Let) and stmt.value.dtype.is_integer and not _loads(stmt.value):
            self.lets[stmt.var] = substitute(stmt.value, self.lets)
        self.context, self.around = cursor.context, cursor.around
        if not isinstance(stmt, S.For):
            return stmt
        # Guards exist now, so assumptions are no longer needed.
        checked = visitor.map_stmts(stmt.body, S.Assert, lambda s: None if s.assumed else s)
        stmt = visitor.replace_changed(stmt, body=checked)
        values = values_of(stmt)
        if stmt.kind != "vectorized":
            loops = (node for node in cursor.around[:-1] if isinstance(node, S.For))
            around = {loop.kind for loop in loops if len(values_of(loop) or ()) != 1}
            kept = stmt.hints or "vectorized" in around
            if kept or not self.stores_vectors(stmt):
                return stmt if kept else self.in_order(stmt)
        kind = "unroll" if values and len(values) <= 64 else "serial"
        if not values or values.step != 1:
            return replace(stmt, kind=kind)
        self.through = stmt.hints.through
        self.widest = WIDE_BITS if cursor.context.has("access_256") else VECTOR_BITS
        lanes = gcd(self.widest // 8 if self.through else MAX_LANES, values.start, len(values))
        only = substitute_in(stmt.body, {stmt.var: stmt.start}) if len(values) == 1 else None
        slots, own = ([], stmt) if only else ahead(stmt)
        if not is_lane_parallel(own, len(values)):
            slots, body = [], inline_lets(stmt.body, lambda value: True)
            if self.widest_access(body, Chunk(stmt.var, values.start, lanes, self.known)) > 1:
                slots, own = privatized(stmt, len(values))
            if not slots or not is_lane_parallel(own, len(values), exact=True):
                return only or self.in_order(replace(stmt, kind=kind))
        self.stored = effects.written(own.body)
        marked = stmt.hints.asynchronous and cursor.context.has("cp_async")
        few = len(values) // lanes <= 64
        kind = stmt.kind if stmt.kind != "vectorized" else "unroll" if few else "serial"
        loop = replace(own, body=inline_lets(own.body, lambda value: True), kind=kind)

        def vectorized(part: S.Stmt, chunk: Chunk) -> list[S.Stmt]:
            self.vectors, self.accesses = {}, list(effects.accesses(part, True))
            return self.block(part, chunk, marked)

        result = [*slots, *self.in_chunks(loop, lanes, vectorized)]
        return result if not only or marked or S.holds(S.seq(*result), S.Alloc) else only

    def stores_vectors(self, loop: S.For) -> bool:
        """Whether iterations that need no order store next to each other."""
        values = values_of(loop)
        if not values or values.step != 1 or S.holds(loop.body, S.For):
            return False
        if any(draws(expr) for node in S.walk(loop.body) for expr in node.exprs()):
            return False  # the numbers of a thread are in order
        chunk = Chunk(loop.var, values.start, gcd(values.start, len(values), MAX_LANES), self.known)
        body = inline_lets(loop.body, lambda value: True)
        stores = S.find(body, S.Store)
        uses = Counter(data for part in S.flat(body) for data in effects.used(part))
        if any(s.buffer.storage not in PRIVATE and uses[s.buffer.data] > 1 for s in stores):
            return False  # other threads may store and read it in the order of the program
        stores_whole = any(self.window(s.buffer, [s.indices], chunk, full=True) for s in stores)
        return stores_whole and is_lane_parallel(loop, len(values), exact=True)

    def in_chunks(
        self, loop: S.For, lanes: int, make: Callable[[S.Stmt, Chunk], list[S.Stmt]]
    ) -> list[S.Stmt]:
        """``loop`` over chunks of ``lanes`` iterations, as ``make`` writes them."""
        values = values_of(loop)
        assert values is not None
        if len(values) == lanes:
            return make(loop.body, Chunk(loop.var, values.start, lanes, self.known))
        outer = E.Var(f"{loop.var.name}_outer", INT)
        base = E.binary("add", E.binary("mul", outer, E.const(lanes)), E.const(values.start))
        shifted = substitute_in(loop.body, {loop.var: E.binary("add", base, loop.var)})
        count = len(values) // lanes
        self.bounds = self.bounds.with_range(outer, 0, count)
        inner = S.seq(*make(shifted, Chunk(loop.var, 0, lanes, self.known)))
        return [S.counted(outer, count, inner, loop.kind, loc=loop.loc)]

    def in_order(self, loop: S.For) -> list[S.Stmt]:
        """A loop whose iterations stay in order, after vector loads for several of them."""
        values = values_of(loop)
        if not values or values.step != 1:
            return [loop]
        self.vectors, self.stored, self.through = {}, set(), ""
        inlined = inline_lets(loop.body, lambda value: value.dtype.is_integer and not _loads(value))
        lanes = gcd(values.start, len(values), MAX_LANES)
        while lanes > 1:
            early = self.early(inlined, Chunk(loop.var, values.start, lanes, self.known))
            if early:
                lanes = min(lanes, VECTOR_BITS // min(node.dtype.bits for node in early))
                return self.in_chunks(replace(loop, body=inlined), lanes, self.after_vectors)
            lanes //= 2
        return [loop]

    def only_branch(self, body: S.Stmt, chunk: Chunk) -> S.If | None:
        """The branch that is all of ``body``, if all lanes take it or none does."""
        stmts = S.flat(body)
        only = stmts[0] if len(stmts) == 1 else None
        if not isinstance(only, S.If) or only.orelse is not None:
            return None
        fixed = not effects.written(only.then) & effects.used(only.cond)
        return only if fixed and self.agreeing(only.cond, chunk) == chunk.count else None

    def early(self, body: S.Stmt, chunk: Chunk) -> dict[E.Expr, tuple[E.Load, E.Expr | None]]:
        """The loads that the iterations of ``chunk`` may make before them, as vectors, and when; a
        load under a condition by the choice that it is in."""
        branch = self.only_branch(body, chunk)
        if branch is not None:
            return self.early(branch.then, chunk)
        nodes, own = list(S.walk(body)), S.bound(body)
        kinds = {type(node) for node in nodes}
        calls = {call.atom.effect for node in nodes for call in node.calls()}
        if len(nodes) > MAX_UNROLLED or kinds - _PASSED or calls - {Effect.NONE, Effect.ATOMIC}:
            return {}
        certain = {n for s in S.flat(body) for e in s.exprs() for n in effects.certain_loads(e)}
        loads: dict[E.Expr, tuple[E.Load, E.Expr | None]] = {}
        for node in (n for s in nodes for e in s.exprs() for n in E.walk(e)):
            load, cond = (node.t, node.cond) if isinstance(node, E.Select) else (node, None)
            if not (isinstance(load, E.Load) and self.may_pass(load, cond)) or node.variables & own:
                continue
            agree = chunk.count > 1 and (cond is None or self.agreeing(cond, chunk) == chunk.count)
            if agree and self.window(load.buffer, [load.indices], chunk):
                if node in certain or self.is_inside(load, chunk, cond):
                    loads[node] = load, cond
        return loads

    def after_vectors(self, body: S.Stmt, chunk: Chunk) -> list[S.Stmt]:
        """The iterations of ``chunk`` one by one, after their vector loads."""
        branch = self.only_branch(body, chunk)
        if branch is not None:
            then = S.seq(*self.after_vectors(branch.then, chunk))
            return [replace(branch, cond=chunk.at(branch.cond), then=then)]
        loads = _Loads(self, chunk, S.flat(body)[0])
        replacements: dict[E.Expr, E.Expr] = {}
        for node, (load, path) in self.early(body, chunk).items():
            lane = loads.loaded(load, path, None)
            replacements[node] = replace(node, t=lane) if isinstance(node, E.Select) else lane
        later = map_exprs(body, partial(visitor.replace_nodes, known=replacements))
        return [*loads.before, self.lane_loop(later, chunk)]

    # -- statements ------------------------------------------------------------------------------
    def block(self, stmt: S.Stmt, chunk: Chunk, marked: bool) -> list[S.Stmt]:
        """``stmt`` for all lanes of ``chunk``."""
        result, rest = list[S.Stmt](), S.flat(stmt)
        while rest:
            first, count = rest[0], drawing(rest)
            if count > 1:  # numbers of a lane, then those of the next
                new = [self.lane_loop(S.seq(*rest[:count]), chunk)]
            elif isinstance(first, S.Store):
                count, new = self.store(first, rest[1:], chunk, marked)
            elif isinstance(first, S.For) and not any(
                chunk.lane in e.variables for e in first.exprs()
            ):
                values, size = values_of(first), sum(1 for _ in S.walk(first.body))
                if values and len(values) * size <= MAX_UNROLLED:  # its places are constants
                    each = [substitute_in(first.body, {first.var: E.const(n)}) for n in values]
                    self.accesses += effects.accesses(S.seq(*each), True)
                    rest = (*chain.from_iterable(map(S.flat, each)), *rest[1:])
                    continue
                new = [replace(first, body=self.side(first.body, chunk, marked))]
            else:
                branch = self.branch(first, chunk, marked) if isinstance(first, S.If) else None
                new = branch or [self.lane_loop(first, chunk)]
            result, rest = [*result, *new], rest[max(count, 1) :]
        return result

    def branch(self, stmt: S.If, chunk: Chunk, marked: bool) -> list[S.Stmt]:
        """A condition, tested once for as many lanes as agree on it."""
        count = self.agreeing(stmt.cond, chunk)
        all_hold = self.bounding(stmt.cond, chunk, True) if count < chunk.count else None
        if all_hold is not None and self.widest_access(stmt.then, chunk) > count:
            vectors = self.side(stmt.then, chunk, marked, stmt.cond)
            return [replace(stmt, cond=all_hold, then=vectors, orelse=self.lane_loop(stmt, chunk))]
        if count == 1 < chunk.count:
            return self.after_vectors(stmt, chunk)
        branches: list[S.Stmt] = []
        for part in chunk.parts(count):
            then = self.side(stmt.then, part, marked, stmt.cond)
            orelse = stmt.orelse and self.side(stmt.orelse, part, marked)
            branches.append(S.If(cond=part.at(stmt.cond), then=then, orelse=orelse, loc=stmt.loc))
        return branches

    def side(self, stmt: S.Stmt, chunk: Chunk, marked: bool, *conds: E.Expr) -> S.Stmt:
        """One side of a branch, where ``conds`` hold in all lanes; its vector loads cannot be
        reused after it."""
        around, self.vectors = (self.vectors, self.holding), dict(self.vectors)
        self.holding += tuple(cond for cond in conds if not _loads(cond))
        side = S.seq(*self.block(stmt, chunk, marked))
        self.vectors, self.holding = around
        return side

    def lane_loop(self, stmt: S.Stmt, chunk: Chunk) -> S.Stmt:
        """``stmt`` lane by lane, or in pairs of lanes."""
        if chunk.count == 1:
            return substitute_in(stmt, {chunk.lane: E.const(chunk.start)})
        lane = E.Var(chunk.lane.name, INT)
        start, stop = chunk.start, chunk.start + chunk.count
        self.bounds = self.bounds.with_range(lane, start, stop)
        body = substitute_in(stmt, {chunk.lane: lane})
        loop = S.counted(lane, stop, body, "unroll", loc=stmt.loc, start=start)
        return packed(loop, self.bounds, self.context)

    def store(
        self, first: S.Store, following: tuple[S.Stmt, ...], chunk: Chunk, marked: bool
    ) -> tuple[int, list[S.Stmt]]:
        """A store, or it and some ``behind`` it that write whole vectors together though it alone
        does not: how many, and loads of whole chunks, values per lane, and stores of whole chunks.
        """
        copies = self.copies(first, chunk, marked)
        if copies is not None:
            return 1, copies
        target, together = first.buffer, [first]
        for store in following:
            used = set[E.Var]().union(*map(effects.used, store.exprs()))
            if not isinstance(store, S.Store) or store.buffer is not target or target.data in used:
                break
            together.append(store)
        indices = [store.indices for store in together]
        counts = (1, *range(len(indices), 1, -1))
        windows = ((n, self.window(target, indices[:n], chunk, full=True)) for n in counts)
        count, window = next((pair for pair in windows if pair[1] is not None), (1, None))
        shape = Shape((0 if window is None else window.width * len(window.starts),))
        array = Buffer(f"{target.name}_vec", shape, target.dtype, "local", attrs=HIDDEN)
        before, lanes = list[S.Stmt](), list[S.Stmt]()
        for number, store in enumerate(together[:count]):
            loads = _Loads(self, chunk, store)
            inner = replace(store, value=loads.rewrite_value(store.value))
            before += loads.before
            if window is None:
                return 1, [*before, self.lane_loop(inner, chunk)]
            each = zip(chunk.parts(1), map(E.const, window.positions[number]))
            chunks = [(chunk, chunk.lane - chunk.start)]
            for part, at in chunks if window.is_by_lane else each:
                lanes.append(self.lane_loop(replace(inner, buffer=array, indices=(at,)), part))
        assert window is not None
        size = window.width * target.dtype.bits // 8
        for number, start in enumerate(window.starts):
            address = E.AddressOf(target, chunk.begin(first, start), "w")
            source = E.AddressOf(array, (E.const(number * window.width),), "r")
            lanes.append(_move(address, source, size, first, self.through))
        return count, [*before, S.Alloc(buffer=array, loc=first.loc), *lanes]

    def copies(self, stmt: S.Store, chunk: Chunk, marked: bool) -> list[S.Stmt] | None:
        """Vectors that only move from memory to memory, by ``cp.async`` where they are ``marked``
        for it; None where a lane is looked at, or where all lanes have to be read before the first
        is written."""
        conds, value = guarded(stmt.value)
        if not isinstance(value, E.Load) or value.dtype != stmt.buffer.dtype:
            return None
        if not (_is_in_memory(stmt.buffer) and _is_in_memory(value.buffer)):
            return None
        run, cond = self.run(stmt, value, chunk), E.conjunction(conds) if conds else None
        agreeing = run if cond is None else min(run, self.agreeing(cond, chunk))
        marked = marked and agreeing * value.dtype.bits // 8 in ASYNC_BYTES
        if marked and stmt.buffer.storage.startswith("shared") and value.buffer.storage == "global":
            return list(self.moves(stmt, value, chunk, agreeing, cond, later=True))
        if conds or run == 1 or (run < chunk.count and value.buffer.data is stmt.buffer.data):
            return None
        return list(self.moves(stmt, value, chunk, run))

    def moves(
        self, stmt: S.Store, load: E.Load, chunk: Chunk, run: int, cond: E.Expr | None = None,
        later: bool = False,
    ) -> Iterator[S.Stmt]:  # fmt: skip
        """``run`` lanes after the other from memory to memory, as asynchronous copies ``later``."""
        size = run * load.dtype.bits // 8
        for part in chunk.parts(run):
            dst = E.AddressOf(stmt.buffer, tuple(map(part.at, stmt.indices)), "w")
            src = E.AddressOf(load.buffer, tuple(map(part.at, load.indices)), "r")
            args = [dst, src] if cond is None else [dst, src, part.at(cond)]
            call = E.call(operations.CP_ASYNC, *args, dtype="void", bytes=size)
            yield S.Eval(value=call, loc=stmt.loc) if later else _move(dst, src, size, stmt)

    # -- questions -------------------------------------------------------------------------------
    def run(self, stmt: S.Store, load: E.Load, chunk: Chunk) -> int:
        """Lanes that one vector access may have on both sides of a copy."""
        ends = (self.window(end.buffer, [end.indices], chunk, full=True) for end in (stmt, load))
        return min(1 if end is None or not end.is_by_lane else end.width for end in ends)

    def window(
        self, buffer: Buffer, accesses: list[tuple[E.Expr, ...]], chunk: Chunk, full: bool = False
    ) -> Window | None:
        """The vectors of some accesses; vectors of writes only if the accesses cover them."""
        bounds = in_branches(self.bounds, self.around)
        widest, lanes = VECTOR_BITS, Lanes(chunk.lane, chunk.count, bounds)
        if self.through and buffer.storage == "global":
            widest = self.widest
            accesses = [tuple(substitute(i, self.lets) for i in indices) for indices in accesses]
        full = full or buffer.data in self.written
        return window_of(buffer, accesses, lanes, full, widest) if _is_in_memory(buffer) else None

    def joint_window(self, load: E.Load, chunk: Chunk) -> Window | None:
        """The vectors of ``load`` that hold what other loads of the loop need, too."""
        buffer, own = load.buffer, load.indices

        def is_near(at: tuple[E.Expr, ...]) -> bool:
            return all(isinstance(simplify(a - b), E.Const) for a, b in zip(at, own))

        loads = dict.fromkeys(a.indices for a in self.accesses if a.reads and a.buffer is buffer)
        window = self.window(buffer, list(dict.fromkeys((own, *filter(is_near, loads)))), chunk)
        row = E.as_expr(buffer.shape[-1] if buffer.data in self.written else 0)
        return window.of_first if window and is_divisible(row, window.width) else None

    def widest_access(self, stmt: S.Stmt, chunk: Chunk) -> int:
        """The most lanes that an access of memory in ``stmt`` may have."""
        windows = (self.window(a.buffer, [a.indices], chunk) for a in effects.accesses(stmt, True))
        return max((window.width for window in windows if window is not None), default=1)

    def bounding(self, cond: E.Expr, chunk: Chunk, is_all: bool) -> E.Expr | None:
        """A condition under which ``cond`` holds in all lanes, or without which (not ``is_all``) it
        holds in none, of comparisons in one lane each; None where none is known."""
        lanes = Lanes(chunk.lane, chunk.count, self.bounds)
        if lanes.is_uniform(cond):
            return chunk.at(cond)
        if isinstance(cond, E.Unary) and cond.op == "lnot":
            inner = self.bounding(cond.a, chunk, not is_all)
            return None if inner is None else E.unary("lnot", inner)
        if isinstance(cond, E.Binary) and cond.dtype.is_bool and cond.op in _JOINS:
            p, q = (self.bounding(side, chunk, is_all) for side in (cond.a, cond.b))
            if p is None or q is None:
                return None if _JOINS[cond.op] is is_all else q if p is None else p
            return E.binary(cond.op, p, q)
        if not isinstance(cond, E.Binary) or cond.op not in _ORDERS or not cond.a.dtype.is_int:
            return None
        a, b = lanes.offsets(cond.a), lanes.offsets(cond.b)
        if a is None or b is None:
            return None
        gaps = [x - y for x, y in zip(a, b)]
        return chunk.at(cond, gaps.index((max if _ORDERS[cond.op] is is_all else min)(gaps)))

    def may_pass(self, load: E.Load, cond: E.Expr | None = None) -> bool:
        """Whether no thread writes the memory that ``load`` and ``cond`` read, at any position."""
        fixed = load.buffer.storage == "global" and load.buffer.data not in self.written
        exprs = load.indices if cond is None else (*load.indices, cond)
        return fixed and not any(map(_loads, exprs))

    def is_inside(self, load: E.Load, chunk: Chunk, cond: E.Expr | None = None) -> bool:
        """Whether ``load`` is inside of its buffer in all lanes, where ``cond`` holds; its indices
        are not loaded."""
        bounds = in_branches(self.bounds, self.around)
        bounds = bounds.with_range(chunk.lane, chunk.start, chunk.start + chunk.count)
        for known in self.holding if cond is None else (*self.holding, cond):
            bounds = bounds.assuming(known)
        dims = zip(load.indices, load.buffer.shape)
        inside = all(prove(at >= 0, bounds) and prove(at < extent, bounds) for at, extent in dims)
        return inside and not any(map(_loads, load.indices))

    def agreeing(self, cond: E.Expr, chunk: Chunk) -> int:
        """The most lanes, from multiples of their number, for which ``cond`` has one value."""
        if any(call.atom.effect is not Effect.NONE for call in E.find(cond, E.Call)):
            return 1
        count = chunk.count
        while count > 1 and not Lanes(chunk.lane, count, self.bounds).is_uniform(cond):
            count //= 2
        return count


class _Loads:
    """Takes the vector loads out of a value."""

    def __init__(self, owner: _Lanes, chunk: Chunk, stmt: S.Stmt) -> None:
        self.owner = owner
        self.chunk = chunk
        self.stmt = stmt
        self.before: list[S.Stmt] = []
        self.memo: dict[tuple[int, int], E.Expr] = {}
        self.fills: dict[E.Expr, E.Expr] = {}  # lanes of vectors -> what they are without a load
        self.certain = set[E.Expr]().union(*map(effects.certain, stmt.exprs()))

    def rewrite_value(self, expr: E.Expr, path: E.Expr | None = None) -> E.Expr:
        """``expr`` with lanes of register arrays in place of loads.

        Args:
            path: the condition under which it is evaluated; None for always.
        """
        key = id(expr), id(path)
        if key not in self.memo:
            self.memo[key] = self._rewrite(expr, path)
        return self.memo[key]

    def _rewrite(self, expr: E.Expr, path: E.Expr | None) -> E.Expr:
        chunk = self.chunk
        if isinstance(expr, E.Load) or expr.dtype.is_bool:
            if chunk.lane in expr.variables and self.owner.agreeing(expr, chunk) == chunk.count:
                return chunk.at(expr)  # the same for all lanes
        if isinstance(expr, E.Load):
            return self.loaded(expr, path, None)
        if isinstance(expr, E.Select):
            path = None if expr in self.certain else path
            conds = (expr.cond, E.unary("lnot", expr.cond))
            then, orelse = (c if path is None else E.binary("land", path, c) for c in conds)
            other = None if _loads(expr.f) else expr.f
            t = self.loaded(expr.t, then, other) if isinstance(expr.t, E.Load) else expr.t
            t = self.rewrite_value(expr.t, then) if t is expr.t else t
            if self.fills.get(t) is expr.f:
                return t
            f = self.rewrite_value(expr.f, orelse)
            return E.Select(self.rewrite_value(expr.cond, path), t, f, expr.lazy)
        if isinstance(expr, E.Call) and expr.atom.effect is not Effect.NONE:
            return expr
        if isinstance(expr, E.Binary) and expr.op in ("land", "lor"):
            decides = expr.a if expr.op == "land" else E.unary("lnot", expr.a)
            then = decides if path is None else E.binary("land", path, decides)
            sides = self.rewrite_value(expr.a, path), self.rewrite_value(expr.b, then)
            return E.binary(expr.op, *sides)
        return rebuild(expr, lambda child: self.rewrite_value(child, path))

    def loaded(self, load: E.Load, path: E.Expr | None, other: E.Expr | None) -> E.Expr:
        """``load`` as a lane of a vector; itself if it is not vectorized. Lanes that take the
        ``path`` and other lanes use separate vectors, except for harmless loads: those that the
        other lanes make as well, and those of memory that nothing writes.

        Args:
            other: the value where the path is not taken, if that is wanted.
        """
        owner, chunk, stmt, buffer = self.owner, self.chunk, self.stmt, load.buffer
        window = owner.window(buffer, [load.indices], chunk)
        if window is None and (chunk.count == 1 or chunk.lane in load.variables):
            window = owner.joint_window(load, chunk)
        if window is None:
            return rebuild(load, lambda index: self.rewrite_value(index, path))
        if path is None:
            return self.load_array(load, window, None, None)
        if other is None and isinstance(stmt, S.Store):
            shapes = (tuple(map(E.as_expr, tensor.shape)) for tensor in (buffer, stmt.buffer))
            inside = E.are_same_exprs(load.indices, stmt.indices) and E.are_same_exprs(*shapes)
            fixed = buffer.storage == stmt.buffer.storage and buffer.data not in owner.written
            if load in self.certain or (inside and fixed):
                return self.rewrite_value(load)
        agreeing = owner.agreeing(path, chunk)
        if agreeing >= (window.width if window.is_by_lane else chunk.count):
            return self.load_array(load, window, path, other)
        tile = buffer.storage.startswith("shared") and buffer.data not in owner.stored
        if (tile or owner.may_pass(load)) and owner.is_inside(load, chunk):
            return self.load_array(load, window, owner.bounding(path, chunk, False), None)
        if not window.is_by_lane or owner.bounding(path, chunk, True) is None:
            if agreeing == 1 or not window.is_by_lane:
                return load
            window = replace(window, width=agreeing, starts=window.offsets[0][::agreeing])
        return self.load_array(load, window, path, other)

    def load_array(
        self, load: E.Load, window: Window, cond: E.Expr | None, other: E.Expr | None
    ) -> E.Expr:
        """Load all lanes into a register array before the lane loop, or take the array of a
        statement before it that has loaded the same; the loop does not store to what it reads."""
        chunk, vectors, dtype = self.chunk, self.owner.vectors, load.dtype
        other, width = other if window.is_by_lane else None, window.width
        begins = tuple(chunk.begin(load, start) for start in window.starts)
        key = load.buffer, begins, chunk.lane, chunk.start, chunk.count, width, cond, other
        array, loads = vectors.get(key), list[S.Stmt]()
        if array is None or load.buffer.data in self.owner.stored:
            array = vectors[key] = self.array(load.buffer, "vec", width * len(begins))
            for number, begin in enumerate(begins):
                source = E.AddressOf(load.buffer, begin, "r")
                target = E.AddressOf(array, (E.const(number * width),), "w")
                move = _move(target, source, width * dtype.bits // 8, self.stmt, self.owner.through)
                if cond is not None and window.is_by_lane:
                    part = Chunk(chunk.lane, chunk.start + number * width, width, chunk.known)
                    move = self.tested(move, cond, other, load, array, part)
                loads.append(move)
        index = chunk.lane - chunk.start if chunk.count > 1 else E.const(window.positions[0][0])
        if not window.is_by_lane:
            if cond is None:
                self.before, loads = [*self.before, *loads], []
            if chunk.count > 1:
                vector, array = array, self.array(load.buffer, "lanes", chunk.count)
                for lane, at in enumerate(window.positions[0]):
                    value = E.Load(vector, (E.const(at),))
                    loads.append(S.Store(buffer=array, indices=(E.const(lane),), value=value))
            if cond is not None:
                loads = [self.tested(S.seq(*loads), cond, None, load, array, chunk)]
        self.before += loads
        result = E.Load(array, (index,))
        if other is not None:
            self.fills[result] = other
        return result

    def tested(
        self, move: S.Stmt, cond: E.Expr, other: E.Expr | None, load: E.Load, array: Buffer,
        part: Chunk,
    ) -> S.Stmt:  # fmt: skip
        """A vector if ``cond`` holds in all lanes of ``part``; otherwise loads of single lanes."""
        owner, fill = self.owner, None
        agree, index = owner.agreeing(cond, part) == part.count, (part.lane - self.chunk.start,)
        test = owner.bounding(cond, part, True)
        assert test is not None
        if other is not None or not agree:
            value = load if other is None else other if agree else E.select(cond, load, other)
            store: S.Stmt = S.Store(buffer=array, indices=index, value=value)
            store = S.If(cond=cond, then=store) if other is None else store
            fill = owner.lane_loop(store, part)
        return S.If(cond=test, then=move, orelse=fill, loc=self.stmt.loc)

    def array(self, buffer: Buffer, name: str, size: int) -> Buffer:
        """Registers for elements of ``buffer``."""
        array = Buffer(f"{buffer.name}_{name}", Shape((size,)), buffer.dtype, "local", attrs=HIDDEN)
        self.before.append(S.Alloc(buffer=array))
        return array


def _move(dst: E.Expr, src: E.Expr, size: int, stmt: S.Stmt, through: str = "") -> S.Stmt:
    more = {"through": through} if through else {}
    return S.do(VECTOR_COPY, dst, src, loc=stmt.loc, bytes=size, **more)


def _loads(expr: E.Expr) -> bool:
    return E.holds(expr, E.Load, E.Call)


def _is_in_memory(buffer: Buffer) -> bool:
    return buffer.storage == "global" or buffer.storage.startswith("shared")
