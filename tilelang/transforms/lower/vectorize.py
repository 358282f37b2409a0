"""Lane loops to vector accesses: loads before, values lane by lane in registers, stores after.

A loop of kind "vectorized" moves neighbouring elements in one access wherever :mod:`vectors` shows
that they are neighbours and aligned, and in as large pieces as it shows. Conditions (the
out-of-bounds rule has made them before) are tested once per piece when all lanes of a piece agree;
pieces are made smaller until they do. A copy from global to shared memory that is marked "async"
becomes ``cp.async``, whose hardware writes zeros where the condition does not hold.

Loops that carry something from one iteration to the next stay loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.facts import bounds_of
from tilelang.ir.simplify import simplify
from tilelang.ir.tables import VECTOR_COPY
from tilelang.ir.visitor import Replacement, inline_lets, rebuild, substitute, substitute_in
from tilelang.records import dataclass
from tilelang.target import operations
from tilelang.transforms.analysis.dependence import Iterations, facts_of, is_same_element
from tilelang.transforms.analysis.lanes import Lanes
from tilelang.transforms.analysis.loops import values_of
from tilelang.transforms.analysis.vectors import MAX_LANES, VECTOR_BITS, guarded, run_of
from tilelang.transforms.lower.context import INT, MADE
from tilelang.transforms.lower.pack_f16x2 import packed
from tilelang.transforms.lower.random_numbers import draw_ahead, draws
from tilelang.transforms.lower.vector_atomics import vectorize_atomics
from tilelang.transforms.rules import Phase, Place, rule

WIDE_BITS = 256  # of T.ldg256 and T.stg256 where there is such an access
ASYNC_BYTES = (4, 8, 16)
MAX_INLINED = 64  # nodes of a value that is computed where it is used, as often as it is


@rule(S.Let, S.For)
def vectorize_lanes(stmt: S.Stmt, place: Place) -> Replacement:
    """Turn loops over lanes into vector accesses."""
    return stmt if place.launch is None else place.of(_Lanes, place.launch).stmt(stmt, place)


@rule(S.For)
def pack_f16x2(loop: S.For, place: Place) -> S.Stmt:
    """Pack 16-bit float arithmetic of lanes in registers in pairs."""
    if loop.kind != "unroll" or place.launch is None:
        return loop
    return packed(loop, place.of(_Lanes, place.launch).bounds, place.context)


vectorize_loops = Phase(vectorize_atomics, vectorize_lanes, pack_f16x2)


@dataclass(frozen=True)
class Piece:
    """Lanes ``start`` to ``start + count`` of a lane loop; ``known`` remembers simple forms."""

    lane: E.Var
    start: int
    count: int
    known: Bounds

    def at(self, expr: E.Expr) -> E.Expr:
        """``expr`` for the first lane."""
        return simplify(substitute(expr, {self.lane: E.const(self.start)}), self.known)

    def parts(self, count: int) -> Iterator[Piece]:
        """The piece in parts of ``count`` lanes."""
        for start in range(self.start, self.start + self.count, count):
            yield Piece(self.lane, start, count, self.known)


class _Lanes:
    """Rewrites the lane loops of one launch, innermost first."""

    def __init__(self, launch: S.Launch) -> None:
        self.bounds = bounds_of(launch)
        self.written = effects.written(launch.body)
        self.known = Bounds()  # nothing: what is simple for one lane is so everywhere
        self.lets: dict[E.Var, E.Expr] = {}  # values of names without loads
        self.certain: set[E.Expr] = set()  # what each iteration loads, whatever it chooses
        self.stored: set[E.Var] = set()  # storage that the loop stores to
        self.vectors: dict[
            tuple[object, ...], E.Expr
        ] = {}  # loads of the block and those around it
        self.widest = VECTOR_BITS
        self.through = ""  # the intrinsic whose access the lanes are, if they are one's

    def stmt(self, stmt: S.Stmt, place: Place) -> Replacement:
        """A loop over lanes as vectors; names are noted."""
        if isinstance(stmt, S.Let) and stmt.value.dtype.is_integer and not _loads(stmt.value):
            self.lets[stmt.var] = substitute(stmt.value, self.lets)
        if not isinstance(stmt, S.For) or stmt.kind != "vectorized":
            return stmt
        values = values_of(stmt)
        drawn, stmt = draw_ahead(stmt)
        if not values or values.step != 1 or not _independent(stmt, len(values)):
            few = values is not None and values.stop - values.start <= 64
            return [*drawn, replace(stmt, kind="unroll" if few else "serial")]
        self.certain = _loaded_in_lets(stmt.body)
        self.stored, self.vectors = {node.buffer.data for node in S.find(stmt.body, S.Store)}, {}
        self.context = place.context
        body = inline_lets(stmt.body, lambda value: True)
        start, count = values.start, len(values)
        marked = stmt.hints.asynchronous and place.context.has("cp_async")
        self.through = stmt.hints.through
        self.widest = WIDE_BITS if place.context.has("access_256") else VECTOR_BITS
        lanes = self.widest // 8 if self.through else MAX_LANES
        while count % lanes or start % lanes:
            lanes //= 2
        if count == lanes:
            piece = Piece(stmt.var, start, lanes, self.known)
            return [*drawn, *self.block(body, piece, marked)]
        outer = E.Var(f"{stmt.var.name}_outer", INT)
        base = E.binary("add", E.binary("mul", outer, E.const(lanes)), E.const(start))
        shifted = substitute_in(body, {stmt.var: E.binary("add", base, stmt.var)})
        self.bounds = self.bounds.with_range(outer, 0, count // lanes)
        inner = S.seq(*self.block(shifted, Piece(stmt.var, 0, lanes, self.known), marked))
        kind = "unroll" if count // lanes <= 64 else "serial"
        return [*drawn, S.counted(outer, count // lanes, inner, kind, loc=stmt.loc)]

    # -- statements ------------------------------------------------------------------------------
    def block(self, stmt: S.Stmt, piece: Piece, marked: bool) -> list[S.Stmt]:
        """``stmt`` for all lanes of ``piece``."""
        if isinstance(stmt, S.Seq):
            return [new for child in stmt.stmts for new in self.block(child, piece, marked)]
        if isinstance(stmt, S.If):
            return self.branch(stmt, piece, marked)
        if isinstance(stmt, S.Store):
            return self.store(stmt, piece, marked)
        return [self.lane_loop(stmt, piece)]

    def branch(self, stmt: S.If, piece: Piece, marked: bool) -> list[S.Stmt]:
        """A condition, tested once for as many lanes as agree on it."""
        count = self.agreeing(stmt.cond, piece)
        if count == 1:
            return [self.lane_loop(stmt, piece)]
        branches: list[S.Stmt] = []
        for part in piece.parts(count):
            cond = part.at(stmt.cond)
            then = S.seq(*self.side(stmt.then, part, marked))
            orelse = None
            if stmt.orelse is not None:
                orelse = S.seq(*self.side(stmt.orelse, part, marked))
            branches.append(S.If(cond=cond, then=then, orelse=orelse, loc=stmt.loc))
        return branches

    def side(self, stmt: S.Stmt, piece: Piece, marked: bool) -> list[S.Stmt]:
        """One side of a branch: what it loads is not there behind it."""
        around, self.vectors = self.vectors, dict(self.vectors)
        side = self.block(stmt, piece, marked)
        self.vectors = around
        return side

    def lane_loop(self, stmt: S.Stmt, piece: Piece) -> S.Stmt:
        """``stmt`` lane by lane, or in pairs of lanes."""
        if piece.count == 1:
            return substitute_in(stmt, {piece.lane: E.const(piece.start)})
        lane = E.Var(piece.lane.name, INT)
        self.bounds = self.bounds.with_range(lane, piece.start, piece.start + piece.count)
        loop = S.For(
            var=lane, start=E.const(piece.start), stop=E.const(piece.start + piece.count),
            step=E.const(1), body=substitute_in(stmt, {piece.lane: lane}), kind="unroll",
            loc=stmt.loc,
        )  # fmt: skip
        return packed(loop, self.bounds, self.context)

    def store(self, stmt: S.Store, piece: Piece, marked: bool) -> list[S.Stmt]:
        """Loads of whole pieces, the value per lane, and the store of whole pieces."""
        if marked:
            copies = self.asynchronous(stmt, piece)
            if copies is not None:
                return copies
        copies = self.plain(stmt, piece)
        if copies is not None:
            return copies
        loads = _Loads(self, piece, stmt)
        value = loads.rewrite_value(stmt.value)
        before = loads.before
        run = self.run(stmt.buffer, stmt.indices, piece) if _in_memory(stmt.buffer) else 1
        if run == 1:
            return [*before, self.lane_loop(replace(stmt, value=value), piece)]
        name, shape = f"{stmt.buffer.name}_vec", Shape((piece.count,))
        array = Buffer(name, shape, stmt.buffer.dtype, "local", attrs=MADE)
        offset = E.binary("sub", piece.lane, E.const(piece.start))
        inner = S.Store(buffer=array, indices=(offset,), value=value, loc=stmt.loc)
        after: list[S.Stmt] = []
        for part in piece.parts(run):
            address = E.AddressOf(stmt.buffer, tuple(part.at(i) for i in stmt.indices), "w")
            source = E.AddressOf(array, (E.const(part.start - piece.start),), "r")
            size = run * stmt.buffer.dtype.bits // 8
            after.append(_move(address, source, size, stmt, self.through))
        alloc = S.Alloc(buffer=array, loc=stmt.loc)
        return [*before, alloc, self.lane_loop(inner, piece), *after]

    def plain(self, stmt: S.Store, piece: Piece) -> list[S.Stmt] | None:
        """Vectors that only move from memory to memory; None where a lane is looked at, or where
        all lanes have to be read before the first is written."""
        value = stmt.value
        if not isinstance(value, E.Load) or value.dtype != stmt.buffer.dtype:
            return None
        if not (_in_memory(stmt.buffer) and _in_memory(value.buffer)):
            return None
        run = min(self.run(stmt.buffer, stmt.indices, piece),
                  self.run(value.buffer, value.indices, piece))  # fmt: skip
        if run == 1 or (run < piece.count and value.buffer.data is stmt.buffer.data):
            return None
        moves: list[S.Stmt] = []
        for part in piece.parts(run):
            dst = E.AddressOf(stmt.buffer, tuple(part.at(i) for i in stmt.indices), "w")
            src = E.AddressOf(value.buffer, tuple(part.at(i) for i in value.indices), "r")
            moves.append(_move(dst, src, run * value.dtype.bits // 8, stmt))
        return moves

    def asynchronous(self, stmt: S.Store, piece: Piece) -> list[S.Stmt] | None:
        """``cp.async`` for a plain copy to shared memory; None where it cannot be one."""
        conds, value = guarded(stmt.value)
        cond = E.conjunction(conds) if conds else None
        if not isinstance(value, E.Load) or value.buffer.storage != "global":
            return None
        if not stmt.buffer.storage.startswith("shared") or value.dtype != stmt.buffer.dtype:
            return None
        run = min(self.run(stmt.buffer, stmt.indices, piece),
                  self.run(value.buffer, value.indices, piece))  # fmt: skip
        if cond is not None:
            run = min(run, self.agreeing(cond, piece))
        size = run * value.dtype.bits // 8
        if size not in ASYNC_BYTES:
            return None
        copies: list[S.Stmt] = []
        for part in piece.parts(run):
            dst = E.AddressOf(stmt.buffer, tuple(part.at(i) for i in stmt.indices), "w")
            src = E.AddressOf(value.buffer, tuple(part.at(i) for i in value.indices), "r")
            args = [dst, src] if cond is None else [dst, src, part.at(cond)]
            call = E.call(operations.CP_ASYNC, *args, dtype="void", bytes=size)
            copies.append(S.Eval(value=call, loc=stmt.loc))
        return copies

    # -- questions -------------------------------------------------------------------------------
    def run(self, buffer: Buffer, indices: tuple[E.Expr, ...], piece: Piece) -> int:
        """Lanes that one vector access may have."""
        widest = VECTOR_BITS
        if self.through and buffer.storage == "global":
            widest = self.widest
            indices = tuple(substitute(index, self.lets) for index in indices)
        return run_of(buffer, indices, piece.lane, self.bounds, piece.count, widest)

    def agreeing(self, cond: E.Expr, piece: Piece) -> int:
        """The most lanes, from multiples of their number, for which ``cond`` has one value."""
        if any(call.atom.effect is not Effect.NONE for call in E.find(cond, E.Call)):
            return 1
        count = piece.count
        while count > 1 and not Lanes(piece.lane, count, self.bounds).agree(cond):
            count //= 2
        return count


class _Loads:
    """Takes the vector loads out of a value."""

    def __init__(self, owner: _Lanes, piece: Piece, stmt: S.Store) -> None:
        self.owner = owner
        self.piece = piece
        self.stmt = stmt
        self.before: list[S.Stmt] = []
        self.memo: dict[tuple[int, int], E.Expr] = {}
        self.fills: dict[E.Expr, E.Expr] = {}  # lanes of vectors -> what they are without a load
        self.certain = owner.certain | _certain_loads(stmt.value)

    def rewrite_value(self, expr: E.Expr, path: E.Expr | None = None) -> E.Expr:
        """``expr`` with lanes of register arrays in place of loads.

        Args:
            path: when it is evaluated at all; None for always.
        """
        key = id(expr), id(path)
        if key not in self.memo:
            self.memo[key] = self._rewrite(expr, path)
        return self.memo[key]

    def _rewrite(self, expr: E.Expr, path: E.Expr | None) -> E.Expr:
        piece = self.piece
        if isinstance(expr, E.Load) or expr.dtype.is_bool:
            if _mentions(expr, piece.lane) and self.owner.agreeing(expr, piece) == piece.count:
                return piece.at(expr)  # the same for all lanes
        if isinstance(expr, E.Load):
            return self.loaded(expr, path, None)
        if isinstance(expr, E.Select):
            then = _both(path, expr.cond)
            other = None if _loads(expr.f) else expr.f
            t = self.loaded(expr.t, then, other) if isinstance(expr.t, E.Load) else expr.t
            t = self.rewrite_value(expr.t, then) if t is expr.t else t
            if self.fills.get(t) is expr.f:
                return t
            f = self.rewrite_value(expr.f, _both(path, E.unary("lnot", expr.cond)))
            return E.Select(self.rewrite_value(expr.cond, path), t, f, expr.lazy)
        if isinstance(expr, E.Call) and expr.atom.effect is not Effect.NONE:
            return expr
        if isinstance(expr, E.Binary) and expr.op in ("land", "lor"):
            return expr
        return rebuild(expr, lambda child: self.rewrite_value(child, path))

    def loaded(self, load: E.Load, path: E.Expr | None, other: E.Expr | None) -> E.Expr:
        """``load`` as a lane of a vector; itself where it is none. Lanes that take the ``path`` and
        others have vectors of their own, but for what does no harm there: loads that they make as
        well, and of memory that nothing writes, where each lane stores to an equal array.

        Args:
            other: the value where the path is not taken, if that is wanted.
        """
        run, stmt, buffer = self.run_of(load), self.stmt, load.buffer
        if path is not None and other is None and run > 1:
            shapes = (tuple(map(E.as_expr, tensor.shape)) for tensor in (buffer, stmt.buffer))
            inside = E.same_exprs(load.indices, stmt.indices) and E.same_exprs(*shapes)
            fixed = buffer.storage == stmt.buffer.storage and buffer.data not in self.owner.written
            if load in self.certain or (inside and fixed):
                return self.rewrite_value(load)
        if path is not None and run > 1:
            run = min(run, self.owner.agreeing(path, self.piece))
        return self.taken(load, run, path, other) if run > 1 else load

    def run_of(self, load: E.Load) -> int:
        """Lanes of a vector load."""
        if not _in_memory(load.buffer):
            return 1
        return self.owner.run(load.buffer, load.indices, self.piece)

    def taken(self, load: E.Load, run: int, cond: E.Expr | None, other: E.Expr | None) -> E.Expr:
        """Load all lanes into a register array before the lane loop, or take the array of a
        statement before it that has loaded the same; the loop does not store to what it reads."""
        piece, dtype, vectors = self.piece, load.buffer.dtype, self.owner.vectors
        key = load, piece.lane, piece.start, piece.count, run, cond, other
        if key in vectors and load.buffer.data not in self.owner.stored:
            if other is not None:
                self.fills[vectors[key]] = other
            return vectors[key]
        shape = Shape((piece.count,))
        array = Buffer(f"{load.buffer.name}_vec", shape, dtype, "local", attrs=MADE)
        self.before.append(S.Alloc(buffer=array))
        for part in piece.parts(run):
            first = part.start - piece.start
            source = E.AddressOf(load.buffer, tuple(part.at(i) for i in load.indices), "r")
            target = E.AddressOf(array, (E.const(first),), "w")
            move = _move(target, source, run * dtype.bits // 8, self.stmt, self.owner.through)
            if cond is None:
                self.before.append(move)
                continue
            fill, loc = None, self.stmt.loc
            if other is not None:
                lane = E.Var("v", INT)
                value = substitute(other, {piece.lane: E.binary("add", lane, E.const(part.start))})
                index = E.binary("add", lane, E.const(first))
                store = S.Store(buffer=array, indices=(index,), value=value)
                fill = S.counted(lane, run, store, "unroll")
            self.before.append(S.If(cond=part.at(cond), then=move, orelse=fill, loc=loc))
        result = E.Load(array, (E.binary("sub", piece.lane, E.const(piece.start)),))
        vectors[key] = result
        if other is not None:
            self.fills[result] = other
        return result


def _move(dst: E.Expr, src: E.Expr, size: int, stmt: S.Stmt, through: str = "") -> S.Stmt:
    more = {"through": through} if through else {}
    return S.do(VECTOR_COPY, dst, src, loc=stmt.loc, bytes=size, **more)


def _both(path: E.Expr | None, cond: E.Expr) -> E.Expr:
    return cond if path is None else E.binary("land", path, cond)


def _loaded_in_lets(body: S.Stmt) -> set[E.Expr]:
    """The loads of every iteration in values of names, as :func:`inline_lets` writes them."""
    loads: set[E.Expr] = set()
    values: dict[E.Var, E.Expr] = {}
    for let in S.flat(body):
        if isinstance(let, S.Let):
            values[let.var] = substitute(let.value, values)
            loads |= _certain_loads(values[let.var])
    return loads


def _certain_loads(expr: E.Expr) -> set[E.Expr]:
    """The loads that are made whenever ``expr`` is evaluated."""
    if isinstance(expr, E.Select):
        sides = _certain_loads(expr.t) & _certain_loads(expr.f)
        return _certain_loads(expr.cond) | sides
    if isinstance(expr, E.Binary) and expr.op in ("land", "lor"):
        return _certain_loads(expr.a)
    loads = {expr} if isinstance(expr, E.Load) else set()
    return loads.union(*map(_certain_loads, expr.children()))


def _mentions(expr: E.Expr, var: E.Var) -> bool:
    return var in expr.variables


def _loads(expr: E.Expr) -> bool:
    return E.holds(expr, E.Load, E.Call)


def _in_memory(buffer: Buffer) -> bool:
    return buffer.storage == "global" or buffer.storage.startswith("shared")


def _independent(loop: S.For, count: int) -> bool:
    """Whether the statements of ``loop`` may run one after the other, each for all ``count`` lanes.

    Only stores, conditions and pure lets, whose values may be substituted. An element
    that is stored is used at the same place only, and by no other place in any lane. One of the
    stores may draw random numbers: its lanes stay in order.
    """
    body = loop.body
    drawing = [node for node in S.walk(body) if any(map(draws, node.exprs()))]
    may_draw = drawing[0] if len(drawing) == 1 and isinstance(drawing[0], S.Store) else None
    stores: set[E.Var] = set()
    early: set[E.Var] = set()  # storage that a let reads
    sizes: dict[E.Var, int] = {}
    for node in S.walk(body):
        if isinstance(node, S.Let):
            nodes = E.walk(node.value)
            early |= effects.used(node.value)
            size = sum(sizes.get(node_, 1) if isinstance(node_, E.Var) else 1 for node_ in nodes)
            sizes[node.var] = size
            if size > MAX_INLINED and _loads(node.value):
                return False
        elif isinstance(node, S.Store):
            stores.add(node.buffer.data)
            if node.buffer.is_var:
                return False
        elif not isinstance(node, (S.Seq, S.If)):
            return False
    if not early.isdisjoint(stores):
        return False
    facts = facts_of(body)
    varying, values = facts.bound.union((loop.var,)), facts.pure_values()
    lanes = Iterations(loop.var, varying, values, {loop.var: count})
    accesses = [access for access in effects.accesses(body, nested=True) if access.data in stores]
    for store in (access for access in accesses if access.writes):
        others = (access for access in accesses if access.data is store.data)
        if any(not is_same_element(store, a) and lanes.distance(store, a) for a in others):
            return False
    for node in S.walk(body):
        for expr in node.exprs():
            for call in E.find(expr, E.Call):
                if call.atom.effect is not Effect.NONE:
                    if not (draws(call) and node is may_draw and expr is may_draw.value):
                        return False
    return True
