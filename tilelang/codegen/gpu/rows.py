"""Instructions as source: the table entry of an instruction, written in a dialect."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tilelang.codegen.c import bare
from tilelang.errors import TileTypeError
from tilelang.ir import expr as E
from tilelang.ir.atoms import VALUE

if TYPE_CHECKING:
    from tilelang.codegen.gpu.printer import GpuPrinter

MAP = "tensor map"  # the writer of rows whose values the host makes and the kernel gets
_MEMORY_SPACES = ("registers", "shared", "global", "memory", "any", "barrier", "descriptor")


class _Attributes(dict[str, object]):
    """Attributes that a call leaves out count as False."""

    def __missing__(self, key: str) -> str:
        return ""


def call_text(p: GpuPrinter, call: E.Call) -> str | None:
    """The text of an intrinsic; None where its row names none, or the dialect lacks its writer.

    The text of the dialect takes precedence, then the row's writer, then the row's text.
    """
    row = call.atom
    p.refuse_lacking(call.op)
    text = p.dialect.texts.get(call.op)
    if text is None and row.writer:
        write = p.dialect.writers.get(row.writer)
        if write is None:
            return None
        p.require(row.needs, f"T.{call.op}")
        return write(p, call)
    text = text or row.text
    if not text:
        return None
    p.require(row.needs, f"T.{call.op}")
    attrs = _Attributes(
        (key, (f"_{key}" if value else "") if isinstance(value, bool) else value)
        for key, value in call.attrs
    )
    operands = [argument(p, call, at) for at in range(len(call.args))]
    attrs.update((str(at), operand) for at, operand in enumerate(operands))
    filled = re.sub(r"\{(\w+)\}", lambda field: str(attrs[field[1]]), text)
    return filled if text.endswith(")") else f"{filled}({', '.join(operands)})"


def argument(p: GpuPrinter, call: E.Call, at: int) -> str:
    """The operand at a position, as its row says what it is."""
    arg = call.args[at]
    operand = call.atom.operands[at] if at < len(call.atom.operands) else VALUE
    converter = p.dialect.operands.get(operand.space)
    if converter is not None:
        return converter(p, arg)
    if operand.space == "constant":
        return str(constant(call, at, operand.role))
    if operand.space == "map":
        return p.tensor_map(arg)
    return pointer(p, arg) if operand.space in _MEMORY_SPACES else bare(p.value(arg))


def pointer(p: GpuPrinter, base: E.Expr) -> str:
    """A pointer: elements count as their addresses."""
    return p.address(base.buffer, base.indices) if isinstance(base, E.Load) else bare(p.value(base))


def constant(call: E.Call, position: int, role: str) -> int:
    """The compile-time integer operand `position`."""
    return known(call, call.args[position] if position < len(call.args) else None, role)


def known(call: E.Call, arg: E.Expr | None, role: str) -> int:
    """A compile-time integer operand."""
    if not isinstance(arg, E.Const):
        raise TileTypeError(
            f"the {role} of T.{call.op} is not a constant",
            expected="a number known when the kernel is compiled", got=f"`{arg!r}`",
        )  # fmt: skip
    return int(arg.value)


def is_tensor_map(node: E.Expr) -> bool:
    """Whether an expression is what the host makes and the kernel gets as a parameter."""
    return isinstance(node, E.Call) and node.atom.writer == MAP
