"""Packed half arithmetic (f16x2): lanes of 16-bit floats two at a time.

A loop over adjacent elements of a float16 register array computes two of them per instruction.
Sums, differences, products and conversions from float32 have packed forms, which round like the
scalar ones. Two small unsigned numbers of a packed integer are extracted by a mask and one exact
float16 operation. Other operations are computed for each lane and packed. Copies between register
arrays become copies of words.

bfloat16 is computed in pairs, too, where the target has such instructions, and so are the least and
the greatest of numbers, which are exact: a loop that collects one compares pairs first, whatever
the float that it collects. Conversions of float32 to 8-bit floats go in pairs, two pairs a word,
and those of 8-bit floats in pairs to float16, which holds them all, ahead of the loop that reads
them.

The loops are the lane loops of the vectorizer, which loads memory into register arrays, and those
that lowering emits.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.atoms import Atom, Effect
from tilelang.ir.bounds import Bounds, interval, is_divisible
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.linear import parted
from tilelang.ir.simplify import simplified_with, simplify
from tilelang.ir.tables import HALF2_LOAD, HALF2_STORE, VECTOR_COPY
from tilelang.ir.visitor import inline_lets, map_exprs, replace_nodes, substitute
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.analysis.dependence import uses_only
from tilelang.transforms.analysis.loops import values_of
from tilelang.transforms.lower.context import INT

HALF, BRAIN, WORD = DType("float16"), DType("bfloat16"), DType("uint32")
OPS = ("add", "sub", "mul")
ORDER = ("min", "max")
QUADS = {DType(f"float8_{kind}"): f"half2_quad_{kind}" for kind in ("e4m3fn", "e5m2")}
WIDE = {kind: quad.replace("quad", "wide") for kind, quad in QUADS.items()}
FIELDS = (1, 2, 4, 8)  # bits of numbers that are cut out of bytes
MAX_INLINED = 256  # nodes of a value
MAX_COMPARED = 32  # pairs of a value
MAX_BIAS = {HALF: 1024, BRAIN: 128}  # whole numbers up to twice of it are exact


def packed(loop: S.For, bounds: Bounds, context: Context) -> S.Stmt:
    """``loop`` over lanes, as pairs where that is possible."""
    ahead, loop = _widened(loop, bounds) if context.has("fp8x2") else ([], loop)
    return S.seq(*ahead, _in_pairs(loop, bounds, context))


def _widened(loop: S.For, bounds: Bounds) -> tuple[list[S.Stmt], S.For]:
    """Conversions of the 8-bit floats of registers that ``loop`` reads, and the loop with them."""
    body, count = loop.body, _count(loop)
    casts = [cast for stmt in S.walk(body) for e in stmt.exprs() for cast in E.find(e, E.Cast)]
    values = [cast.value for cast in casts if cast.value.dtype in QUADS and cast.dtype.is_float]
    loads = dict.fromkeys(value for value in values if isinstance(value, E.Load))
    if not loads or count % 4 or S.holds(body, S.If, S.While):
        return [], loop
    var, written, ahead = E.Var(loop.var.name, INT), effects.written(body), list[S.Stmt]()
    if isinstance(body, S.Store) and _is_parallel(body):
        written = set[E.Var]()  # an iteration stores what it alone has read
    lanes = _Pair(loop.var, var * 4, bounds.with_range(var, 0, count // 4), 4)
    for load in loads:
        at = lanes.piece_index(load.buffer, load.indices)
        if at is None or effects.used(load) & written:
            continue
        wide = Buffer(f"{load.buffer.name}_wide", Shape((count,)), HALF, "local")
        word = _word(HALF2_LOAD, E.AddressOf(load.buffer, (at,), "r"))
        pairs = (_word(WIDE[load.dtype], half) for half in (word & 0xFFFF, word >> 16))
        places = (E.AddressOf(wide, (var * 4 + first,), "w") for first in (0, 2))
        stores = S.seq(*(S.do(HALF2_STORE, *each, loc=loop.loc) for each in zip(places, pairs)))
        ahead += [S.Alloc(buffer=wide), _rounds(loop, var, count // 4, stores)]
        read = [cast for cast in casts if cast.value is load and cast.dtype.is_float]
        known = {cast: E.cast(E.Load(wide, (loop.var,)), cast.dtype) for cast in read}
        body = map_exprs(body, partial(replace_nodes, known=known))
    return ahead, loop if not ahead else replace(loop, body=body)


def _in_pairs(loop: S.For, bounds: Bounds, context: Context) -> S.Stmt:
    """``loop`` over lanes, whose arithmetic is in pairs where that is possible."""
    store, count = inline_lets(loop.body, lambda value: True), _count(loop)
    if not isinstance(store, S.Store) or store.buffer.storage != "local" or count < 2:
        return loop
    if not _is_parallel(store):
        return loop
    if isinstance(loop.body, S.Seq) and _size(store.value, {}) > MAX_INLINED:
        return loop
    if context.has("bf16x2") and (collected := _collected(loop, store, count, bounds)):
        return collected
    copied = _copied(loop, store, count, bounds)
    if context.has("fp8x2") and store.buffer.dtype in QUADS and count % 4 == 0:
        return copied or _in_fours(loop, store, count, bounds) or loop
    kinds = (HALF, BRAIN) if context.has("bf16x2") else (HALF,)
    if copied is not None or store.buffer.dtype not in kinds or count % 2:
        return copied or loop
    pair = E.Var(loop.var.name, INT)
    ranges = bounds.with_range(pair, 0, count // 2)
    ops = (*OPS, *ORDER) if context.has("bf16x2") else OPS
    lanes = _Pair(loop.var, pair * 2, ranges, kind=store.buffer.dtype, ops=ops)
    target = lanes.piece_index(store.buffer, store.indices)
    value = lanes.value(store.value)
    if target is None or value is None:
        return loop
    call = E.call(HALF2_STORE, E.AddressOf(store.buffer, (target,), "w"), value, dtype="void")
    return _rounds(loop, pair, count // 2, S.Eval(value=call, loc=store.loc))


def _copied(loop: S.For, store: S.Store, count: int, bounds: Bounds) -> S.Stmt | None:
    """A copy between register arrays in larger pieces."""
    value = store.value
    if not isinstance(value, E.Load) or value.buffer.storage != "local":
        return None
    if value.buffer.dtype is not store.buffer.dtype or value.buffer.dtype.bits < 8:
        return None
    for size in (16, 8, 4):
        lanes = size * 8 // value.dtype.bits
        if lanes < 2 or count % lanes:
            continue
        var = E.Var(loop.var.name, INT)
        parts = _Pair(loop.var, var * lanes, bounds.with_range(var, 0, count // lanes), lanes)
        to = parts.piece_index(store.buffer, store.indices)
        at = parts.piece_index(value.buffer, value.indices)
        if to is None or at is None:
            continue
        target = E.AddressOf(store.buffer, (to,), "w")
        source = E.AddressOf(value.buffer, (at,), "r")
        body = S.do(VECTOR_COPY, target, source, loc=store.loc, bytes=size)
        return _rounds(loop, var, count // lanes, body)
    return None


def _in_fours(loop: S.For, store: S.Store, count: int, bounds: Bounds) -> S.Stmt | None:
    """Numbers of float32, rounded to bytes, as words of four."""
    value = store.value
    if not isinstance(value, E.Cast) or value.value.dtype != "float32" or value.rounding:
        return None
    var = E.Var(loop.var.name, INT)
    ranges = bounds.with_range(var, 0, count // 4)
    at = _Pair(loop.var, var * 4, ranges, 4).piece_index(store.buffer, store.indices)
    if at is None or not value.sat:
        return None
    each = (substitute(value.value, {loop.var: var * 4 + lane}) for lane in range(4))
    word = _word(QUADS[store.buffer.dtype], *(simplify(lane, ranges) for lane in each))
    call = E.call(HALF2_STORE, E.AddressOf(store.buffer, (at,), "w"), word, dtype="void")
    return _rounds(loop, var, count // 4, S.Eval(value=call, loc=store.loc))


def _collected(loop: S.For, store: S.Store, count: int, bounds: Bounds) -> S.Stmt | None:
    """The least or greatest of 16-bit floats, which are compared in pairs."""
    extreme, total = store.value, E.Load(store.buffer, store.indices)
    if not isinstance(extreme, E.Binary) or extreme.op not in ORDER:
        return None
    sides, dtype = {extreme.a: extreme.b, extreme.b: extreme.a}, store.buffer.dtype
    kinds = (dtype,) if dtype in (HALF, BRAIN) else (HALF, BRAIN) if dtype == "float32" else ()
    numbers = [(kind, _narrowed(sides[total], kind)) for kind in kinds if total in sides]
    kind, number = next((pair for pair in numbers if pair[1] is not None), (HALF, None))
    each = next((k for k in range(min(count // 2, MAX_COMPARED), 1, -1) if count % (2 * k) == 0), 0)
    if number is None or not each or any(loop.var in at.variables for at in store.indices):
        return None
    var = E.Var(loop.var.name, INT)
    ranges = bounds.with_range(var, 0, count // (2 * each))
    lows = ((var * each + k) * 2 for k in range(each))
    lanes = [_Pair(loop.var, low, ranges, kind=kind, ops=(*OPS, *ORDER)) for low in lows]
    words = [pair.of(number) for pair in lanes]
    if any(node.op == "half2_pack" for word in words for node in E.find(word, E.Call)):
        return None
    compared = partial(lanes[0].word_of, extreme.op)
    while len(words) > 1:
        words = [*map(compared, words[::2], words[1::2]), *words[len(words) // 2 * 2 :]]
    halves = E.Var("both", WORD)
    best = compared(halves, halves >> 16)
    if kind == dtype:
        best = compared(best, E.cast(_bits(total), WORD))
    value = E.call("reinterpret", E.cast(best, DType("uint16")), dtype=kind)
    if kind != dtype:
        value = E.binary(extreme.op, total, E.cast(value, dtype))
    body = S.seq(S.Let(var=halves, value=words[0], loc=store.loc), replace(store, value=value))
    return _rounds(loop, var, count // (2 * each), body)


def _narrowed(expr: E.Expr, kind: DType) -> E.Expr | None:
    """The number of ``kind`` that ``expr`` is, maybe as a wider float; None if it may be none."""
    if expr.dtype == kind:
        return expr
    if isinstance(expr, E.Cast):
        return expr.value if expr.value.dtype == kind else None
    parts = [_narrowed(part, kind) for part in expr.children()]
    if isinstance(expr, E.Call) and expr.op == "abs" and parts[0] is not None:
        return E.call("abs", parts[0])
    return None


def _rounds(loop: S.For, var: E.Var, count: int, body: S.Stmt) -> S.Stmt:
    """``loop`` with ``count`` iterations of ``body``; the body of the only one."""
    if count == 1:
        return simplified_with(body, {var: E.const(0)})
    return replace(loop, var=var, stop=E.const(count), body=body)


def _size(expr: E.Expr, known: dict[E.Expr, int]) -> int:
    """Nodes of ``expr`` as it is printed, where common parts are printed again."""
    if expr not in known:
        known[expr] = 1 + sum(_size(child, known) for child in expr.children())
    return known[expr]


def _is_parallel(store: S.Store) -> bool:
    """Whether no iteration reads what another one stores, and none does anything else."""
    if any(call.atom.effect is not Effect.NONE for call in E.find(store.value, E.Call)):
        return False
    return uses_only(store, store.value, lambda a, b: a.data is b.data)


def _count(stmt: S.For) -> int:
    """The iterations of a loop from 0 in steps of 1; 0 for any other."""
    values = values_of(stmt)
    return 0 if values is None or (values.start, values.step) != (0, 1) else len(values)


@dataclass(frozen=True)
class _Pair:
    """Lanes ``low`` and ``low + 1`` of a loop over ``lane``, where ``low`` is a multiple of
    ``width``."""

    lane: E.Var
    low: E.Expr
    bounds: Bounds
    width: int = 2
    kind: DType = HALF
    ops: tuple[str, ...] = OPS

    def word_of(self, op: str, *args: E.Expr, **attrs: object) -> E.Expr:
        """A pair of the kind that ``op`` makes."""
        return _word(f"half2_{op}" + "_bf16" * (self.kind is BRAIN), *args, **attrs)

    def lanes_of(self, expr: E.Expr) -> tuple[E.Expr, E.Expr]:
        """``expr`` for either lane."""
        first, second = (
            simplify(substitute(expr, {self.lane: lane}), self.bounds)
            for lane in (self.low, self.low + 1)
        )
        return first, second

    def piece_index(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> E.Expr | None:
        """The first index of an access whose lanes are an aligned piece of a register array."""
        if len(indices) != 1 or buffer.storage != "local" or buffer.elem_offset != 0:
            return None
        split = parted(indices[0], frozenset((self.lane,)))
        if split is None or split[0].factor(self.lane) != 1:
            return None
        index = self.lanes_of(indices[0])[0]
        return index if is_divisible(index, self.width, self.bounds) else None

    # -- values ----------------------------------------------------------------------------------
    def value(self, expr: E.Expr) -> E.Expr | None:
        """Both lanes of ``expr`` in one word; None if nothing would be computed in pairs."""
        if isinstance(expr, E.Binary) and expr.op in self.ops:
            return self.of(expr)
        return self.converted(expr)

    def of(self, expr: E.Expr) -> E.Expr:
        """Both lanes of ``expr`` in one word."""
        if isinstance(expr, E.Binary) and expr.op in self.ops:
            biased = self.biased(expr)
            if biased is not None:
                return biased
            return self.word_of(expr.op, self.of(expr.a), self.of(expr.b))
        converted = self.converted(expr)
        if converted is not None:
            return converted
        if isinstance(expr, E.Call) and expr.op == "abs" and expr.dtype == self.kind:
            return self.of(expr.args[0]) & 0x7FFF7FFF
        if isinstance(expr, E.Load):
            at = self.piece_index(expr.buffer, expr.indices)
            if at is not None:
                return _word(HALF2_LOAD, E.AddressOf(expr.buffer, (at,), "r"))
        first, second = self.lanes_of(expr)
        if first is second:
            return _word("half2_both", _bits(first))
        return _word("half2_pack", _bits(first), _bits(second))

    def converted(self, expr: E.Expr) -> E.Expr | None:
        """Numbers of float32, rounded together, or small numbers cut out of a word."""
        if not isinstance(expr, E.Cast) or expr.rounding:
            return None
        is_f32 = expr.value.dtype == "float32"
        return self.word_of("round", *self.lanes_of(expr.value)) if is_f32 else self.field(expr, 0)

    def biased(self, expr: E.Binary) -> E.Expr | None:
        """Cut-out numbers plus or minus a whole constant."""
        value, shift = expr.a, expr.b
        if expr.op == "add" and isinstance(value, E.Const):
            value, shift = shift, value
        if expr.op not in ("add", "sub") or not isinstance(value, E.Cast):
            return None
        if not isinstance(shift, E.Const):
            return None
        amount = float(shift.value)
        if not amount.is_integer() or abs(amount) > MAX_BIAS[self.kind]:
            return None
        return self.field(value, int(amount) if expr.op == "add" else -int(amount))

    def field(self, expr: E.Cast, bias: int) -> E.Expr | None:
        """Numbers of few bits, cut out of the bytes of a word, plus ``bias``."""
        if not expr.value.dtype.is_integer:
            return None
        number, more = _unbiased(expr.value)
        bias += more
        first, second = (_cut(operand, self.bounds) for operand in self.lanes_of(number))
        if first is None or second is None or first.bits != second.bits:
            return None
        if more and (1 << first.bits) + abs(more) > 1 << (number.dtype.bits - 1):
            return None  # the sum might not fit the integers
        if abs(bias) > MAX_BIAS[self.kind] or (self.kind is BRAIN and first.bits > 4):
            return None
        word = self.word(first, second)
        if word is None:
            return None
        shifts = [simplify(shift, self.bounds) for shift in word[1:]]
        return self.word_of("field", word[0], *shifts, E.const(bias), bits=first.bits)

    def word(self, first: _Cut, second: _Cut) -> tuple[E.Expr, E.Expr, E.Expr] | None:
        """The word that both numbers are in, and their places there."""
        a, b = first.load, second.load
        size = a.dtype.bits
        if b.buffer is not a.buffer:
            return None
        refused = size == 32 or a.buffer.storage != "local" or len(a.indices) != 1
        if refused or a.buffer.elem_offset != 0:
            # The upper bits of the word do not matter.
            return (E.cast(a, WORD), first.shift, second.shift) if a is b else None
        per = 32 // size
        if not is_divisible(E.as_expr(a.buffer.shape[0]), per):
            return None
        if a is not b:
            step = simplify(b.indices[0] - a.indices[0])
            adjacent = isinstance(step, E.Const) and step.value == 1
            if not adjacent or not is_divisible(a.indices[0], 2, self.bounds):
                return None
        start = simplify(a.indices[0] // per * per, self.bounds)
        loaded = _word(HALF2_LOAD, E.AddressOf(a.buffer, (start,), "r"))
        shifts = [cut.load.indices[0] % per * size + cut.shift for cut in (first, second)]
        return loaded, shifts[0], shifts[1]


@dataclass(frozen=True)
class _Cut:
    """``bits`` bits of an element of an integer buffer, from ``shift`` on, as a number from 0."""

    load: E.Load
    shift: E.Expr
    bits: int


def _unbiased(expr: E.Expr) -> tuple[E.Expr, int]:
    """A signed sum with a constant as its other operand and the constant."""
    expr = _inner(expr)
    if isinstance(expr, E.Binary) and expr.op in ("add", "sub") and expr.dtype.is_int:
        if isinstance(expr.b, E.Const):
            return expr.a, int(expr.b.value) * (1 if expr.op == "add" else -1)
    return expr, 0


def _cut(expr: E.Expr, bounds: Bounds) -> _Cut | None:
    """``expr`` as bits within one byte of a loaded element; None if it is something else."""
    expr = _inner(expr)
    precision = expr.dtype.bits - expr.dtype.is_int  # bits that a conversion keeps
    if isinstance(expr, E.Cast) and expr.value.dtype.is_integer:
        expr = _inner(expr.value)
    bits = 0
    if isinstance(expr, E.Binary) and expr.op == "bitand" and isinstance(expr.b, E.Const):
        mask = int(expr.b.value)
        bits, expr = mask.bit_length(), _inner(expr.a)
        if mask != (1 << bits) - 1 or bits > precision:
            return None
    shift: E.Expr = E.const(0)
    if isinstance(expr, E.Binary) and expr.op == "shr":
        shift = E.cast(expr.b, INT)
        expr = _inner(expr.a)
    if not isinstance(expr, E.Load) or not expr.dtype.is_integer or expr.dtype.lanes > 1:
        return None
    size = expr.dtype.bits
    if not bits and expr.dtype.is_uint and isinstance(shift, E.Const):
        bits = size - int(shift.value)  # all that are left
    if bits not in FIELDS or size not in (8, 16, 32):
        return None
    shifts = interval(shift, bounds)
    inside = shifts.low >= 0 and shifts.high <= size - bits
    return _Cut(expr, shift, bits) if inside and is_divisible(shift, bits, bounds) else None


def _inner(expr: E.Expr) -> E.Expr:
    """``expr`` without conversions between integers that keep its lower bits where they are, as
    long as none of them drops bits."""
    while (
        isinstance(expr, E.Cast)
        and expr.dtype.is_integer
        and expr.value.dtype.is_integer
        and expr.dtype.bits >= expr.value.dtype.bits
    ):
        expr = expr.value
    return expr


def _bits(expr: E.Expr) -> E.Expr:
    return E.call("reinterpret", expr, dtype="uint16")


def _word(op: str | Atom, *args: E.Expr, **attrs: object) -> E.Expr:
    return E.call(op, *args, dtype=WORD, **attrs)
