"""Tracing of compound statements; ``ast.py`` shows their use.

Each follows the names that it binds and that may be read later (``rebind.py``); after ``end``,
``holds`` and ``value`` say what such a name holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.errors import TileRuntimeError, TileSyntaxError, TileValueError
from tilelang.frontend.frames import Frame, Loop
from tilelang.frontend.ir_builder import BRANCHES, LOOPS, Block, count, locate
from tilelang.frontend.rebind import Bindings, Follow, Wanted
from tilelang.ir.expr import Expr, const
from tilelang.ir.stmt import If, Stmt, ThreadReturn, While, holds

if TYPE_CHECKING:
    from types import TracebackType


class _Statement:
    """The names followed through one statement."""

    def __init__(self, scope: Bindings, control: str, followed: Wanted) -> None:
        self.builder = scope.builder
        self.follow = Follow(scope, control, followed)
        self.holds, self.value = self.follow.holds, self.follow.value


class IfStatement(_Statement):
    """An ``if`` statement while it is traced."""

    def __init__(self, scope: Bindings, cond: bool | Expr, followed: Wanted) -> None:
        super().__init__(scope, "if", followed)
        self.cond = cond
        self.loc = None if isinstance(cond, bool) else locate()
        self.done: list[Stmt] = []
        self.block: Block | None = None

    def _enter(self, kind: str, value: bool) -> bool:
        """Begin a side of the branch; whether to trace it."""
        if isinstance(self.cond, bool):
            return self.cond is value
        if self.block is not None:
            self._leave(self.block)
            self.follow.reset()
        self.block = self.builder.push(kind, self.loc)
        return True

    def _leave(self, block: Block) -> None:
        if not block.done:
            self.follow.ways.append(self.follow.snapshot())
        self.done.append(self.builder.pop(block))

    def then(self) -> bool:
        """Begin the body; whether to trace it."""
        return self._enter("then", True)

    def orelse(self) -> bool:
        """Begin the ``else`` side; whether to trace it."""
        return self._enter("else", False)

    def raising(self) -> None:
        """``raise``, which tracing would do whatever the condition is when the kernel runs."""
        if isinstance(self.cond, Expr):
            raise TileSyntaxError(
                "`raise` in a branch that is taken while the kernel runs",
                expected="a condition that is known while the kernel is traced",
                got=f"`{self.cond!r}`",
                hint="T.device_assert(condition, text) is checked when the kernel runs",
            )

    def end(self) -> None:
        """Emit the branch."""
        if self.block is not None and isinstance(self.cond, Expr):
            self._leave(self.block)
            orelse = self.done[1] if len(self.done) > 1 else None
            if orelse is None:
                self.follow.ways.append(self.follow.first)
            self.builder.emit(If(cond=self.cond, then=self.done[0], orelse=orelse, loc=self.loc))
        self.follow.merge_paths()


class _LoopStatement(_Statement):
    """A loop: where ``break`` and ``continue`` lead, and the end of the body."""

    def open(self, depth: int) -> None:
        """The blocks from ``depth`` on are this loop's: ``break`` and ``continue`` lead out."""
        self.opened = self.builder.blocks[depth:]
        self.counted = any(block.kind in LOOPS for block in self.opened)
        if self.counted:
            self.builder.loops.append(self)

    def leave(self) -> None:
        """``break``: the names go on to the statement after the loop."""
        self.follow.ways.append(self.follow.snapshot())

    def next_iteration(self) -> None:
        """``continue``: the names go on to the next iteration."""
        self.follow.back.append(self.follow.snapshot())

    def ended(self, block: Block, runs: int | None) -> None:
        """The end of the body; ``runs`` iterations are known to be made, if that is known."""
        if self.counted:
            self.builder.loops.pop()
        follow = self.follow
        if not block.done:
            follow.back.append(follow.snapshot())
        if runs != 0 and runs != 1:
            follow.check_reread(self.opened)
        follow.ways += follow.back
        if runs is None:
            follow.ways.append(follow.first)
        elif runs == 0:
            follow.ways = [follow.first]
        follow.merge_paths()


class WhileStatement(_LoopStatement):
    """A ``while`` statement while it is traced."""

    def __init__(self, scope: Bindings, followed: Wanted) -> None:
        super().__init__(scope, "loop", followed)
        self.counted = False
        self.cond: bool | Expr = False
        self.loc = locate()
        self.block: Block | None = None

    def begin(self) -> bool:
        """Begin the body; whether to trace it."""
        if isinstance(self.cond, bool):
            return False
        self.block = self.builder.push("while", self.loc)
        self.open(-1)
        return True

    def end(self) -> None:
        """Emit the loop."""
        if self.block is not None and isinstance(self.cond, Expr):
            body = self.builder.pop(self.block)
            if self.cond is const(True) and not (self.follow.ways or holds(body, ThreadReturn)):
                raise TileRuntimeError(
                    "the condition of `while` is always true: an infinite loop",
                    expected="a device expression that the body changes, or a `break`",
                    hint="use a T.alloc_var in the condition, or T.serial(n) with `break`",
                )
            self.ended(self.block, None)
            self.builder.emit(While(cond=self.cond, body=body, loc=self.loc))
        else:
            self.follow.merge_paths()


class ForStatement(_LoopStatement):
    """A ``for`` statement while it is traced; ``values`` are its index values."""

    def __init__(
        self, scope: Bindings, loop: Loop, names: tuple[str, ...], single: bool, followed: Wanted
    ) -> None:
        super().__init__(scope, "loop", followed)
        self.loop = loop
        depth = len(self.builder.blocks)
        values = loop.open(self.builder, names)
        self.block = self.builder.blocks[-1]
        if self.block.kind == "parallel":
            self.follow.control = "parallel"
        if not single or len(values) == 1:
            if len(values) != len(names):
                raise TileValueError(
                    f"{count(len(names), 'loop name')} for {count(len(values), 'index')}",
                    expected=count(len(values), "name"),
                    got=", ".join(names),
                )
            self.values = values
        else:
            raise TileValueError(
                f"one loop name for {count(len(values), 'index')}",
                expected=count(len(values), "name"),
                got=names[0],
                hint=f"write `for {', '.join('ijklmnop'[: len(values)])} in ...`; each argument "
                "is the extent of a loop from 0",
            )
        self.open(depth)

    def end(self) -> None:
        """Close the loop."""
        self.loop.close(self.builder)
        self.ended(self.block, self.loop.runs())


class WithStatement(_Statement):
    """A ``with`` statement: a frame that knows the names of its targets, or Python's own."""

    def __init__(
        self, scope: Bindings, context: Any, names: tuple[str, ...], followed: Wanted
    ) -> None:
        super().__init__(scope, "if", followed)
        self.context, self.names = context, names
        self.inside: Block | None = None

    def __enter__(self) -> object:
        if not isinstance(self.context, Frame):
            return self.context.__enter__()
        depth = len(self.builder.blocks)
        value = self.context.open(self.builder, self.names)
        opened = self.builder.blocks[depth:]
        self.inside = next((block for block in opened if block.kind in BRANCHES | LOOPS), None)
        return value

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Any:
        if not isinstance(self.context, Frame):
            return self.context.__exit__(kind, error, traceback)
        if kind is None:
            self.context.close(self.builder)
            if self.inside is not None:
                if not self.inside.done:
                    self.follow.ways.append(self.follow.snapshot())
                if self.inside.kind in LOOPS:
                    self.follow.back = list(self.follow.ways)
                    self.follow.check_reread([self.inside])
                self.follow.ways.append(self.follow.first)
            self.follow.merge_paths()
        return None
