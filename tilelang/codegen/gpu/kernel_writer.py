"""Statements of one GPU kernel as lines of source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tilelang.codegen.c import NARROW_FLOATS, bare, is_packed, storage_type, value_type
from tilelang.codegen.gpu import indexing
from tilelang.codegen.gpu.printer import GpuPrinter
from tilelang.codegen.gpu.rows import call_text
from tilelang.codegen.names import Names
from tilelang.codegen.text import quote
from tilelang.codegen.writer import Writer
from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.effects import written
from tilelang.ir.intervals import Interval
from tilelang.ir.linear import depends_on
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.target.matrices import PER_LANE


class _Counter(NamedTuple):
    """A counter that wraps around with a loop: its start, and its step after an iteration."""

    start: str
    step: str


def _polled(cond: E.Expr, own: frozenset[E.Var]) -> Iterator[tuple[Buffer, tuple[E.Expr, ...]]]:
    """What those comparisons load that are not about the variables ``own``, which the loop changes:
    other threads end it."""
    if isinstance(cond, E.Binary) and cond.op in ("land", "lor"):
        yield from (*_polled(cond.a, own), *_polled(cond.b, own))
    elif not depends_on(cond, own):
        yield from ((load.buffer, load.indices) for load in E.find(cond, E.Load))


class KernelWriter(Writer):
    """Statements of one kernel.

    Args:
        addressed: storage whose address is taken, which therefore needs memory.
    """

    def __init__(
        self, names: Names, printer: GpuPrinter, addressed: frozenset[E.Var], axes: tuple[str, ...]
    ) -> None:
        super().__init__(names, printer)
        self.p = printer
        self.machine = printer.dialect.name
        self.addressed = addressed
        self.axes = axes  # names of the block variables
        self.uses_arena = False
        self.tiles: list[tuple[str, Buffer]] = []  # name in the text, buffer in shared memory

    # -- values ------------------------------------------------------------------------------------
    def let(self, stmt: S.Let) -> None:
        """A constant; integers used as indices are exact."""
        if stmt.var in self.p.map_alias:
            return
        var, kind = stmt.var, "bool" if stmt.var.dtype.is_bool else value_type(stmt.var.dtype)
        self.p.held[var] = stmt.value
        if var.dtype in ("int32", "int64") and self.p.is_index(stmt.value):
            term = self.p.term(stmt.value)
            value = term.text
            self.p.indices.add(var)
            kind = "int64_t" if term.wide else "int"
            (self.p.wide if term.wide else self.p.narrow).add(var)
            if abs(term.low) < 2**63 and abs(term.high) < 2**63:
                self.p.ranges[var] = Interval(term.low, term.high)
        else:
            value = bare(self.p.value(stmt.value))
            if var.dtype.is_integer:
                self.p.ranges[var] = self.p.interval(stmt.value)
        self.put(f"const {kind} {self.p.name_of(var)} = {value};")

    # -- memory ------------------------------------------------------------------------------------
    def alloc(self, stmt: S.Alloc) -> None:
        """Variables and arrays in registers, tiles and barriers in shared memory."""
        buffer = stmt.buffer
        if buffer.is_var and not is_packed(buffer.dtype) and buffer.data not in self.addressed:
            self.p.scalars.add(buffer.data)
            first = "0" if stmt.init is None else bare(self.p.value(stmt.init))
            self.put(f"{value_type(buffer.dtype)} {self.p.pointer(buffer)} = {first};")
            return
        kind = storage_type(buffer.dtype)
        self.p.declared[buffer.data] = kind
        name = self.p.pointer(buffer)
        length = storage_units(buffer, stmt)
        if buffer.attrs.matrices:
            kind, count = self.p.dialect.matrices[str(buffer.dtype)], length // PER_LANE
            self.put(f"{kind} {name}[{count}];")
        elif buffer.storage in ("local", "local.var", "local.descriptor"):
            self.put(self.p.dialect.local.format(kind=kind, name=name, length=length))
        elif buffer.storage.startswith("shared"):
            self.shared(buffer, kind, name, length)
        else:
            raise TileUnsupportedError(
                f"`{buffer.name}` in {buffer.storage} memory cannot be printed for {self.machine}",
                expected="local or shared memory inside a kernel", got=buffer.storage,
            )  # fmt: skip
        if stmt.init is not None:
            self.put(self.p.stored(buffer.dtype, name, "0", bare(self.p.value(stmt.init))))

    def store(self, stmt: S.Store) -> None:
        """An assignment; nibbles of memory that threads share change atomically."""
        buffer, p = stmt.buffer, self.p
        if is_packed(buffer.dtype) and not buffer.storage.startswith("local"):
            kind = p.int_name(buffer.dtype)
            if buffer.dtype in NARROW_FLOATS:
                kind = NARROW_FLOATS[buffer.dtype][1]
            offset, value = p.flat_index(buffer, stmt.indices), bare(p.value(stmt.value))
            self.put(f"tl_store_shared_{kind}({p.pointer(buffer)}, {offset}, {value});")
            return
        if isinstance(stmt.value, E.Call) and stmt.value.op == "stg32":
            bits = E.call("reinterpret", stmt.value.args[0], dtype="uint32")
            self.put(f"tl_stg32(&{p.pointer(buffer)}[{p.flat_index(buffer, stmt.indices)}], "
                     f"{bare(p.value(bits))});")  # fmt: skip
            return
        super().store(stmt)

    def shared(self, buffer: Buffer, kind: str, name: str, length: int) -> None:
        """An address in the block's arena, or static memory if none was planned."""
        offset = buffer.attrs.arena_offset
        self.tiles.append((name, buffer))
        if offset is None:
            self.put(self.p.dialect.shared.format(kind=kind, name=name, length=length))
            return
        self.uses_arena = True
        address = f"tl_smem + {offset}" if offset else "tl_smem"
        space = self.p.dialect.space(buffer.storage)
        self.put(f"{space}{kind}* const {name} = ({space}{kind}*)({address});")

    def view(self, stmt: S.View) -> None:
        """A name for memory that exists; views of the same storage need nothing."""
        if stmt.source is None:
            return
        if stmt.buffer.storage == "shared.tmem":  # an address of its own kind: no pointer
            source = bare(self.p.value(stmt.source))
            self.put(f"const uint32_t {self.p.name_of(stmt.buffer.data)} = {source};")
            return
        kind = storage_type(stmt.buffer.dtype)
        source = self.p.value(stmt.source)
        self.p.declared[stmt.buffer.data] = kind
        kind = self.p.dialect.space(stmt.buffer.storage) + kind
        self.put(f"{kind}* const {self.p.pointer(stmt.buffer)} = ({kind}*)({source});")

    # -- control flow ------------------------------------------------------------------------------
    def repeated(self, stmt: S.While) -> str:
        """The condition of a loop; memory that alone may end it is loaded every time."""
        self.p.polled = {*_polled(stmt.cond, frozenset(written(stmt.body) & self.p.scalars))}
        condition = self.condition(stmt.cond)
        self.p.polled = set()
        return condition

    def loop(self, stmt: S.For) -> None:
        """A counted loop, in int where its variable cannot leave it."""
        p, var = self.p, stmt.var
        start, stop, step = p.term(stmt.start), p.term(stmt.stop), p.term(stmt.step)
        up, down = step.low > 0, step.high < 0
        low = start.low if up else min(start.low, stop.low)
        high = max(stop.high - 1, start.low) if up else max(start.high, stop.high)
        # The last value of the loop is short of the stop; one more step follows.
        ends = (start.low + min(step.low, 0), stop.high + max(step.high - 1, 0), start.high)
        narrow = all(indexing.fits(end, end) for end in (*ends, stop.low + min(step.low + 1, 0)))
        wide = start.wide or stop.wide or step.wide or not narrow
        p.indices.add(var)
        p.ranges[var] = Interval(low, high)
        (p.wide if wide else p.narrow).add(var)
        name, kind = p.names.of(var, var.name), "int64_t" if wide else "int"
        pragma = self.pragma(stmt)
        if pragma:
            self.put(pragma)
        begin = f"for ({kind} {name} = {start.text};"
        counters, body = self.counters(stmt, wide)
        if counters:
            starts = ", ".join([f"{name} = {start.text}", *(c.start for c in counters)])
            moves = ", ".join([f"++{name}", *(c.step for c in counters)])
            self.put(f"for ({kind} {starts}; {name} < {stop.text}; {moves}) {{")
        elif step.constant == 1:
            self.put(f"{begin} {name} < {stop.text}; ++{name}) {{")
        elif up or down:
            self.put(f"{begin} {name} {'<' if up else '>'} {stop.text}; {name} += {step.text}) {{")
        else:
            by = self.names.fresh(f"{var.name}_step")
            self.put(f"const {kind} {by} = {step.text};")
            self.put(
                f"{begin} {by} > 0 ? {name} < {stop.text} : "
                f"({by} < 0 && {name} > {stop.text}); {name} += {by}) {{"
            )
        self.nested(body)

    def counters(self, loop: S.For, wide: bool) -> tuple[list[_Counter], S.Stmt]:
        """The remainders that the loop counts along with its variable, and the rest of its body.

        Each is ``(var + c) % S``. One that is next to the following one takes over its value, so
        that only the last one of a chain compares. Phases follow: ``(var + c) // S % 2``,
        which change where the remainder has come back to 0.
        """
        count = loop.hints.counted
        if not count:
            return [], loop.body
        assert isinstance(loop.body, S.Seq) and isinstance(loop.start, E.Const)
        advances: list[tuple[str, E.Expr, int]] = []
        phases: list[_Counter] = []
        stages: dict[tuple[E.Expr, int], str] = {}
        for let in loop.body.stmts[:count]:
            assert isinstance(let, S.Let) and isinstance(let.value, E.Binary)
            size, inner = int(let.value.b), let.value.a
            name = self.names.of(let.var, let.var.name)
            first = simplify(substitute(let.value, {loop.var: loop.start}))
            if isinstance(inner, E.Binary) and inner.op == "floordiv":
                wraps = f"{stages[inner.a, int(inner.b)]} == 0"
                phases.append(
                    _Counter(f"{name} = {bare(self.p.index(first))}", f"{name} ^= {wraps}")
                )
            else:
                advances.append((name, first, size))
                stages[inner, size] = name
            self.p.indices.add(let.var)
            self.p.ranges[let.var] = Interval(0, size - 1)
            (self.p.wide if wide else self.p.narrow).add(let.var)
        updates = []
        for (name, first, size), after in zip(advances, [*advances[1:], None]):
            step = f"{name} == {size - 1} ? 0 : {name} + 1"
            if after is not None and after[1] is simplify((first + 1) % size) and after[2] == size:
                step = after[0]
            updates.append(_Counter(f"{name} = {bare(self.p.index(first))}", f"{name} = {step}"))
        return [*updates, *phases], S.seq(*loop.body.stmts[count:])

    def pragma(self, stmt: S.For) -> str:
        """The unroll pragma of the loop; "" leaves the choice to the compiler."""
        if stmt.kind not in ("unroll", "vectorized"):
            rolled = self.p.dialect.rolled if isinstance(stmt.stop, E.Const) else ""
            calls = (inner.call for inner in S.walk(stmt.body)) if rolled else ()
            has_barrier = any(call is not None and call.atom.is_barrier("block") for call in calls)
            return rolled if has_barrier else ""
        factor = stmt.hints.unroll_factor
        return "#pragma unroll" if factor is None else f"#pragma unroll {factor}"

    def thread_return(self) -> None:
        """The executing thread leaves the kernel."""
        self.put("return;")

    # -- effects -----------------------------------------------------------------------------------
    def effect(self, value: E.Expr) -> None:
        """An expression for its effect: a call is a statement, anything else is discarded."""
        text = self.p.call(value) if isinstance(value, E.Call) else self.p.value(value)
        self.put(f"{text};" if isinstance(value, E.Call) else f"(void){text};")

    def hint(self, call: E.Call) -> None:
        """Order and register hints, where the architecture has them."""
        self.p.rows.add(call.atom)
        text = call_text(self.p, call) if self.p.has(call.atom.needs) else None
        if text:
            self.put(f"{text};")

    def check(self, stmt: S.Assert) -> None:
        """An assertion; facts given by T.assume cost nothing."""
        if not stmt.assumed:
            self.fail_unless(stmt.cond, stmt.message or f"{stmt.cond!r} does not hold")

    def print_value(self, call: E.Call) -> None:
        """One line on the standard output of the host."""
        self.p.refuse_lacking("print")
        super().print_value(call)

    def fail_unless(self, cond: E.Expr, message: str) -> None:
        """Print `message` and stop the kernel."""
        self.p.refuse_lacking("device_assert")
        self.put(f"tl_assert({bare(self.p.value(cond))}, {quote(message)});")

    def position(self) -> str:
        """Arguments of printf: the block's three coordinates, then the thread's."""
        block = [f"(int){axis}" for axis in self.axes] + ["0"] * (3 - len(self.axes))
        thread = [f"(int){self.p.dialect.thread.format(axis=axis)}" for axis in "xyz"]
        return ", ".join([*block, *thread])


def storage_units(buffer: Buffer, stmt: S.Stmt) -> int:
    """Number of storage units of an array with constant extents."""
    count = buffer.constant_span(stmt.loc)
    return max(1, (count + 1) // 2 if is_packed(buffer.dtype) else count)
