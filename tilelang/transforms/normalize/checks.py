"""Compile-time checks: indices out of range, and other errors that would occur in every run."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tilelang.errors import Loc, TileIndexError, TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import Bounds, interval
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.effects import certain_loads
from tilelang.ir.visitor import postorder, substitute
from tilelang.layout.evaluate import evaluate
from tilelang.target import Target
from tilelang.transforms.analysis.loops import static_extents, values_of
from tilelang.transforms.analysis.scopes import FRAGMENT, MOST_ELEMENTS
from tilelang.transforms.rules import Cursor, Phase, rule

_MOST_POINTS = 1 << 16  # of the variables of one index that are looked at one by one


@rule(S.PrimFunc)
def check_tile_bounds(func: S.PrimFunc, cursor: Cursor) -> S.PrimFunc:
    """Reject accesses that are certainly outside a tile.

    Global memory has a bounds rule; shared memory, fragments and local buffers have none, so an
    index outside them would read or overwrite other buffers. Where some run of every block
    reaches such an access, whatever the data, the program is wrong. The error names the
    values of the loop variables. What depends on data or on conditions is left to the interpreter
    and the emulator.

    Relies on ``simplify``: extents of loops are constants where they can be.

    Raises:
        TileIndexError: an access that every run makes is outside the buffer's shape.
    """
    _Walk().block(func.body)
    return func


class _Walk:
    """The statements that every run reaches, with the values their variables take."""

    def __init__(self) -> None:
        self.ranges: dict[E.Var, range] = {}
        self.lets: dict[E.Var, E.Expr] = {}
        self.bounds = Bounds()

    def block(self, stmt: S.Stmt) -> bool:
        """Check ``stmt``; whether the statement after it is certainly reached."""
        if isinstance(stmt, S.Seq):
            return all(self.block(child) for child in stmt.stmts)
        self.accesses(stmt)
        if isinstance(stmt, S.Let):
            self.lets[stmt.var] = substitute(stmt.value, self.lets)
        inner = self._variables(stmt)
        stays = not S.holds(stmt, *S.LEAVES)
        if inner is not None and (stays or isinstance(stmt, S.Launch)):
            self._visit_inside(inner, stmt)
        return stays

    def _variables(self, stmt: S.Stmt) -> dict[E.Var, range] | None:
        """The ranges of the variables that ``stmt`` binds, if its body certainly runs."""
        if isinstance(stmt, S.For):
            values = values_of(stmt)
            pairs = None if values is None else {stmt.var: values}
        elif isinstance(stmt, S.Parallel):
            extents = static_extents(stmt)
            pairs = None if extents is None else dict(zip(stmt.vars, map(range, extents)))
        elif isinstance(stmt, S.Launch):
            pairs = {v: range(n) for v, n in zip(stmt.thread_vars, stmt.threads)}
            pairs |= {
                v: range(_known(n)) for v, n in zip(stmt.block_vars, stmt.grid) if _is_known(n)
            }
        else:
            return None
        return pairs if pairs is not None and all(map(len, pairs.values())) else None

    def _visit_inside(self, variables: dict[E.Var, range], stmt: S.Stmt) -> None:
        outer, ranges = self.bounds, self.ranges
        self.ranges = {**ranges, **variables}
        for var, values in variables.items():
            self.bounds = self.bounds.with_range(var, values.start, values.stop, values.step)
        for block in stmt.blocks():
            self.block(block)
        self.bounds, self.ranges = outer, ranges

    def accesses(self, stmt: S.Stmt) -> None:
        """Check the elements and regions that ``stmt`` itself reads and writes."""
        if isinstance(stmt, (S.Store, S.ReducerUpdate)):
            self.element(stmt.buffer, stmt.indices, stmt)
        for region in stmt.parts("read", "write", "update"):
            if not region.anchored:
                lasts = [low + extent - 1 for low, extent in zip(region.mins, region.extents)]
                extents = map(E.as_expr, region.extents)
                sizes = [n for n in extents if interval(n, self.bounds).low < 1]  # may be empty
                self.element(region.buffer, region.mins, stmt, sizes)
                self.element(region.buffer, tuple(map(E.as_expr, lasts)), stmt, sizes)
        for expr in stmt.exprs():
            for load in certain_loads(expr):
                self.element(load.buffer, load.indices, stmt)
            for address in E.find(expr, E.AddressOf):
                if address.buffer.storage == "shared.barrier":
                    self.element(address.buffer, address.indices, stmt)

    def element(
        self,
        buffer: Buffer,
        indices: tuple[E.Expr, ...],
        stmt: S.Stmt,
        sizes: Sequence[E.Expr] = (),
    ) -> None:
        """Refuse ``buffer[indices]`` where an index leaves the shape and all ``sizes`` exceed 0."""
        if buffer.storage == "global":
            return
        for index, extent in zip(indices, buffer.shape):
            if not _is_known(extent) or index.dtype.lanes != 1:
                continue
            values = interval(index, self.bounds)
            if values.low < 0 or values.high >= _known(extent):
                self._check_index_values(buffer, indices, index, _known(extent), stmt, sizes)

    def _check_index_values(
        self, buffer: Buffer, indices: tuple[E.Expr, ...], index: E.Expr, extent: int,
        stmt: S.Stmt, sizes: Sequence[E.Expr],
    ) -> None:  # fmt: skip
        """Look at every value of ``index``, if they are few and known."""
        plain, *counts = (substitute(expr, self.lets) for expr in (index, *sizes))
        used = plain.variables.union(*(count.variables for count in counts))
        variables = sorted(used, key=lambda var: var.name)
        if any(var not in self.ranges for var in variables):
            return
        shape = [len(self.ranges[var]) for var in variables]
        if prod(shape) > _MOST_POINTS:
            return
        grids = np.meshgrid(*(np.array(self.ranges[v]) for v in variables), indexing="ij")
        try:
            at = dict(zip(variables, grids))
            values = np.broadcast_to(evaluate(plain, at), shape)
            nonempty = [np.broadcast_to(evaluate(count, at) > 0, shape) for count in counts]
        except TileUnsupportedError:
            return
        outside = np.argwhere(np.all([(values < 0) | (values >= extent), *nonempty], axis=0))
        if len(outside):
            point = tuple(outside[0])
            assignment = ", ".join(f"{v.name} = {g[point]}" for v, g in zip(variables, grids))
            raise _error(buffer, indices, int(values[point]), index, assignment, stmt)


def _error(
    buffer: Buffer, indices: tuple[E.Expr, ...], value: int, index: E.Expr, assignment: str,
    stmt: S.Stmt,
) -> TileIndexError:  # fmt: skip
    name = buffer.name or "buf"
    text = ", ".join(f"{value}" if expr is index else f"{expr!r}" for expr in indices)
    written = ", ".join(f"{expr!r}" for expr in indices)
    return TileIndexError(
        f"`{name}[{text}]` is outside the {buffer.storage} buffer `{name}`",
        expected=f"indices within the shape {tuple(buffer.shape)}",
        got=f"{name}[{written}]" + (f" for {assignment}" if assignment else ""),
        hint="only global memory has a bounds rule; guard the access with `if` or T.if_then_else, "
        "or make the buffer larger",
        loc=stmt.loc,
    )


def _is_known(value: object) -> bool:
    return isinstance(value, (int, E.Const))


def _known(value: object) -> int:
    return int(value.value) if isinstance(value, E.Const) else int(value)  # type: ignore[call-overload]  # the caller asked `_is_known`


@rule(S.Launch, needs="simt")
def check_launch_limits(launch: S.Launch, cursor: Cursor) -> S.Stmt:
    """Reject grids and blocks that exceed the limits of the target.

    Extents of the grid that only a call knows are left to the driver, whose refusal the launcher
    explains. Relies on ``simplify`` for constant extents.

    Raises:
        TileUnsupportedError: too many threads, or a constant extent or a fragment that is too
            large.
    """
    target, limits = cursor.context.target, cursor.context.limits
    _check_threads(launch, target)
    threads, grid = launch.threads, ", ".join(map(repr, launch.grid))
    block = f"block of {target} cannot have {{}} threads"
    _check_axes(launch, threads, limits.block, block, f"threads={threads}")
    blocks = f"grid of {target} cannot have {{}} blocks"
    _check_axes(launch, launch.grid, limits.grid, blocks, f"T.Kernel({grid})")
    for stmt in S.find(launch.body, S.Alloc):
        if stmt.buffer.storage == FRAGMENT:
            _check_fragment(stmt, target)
    return launch


def _check_threads(launch: S.Launch, target: Target) -> None:
    limits, threads = target.limits, launch.threads
    if prod(threads) > limits.threads:
        raise TileUnsupportedError(
            f"a block of {target} cannot have {prod(threads)} threads",
            expected=f"at most {limits.threads}",
            got=f"threads={threads if prod(threads[1:]) > 1 else threads[0]}",
            hint="use fewer threads; tiles may be larger than the number of threads",
            loc=launch.loc,
        )


def _check_axes(
    launch: S.Launch, extents: tuple[object, ...], limits: tuple[int, ...], noun: str, got: str
) -> None:
    for axis, extent, limit in zip("xyz", extents, limits):
        if _is_known(extent) and _known(extent) > limit:
            raise TileUnsupportedError(
                f"a {noun.format(_known(extent))} along {axis}",
                expected=f"at most {limits} along x, y, z",
                got=got,
                hint="put the largest extent first",
                loc=launch.loc,
            )


def _check_fragment(alloc: S.Alloc, target: Target) -> None:
    elements = prod(int(extent) for extent in alloc.buffer.shape)
    if target.is_gpu and elements > MOST_ELEMENTS:
        raise TileUnsupportedError(
            f"the fragment `{alloc.buffer.name}` is too large for a block of {target}",
            expected=f"at most {MOST_ELEMENTS} elements; the registers of a block hold some 65536",
            got=f"{elements} elements",
            hint="let each block have a smaller tile, or allocate it as a tensor",
            loc=alloc.loc,
        )


@rule(S.PrimFunc, where=lambda _, context: bool(context.limits.floats))
def check_floats(func: S.PrimFunc, cursor: Cursor) -> S.PrimFunc:
    """Reject float types that the target lacks.

    Raises:
        TileUnsupportedError: a number of such a dtype, with the line that has it.
    """
    target = cursor.context.target
    for param in func.params:
        _check_float(param.dtype, f"the parameter `{param.name}`", target, func.loc)
    for stmt in S.walk(func.body):
        if isinstance(stmt, S.Alloc):
            _check_float(stmt.buffer.dtype, f"`{stmt.buffer.name}`", target, stmt.loc)
        for root in stmt.exprs():
            for node in postorder(root):
                if not isinstance(node, Buffer):
                    _check_float(node.dtype, f"`{node!r}`", target, stmt.loc)
    return func


def _check_float(dtype: DType, value: str, target: Target, loc: Loc | None) -> None:
    kind, floats = dtype.element_of, target.limits.floats
    if kind.is_float and str(kind) not in floats:
        raise TileUnsupportedError(
            f"{value} is of dtype {kind}, which {target.kind.capitalize()} does not have",
            expected=", ".join(floats) + ", or an integer",
            got=str(kind),
            hint="compute in float32, or choose another target",
            loc=loc,
        )


check_program = Phase(check_tile_bounds, check_launch_limits, check_floats)
