"""Statements of the thread-level IR as lines of C-like source: the base of all C-like back ends.

A back end derives a writer, gives it a printer of expressions, and defines the methods for memory,
loops, failures and returns.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from tilelang.codegen.c import CPrinter, bare
from tilelang.codegen.names import Names
from tilelang.codegen.text import Lines, quote, quote_format, source_label
from tilelang.errors import TileUnsupportedError, at
from tilelang.ir import expr as E, stmt as S

# The comment before what a line of the program became: (file, line).
SOURCE_LINE = re.compile(r"^\s*// ([^\s:]+):(\d+)$")

# Names of the dtypes in the output of T.print.
SHOWN = {
    "float16": "half_t", "bfloat16": "bfloat16_t", "float32": "float", "float64": "double",
    "int32": "int", "uint32": "uint", "int64": "int64_t", "uint64": "uint64_t",
    "float8_e4m3fn": "fp8_e4_t", "float8_e4m3": "fp8_e4_t", "float8_e5m2": "fp8_e5_t",
}  # fmt: skip


def device_assert_text(message: object) -> str:
    """The message of a failing ``T.device_assert`` or ``assert`` of a kernel."""
    return f"Device assert failed: {message}" if message else "Device assert failed"


class Writer(Lines, ABC):
    """Statements of one function as lines of text."""

    machine = "this target"  # as error messages name it

    def __init__(self, names: Names, printer: CPrinter) -> None:
        super().__init__()
        self.names = names
        self.printer = printer
        self.last_line = 0

    def mark(self, stmt: S.Stmt) -> None:
        """A comment naming the user's line, where it changes."""
        if stmt.loc is not None and stmt.loc.line != self.last_line:
            self.last_line = stmt.loc.line
            self.put(f"// {source_label(stmt.loc.file)}:{stmt.loc.line}")

    def write(self, stmt: S.Stmt) -> None:
        """Print ``stmt``."""
        if not isinstance(stmt, (S.Seq, S.Alloc)):
            self.mark(stmt)
        with at(stmt.loc):
            self.statement(stmt)

    def statement(self, stmt: S.Stmt) -> None:
        """The lines of one statement, by its class."""
        match stmt:
            case S.Seq():
                for nested in stmt.stmts:
                    self.write(nested)
            case S.Let():
                self.let(stmt)
            case S.Alloc():
                self.alloc(stmt)
            case S.View():
                self.view(stmt)
            case S.Store():
                self.store(stmt)
            case S.For():
                self.loop(stmt)
            case S.While():
                self.repeat(stmt)
            case S.If():
                self.branch(stmt)
            case S.Eval():
                self.evaluate(stmt)
            case S.Assert():
                self.check(stmt)
            case S.Break():
                self.put("break;")
            case S.Continue():
                self.put("continue;")
            case S.ThreadReturn():
                self.thread_return()
            case S.Attr():
                self.write(stmt.body)
            case _:
                self.other(stmt)

    def other(self, stmt: S.Stmt) -> None:
        """A statement that only some back ends have."""
        raise TileUnsupportedError(
            f"{type(stmt).__name__} is not supported on {self.machine}", loc=stmt.loc
        )

    def nested(self, body: S.Stmt, close: str = "}") -> None:
        """A block body with its closing brace."""
        with self.block(None, close):
            self.write(body)

    def condition(self, expr: E.Expr) -> str:
        """A condition of a statement, without outer parentheses."""
        return bare(self.printer.value(expr))

    def repeat(self, stmt: S.While) -> None:
        """A loop that runs as long as its condition holds."""
        self.put(f"while ({self.repeated(stmt)}) {{")
        self.nested(stmt.body)

    def repeated(self, stmt: S.While) -> str:
        """The condition of a loop that runs as long as it holds."""
        return self.condition(stmt.cond)

    def branch(self, stmt: S.If) -> None:
        """if / else; an else-if chain stays on one level, because compilers limit the depth of
        braces."""
        self.put(f"if ({self.condition(stmt.cond)}) {{")
        while isinstance(stmt.orelse, S.If) and stmt.orelse.orelse is not None:
            self.nested(stmt.then, f"}} else if ({self.condition(stmt.orelse.cond)}) {{")
            stmt = stmt.orelse
        if stmt.orelse is None:
            self.nested(stmt.then)
            return
        self.nested(stmt.then, "} else {")
        self.nested(stmt.orelse)

    def store(self, stmt: S.Store) -> None:
        """An assignment."""
        printer = self.printer
        if stmt.buffer.data in printer.scalars:
            self.put(f"{printer.pointer(stmt.buffer)} = {bare(printer.value(stmt.value))};")
            return
        offset = printer.flat_index(stmt.buffer, stmt.indices)
        bits = printer.bits(stmt.value, stmt.buffer.dtype)
        if bits is not None:
            self.put(f"{printer.pointer(stmt.buffer)}[{offset}] = {bare(bits)};")
            return
        value = bare(printer.value(stmt.value))
        self.put(printer.stored(stmt.buffer.dtype, printer.pointer(stmt.buffer), offset, value))

    # -- effects -----------------------------------------------------------------------------------
    def evaluate(self, stmt: S.Eval) -> None:
        """An expression for its effect."""
        call = stmt.value
        if isinstance(call, E.Call):
            if call.op == "print":
                self.print_value(call)
                return
            if call.op == "device_assert":
                self.fail_unless(call.args[0], device_assert_text(call.attr("message", "")))
                return
            if call.atom.optional:
                self.hint(call)
                return
        self.effect(call)

    def effect(self, value: E.Expr) -> None:
        """Any other expression, evaluated for its effect."""
        self.put(f"(void){self.printer.value(value)};")

    def print_value(self, call: E.Call) -> None:
        """One line in the format of ``T.print``."""
        name = call.attr("buffer")
        message = call.attr("message", "")
        where = "BlockIdx=(%d, %d, %d), ThreadIdx=(%d, %d, %d)"
        at = self.position()
        if not call.args:
            self.put(f"printf(\"msg='%s' {where}\\n\", {quote(message)}, {at});")
            return
        value = call.args[0]
        message = message or f"expr<{value!r}>"
        shown, form, argument = _shown(value.dtype, self.printer.value(value))
        if name is None:
            text = f"msg='%s' {where}: dtype={shown} value={form}"
            self.put(f'printf("{text}\\n", {quote(message)}, {at}, {argument});')
        else:
            index = self.printer.index(call.args[1])
            named = f"buffer={quote_format(str(name))}, index=%d"
            text = f"msg='%s' {where}: {named}, dtype={shown} value={form}"
            self.put(f'printf("{text}\\n", {quote(message)}, {at}, (int)({index}), {argument});')

    # -- what differs between machines -----------------------------------------------------------
    @abstractmethod
    def let(self, stmt: S.Let) -> None:
        """A constant."""

    @abstractmethod
    def alloc(self, stmt: S.Alloc) -> None:
        """Storage."""

    @abstractmethod
    def view(self, stmt: S.View) -> None:
        """A name for memory that exists."""

    @abstractmethod
    def loop(self, stmt: S.For) -> None:
        """A counted loop."""

    @abstractmethod
    def thread_return(self) -> None:
        """The executing thread leaves the kernel."""

    @abstractmethod
    def check(self, stmt: S.Assert) -> None:
        """An assertion."""

    @abstractmethod
    def fail_unless(self, cond: E.Expr, message: str) -> None:
        """Stop with ``message`` unless ``cond`` holds."""

    @abstractmethod
    def hint(self, call: E.Call) -> None:
        """A call that may be dropped."""

    @abstractmethod
    def position(self) -> str:
        """Arguments of printf: the block's three coordinates, then the thread's."""


def _shown(dtype: object, value: str) -> tuple[str, str, str]:
    """Name, printf format and argument for a value of ``dtype``."""
    name = str(dtype)
    if name == "bool":
        return "bool", "%s", f'({value}) ? "true" : "false"'
    if name.startswith(("float", "bfloat", "tfloat")):
        return SHOWN.get(name, name), "%f", f"(double)({value})"
    if name.startswith("uint"):
        return SHOWN.get(name, f"{name}_t"), "%llu", f"(unsigned long long)({value})"
    return SHOWN.get(name, f"{name}_t"), "%lld", f"(long long)({value})"
