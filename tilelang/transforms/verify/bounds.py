"""Bounds check of the finished program: every access of a register array is inside it.

The compiler computes the indices of registers and workspaces from layouts. A wrong one would
silently read or overwrite memory outside of the array. So each such access of the final program is
checked: first by interval analysis, which decides nearly all, then by evaluating it for every
thread and iteration that reaches it. The emulator checks data-dependent indices, and the program's
own indices of its own arrays, which this pass checks only in tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from tilelang.errors import Loc, TileIndexError, TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import Bounds, interval
from tilelang.ir.buffer import Buffer
from tilelang.ir.facts import bounds_of
from tilelang.ir.visitor import substitute
from tilelang.layout.evaluate import evaluate
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.analysis.loops import values_of

MOST_POINTS = 1 << 22  # threads and iterations that are looked at for one access
_MMA = re.compile(r"m(\d+)n(\d+)k(\d+)")


def verify_bounds(func: S.PrimFunc, context: Context, all_memory: bool = False) -> S.PrimFunc:
    """``func`` itself, if no access leaves the registers that it names.

    Relies on the attribute "made" of arrays that lowerings allocate, otherwise only on the program:
    it runs last. Args: all_memory: whether all on-chip memory is checked, the program's own too.

    Raises:
        TileIndexError: an access is out of bounds for some thread that makes it.
    """
    undecided(func, all_memory)
    return func


def undecided(func: S.PrimFunc, all_memory: bool = False) -> list[tuple[Buffer, E.Expr]]:
    """Accesses of which :func:`verify_bounds` cannot say where they are, for tests."""
    accesses: list[tuple[Buffer, E.Expr]] = []
    for launch in S.find(func.body, S.Launch):
        walk = _Walk(launch, all_memory)
        walk.block(launch.body, walk.start)
        accesses += walk.undecided
    return accesses


@dataclass(frozen=True)
class _Path:
    """The facts that hold at a statement.

    Attributes:
        ranges: the values of loop and thread variables that have constant ones.
        conds: conditions that hold, each with whether it is true or false.
        sure: whether those are all: no thread may have left before.
    """

    ranges: dict[E.Var, range]
    conds: tuple[tuple[E.Expr, bool], ...] = ()
    sure: bool = True

    def under(self, cond: E.Expr, value: bool = True) -> _Path:
        """The path where ``cond`` has ``value``."""
        return replace(self, conds=(*self.conds, (cond, value)))


class _Walk:
    """The accesses of one launch."""

    def __init__(self, launch: S.Launch, all_memory: bool) -> None:
        self.everything = all_memory
        self.bounds: Bounds = bounds_of(launch)
        self.lets: dict[E.Var, E.Expr] = {}
        self.undecided: list[tuple[Buffer, E.Expr]] = []
        ranges = {var: range(count) for var, count in zip(launch.thread_vars, launch.threads)}
        for var, extent in zip(launch.block_vars, launch.grid):
            if isinstance(extent, (int, E.Const)):
                ranges[var] = range(int(extent))
        self.start = _Path(ranges)

    # -- statements ------------------------------------------------------------------------------
    def block(self, stmt: S.Stmt, path: _Path) -> bool:
        """Look at ``stmt``; whether all threads that reach it continue after it."""
        if isinstance(stmt, S.Seq):
            stays = True
            for child in stmt.stmts:
                if not self.block(child, path):
                    path, stays = replace(path, sure=False), False
            return stays
        if isinstance(stmt, S.Store):
            self.access(stmt.buffer, stmt.indices, stmt.buffer.dtype.width, path, stmt.loc)
        for expr in stmt.exprs():
            if E.holds(expr, E.Load, E.AddressOf):
                self.accesses(expr, path, stmt.loc)
        if isinstance(stmt, S.Let):
            self.lets[stmt.var] = substitute(stmt.value, self.lets)
        elif isinstance(stmt, S.If):
            stays = self.block(stmt.then, path.under(stmt.cond))
            if stmt.orelse is not None:
                stays &= self.block(stmt.orelse, path.under(stmt.cond, False))
            return stays
        elif isinstance(stmt, S.For):
            path = self.loop(stmt, path)
        elif isinstance(stmt, S.While):
            path = replace(path, sure=False)
        stays = not isinstance(stmt, S.LEAVES)
        for inner in stmt.blocks():
            stays &= self.block(inner, path)
        return stays

    def loop(self, stmt: S.For, path: _Path) -> _Path:
        """The path in the body of a loop."""
        leaves, values = S.holds(stmt.body, *S.LEAVES), values_of(stmt)
        if values is not None:
            path = replace(path, ranges={**path.ranges, stmt.var: values})
        return replace(path, sure=False) if leaves else path

    # -- expressions -----------------------------------------------------------------------------
    def accesses(self, expr: E.Expr, path: _Path, loc: Loc | None) -> None:
        """Look at what ``expr`` loads, and at what its calls get the addresses of."""
        reach: dict[E.Expr, int] = {}
        nodes = E.find(expr, E.Load, E.AddressOf, E.Call)
        for call in nodes:
            for number, arg in enumerate(call.args if isinstance(call, E.Call) else ()):
                if isinstance(call, E.Call) and isinstance(arg, E.AddressOf):
                    reach[arg] = max(reach.get(arg, 0), _operand_bits(call, number, arg.buffer))
        for node in nodes:
            if not isinstance(node, (E.Load, E.AddressOf)):
                continue
            bits = max(reach.get(node, 0), node.buffer.dtype.width)
            if self.is_checked(node.buffer) and not self.is_inside(node.buffer, node.indices, bits):
                for where in _paths(expr, node, path):
                    self.examine(node.buffer, node.indices, bits, where, loc)

    def access(
        self, buffer: Buffer, indices: tuple[E.Expr, ...], bits: int, path: _Path, loc: Loc | None
    ) -> None:
        """Look at one access of ``bits`` bits."""
        if self.is_checked(buffer) and not self.is_inside(buffer, indices, bits):
            self.examine(buffer, indices, bits, path, loc)

    def is_checked(self, buffer: Buffer) -> bool:
        """Whether accesses of ``buffer`` are checked: it is on-chip memory of constant size."""
        if buffer.storage == "global" or not (self.everything or buffer.attrs.is_generated):
            return False
        return all(isinstance(extent, int) for extent in buffer.shape)

    def is_inside(self, buffer: Buffer, indices: tuple[E.Expr, ...], bits: int) -> bool:
        """Whether intervals prove that an access is in bounds."""
        for index, high in _limits(buffer, indices, bits):
            if isinstance(index, E.Const):
                if not 0 <= int(index) < high:
                    return False
                continue
            bounds = interval(index, self.bounds)
            if bounds.low < 0 or bounds.high >= high:
                return False
        return True

    def examine(
        self, buffer: Buffer, indices: tuple[E.Expr, ...], bits: int, path: _Path, loc: Loc | None
    ) -> None:
        """Look at every thread and iteration."""
        for index, high in _limits(buffer, indices, bits):
            plain = substitute(index, self.lets)
            if plain is not index:
                bounds = interval(plain, self.bounds)
                if bounds.low >= 0 and bounds.high < high:
                    continue
            outside = self.outside_indices(plain, high, path)
            if outside is None:
                self.undecided.append((buffer, index))
            elif outside:
                raise _error(buffer, index, outside, high, loc)

    def outside_indices(self, index: E.Expr, high: int, path: _Path) -> str | None:
        """Where ``index`` is outside ``range(high)``, "" for nowhere, None for unknown."""
        conds = [(substitute(cond, self.lets), value) for cond, value in path.conds]
        variables = set(index.variables)
        known: list[tuple[E.Expr, bool]] = []
        sure = path.sure
        for cond, value in conds:
            if all(var in path.ranges for var in cond.variables) and _is_arithmetic(cond):
                known.append((cond, value))
                variables |= cond.variables
            elif not cond.variables.isdisjoint(index.variables) or not _is_arithmetic(cond):
                sure = False
        if any(var not in path.ranges for var in index.variables) or not _is_arithmetic(index):
            return None
        order = sorted(variables, key=lambda var: var.name)
        shape = tuple(len(path.ranges[var]) for var in order)
        if prod(shape) > MOST_POINTS:
            return None
        axes = np.ix_(*(np.array(path.ranges[var], np.int64) for var in order))
        values = dict(zip(order, axes))
        try:
            positions = np.broadcast_to(evaluate(index, values), shape)
            wrong = (positions < 0) | (positions >= high)
            for cond, value in known:
                if wrong.any():
                    wrong = wrong & ((evaluate(cond, values) != 0) == value)
        except TileUnsupportedError:
            return None
        if not wrong.any():
            return ""
        if not sure:
            return None
        point = tuple(np.argwhere(wrong)[0])
        at = ", ".join(f"{var.name} = {path.ranges[var][i]}" for var, i in zip(order, point))
        return f"{int(positions[point])}" + (f" for {at}" if at else "")


# -- sizes ----------------------------------------------------------------------------------------
def _limits(buffer: Buffer, indices: tuple[E.Expr, ...], bits: int) -> list[tuple[E.Expr, int]]:
    """(index, number of first elements) per dimension. An access of more elements than the last
    dimensions have runs on in those in front of them, which are one dimension here."""
    more = -(-bits // buffer.dtype.width) - 1
    dims = [(index, int(extent)) for index, extent in zip(indices, buffer.shape)]
    while len(dims) > 1 and dims[-1][1] <= more:
        (outer, count), (inner, size) = dims[-2:]
        dims[-2:] = [(E.as_expr(outer * size + inner), count * size)]
    return [*dims[:-1], *((index, extent - more) for index, extent in dims[-1:])]


def _operand_bits(call: E.Call, number: int, buffer: Buffer) -> int:
    """Bits that an instruction takes at its argument ``number``, as its row says."""
    if number >= len(call.atom.operands):
        return 0
    operand = call.atom.operands[number]
    match = _MMA.match(str(call.attr("shape", ""))) if operand.tile else None
    if match is not None:
        extents = dict(zip("mnk", map(int, match.groups())))
        return prod(extents[name] for name in operand.tile) // operand.width * buffer.dtype.width
    return 8 * operand.bytes * (int(call.attr(operand.times, 1)) if operand.times else 1)


# -- conditions in expressions --------------------------------------------------------------------
def _is_arithmetic(expr: E.Expr) -> bool:
    """Whether ``expr`` is arithmetic of its variables."""
    return not any(
        isinstance(node, (E.Load, E.AddressOf))
        or (isinstance(node, E.Call) and not node.atom.identity)
        for node in E.find(expr, E.Load, E.Call, E.AddressOf)
    )


def _paths(expr: E.Expr, node: E.Expr, path: _Path) -> Iterator[_Path]:
    """The conditions under which ``node`` is evaluated in ``expr``, once for each occurrence."""
    if expr is node:
        yield path
        return
    for number, child in enumerate(expr.children()):
        if child is not node and not E.holds(child, E.Load, E.AddressOf):
            continue
        inner = path
        if isinstance(expr, E.Select) and number:
            inner = path.under(expr.cond, number == 1)
        elif isinstance(expr, E.Binary) and expr.op in ("land", "lor") and number:
            inner = path.under(expr.a, expr.op == "land")
        yield from _paths(child, node, inner)


def _error(buffer: Buffer, index: E.Expr, where: str, high: int, loc: Loc | None) -> TileIndexError:
    return TileIndexError(
        f"an access of `{buffer.name}` is outside its {buffer.storage} memory",
        expected=f"an index from 0 to {high - 1}",
        got=f"`{index!r}`, which is {where}",
        hint="guard the access with `if`; if the program's own indices are in bounds, report "
        "this as a defect of tilelang",
        loc=loc,
    )
