"""IR verifier: holds a function to a level of the IR; :mod:`tilelang.ir.levels` has the tables.

Besides the tables :func:`check` holds at all levels that every variable is bound where it is used,
that every buffer exists, that accesses have one integer index per dimension, and that stored values
have the dtype of their buffer. In Thread IR a constant index of on-chip memory is in bounds, too.
That those that depend on threads and loops do is shown once, of the finished program, by
:func:`tilelang.transforms.verify.bounds.verify_bounds`: it looks at every thread and iteration.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from tilelang.errors import InternalError, Loc, TileSyntaxError
from tilelang.ir import schedule as H, stmt as S
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import AddressOf, Const, Expr, Load, RegionArg, Var, find
from tilelang.ir.hints import Hints
from tilelang.ir.levels import HOST, LEVELS, Level
from tilelang.ir.print_expr import shape_vars
from tilelang.records import dataclass


def check(
    func: S.PrimFunc, level: str, host_works: bool = False, own_keys: bool = False, after: str = ""
) -> None:
    """Hold ``func`` to the level "tile", "scheduled" or "thread".

    Args:
        host_works: whether the target runs statements of kernels outside kernels too.
        own_keys: whether the program's own keys, which mean nothing, are still there.
        after: the pass that made it, for the message.

    Raises:
        TileSyntaxError: a kernel statement is outside every kernel.
        InternalError: anything else; a pass or the front end made an illegal program.
    """
    row = LEVELS.get(level)
    if row is None:
        raise InternalError(f"unknown IR level {level!r}", expected=", ".join(LEVELS), got=level)
    stage = f"{row.name} after the pass {after}" if after else row.name
    _Checker(func, row, host_works, own_keys, stage).run()


@dataclass
class _Checker:
    func: S.PrimFunc
    level: Level
    host_works: bool
    own_keys: bool
    stage: str
    loc: Loc | None = None
    bound: set[Var] = field(default_factory=set)
    buffers: set[Buffer] = field(default_factory=set)
    in_kernel: bool = False
    loops: int = 0

    def run(self) -> None:
        """Check parameters, outputs and body."""
        self.loc = self.func.loc
        for param in self.func.params:
            if isinstance(param, Buffer):
                self.declare(param)
                self.bound.update(shape_vars(param))
            else:
                self.bound.add(param)
        for index in self.func.outputs:
            inside = 0 <= index < len(self.func.params)
            if not inside or not isinstance(self.func.params[index], Buffer):
                self.fail(f"output {index} is not a tensor parameter")
        self.stmt(self.func.body)

    def fail(self, message: str, **details: object) -> None:
        """Raise for the statement being checked."""
        raise InternalError(
            f"`{self.func.name}` is not legal {self.stage}: {message}",
            loc=self.loc,
            expected=details.get("expected"),
            got=details.get("got"),
            hint="this is a defect of tilelang; please report it with the program",
        )

    # -- scopes ----------------------------------------------------------------------------------
    def block(self, stmts: Iterable[S.Stmt], new: Iterable[Var] = ()) -> None:
        """Check a block in which ``new`` are bound; what it defines ends with it."""
        bound, buffers = self.bound, self.buffers
        self.bound, self.buffers = bound.union(new), set(buffers)
        for stmt in stmts:
            self.stmt(stmt)
        self.bound, self.buffers = bound, buffers

    def declare(self, buffer: Buffer) -> None:
        """``buffer`` exists from here on."""
        self.scope(buffer)
        self.buffers.add(buffer)
        self.bound.add(buffer.data)

    def scope(self, buffer: Buffer) -> None:
        """Whether the level has the scope of ``buffer``."""
        if buffer.storage not in self.level.scopes:
            self.fail(f"the buffer `{buffer.name}` has the scope {buffer.storage!r}")

    def hints(self, holder: str, hints: Hints) -> None:
        """Whether ``hints`` mean something at the level."""
        for key, _ in hints.stated if self.level.lowered else ():
            if key in hints.schedule:
                self.fail(f"the hint {key!r} of {holder} may not appear")
        for key, _ in hints.other:
            self.own_key(holder, key)

    def own_key(self, holder: str, key: str) -> None:
        """A key of the program, which means nothing."""
        if not self.own_keys:
            self.fail(f"the key {key!r} of {holder} may not appear")

    # -- statements ------------------------------------------------------------------------------
    def stmt(self, stmt: S.Stmt) -> None:
        """Check ``stmt`` and everything in it."""
        outer, self.loc = self.loc, stmt.loc or self.loc
        self.kind(stmt)
        bound = self.bound
        if isinstance(stmt, S.Gather):
            self.bound = bound.union(stmt.vars)
        for expr in stmt.exprs():
            self.expr(expr)
        self.bound = bound
        for region in (*stmt.regions_read(), *stmt.regions_written()):
            self.region(region)
        self.own(stmt)
        self.blocks(stmt)
        self.loc = outer

    def kind(self, stmt: S.Stmt) -> None:
        """Whether statements of this class are legal here."""
        name = type(stmt).__name__
        if type(stmt) not in self.level.statements:
            self.fail(f"the statement {name} may not appear")
        if not (self.in_kernel or self.host_works) and type(stmt) not in HOST:
            raise TileSyntaxError(
                f"`{self.func.name}` has a kernel statement ({name}) outside a kernel",
                loc=self.loc,
                expected="a statement inside `with T.Kernel(...)`",
            )
        if self.in_kernel and isinstance(stmt, S.Launch):
            self.fail("a kernel is launched inside a kernel")
        if isinstance(stmt, S.Attr):
            self.own_key(name, stmt.key)
        elif hints := getattr(stmt, "hints", None):
            self.hints(name, hints)

    def own(self, stmt: S.Stmt) -> None:
        """Check the rules of one class."""
        if isinstance(stmt, (S.Store, S.ReducerUpdate)):
            self.check_indices(stmt.buffer, stmt.indices)
            self.same(Load(stmt.buffer, stmt.indices).dtype, stmt.value.dtype, stmt.buffer)
        elif isinstance(stmt, S.Fill):
            self.same(stmt.dst.dtype, stmt.value.dtype, stmt.dst.buffer)
        elif isinstance(stmt, S.Let):
            if stmt.var.dtype != stmt.value.dtype:
                self.fail(
                    f"`{stmt.var.name}` is bound to a value of another dtype",
                    expected=stmt.var.dtype,
                    got=stmt.value.dtype,
                )
            self.bind(stmt.var)
        elif isinstance(stmt, S.Alloc):
            self.shape(stmt.buffer)
            if stmt.init is not None:
                self.same(stmt.buffer.dtype, stmt.init.dtype, stmt.buffer)
            self.declare(stmt.buffer)
        elif isinstance(stmt, S.View):
            self.shape(stmt.buffer)
            if stmt.source is None and stmt.buffer.data not in self.bound:
                self.fail(f"the view `{stmt.buffer.name}` is of memory that does not exist here")
            self.declare(stmt.buffer)
        elif isinstance(stmt, S.For) and stmt.kind not in self.level.loop_kinds:
            self.fail(f"a loop of kind {stmt.kind!r} may not appear")
        elif isinstance(stmt, S.Parallel) and len(stmt.vars) != len(stmt.extents):
            self.fail(f"a Parallel has {len(stmt.vars)} variables, {len(stmt.extents)} extents")
        elif isinstance(stmt, S.Gemm) and stmt.plan is not None and not self.level.planned:
            self.fail("a product has a plan")
        elif isinstance(stmt, (S.If, S.While, S.Assert)) and not stmt.cond.dtype.is_bool:
            self.fail("a condition is not a bool", expected="bool", got=stmt.cond.dtype)
        elif isinstance(stmt, (S.Break, S.Continue)) and not self.loops:
            self.fail(f"{type(stmt).__name__} outside a loop")
        else:
            self.schedule(stmt)

    def schedule(self, stmt: S.Stmt) -> None:
        """Check the rules of statements of the schedule."""
        if isinstance(stmt, H.Pipeline) and stmt.stages < 1:
            self.fail(f"the pipeline `{stmt.pipe.name}` has {stmt.stages} stages")
        elif isinstance(stmt, H.Roles) and not all(isinstance(r, H.Role) for r in stmt.branches):
            self.fail("a branch of Roles is not a Role")
        elif isinstance(stmt, H.Roles):
            used: set[int] = set()
            for role in (role for role in stmt.branches if isinstance(role, H.Role)):
                threads = set(range(role.first, role.first + role.count))
                if not threads or min(threads) < 0 or threads & used:
                    self.fail(f"the role {role.name!r} has no threads of its own")
                used |= threads
        elif isinstance(stmt, H.Fence):
            if {stmt.source, stmt.target} - set(H.PROXIES):
                self.fail(
                    "a fence between proxies that do not exist",
                    expected=", ".join(H.PROXIES),
                    got=f"{stmt.source}, {stmt.target}",
                )

    def blocks(self, stmt: S.Stmt) -> None:
        """Nested statements, with what ``stmt`` binds."""
        if isinstance(stmt, S.Seq):
            self.block(stmt.stmts)
            return
        is_loop = isinstance(stmt, (S.For, S.While, S.Parallel))
        is_launch = isinstance(stmt, S.Launch)
        names = () if isinstance(stmt, S.Let) else tuple(stmt.parts("var", "vars"))
        for block in stmt.blocks():
            self.loops += is_loop
            self.in_kernel = self.in_kernel or is_launch
            self.block((block,), names)
            self.loops -= is_loop
            self.in_kernel = self.in_kernel and not is_launch

    def bind(self, var: Var) -> None:
        """``var`` is bound from here on, once."""
        if var in self.bound:
            self.fail(f"`{var.name}` is bound twice")
        self.bound.add(var)

    # -- expressions and accesses ------------------------------------------------------------------
    def expr(self, expr: Expr) -> None:
        """Names and accesses in ``expr``."""
        if not expr.variables <= self.bound:
            name = min(var.name for var in expr.variables - self.bound)
            self.fail(f"`{name}` is used where it is not bound")
        for node in find(expr, Load, AddressOf, RegionArg):
            if isinstance(node, (Load, AddressOf)):
                self.check_indices(node.buffer, node.indices)
            elif isinstance(node, RegionArg):
                if self.level.lowered:
                    self.fail(f"a region of `{node.region.buffer.name}` is an operand")
                self.region(node.region)

    def known(self, buffer: Buffer) -> None:
        """``buffer``, or the memory it names, exists here, in a scope of the level."""
        self.scope(buffer)
        names = buffer.data, buffer.attrs.pointer
        if buffer not in self.buffers and self.bound.isdisjoint(names):
            self.fail(f"the buffer `{buffer.name}` is used where it does not exist")

    def check_indices(self, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        """One integer index per dimension of a buffer that exists."""
        self.known(buffer)
        if len(indices) != buffer.ndim:
            self.fail(
                f"`{buffer.name}` is accessed with {len(indices)} indices", expected=buffer.ndim
            )
        for index, extent in zip(indices, buffer.shape):
            if not (index.dtype.is_integer or index.dtype.is_bool):
                self.fail(
                    f"an index of `{buffer.name}` is not an integer",
                    expected="an integer",
                    got=index.dtype,
                )
            if self.level.lowered and isinstance(index, Const) and isinstance(extent, int):
                if not (0 <= int(index) < extent or buffer.storage == "global"):
                    self.fail(
                        f"an access of `{buffer.name}` is outside its {buffer.storage} memory",
                        expected=f"an index from 0 to {extent - 1}",
                        got=int(index),
                    )

    def region(self, region: Region) -> None:
        """One range per dimension of a buffer that exists."""
        self.check_indices(region.buffer, region.mins)
        if len(region.extents) != region.buffer.ndim:
            self.fail(
                f"a region of `{region.buffer.name}` has {len(region.extents)} extents",
                expected=region.buffer.ndim,
            )

    def shape(self, buffer: Buffer) -> None:
        """Extents and strides use bound variables."""
        for var in shape_vars(buffer):
            if var not in self.bound:
                self.fail(f"`{var.name}` in the shape of `{buffer.name}` is not bound")

    def same(self, expected: DType, got: DType, buffer: Buffer) -> None:
        """A stored value has the dtype of its place."""
        if expected != got:
            self.fail(
                f"a value of another dtype is stored to `{buffer.name}`", expected=expected, got=got
            )
