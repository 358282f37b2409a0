"""Loops: ``T.Parallel``, ``T.Pipelined``, ``T.serial`` and the others.

Every kind but ``T.Parallel`` means the serial loop; the kind and its options are hints to the
compiler. ``T.Parallel`` runs each index tuple once, in no order, distributed over the threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from tilelang.errors import Loc, TileSyntaxError, TileTypeError, TileValueError, shown
from tilelang.frontend.frames import Loop
from tilelang.frontend.ir_builder import Block, Builder, builder, locate, warn
from tilelang.frontend.regions import bound, check_options, freeze
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType, promote
from tilelang.ir.expr import Const, Expr, Var as VarNode, as_expr, binary, const, walk
from tilelang.ir.hints import CopyHints, LoopHints
from tilelang.ir.stmt import Break, For, If, Parallel as ParallelNode
from tilelang.tracebacks import borders

__all__ = [
    "Parallel", "Persistent", "PersistentTileScheduler", "Pipelined", "Serial", "Unroll",
    "Vectorized", "grid", "loop_break", "parallel", "serial", "thread_binding", "unroll",
    "vectorized",
]  # fmt: skip

_NAMES = "ijklmnopq"


def _pick(names: tuple[str, ...], number: int) -> str:
    return (number < len(names) and names[number]) or _NAMES[number % len(_NAMES)]


def _pairs(options: Mapping[str, object], annotations: Mapping[str, object] | None) -> Any:
    check_options(**options, annotations=annotations)
    pairs = {key: value for key, value in options.items() if value is not None}
    pairs.update(annotations or {})
    return tuple((key, freeze(value)) for key, value in pairs.items())


class _Range(Loop):
    """One loop variable over ``range(start, stop, step)``."""

    def __init__(
        self, op_name: str, kind: str, bounds: tuple[Any, Any, Any],
        options: Mapping[str, object] | None = None,
        annotations: Mapping[str, object] | None = None,
    ) -> None:  # fmt: skip
        start, stop, step = bounds
        if stop is None:
            start, stop = 0, start
        step = 1 if step is None else step
        self.op_name, self.kind = op_name, kind
        low, high, by = (
            bound(value, f"the {name} of {op_name}")
            for value, name in ((start, "start"), (stop, "stop"), (step, "step"))
        )
        if isinstance(by, Const) and by.value == 0:
            raise TileValueError(
                f"the step of {op_name} is 0", expected="a step that is not 0", got="0"
            )
        if not isinstance(by, Const):
            warn(f"the step of {op_name} is not a constant", locate())
        kinds = [v.dtype for v in (low, high, by) if not isinstance(v, Const)]
        dtype = DType("int32")
        for candidate in (*kinds, *(v.dtype for v in (low, high, by) if v.dtype == "int64")):
            dtype = promote(dtype, candidate)
        self.dtype = dtype
        self.bounds = tuple(as_expr(value, dtype) for value in (low, high, by))
        self.hints = LoopHints.of(_pairs(options or {}, annotations))

    def open(self, active: Builder, names: tuple[str, ...]) -> tuple[Any, ...]:
        self.loc = locate()
        self.var = VarNode(_pick(names, 0), self.dtype)
        self.block = active.push("loop", self.loc)
        active.live_in(self.var)
        return (self.var,)

    def runs(self) -> int | None:
        known = [bound.__index__() for bound in self.bounds if isinstance(bound, Const)]
        return len(range(*known)) if len(known) == 3 else None

    def close(self, active: Builder) -> None:
        start, stop, step = self.bounds
        active.emit(
            For(
                var=self.var, start=start, stop=stop, step=step, body=active.pop(self.block),
                kind=self.kind, hints=self.hints, loc=self.loc,
            )
        )  # fmt: skip


def loop_over_range(*args: Any) -> Loop:
    """``for i in range(...)``: the same as ``T.serial``."""
    if not 1 <= len(args) <= 3:
        raise TileTypeError("range() takes 1 to 3 arguments", got=f"{len(args)}")
    start, stop, step = (*args, None, None)[:3]
    return _Range("range", "serial", (start, stop, step))


def serial(start: Any, stop: Any = None, step: Any = None, *, annotations: Any = None) -> Loop:
    """Loop in every thread: ``T.serial(n)``, ``(a, b)`` or ``(a, b, step)``.

    Args:
        start, stop, step: integers or integer expressions, as of ``range``; the step is not 0.
        annotations: a dict, kept with the loop.

    Raises:
        TileTypeError: a bound that is not an integer.
        TileValueError: a step of 0.
    """
    return _Range("T.serial", "serial", (start, stop, step), None, annotations)


def unroll(
    start: Any, stop: Any = None, step: Any = None, *, explicit: bool = False,
    unroll_factor: int | None = None, annotations: Any = None,
) -> Loop:  # fmt: skip
    """Unroll a serial loop; bounds as for :func:`serial`.

    Args:
        explicit: unroll in the generated source; by default it has a pragma for the C compiler.
        unroll_factor: iterations that become one, for the pragma.

    Raises:
        TileValueError: both options.
    """
    check_options(explicit=explicit)
    if explicit and unroll_factor is not None:
        raise TileValueError(
            "T.unroll has both explicit=True and unroll_factor",
            expected="one of them",
            got=f"unroll_factor={unroll_factor!r}",
        )
    options = {"explicit": True if explicit else None, "unroll_factor": unroll_factor}
    return _Range("T.unroll", "unroll", (start, stop, step), options, annotations)


def vectorized(start: Any, stop: Any = None, *, annotations: Any = None) -> Loop:
    """Vectorize a serial loop of constant extent.

    Args:
        start, stop: bounds; with one of them the loop starts at 0.
        annotations: attributes of the loop by name.

    Raises:
        TileValueError: an extent that is not constant.
    """
    loop = _Range("T.vectorized", "vectorized", (start, stop, None), None, annotations)
    extent = binary("sub", loop.bounds[1], loop.bounds[0])
    if not isinstance(extent, Const):
        raise TileValueError(
            "the extent of T.vectorized is not a constant",
            expected="a constant number of iterations",
            got=f"`{extent!r}`",
            hint="use T.serial",
        )
    return loop


def Pipelined(
    start: Any, stop: Any = None, num_stages: int = 0, order: Sequence[int] | None = None,
    stage: Sequence[int] | None = None, sync: Any = None, group: Any = None,
    annotations: Any = None,
) -> Loop:  # fmt: skip
    """Loop serially with software pipelining: copies of later iterations run ahead.

    Args:
        start, stop: as for :func:`serial`.
        num_stages: buffers of each shared tile that a copy in the loop fills; 0 does not pipeline,
            nor does 1 except on Hopper. The result does not depend on it.
        order, stage, sync, group: accepted for programs of other implementations; the compiler
            schedules the statements itself. The stages of ``stage`` give ``num_stages`` where it
            is 0.
        annotations: a dict, kept with the loop.

    Raises:
        TileValueError: a ``num_stages`` that is not an int >= 0; an ``order`` or ``stage`` that has
            something else than ints.
    """
    if isinstance(num_stages, bool) or not isinstance(num_stages, int) or num_stages < 0:
        raise TileValueError(
            "num_stages of T.Pipelined must be an int that is not negative",
            expected="0, 1, 2, ...",
            got=shown(num_stages),
        )
    lists = [stated for stated in (order, stage) if isinstance(stated, (list, tuple))]
    if any(type(number) is not int for stated in lists for number in stated):
        raise TileValueError(
            "order and stage of T.Pipelined take one int for each statement",
            expected="as in order=[1, 0], stage=[0, 1]",
            got=f"order={order!r}, stage={stage!r}",
        )
    depth = max(stage, default=-1) + 1 if isinstance(stage, (list, tuple)) else 0
    options = {
        "num_stages": num_stages or depth,
        "order": order, "stage": stage, "sync": sync, "group": group,
    }  # fmt: skip
    return _Range("T.Pipelined", "pipelined", (start, stop, None), options, annotations)


class _ParallelLoop(Loop):
    op_name = "T.Parallel"

    def __init__(self, extents: Sequence[Any], loop_layout: Any, hints: CopyHints) -> None:
        if not extents:
            raise TileValueError("T.Parallel needs at least one extent")
        self.extents = tuple(bound(extent, "an extent of T.Parallel") for extent in extents)
        for extent in self.extents:
            if isinstance(extent, Const) and extent.value < 0:
                raise TileValueError(
                    "an extent of T.Parallel is negative", expected="0 or more", got=f"{extent!r}"
                )
        self.loop_layout, self.hints = loop_layout, hints

    def open(self, active: Builder, names: tuple[str, ...]) -> tuple[Any, ...]:
        self.loc = locate()
        self.vars = tuple(
            VarNode(_pick(names, n), promote(DType("int32"), extent.dtype))
            for n, extent in enumerate(self.extents)
        )
        self.block = active.push("parallel", self.loc)
        for var in self.vars:
            active.live_in(var)
        return self.vars

    def runs(self) -> int | None:
        known = [extent.__index__() for extent in self.extents if isinstance(extent, Const)]
        return prod(known) if len(known) == len(self.extents) else None

    def close(self, active: Builder) -> None:
        loop = ParallelNode(
            vars=self.vars, extents=self.extents, body=active.pop(self.block),
            loop_layout=self.loop_layout, hints=self.hints, loc=self.loc,
        )  # fmt: skip
        active.emit(_collapsed(loop))


def _collapsed(outer: ParallelNode) -> ParallelNode:
    """One loop for two that are perfectly nested: any order of all their iterations is legal, so
    that all of them can be distributed over the threads."""
    inner = outer.body
    if not isinstance(inner, ParallelNode) or any(
        loop.loop_layout is not None or loop.hints for loop in (outer, inner)
    ):
        return outer
    own = {id(var) for var in outer.vars}
    if any(id(node) in own for extent in inner.extents for node in walk(extent)):
        return outer
    return replace(
        outer,
        vars=(*outer.vars, *inner.vars),
        extents=(*outer.extents, *inner.extents),
        body=inner.body,
    )


def Parallel(
    *extents: Any, coalesced_width: int | None = None, loop_layout: Any = None,
    prefer_async: bool | None = None, annotations: Any = None,
) -> Loop:  # fmt: skip
    """Run each index tuple of ``extents`` once, distributed over the threads, in no order.

    An iteration must not depend on another one. Atomic updates and reducers combine iterations.

    Args:
        extents: one per loop variable, or one list of them; integers or integer expressions.
        loop_layout: a ``T.Fragment`` that fixes which thread runs which indices.
        coalesced_width, prefer_async: hints.
        annotations: a dict, kept with the loop.

    Raises:
        TileValueError: no extent, or a negative one.
    """
    if len(extents) == 1 and isinstance(extents[0], (list, tuple)):
        extents = tuple(extents[0])
    options = {"coalesced_width": coalesced_width, "prefer_async": prefer_async}
    return _ParallelLoop(extents, loop_layout, CopyHints.of(_pairs(options, annotations)))


class _Grid(Loop):
    """Nested serial loops."""

    op_name = "T.grid"

    def __init__(self, extents: Sequence[Any]) -> None:
        if not extents:
            raise TileValueError("T.grid needs at least one extent")
        self.loops = [_Range("T.grid", "serial", (extent, None, None)) for extent in extents]

    def open(self, active: Builder, names: tuple[str, ...]) -> tuple[Any, ...]:
        chosen = [_pick(names, n) for n in range(len(self.loops))]
        return tuple(
            loop.open(active, (name,))[0] for loop, name in zip(self.loops, chosen, strict=True)
        )

    def runs(self) -> int | None:
        known = [runs for loop in self.loops if (runs := loop.runs()) is not None]
        return prod(known) if len(known) == len(self.loops) else None

    def close(self, active: Builder) -> None:
        for loop in reversed(self.loops):
            loop.close(active)


def grid(*extents: Any) -> Loop:
    """Loop serially over ``extents``, nested: ``for i, j in T.grid(m, n)``.

    Raises:
        TileTypeError: an extent is not an integer.
    """
    return _Grid(extents)


class _PersistentLoop(Loop):
    """Tiles of a domain, split over ``wave_size`` resident blocks in groups along the last axis."""

    op_name = "T.Persistent"

    def __init__(self, domain: Sequence[Any], wave_size: Any, index: Any, group_size: Any) -> None:
        if not isinstance(domain, (list, tuple)) or not domain:
            raise TileTypeError(
                "the domain of T.Persistent is not a list of extents",
                expected="e.g. [T.ceildiv(M, 128), T.ceildiv(N, 128)]",
                got=shown(domain),
            )
        self.domain = [bound(extent, "an extent of T.Persistent") for extent in domain]
        self.wave = bound(wave_size, "the wave size of T.Persistent")
        self.index = bound(index, "the index of T.Persistent")
        low = binary("max", const(1), bound(group_size, "the group size of T.Persistent"))
        self.group = as_expr(binary("min", low, binary("max", const(1), self.domain[-1])))

    def open(self, active: Builder, names: tuple[str, ...]) -> tuple[Any, ...]:
        self.loc = locate()
        last, group = self.domain[-1], self.group
        groups = (last + group - 1) // group
        total: Expr = groups * group
        for extent in self.domain[:-1]:
            total = total * extent
        self.loop = _Range("T.Persistent", "serial", (self.index, total, self.wave))
        self.loop.open(active, ("tile",))
        rest: Expr = self.loop.var
        inner = rest % group
        rest = rest // group
        coords: list[Expr] = []
        for extent in reversed(self.domain[:-1]):
            coords.append(rest % extent)
            rest = rest // extent
        coordinates = [*reversed(coords), rest * group + inner]
        values = tuple(
            active.let(_pick(names, n), value) if not isinstance(value, (Const, VarNode)) else value
            for n, value in enumerate(coordinates)
        )
        self.cond = as_expr(values[-1] < last)
        self.guard: Block | None = None
        if not isinstance(self.cond, Const):
            self.guard = active.push("then", self.loc)
        return values

    def close(self, active: Builder) -> None:
        if self.guard is not None:
            active.emit(If(cond=self.cond, then=active.pop(self.guard), loc=self.loc))
        self.loop.close(active)


def Persistent(domain: Sequence[Any], wave_size: Any, index: Any, group_size: Any = 8) -> Loop:
    """Loop over tiles: ``for bx, by in T.Persistent([nx, ny], waves, block)``.

    Block ``index`` executes the tiles index, index + wave_size, ... They are numbered over the
    extents (last // g, domain[:-1], g), where g is ``group_size`` limited to 1..last.

    Args:
        domain: extents of the grid of tiles, a list.
        wave_size: resident blocks, usually the number of multiprocessors.
        index: the number of this block, from 0.
        group_size: tiles of a group along the last axis, which share data in the L2 cache.

    Raises:
        TileTypeError: a domain that is not a list.
    """
    return _PersistentLoop(domain, wave_size, index, group_size)


class _ThreadBinding(Loop):
    """A loop whose variable is a launch axis of the enclosing kernel."""

    op_name = "T.thread_binding"

    def __init__(self, extent: Any, thread: str) -> None:
        from tilelang.frontend.kernel import launch_axis

        self.extent, self.thread = bound(extent, "the extent of T.thread_binding"), thread
        self.axis = launch_axis(thread)

    def bind(self, active: Builder, name: str) -> Any:
        from tilelang.frontend.kernel import axis_of

        var, bound = axis_of(active, self.axis, self.op_name)
        return var if bound is self.extent else None

    def open(self, active: Builder, names: tuple[str, ...]) -> tuple[Any, ...]:
        from tilelang.frontend.kernel import axis_of

        var, bound = axis_of(active, self.axis, self.op_name)
        self.guard: Block | None = None
        self.loc: Loc | None = locate()
        self.cond = as_expr(var < self.extent)
        if bound is not self.extent:
            known = isinstance(bound, Const) and isinstance(self.extent, Const)
            if known and bound.__index__() < self.extent.__index__():
                raise TileValueError(
                    f"T.thread_binding over {self.thread} is larger than the kernel",
                    expected=f"at most {bound!r}",
                    got=f"{self.extent!r}",
                    hint="raise threads= of T.Kernel, or loop with T.Parallel",
                )
            self.guard = active.push("then", self.loc)
        return (var,)

    def runs(self) -> int | None:
        return 1 if self.guard is None else None

    def close(self, active: Builder) -> None:
        if self.guard is not None:
            active.emit(If(cond=self.cond, then=active.pop(self.guard), loc=self.loc))


def thread_binding(
    start: Any, stop: Any = None, thread: str = "threadIdx.x", *, annotations: Any = None
) -> Loop:
    """Bind a launch index: ``for tx in T.thread_binding(n, thread="threadIdx.x")``.

    Args:
        start: the extent; or 0, if ``stop`` is given.
        stop: the extent, an int or an expression.
        thread: "blockIdx.x" or "threadIdx.x", or ``.y`` or ``.z``.
        annotations: accepted, without effect.

    Raises:
        TileValueError: a ``start`` other than 0 before ``stop``.
    """
    if isinstance(stop, str):
        stop, thread = None, stop
    if stop is not None:
        if not (isinstance(start, int) and start == 0):
            raise TileValueError("T.thread_binding starts at 0", expected="0", got=f"{start!r}")
        start = stop
    return _ThreadBinding(start, thread)


def loop_break() -> None:
    """Leave the innermost serial loop: ``break`` as a call.

    Raises:
        TileSyntaxError: outside of a loop, or in a ``T.Parallel`` loop.
    """
    active = builder("T.loop_break")
    for block in reversed(active.blocks):
        if block.kind == "parallel":
            raise TileSyntaxError(
                "T.loop_break in a T.Parallel loop",
                expected="T.loop_break in T.serial, T.unroll or while",
                hint="iterations of T.Parallel have no order; guard the body with `if`",
            )
        if block.kind in ("loop", "while"):
            if active.loops:
                active.loops[-1].leave()
            active.emit(Break())
            return
    raise TileSyntaxError("T.loop_break outside a loop")


Serial = serial
Unroll = unroll
Vectorized = vectorized
parallel = Parallel


class PersistentTileScheduler:
    """Distributes the tiles of a matrix over persistent workers; state is kept in two variables.

    ``init(worker)`` starts, ``valid()`` says whether a tile is left, ``m_idx``/``n_idx`` are its
    coordinates and ``next_tile()`` advances. Make it inside the kernel.

    Args:
        num_m_tiles, num_n_tiles: tiles along the rows and columns of the result.
        num_workers: blocks that share the tiles; the first extent of the grid by default.
        swizzle_size: tiles of the minor axis that are visited together.
        column_major: whether ``m`` varies fastest.
        cluster_size, stateful: accepted for programs of other implementations, without effect.
        name: prefix of the two variables.

    Raises:
        TileValueError: a ``swizzle_size`` or ``cluster_size`` below 1.
    """

    def __init__(
        self, num_m_tiles: Any, num_n_tiles: Any, num_workers: Any = None, swizzle_size: int = 1,
        column_major: bool = True, cluster_size: int = 1, stateful: bool = True,
        name: str | None = None,
    ) -> None:  # fmt: skip
        if swizzle_size < 1 or cluster_size < 1:
            raise TileValueError(
                "swizzle_size and cluster_size of PersistentTileScheduler must be positive",
                got=f"{swizzle_size}, {cluster_size}",
            )
        self.num_m_tiles, self.num_n_tiles = num_m_tiles, num_n_tiles
        self.num_workers = num_workers
        self.swizzle_size, self.column_major = swizzle_size, column_major
        self.cluster_size, self.stateful = cluster_size, stateful
        self.name = "tile" if name is None else name
        self._tile: Buffer | None = None
        self._iteration: Buffer | None = None

    def _workers(self, active: Builder) -> Expr:
        if self.num_workers is not None:
            return as_expr(self.num_workers)
        return active.kernel("PersistentTileScheduler").grid[0]

    def init(self, worker: Any) -> None:
        """Start with the tile of ``worker``."""
        active = builder("PersistentTileScheduler.init")
        loops = []
        for name, value in ((f"{self.name}_id", worker), (f"{self.name}_iter", 0)):
            fresh = Buffer(name, Shape((1,)), DType("int32"), "local.var")
            loops.append(active.alloc(fresh, as_expr(value)))
        self._tile, self._iteration = loops

    def _state(self) -> tuple[Buffer, Buffer]:
        if self._tile is None or self._iteration is None:
            raise TileSyntaxError(
                "the PersistentTileScheduler is not started", hint="call .init(worker) first"
            )
        return self._tile, self._iteration

    @property
    def current_iter(self) -> Expr:
        """Number of tiles this worker has finished."""
        return as_expr(self._state()[1])

    @property
    def m_idx(self) -> Expr:
        """Row of the current tile."""
        return self.coord(self._state()[0])[0]

    @property
    def n_idx(self) -> Expr:
        """Column of the current tile."""
        return self.coord(self._state()[0])[1]

    def valid(self) -> Expr:
        """Whether the current tile exists."""
        return as_expr(as_expr(self._state()[0]) < as_expr(self.num_m_tiles) * self.num_n_tiles)

    def next_tile(self, step: Any = None) -> None:
        """Go on by ``step`` tiles (default: the number of workers)."""
        active = builder("PersistentTileScheduler.next_tile")
        tile, iteration = self._state()
        by = self._workers(active) if step is None else as_expr(step)
        active.store_at(tile, (const(0),), as_expr(tile) + by)
        active.store_at(iteration, (const(0),), as_expr(iteration) + 1)

    def coord(self, tile: Any) -> tuple[Expr, Expr]:
        """Return (row, column) of the tile number ``tile``."""
        major, minor = as_expr(self.num_m_tiles), as_expr(self.num_n_tiles)
        if not self.column_major:
            major, minor = minor, major
        size, number = self.swizzle_size, as_expr(tile)
        panel = major * size
        group = number // panel
        inside = number % panel
        width = as_expr(binary("min", const(size), minor - group * size))
        across = group * size + inside % width
        along = inside // width
        return (along, across) if self.column_major else (across, along)


borders(globals(), __all__)
