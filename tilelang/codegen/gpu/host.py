"""The host part of a function as launch steps over 64-bit slots.

Host statements are integer programs: sizes, grids, assertions and loops around launches. Values
of other types (a float derived from a scalar, say) are not computed on the host: the kernels that
use them compute them again at their head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias

import numpy as np

from tilelang.codegen.c import unit_bytes, value_type
from tilelang.codegen.gpu import module as M
from tilelang.errors import Site, TileUnsupportedError, at
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.atoms import Atom
from tilelang.ir.buffer import Buffer
from tilelang.ir.postfix import Program, program_of
from tilelang.records import dataclass

Launcher: TypeAlias = "Callable[[S.Launch], M.LaunchPlan]"
# Comparison of floats -> operation, whether the operands are swapped, whether it is negated.
_REAL = {
    "eq": ("feq", False, False), "ne": ("feq", False, True), "lt": ("flt", False, False),
    "le": ("fle", False, False), "gt": ("flt", True, False), "ge": ("fle", True, False),
}  # fmt: skip
_ARGUMENT_DTYPES = {"float": "float32", "double": "float64"}


@dataclass
class Slots:
    """The slots that hold the values of a call.

    Attributes:
        slot: parameter, symbol, let variable or storage -> slot.
        count: slots handed out so far.
        device: lets that kernels compute themselves, in program order.
        views: buffers over pointers, storage -> buffer.
    """

    slot: dict[E.Var, int] = field(default_factory=dict)
    count: int = 0
    device: dict[E.Var, S.Let] = field(default_factory=dict)
    buffers: dict[E.Var, Buffer] = field(default_factory=dict)

    def take(self, var: E.Var) -> int:
        """A new slot for `var`."""
        self.slot[var] = self.count
        self.count += 1
        return self.slot[var]

    def argument(self, var: E.Var) -> M.KernelArg:
        """The kernel parameter that passes `var`."""
        slot = self.slot[var]
        buffer = self.buffers.get(var)
        if buffer is not None:
            return M.KernelArg(slot, "pointer", str(buffer.dtype))
        if var.dtype.is_handle:
            return M.KernelArg(slot, "pointer", "handle")
        if var.dtype.is_float:
            return M.KernelArg(slot, "float", _ARGUMENT_DTYPES[value_type(var.dtype)])
        narrow = var.dtype.bits < 8 and var.dtype.is_integer
        return M.KernelArg(slot, "int", "int32" if narrow else str(var.dtype))


class HostWriter:
    """Walks host statements and collects their steps; ``machine`` is the name of the target in
    errors."""

    def __init__(self, slots: Slots, launch: Launcher, machine: str) -> None:
        self.slots = slots
        self.launch = launch
        self.machine = machine
        self.steps: list[M.Step] = []
        self.checks: dict[tuple[str, Site], None] = {}  # message and source line, by their numbers

    def write(self, stmt: S.Stmt) -> None:
        """Append the steps of `stmt`."""
        with at(stmt.loc):
            self._statement(stmt)

    def _statement(self, stmt: S.Stmt) -> None:
        match stmt:
            case S.Seq():
                for nested in stmt.stmts:
                    self.write(nested)
            case S.Attr():
                self.write(stmt.body)
            case S.Let():
                self._let(stmt)
            case S.Assert():
                self._assert(stmt)
            case S.If():
                cond, then = self.program(stmt.cond), self._block(stmt.then)
                orelse = () if stmt.orelse is None else self._block(stmt.orelse)
                self.steps.append(M.IfStep(cond, then, orelse))
            case S.For():
                ends = (stmt.start, stmt.stop, stmt.step)
                start, stop, step = (self.program(E.as_expr(end)) for end in ends)
                slot = self.slots.take(stmt.var)
                self.steps.append(M.ForStep(slot, start, stop, step, self._block(stmt.body)))
            case S.View():
                self._view(stmt)
            case S.Alloc():
                self._workspace(stmt)
            case S.Launch():
                self.steps.append(self.launch(stmt))
            case _:
                raise TileUnsupportedError(
                    f"{type(stmt).__name__} outside a kernel is not supported on {self.machine}",
                    expected="sizes, assertions, `if` and counted loops around kernels",
                    got=f"`{stmt!r}`"[:200],
                )

    def _block(self, body: S.Stmt) -> tuple[M.Step, ...]:
        outer, self.steps = self.steps, []
        self.write(body)
        inner, self.steps = self.steps, outer
        return tuple(inner)

    def _let(self, stmt: S.Let) -> None:
        if stmt.var.dtype.is_float or not self._is_host_integer(stmt.value):
            self.slots.device[stmt.var] = stmt
            return
        program = self.program(stmt.value)
        self.steps.append(M.LetStep(self.slots.take(stmt.var), program, str(stmt.var.dtype)))

    def _assert(self, stmt: S.Assert) -> None:
        condition = self.program(stmt.cond)
        site = Site(repr(stmt.cond), stmt.loc, in_kernel=False, assumed=stmt.assumed)
        check = stmt.host_text, site
        self.checks.setdefault(check)
        self.steps.append(M.AssertStep(condition, list(self.checks).index(check)))

    def _view(self, stmt: S.View) -> None:
        if stmt.source is None:
            return
        program = self.program(stmt.source)
        slot = self.slots.take(stmt.buffer.data)
        self.slots.buffers[stmt.buffer.data] = stmt.buffer
        self.steps.append(M.LetStep(slot, program, "int64"))

    def _workspace(self, stmt: S.Alloc) -> None:
        buffer = stmt.buffer
        if buffer.storage != "global":
            raise TileUnsupportedError(
                f"`{buffer.name}` in {buffer.storage} memory is allocated outside a kernel",
                expected="global memory", got=buffer.storage,
            )  # fmt: skip
        count: Program = (unit_bytes(buffer.dtype),)
        for extent in buffer.shape:
            count = (*count, *self.program(E.as_expr(extent)), "mul")
        slot = self.slots.take(buffer.data)
        self.slots.buffers[buffer.data] = buffer
        self.steps.append(M.WorkspaceStep(slot, count))

    # -- programs ----------------------------------------------------------------------------------
    def _is_host_integer(self, expr: E.Expr) -> bool:
        """Whether `expr` needs integers only, all of them in slots."""
        for node in E.walk(expr):
            if isinstance(node, E.Var):
                if node not in self.slots.slot:
                    return False
            elif (
                isinstance(node, (E.Load, E.RegionArg))
                or node.dtype.is_float
                or (isinstance(node, E.Call) and not _is_host_function(node.atom))
            ):
                return False
        return True

    def program(self, expr: E.Expr) -> Program:
        """`expr` as a postfix program."""
        return program_of(expr, self._leaf)

    def _leaf(self, expr: E.Expr) -> Program:
        """The program of an expression that is not plain integer arithmetic."""
        match expr:
            case E.Var() if expr in self.slots.slot and not expr.dtype.is_float:
                return (f"${self.slots.slot[expr]}",)
            case E.Binary() if expr.op in _REAL and expr.a.dtype.is_float:
                operator, swapped, negated = _REAL[expr.op]
                sides = (expr.b, expr.a) if swapped else (expr.a, expr.b)
                program = (*self._real(sides[0]), *self._real(sides[1]), operator)
                return (*program, "lnot") if negated else program
            case E.Cast():
                return self._cast(expr)
            case E.Call(op="isnullptr"):
                return (*self.pointer(expr.args[0]), 0, "eq")
            case E.AddressOf():
                return self.pointer(expr)
            case _:
                raise self._not_on_host(expr)

    def _real(self, expr: E.Expr) -> Program:
        """The bits of `expr`, a float32 or float64 constant or parameter, as a float64."""
        if expr.dtype in ("float32", "float64"):
            if isinstance(expr, E.Const):
                return (int(np.float64(np.dtype(str(expr.dtype)).type(expr.value)).view(np.int64)),)
            if isinstance(expr, E.Var) and expr in self.slots.slot:
                slot = f"${self.slots.slot[expr]}"
                return (slot, "fround") if expr.dtype == "float32" else (slot,)
        raise self._not_on_host(expr)

    def _not_on_host(self, expr: E.Expr) -> TileUnsupportedError:
        return TileUnsupportedError(
            f"`{expr!r}` cannot be computed on the host for {self.machine}",
            expected="integer arithmetic on sizes, symbols and scalar parameters",
            got=f"`{expr!r}` of dtype {expr.dtype}",
            hint="pass the value as a parameter, or compute it inside the kernel",
        )

    def _cast(self, expr: E.Cast) -> Program:
        """An integer conversion; where it may change the value, through a slot of that dtype."""
        source, target = expr.value.dtype, expr.dtype
        inner = self.program(expr.value)
        if target.is_bool:
            return (*inner, 0, "ne")
        wider = target.bits > source.bits and (target.is_int or source.is_uint)
        if source.is_bool or wider or target == "int64" or source == target:
            return inner
        slot = self.slots.take(E.Var("cast", target))
        self.steps.append(M.LetStep(slot, inner, str(target)))
        return (f"${slot}",)

    def pointer(self, expr: E.Expr) -> Program:
        """The address of an element, or a pointer."""
        if not isinstance(expr, E.AddressOf):
            return self.program(expr)
        buffer = expr.buffer
        if buffer.data not in self.slots.slot:
            raise TileUnsupportedError(
                f"the address of `{buffer.name}` is not known on the host", got=f"`{expr!r}`"
            )
        result: Program = (f"${self.slots.slot[buffer.data]}",)
        size = unit_bytes(buffer.dtype)
        for index, stride in zip(expr.indices, buffer.stride_list()):
            if isinstance(index, E.Const) and int(index.value) == 0:
                continue
            offset = (*self.program(index), *self.program(E.as_expr(stride)), "mul", size, "mul")
            result = (*result, *offset, "add")
        return result


def _is_host_function(row: Atom) -> bool:
    """Whether programs of the host compute an intrinsic."""
    return row.identity or row.writer == "is null" or row.name == "abs"
