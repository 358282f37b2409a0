"""Which nodes may appear at which level, and the rules that every level keeps.

*Tile* level is what tracing gives: tile operations, parallel loops, threads implied. *Thread*
level is what is printed: no tile operation but those a back end has kernels for. At both levels
every variable is bound where it is used, every buffer is allocated or a parameter, element
accesses have one index per dimension and stores have the dtype of their buffer.
"""

from __future__ import annotations

from tilelang.errors import InternalError
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer

# Statement classes that may appear besides plain statements.
ALLOWED: dict[str, tuple[type[S.Stmt], ...]] = {
    "tile": (S.TileOp, S.Parallel, S.ReducerUpdate),
    "thread": (S.Gemm,),
}
PLAIN = (
    S.Seq, S.Let, S.Alloc, S.View, S.Store, S.For, S.While, S.If, S.Eval, S.Assert, S.Break,
    S.Continue, S.ThreadReturn, S.Attr, S.Launch,
)  # fmt: skip


def check(func: S.PrimFunc, level: str) -> None:
    """Check ``func`` against the table of ``level`` ("tile" or "thread").

    Raises:
        InternalError: a pass or the front end built something that it must not.
    """
    _Checker(func, level).run()


class _Checker:
    def __init__(self, func: S.PrimFunc, level: str) -> None:
        self.func = func
        self.level = level
        self.bound: set[E.Var] = set()
        for param in func.params:
            if isinstance(param, Buffer):
                self.bound.add(param.data)
                for extent in (*param.shape, *(param.strides or ())):
                    if isinstance(extent, E.Expr):
                        self.bound.update(n for n in E.walk(extent) if isinstance(n, E.Var))
            else:
                self.bound.add(param)
        self.seen: set[int] = set()
        self.keep: list[object] = []

    def run(self) -> None:
        """Check the whole function."""
        self.stmt(self.func.body)

    def fail(self, message: str, stmt: S.Stmt) -> InternalError:
        """The error for a broken rule."""
        return InternalError(
            f"`{self.func.name}` is not legal at the {self.level} level: {message}",
            hint="this is a defect of tilelang; please report it with the program",
            loc=stmt.loc,
        )

    def stmt(self, stmt: S.Stmt) -> None:
        """One statement; bindings of its sequence end with it."""
        if not isinstance(stmt, (*PLAIN, *ALLOWED[self.level])):
            raise self.fail(f"{type(stmt).__name__} may not appear", stmt)
        outer = set(self.bound)
        self.bound.update(stmt.parts("vars"))
        if isinstance(stmt, S.Launch):
            for extent in stmt.grid:
                self.expr(extent, stmt)
        else:
            for expr in stmt.exprs():
                self.expr(expr, stmt)
        for buffer in stmt.parts("buffer"):
            if isinstance(stmt, (S.Alloc, S.View)):
                self.bound.add(buffer.data)
            self.buffer(buffer, stmt)
        for region in stmt.parts("read", "write", "update"):
            self.buffer(region.buffer, stmt)
        if isinstance(stmt, S.Store):
            self.store(stmt)
        self.bound.update(stmt.parts("var"))
        for block in stmt.blocks():
            self.stmt(block)
        if not isinstance(stmt, (S.Let, S.Alloc, S.View)):
            self.bound = outer

    def buffer(self, buffer: Buffer, stmt: S.Stmt) -> None:
        """The buffer exists here."""
        if buffer.data not in self.bound:
            raise self.fail(f"the buffer `{buffer.name}` is used but not allocated", stmt)

    def store(self, stmt: S.Store) -> None:
        """One index per dimension and the buffer's dtype."""
        if len(stmt.indices) != stmt.buffer.ndim:
            raise self.fail(
                f"a store to `{stmt.buffer.name}` has {len(stmt.indices)} indices for "
                f"{stmt.buffer.ndim} dimensions", stmt,
            )
        scalar = stmt.value.dtype.element_of
        if scalar != stmt.buffer.dtype.element_of:
            raise self.fail(
                f"a {stmt.value.dtype} value is stored to `{stmt.buffer.name}` of dtype "
                f"{stmt.buffer.dtype}", stmt,
            )

    def expr(self, expr: E.Expr, stmt: S.Stmt) -> None:
        """Variables are bound and accesses complete."""
        for node in E.walk(expr):
            if isinstance(node, E.Var) and node not in self.bound:
                raise self.fail(f"the variable `{node.name}` is used but not bound", stmt)
            if isinstance(node, (E.Load, E.AddressOf)):
                self.buffer(node.buffer, stmt)
                if isinstance(node, E.Load) and len(node.indices) != node.buffer.ndim:
                    raise self.fail(
                        f"an access to `{node.buffer.name}` has {len(node.indices)} indices for "
                        f"{node.buffer.ndim} dimensions", stmt,
                    )
