"""Loops that :mod:`~tilelang.cpu.loops.vectorization` marks, as loops over vectors.

The iterations after the last whole vector become a masked vector, or, where iterations may run
twice, a vector that ends with the last iteration. In running totals, and where the widest values
do not have 32 bits, they become a scalar loop. A reduction has several vector accumulators, which
are combined after the loop, because one accumulator would be a dependence chain. Where two tensors
of a call overlap in part, so that iterations have an order, the whole loop is a scalar one.
"""

from __future__ import annotations

from tilelang.codegen.c import bare
from tilelang.cpu.codegen import BlockWriter
from tilelang.cpu.loops.vectorization import added_value, is_chosen
from tilelang.cpu.vector_printer import VectorPrinter
from tilelang.cpu.vector_types import FAMILIES, MOST_LANES, NoVectorError
from tilelang.errors import assert_never
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import interval
from tilelang.ir.buffer import Buffer
from tilelang.ir.memo import memoized
from tilelang.transforms.analysis.combine import start_of
from tilelang.transforms.analysis.loops import trip_count

LINES = 256 * 8  # bits that follow each other in memory; parts of lines go there one by one
MOST_PARTS = 4  # vectors of partial results
# Operator of a reduction -> its name with start values, macro of scalars.
_FOLDS = {
    "add": ("sum", "TL_ADD"), "mul": ("mul", "TL_MUL"), "bitand": ("bitand", "TL_AND"),
    "bitor": ("bitor", "TL_OR"), "bitxor": ("bitxor", "TL_XOR"), "max": ("max", "tl_max_{}"),
    "min": ("min", "tl_min_{}"), "fmax_nan": ("max", "tl_fmax_nan_{}"),
    "fmin_nan": ("min", "tl_fmin_nan_{}"),
}  # fmt: skip


class VectorLoop:
    """Writes one loop."""

    def __init__(self, writer: BlockWriter, loop: S.For, bits: int) -> None:
        self.writer = writer
        self.loop = loop
        self.family = FAMILIES[bits]
        self.p = VectorPrinter(writer.p, loop, self.family)
        self.count = trip_count(loop)
        self.most = MOST_LANES[self.family]
        self.overlaps = loop.hints.idempotent and self.count is not None and self.count >= self.most
        self.totals = loop.hints.reduction
        if self.totals and writer.around is not None:
            self.p.rows = writer.around.var, self.count
        self.scan = loop.hints.scan
        self.before = ""  # name of the running total before a vector, in all lanes
        self.parts = self.accumulator_count()

    def write(self) -> bool:
        """Put the loop; False, and nothing is put, where its values have no vectors."""
        outer_lines, line, depth = self.writer.lines, self.writer.last_line, self.writer.depth
        try:
            lines = self.text()
        except NoVectorError:
            self.writer.last_line = line
            return False
        finally:
            self.writer.lines, self.writer.depth = outer_lines, depth
        self.writer.lines += lines
        unit = self.writer.unit
        unit.vectors = True
        unit.vector_math += self.p.math
        unit.vector_small |= self.p.eighths
        return True

    def text(self) -> list[str]:
        """The lines of the loop."""
        writer, put = self.writer, self.writer.put
        var = self.p.name(self.loop.var)
        start, stop = writer.p.index(self.loop.start), writer.p.index(self.loop.stop)
        lanes = f"TL_LANES_{self.family}"
        step = lanes if self.parts == 1 else f"{self.parts} * {lanes}"
        rest = self.count is None or self.count % (self.parts * self.most) != 0
        first = writer.names.fresh(f"{self.loop.var.name}_first") if rest or self.parts > 1 else var
        writer.depth += 1
        if self.scan is not None:
            self.before = writer.names.fresh(f"{self.scan[1].name}_before")
            self.p.changes(self.scan[1].data)
        body = self.body(var, first)
        writer.lines = []
        for line in self.p.scalars.values():
            put(line)
        for text, (name, kind) in self.p.fixed.items():
            put(f"const {kind} {name} = TL_SPLAT({kind}, {text});")
        for op, total in self.totals:
            kind, zero = self.p.of(total.dtype), start_of(_FOLDS[op][0], total.dtype)
            zeros = ", ".join([self.p.splat(zero)] * self.parts)
            put(f"{kind} {self.partial(total)}[{self.parts}] = {{{zeros}}};")
        if self.scan is not None:
            kind, total_name = self.p.of(self.scan[1].dtype), writer.p.pointer(self.scan[1])
            put(f"{kind} {self.before} = TL_SPLAT({kind}, {total_name});")
        if rest:
            put(f"int64_t {first} = {start};")
            put(f"for (; {first} + {step} <= {stop}; {first} += {step}) {{")
        else:
            put(f"for (int64_t {first} = {start}; {first} < {stop}; {first} += {step}) {{")
        writer.lines += body
        put("}")
        single = rest and self.parts > 1
        if single:
            self.parts = 1
            put(f"for (; {first} + {lanes} <= {stop}; {first} += {lanes}) {{")
            writer.lines += self.body(var, first)
            put("}")
        masks = self.scan is None and self.family == "w"
        ragged = rest and (not single or self.count is None or self.count % self.most != 0)
        if ragged and masks and not self.overlaps:
            self.masked(var, first, stop)
        for op, total in self.totals:
            self.reduce_partials(op, total)
        if self.scan is not None:
            put(f"{writer.p.pointer(self.scan[1])} = {self.before}[0];")
        if ragged and self.overlaps:
            put(f"if ({first} < {stop}) {{")
            self.p.aligned = False
            writer.lines += self.body(var, f"{stop} - {lanes}")
            put("}")
        elif ragged and not masks:
            self.scalars(var, first, stop)
        return self.framed(var, start, stop, rest)

    def framed(self, var: str, start: str, stop: str, rest: bool) -> list[str]:
        """The lines that were put, in a block where they need one, and the other form of the loop
        where tensors may overlap in part."""
        writer, tests = self.writer, [self.same_or_apart(*pair) for pair in self.loop.hints.pairs]
        if self.count is None:  # nothing is read before a loop of no iterations
            tests.append(f"{start} < {stop}")
        vectors, writer.lines = writer.lines, []
        if self.loop.hints.pairs:
            self.scalars(var, start, stop)
        in_order, writer.depth = writer.lines, writer.depth - 1
        if not (rest or self.p.scalars or self.p.fixed or self.totals or self.scan or tests):
            return [line.removeprefix("    ") for line in vectors]
        outer, head = "    " * writer.depth, f"if ({' && '.join(tests)}) {{" if tests else "{"
        other = [outer + "} else {", *in_order] if in_order else []
        return [outer + head, *vectors, *other, outer + "}"]

    def body(self, var: str, first: str) -> list[str]:
        """The lines of one step: all parts of it."""
        writer = self.writer
        around, writer.lines = writer.lines, []
        writer.depth += 1
        self.p.safe.clear()
        has_parts = self.parts > 1
        if has_parts:
            part_name = self.part = writer.names.of(self.p, f"{self.loop.var.name}_part")
            writer.put(f"#pragma GCC unroll {self.parts}")
            writer.put(
                f"for (int64_t {part_name} = 0; {part_name} < {self.parts}; ++{part_name}) {{"
            )
            writer.depth += 1
            writer.put(f"const int64_t {var} = {first} + {part_name} * TL_LANES_{self.family};")
        elif first != var:
            writer.put(f"const int64_t {var} = {first};")
        for op, total in self.totals:
            self.p.changes(total.data)
            self.p.names[total.data] = f"{self.partial(total)}[{self.part if has_parts else 0}]"
            if op in ("min", "max"):
                self.p.numbers.add(total.data)
        at, inner = len(writer.lines), "    " * writer.depth
        self.p.shared_addresses.lines.clear()
        self.statement(self.loop.body)
        writer.lines[at:at] = [inner + line for line in self.p.shared_addresses.lines.values()]
        if has_parts:
            writer.depth -= 1
            writer.put("}")
        writer.depth -= 1
        lines, writer.lines = writer.lines, around
        return lines

    def masked(self, var: str, first: str, stop: str) -> None:
        """The same as one vector with a mask."""
        writer, p = self.writer, self.p
        on = p.left = writer.names.fresh("left")
        with p.masked(on):
            lines = self.body(var, first)
        with writer.block(f"if ({first} < {stop}) {{"):
            writer.put(f"const tl_w_mask {on} = TL_SIGNS(w, {first} - ({stop}), 1, {2**29}) < 0;")
            writer.lines += lines

    def scalars(self, var: str, first: str, stop: str) -> None:
        """The iterations after the last whole vector."""
        self.writer.put(f"for (int64_t {var} = {first}; {var} < {stop}; ++{var}) {{")
        self.writer.nested(self.loop.body)

    def same_or_apart(self, a: Buffer, b: Buffer) -> str:
        """A test that two tensors are the same elements, or have none in common."""
        p, strides = self.writer.p, zip(a.stride_list(), b.stride_list())
        is_equal = E.conjunction(E.as_expr(x) == E.as_expr(y) for x, y in strides)
        corners = ((x, index) for x in (a, b) for index in (0, -1))
        ends = [p.address(x, tuple(E.as_expr(n * -at + at) for n in x.shape)) for x, at in corners]
        return f"TL_SAME_OR_APART({', '.join(map(bare, (p.value(is_equal), *ends)))})"

    # -- reductions --------------------------------------------------------------------------------
    @memoized
    def partial(self, total: Buffer) -> str:
        """The name of the vectors of partial results."""
        return self.writer.names.fresh(f"{total.name}_parts")

    def reduce_partials(self, op: str, total: Buffer) -> None:
        """The total of the parts, their lanes and what was there before."""
        kind, name = self.p.of(total.dtype), self.partial(total)
        partials = [f"{name}[{i}]" for i in range(self.accumulator_count())]
        while len(partials) > 1:
            partials = [self.merged(op, total, a, b) for a, b in zip(partials[::2], partials[1::2])]
        writer = self.writer
        total_name = writer.p.pointer(total)
        macro = _FOLDS[op][1].format(writer.p.suffix(total.dtype))
        combined = self.merged(op, total, "tl_folded_", "tl_other_")
        lanes = f"TL_FOLD({kind}, {bare(partials[0])}, {combined})"
        text = writer.p.rounded(total.dtype, f"{macro}({total_name}, {lanes})")
        writer.put(f"{total_name} = {bare(text)};")

    def accumulator_count(self) -> int:
        """The number of vectors of partial results of each reduction: registers hold all of
        them."""
        if not self.totals:
            return 1
        limit = MOST_PARTS if self.count is None else self.count // (2 * self.most)
        limit = min(limit, MOST_PARTS // len(self.totals) if len(self.totals) < 3 else 2)
        return 4 if limit >= 4 else 2 if limit >= 2 else 1

    def merged(self, op: str, total: Buffer, a: str, b: str, sure: bool = True) -> str:
        """Two partial results as one; ``sure``: where they ignore a NaN, they are none."""
        signs = {"add": "+", "mul": "*", "bitand": "&", "bitor": "|", "bitxor": "^"}
        if op in signs:
            return f"({a} {signs[op]} {b})"
        dtype = total.dtype
        if op in ("min", "max"):
            return self.p.extreme(op, dtype, a, b, "sure_" if dtype.is_float and sure else "")
        return self.p.extreme(op[1:4], dtype, a, b, "nan_")

    # -- statements --------------------------------------------------------------------------------
    def flush(self) -> None:
        """Put what the statement that was printed needs before it."""
        for line in self.p.before:
            self.writer.put(line)
        self.p.before.clear()

    def statement(self, stmt: S.Stmt) -> None:
        """The lines of one statement of the body."""
        if not isinstance(stmt, (S.Seq, S.Alloc)):
            self.writer.mark(stmt)
        assert isinstance(stmt, (S.Seq, S.Let, S.Alloc, S.Store, S.If, S.For))
        match stmt:
            case S.Seq():
                for nested in stmt.stmts:
                    self.statement(nested)
            case S.Let():
                self.let(stmt)
            case S.Alloc():
                self.variable(stmt)
            case S.Store():
                self.store(stmt)
            case S.If():
                self.branch(stmt)
            case S.For():
                self.rounds(stmt)
            case _:
                assert_never(stmt)

    def let(self, stmt: S.Let) -> None:
        """A name for a vector, or for what is the same in all lanes: before the loop if it may."""
        p = self.p
        if not p.may_vary(stmt.value) and not p.is_guarded(stmt.value):
            self.writer.let(stmt)
            if p.mask == p.left and not p.conditional:
                p.scalars[stmt.var] = self.writer.lines.pop().strip()
            return
        kind, text = p.of(stmt.var.dtype), p.value(stmt.value)
        self.flush()
        name = p.name(stmt.var)
        self.writer.put(f"const {kind} {name} = {bare(text)};")
        p.names[stmt.var] = name
        p.changes(stmt.var)

    def variable(self, stmt: S.Alloc) -> None:
        """A variable of each iteration."""
        dtype = stmt.buffer.dtype
        start = E.const(0, dtype) if stmt.init is None else stmt.init
        kind, text = self.p.of(dtype), self.p.value(start)
        self.flush()
        name = self.writer.p.pointer(stmt.buffer)
        self.writer.put(f"{kind} {name} = {bare(text)};")
        self.p.names[stmt.buffer.data] = name
        self.p.changes(stmt.buffer.data)

    def store(self, stmt: S.Store) -> None:
        """Neighbours in memory, or a variable."""
        p, buffer = self.p, stmt.buffer
        if self.scan is not None and buffer.data is self.scan[1].data:
            self.run(stmt, *self.scan)
            return
        if buffer.is_var:
            name, text = p.names[buffer.data], p.value(stmt.value)
            if p.mask:
                kind, integers = p.of(buffer.dtype), p.integers(buffer.dtype)
                text = f"TL_SELECT({kind}, {integers}, {p.mask}, {bare(text)}, {name})"
            self.flush()
            self.writer.put(f"{name} = {bare(text)};")
            return
        kind = p.stored_type(buffer.dtype)
        source = stmt.value
        moves = isinstance(source, E.Load) and is_chosen(source, buffer.dtype)
        if moves and buffer.dtype.bits >= 8 and p.may_vary(source):
            assert isinstance(source, E.Load)
            text = p.elements(source.buffer, source.indices, lanes=False)
        else:
            text = p.coded(buffer.dtype, source)
        self.flush()
        address = p.address(buffer, stmt.indices)
        if p.mask:
            put = f"TL_STORE_IF({self.family}, {kind}, {address}, {bare(text)}, {p.mask});"
        else:
            macro = "TL_STREAM" if self.is_nontemporal(buffer) else "TL_STORE"
            put = f"{macro}({kind}, {address}, {bare(text)});"
        self.writer.put(put)

    def is_nontemporal(self, buffer: Buffer) -> bool:
        """Whether elements are stored past the caches: a launch's results, whole lines of them."""
        trips = interval(self.loop.stop).high - interval(self.loop.start).low
        if trips * buffer.dtype.bits < LINES or buffer.data not in self.writer.streams.results:
            return False
        self.writer.streaming = True
        return True

    def run(self, stmt: S.Store, op: str, total: Buffer) -> None:
        """The running totals of one vector, from the lanes before it and those in it."""
        value = added_value(stmt, op)
        assert value is not None
        kind, start = self.p.of(total.dtype), start_of(_FOLDS[op][0], total.dtype)
        each, zero = self.p.value(value), bare(self.p.p.value(start))
        self.flush()
        put, lanes = self.writer.put, self.writer.names.fresh(f"{total.name}_lanes")
        if op in ("min", "max"):  # of a NaN alone it is the start, and the same holds for each lane
            each = self.merged(op, total, bare(each), self.p.splat(start))
        combined = self.merged(op, total, "tl_moved_", "tl_running_")
        types = f"{self.p.family}, {kind}, {self.p.integers(total.dtype)}"
        put(f"const {kind} {lanes} = TL_RUNNING({types}, {bare(each)}, {zero}, {combined});")
        self.p.names[total.data] = scalar = self.writer.names.fresh(total.name)
        put(f"const {kind} {scalar} = {bare(self.merged(op, total, self.before, lanes))};")
        last = f"TL_SPLAT({kind}, {lanes}[TL_LANES_{self.p.family} - 1])"
        put(f"{self.before} = {bare(self.merged(op, total, self.before, last))};")

    def rounds(self, stmt: S.For) -> None:
        """A loop that all lanes go through together."""
        outer = self.p.conditional, set(self.p.safe)
        self.p.conditional = True  # what a round computes stays in it
        if (trip_count(stmt) or 17) <= 16:
            self.writer.put("#pragma GCC unroll 16")
        var, start, stop = self.writer.bounds(stmt)
        with self.writer.block(f"for (int64_t {var} = {start}; {var} < {stop}; ++{var}) {{"):
            self.statement(stmt.body)
        self.p.conditional, self.p.safe = outer

    def branch(self, stmt: S.If) -> None:
        """A condition for all lanes, or a mask."""
        p, writer = self.p, self.writer
        if not p.may_vary(stmt.cond) and not p.is_guarded(stmt.cond):
            old = p.conditional
            p.conditional = True
            head = f"if ({bare(p.p.value(stmt.cond))}) {{"
            for block in (stmt.then, stmt.orelse):
                if block is None:
                    continue
                with writer.block(head, "}" if stmt.orelse in (None, block) else None):
                    safe = set(p.safe)
                    self.statement(block)
                    p.safe = safe
                head = "} else {"
            p.conditional = old
            return
        on = p.named("on", p.type("mask"), p.value(stmt.cond))
        with p.masked(on):
            self.flush()
            self.statement(stmt.then)
        if stmt.orelse is not None:
            with p.masked(p.named("on", p.type("mask"), f"~{on}")):
                self.flush()
                self.statement(stmt.orelse)
