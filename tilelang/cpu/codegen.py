"""C source of a serialised function: one C file with an entry, block functions and their state.

The entry ``tl_call(const int64_t* slots)`` decodes the launch signature (``runtime.signature``:
data pointers, scalars, symbols, in that order), runs the host statements and passes each launch to
``tl_launch`` of the header, which distributes the blocks over the cores. Every core has one arena
with the tiles at fixed offsets, so a running kernel allocates nothing.
"""

from __future__ import annotations

from dataclasses import field

from tilelang.codegen.c import CPrinter, bare, is_packed, storage_type, unit_bytes, value_type
from tilelang.codegen.names import Names
from tilelang.codegen.random_states import generator_type
from tilelang.codegen.writer import Writer, device_assert_text
from tilelang.cpu.loops.loop_fission import unsupported_intrinsic
from tilelang.cpu.loops.plain_updates import EXCLUSIVE
from tilelang.cpu.nontemporal_stores import NONE, Streams
from tilelang.errors import Loc, Site, TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.lanes import exchange_in_shared_loop
from tilelang.ir.tables import RNG_INIT, RNG_RAND_FLOAT
from tilelang.records import dataclass

ON_STACK = 256  # bytes up to which a private array is a C array
ALIGN = 64
UNSEEDED = "a random number is drawn before the generator is initialised"

# The suffixes of atomic functions on floats.
_ATOMIC_FLOATS = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
# Atomics that have a form for memory which no other core uses.
_ALONE = frozenset(f"atomic_{word}" for word in "add max min or and xor exch".split())


@dataclass
class Unit:
    """The parts of a C file while it is built."""

    kernels: list[str] = field(default_factory=list)  # block functions and their helpers
    support: dict[str, str] = field(default_factory=dict)  # name -> definition, in order
    # Error code - 1 -> message and the check that gives it.
    failures: dict[tuple[str, Site], None] = field(default_factory=dict)
    endless: bool = False  # whether a loop may be endless, so that it polls for an interrupt
    dots: bool = False  # whether GEMM operands are packed in 32-bit words
    vectors: bool = False  # whether a loop is one over vectors
    vector_math: int = 0  # calls of functions of vectors
    vector_small: bool = False  # whether it converts floats of eight bits


class CpuPrinter(CPrinter):
    """Expressions of block functions and host code on the CPU."""

    def __init__(self, names: Names, unit: Unit, host: bool) -> None:
        super().__init__(names)
        self.unit = unit
        self.host = host
        self.declared: dict[E.Var, str] = {}  # storage -> C element type of its pointer
        self.thread = ""  # the variable of the loop over threads that is being written
        self.draws = ""  # the type of the random generators of the threads, if they have any
        self.lanes: dict[E.Var, str] = {}  # a lane of each vector, while one is computed alone
        self.loc: Loc | None = None  # place in the program of the statement being written

    def pointer(self, buffer: Buffer) -> str:
        """The pointer of a buffer; views of another dtype convert it."""
        name = super().pointer(buffer)
        declared = self.declared.get(buffer.data)
        stored = storage_type(buffer.dtype)
        return name if declared in (None, stored) else f"(({stored}*){name})"

    def load(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> str:
        """Scalar variables are C variables of the value type; the rest is memory."""
        if buffer.data in self.lanes:
            return self.lanes[buffer.data]
        if buffer.data in self.scalars:
            return self.pointer(buffer)
        return super().load(buffer, indices)

    def value(self, expr: E.Expr) -> str:
        """``expr`` in C; of a name for a vector, one lane."""
        if isinstance(expr, E.Var) and expr in self.lanes:
            return self.lanes[expr]
        return super().value(expr)

    def index(self, expr: E.Expr | int) -> str:
        """An index in C; of a name for a vector, one lane."""
        if isinstance(expr, E.Var) and expr in self.lanes:
            return f"(int64_t){self.lanes[expr]}"
        return super().index(expr)

    def target_call(self, expr: E.Call, args: list[str]) -> str:
        """Atomics, bit casts and the few calls that have a meaning on a CPU."""
        op = expr.op
        if op.startswith("atomic_"):
            return self.atomic(expr, args)
        if op == "reinterpret":
            return self.reinterpret(expr, args[0])
        if op in ("ldg", "dp4a"):
            target = expr.args[-1]
            assert isinstance(target, E.AddressOf)
            element = self.load(target.buffer, target.indices)
            return element if op == "ldg" else f"TL_DP4A({args[0]}, {args[1]}, {element})"
        if op.startswith("rng_"):
            return self.random(expr, args)
        if op == "sync_grid":
            return "tl_meet_blocks()"
        if expr.atom is EXCLUSIVE:
            return "tl_is_exclusive((int64_t*)&args->tl_exclusive)"
        if op == "isnullptr":
            return f"({args[0]} == NULL)"
        if expr.atom.exchanges:
            raise exchange_in_shared_loop(expr)
        raise unsupported_intrinsic(expr)

    def random(self, expr: E.Call, args: list[str]) -> str:
        """A random number of the thread, or the start of its generator."""
        if not self.thread:
            raise TileUnsupportedError(
                f"T.{expr.op} in the iterations of a loop that some threads share on the CPU",
                expected="thread code, or a T.Parallel of all threads of the block",
                got=f"`{expr!r}`",
            )
        self.draws = generator_type(expr, self.draws)
        state = f"&tl_random[{self.thread}]"
        if expr.atom is RNG_INIT:
            return f"({self.draws}_init({', '.join([state, *args])}), 0)"
        name = "rand"
        if expr.atom is RNG_RAND_FLOAT:
            name = f"{expr.attr('dist', 'uniform')}_f{expr.attr('bit', 32)}"
        failure = UNSEEDED, Site(repr(expr), self.loc, True)
        self.unit.failures.setdefault(failure)
        code = list(self.unit.failures).index(failure) + 1
        ready = f"tl_random[{self.thread}].ready"
        return f"({ready} ? {self.draws}_{name}({state}) : (tl_fail(error, {code}), 0))"

    def reinterpret(self, expr: E.Call, arg: str) -> str:
        """A bit cast through the storage forms of the two dtypes."""
        source, target = expr.args[0].dtype, expr.dtype
        name = f"tl_cast_{source}_{target}"
        src, dst = storage_type(source), storage_type(target)
        encode = self.stored(source, "&raw", "0", "x").replace("&raw[0]", "raw")
        decode = self.loaded(target, "&out", "0").replace("&out[0]", "out")
        self.unit.support.setdefault(
            name,
            f"static inline {value_type(target)} {name}({value_type(source)} x) "
            f"{{ {src} raw; {dst} out; {encode} memcpy(&out, &raw, sizeof out); "
            f"return {decode}; }}",
        )
        return f"{name}({arg})"

    def atomic(self, expr: E.Call, args: list[str]) -> str:
        """One indivisible update; blocks run on several cores."""
        target = expr.args[0]
        assert isinstance(target, E.AddressOf)
        dtype = target.buffer.dtype
        if is_packed(dtype) or (dtype.is_float and dtype not in _ATOMIC_FLOATS):
            raise TileUnsupportedError(
                f"T.{expr.op} on {dtype} is not supported on the CPU",
                expected=f"integers of 8 or more bits, {', '.join(_ATOMIC_FLOATS)}",
                got=f"`{target.buffer.name}` of dtype {dtype}",
            )
        kind = _ATOMIC_FLOATS.get(dtype) or self.int_name(dtype)
        if expr.op in ("atomic_addx2", "atomic_addx4"):
            assert isinstance(expr.args[1], E.AddressOf)
            return f"tl_atomic_addv_{kind}({args[0]}, {args[1]}, {expr.op[-1]})"
        # A tile of the block is used by one core.
        is_private = target.buffer.storage != "global" and expr.op in _ALONE
        called = expr.op.replace("atomic", "alone") if is_private else expr.op
        return f"tl_{called}_{kind}({', '.join(args)})"


class BlockWriter(Writer):
    """Statements of one function (a block or the host entry) as lines of C."""

    machine = "the CPU"

    def __init__(self, unit: Unit, names: Names, printer: CpuPrinter) -> None:
        super().__init__(names, printer)
        self.unit = unit
        self.p = printer
        self.arena_bytes = 0
        self.thread_labels: list[tuple[str, Buffer | None]] = []
        # What T.print shows: the position of the block, and of the thread by its number.
        self.axes: tuple[str, ...] = ()
        self.threads: tuple[int, ...] = (1, 1, 1)
        self.thread_vars: list[str] = []
        self.loc: Loc | None = None  # place in the program of the statement being written
        self.around: S.For | None = None  # the loop that is being written
        self.streams: Streams = NONE
        self.streaming = False  # whether results are stored past the caches

    def let(self, stmt: S.Let) -> None:
        """A constant; integers used as indices keep their C type."""
        value = bare(self.p.value(stmt.value))
        if stmt.value.dtype.is_int:
            self.p.held[stmt.var] = stmt.value
            self.p.sizes_of[stmt.var] = self.p.largest(stmt.value)
            if self.p.is_nonnegative(stmt.value):
                self.p.at_least_zero.add(stmt.var)
        kind = value_type(stmt.var.dtype)
        if stmt.var.dtype == "int32" and self.p.is_index(stmt.value):
            self.p.wide.add(stmt.var)  # index arithmetic stays in 64 bits
            kind, value = "int64_t", bare(self.p.index(stmt.value))
        self.put(f"const {kind} {self.names.of(stmt.var, stmt.var.name)} = {value};")

    def alloc(self, stmt: S.Alloc) -> None:
        """Variables and small arrays are C locals, tiles have an offset in the arena."""
        buffer = stmt.buffer
        name = self.p.pointer(buffer)
        dtype = buffer.dtype
        if buffer.is_var and not is_packed(dtype):
            self.p.scalars.add(buffer.data)
            first = "0" if stmt.init is None else self.p.value(stmt.init)
            self.put(f"{value_type(dtype)} {name} = {first};")
            return
        kind = storage_type(dtype)
        self.p.declared[buffer.data] = kind
        count = buffer.constant_span(stmt.loc)
        size = (count + 1) // 2 if is_packed(dtype) else count * unit_bytes(dtype)
        if size <= ON_STACK and buffer.storage.startswith("local"):
            length = max(1, -(-size // unit_bytes(dtype)))
            self.put(f"{kind} {name}[{length}] __attribute__((aligned(16)));")
        else:
            offset = self.arena_bytes
            self.arena_bytes += (size + ALIGN - 1) // ALIGN * ALIGN
            self.put(f"{kind}* const {name} = ({kind}*)(arena + {offset});")
        if stmt.init is not None:
            self.put(self.p.stored(dtype, name, "0", self.p.value(stmt.init)))

    def view(self, stmt: S.View) -> None:
        """A name for memory that exists; the storage variable is shared, so views of the same
        dtype need nothing, others are a pointer of another type."""
        buffer = stmt.buffer
        if stmt.source is None:
            return
        kind = storage_type(buffer.dtype)
        source = self.p.value(stmt.source)
        self.p.declared[buffer.data] = kind
        self.put(f"{kind}* const {self.p.pointer(buffer)} = ({kind}*)(intptr_t)({source});")

    # -- control flow --------------------------------------------------------------------------
    def loop(self, stmt: S.For) -> None:
        """A counted loop; independent innermost iterations are marked for the vectoriser."""
        bits = stmt.hints.vector
        var, start, stop = self.bounds(stmt)
        step = stmt.step.value if isinstance(stmt.step, E.Const) else None
        if bits and self.vector_loop(stmt, bits):
            return
        if pragma := self.pragma(stmt):
            self.put(pragma)
        if step == 1:
            head = f"for (int64_t {var} = {start}; {var} < {stop}; ++{var}) {{"
        elif step is not None:
            sign = "<" if step > 0 else ">"
            head = f"for (int64_t {var} = {start}; {var} {sign} {stop}; {var} += {int(step)}) {{"
        else:
            by = self.names.fresh(f"{stmt.var.name}_step")
            self.put(f"const int64_t {by} = {self.p.index(stmt.step)};")
            head = (
                f"for (int64_t {var} = {start}; {by} > 0 ? {var} < {stop} : "
                f"({by} < 0 && {var} > {stop}); {var} += {by}) {{"
            )
        self.put(head)
        outer, self.around = self.around, stmt
        self.iterations(stmt, var)
        self.around = outer

    def vector_loop(self, stmt: S.For, bits: int) -> bool:
        """Put a loop over vectors; False, and nothing is put, where its values have none."""
        raise NotImplementedError

    def bounds(self, stmt: S.For) -> tuple[str, str, str]:
        """The variable of a loop, of which more is known from here on, and where it runs."""
        self.p.wide.add(stmt.var)
        self.p.sizes_of[stmt.var] = max(self.p.largest(stmt.start), self.p.largest(stmt.stop))
        rises = isinstance(stmt.step, E.Const) and stmt.step.value > 0
        if rises and self.p.is_nonnegative(stmt.start):
            self.p.at_least_zero.add(stmt.var)
        var = self.names.of(stmt.var, stmt.var.name)
        return var, self.p.index(stmt.start), self.p.index(stmt.stop)

    def iterations(self, stmt: S.For, var: str) -> None:
        """The body of a loop."""
        if stmt.hints.threads:
            label = self.names.fresh("next_thread")
            self.thread_labels.append((label, stmt.hints.alive))
            self.thread_vars.append(var)
            self.p.thread = var
            before = len(self.lines)
            self.nested(stmt.body, "")
            self.thread_vars.pop()
            self.p.thread = self.thread_vars[-1] if self.thread_vars else ""
            self.lines.pop()
            used = any(f"goto {label};" in line for line in self.lines[before:])
            self.thread_labels.pop()
            if used:
                self.put(f"    {label}:;")
            self.put("}")
            return
        self.nested(stmt.body)

    def repeat(self, stmt: S.While) -> None:
        """A loop that also ends when the user interrupts the program."""
        self.unit.endless = True
        self.put(f"while ({self.repeated(stmt)}) {{")
        leave = "return TL_INTERRUPTED;"
        if not self.p.host:
            leave = "{ tl_fail(error, TL_INTERRUPTED); return; }"
        self.put(f"    if (tl_interrupted) {leave}")
        self.nested(stmt.body)

    def pragma(self, stmt: S.For) -> str:
        """The vectorisation pragma of a loop, "" for none."""
        if stmt.kind == "unroll":
            return "#pragma GCC unroll 16"
        return "#pragma omp simd" if stmt.hints.independent else ""

    def thread_return(self) -> None:
        """Leave the kernel: the thread whose loop this is, or the whole block."""
        if self.thread_labels:
            label, alive = self.thread_labels[-1]
            if alive is not None:
                self.put(f"{self.p.pointer(alive)}[{self.thread_vars[-1]}] = 0;")
            self.put(f"goto {label};")
        else:
            self.put("return;" if not self.p.host else "return 0;")

    # -- effects ---------------------------------------------------------------------------------
    def hint(self, call: E.Call) -> None:
        """Copies and products are synchronous here: nothing to order, nothing to hint."""

    def check(self, stmt: S.Assert) -> None:
        """An assertion; facts given by T.assume inside a kernel cost nothing."""
        if self.p.host:
            self.fail_unless(stmt.cond, stmt.host_text, stmt.assumed)
        elif not stmt.assumed:
            message = stmt.message if stmt.threads else device_assert_text(stmt.message)
            self.fail_unless(stmt.cond, message, threads=stmt.threads)

    def mark(self, stmt: S.Stmt) -> None:
        """Remember where the program is."""
        super().mark(stmt)
        self.loc = self.p.loc = stmt.loc

    def fail_unless(
        self, cond: E.Expr, message: str, assumed: bool = False, threads: str = ""
    ) -> None:
        """Stop with an error code that the runtime turns into ``message`` and its location."""
        failure = message, Site(repr(cond), self.loc, not self.p.host, assumed, threads)
        self.unit.failures.setdefault(failure)
        code = list(self.unit.failures).index(failure) + 1
        leave = f"return {code};" if self.p.host else f"{{ tl_fail(error, {code}); return; }}"
        self.put(f"if (!{self.p.value(cond)}) {leave}")

    def position(self) -> str:
        """Arguments of printf: the block's three coordinates, then the thread's."""
        block = [f"(int){axis}" for axis in self.axes] + ["0"] * (3 - len(self.axes))
        if not self.thread_vars:
            return ", ".join([*block, "0, 0, 0"])
        number, (x, y, _) = f"(int){self.thread_vars[-1]}", self.threads
        thread = [f"{number} % {x}", f"{number} / {x} % {y}", f"{number} / {x * y}"]
        return ", ".join([*block, *thread])
