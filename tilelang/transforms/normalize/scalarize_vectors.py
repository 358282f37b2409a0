"""Scalarization: vector values are written out lane by lane.

A vector dtype (``float16x2``) is a group of scalars, and a target that vectorizes loops itself
needs the scalars. Buffers of vectors get a trailing dimension of lanes; vector lets and vector
stores become one let or store per lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import LoopHints
from tilelang.ir.memo import memoized
from tilelang.ir.tables import portable
from tilelang.ir.visitor import Rewriter, rebuild
from tilelang.transforms.analysis.atomics import element_added, summand
from tilelang.transforms.rules import Cursor, rule

# Packed arithmetic: the scalar operation of each lane.
PACKED = {"add2": "add", "sub2": "sub", "mul2": "mul", "max2": "max", "min2": "min"}


@rule(S.PrimFunc)
def scalarize_vectors(func: S.PrimFunc, cursor: Cursor) -> S.PrimFunc:
    """Split vector values into lanes.

    Where threads run in parallel, neighbouring elements of memory are copied to local arrays and
    back in loops, of which ``vectorize_loops`` makes one access.
    """
    rewriter = _Lanes(rows=cursor.context.has("simt"))
    body = rewriter.rewrite(func.body)
    if not rewriter.changed:
        return func
    params = tuple(rewriter.buffer(p) if isinstance(p, Buffer) else p for p in func.params)
    return replace(func, params=params, body=body)


class _Lanes(Rewriter):
    def __init__(self, rows: bool) -> None:
        self.rows = rows
        self.parts: dict[E.Var, tuple[E.Var, ...]] = {}
        self.memo: dict[tuple[int, int], E.Expr] = {}
        self.keep: list[E.Expr] = []  # keeps the ids of the memo alive
        self.changed = False
        self.fetched: dict[int, Buffer] = {}  # vector loads whose elements are in a local array

    # -- buffers ------------------------------------------------------------------------------
    @memoized
    def buffer(self, buffer: Buffer) -> Buffer:
        lanes, strides = buffer.dtype.lanes, buffer.strides
        if lanes == 1:
            return buffer
        self.changed = True
        return replace(
            buffer,
            shape=Shape((*buffer.shape, lanes)),
            dtype=buffer.dtype.element_of,
            strides=None if strides is None else (*(s * lanes for s in strides), 1),
            elem_offset=buffer.elem_offset * lanes,
        )

    def _visit_operand(self, old: object) -> object:
        if isinstance(old, Region) and old.buffer.dtype.lanes > 1:
            region = old.map(self.expr)
            wide = self.buffer(old.buffer)
            return Region(
                wide, (*region.mins, E.const(0)), (*region.extents, old.buffer.dtype.lanes)
            )
        return super()._visit_operand(old)

    # -- expressions ----------------------------------------------------------------------------
    def expr(self, expr: E.Expr) -> E.Expr:
        """A scalar expression with the vectors inside resolved; vectors stay for ``stmt``."""
        return expr if expr.dtype.lanes > 1 else self.lane(expr, 0)

    def lane(self, expr: E.Expr, at: int) -> E.Expr:
        """Lane ``at`` of ``expr`` (any lane of a scalar is the scalar)."""
        key = (id(expr), at if expr.dtype.lanes > 1 else 0)
        result = self.memo.get(key)
        if result is None:
            result = self.memo[key] = self._lane(expr, at)
            self.keep.append(expr)
        return result

    def _lane(self, expr: E.Expr, at: int) -> E.Expr:
        if isinstance(expr, E.Lane):
            return self._pick(expr)
        if isinstance(expr, E.Call):
            return self._call(expr, at)
        if expr.dtype.lanes == 1:
            if isinstance(expr, (E.Load, E.AddressOf)) and expr.buffer.dtype.lanes > 1:
                indices = (*(self.lane(i, 0) for i in expr.indices), E.const(0))
                return E.AddressOf(self.buffer(expr.buffer), indices)
            return rebuild(expr, lambda child: self.lane(child, 0))
        self.changed = True
        match expr:
            case E.Ramp():
                return self.lane(expr.base, 0) + self.lane(expr.stride, 0) * at
            case E.Broadcast():
                return self.lane(expr.value, at % expr.value.dtype.lanes)
            case E.Vector():
                return self.lane(expr.elements[at], 0)
            case E.Var():
                return self.parts[expr][at]
            case E.Const():
                return E.const(expr.value, expr.dtype.element_of)
            case E.Unary():
                return E.unary(expr.op, self.lane(expr.a, at))
            case E.Binary():
                return E.binary(expr.op, self.lane(expr.a, at), self.lane(expr.b, at))
            case E.Cast():
                return E.cast(
                    self.lane(expr.value, at), expr.dtype.element_of, expr.rounding, expr.sat
                )
            case E.Select():
                sides = (self.lane(expr.t, at), self.lane(expr.f, at))
                return E.select(self.lane(expr.cond, at), *sides, expr.lazy)
            case E.Load():
                return self._load(expr, at)
            case _:
                raise TileUnsupportedError(
                    f"the vector value `{expr!r}` cannot be split into lanes"
                )

    def _load(self, load: E.Load, at: int) -> E.Expr:
        array = self.fetched.get(id(load))
        if array is not None:
            return E.Load(array, (E.const(at),))
        own = load.buffer.dtype.lanes
        wide = self.buffer(load.buffer)
        indices = tuple(self.lane(index, at // own) for index in load.indices)
        return E.Load(wide, (*indices, E.const(at % own)) if own > 1 else indices)

    def _pick(self, expr: E.Lane) -> E.Expr:
        self.changed = True
        if isinstance(expr.index, E.Const):
            return self.lane(expr.vector, int(expr.index.value))
        index = self.lane(expr.index, 0)
        result = self.lane(expr.vector, 0)
        for at in range(1, expr.vector.dtype.lanes):
            result = E.select(index == at, self.lane(expr.vector, at), result)
        return result

    def _call(self, expr: E.Call, at: int) -> E.Expr:
        moves = expr.atom.moves
        if moves and not (self.rows and expr.dtype.lanes == expr.args[0].dtype.lanes == 1):
            self.changed = True
            expr = E.Call(portable("reinterpret"), expr.args, expr.dtype)
        if expr.op == "reinterpret" and expr.dtype.lanes != expr.args[0].dtype.lanes:
            self.changed = True
            return self._recast(expr, at)
        if expr.op == "reinterpret" and expr.dtype == expr.args[0].dtype:
            return self.lane(expr.args[0], at)
        if expr.op in PACKED:
            a, b = (self.lane(arg, at) for arg in expr.args)
            return E.binary(PACKED[expr.op], a, b)
        if expr.op == "fma2":
            return E.call("fma", *(self.lane(arg, at) for arg in expr.args))
        if expr.op == "abs2":
            return E.call("abs", self.lane(expr.args[0], at))
        if expr.dtype.lanes == 1:
            return rebuild(expr, lambda child: self.lane(child, 0))
        self.changed = True
        if expr.atom.elements > 1:
            return self._added(expr, at)
        args = tuple(self.lane(arg, at) for arg in expr.args)
        return E.Call(expr.atom, args, expr.dtype.element_of, expr.attrs)

    def _added(self, expr: E.Call, at: int) -> E.Expr:
        """The previous value of one element of an atomic sum of neighbours, with its own sum."""
        target, source = expr.args
        return element_added(target, at, self.lane(summand(source, at), 0), returns=True)

    def _recast(self, expr: E.Call, at: int) -> E.Expr:
        """Bit casts between different numbers of lanes: lane 0 is in the low bits."""
        source = expr.args[0]
        bits, target_bits = source.dtype.bits, expr.dtype.bits
        raw, total = DType(f"uint{bits}"), DType(f"uint{target_bits}")
        if target_bits < bits:  # a part of one source lane
            raw_bits = self._bits(self.lane(source, at * target_bits // bits), raw)
            shifted = E.cast(
                E.binary("shr", raw_bits, E.const(at * target_bits % bits, raw)), total
            )
            return self._bits(shifted, expr.dtype.element_of)
        result: E.Expr = E.const(0, total)
        for k in range(target_bits // bits):
            piece = self._bits(self.lane(source, at * target_bits // bits + k), raw)
            moved = E.binary("shl", E.cast(piece, total), E.const(k * bits, total))
            result = E.binary("bitor", result, moved)
        return self._bits(result, expr.dtype.element_of)

    @staticmethod
    def _bits(value: E.Expr, dtype: DType) -> E.Expr:
        return value if value.dtype == dtype else E.call("reinterpret", value, dtype=dtype)

    # -- statements --------------------------------------------------------------------------------
    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        before: list[S.Stmt] = []
        if self.rows and isinstance(stmt, (S.Let, S.Store, S.Eval)):
            for expr in stmt.exprs():
                if any(call.atom.moves for call in E.find(expr, E.Call)):
                    before += self._explicit(expr, None, stmt)
        result = super()._visit(stmt)
        if not before:
            return result
        self.changed = True
        return [*before, *(result if isinstance(result, list) else [result])]

    def _explicit(self, value: E.Expr, cond: E.Expr | None, stmt: S.Stmt) -> list[S.Stmt]:
        """Loops that bring what ``T.ldg`` loads to local arrays; `cond` as in `_fetch`."""
        if isinstance(value, E.Call) and value.atom.moves == "ldg":
            return self._fetch(value.args[0], cond, stmt, "ldg")
        inner = self._needed(value, cond)
        return [new for child, condition in inner for new in self._explicit(child, condition, stmt)]

    def _needed(self, value: E.Expr, cond: E.Expr | None) -> Iterator[tuple[E.Expr, E.Expr | None]]:
        """The operands of ``value``, which is needed under ``cond``, and when each is."""
        if isinstance(value, E.Select) and value.cond.dtype.lanes == 1:
            test = self.lane(value.cond, 0)
            for side, holds in ((value.t, test), (value.f, E.unary("lnot", test))):
                yield side, holds if cond is None else E.binary("land", cond, holds)
        else:
            yield from ((child, cond) for child in value.children())

    def stmt(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt] | None:
        if isinstance(stmt, S.Let) and stmt.value.dtype.lanes > 1:
            self.changed = True
            count = stmt.value.dtype.lanes
            scalar = stmt.var.dtype.element_of
            lane_vars = tuple(E.Var(f"{stmt.var.name}_{at}", scalar) for at in range(count))
            self.parts[stmt.var] = lane_vars
            if self.rows and _is_sum(stmt.value):
                return self._sum(stmt, lane_vars)
            return [
                *self._fetch(stmt.value, None, stmt),
                *(
                    S.Let(var=var, value=self.lane(stmt.value, at), loc=stmt.loc)
                    for at, var in enumerate(lane_vars)
                ),
            ]
        if isinstance(stmt, S.Store):
            return self._store(stmt)
        return self._add(stmt) if isinstance(stmt, S.Eval) and _is_sum(stmt.value) else stmt

    def _add(self, stmt: S.Eval) -> S.Stmt | list[S.Stmt]:
        """An atomic sum of neighbours; one call where memory moves in rows."""
        atomic = stmt.value
        assert isinstance(atomic, E.Call)
        target, source = atomic.args[:2]
        count = atomic.dtype.lanes
        if self.rows:
            if isinstance(source, E.AddressOf):
                return stmt
            self.changed = True
            vector = E.Vector(tuple(self.lane(source, at) for at in range(count)))
            value = E.Call(
                atomic.atom, (target, vector, *atomic.args[2:]), atomic.dtype, atomic.attrs
            )
            return replace(stmt, value=value)
        self.changed = True
        return [replace(stmt, value=self._added(atomic, at)) for at in range(count)]

    def _store(self, stmt: S.Store) -> S.Stmt | list[S.Stmt]:
        # The buffer was already replaced; its lanes are the extra dimension.
        own = len(stmt.buffer.shape) - len(stmt.indices)
        vector = any(index.dtype.lanes > 1 for index in stmt.indices)
        if not own and not vector and stmt.value.dtype.lanes == 1:
            return stmt
        self.changed = True
        through = stmt.value.atom.moves if isinstance(stmt.value, E.Call) else ""
        inner = int(stmt.buffer.shape[-1]) if own else 1
        count = max(stmt.value.dtype.lanes, inner, *(i.dtype.lanes for i in stmt.indices))
        before = self._fetch(stmt.value, None, stmt)
        last = stmt.indices[-1]
        if self.rows and not own and isinstance(last, E.Ramp) and _is_contiguous(stmt.buffer, last):
            return [*before, *self._row(stmt, last, count, through)]
        values = [
            S.Let(var=E.Var("lane", stmt.buffer.dtype), value=self.lane(stmt.value, at))
            for at in range(count)
        ]
        stores: list[S.Stmt] = []
        for at, let in enumerate(values):
            indices = tuple(self.lane(index, at // inner) for index in stmt.indices)
            full = (*indices, E.const(at % inner)) if own else indices
            stores.append(S.Store(buffer=stmt.buffer, indices=full, value=let.var, loc=stmt.loc))
        return [*before, *values, *stores]

    def _sum(self, stmt: S.Let, lane_vars: tuple[E.Var, ...]) -> list[S.Stmt]:
        """An atomic sum of neighbours whose previous values are used: they go to a local array."""
        call = stmt.value
        assert isinstance(call, E.Call)
        dtype = call.dtype.element_of
        array, stmts = _array(stmt.var.name, dtype, [E.const(0, dtype)] * len(lane_vars), stmt)
        old = E.AddressOf(array, (E.const(0),), "w")
        summed = E.Call(call.atom, (*call.args, old), call.dtype, call.attrs)
        stmts.append(S.Eval(value=summed, loc=stmt.loc))
        stmts += [
            S.Let(var=var, value=E.Load(array, (E.const(at),)), loc=stmt.loc)
            for at, var in enumerate(lane_vars)
        ]
        return stmts

    # -- rows of memory ----------------------------------------------------------------------------
    def _fetch(
        self, value: E.Expr, cond: E.Expr | None, stmt: S.Stmt, through: str = ""
    ) -> list[S.Stmt]:
        """Loops that bring neighbouring elements which `value` loads to local arrays, so that they
        are found to be one access. `cond`: when the value is needed at all."""
        if not self.rows:
            return []
        if isinstance(value, E.Load):
            last = value.indices[-1] if value.indices else None
            known = id(value) in self.fetched
            if known or not isinstance(last, E.Ramp) or not _is_contiguous(value.buffer, last):
                return []
            array = Buffer(value.buffer.name, Shape((last.lanes,)), value.buffer.dtype, "local")
            var = E.Var("v", last.base.dtype)
            outer = tuple(self.lane(index, 0) for index in value.indices[:-1])
            element = E.Load(value.buffer, (*outer, E.as_expr(self.lane(last.base, 0) + var)))
            self.fetched[id(value)] = array
            self.keep.append(value)
            store = S.Store(buffer=array, indices=(var,), value=element)
            hints = LoopHints(through=through)
            count = E.const(last.lanes, var.dtype)
            loop = S.counted(var, count, store, "vectorized", hints, stmt.loc)
            body = loop if cond is None else S.If(cond=cond, then=loop, loc=stmt.loc)
            return [S.Alloc(buffer=array, loc=stmt.loc), body]
        inner = () if isinstance(value, E.Lane) else self._needed(value, cond)
        return [new for child, condition in inner for new in self._fetch(child, condition, stmt)]

    def _row(self, stmt: S.Store, last: E.Ramp, count: int, through: str) -> list[S.Stmt]:
        """A store of neighbouring elements: through a local array, in one loop."""
        lanes = [self.lane(stmt.value, at) for at in range(count)]
        array, stmts = _array(stmt.buffer.name, stmt.buffer.dtype, lanes, stmt)
        var = E.Var("v", last.base.dtype)
        outer = tuple(self.lane(index, 0) for index in stmt.indices[:-1])
        indices = (*outer, E.as_expr(self.lane(last.base, 0) + var))
        store = S.Store(
            buffer=stmt.buffer, indices=indices, value=E.Load(array, (var,)), loc=stmt.loc
        )
        hints = LoopHints(through=through)
        extent = E.const(count, var.dtype)
        return [*stmts, S.counted(var, extent, store, "vectorized", hints, stmt.loc)]


def _is_sum(value: E.Expr) -> bool:
    """Whether a vector value is what an atomic sum of neighbours gives."""
    return isinstance(value, E.Call) and value.atom.elements > 1


def _is_contiguous(buffer: Buffer, index: E.Ramp) -> bool:
    """Whether a ramp accesses neighbours in memory that threads share."""
    adjacent = isinstance(index.stride, E.Const) and int(index.stride.value) == 1
    wide = buffer.dtype.bits >= 8 and buffer.dtype.lanes == 1
    return adjacent and wide and buffer.storage.startswith(("global", "shared"))


def _array(
    name: str, dtype: DType, values: Sequence[E.Expr], stmt: S.Stmt
) -> tuple[Buffer, list[S.Stmt]]:
    """A local array, and the statements that put ``values`` into it."""
    array = Buffer(name, Shape((len(values),)), dtype, "local")
    stores = (
        S.Store(buffer=array, indices=(E.const(at),), value=value, loc=stmt.loc)
        for at, value in enumerate(values)
    )
    return array, [S.Alloc(buffer=array, loc=stmt.loc), *stores]
