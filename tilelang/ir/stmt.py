"""Statements and tile operations: frozen, compared by identity, each with the user's location.

Every field of a statement is tagged once with its role (expression, block, binding, region read
or written, buffer, attribute). Effects, walking, rewriting, printing and checking derive from the
tags, so an untagged field is an error when the class is made.

Scopes: a ``Let`` or ``Alloc`` holds to the end of the ``Seq`` that contains it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, field, fields, replace
from functools import cache
from operator import is_
from typing import Any, ClassVar, NoReturn, TypeAlias, TypeVar, overload

from tilelang.errors import InternalError, Loc, TileTypeError
from tilelang.ir import hints as H
from tilelang.ir.atoms import Atom
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Call, Expr, Var, as_expr, call, const, find as find_in
from tilelang.ir.hints import Pairs as Pairs
from tilelang.ir.later import later
from tilelang.ir.launch_schedule import Schedule
from tilelang.notebook import Preformatted
from tilelang.records import dataclass
from tilelang.tracebacks import border

Kind = TypeVar("Kind", bound="Stmt")
Other = TypeVar("Other", bound="Stmt")
ROLES = frozenset("expr exprs block var vars read write update buffer attr".split())


def _tag(role: str, default: Any = ...) -> Any:
    if default is ...:
        return field(metadata={"role": role})
    return field(default=default, metadata={"role": role})


def expr_(default: Any = ...) -> Any:
    """A field holding an expression (or a plain int, or None)."""
    return _tag("expr", default)


def exprs_(default: Any = ...) -> Any:
    """A field holding a tuple of expressions or plain ints."""
    return _tag("exprs", default)


def block_(default: Any = ...) -> Any:
    """A field holding a nested statement (or None)."""
    return _tag("block", default)


def var_() -> Any:
    """A field holding a variable that the statement binds."""
    return _tag("var")


def vars_() -> Any:
    """A field holding a tuple of variables that the statement binds."""
    return _tag("vars")


def read_(default: Any = ...) -> Any:
    """A region that the statement reads."""
    return _tag("read", default)


def write_(default: Any = ...) -> Any:
    """A region that the statement overwrites completely."""
    return _tag("write", default)


def update_(default: Any = ...) -> Any:
    """A region that the statement reads and writes, or writes in part."""
    return _tag("update", default)


def buffer_(mode: str) -> Any:
    """A buffer: one element is stored to ("write") or updated ("update"), or it is only named
    ("name": allocated or viewed)."""
    return field(metadata={"role": "buffer", "mode": mode})


def attr_(default: Any = ...) -> Any:
    """A compile-time value."""
    return _tag("attr", default)


_EXPRS, _REGIONS = ("expr", "exprs"), ("read", "write", "update")


@dataclass(frozen=True, eq=False, kw_only=True)
class Stmt:
    """Base of all statements; ``loc`` is where the user wrote it."""

    roles: ClassVar[dict[str, str]] = {}
    _nested: ClassVar[tuple[str, ...]] = ()  # the fields that hold statements
    loc: Loc | None = field(default=None, metadata={"role": "attr"})

    def __init_subclass__(cls) -> None:
        tagged = ((name, value) for name, value in vars(cls).items() if isinstance(value, Field))
        own = (name for name, value in tagged if value.metadata.get("role") == "block")
        cls._nested = (*cls._nested, *own)

    @classmethod
    def role_table(cls) -> dict[str, str]:
        """Field name -> role, in declaration order (checked once per class)."""
        return _roles_of(cls)  # type: ignore[arg-type]  # classes hash

    def parts(self, *roles: str) -> list[Any]:
        """Values of the fields that have one of ``roles``, tuples flattened, None left out."""
        children: list[Any] = []
        for name in _fields_of(type(self), roles):  # type: ignore[arg-type]  # classes hash
            value = getattr(self, name)
            if isinstance(value, tuple):
                children += [child for child in value if child is not None]
            elif value is not None:
                children.append(value)
        return children

    def blocks(self) -> list[Stmt]:
        """Nested statements."""
        nested: list[Stmt] = []
        for name in self._nested:
            value = getattr(self, name)
            if isinstance(value, tuple):
                nested += value
            elif value is not None:
                nested.append(value)
        return nested

    def regions_read(self) -> list[Region]:
        """Regions a tile operation reads."""
        return self.parts("read", "update")

    def regions_written(self) -> list[Region]:
        """Regions a tile operation writes."""
        return self.parts("write", "update")

    def exprs(self) -> list[Expr]:
        """Expressions evaluated by this statement itself, those inside regions included."""
        operands: list[Expr] = []
        exprs, regions = _evaluated(type(self))  # type: ignore[arg-type]  # mypy: a class has no hash
        for name in exprs:
            value = getattr(self, name)
            if isinstance(value, Expr):
                operands.append(value)
            elif isinstance(value, tuple):
                operands += [expr for expr in value if isinstance(expr, Expr)]
        for region in self.parts(*_REGIONS) if regions else ():
            operands += region.region_exprs()
        return operands

    @property
    def call(self) -> Call | None:
        """The call that the statement is, None for any other."""
        return None

    def calls(self) -> list[Call]:
        """Calls in the expressions of this statement itself."""
        return [call for expr in self.exprs() for call in find_in(expr, Call)]

    def __repr__(self) -> str:
        return stmt_text(self)


stmt_text: later[[Stmt], str] = later("printer:stmt_text")
"""``stmt`` with everything nested in it, as lines of Python text without final newline."""


# -- plain statements -----------------------------------------------------------------------
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Seq(Stmt):
    """Statements in order."""

    stmts: tuple[Stmt, ...] = block_()

    def of(self, stmts: Sequence[Stmt]) -> Stmt:
        """These statements in order: itself where they are its own."""
        is_unchanged = len(stmts) == len(self.stmts) and all(map(is_, stmts, self.stmts))
        return self if is_unchanged else seq(*stmts)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Let(Stmt):
    """``var = value``, evaluated here; the variable never changes."""

    var: Var = var_()
    value: Expr = expr_()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Alloc(Stmt):
    """Storage for ``buffer``; ``init`` is the first value of an ``alloc_var``."""

    buffer: Buffer = buffer_("name")
    init: Expr | None = expr_(None)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class View(Stmt):
    """``buffer`` names memory that exists: another buffer's storage or the pointer ``source``."""

    buffer: Buffer = buffer_("name")
    source: Expr | None = expr_(None)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Store(Stmt):
    """``buffer[indices] = value``; the value already has the buffer's dtype."""

    buffer: Buffer = buffer_("write")
    indices: tuple[Expr, ...] = exprs_()
    value: Expr = expr_()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class For(Stmt):
    """``for var in range(start, stop, step)``.

    ``kind``: "serial", "unroll", "vectorized" or "pipelined". All kinds mean the serial loop; the
    rest is a hint.
    """

    var: Var = var_()
    start: Expr = expr_()
    stop: Expr = expr_()
    step: Expr = expr_()
    body: Stmt = block_()
    kind: str = attr_("serial")
    hints: H.LoopHints = attr_(H.PLAIN_LOOP)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Parallel(Stmt):
    """Every index tuple of ``extents`` once, distributed over the thread group, in any order.

    ``loop_layout`` (a ``layout.Fragment``) fixes which thread runs which indices.
    """

    vars: tuple[Var, ...] = vars_()
    extents: tuple[Expr, ...] = exprs_()
    body: Stmt = block_()
    loop_layout: Any = attr_(None)
    hints: H.CopyHints = attr_(H.PLAIN_COPY)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class While(Stmt):
    """Repeat ``body`` while ``cond`` holds."""

    cond: Expr = expr_()
    body: Stmt = block_()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class If(Stmt):
    """``then`` if ``cond`` else ``orelse``."""

    cond: Expr = expr_()
    then: Stmt = block_()
    orelse: Stmt | None = block_(None)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Eval(Stmt):
    """An expression evaluated for its effect."""

    value: Expr = expr_()

    @property
    def call(self) -> Call | None:
        """The call that the statement is, None for any other."""
        return self.value if isinstance(self.value, Call) else None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Assert(Stmt):
    """Stop with ``message`` unless ``cond``; at function level it runs on the host.

    ``assumed`` marks ``T.assume``: checked on the host, a fact for code of kernels. ``threads``:
    those that a barrier needs, where the check is that all of them reach it.
    """

    cond: Expr = expr_()
    message: str = attr_("")
    assumed: bool = attr_(False)
    threads: str = attr_("")

    @property
    def host_text(self) -> str:
        """The message of a failure on the host."""
        verdict = "Assume" if self.assumed else "Assert failed"
        return f"{verdict}: {self.message or f'`{self.cond!r}`'}"

    @property
    def kernel_text(self) -> str:
        """The message of a failure in a kernel."""
        return "T.assume does not hold" if self.assumed else self.message


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Break(Stmt):
    """Leave the innermost loop."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Continue(Stmt):
    """Go on with the next iteration of the innermost loop."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ThreadReturn(Stmt):
    """Leave the kernel in the executing threads."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Attr(Stmt):
    """``body`` under the annotation ``key = value`` on ``node``; unknown keys mean nothing."""

    key: str = attr_()
    body: Stmt = block_()
    node: Any = attr_(None)
    value: Any = attr_(None)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Launch(Stmt):
    """A kernel: ``body`` for every block of ``grid``, each with ``threads`` threads.

    ``block_vars`` and ``thread_vars`` are (x, y, z); ``grid`` has one extent per block variable,
    ``threads`` always three ints.
    """

    grid: tuple[Expr, ...] = exprs_()
    block_vars: tuple[Var, ...] = vars_()
    thread_vars: tuple[Var, ...] = vars_()
    threads: tuple[int, ...] = attr_((128, 1, 1))
    body: Stmt = block_()
    hints: H.LaunchHints = attr_(H.PLAIN_LAUNCH)
    schedule: Schedule | None = attr_(None)

    def with_body(self, body: Stmt) -> Launch:
        """A copy with another body; itself where it is the same."""
        return self if body is self.body else replace(self, body=body)


# -- tile operations --------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TileOp(Stmt):
    """An operation of the current thread group on tiles; synchronous unless stated otherwise."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ElementOp(TileOp):
    """An operation on each element by itself: ``ir/elementwise.py`` has the loop, which every
    back end lowers and the interpreter runs. Where the elements of the result are not those of an
    operand in order, and may overlap it, a copy of the operand is taken before."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Copy(TileOp):
    """``dst = cast(src)``, element by element.

    The non-unit extents of the two regions are equal in order (the language layer has applied
    the extent rules). Elements outside the declared shape of a global source read its safe value
    (default 0); writes outside a global destination are dropped.
    ``mode``: "copy", "async" (cp.async, no wait), "tma" (with ``barrier``), "cluster" (to
    ``dst_block`` of the cluster).
    """

    src: Region = read_()
    dst: Region = write_()
    mode: str = attr_("copy")
    barrier: Expr | None = expr_(None)
    loop_layout: Any = attr_(None)
    dst_block: Expr | None = expr_(None)
    hints: H.CopyHints = attr_(H.PLAIN_COPY)

    @property
    def arrives(self) -> bool:
        """Whether it arrives at its barrier, once for all of its threads."""
        return self.barrier is not None and bool(self.hints.emit_arrive)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Fill(TileOp):
    """Every element of ``dst`` becomes ``value`` (already of its dtype)."""

    dst: Region = write_()
    value: Expr = expr_()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Gemm(TileOp):
    """``c += op(a) @ op(b)``; c is overwritten where ``clear`` holds.

    The matrices are the last two dimensions of the regions (leading extents are 1). ``policy``
    is 0 (square), 1 (full row) or 2 (full column). ``asynchronous`` marks ``wgmma_gemm``. ``plan``
    says how threads compute it (``transforms.layouts.gemm_plan.GemmPlan``); it is set
    where layouts are inferred. ``barrier`` is arrived at once when the product is complete.
    """

    a: Region = read_()
    b: Region = read_()
    c: Region = update_()
    trans_a: bool = attr_(False)
    trans_b: bool = attr_(False)
    clear: Expr = expr_()
    policy: int = attr_(0)
    k_pack: int = attr_(1)
    asynchronous: bool = attr_(False)
    barrier: Expr | None = expr_(None)
    plan: Any = attr_(None)
    hints: H.GemmHints = attr_(H.PLAIN_GEMM)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Reduce(TileOp):
    """``dst = reduce(src, dim)``, combined with the old ``dst`` unless ``clear``.

    ``kind``: "sum", "max", "min", "absmax", "abssum", "bitand", "bitor", "bitxor". ``dst`` is
    ``src`` without ``dim`` or with extent 1 there. The accumulation dtype is that of ``dst``.
    ``partial``: each thread keeps what it has of a row itself, and someone adds that up later.
    """

    src: Region = read_()
    dst: Region = update_()
    kind: str = attr_()
    dim: int = attr_()
    clear: bool = attr_(True)
    nan_propagate: bool = attr_(False)
    batch: int = attr_(1)
    partial: bool = attr_(False)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Scan(TileOp):
    """Inclusive scan ("sum", "max" or "min") of ``src`` along ``dim`` into ``dst``."""

    src: Region = read_()
    dst: Region = write_()
    kind: str = attr_()
    dim: int = attr_()
    reverse: bool = attr_(False)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ReducerInit(TileOp):
    """Start of a reducer: its identity, with ``init`` counted once at the end."""

    reducer: Region = write_()
    init: Expr | None = expr_(None)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ReducerUpdate(Stmt):
    """``buffer[indices] = op(buffer[indices], value)`` in the executing thread's partial."""

    buffer: Buffer = buffer_("update")
    indices: tuple[Expr, ...] = exprs_()
    value: Expr = expr_()
    op: str = attr_()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ReducerFinalize(TileOp):
    """Combine the partials of all threads, into ``dst`` or in place."""

    reducer: Region = update_()
    dst: Region | None = write_(None)
    op: str = attr_()
    batch: int = attr_(1)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AtomicTile(TileOp):
    """``dst = op(dst, src)`` per element, atomically; extents as in ``Copy``. ``use_tma``: the
    program asks for one instruction of TMA."""

    src: Region = read_()
    dst: Region = update_()
    op: str = attr_()
    memory_order: str = attr_("relaxed")
    use_tma: bool = attr_(False)
    hints: H.CopyHints = attr_(H.PLAIN_COPY)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Transpose(ElementOp):
    """``dst[.., j, i] = src[.., i, j]`` over the last two dimensions."""

    src: Region = read_()
    dst: Region = write_()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Im2col(ElementOp):
    """Column tile of an NHWC image for convolution; outside the image the value is 0. ``mode`` and
    ``barrier`` are those of a ``Copy``."""

    src: Region = read_()
    dst: Region = write_()
    nhw_step: Expr = expr_()
    c_step: Expr = expr_()
    kernel: int = attr_()
    stride: int = attr_()
    dilation: int = attr_()
    pad: int = attr_()
    mode: str = attr_("copy")
    barrier: Expr | None = expr_(None)
    hints: H.CopyHints = attr_(H.PLAIN_COPY)

    def output_extent(self, extent: Any) -> Any:
        """Output pixels along a dimension of the image of ``extent`` pixels."""
        return (extent + 2 * self.pad - self.dilation * (self.kernel - 1) - 1) // self.stride + 1


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Gather(ElementOp):
    """Each element of ``dst`` becomes ``value``, where ``vars`` are its indices in the region; of
    ``src`` it reads what the value names. ``mode`` and ``barrier`` are those of a ``Copy``."""

    src: Region = read_()
    dst: Region = write_()
    vars: tuple[Var, ...] = vars_()
    value: Expr = expr_()
    mode: str = attr_("copy")
    barrier: Expr | None = expr_(None)
    hints: H.CopyHints = attr_(H.PLAIN_COPY)


# All have a source, a tile, a mode and a barrier.
TileCopy: TypeAlias = Copy | Im2col | Gather
COPIES = (Copy, Im2col, Gather)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PrintTile(TileOp):
    """Print every element of a buffer. Fragment and shared tiles print in one thread."""

    src: Region = read_()
    message: str = attr_("")
    thread: int = attr_(0)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class HardwareOp(TileOp):
    """A tile operation that exists only on some GPU (tcgen05, gather4, sparse gemm ...).

    It traces and prints; back ends without it, and the interpreter, refuse it by ``needs``.
    """

    name: str = attr_()
    needs: str = attr_()
    reads: tuple[Region, ...] = read_(())
    writes: tuple[Region, ...] = update_(())
    args: tuple[Expr, ...] = exprs_(())
    options: Pairs = attr_(())


func_text: later[[PrimFunc], str] = later("printer:func_text")
"""The whole function as Python text, without final newline."""
specialize: later[[PrimFunc, Mapping[Any, object]], PrimFunc] = later("specialize:specialize")
"""``func`` with parameters fixed."""


# -- functions ----------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, repr=False)
class PrimFunc(Preformatted):
    """A traced function: parameters (tensors or scalars), body, and which tensors are results.

    Args:
        name: of the function.
        params: ``Buffer`` (tensor), or ``Var`` (scalar; dtype handle = pointer).
        body: the statement that it runs.
        outputs: indices of the parameters made by ``T.empty`` and returned, in return order.
        attrs: attributes by name.
        loc: file and line.
        origin: the Python function, where it is known (``__wrapped__`` for :mod:`inspect`). It is
            no part of the program and does not travel to other processes.

    The attribute ``returns_list`` makes a call return a list even for one result.
    """

    name: str
    params: tuple[Buffer | Var, ...]
    body: Stmt
    outputs: tuple[int, ...] = ()
    attrs: Pairs = ()
    loc: Loc | None = None
    origin: Any = None

    def __getattr__(self, name: str) -> Any:
        if name == "__name__":
            return self.name
        if name == "__wrapped__" and self.origin is not None:
            return self.origin
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "origin": None}

    @border
    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise TileTypeError(
            f"`{self.name}` is a program, which has to be compiled before it can be called",
            expected=f"tilelang.compile({self.name}), and a call of the kernel that it gives",
            hint="what kernels call is a macro: @T.macro",
        )

    def attr(self, name: str, default: Any = None) -> Any:
        """Return the function attribute ``name``."""
        return dict(self.attrs).get(name, default)

    def script(self, **_: object) -> str:
        """Return the function as Python text in the language itself."""
        return func_text(self)

    def show(self, **_: object) -> None:
        """Print :meth:`script`."""
        print(self.script())

    def with_attr(self, key: str, value: object) -> PrimFunc:
        """Return a copy with the attribute set."""
        rest = tuple(pair for pair in self.attrs if pair[0] != key)
        return replace(self, attrs=(*rest, (key, value)))

    def without_attr(self, key: str) -> PrimFunc:
        """Return a copy without the attribute; itself when there is none."""
        rest = tuple(pair for pair in self.attrs if pair[0] != key)
        return self if len(rest) == len(self.attrs) else replace(self, attrs=rest)

    def with_body(self, body: Stmt) -> PrimFunc:
        """Return a copy with another body; itself where it is the same."""
        return self if body is self.body else replace(self, body=body)

    def specialize(self, fixed: Mapping[Any, object]) -> PrimFunc:
        """Return a copy with fixed parameters or symbols; see :mod:`tilelang.ir.specialize`."""
        return specialize(self, fixed)

    @property
    def buffer_map(self) -> dict[Buffer | Var, Buffer]:
        """The tensor parameters as a mapping: parameters here are the buffers themselves, so each
        maps to itself. Scalars are not keys."""
        return {buffer: buffer for buffer in self.buffers}

    @property
    def ret_type(self) -> None:
        """None: results are tensors of ``outputs``, never a value of the function itself."""
        return

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The tensor parameters."""
        return tuple(param for param in self.params if isinstance(param, Buffer))

    def __repr__(self) -> str:
        return self.script()


def do(row: Atom | str, *args: object, loc: Loc | None = None, **attrs: object) -> Eval:
    """A call that is made for its effect."""
    return Eval(value=call(row, *args, dtype="void", **attrs), loc=loc)


def counted(
    var: Var, stop: int | Expr, body: Stmt, kind: str = "serial",
    hints: H.LoopHints = H.PLAIN_LOOP, loc: Loc | None = None, start: int = 0,
) -> For:  # fmt: skip
    """``for var in range(start, stop)``."""
    return For(
        var=var, start=const(start, var.dtype), stop=as_expr(stop), step=const(1, var.dtype),
        body=body, kind=kind, hints=hints, loc=loc,
    )  # fmt: skip


def nested(
    variables: Sequence[Var], extents: Sequence[int | Expr], body: Stmt,
    independent: bool = False, loc: Loc | None = None,
) -> Stmt:  # fmt: skip
    """``body`` in nested loops, the first outermost; ``independent``: they have that hint."""
    for depth in reversed(range(len(extents))):
        hints = H.LoopHints(parallel=depth) if independent else H.PLAIN_LOOP
        body = counted(variables[depth], extents[depth], body, hints=hints, loc=loc)
    return body


def seq(*stmts: Stmt) -> Stmt:
    """``stmts`` in one ``Seq``, nested ones flattened; a single statement stays itself."""
    flattened = flat(*stmts)
    return flattened[0] if len(flattened) == 1 else Seq(stmts=flattened)


LEAVES = (Break, Continue, ThreadReturn)  # end an iteration, a loop or the kernel early


def flat(*stmts: Stmt) -> tuple[Stmt, ...]:
    """``stmts`` with those of sequences among them in their place."""
    flattened: list[Stmt] = []
    for stmt in stmts:
        flattened += flat(*stmt.stmts) if isinstance(stmt, Seq) else (stmt,)
    return tuple(flattened)


def walk(stmt: Stmt) -> Iterator[Stmt]:
    """``stmt`` and everything nested in it, in program order."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        yield node
        if node._nested:
            stack += node.blocks()[::-1]


@overload
def find(stmt: Stmt, kind: type[Kind], /) -> list[Kind]: ...


@overload
def find(stmt: Stmt, kind: type[Kind], other: type[Other], /) -> list[Kind | Other]: ...


@overload
def find(stmt: Stmt, /, *kinds: type[Stmt]) -> list[Any]: ...


def find(stmt: Stmt, /, *kinds: type[Stmt]) -> list[Any]:
    """The statements of ``walk(stmt)`` that are one of ``kinds``, in its order."""
    return [node for node in walk(stmt) if isinstance(node, kinds)]


def calls(stmt: Stmt) -> Iterator[Call]:
    """The calls in ``stmt`` and everything nested in it."""
    for node in walk(stmt):
        yield from node.calls()


def bound(stmt: Stmt) -> set[Var]:
    """The variables that ``stmt`` and everything nested in it bind."""
    return {var for node in walk(stmt) for var in node.parts("var", "vars")}


def holds(stmt: Stmt, *kinds: type[Stmt]) -> bool:
    """Whether ``stmt`` or a statement in it is one of ``kinds``."""
    return any(isinstance(node, kinds) for node in walk(stmt))


@cache
def _roles_of(cls: type[Stmt]) -> dict[str, str]:
    """Field name -> role of a class of statements."""
    table = {spec.name: spec.metadata.get("role", "") for spec in fields(cls)}
    wrong = [name for name, role in table.items() if role not in ROLES]
    if wrong:
        raise InternalError(f"untagged fields of {cls.__name__}: {', '.join(wrong)}")
    table.pop("loc")
    return table


@cache
def rewritten_fields(cls: type[Stmt], blocks_only: bool) -> tuple[tuple[str, str], ...]:
    """(name, role) of the fields that rewriting descends into."""
    left = ROLES - {"block"} if blocks_only else {"attr", "var", "vars"}
    return tuple((name, role) for name, role in cls.role_table().items() if role not in left)


@cache
def _evaluated(cls: Any) -> tuple[tuple[str, ...], bool]:
    """The fields of a class that hold expressions, and whether others hold regions."""
    return _fields_of(cls, _EXPRS), bool(_fields_of(cls, _REGIONS))


@cache
def _fields_of(cls: type[Stmt], roles: tuple[str, ...]) -> tuple[str, ...]:
    """Fields of a class of statements that have one of ``roles``."""
    return tuple(name for name, role in cls.role_table().items() if role in roles)
