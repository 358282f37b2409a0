"""The IR builder: receives statements while a kernel's rewritten Python runs, makes a PrimFunc.

It keeps the stack of open blocks, gives every statement the user's location, names allocations
and let values after the Python names they are bound to, and remembers in which block each
variable and buffer lives, so that a use after its block has ended is reported by name.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from types import CodeType, FrameType, TracebackType
from typing import Any, cast

from tilelang import errors
from tilelang.frontend.placement import check_position, strip
from tilelang.frontend.regions import as_run, check_number, lost_fraction
from tilelang.frontend.split import split
from tilelang.frontend.state import PythonState
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import OPAQUE, Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.emitter import current, emitter
from tilelang.ir.expr import Binary, Broadcast, Call, Const, Expr, Load, Var, as_expr, walk
from tilelang.ir.hints import LaunchHints
from tilelang.ir.launch_schedule import Schedule
from tilelang.ir.stmt import (
    Alloc,
    Eval,
    Launch,
    Let,
    PrimFunc,
    ReducerUpdate,
    Seq,
    Stmt,
    Store,
    View,
    seq,
    walk as walk_stmts,
)
from tilelang.ir.trace_context import activate
from tilelang.ir.uniform import Varying
from tilelang.tracebacks import is_ours
from tilelang.warning import warn_caller

LOOPS = frozenset({"loop", "parallel", "while"})
BRANCHES = frozenset({"then", "else"})
_REDUCER_OPS = {
    "add": "sum",
    "max": "max",
    "min": "min",
    "bitand": "bitand",
    "bitor": "bitor",
    "bitxor": "bitxor",
}


class Block:
    """An open list of statements."""

    __slots__ = ("alive", "done", "kind", "loc", "note", "state", "stmts")

    def __init__(self, kind: str, loc: errors.Loc | None) -> None:
        self.kind = kind
        self.loc = loc
        self.stmts: list[Stmt] = []
        self.alive = True
        self.done = ""  # what made the rest unreachable: "break", "continue"
        self.note: object = None  # the node of T.attr
        self.state: PythonState | None = None  # of Python objects where a loop or branch begins


class LaunchState:
    """The kernel that is being traced."""

    def __init__(self, grid: tuple[Expr, ...], block_vars: tuple[Var, ...], threads: Any) -> None:
        self.grid = grid
        self.block_vars = block_vars
        self.threads: tuple[int, int, int] = threads
        self.thread_vars = tuple(Var(name, DType("int32")) for name in ("tx", "ty", "tz"))
        self.annotations: dict[str, object] = {}
        self.barriers: Buffer | None = None  # those that are named by number
        self.checks: list[Callable[[Varying], None]] = []  # of the whole kernel


def builder(op_name: str) -> Builder:
    """The active builder; an error that names ``op_name`` outside a trace."""
    active = emitter(op_name)
    assert isinstance(active, Builder)
    return active


def is_pure(expr: Expr) -> bool:
    """Whether the value is the same whenever it is evaluated: no loads, no effects."""
    return not any(
        isinstance(node, Load)
        or (isinstance(node, Call) and node.atom.effect not in (Effect.NONE, Effect.HINT))
        for node in walk(expr)
    )


def has_effect(expr: Expr) -> bool:
    """Whether evaluating ``expr`` does something besides giving a value."""
    return any(
        isinstance(node, Call) and node.atom.effect not in (Effect.NONE, Effect.READ)
        for node in walk(expr)
    )


class Builder:
    """Traces one function. Implements ``tilelang.ir.emitter.Emitter``."""

    def __init__(self) -> None:
        self.name = ""
        self.loc: errors.Loc | None = None
        self.origin: Any = None  # the Python function, where there is one
        self.blocks: list[Block] = []
        self.launch: LaunchState | None = None
        self.params: list[Buffer | Var] = []
        self.empties: list[Buffer] = []
        self.empty_locs: list[errors.Loc | None] = []
        self.return_loc: errors.Loc | None = None
        self.outputs: tuple[int, ...] = ()
        self.attrs: dict[str, object] = {}
        self.homes: dict[int, tuple[object, Block]] = {}
        self.values: dict[Var, Expr] = {}  # what names were bound to
        self.pure_in = ""  # the construct whose operands must not emit statements
        self.macro_depth = 0
        self.open_ifs: list[Any] = []  # frames of T.If that wait for T.Then and T.Else
        self.parts: dict[tuple[int, object], tuple[object, list[Block]]] = {}
        self.reducers: dict[Buffer, str] = {}  # what each waits for
        self.loops: list[Any] = []  # the loop statements being traced, innermost last
        self._positions: dict[int, tuple[CodeType, tuple[Any, ...]]] = {}
        self.hooks: Any = None  # the template being traced: T.const and body annotations
        self._finished: PrimFunc | None = None

    def code_positions(self, code: CodeType) -> tuple[Any, ...]:
        """The location of each instruction of ``code``, which every traced statement needs.

        Kept under the identity of ``code``: hashing it costs as much as its length.
        """
        cached = self._positions.get(id(code))
        if cached is None:
            cached = self._positions[id(code)] = (code, _positions(code))
        return cached[1]

    # -- function -----------------------------------------------------------------------------
    @contextmanager
    def prim_func(self, name: str) -> Iterator[Builder]:
        """Trace a function called ``name`` inside the block; :meth:`get` has the result."""
        self.name = name
        body = self.push("func", None)
        with activate(self):
            yield self
        self._finished = self.finish(self.pop(body))

    def finish(self, body: Stmt) -> PrimFunc:
        """The traced function."""
        from tilelang.frontend.negative_indices import count_from_end

        for stmt in walk_stmts(body):
            if isinstance(stmt, (Alloc, View)) and not stmt.buffer.name:
                set_name(stmt.buffer, "buf")
        for param in self.empties:
            if not param.name:
                set_name(param, "out")
        func = PrimFunc(
            self.name, tuple(self.params), body, self.outputs, tuple(self.attrs.items()), self.loc,
            self.origin,
        )  # fmt: skip
        return count_from_end(func)

    def get(self) -> PrimFunc:
        """The function traced by :meth:`prim_func`."""
        if self._finished is None:
            raise errors.TileRuntimeError("the builder has not finished a function yet")
        return self._finished

    def add_param(self, param: Buffer | Var) -> None:
        """Append a parameter; a variable that is already one is not repeated."""
        if not any(param is known for known in self.params):
            self.params.append(param)

    # -- blocks -------------------------------------------------------------------------------
    def push(self, kind: str, loc: errors.Loc | None = None) -> Block:
        """Open a block."""
        block = Block(kind, loc)
        self.blocks.append(block)
        if kind in LOOPS | BRANCHES:
            block.state = PythonState("a loop" if kind in LOOPS else "a branch", loc or locate())
        return block

    def pop(self, block: Block) -> Stmt:
        """Close ``block``, which is the innermost one, and return its statements."""
        if self.blocks[-1] is not block:
            raise errors.TileSyntaxError(
                "a block is closed while one inside it is still open",
                hint="close `with` frames and loops in the reverse order of opening",
            )
        self.blocks.pop()
        block.alive = False
        if block.state is not None and sys.exc_info()[0] is None:
            block.state.check()
        return seq(*block.stmts) if block.stmts else Seq(stmts=())

    def live_in(self, value: object) -> None:
        """Record that ``value`` (variable or buffer) lives in the innermost block."""
        self.homes[id(value)] = (value, self.blocks[-1])

    def is_bound(self, var: Expr) -> bool:
        """Whether ``var`` has a value: of a parameter, a loop, a name or the memory of a buffer."""
        known = id(var) in self.homes or any(param is var for param in self.params)
        return known or self.owner(var) is not None

    def owner(self, data: Expr) -> Buffer | None:
        """The tensor or tile whose storage the variable ``data`` is (``A.data``)."""
        known = [*self.params, *(value for value, _ in self.homes.values())]
        owners = [buffer for buffer in known if isinstance(buffer, Buffer) and buffer.data is data]
        return owners[0] if owners else None

    def ended(self, value: object) -> str | None:
        """The name of a variable or buffer in ``value`` whose block has ended, if any."""
        nodes: Sequence[object]
        if isinstance(value, Expr):
            nodes = [node for node in walk(value) if isinstance(node, Var)]
            nodes = [*nodes, *(node.buffer for node in walk(value) if isinstance(node, Load))]
        elif isinstance(value, Region):
            nodes = [value.buffer]
        else:
            nodes = [value] if isinstance(value, Buffer) else []
        for element in nodes:
            home = self.homes.get(id(element))
            if home is not None and not home[1].alive:
                return cast("Buffer | Var", element).name
        return None

    def _check_alive(self, var: Var, loc: errors.Loc | None) -> None:
        """Python kept ``var`` in a list, say, which no rule of names sees."""
        home = self.homes.get(id(var))
        if home is not None and not home[1].alive:
            raise errors.TileNameError(
                f"`{var.name}` is used outside its defining region",
                expected="a value defined in this block or one around it",
                hint="loops of the device run when the kernel does: write `for i in T.serial(n):` "
                "with what uses `i` in it; range(n) of a constant gives a list",
                loc=loc,
            )

    # -- Emitter ------------------------------------------------------------------------------
    def emit(self, stmt: Stmt) -> None:
        """Append ``stmt`` to the innermost block, with the user's location if it has none."""
        if self.pure_in:
            raise errors.TileRuntimeError(
                f"a statement is emitted inside {self.pure_in}",
                expected="an expression without statements of its own",
                hint="call macros and tile operations in a statement before it, or use `if`",
            )
        if stmt.loc is None:
            object.__setattr__(stmt, "loc", locate())
        for var in {var for expr in stmt.exprs() for var in expr.variables}:
            self._check_alive(var, stmt.loc)
        parallel = any(block.kind == "parallel" for block in self.blocks)
        check_position(stmt, parallel, self.reducers)
        stmt = split(self, stmt)
        block = self.blocks[-1]
        if block.done:
            if block.done != "warned":
                warn(f"statements after `{block.done}` are never reached and are ignored", stmt.loc)
                block.done = "warned"
            return
        block.stmts.append(stmt)

    def alloc(self, buffer: Buffer, init: object = None) -> Buffer:
        """Emit the allocation of ``buffer``; it is named when it is bound."""
        value = None if init is None else as_expr(init, buffer.dtype)
        self.live_in(buffer)
        self.emit(Alloc(buffer=buffer, init=value))
        return buffer

    def store(self, buffer: Buffer, key: object, value: object) -> None:
        """``buffer[key] = value`` with the implicit cast; reducers get an update."""
        target = buffer[key]
        if isinstance(target, Region):
            run = as_run(target)
            if run is None:
                raise errors.TileTypeError(
                    f"a slice of `{buffer.name}` is assigned to",
                    expected="one index per dimension, or a few neighbours of the last one",
                    got=f"`{target!r}`",
                    hint="use T.copy(src, dst[...]) or T.fill(dst[...], value)",
                )
            source = as_run(value)
            target, value = run, value if source is None else source
        self.store_at(target.buffer, target.indices, value)

    def store_at(self, buffer: Buffer, indices: tuple[Expr, ...], value: object) -> None:
        """Store to normalised indices."""
        if isinstance(value, (Buffer, Region)) and not (isinstance(value, Buffer) and value.is_var):
            raise errors.TileTypeError(
                f"a whole buffer is stored into one element of `{buffer.name}`",
                expected="a scalar",
                got=f"`{value!r}`",
                hint="index the source, or use T.copy",
            )
        lanes = Load(buffer, indices).dtype.lanes
        kind = buffer.dtype if lanes == buffer.dtype.lanes else buffer.dtype.with_lanes(lanes)
        if kind.is_integer:
            check_number(value, kind.element_of)
            if remark := lost_fraction(Load(buffer, indices), value):
                warn(remark, locate())
        stored = self._broadcast(as_expr(value, None if lanes > 1 else kind), kind)
        update = self._reducer_update(buffer, indices, stored)
        self.emit(update or Store(buffer=buffer, indices=indices, value=stored))

    @staticmethod
    def _broadcast(value: Expr, kind: DType) -> Expr:
        if kind.lanes > 1 and value.dtype.lanes == 1:
            return Broadcast(as_expr(value, kind.element_of), kind.lanes)
        return as_expr(value, kind)

    @staticmethod
    def _reducer_update(buffer: Buffer, indices: tuple[Expr, ...], value: Expr) -> Stmt | None:
        """``acc[i] = acc[i] op x`` on a reducer as an update of the thread's partial."""
        op, other = (buffer.attrs.reducer or ("",))[0], None
        inner, target = strip(value), Load(buffer, indices)
        if not op or not isinstance(inner, Binary):
            return None
        if inner.op == "sub" and op == "sum" and strip(inner.a) is target:
            other = -inner.b
        elif _REDUCER_OPS.get(inner.op) == op:
            if strip(inner.a) is target:
                other = inner.b
            elif strip(inner.b) is target:
                other = inner.a
        if other is None:
            return None
        added = as_expr(other, buffer.dtype)
        return ReducerUpdate(buffer=buffer, indices=indices, value=added, op=op)

    def annotate(self, key: str, value: object, level: str = "kernel") -> None:
        """Record an annotation on the kernel or the function; mappings are merged."""
        if level == "func":
            target = self.attrs
        elif self.launch is None:
            raise errors.TileSyntaxError(
                f"the annotation {key!r} is outside a kernel",
                expected="a statement inside `with T.Kernel(...)`",
            )
        else:
            target = self.launch.annotations
        if isinstance(value, Mapping):
            value = tuple(value.items())
            old = cast("tuple[tuple[object, object], ...]", target.get(key, ()))
            others = [pair for pair in old if not any(pair[0] is new[0] for new in value)]
            value = (*others, *value)
        target[key] = value

    def kernel(self, op: str) -> LaunchState:
        """The enclosing kernel; an error that names ``op`` outside one."""
        if self.launch is None:
            raise errors.TileSyntaxError(
                f"`{op}` is outside a kernel", expected="a statement inside `with T.Kernel(...)`"
            )
        return self.launch

    def cluster_blocks(self) -> int:
        """Blocks of a cluster of the enclosing kernel; 1 where it has none."""
        return prod(self.cluster_dims("a block of the cluster"))

    def cluster_dims(self, op_name: str) -> tuple[int, int, int]:
        """The same in each dimension, (x, y, z)."""
        dims = self.kernel(op_name).annotations.get("cluster_dims")
        return cast("tuple[int, int, int]", dims or (1, 1, 1))

    def thread_extents(self) -> tuple[int, int, int]:
        """Threads of the enclosing kernel, (x, y, z)."""
        launch = self.kernel("the thread extent")
        launch.annotations.pop("default_threads", None)  # from here on the number is in the program
        return launch.threads

    def thread_index(self) -> Expr:
        """The linear thread index of the enclosing kernel."""
        launch = self.kernel("the thread index")
        nx, ny, nz = launch.threads
        tx, ty, tz = launch.thread_vars
        index: Expr = tx
        if ny > 1:
            index = index + ty * nx
        if nz > 1:
            index = index + tz * (nx * ny)
        return index

    # -- values -------------------------------------------------------------------------------
    def let(self, name: str, value: Expr) -> Var:
        """``name = value``, evaluated here."""
        var = Var(name, value.dtype)
        self.emit(Let(var=var, value=value))
        self.values[var] = value
        self.live_in(var)
        return var

    def bind(self, name: str, value: object) -> object:
        """The value of the Python name after ``name = value``: expressions become values."""
        if isinstance(value, Buffer):
            if not value.name:
                set_name(value, "buf" if name in ("_", "_tmp") else name)
            return value
        if isinstance(value, (list, dict)):
            self.parts.setdefault((id(value), None), (value, self.control()))
        if isinstance(value, (list, tuple)):
            for number, element in enumerate(cast("Sequence[object]", value)):
                if isinstance(element, Buffer) and not element.name:
                    set_name(element, f"{name}_{number}")
            return value
        if not isinstance(value, Expr) or isinstance(value, (Const, Var)):
            return value
        if value.issued:
            return value  # the handle of a statement
        if value.dtype == "void":
            self.eval(value)
            return None
        if value.dtype == "handle" or (self.launch is None and is_pure(value)):
            return value  # addresses, and host expressions that shapes and grids are made of
        if isinstance(value, Load) and value.buffer.storage in OPAQUE:
            if all(map(is_pure, value.indices)):
                return value  # a name for a barrier
        return self.let("_tmp" if name == "_" else name, value)

    def snapshot(self, value: object, name: str = "_tmp") -> object:
        """``value`` as it is now: what later stores could change becomes a let value."""
        if isinstance(value, Buffer) and value.is_var:
            value = as_expr(value)
        if isinstance(value, Expr) and not is_pure(value):
            return self.bind(name, value)
        return value

    def eval(self, value: object) -> None:
        """An expression statement: emitted when it has an effect."""
        if isinstance(value, Expr) and has_effect(value) and not value.issued:
            self.emit(Eval(value=value))

    def withdraw(self, value: Expr) -> Stmt | None:
        """Remove the statement whose handle is ``value``, and return it; None without one.

        A constant is one where ``T.evaluate`` of it was the last statement.

        Raises:
            TileRuntimeError: the statement is in a block that has ended.
        """
        if isinstance(value, Const):
            last = self.blocks[-1].stmts[-1] if self.blocks[-1].stmts else None
            ours = isinstance(last, Eval) and last.value is value
            return self.blocks[-1].stmts.pop() if ours else None
        if not value.issued:
            return None
        for block in reversed(self.blocks):
            for at in reversed(range(len(block.stmts))):
                stmt = block.stmts[at]
                if isinstance(stmt, Eval) and stmt.value is value:
                    return block.stmts.pop(at)
        raise errors.TileRuntimeError(
            f"the call `{value!r}` is used after its block",
            expected="a use in the same block, or a call of its own here",
        )

    @contextmanager
    def pure(self, op_name: str) -> Iterator[None]:
        """Refuse statements while operands of a lazy expression are evaluated."""
        outside, self.pure_in = self.pure_in, op_name
        try:
            yield
        finally:
            self.pure_in = outside

    def scope(self) -> Block:
        """The block whose end is the end of a name bound here: a branch, a loop or the function."""
        inner = LOOPS | BRANCHES
        blocks = self.blocks
        return next((block for block in reversed(blocks) if block.kind in inner), blocks[0])

    def control(self) -> list[Block]:
        """The open branches and loops, outermost first."""
        return [block for block in self.blocks if block.kind in LOOPS | BRANCHES]

    def set_part(self, owner: object, key: object, old: object, new: object, op_name: str) -> None:
        """Note that a part of a Python object is bound here; ``old`` is ``new`` at the first time.

        Raises:
            TileNameError: it held something else, bound outside of a branch or loop that is open.
        """
        control = self.control()
        known = self.parts.get((id(owner), key)) or self.parts.get((id(owner), None))
        home = [] if known is None else known[1]
        if control != home[: len(control)] and not is_same_value(old, new):
            raise errors.TileNameError(
                f"{op_name} is bound again in a branch or loop",
                expected="a variable made by T.alloc_var, or a binding outside",
                got=f"{describe(old)} outside, {describe(new)} here",
                hint="make it a T.alloc_var: assignments then store into it",
            )
        self.parts[id(owner), key] = (owner, control)

    # -- launches -----------------------------------------------------------------------------
    def open_launch(
        self, grid: Sequence[object], threads: tuple[int, int, int], names: tuple[str, ...],
        annotations: Mapping[str, object],
    ) -> LaunchState:  # fmt: skip
        """Start a kernel; statements go into its body until :meth:`close_launch`."""
        if self.launch is not None:
            raise errors.TileSyntaxError(
                "a kernel is opened inside a kernel",
                hint="end the first `with T.Kernel(...)` before the next",
            )
        loc = locate()
        extents = tuple(as_expr(extent) for extent in grid)
        defaults = ("bx", "by", "bz")
        chosen = [
            names[i] if i < len(names) and names[i] not in ("", "_") else defaults[i]
            for i in range(len(extents))
        ]
        block_vars = tuple(
            Var(name, extent.dtype) for name, extent in zip(chosen, extents, strict=True)
        )
        self.push("launch", loc)
        self.launch = LaunchState(extents, block_vars, threads)
        self.launch.annotations.update(annotations)
        for var in (*block_vars, *self.launch.thread_vars):
            self.live_in(var)
        return self.launch

    def close_launch(self) -> None:
        """End the kernel and emit it."""
        from tilelang.frontend.private_fragments import make_fragments_private

        launch = self.kernel("the end of the kernel")
        block = self.blocks[-1]
        body = self.pop(block)
        self.launch = None
        stated: Any = launch.annotations.pop("schedule", ())
        node = Launch(
            grid=launch.grid, block_vars=launch.block_vars, thread_vars=launch.thread_vars,
            threads=launch.threads, body=body, hints=LaunchHints.of(launch.annotations.items()),
            schedule=Schedule(**dict(stated)) if stated else None, loc=block.loc,
        )  # fmt: skip
        if launch.checks:
            varying = Varying(node)
            for check in launch.checks:
                check(varying)
        self.emit(make_fragments_private(node))

    def when_closed(self, check: Callable[[Varying], None]) -> None:
        """Call ``check`` at the end of the kernel with what differs between its threads."""
        self.kernel("an operation of threads").checks.append(check)

    # -- outputs ------------------------------------------------------------------------------
    def add_output(self, buffer: Buffer) -> Buffer:
        """A new tensor made by ``T.empty``: a parameter that must be returned."""
        if self.launch is not None:
            raise errors.TileSyntaxError(
                "T.empty inside a kernel",
                hint="create outputs before `with T.Kernel(...)`; inside use T.alloc_*",
            )
        self.params.append(buffer)
        self.empties.append(buffer)
        self.empty_locs.append(locate())
        return buffer

    def set_results(self, value: object) -> None:
        """Check and record what the traced function returned."""
        several = isinstance(value, (tuple, list))
        results = list(cast("Sequence[object]", value)) if several else [value]
        if value is None:
            results = []
        numbers: list[int] = []
        for entry in results:
            at = [i for i, param in enumerate(self.params) if param is entry]
            if not at or not any(entry is empty for empty in self.empties):
                raise errors.TileTypeError(
                    f"`{self.name}` returns something that is not an output",
                    expected="tensors made by T.empty in this function",
                    got=describe(entry),
                    loc=self.return_loc or self.loc,
                )
            numbers.append(at[0])
        for empty, loc in zip(self.empties, self.empty_locs, strict=True):
            if not any(empty is entry for entry in results):
                raise errors.TileRuntimeError(
                    f"the output `{empty.name or 'T.empty(...)'}` of `{self.name}` is not returned",
                    hint="return every tensor made by T.empty; for scratch space use "
                    "T.alloc_global inside the kernel",
                    loc=loc or self.loc,
                )
        if len(set(numbers)) != len(numbers):
            raise errors.TileValueError(
                f"`{self.name}` returns the same output twice", loc=self.return_loc or self.loc
            )
        self.outputs = tuple(numbers)
        if several:
            self.attrs["returns_list"] = True


def describe(value: object) -> str:
    """``value`` in an error: no addresses, no long strings."""
    if isinstance(value, Buffer):
        return f"the buffer `{value.name}`"
    if isinstance(value, (Expr, Region)):
        return f"`{value!r}`"
    text = errors.shown(value)
    return f"an object of type {type(value).__name__}" if " at 0x" in text else text


def count(number: int, noun: str) -> str:
    """ "1 name", "2 names", "2 indices"."""
    plural = "indices" if noun == "index" else noun + "s"
    return f"{number} {noun if number == 1 else plural}"


class placed:
    """Context manager: an error raised inside takes the user's place, found only then.

    For functions that run outside of a trace: annotations, symbols, decorators.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, errors.TileError) and error.loc is None:
            error.loc = locate()


def is_same_value(a: object, b: object) -> bool:
    """Whether two values of a name are one value: an object, or equal Python constants."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(is_same_value(x, y) for x, y in zip(a, b, strict=True))
    plain = isinstance(a, (bool, int, float, complex, str, bytes, type(None)))
    return plain and repr(a) == repr(b)  # two zeros differ, two NaNs do not


def set_name(buffer: Buffer, name: str) -> None:
    """Name a fresh allocation, once."""
    object.__setattr__(buffer, "name", name)
    if not buffer.data.name:
        object.__setattr__(buffer.data, "name", name)


# -- locations --------------------------------------------------------------------------------
ROOT = "trace_root"  # the function of trace.py below which the user's frames of a trace begin


def _is_root(frame: FrameType) -> bool:
    return frame.f_code.co_name == ROOT and is_ours(frame)


def _chain(frames: list[tuple[FrameType, int]]) -> errors.Loc | None:
    """Location from (frame, instruction) pairs, outermost first."""
    loc: errors.Loc | None = None
    inner: str | None = None
    for frame, lasti in frames:
        name = frame.f_code.co_name
        # Lambdas and comprehensions, and functions that rewriting makes.
        nested = name.startswith(("<", "__tl_match")) and inner is not None
        span = _position(frame, lasti)
        site = loc.call_site if nested and loc is not None else loc
        inner = inner if nested else name
        loc = errors.Loc(span[0], span[1], span[2], span[3], span[4], inner, site)
    return loc


def _positions(code: CodeType) -> tuple[tuple[Any, Any, Any, Any], ...]:
    """The location of each instruction of ``code``, from Python 3.11 on."""
    positions_of: Any = getattr(code, "co_positions", tuple)
    return tuple(positions_of())


def _position(frame: FrameType, lasti: int) -> tuple[str, int, Any, Any, Any]:
    code = frame.f_code
    active = current()
    positions = active.code_positions(code) if isinstance(active, Builder) else _positions(code)
    if positions and lasti >= 0:
        line, end_line, col, end_col = positions[lasti // 2]
        if line is not None:
            return code.co_filename, line, col, end_line, end_col
    return code.co_filename, frame.f_lineno, None, None, None


def locate() -> errors.Loc | None:
    """Where the user's program is now, with the calls of macros and helpers that led there."""
    frames: list[tuple[FrameType, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_root(frame):
        if not is_ours(frame):
            frames.append((frame, frame.f_lasti))
        frame = frame.f_back
    if (
        frame is None
    ):  # no trace root: a builder without a trace; only the innermost location counts
        frames = frames[:1]
    return _chain(frames[::-1])


def is_class_of_python(frame: FrameType) -> bool:
    """Whether ``frame`` makes an object of a class that Python fills, such as a policy."""
    return frame.f_globals.get("__name__") in ("enum", "typing")


def locate_error(traceback: TracebackType | None) -> errors.Loc | None:
    """The user's place where an exception came up, from its traceback."""
    frames: list[tuple[FrameType, int]] = []
    while traceback is not None:
        if not is_ours(traceback.tb_frame) and not is_class_of_python(traceback.tb_frame):
            frames.append((traceback.tb_frame, traceback.tb_lasti))
        elif _is_root(traceback.tb_frame):
            frames = []
        traceback = traceback.tb_next
    return _chain(frames)


def warn(message: str, loc: errors.Loc | None) -> None:
    """Warn about the user's line ``loc``."""
    if loc is None:
        warn_caller(message)
    else:
        warnings.warn_explicit(message, errors.TileWarning, loc.file, loc.line)


def attach(error: errors.TileError, traceback: TracebackType | None) -> None:
    """Give an error without a location the user's place it came from."""
    if error.loc is None:
        error.loc = locate_error(traceback)
