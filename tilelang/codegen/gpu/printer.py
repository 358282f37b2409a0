"""Expressions of GPU kernels as source.

Values follow `CPrinter`: narrow floats are computed in float and rounded after every operation.
C++ leaves signed overflow undefined, so integer arithmetic is written with operators only where
the values are known to stay in range and with wrapping functions of the header elsewhere.
"""

from __future__ import annotations

from tilelang.codegen import c
from tilelang.codegen.gpu import indexing
from tilelang.codegen.gpu.dialect import Dialect
from tilelang.codegen.gpu.indexing import Term
from tilelang.codegen.gpu.rows import call_text, is_tensor_map
from tilelang.codegen.names import Names
from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E
from tilelang.ir.atoms import Atom
from tilelang.ir.bounds import Bounds, interval
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType, max_value, min_value
from tilelang.ir.indices import parted
from tilelang.ir.intervals import Interval, full
from tilelang.ir.linear import Linear
from tilelang.ir.simplify import simplify
from tilelang.ir.tables import BINARY
from tilelang.target import Target
from tilelang.target.alternatives import unavailable
from tilelang.target.matrices import PER_LANE

_SIGNED = ("int32", "int64")
_DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")


class GpuPrinter(c.CPrinter):
    """Expressions of one kernel.

    Attributes:
        ranges: what is known of integer variables.
        indices: variables whose exact value is part of index arithmetic; those in `wide` are
            declared int64_t, those in `narrow` int although their dtype is int64.
        used: variables and storage that the text mentions.
        declared: storage -> C element type of its pointer (with "const " where it is read only).
        threads: threads of a block.
        state: helpers that the text needs at the head of the kernel, name -> declaration.
        polled: the elements that the printed condition of a loop loads until other threads have
            changed them, by volatile loads.
        templates: function templates in the source that the program brings.
        computed_in_float: values without bits of their own, see ``bits``.
    """

    def __init__(
        self, names: Names, target: Target, threads: tuple[int, ...], dialect: Dialect
    ) -> None:
        super().__init__(names)
        self.target = target
        self.dialect = dialect
        self.threads = threads
        self.ranges: dict[E.Var, Interval] = {}
        self.bounds = Bounds(self.ranges)
        self.indices: set[E.Var] = set()
        self.narrow: set[E.Var] = set()
        self.used: dict[E.Var, None] = {}
        self.declared: dict[E.Var, str] = {}
        self.state: dict[str, str] = {}
        self.rows: set[Atom] = set()
        self.instances: dict[str, None] = {}
        self.maps: dict[E.Call, str] = {}
        self.map_alias: dict[E.Var, E.Call] = {}
        self.map_names: dict[E.Call, str] = {}
        self.taken: dict[str, E.Call] = {}  # names of maps in all kernels of the module
        self.polled: set[tuple[Buffer, tuple[E.Expr, ...]]] = set()
        self.templates: frozenset[str] = frozenset()
        self.computed_in_float: set[E.Expr] = set()

    # -- architecture ------------------------------------------------------------------------------
    def has(self, needs: str) -> bool:
        """Whether the target has the feature `needs`. All have "", and GPUs have "threads"."""
        return needs in ("", "threads") or needs in self.target.features

    def require(self, needs: str, construct: str) -> None:
        """Refuse `what` on a target without the feature `needs`."""
        if not self.has(needs):
            raise unavailable(construct, needs, self.target)

    def refuse_lacking(self, name: str) -> None:
        """Reject a call that the dialect lacks, with the replacement."""
        instead = self.dialect.lacks.get(name)
        if instead is not None:
            raise TileUnsupportedError(
                f"T.{name} is not available on {self.dialect.name}", expected=instead, got=name
            )

    # -- names -------------------------------------------------------------------------------------
    def name_of(self, var: E.Var) -> str:
        """The name of a variable, noted as used."""
        self.used.setdefault(var)
        return self.names.of(var, var.name)

    def pointer(self, buffer: Buffer) -> str:
        """The pointer of a buffer; views of another dtype convert it."""
        self.used.setdefault(buffer.data)
        name = super().pointer(buffer)
        declared = self.declared.get(buffer.data)
        if declared is None or buffer.data in self.scalars:
            return name
        prefix = ("const " if declared.startswith("const ") else "") + c.storage_type(buffer.dtype)
        space = self.dialect.space(buffer.storage)
        return name if declared == prefix else f"(({space}{prefix}*){name})"

    def load(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> str:
        """Scalar variables are C variables of the value type; the rest is memory."""
        if buffer.data in self.scalars:
            return self.pointer(buffer)
        seen = buffer.storage in ("global", "shared", "shared.dyn")
        if seen and (buffer, indices) in self.polled and not c.is_packed(buffer.dtype):
            kind = self.dialect.space(buffer.storage) + c.storage_type(buffer.dtype)
            steady = f"((const volatile {kind}*){self.pointer(buffer)})"
            return self.loaded(buffer.dtype, steady, self.flat_index(buffer, indices))
        return super().load(buffer, indices)

    def bits(self, expr: E.Expr, dtype: DType) -> str | None:
        """Also those of arithmetic that the machine rounds, if its operands have bits."""
        bits = super().bits(expr, dtype)
        if bits is not None or expr.dtype != dtype or expr in self.computed_in_float:
            return bits
        if isinstance(expr, E.Binary) and expr.op in ("add", "sub", "mul"):
            if dtype in self.dialect.rounded and self.has(self.dialect.rounded[dtype]):
                a, b = self.bits(expr.a, dtype), self.bits(expr.b, dtype)
                if a is not None and b is not None:
                    return f"tl_{c.NARROW_FLOATS[dtype][1]}_{expr.op}({c.bare(a)}, {c.bare(b)})"
        self.computed_in_float.add(expr)
        return None

    def address(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> str:
        """A pointer to one element; of packed elements, to the byte that holds it. The constant
        part of an index is separate from the rest."""
        name = self.pointer(buffer)
        if buffer.attrs.matrices:  # counted in whole ones
            indices = (simplify(indices[0] // PER_LANE),)
        indices, immediate = self.split_immediate(buffer, indices)
        offset = self.offset(buffer, indices)
        if c.is_packed(buffer.dtype):
            offset = indexing.combine("floordiv", offset, indexing.number(2))
        text = name if offset.text == "0" else f"&{name}[{c.bare(offset.text)}]"
        return text if immediate.text == "0" else f"({text} + {immediate.at(indexing.PRODUCT)})"

    def split_immediate(
        self, buffer: Buffer, indices: tuple[E.Expr, ...]
    ) -> tuple[tuple[E.Expr, ...], Term]:
        """The indices without their immediate parts, and the elements that those are together."""
        starts: list[E.Expr] = []
        immediate_offset = indexing.number(0)
        for index, stride in zip(indices, buffer.stride_list()):
            start, immediate_index = parted(index)
            starts.append(start)
            if immediate_index is None:
                continue
            form, step = Linear.of(immediate_index), int(stride)
            for term, factor in form.terms:
                far = indexing.combine("mul", self.term(term), indexing.number(factor * step))
                immediate_offset = indexing.combine("add", immediate_offset, far)
            immediate_offset = indexing.combine(
                "add", immediate_offset, indexing.number(form.constant * step)
            )
        return tuple(starts), immediate_offset

    def tensor_map(self, operand: E.Expr) -> str:
        """A pointer to a tensor map: a parameter of the kernel, or what the program has."""
        call = self.map_alias.get(operand, operand) if isinstance(operand, E.Var) else operand
        if not (isinstance(call, E.Call) and is_tensor_map(call)):
            return c.bare(self.value(operand))
        if call not in self.maps:
            prefix = self.map_names.get(call, "tensor_map")
            name = self.names.fresh(prefix)
            while self.taken.setdefault(name, call) is not call:
                name = self.names.fresh(prefix)  # another map of another kernel
            self.maps[call] = name
        return f"&{self.maps[call]}"

    # -- intervals ---------------------------------------------------------------------------------
    def interval(self, expr: E.Expr) -> Interval:
        """The interval of the value of an integer expression."""
        return interval(expr, self.bounds)

    def is_nonnegative(self, expr: E.Expr) -> bool:
        """Whether the value of an integer expression is provably at least 0."""
        return self.interval(expr).low >= 0

    def is_positive(self, divisor: E.Expr) -> bool:
        """Whether the value of a divisor is provably more than 0."""
        shift = c.shift_of(self.held.get(divisor, divisor))
        is_power = shift is not None and self.interval(shift).high < divisor.dtype.bits - 1
        return is_power or self.interval(divisor).low > 0

    def counts(self, var: E.Var) -> bool:
        """Whether a variable is one of loops, blocks, threads or sizes."""
        return var in self.indices

    def term(self, expr: E.Expr | int) -> Term:
        """An index as exact text; what is not index arithmetic keeps the value of its dtype."""
        if isinstance(expr, int):
            return indexing.number(expr)
        if isinstance(expr, E.Const) or self.is_index(expr):
            return self.arithmetic(expr)
        range_ = self.interval(expr)
        text = self.value(expr)
        if expr.dtype in ("int64", "uint64", "uint32"):
            cast = "" if expr.dtype == "int64" else "(int64_t)"
            return Term(cast + text, range_.low, range_.high, True)
        return Term(text, range_.low, range_.high)

    def arithmetic(self, expr: E.Expr) -> Term:
        """The exact text of what `is_index`."""
        if isinstance(expr, E.Const):
            return indexing.number(int(expr.value))
        if isinstance(expr, E.Var):
            range_ = self.ranges.get(expr, full(expr.dtype))
            wide = expr in self.wide or (expr.dtype == "int64" and expr not in self.narrow)
            return Term(self.name_of(expr), range_.low, range_.high, wide)
        if isinstance(expr, E.Cast):
            return self.arithmetic(expr.value)  # the type follows from the values
        assert isinstance(expr, E.Binary)
        return indexing.combine(expr.op, self.arithmetic(expr.a), self.arithmetic(expr.b))

    def index(self, expr: E.Expr | int) -> str:
        """An index expression, exact."""
        return self.term(expr).text

    def offset(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> Term:
        """Offset in elements of the element at `indices`."""
        total = indexing.number(0)
        for index, stride in self.steps(buffer, indices):
            step = indexing.combine("mul", self.term(index), self.term(stride), within=True)
            total = indexing.combine("add", total, step, within=True)
        return indexing.combine("add", total, self.term(buffer.elem_offset), within=True)

    def flat_index(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> str:
        """Text of the offset in elements of the element at `indices`."""
        return c.bare(self.offset(buffer, indices).text)

    # -- values ------------------------------------------------------------------------------------
    def value(self, expr: E.Expr) -> str:
        """`expr` as a C expression of its value type, parenthesised where needed."""
        if isinstance(expr, E.Var):
            if expr in self.map_alias:
                return self.tensor_map(expr)
            name = self.name_of(expr)
            needs_cast = expr in (self.narrow if expr.dtype == "int64" else self.wide)
            return f"({c.value_type(expr.dtype)}){name}" if needs_cast else name
        return super().value(expr)

    def unary(self, expr: E.Unary) -> str:
        """Negation and complements."""
        if expr.op == "neg" and expr.dtype in _SIGNED:
            if self.interval(expr.a).low <= min_value(expr.dtype):
                return f"tl_sub_{self.suffix(expr.dtype)}(0, {self.value(expr.a)})"
        return super().unary(expr)

    def binary(self, expr: E.Binary) -> str:
        """Arithmetic, comparison and logic."""
        op, dtype = expr.op, expr.a.dtype
        if BINARY[op].compares and self.is_index(expr.a) and self.is_index(expr.b):
            return f"({self.index(expr.a)} {BINARY[op].symbol} {self.index(expr.b)})"
        if op == "land" and (text := self.within_size(expr)):
            return text
        if self.is_index(expr):
            term = self.term(expr)
            if dtype == "int64":
                return term.widened().at(indexing.ATOM)
            if not term.wide:
                return term.at(indexing.ATOM)
        if op in ("add", "sub", "mul") and dtype in _SIGNED and not self.is_in_range(expr):
            a, b = self.value(expr.a), self.value(expr.b)
            return f"tl_{op}_{self.suffix(dtype)}({a}, {b})"
        if op in _DIVISIONS and dtype.bits >= 32:
            return self.division(expr, self.value)
        if op == "mul" and dtype == "uint16":  # int could overflow
            return f"(uint16_t)((uint32_t){self.value(expr.a)} * {self.value(expr.b)})"
        bits = self.bits(expr, expr.dtype) if expr.dtype in self.dialect.rounded else None
        return super().binary(expr) if bits is None else self.of_bits(expr.dtype, bits)

    def within_size(self, expr: E.Binary) -> str | None:
        """``0 <= x`` and ``x < size`` as one unsigned comparison, for a size that is not constant:
        loads under one comparison are predicated and in flight together, those under a branch
        wait for each other. None where the conditions are others."""
        rest, low, high = None, expr.a, expr.b
        if isinstance(low, E.Binary) and low.op == "land":
            rest, low = low.a, low.b
        if not (isinstance(low, E.Binary) and isinstance(high, E.Binary)):
            return None
        x, size = high.a, high.b
        if (low.op, high.op) != ("ge", "lt") or low.a is not x or low.b is not E.const(0, x.dtype):
            return None
        if isinstance(size, E.Const) or not x.dtype.is_int or not self.is_nonnegative(size):
            return None
        a, b = self.term(x), self.term(size)
        kind = "uint64_t" if a.wide or b.wide else "uint32_t"
        text = f"(({kind}){a.at(indexing.ATOM)} < ({kind}){b.at(indexing.ATOM)})"
        return text if rest is None else f"({self.value(rest)} && {text})"

    def is_in_range(self, expr: E.Binary) -> bool:
        """Whether a sum or product of signed integers never leaves its dtype."""
        range_ = indexing.span(expr.op, self.interval(expr.a), self.interval(expr.b))
        return range_.low >= min_value(expr.dtype) and range_.high <= max_value(expr.dtype)

    def cast(self, expr: E.Cast) -> str:
        """Conversions; stochastic rounding has no instruction here."""
        if expr.rounding:
            raise TileUnsupportedError(
                f"T.cast with round={expr.rounding!r} is not available on {self.dialect.name}",
                expected="rounding to nearest even", got=f"`{expr!r}`",
            )  # fmt: skip
        if self.is_index(expr):
            return self.term(expr).widened().at(indexing.ATOM)
        return super().cast(expr)

    def call(self, expr: E.Call) -> str:
        """An intrinsic: one with a rule of its own, an elementwise one, or a header function."""
        self.rows.add(expr.atom)
        text = call_text(self, expr)
        return super().call(expr) if text is None else text

    def target_call(self, expr: E.Call, args: list[str]) -> str:
        """An intrinsic that the dialect has no text for."""
        self.require(expr.atom.needs, f"T.{expr.op}")
        raise TileUnsupportedError(
            f"T.{expr.op} is not supported on {self.dialect.name}",
            expected=f"an operation of the {self.dialect.name} back end", got=f"`{expr!r}`",
        )  # fmt: skip

    # -- types -------------------------------------------------------------------------------------
    def encoded(self, dtype: DType, text: str) -> str:
        """The bits of a value of `dtype`, as its storage type."""
        if dtype in c.NARROW_FLOATS:
            read = c.argument_of(f"tl_{c.NARROW_FLOATS[dtype][1]}_to_f32", text)
            return read if read is not None else self.coded(dtype, text)
        if dtype.bits < 8:
            return f"(uint8_t)({text} & {2**dtype.bits - 1})"
        return f"({c.PLAIN_TYPES[dtype]}){text}"

    def decoded(self, dtype: DType, text: str) -> str:
        """The value of `dtype` with the given storage bits."""
        if dtype in c.NARROW_FLOATS:
            return f"tl_{c.NARROW_FLOATS[dtype][1]}_to_f32({text})"
        return f"tl_wrap_i4({text})" if dtype == "int4" else text


def thread_index(p: GpuPrinter) -> str:
    """The linear number of the thread in its block."""
    x, y, z = p.threads
    axes = [p.dialect.thread.format(axis=axis) for axis in "xyz"]
    if y == z == 1:
        return f"(int){axes[0]}"
    plane = f"{axes[0]} + {x} * {axes[1]}"
    return f"(int)({plane})" if z == 1 else f"(int)({plane} + {x * y} * {axes[2]})"
