"""Expressions of a loop as vectors of ``tl_vector.h``: one lane for each iteration.

The scalar printer (:class:`~tilelang.cpu.codegen.CpuPrinter`) prints loop-invariant values, which
are broadcast to the lanes, and operations without a vector form, which are computed lane by lane
(``TL_EACH``).

Under a condition only the lanes of its mask are loaded, since the others may be out of bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilelang.codegen import c
from tilelang.cpu.address_sharing import SharedAddresses
from tilelang.cpu.codegen import CpuPrinter
from tilelang.cpu.lane_patterns import LanePatterns
from tilelang.cpu.loops.vectorization import is_chosen, stride_of, value_bits
from tilelang.cpu.vector_types import MOST_LANES, WIDEST, NoVectorError, VectorTypes
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.linear import Linear, parted
from tilelang.ir.tables import BINARY

# Bounds of a difference of positions before steps are added, so that its sign is kept.
_SIGNS = {"d": 2**60, "w": 2**29, "h": 2**10, "b": 64}
_HALVES = ("float16", "bfloat16")
# Of tl_vector_small.h; the others are converted lane by lane.
_SMALL = frozenset(
    "float8_e3m4 float8_e4m3 float8_e4m3fn float8_e4m3fnuz float8_e4m3b11fnuz float8_e5m2 "
    "float8_e5m2fnuz float6_e2m3fn float6_e3m2fn".split()
)
# Functions of tl_vector_math.h, in floats.
FUNCTIONS = frozenset(
    "exp exp2 exp10 expm1 log log2 log10 log1p tanh sigmoid sqrt rsqrt sin cos tan erf pow floor "
    "ceil trunc nearbyint".split()
)
_MINIMA = {"min": "TL_VMIN", "max": "TL_VMAX"}
_PLAIN = frozenset("add sub mul div bitand bitor bitxor".split())
# Elements from one lane to the next -> how they are loaded; others are read lane by lane.
_LOADS = {1: "TL_LOAD", 2: "TL_LOAD_2", 3: "TL_LOAD_3", 4: "TL_LOAD_4", -1: "TL_LOAD_BACK"}


def reads_memory(expr: E.Expr) -> bool:
    """Whether there is a load in ``expr`` that is not of a variable."""
    return any(not load.buffer.is_var for load in E.find(expr, E.Load))


def _pair_load(buffer: Buffer, indices: tuple[E.Expr, ...]) -> str:
    """The macro that loads every second element. Where rows are whole pairs, and all elements
    are the first of theirs or all the second, the others are there, too."""
    last, form = buffer.shape[-1], Linear.of(indices[-1])
    is_even = buffer.strides is None and isinstance(last, int) and last % 2 == 0
    if not is_even or any(factor % 2 for _, factor in form.terms):
        return _LOADS[2]
    return "TL_LOAD_SECOND" if form.constant % 2 else "TL_LOAD_FIRST"


PREFETCH_BYTES = 2048  # longest part of a row that is prefetched


class VectorPrinter(VectorTypes):
    """Prints the expressions of one loop.

    Attributes:
        family: the letter of the vector types.
        before: lines for before the statement that is being printed.
        fixed: names of what does not change in the loop -> its text.
        scalars: declarations of the program's names that do not change in the loop.
        lanes: text of a vector -> its name, for what is computed lane by lane.
    """

    def __init__(self, scalars: CpuPrinter, loop: S.For, family: str) -> None:
        self.p = scalars
        self.var = var = loop.var
        super().__init__(family)
        self.varying: set[E.Var] = {var}  # variables and storage that differ between lanes
        self.names: dict[E.Var, str] = {}  # the vectors of names and variables of the loop
        self.before: list[str] = []
        self.fixed: dict[str, tuple[str, str]] = {}  # text -> name, type
        self.scalars: dict[E.Var, str] = {}
        self.numbers: set[E.Var] = set()  # storage of partial results that ignore a NaN
        self.mask = ""  # of the lanes that are on
        self.left = ""  # that of all iterations that are left, if it is the end of a loop
        self.patterns = LanePatterns(var, 128 // WIDEST[family], MOST_LANES[family])
        # Whether vectors begin at multiples of their length, and masks that are patterns then.
        self.aligned = isinstance(loop.start, E.Const) and int(loop.start) % MOST_LANES[family] == 0
        self.known = {"": self.patterns.all}
        self.conditional = False
        self.rows: tuple[E.Var | None, int | None] = None, None  # loop over rows, elements of one
        self.safe: set[tuple[int, ...]] = set()  # addresses that are read for all lanes already
        self.math = 0  # calls of functions
        self.eighths = False  # whether floats of eight bits are converted
        self.shared_addresses = SharedAddresses(loop.body, scalars.names.fresh)
        self._varies: dict[E.Expr, bool] = {}

    # -- values ------------------------------------------------------------------------------------
    def may_vary(self, expr: E.Expr) -> bool:
        """Whether lanes may have different values of ``expr``."""
        cached = self._varies.get(expr)
        if cached is None:
            cached = not self.varying.isdisjoint(expr.variables) or any(
                load.buffer.data in self.varying for load in E.find(expr, E.Load)
            )
            self._varies[expr] = cached
        return cached

    def is_guarded(self, expr: E.Expr) -> bool:
        """Whether memory of ``expr`` may not be there where no lane asks for it."""
        return self.mask != self.left and reads_memory(expr)

    def changes(self, var: E.Var) -> None:
        """From here on ``var`` differs between lanes."""
        self.varying.add(var)
        self._varies.clear()

    def value(self, expr: E.Expr) -> str:
        """``expr`` as a vector."""
        if not self.may_vary(expr):
            return self.splat(expr)
        try:
            return self.native(expr)
        except NoVectorError:
            return self.each(expr)

    def splat(self, expr: E.Expr) -> str:
        """A value that is the same in all lanes; computed before the loop where it costs."""
        text = c.bare(self.p.value(expr))
        kind = self.of(expr.dtype)
        if expr.dtype.is_bool:
            text = f"-({text})"
        if text in self.fixed:
            return self.fixed[text][0]
        if self.is_guarded(expr):  # read once, and only if a lane asks for it
            text = f"tl_{self.family}_all(~{self.mask}) ? 0 : {text}"
        if isinstance(expr, (E.Const, E.Var)) or self.mask != self.left or self.conditional:
            return f"TL_SPLAT({kind}, {text})"
        self.fixed[text] = self.p.names.fresh("all"), kind
        return self.fixed[text][0]

    def each(self, expr: E.Expr) -> str:
        """``expr`` computed lane by lane, where the mask is on."""
        kind = self.of(expr.dtype)
        with self.per_lane():
            text = self.p.value(expr)
        if expr.dtype.is_bool:
            text = f"-({text})"
        if self.mask:
            text = f"{self.mask}[tl_lane_] ? {text} : 0"
        return f"TL_EACH({kind}, {self.name(self.var)}, {c.bare(text)})"

    def name(self, var: E.Var) -> str:
        """The C name of a variable."""
        return self.p.names.of(var, var.name)

    @contextmanager
    def per_lane(self) -> Iterator[None]:
        """The printer of scalars writes ``tl_lane_``."""
        self.p.lanes = {
            var: f"({name}[tl_lane_] != 0)" if var.dtype.is_bool else f"{name}[tl_lane_]"
            for var, name in self.names.items()
        }
        try:
            yield
        finally:
            self.p.lanes = {}

    @contextmanager
    def masked(self, mask: str) -> Iterator[None]:
        """Only the active lanes of ``mask`` are evaluated."""
        old, safe = self.mask, set(self.safe)
        self.mask = self.named("on", self.type("mask"), f"{old} & {mask}") if old else mask
        try:
            yield
        finally:
            self.mask, self.safe = old, safe

    def is_of_loop(self, *exprs: E.Expr) -> bool:
        """Whether what differs between lanes is the loop's variable alone."""
        others = self.varying - {self.var}
        return not any(
            E.holds(expr, E.Load) or not others.isdisjoint(expr.variables) for expr in exprs
        )

    def named(self, prefix: str, kind: str, text: str) -> str:
        """A name for a vector, before the statement that is being printed."""
        name = self.p.names.fresh(prefix)
        self.before.append(f"const {kind} {name} = {c.bare(text)};")
        if (pattern := self.known.get(text.lstrip("~"))) is not None:
            self.known[name] = tuple(is_on != text.startswith("~") for is_on in pattern)
        return name

    def native(self, expr: E.Expr) -> str:
        """``expr`` in operations of vectors."""
        match expr:
            case E.Var():
                return self.steps(expr) if expr is self.var else self.names[expr]
            case E.Load():
                return self.load(expr)
            case E.Unary():
                return self.unary(expr)
            case E.Binary():
                return self.binary(expr)
            case E.Cast():
                return self.cast(expr)
            case E.Select():
                return self.select(expr)
            case E.Call():
                return self.call(expr)
            case _:
                raise NoVectorError

    def steps(self, expr: E.Expr) -> str:
        """A position, which moves on by the same distance in each iteration, as a value."""
        form = parted(expr, frozenset((self.var,)))
        if form is None:
            raise NoVectorError
        kind = self.of(expr.dtype)
        first = self.p.index(expr)
        return f"TL_STEPS({self.family}, {kind}, {c.bare(first)}, {form[0].factor(self.var)})"

    # -- memory ------------------------------------------------------------------------------------
    def load(self, expr: E.Load) -> str:
        """Elements in memory, or a variable of the loop."""
        buffer, dtype = expr.buffer, expr.dtype
        if buffer.is_var:
            return self.names[buffer.data]
        self.suffix(dtype)
        return self.decoded(dtype, self.elements(buffer, expr.indices))

    def elements(self, buffer: Buffer, indices: tuple[E.Expr, ...], lanes: bool = True) -> str:
        """Elements in memory order: contiguous, with a small stride, or gathered lane by lane."""
        stride = stride_of(buffer, indices, self.var, frozenset(self.varying - {self.var}))
        if buffer.dtype.bits < 8 or not (lanes or self.mask or stride in _LOADS):
            raise NoVectorError
        kind = self.stored_type(buffer.dtype)
        if stride not in _LOADS and (text := self.in_pattern(kind, buffer, indices)):
            return text
        if stride not in _LOADS or (self.mask and stride != 1):
            if stride is None and not self.mask and (text := self.chosen(kind, buffer, indices)):
                return text
            with self.per_lane():
                text = f"{self.p.pointer(buffer)}[{self.p.flat_index(buffer, indices)}]"
            guarded = f"{self.mask}[tl_lane_] ? {text} : 0" if self.mask else text
            return f"TL_EACH({kind}, {self.name(self.var)}, {guarded})"
        address = self.address(buffer, indices)
        if stride != 1:
            integers = self.type(f"i{8 if buffer.dtype.is_bool else buffer.dtype.bits}")
            load = _LOADS[stride] if stride != 2 else _pair_load(buffer, indices)
            return f"{load}({self.family}, {kind}, {integers}, {address})"
        where = (id(buffer.data), *map(id, indices))
        if self.mask and where not in self.safe:
            return f"TL_LOAD_IF({self.family}, {kind}, {address}, {self.mask})"
        if not self.conditional:
            self.safe.add(where)
            self.prefetch_row(buffer, indices, address)
        return f"TL_LOAD({kind}, {address})"

    def chosen(self, kind: str, buffer: Buffer, indices: tuple[E.Expr, ...]) -> str:
        """Elements at offsets that a vector has; "" where offsets are no arithmetic in 32 bits. No
        element is out of bounds, so that a sum that wraps on the way is the offset, too."""
        total: E.Expr = E.const(0, "int32")
        reach, fixed = 0, list(indices)
        for dim, (extent, stride) in enumerate(zip(buffer.shape, buffer.stride_list())):
            index = indices[dim]
            if not self.may_vary(index):
                continue
            exact = [self.p.largest(node) for node in E.walk(index) if self.p.is_index(node)]
            if index.dtype != "int32" or reads_memory(index) or max(exact, default=0) >= 2**31:
                return ""
            if not isinstance(extent, int) or not isinstance(stride, int):
                return ""
            total, reach = total + index * stride, reach + extent * abs(stride)
            fixed[dim] = E.const(0)
        if self.family != "w" or reach >= 2**31:
            return ""
        address = self.full_address(buffer, tuple(fixed))
        return f"TL_GATHER({kind}, {address}, {c.bare(self.value(total))})"

    def in_pattern(self, kind: str, buffer: Buffer, indices: tuple[E.Expr, ...]) -> str:
        """Elements whose groups are alike; "" where they are not, or a load might go too far."""
        if not self.aligned or self.mask not in self.known or not self.is_of_loop(*indices):
            return ""
        pattern = self.patterns.element(buffer, indices)
        if pattern is None or not pattern.covers(self.known[self.mask]):
            return ""
        address = self.full_address(buffer, indices) + (f" - {-pattern.low}" if pattern.low else "")
        return pattern.load(self.family, kind, address, max(8, buffer.dtype.bits))

    def address(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> str:
        """The pointer to the first of the elements."""
        return self.shared_addresses.of(buffer, indices, self.full_address)

    def full_address(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> str:
        """The same without names."""
        return f"{self.p.pointer(buffer)} + {self.p.flat_index(buffer, indices)}"

    def prefetch_row(self, buffer: Buffer, indices: tuple[E.Expr, ...], address: str) -> None:
        """Of a short part of a row of a tensor, the part two rows below is fetched meanwhile: it is
        too short for the machine to see where reads go on."""
        var, count = self.rows
        if var is None or count is None or buffer.storage != "global":
            return
        stride, size = stride_of(buffer, indices, var, frozenset()), buffer.dtype.bits // 8
        if stride is not None and count * size <= PREFETCH_BYTES and abs(stride) > count:
            self.before.append(f"__builtin_prefetch({address} + {2 * stride});")

    def decoded(self, dtype: DType, text: str) -> str:
        """The values of elements."""
        if dtype.is_bool:
            return f"TL_CONVERT({text} != 0, {self.type('mask')})"
        if dtype not in c.NARROW_FLOATS:
            return text
        self.small(dtype)
        return f"tl_w_{c.NARROW_FLOATS[dtype][1]}_to_f32({text})"

    def small(self, dtype: DType) -> None:
        """Conversions of narrow floats are written for the family of floats."""
        if self.family != "w" or (dtype not in _HALVES and dtype not in _SMALL):
            raise NoVectorError
        self.eighths |= dtype in _SMALL

    def coded(self, dtype: DType, expr: E.Expr) -> str:
        """``expr``, of ``dtype``, as elements in memory; halves are rounded once."""
        if dtype.is_bool:
            text, bits = f"({self.value(expr)} & 1)", WIDEST[self.family]
            return self.narrowed(text, "mask", bits, "u8", 8)
        if dtype not in c.NARROW_FLOATS:
            return self.value(expr)
        if is_chosen(expr, dtype) and self.may_vary(expr):
            return self.element(expr, dtype)
        try:
            self.small(dtype)
        except NoVectorError:
            text = self.named("value", self.of(dtype), self.value(expr))
            code = c.CPrinter.coded(dtype, f"{text}[tl_lane_]")
            return f"TL_EACH({self.stored_type(dtype)}, {self.name(self.var)}, {code})"
        kind, text = c.NARROW_FLOATS[dtype][1], self.value(expr)
        inner = c.argument_of(f"tl_w_round_{kind}", text)
        if inner is not None or dtype not in c.WITH_INFINITY:
            return f"tl_w_f32_to_{kind}({text if inner is None else inner})"
        result = c.argument_of(f"tl_w_result_{kind}", text)
        return f"tl_w_code_{kind}({text if result is None else result})"

    def element(self, expr: E.Expr, stored: DType | None) -> str:
        """A value, or elements of ``stored`` and choices between them as they are in memory."""
        if stored is None:
            return self.value(expr)
        if isinstance(expr, E.Select):
            return self.select(expr, stored)
        if isinstance(expr, E.Load) and self.may_vary(expr):
            return self.elements(expr.buffer, expr.indices)
        code = c.CPrinter.coded(stored, self.p.value(expr))
        if self.is_guarded(expr):
            code = f"tl_{self.family}_all(~{self.mask}) ? 0 : {code}"
        return f"TL_SPLAT({self.stored_type(stored)}, {c.bare(code)})"

    # -- operations --------------------------------------------------------------------------------
    def rounded(self, dtype: DType, text: str) -> str:
        """``text``, the result of an operation in floats, brought to the values of ``dtype``."""
        if dtype not in c.NARROW_FLOATS:
            return text
        self.small(dtype)
        verb = "result" if dtype in c.WITH_INFINITY else "round"
        return f"tl_w_{verb}_{c.NARROW_FLOATS[dtype][1]}({c.bare(text)})"

    def converted(self, dtype: DType, text: str, saturate: bool = True) -> str:
        """``text``, numbers, converted to the values of ``dtype``."""
        if dtype not in c.NARROW_FLOATS:
            return text
        self.small(dtype)
        if not saturate and dtype in _SMALL:
            raise NoVectorError
        return f"tl_w_round_{c.NARROW_FLOATS[dtype][1]}({c.bare(text)})"

    def unary(self, expr: E.Unary) -> str:
        """Negation and complements."""
        self.suffix(expr.dtype)
        inner = self.value(expr.a)
        if expr.op == "neg" and not expr.dtype.is_bool:
            return f"(-{inner})"
        if (expr.op == "lnot") == expr.dtype.is_bool:
            return f"(~{inner})"
        raise NoVectorError

    def binary(self, expr: E.Binary) -> str:
        """Arithmetic, comparison and logic."""
        op, dtype = expr.op, expr.a.dtype
        if op in ("land", "lor"):
            return self.logic(expr)
        if BINARY[op].compares:
            return self.compare(expr)
        kind = self.of(expr.dtype)
        if op in ("floordiv", "floormod", "truncdiv", "truncmod"):
            return self.division(expr, kind)
        if dtype.is_bool and not op.startswith("bit"):
            raise NoVectorError
        if op in ("shl", "shr") and dtype.bits < 32:
            raise NoVectorError
        a, b = self.value(expr.a), self.value(expr.b)
        if op in _MINIMA:
            sure = self.is_number(expr.b)
            if dtype.is_float and self.is_number(expr.a) and not isinstance(expr.a, E.Const):
                a, b, sure = b, a, True  # of equal zeros either may be the result of a reduction
            return self.extreme(op, dtype, a, b, "sure_" if sure else "")
        if op not in _PLAIN and op not in ("shl", "shr"):
            raise NoVectorError
        return self.rounded(expr.dtype, f"({a} {BINARY[op].symbol} {b})")

    def extreme(self, op: str, dtype: DType, a: str, b: str, way: str = "") -> str:
        """The smaller or larger of two vectors; floats have several ways to treat a NaN."""
        kind = self.of(dtype)
        if dtype.is_float:
            return f"{kind}_{way}{op}({c.bare(a)}, {c.bare(b)})"
        return f"{_MINIMA[op]}({kind}, {self.integers(dtype)}, {c.bare(a)}, {c.bare(b)})"

    def is_number(self, expr: E.Expr) -> bool:
        """Whether ``expr`` is never a NaN: a constant, or what a reduction has so far."""
        if isinstance(expr, E.Load):
            return expr.buffer.data in self.numbers
        return isinstance(expr, E.Const) and expr.value == expr.value

    def logic(self, expr: E.Binary) -> str:
        """``and``, ``or``: the right side is evaluated for the lanes that need it."""
        a = self.value(expr.a)
        if not reads_memory(expr.b):
            return f"({a} {'&' if expr.op == 'land' else '|'} {self.value(expr.b)})"
        first = self.named("on", self.type("mask"), a)
        needed = first if expr.op == "land" else self.named("on", self.type("mask"), f"~{first}")
        with self.masked(needed):
            b = self.value(expr.b)
        return f"({first} {'&' if expr.op == 'land' else '|'} {b})"

    def compare(self, expr: E.Binary) -> str:
        """A mask; positions are compared exactly, by the sign of their difference."""
        symbol = BINARY[expr.op].symbol
        mask = self.type("mask")
        if self.aligned and expr.a.dtype.is_int and self.is_of_loop(expr):
            if (pattern := self.patterns.holds(expr)) is not None:
                mask_bits = sum(is_on << k for k, is_on in enumerate(pattern))
                text = f"TL_PATTERN({self.family}, {len(pattern)}, {mask_bits})"
                self.known[text] = pattern
                return text
        if self.p.is_index(expr.a) and self.p.is_index(expr.b):
            lane_vars = frozenset((self.var,))
            forms = parted(expr.a, lane_vars), parted(expr.b, lane_vars)
            if forms[0] is None or forms[1] is None:
                raise NoVectorError
            step = forms[0][0].factor(self.var) - forms[1][0].factor(self.var)
            sign = _SIGNS[self.family]
            if abs(step) * (MOST_LANES[self.family] - 1) >= sign:
                raise NoVectorError
            difference = self.p.index_sum("sub", self.p.index(expr.a), self.p.index(expr.b))
            return f"(TL_SIGNS({self.family}, {c.bare(difference)}, {step}, {sign}) {symbol} 0)"
        dtype = expr.a.dtype
        if dtype.is_bool and expr.op not in ("eq", "ne"):
            raise NoVectorError
        self.suffix(dtype)
        return f"TL_CONVERT({self.value(expr.a)} {symbol} {self.value(expr.b)}, {mask})"

    def division(self, expr: E.Binary, kind: str) -> str:
        """Integer division by a positive constant."""
        divides, floors = expr.op.endswith("div"), expr.op.startswith("floor")
        if not isinstance(expr.b, E.Const) or int(expr.b.value) <= 0 or expr.dtype.is_bool:
            raise NoVectorError
        a, by = self.value(expr.a), int(expr.b.value)
        floors = floors and not expr.dtype.is_uint
        if by & (by - 1) == 0 and expr.op.startswith("floor") and expr.dtype.bits >= 32:
            return f"({a} >> {by.bit_length() - 1})" if divides else f"({a} & {by - 1})"
        if divides:
            return f"TL_VFLOORDIV({kind}, {a}, {by})" if floors else f"({a} / {by})"
        return f"TL_V{'FLOOR' if floors else 'TRUNC'}MOD({kind}, {a}, {by})"

    def select(self, expr: E.Select, stored: DType | None = None) -> str:
        """A choice; each side reads memory where it is taken. ``stored``: of elements as they are
        in memory."""
        text = self.uniform_select(expr, stored)
        if text:
            return text
        mask = self.type("mask")
        on = self.value(expr.cond)
        sides = []
        for side, sign in ((expr.t, ""), (expr.f, "~")):
            if not reads_memory(side):
                sides.append(self.element(side, stored))
                continue
            if not on.isidentifier():
                on = self.named("on", mask, on)
            with self.masked(self.named("on", mask, f"~{on}") if sign else on):
                sides.append(self.element(side, stored))
        kind = self.of(expr.dtype) if stored is None else self.stored_type(stored)
        bits = value_bits(expr.dtype) if stored is None else max(8, stored.bits)
        integers = self.type("mask" if expr.dtype.is_bool else f"i{bits}")
        return (
            f"TL_SELECT({kind}, {integers}, {c.bare(on)}, {c.bare(sides[0])}, {c.bare(sides[1])})"
        )

    def uniform_select(self, expr: E.Select, stored: DType | None) -> str:
        """A choice that is the same in all lanes, where it saves reads of memory: one side is
        computed. No part of a side may be hoisted before the statement."""
        if self.may_vary(expr.cond) or self.is_guarded(expr.cond):
            return ""
        if not reads_memory(expr.t) and not reads_memory(expr.f):
            return ""
        old, safe, first = self.conditional, set(self.safe), len(self.before)
        self.conditional, sides = True, []
        for side in (expr.t, expr.f):
            sides.append(self.element(side, stored))
            self.safe = set(safe)
        self.conditional = old
        if len(self.before) > first:
            del self.before[first:]
            return ""
        return f"({c.bare(self.p.value(expr.cond))} ? {sides[0]} : {sides[1]})"

    def cast(self, expr: E.Cast) -> str:
        """Conversions."""
        src, dst = expr.value.dtype, expr.dtype
        kind = self.of(dst)
        if self.p.is_index(expr) or (dst.is_int and self.p.is_index(expr.value)):
            return self.steps(expr)
        inner = self.value(expr.value)
        self.suffix(src)
        if dst.is_bool:
            return inner if src.is_bool else f"TL_CONVERT({inner} != 0, {kind})"
        if src.is_bool:
            source = WIDEST[self.family]
            inner = f"({inner} & 1)"
            return self.converted(dst, self.number(inner, f"i{source}", source, dst), expr.sat)
        if dst == src:
            return inner
        if src.is_float and not dst.is_float:
            if value_bits(src) != 32 or dst.bits > 32 or dst == "uint32" or self.family != "w":
                raise NoVectorError
            return f"tl_w_f32_to_{c.CPrinter.int_name(dst)}({c.bare(inner)})"
        if dst in c.NARROW_FLOATS:
            self.small(dst)
            if value_bits(src) > 32:
                raise NoVectorError
        number = self.number(inner, self.suffix(src), value_bits(src), dst)
        return self.converted(dst, number, expr.sat)

    def number(self, text: str, suffix: str, bits: int, dst: DType) -> str:
        """``text``, numbers of ``suffix``, as numbers of ``dst``."""
        target = self.suffix(dst)
        if target == suffix:
            return text
        if dst.is_float:
            if not suffix.startswith("f") and bits < 32:  # small integers: exact in 32 bits
                text = self.narrowed(text, suffix, bits, "i32", 32)
            return f"TL_CONVERT({text}, {self.type(target)})"
        return self.narrowed(text, suffix, bits, target, dst.bits)

    def narrowed(self, text: str, suffix: str, bits: int, target: str, width: int) -> str:
        """Integers of ``bits`` in fewer (or more); halved step by step, for which machines have
        instructions."""
        if self.family == "w" and bits < 32 == width and suffix != "mask":
            return f"tl_w_{suffix}_to_{target}({c.bare(text)})"
        while bits > 2 * width:
            bits //= 2
            text = f"TL_CONVERT({text}, {self.type(f'i{bits}')})"
        return f"TL_CONVERT({text}, {self.type(target)})"

    def call(self, expr: E.Call) -> str:
        """Functions that vectors have."""
        name = c.SAME_AS.get(expr.op, expr.op)
        kind = self.of(expr.dtype)
        dtype = expr.args[0].dtype if expr.args else expr.dtype
        if expr.atom.identity:
            return self.value(expr.args[0])
        if expr.op in c.ARITHMETIC:
            a, b = map(self.value, expr.args)
            return self.rounded(expr.dtype, f"({a} {c.ARITHMETIC[expr.op]} {b})")
        if name in ("fmax_nan", "fmin_nan") and dtype.is_float:
            a, b = map(self.value, expr.args)
            return self.extreme(name[1:4], dtype, a, b, "nan_")
        if name == "abs" and expr.dtype == dtype:
            macro = "TL_VFABS" if dtype.is_float else "TL_VABS"
            inner = self.value(expr.args[0])
            return inner if dtype.is_uint else f"{macro}({kind}, {self.integers(dtype)}, {inner})"
        if name == "isnan" and dtype.is_float:
            inner = self.named("x", self.of(dtype), self.value(expr.args[0]))
            return f"TL_CONVERT({inner} != {inner}, {self.type('mask')})"
        if name in FUNCTIONS and value_bits(dtype) == 32 and dtype.is_float and self.family == "w":
            self.math += 1
            inner = ", ".join(c.bare(self.value(arg)) for arg in expr.args)
            return self.rounded(expr.dtype, f"tl_w_{name}({inner})")
        raise NoVectorError
