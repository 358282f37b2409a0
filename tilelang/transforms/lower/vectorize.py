"""Vectorize lane loops: vector loads, then values lane by lane in registers, then vector stores.

A loop of kind "vectorized" uses the widest accesses for which :mod:`vectors` proves contiguous and
aligned elements. Predicates, those of bounds guards included, are tested once per access if they
have one value for all of its lanes; otherwise the access gets narrower until they do. A copy from
global to shared memory that is marked "async" becomes ``cp.async``, which writes zeros where its
predicate is false.

Loops with a loop-carried dependence stay loops.
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
from tilelang.transforms.analysis.vectors import MAX_LANES, VECTOR_BITS, Window, guarded, window_of
from tilelang.transforms.lower.context import INT, MADE
from tilelang.transforms.lower.pack_f16x2 import packed
from tilelang.transforms.lower.random_numbers import draw_ahead, draws
from tilelang.transforms.lower.vector_atomics import vectorize_atomics
from tilelang.transforms.rules import Cursor, Phase, rule

WIDE_BITS = 256  # of T.ldg256 and T.stg256 where there is such an access
ASYNC_BYTES = (4, 8, 16)
MAX_INLINED = 64  # nodes of a value that is computed where it is used, as often as it is


@rule(S.Let, S.For)
def vectorize_lanes(stmt: S.Stmt, cursor: Cursor) -> Replacement:
    """Turn loops over lanes into vector accesses."""
    return stmt if cursor.launch is None else cursor.of(_Lanes, cursor.launch).stmt(stmt, cursor)


@rule(S.For)
def pack_f16x2(loop: S.For, cursor: Cursor) -> S.Stmt:
    """Pack 16-bit float arithmetic of lanes in registers in pairs."""
    if loop.kind != "unroll" or cursor.launch is None:
        return loop
    return packed(loop, cursor.of(_Lanes, cursor.launch).bounds, cursor.context)


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

    def begin(self, indices: tuple[E.Expr, ...], start: int) -> tuple[E.Expr, ...]:
        """Where a vector begins that does so ``start`` elements past the first lane's."""
        *rows, last = map(self.at, indices)
        return (*rows, simplify(last + start, self.known))

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
        self.vectors: dict[tuple[object, ...], Buffer] = {}  # loads of the block and those around
        self.widest = VECTOR_BITS
        self.through = ""  # the intrinsic whose access the lanes are, if they are one's

    def stmt(self, stmt: S.Stmt, cursor: Cursor) -> Replacement:
        """A loop over lanes as vectors; names are noted."""
        if isinstance(stmt, S.Let) and stmt.value.dtype.is_integer and not _loads(stmt.value):
            self.lets[stmt.var] = substitute(stmt.value, self.lets)
        if not isinstance(stmt, S.For) or stmt.kind != "vectorized":
            return stmt
        values = values_of(stmt)
        drawn, stmt = draw_ahead(stmt)
        if not values or values.step != 1 or not _independent(stmt, len(values)):
            few = values is not None and values.stop - values.start <= 64
            loop = replace(stmt, kind="unroll" if few else "serial")
            return [*drawn, *(self.ahead(loop, cursor) if few else [loop])]
        self.certain = _loaded_in_lets(stmt.body)
        self.stored, self.vectors = {node.buffer.data for node in S.find(stmt.body, S.Store)}, {}
        self.context = cursor.context
        body = inline_lets(stmt.body, lambda value: True)
        start, count = values.start, len(values)
        marked = stmt.hints.asynchronous and cursor.context.has("cp_async")
        self.through = stmt.hints.through
        self.widest = WIDE_BITS if cursor.context.has("access_256") else VECTOR_BITS
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
    def ahead(self, loop: S.For, cursor: Cursor) -> list[S.Stmt]:
        """``loop``, whose lanes stay in order, behind vectors of what the calls of all lanes load
        for their operands: elements of tensors that the kernel does not write (bins)."""
        values, self.context = values_of(loop), cursor.context
        lanes = len(values) if values and values.step == 1 else 0
        if lanes not in (2, 4, 8, 16) or S.holds(loop.body, *S.LEAVES):
            return [loop]
        piece = Piece(loop.var, int(loop.start), lanes, self.known)
        stmts = S.flat(inline_lets(loop.body, self.is_fixed))
        match stmts:
            case (S.If(orelse=None) as only,) if self.agreeing(only.cond, piece) == lanes:
                then = S.seq(*self.ahead(replace(loop, body=only.then), cursor))
                return [replace(only, cond=piece.at(only.cond), then=then)]
        called = [stmt for stmt in stmts if isinstance(stmt, S.Eval)]
        calls = [call for stmt in called for call in stmt.calls()]
        if not called or any(call.atom.effect is Effect.SYNC for call in calls):
            return [loop]
        loads = _Loads(self, piece, called[0])
        made = {stmt: replace(stmt, value=rebuild(stmt.value, loads.operand)) for stmt in called}
        body = S.seq(*((made[s] if isinstance(s, S.Eval) else s) for s in stmts))
        return [*loads.before, replace(loop, body=body)]

    def is_fixed(self, value: E.Expr) -> bool:
        """Whether nothing in the kernel changes what ``value`` reads."""
        return self.written.isdisjoint(effects.used(value))

    def block(self, stmt: S.Stmt, piece: Piece, marked: bool) -> list[S.Stmt]:
        """``stmt`` for all lanes of ``piece``."""
        result, rest = list[S.Stmt](), S.flat(stmt)
        while rest:
            first, count = rest[0], 1
            if isinstance(first, S.Store):
                count, new = self.store(first, rest[1:], piece, marked)
            else:
                branch = self.branch(first, piece, marked) if isinstance(first, S.If) else None
                new = branch or [self.lane_loop(first, piece)]
            result, rest = [*result, *new], rest[count:]
        return result

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
        """One side of a branch: what it loads is not there after it."""
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

    def store(
        self, first: S.Store, behind: tuple[S.Stmt, ...], piece: Piece, marked: bool
    ) -> tuple[int, list[S.Stmt]]:
        """A store, or it and some ``behind`` it that write whole vectors together though it alone
        does not: how many, and loads of whole pieces, values per lane, and stores of whole pieces.
        """
        copies = self.asynchronous(first, piece) if marked else None
        copies = self.plain(first, piece) if copies is None else copies
        if copies is not None:
            return 1, copies
        target, together = first.buffer, [first]
        for store in behind:
            used = set[E.Var]().union(*map(effects.used, store.exprs()))
            if not isinstance(store, S.Store) or store.buffer is not target or target.data in used:
                break
            together.append(store)
        accesses = [store.indices for store in together]
        counts = (1, *range(len(accesses), 1, -1))
        windows = ((n, self.window(target, accesses[:n], piece, whole=True)) for n in counts)
        count, window = next((option for option in windows if option[1] is not None), (1, None))
        shape = Shape((0 if window is None else window.width * len(window.starts),))
        array = Buffer(f"{target.name}_vec", shape, target.dtype, "local", attrs=MADE)
        before, lanes = list[S.Stmt](), list[S.Stmt]()
        for number, store in enumerate(together[:count]):
            loads = _Loads(self, piece, store)
            inner = replace(store, value=loads.rewrite_value(store.value))
            before += loads.before
            if window is None:
                return 1, [*before, self.lane_loop(inner, piece)]
            each = zip(piece.parts(1), map(E.const, window.positions[number]))
            whole = [(piece, piece.lane - piece.start)]
            for part, at in whole if window.is_by_lane else each:
                lanes.append(self.lane_loop(replace(inner, buffer=array, indices=(at,)), part))
        assert window is not None
        size = window.width * target.dtype.bits // 8
        for number, start in enumerate(window.starts):
            address = E.AddressOf(target, piece.begin(first.indices, start), "w")
            source = E.AddressOf(array, (E.const(number * window.width),), "r")
            lanes.append(_move(address, source, size, first, self.through))
        return count, [*before, S.Alloc(buffer=array, loc=first.loc), *lanes]

    def plain(self, stmt: S.Store, piece: Piece) -> list[S.Stmt] | None:
        """Vectors that only move from memory to memory; None where a lane is looked at, or where
        all lanes have to be read before the first is written."""
        value = stmt.value
        if not isinstance(value, E.Load) or value.dtype != stmt.buffer.dtype:
            return None
        if not (_in_memory(stmt.buffer) and _in_memory(value.buffer)):
            return None
        run = self.run(stmt, value, piece)
        if run == 1 or (run < piece.count and value.buffer.data is stmt.buffer.data):
            return None
        return list(self.moves(stmt, value, piece, run))

    def moves(
        self, stmt: S.Store, load: E.Load, piece: Piece, run: int, cond: E.Expr | None = None,
        later: bool = False,
    ) -> Iterator[S.Stmt]:  # fmt: skip
        """``run`` lanes after the other from memory to memory, as asynchronous copies ``later``."""
        size = run * load.dtype.bits // 8
        for part in piece.parts(run):
            dst = E.AddressOf(stmt.buffer, tuple(map(part.at, stmt.indices)), "w")
            src = E.AddressOf(load.buffer, tuple(map(part.at, load.indices)), "r")
            args = [dst, src] if cond is None else [dst, src, part.at(cond)]
            call = E.call(operations.CP_ASYNC, *args, dtype="void", bytes=size)
            yield S.Eval(value=call, loc=stmt.loc) if later else _move(dst, src, size, stmt)

    def asynchronous(self, stmt: S.Store, piece: Piece) -> list[S.Stmt] | None:
        """``cp.async`` for a plain copy to shared memory; None where it cannot be one."""
        conds, value = guarded(stmt.value)
        cond = E.conjunction(conds) if conds else None
        if not isinstance(value, E.Load) or value.buffer.storage != "global":
            return None
        if not stmt.buffer.storage.startswith("shared") or value.dtype != stmt.buffer.dtype:
            return None
        run = self.run(stmt, value, piece)
        if cond is not None:
            run = min(run, self.agreeing(cond, piece))
        size = run * value.dtype.bits // 8
        if size not in ASYNC_BYTES:
            return None
        return list(self.moves(stmt, value, piece, run, cond, later=True))

    # -- questions -------------------------------------------------------------------------------
    def run(self, stmt: S.Store, load: E.Load, piece: Piece) -> int:
        """Lanes that one vector access may have on both sides of a copy."""
        ends = (self.window(end.buffer, [end.indices], piece, whole=True) for end in (stmt, load))
        return min(1 if end is None or not end.is_by_lane else end.width for end in ends)

    def window(
        self, buffer: Buffer, accesses: list[tuple[E.Expr, ...]], piece: Piece, whole: bool = False
    ) -> Window | None:
        """The vectors of some accesses; of what is written only such that they access all of."""
        widest, lanes = VECTOR_BITS, Lanes(piece.lane, piece.count, self.bounds)
        if self.through and buffer.storage == "global":
            widest = self.widest
            accesses = [tuple(substitute(i, self.lets) for i in indices) for indices in accesses]
        whole = whole or buffer.data in self.written
        return window_of(buffer, accesses, lanes, whole, widest) if _in_memory(buffer) else None

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

    def __init__(self, owner: _Lanes, piece: Piece, stmt: S.Store | S.Eval) -> None:
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

    def operand(self, arg: E.Expr) -> E.Expr:
        """``arg`` with vectors for what it loads, be it for the indices of an address."""
        parts = arg.indices if isinstance(arg, E.AddressOf) else (arg,)
        plain = (self.owner.is_fixed(p) and not E.holds(p, E.Call, E.Select) for p in parts)
        return self.rewrite_value(arg) if all(plain) else arg

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
        owner, piece, stmt, buffer = self.owner, self.piece, self.stmt, load.buffer
        window = owner.window(buffer, [load.indices], piece)
        if window is None or path is None:
            return load if window is None else self.taken(load, window, None, None)
        if other is None and isinstance(stmt, S.Store):
            shapes = (tuple(map(E.as_expr, tensor.shape)) for tensor in (buffer, stmt.buffer))
            inside = E.same_exprs(load.indices, stmt.indices) and E.same_exprs(*shapes)
            fixed = buffer.storage == stmt.buffer.storage and buffer.data not in owner.written
            if load in self.certain or (inside and fixed):
                return self.rewrite_value(load)
        agreeing = owner.agreeing(path, piece)
        if agreeing < (window.width if window.is_by_lane else piece.count):
            if agreeing == 1 or not window.is_by_lane:
                return load
            window = replace(window, width=agreeing, starts=window.offsets[0][::agreeing])
        return self.taken(load, window, path, other)

    def taken(
        self, load: E.Load, window: Window, cond: E.Expr | None, other: E.Expr | None
    ) -> E.Expr:
        """Load all lanes into a register array before the lane loop, or take the array of a
        statement before it that has loaded the same; the loop does not store to what it reads."""
        piece, vectors, dtype = self.piece, self.owner.vectors, load.dtype
        other, width = other if window.is_by_lane else None, window.width
        begins = tuple(piece.begin(load.indices, start) for start in window.starts)
        key = load.buffer, begins, piece.lane, piece.start, piece.count, width, cond, other
        array = vectors.get(key)
        if array is None or load.buffer.data in self.owner.stored:
            array = vectors[key] = self.array(load.buffer, "vec", width * len(begins))
            for number, begin in enumerate(begins):
                source = E.AddressOf(load.buffer, begin, "r")
                target = E.AddressOf(array, (E.const(number * width),), "w")
                move = _move(target, source, width * dtype.bits // 8, self.stmt, self.owner.through)
                first = Piece(piece.lane, piece.start + number * width, width, piece.known)
                part, fill = first if window.is_by_lane else piece, None
                if other is not None:
                    index = (piece.lane - piece.start,)
                    store = S.Store(buffer=array, indices=index, value=other)
                    fill = self.owner.lane_loop(store, part)
                if cond is not None:
                    move = S.If(cond=part.at(cond), then=move, orelse=fill, loc=self.stmt.loc)
                self.before.append(move)
        if not window.is_by_lane:
            spread = self.array(load.buffer, "lanes", piece.count)
            for lane, at in enumerate(window.positions[0]):
                value = E.Load(array, (E.const(at),))
                self.before.append(S.Store(buffer=spread, indices=(E.const(lane),), value=value))
            array = spread
        result = E.Load(array, (piece.lane - piece.start,))
        if other is not None:
            self.fills[result] = other
        return result

    def array(self, buffer: Buffer, name: str, size: int) -> Buffer:
        """Registers for elements of ``buffer``."""
        array = Buffer(f"{buffer.name}_{name}", Shape((size,)), buffer.dtype, "local", attrs=MADE)
        self.before.append(S.Alloc(buffer=array))
        return array


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
