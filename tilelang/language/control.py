"""Explicit control flow and statements: ``T.If``, ``T.While``, ``T.attr``, ``T.assume`` ..."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.errors import TileSyntaxError, TileTypeError, TileValueError, shown
from tilelang.frontend.frames import Frame
from tilelang.frontend.ir_builder import Block, Builder, builder, describe, locate
from tilelang.frontend.regions import check_options
from tilelang.frontend.scope import truth
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.stmt import Assert as AssertNode, If as IfNode, While as WhileNode
from tilelang.ir.visitor import map_stmts
from tilelang.tracebacks import borders

__all__ = [
    "Assert", "Else", "If", "LetStmt", "Then", "While", "assume", "attr", "bind", "block",
    "block_attr", "evaluate", "let", "reads", "sblock", "sblock_attr", "writes",
]  # fmt: skip


def _truth(cond: Any, op_name: str) -> bool | E.Expr:
    """A condition; texts and lists, which Python takes for one, are none."""
    role = f"the condition of {op_name}"
    if not isinstance(cond, (bool, int, float, E.Expr, Buffer, Region)):
        raise TileTypeError(
            f"{role} is not a condition", expected="a comparison, e.g. n > 0", got=describe(cond)
        )
    return truth(cond, role)


def _condition(cond: Any, op_name: str) -> E.Expr:
    """A device condition, constants included."""
    test = _truth(cond, op_name)
    return E.const(test, "bool") if isinstance(test, bool) else test


class _IfFrame(Frame):
    op_name = "T.If"

    def __init__(self, cond: Any) -> None:
        self.cond = _condition(cond, "T.If")
        self.sides: dict[str, S.Stmt] = {}

    def open(self, active: Builder, names: tuple[str, ...]) -> None:
        self.loc = locate()
        self.block: Block = active.push("if", self.loc)
        active.open_ifs.append(self)

    def close(self, active: Builder) -> None:
        active.open_ifs.pop()
        own = active.pop(self.block)
        if self.block.stmts:
            raise TileSyntaxError(
                "a statement between T.If and T.Then",
                loc=own.loc,
                expected="`with T.Then():` and `with T.Else():` only",
            )
        if "then" not in self.sides:
            raise TileSyntaxError("T.If without T.Then", expected="`with T.Then():` inside")
        orelse = self.sides.get("else")
        active.emit(IfNode(cond=self.cond, then=self.sides["then"], orelse=orelse, loc=self.loc))


class _SideFrame(Frame):
    def __init__(self, kind: str) -> None:
        self.kind, self.op_name = kind, f"T.{kind.title()}"

    def open(self, active: Builder, names: tuple[str, ...]) -> None:
        frames = active.open_ifs
        if not frames or active.blocks[-1] is not frames[-1].block:
            raise TileSyntaxError(
                f"{self.op_name} outside T.If", expected=f"`with T.If(cond):` around {self.op_name}"
            )
        self.owner: _IfFrame = frames[-1]
        if self.kind in self.owner.sides:
            raise TileSyntaxError(f"two {self.op_name} in one T.If")
        self.block = active.push(self.kind, locate())

    def close(self, active: Builder) -> None:
        self.owner.sides[self.kind] = active.pop(self.block)


def If(cond: Any) -> Frame:
    """Branch by ``with T.If(c): with T.Then(): ... with T.Else(): ...``, even for constants.

    Raises:
        TileTypeError: ``cond`` is not a condition.
    """
    return _IfFrame(cond)


def Then() -> Frame:
    """Begin the taken side of ``T.If``."""
    return _SideFrame("then")


def Else() -> Frame:
    """Begin the other side of ``T.If``."""
    return _SideFrame("else")


class _WhileFrame(Frame):
    op_name = "T.While"

    def __init__(self, cond: Any) -> None:
        self.cond = _condition(cond, "T.While")

    def open(self, active: Builder, names: tuple[str, ...]) -> None:
        self.loc = locate()
        self.block = active.push("while", self.loc)

    def close(self, active: Builder) -> None:
        active.emit(WhileNode(cond=self.cond, body=active.pop(self.block), loc=self.loc))


def While(cond: Any) -> Frame:
    """Repeat the body while ``cond`` holds: ``with T.While(cond):``."""
    return _WhileFrame(cond)


class _AttrFrame(Frame):
    op_name = "T.attr"

    def __init__(self, node: Any, key: str, value: Any) -> None:
        self.node, self.key, self.value = node, key, value

    def open(self, active: Builder, names: tuple[str, ...]) -> None:
        self.loc = locate()
        self.block = active.push("attr", self.loc)
        self.block.note = self.node

    def close(self, active: Builder) -> None:
        body = active.pop(self.block)
        if self.key == "async_scope" and isinstance(self.value, int) and self.value:
            body = map_stmts(body, (S.For, S.Parallel), _asynchronous)
        active.emit(S.Attr(key=self.key, body=body, node=self.node, value=self.value, loc=self.loc))


def _asynchronous(loop: S.Stmt) -> S.Stmt:
    """A loop whose copies from global to shared memory are those of ``cp.async``."""
    if isinstance(loop, S.Parallel):
        return replace(loop, hints=replace(loop.hints, asynchronous=True))
    if isinstance(loop, S.For) and loop.kind == "vectorized":
        return replace(loop, hints=replace(loop.hints, asynchronous=True))
    return loop


def attr(node: Any, key: str, value: Any) -> Frame:
    """Annotate the body: ``with T.attr(node, key, value):``; unknown keys have no effect.

    In the body of ``T.attr(x, "async_scope", 1)``, loops ``T.vectorized`` and ``T.Parallel`` that
    copy from global to shared memory are asynchronous as :func:`ptx_cp_async` is: the program waits
    for them (``T.cp_async_barrier_noinc``, ``T.ptx_wait_group``).

    Raises:
        TileTypeError: ``key`` is not a string.
    """
    if not isinstance(key, str):
        raise TileTypeError("the key of T.attr is not a string", got=shown(key))
    return _AttrFrame(node, key, value)


class _BlockFrame(Frame):
    """A named group of statements; it changes nothing."""

    op_name = "T.block"

    def open(self, active: Builder, names: tuple[str, ...]) -> None:
        self.block = active.push("block", locate())

    def close(self, active: Builder) -> None:
        body = active.pop(self.block)
        active.blocks[-1].stmts.extend(body.stmts if isinstance(body, S.Seq) else [body])


def block(name: str = "", no_realize: bool = False) -> Frame:
    """Group statements: ``with T.block("name"):``."""
    return _BlockFrame()


sblock = block


def block_attr(attrs: Any) -> None:
    """Accept metadata of a block, without effect."""
    builder("T.block_attr")


sblock_attr = block_attr


def reads(*_: Any) -> None:
    """Accept declared reads of a block; they are derived from its statements."""
    builder("T.reads")


def writes(*_: Any) -> None:
    """Accept declared writes of a block; they are derived from its statements."""
    builder("T.writes")


def let(v: E.Var, value: Any, body: Any = None) -> E.Var:
    """Bind the variable ``v``, e.g. made by ``T.int32()``, to ``value`` from here on.

    Args:
        v: a variable that has no value yet.
        value: a scalar, cast to the dtype of ``v``.
        body: accepted, without effect.

    Raises:
        TileTypeError: ``v`` is not a variable, or has a value.
    """
    active = builder("T.let")
    if not isinstance(v, E.Var) or active.is_bound(v):
        raise TileTypeError(
            "the first argument of T.let is not a new variable",
            expected="a variable such as T.int32()",
            got=shown(v),
        )
    active.emit(S.Let(var=v, value=E.as_expr(value, v.dtype)))
    active.live_in(v)
    return v


def bind(value: Any, name: str = "v") -> E.Var:
    """Evaluate ``value`` here and return it as a variable.

    Raises:
        TileTypeError: ``value`` is not a scalar.
    """
    check_options(name=name)
    return builder("T.bind").let(name, E.as_expr(value))


class _LetFrame(Frame):
    op_name = "T.LetStmt"

    def __init__(self, value: Any) -> None:
        self.value = E.as_expr(value)

    def open(self, active: Builder, names: tuple[str, ...]) -> E.Var:
        self.block = active.push("block", locate())
        return active.let(names[0] if names and names[0] else "v", self.value)

    def close(self, active: Builder) -> None:
        active.emit(active.pop(self.block))


def LetStmt(value: Any) -> Frame:
    """Bind a variable: ``with T.LetStmt(value) as x:``."""
    return _LetFrame(value)


def evaluate(value: Any) -> E.Expr | None:
    """Evaluate an expression as a statement.

    Returns:
        The value of the statement as a side of ``T.if_then_else``.

    Raises:
        TileTypeError: ``value`` is a buffer.
    """
    active = builder("T.evaluate")
    if value is None:
        return None
    if isinstance(value, (Region, Buffer)) and not (isinstance(value, Buffer) and value.is_var):
        raise TileTypeError("T.evaluate of a buffer", expected="a scalar expression")
    expr = E.as_expr(value)
    known = active.withdraw(expr) if isinstance(expr, E.Call) else None
    if isinstance(expr, E.Call) and known is None:
        expr = expr.issue()
    if not (isinstance(expr, E.AddressOf) and expr.buffer.storage == "shared.barrier"):  # no effect
        active.emit(known or S.Eval(value=expr))
    return expr


def branch(cond: object, t: object, f: object) -> None:
    """An ``if`` whose sides are statements that were emitted last, the second after the first."""
    active = builder("T.if_then_else")
    orelse, then = _side_stmt(active, f), _side_stmt(active, t)
    test = truth(cond, "the condition of T.if_then_else")
    if not isinstance(test, E.Expr):
        side = then if test else orelse
        if side is not None:
            active.emit(side)
    elif then is None and orelse is not None:
        active.emit(IfNode(cond=E.unary("lnot", test), then=orelse))
    elif then is not None:
        active.emit(IfNode(cond=test, then=then, orelse=orelse))


def _side_stmt(active: Builder, side: object) -> S.Stmt | None:
    """The statement of a side; None for a value without effect, as that of ``T.evaluate(0)``."""
    expr = E.as_expr(side)
    stmt = active.withdraw(expr)
    if stmt is None and not isinstance(expr, E.Const):
        raise TileTypeError(
            "one side of T.if_then_else is a statement, the other a value",
            expected="two calls without values, or T.evaluate(0)",
            got=describe(side),
        )
    return None if isinstance(expr, E.Const) else stmt


def assume(cond: Any) -> None:
    """State a fact that the compiler may use; outside kernels the host checks it, too.

    What a kernel assumes of sizes and parameters, before any of its threads may return, holds in
    all of it: ``T.assume(n % 8 == 0)`` allows vectors of eight elements in rows of ``n``. The
    interpreter and ``tilelang.sanitize`` report an assumption of a kernel that does not hold.

    Raises:
        TileValueError: a condition that is false at compile time.
    """
    active = builder("T.assume")
    test = _truth(cond, "T.assume")
    if test is False:
        raise TileValueError(
            "T.assume of a condition that is false", expected="a condition that can hold"
        )
    if isinstance(test, E.Expr):
        active.emit(AssertNode(cond=test, message=repr(test), assumed=True))


def Assert(cond: Any, message: str = "") -> None:
    """Stop with ``message`` unless ``cond`` holds."""
    active = builder("T.Assert")
    check_options(message=message)
    test = _condition(cond, "T.Assert")
    if not (isinstance(test, E.Const) and test.value):
        active.emit(AssertNode(cond=test, message=message))


borders(globals(), __all__)
