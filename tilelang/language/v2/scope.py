"""What rewritten code calls while it runs: one ``Scope`` per activation of a kernel or macro.

``ast.py`` shows the translation. The rules, in short: a name that holds an ``alloc_var`` (or a
``T.Ref`` parameter) is stored to by assignment; other device expressions become values fixed at
the assignment; Python values stay Python values. Conditions known at trace time take one side,
others become branches of the kernel.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tilelang.errors import (
    TileNameError,
    TileRuntimeError,
    TileSyntaxError,
    TileTypeError,
    TileUnsupportedError,
    TileValueError,
)
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Const, Expr, Load, as_expr, binary, const, select, unary
from tilelang.ir.stmt import Assert, Break, Continue, Fill, If, Stmt, While
from tilelang.language.v2.builder import (
    BRANCHES,
    LOOPS,
    Block,
    Builder,
    count,
    describe,
    is_pure,
    locate,
    warn,
)
from tilelang.language.v2.frames import Frame, Loop

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Scope"]

_IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, f"i{name.rstrip('_')}")
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
        *("lshift", "rshift", "and_", "or_", "xor"),
    )
}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "is_": operator.is_,
    "is_not": operator.is_not,
    "in": lambda a, b: a in b,
    "not_in": lambda a, b: a not in b,
}
_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "matmul": "@",
}  # fmt: skip


def truth(value: object, what: str) -> bool | Expr:
    """A condition: a Python bool when it is known at trace time, else a bool expression."""
    if isinstance(value, Buffer) and value.is_var:
        value = as_expr(value)
    if isinstance(value, Region):
        raise TileTypeError(
            f"the slice `{value!r}` is used as {what}",
            expected="a scalar expression",
            hint="compare an element, or use T.any_of / T.all_of",
        )
    if not isinstance(value, Expr) or isinstance(value, Const):
        return bool(value)
    if value.dtype.is_bool:
        return value
    if value.dtype.is_integer:
        return binary("ne", value, const(0, value.dtype))
    raise TileTypeError(
        f"{what} has dtype {value.dtype}",
        expected="a bool or an integer",
        got=f"`{value!r}`",
        hint="compare it, e.g. `x != 0`",
    )


class _If:
    """An ``if`` statement while it is traced."""

    def __init__(self, builder: Builder, cond: bool | Expr) -> None:
        self.builder = builder
        self.cond = cond
        self.loc = None if isinstance(cond, bool) else locate()
        self.done: list[Stmt] = []
        self.block: Block | None = None

    def _enter(self, kind: str, wanted: bool) -> bool:
        if isinstance(self.cond, bool):
            return self.cond is wanted
        if self.block is not None:
            self.done.append(self.builder.pop(self.block))
        self.block = self.builder.push(kind, self.loc)
        return True

    def then(self) -> bool:
        """Whether to trace the body."""
        return self._enter("then", True)

    def orelse(self) -> bool:
        """Whether to trace the ``else`` side."""
        return self._enter("else", False)

    def end(self) -> None:
        """Emit the branch."""
        if self.block is None or isinstance(self.cond, bool):
            return
        self.done.append(self.builder.pop(self.block))
        orelse = self.done[1] if len(self.done) > 1 else None
        self.builder.emit(If(cond=self.cond, then=self.done[0], orelse=orelse, loc=self.loc))


class _While:
    """A ``while`` statement while it is traced."""

    def __init__(self, builder: Builder, cond: bool | Expr) -> None:
        self.builder = builder
        self.cond = cond
        self.loc = locate()
        self.block: Block | None = None

    def begin(self) -> bool:
        """Whether to trace the body."""
        if isinstance(self.cond, bool):
            return False
        self.block = self.builder.push("while", self.loc)
        return True

    def end(self) -> None:
        """Emit the loop."""
        if self.block is not None and isinstance(self.cond, Expr):
            body = self.builder.pop(self.block)
            self.builder.emit(While(cond=self.cond, body=body, loc=self.loc))


class _For:
    """A ``for`` statement while it is traced; ``values`` are its index values."""

    def __init__(self, builder: Builder, loop: Loop, names: tuple[str, ...], single: bool) -> None:
        self.builder = builder
        self.loop = loop
        values = loop.open(builder, names)
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
                hint=f"write `for {', '.join('ijklmnop'[: len(values)])} in ...`",
            )

    def end(self) -> None:
        """Close the loop."""
        self.loop.close(self.builder)


class _Entered:
    """A ``with`` frame that knows the names of its targets."""

    def __init__(self, builder: Builder, frame: Frame, names: tuple[str, ...]) -> None:
        self.builder, self.frame, self.names = builder, frame, names

    def __enter__(self) -> object:
        return self.frame.open(self.builder, self.names)

    def __exit__(
        self, kind: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        if kind is None:
            self.frame.close(self.builder)


class Scope:
    """One activation of a rewritten function."""

    def __init__(
        self, builder: Builder, name: str, values: Mapping[str, object], refs: frozenset[str]
    ) -> None:
        self.builder = builder
        self.name = name
        self.base = len(builder.blocks)
        here = builder.blocks[-1]
        self.held: dict[str, tuple[object, Block]] = {
            key: (value, here) for key, value in values.items()
        }
        self.refs = refs

    # -- names --------------------------------------------------------------------------------
    def _storable(self, name: str) -> Buffer | Load | Region | None:
        """What an assignment to ``name`` stores into, if it stores."""
        value = self.held.get(name, (None, None))[0]
        if name in self.refs and isinstance(value, (Load, Region)):
            return value
        if isinstance(value, Buffer) and value.is_var and self.builder.ended(value) is None:
            return value
        return None

    def _store_name(self, target: Buffer | Load | Region, value: object) -> None:
        if isinstance(target, Region):
            filled = as_expr(value, target.dtype)
            self.builder.emit(Fill(dst=target, value=filled))
        elif isinstance(target, Load):
            self.builder.store_at(target.buffer, target.indices, value)
        else:
            self.builder.store_at(target, (const(0),), value)

    def _hold(self, name: str, value: object) -> object:
        self.held[name] = (value, self.builder.blocks[-1])
        return value

    def bind(self, name: str, value: object) -> object:
        """Rebind ``name`` without storing (loop indices)."""
        return self._hold(name, value)

    def use(self, name: str, value: object) -> object:
        """A read of ``name`` that may come after its block has ended."""
        ended = self.builder.ended(value)
        if ended is not None:
            raise TileNameError(
                f"`{name}` is used outside its defining region",
                expected="a value defined in this block or one around it",
                hint=f"to carry a value out of a loop or branch, declare `{name} = "
                "T.alloc_var(dtype)` before it and assign to it inside",
            )
        return value

    def assign(
        self, name: str, value: object, by_reference: bool, mentions: bool = False
    ) -> object:
        """``name = value``: a store into an ``alloc_var``, or a new binding."""
        if isinstance(value, Buffer) and value.is_var and not by_reference:
            value = as_expr(value)  # `w = v` copies the value of the variable
        target = self._storable(name)
        if target is not None and isinstance(value, (bool, int, float, Expr)):
            self._store_name(target, value)
            return target
        if isinstance(value, Frame) and (bound := value.bind(self.builder, name)) is not None:
            value = bound
        if isinstance(value, Frame):
            raise TileSyntaxError(
                f"the frame {value.what} is assigned to `{name}`",
                hint=f"write `with {value.what}(...) as {name}:`"
                if not isinstance(value, Loop)
                else f"write `for {name} in {value.what}(...):`",
            )
        self._check_update(name, value, mentions)
        return self._hold(name, self.builder.bind(name, value))

    def _check_update(self, name: str, value: object, mentions: bool) -> None:
        """Refuse ``x = f(x)`` in a loop on an immutable value from outside of it."""
        known = self.held.get(name)
        if not mentions or known is None or not isinstance(known[0], (bool, int, float, Expr)):
            return
        blocks = self.builder.blocks
        depth = next((i for i, block in enumerate(blocks) if block is known[1]), len(blocks))
        if not any(block.kind in LOOPS for block in blocks[depth + 1 :]):
            return
        if isinstance(value, Expr) or isinstance(known[0], Expr):
            raise TileNameError(
                f"the immutable value `{name}` is updated in a loop",
                expected="a variable made by T.alloc_var",
                got=f"`{name}` bound outside the loop"
                + ("" if isinstance(known[0], Expr) else f" to {known[0]!r}"),
                hint=f"declare `{name} = T.alloc_var(dtype, init)` before the loop",
            )
        warn(
            f"the Python number `{name}` is updated once, while the loop is traced, not in every "
            f"iteration; use `{name} = T.alloc_var(dtype, init)` for a device variable",
            locate(),
        )

    def assign_outer(
        self, name: str, value: object, by_reference: bool, current: Callable[[], object]
    ) -> object:
        """``name = value`` for a ``nonlocal`` name, whose value may change elsewhere."""
        try:
            self.held[name] = (current(), self.builder.blocks[0])
        except NameError:  # the enclosing function has not bound it yet
            self.held.pop(name, None)
        return self.assign(name, value, by_reference)

    def commit(self, name: str, value: object) -> object:
        """Second phase of a tuple assignment: ``value`` is already fixed."""
        target = self._storable(name)
        if target is not None and isinstance(value, (bool, int, float, Expr)):
            self._store_name(target, value)
            return target
        return self._hold(name, value)

    def snapshot(self, value: object, hint: str) -> object:
        """The right side of ``a = b = value``, evaluated once."""
        target = self._storable(hint)
        return self.builder.snapshot(value, "_tmp" if target is not None else hint)

    def unpack(
        self,
        value: object,
        shape: tuple[Any, ...],
        plain: tuple[bool, ...],
        mentioned: tuple[str, ...],
    ) -> list[object]:
        """First phase of a tuple assignment: the values of all targets, left to right."""
        if plain and isinstance(value, (tuple, list)):
            value = [
                as_expr(item) if bare and isinstance(item, Buffer) and item.is_var else item
                for item, bare in zip(value, plain, strict=True)
            ]
        out: list[object] = []
        for name, item in list(_match(value, shape)):
            if name and self._storable(name) is None:
                self._check_update(name, item, name in mentioned)
                out.append(self.builder.bind(name, item))
            else:
                out.append(self.builder.snapshot(item) if isinstance(item, Expr) else item)
        return out

    def aug_name(self, name: str, op: str, current: object, value: object) -> object:
        """``name op= value``."""
        target = self._storable(name)
        if target is not None and not isinstance(target, Region):
            operand = as_expr(target)
            self._store_name(target, _apply(op, operand, value))
            return target
        if isinstance(current, (Buffer, Region)) and not (
            isinstance(current, Buffer) and current.is_var
        ):
            raise TileTypeError(
                f"`{_SYMBOLS[op]}=` on the whole buffer `{name}`",
                expected="an element or a T.alloc_var",
                hint=f"write `for i in T.Parallel(n): {name}[i] {_SYMBOLS[op]}= ...`",
            )
        return self.assign(name, _apply(op, current, value), True, True)

    def annotate(self, name: str, annotation: Callable[[], object], current: object) -> object:
        """``name: annotation`` for a parameter of an eager kernel."""
        return self._hold(name, self.builder.hooks.annotate(name, annotation, current))

    # -- items and attributes -----------------------------------------------------------------
    @staticmethod
    def slice(start: object, stop: object, step: object) -> slice:
        """``start:stop:step`` in a subscript."""
        return builtins.slice(start, stop, step)

    def store_item(self, value: object, base: Any, key: object) -> None:
        """``base[key] = value``."""
        if isinstance(base, Buffer):
            self.builder.store(base, key, value)
        elif isinstance(base, (Expr, Region)):
            raise _not_indexable(base)
        else:
            base[key] = value

    def aug_item(self, base: Any, key: object, op: str, value: object) -> None:
        """``base[key] op= value``; base and key are evaluated once."""
        if isinstance(base, (Expr, Region)):
            raise _not_indexable(base)
        if isinstance(base, Buffer):
            place = base[key]
            if isinstance(place, Load):
                value = _apply(op, place, value)
            self.builder.store(base, key, value)
        else:
            base[key] = _apply(op, base[key], value)

    def store_attr(self, value: object, owner: object, name: str) -> None:
        """``owner.name = value`` in a class that keeps state."""
        held = getattr(owner, name, None)
        if isinstance(held, Buffer) and held.is_var and isinstance(value, (int, float, Expr)):
            self._store_name(held, value)
        else:
            setattr(owner, name, self.builder.bind(name, value))

    def aug_attr(self, owner: object, name: str, op: str, value: object) -> None:
        """``owner.name op= value`` in a class that keeps state."""
        self.store_attr(_apply(op, getattr(owner, name), value), owner, name)

    # -- expressions --------------------------------------------------------------------------
    def select(self, cond: object, t: Callable[[], Any], f: Callable[[], Any]) -> Any:
        """``t if cond else f``; on the device the side not taken is not evaluated."""
        test = truth(cond, "the condition of `a if c else b`")
        if isinstance(test, bool):
            return t() if test else f()
        with self.builder.pure("an arm of `a if c else b`"):
            return select(test, t(), f())

    def and_(self, first: Any, *rest: Callable[[], Any]) -> Any:
        """``a and b and ...``: Python's for Python values, short-circuit on the device."""
        return self._logic("and", first, rest)

    def or_(self, first: Any, *rest: Callable[[], Any]) -> Any:
        """``a or b or ...``."""
        return self._logic("or", first, rest)

    def _logic(self, word: str, value: Any, rest: tuple[Callable[[], Any], ...]) -> Any:
        device: Expr | None = None
        for thunk in (None, *rest):
            if thunk is not None and device is not None:
                with self.builder.pure(f"an operand of `{word}`"):
                    value = thunk()
            elif thunk is not None:
                value = thunk()
            test = _operand(value, word)
            if isinstance(test, bool):
                if test is (word == "or"):  # decides the result
                    return value if device is None else test
            else:
                device = test if device is None else binary("l" + word, device, test)
        return value if device is None else device

    def not_(self, value: Any) -> Any:
        """``not value``."""
        test = _operand(value, "not")
        return not test if isinstance(test, bool) else unary("lnot", test)

    def compare(self, left: Any, *rest: Any) -> Any:
        """``a < b <= c``: each operand once, joined by a short-circuit ``and``."""
        result: Any = True
        for op, thunk in zip(rest[::2], rest[1::2]):
            if isinstance(result, Expr) and not isinstance(result, Const):
                with self.builder.pure("a chained comparison"):
                    right = thunk()
                result = binary("land", result, _COMPARE[op](left, right))
            elif not result:
                return result
            else:
                right = thunk()
                result = _COMPARE[op](left, right)
            left = right
        return result

    def expr(self, value: object) -> None:
        """An expression statement."""
        if isinstance(value, Frame):
            if value.stand_alone(self.builder):
                return
            raise TileSyntaxError(
                f"{value.what}(...) is not used",
                hint=f"write `for ... in {value.what}(...):`"
                if isinstance(value, Loop)
                else f"write `with {value.what}(...):`",
            )
        self.builder.eval(value)

    # -- control flow -------------------------------------------------------------------------
    def if_(self, cond: object) -> _If:
        """``if cond:``"""
        return _If(self.builder, truth(cond, "the condition of `if`"))

    def while_(self, cond: Callable[[], object]) -> _While:
        """``while cond:``"""
        with self.builder.pure("the condition of `while`"):
            test = truth(cond(), "the condition of `while`")
        if test is False:
            warn("the condition of `while` is always false; the loop is dropped", locate())
        elif test is True:
            raise TileRuntimeError(
                "the condition of `while` is always true: an infinite loop",
                expected="a device expression that the body changes",
                hint="use a T.alloc_var in the condition, or T.serial(n) with `break`",
            )
        elif isinstance(test, Expr) and is_pure(test):
            raise TileRuntimeError(
                "the condition of `while` never changes: an infinite loop",
                expected="a condition that reads a T.alloc_var or a buffer",
                got=f"`{test!r}`, which is fixed before the loop",
                hint="use a T.alloc_var in the condition",
            )
        return _While(self.builder, test)

    def range(self, function: Any, *args: Any) -> Any:
        """``range(...)`` as the source of a loop; a function of that name is just called."""
        if function is not range:
            return function(*args)
        from tilelang.language.loop import loop_over_range

        return loop_over_range(*args)

    def for_(self, source: object, names: tuple[str, ...], single: bool) -> _For:
        """``for names in source:``"""
        if isinstance(source, range):
            source = self.range(range, source.start, source.stop, source.step)
        if not isinstance(source, Loop):
            raise TileTypeError(
                f"a kernel cannot loop over a value of type {type(source).__name__}",
                expected="range(...), T.serial, T.Parallel, T.Pipelined, T.unroll, T.vectorized, "
                "T.grid or T.Persistent",
                got=describe(source),
                hint="for a loop at trace time use a list comprehension, or a macro that calls "
                "itself; for a device loop index the sequence with T.serial(n)",
            )
        return _For(self.builder, source, names, single)

    def with_(self, context: Any, names: tuple[str, ...]) -> Any:
        """``with context as names:``"""
        if isinstance(context, Frame):
            return _Entered(self.builder, context, names)
        if not hasattr(context, "__enter__"):
            raise TileTypeError(
                f"`with` on a value of type {type(context).__name__}",
                expected="T.Kernel(...), T.ws(...), T.If(...), T.attr(...) or a context manager",
                got=describe(context),
            )
        return context

    def _innermost_loop(self, word: str) -> Block:
        for block in reversed(self.builder.blocks[self.base :]):
            if block.kind in LOOPS:
                return block
        raise TileSyntaxError(f"`{word}` outside a loop")

    def break_(self) -> None:
        """``break``"""
        if self._innermost_loop("break").kind == "parallel":
            raise TileSyntaxError(
                "`break` in a T.Parallel loop",
                expected="`break` in T.serial, T.unroll, range or while",
                hint="iterations of T.Parallel have no order; guard the body with `if`",
            )
        self.builder.emit(Break())
        self.builder.blocks[-1].done = "break"

    def continue_(self) -> None:
        """``continue``"""
        self._innermost_loop("continue")
        self.builder.emit(Continue())
        self.builder.blocks[-1].done = "continue"

    def assert_(self, cond: object, message: Callable[[], object]) -> None:
        """``assert cond, message``"""
        test = truth(cond, "the condition of `assert`")
        if test is True:
            return
        text = message()
        if test is False:
            raise AssertionError(*([] if text is None else [text]))
        said = f"{test!r}" if text is None else str(text)
        self.builder.emit(Assert(cond=test, message=said))

    def return_(self, value: object) -> object:
        """``return value``"""
        for block in self.builder.blocks[self.base :]:
            if block.kind in LOOPS | BRANCHES:
                raise TileUnsupportedError(
                    f"`return` of `{self.name}` inside control flow",
                    expected="`return` as the last statement",
                    hint="assign the result to a T.alloc_var or a buffer and return at the end; "
                    "to stop a thread early use T.thread_return()",
                )
        if self.builder.macro_depth == 0:
            self.builder.return_loc = locate()
        return value


def _match(value: Any, shape: tuple[Any, ...]) -> Iterator[tuple[str, object]]:
    """Pairs (target name, value) of unpacking ``value`` into nested targets."""
    if isinstance(value, Expr) and len(shape) == 1:
        items: list[Any] = [value]  # `with T.Kernel(n) as (bx,)`
    else:
        try:
            items = list(value)
        except TypeError:
            if isinstance(value, Buffer):
                raise  # says how to loop over it
            raise TileTypeError(
                f"a value of type {type(value).__name__} cannot be unpacked",
                expected=count(len(shape), "value"),
                got=describe(value),
            ) from None
    star = [i for i, part in enumerate(shape) if isinstance(part, str) and part.startswith("*")]
    if star:
        after = len(shape) - star[0] - 1
        if len(items) >= len(shape) - 1:
            stop = len(items) - after
            items = [*items[: star[0]], items[star[0] : stop], *items[stop:]]
    if len(items) != len(shape):
        raise TileValueError(
            f"{count(len(items), 'value')} for {count(len(shape), 'name')}",
            expected=count(len(shape), "value") if not star else f"at least {len(shape) - 1}",
            got=f"{len(items)}",
        )
    for part, item in zip(shape, items, strict=True):
        if isinstance(part, tuple):
            yield from _match(item, part)
        else:
            yield part.lstrip("*"), item


def _apply(op: str, a: Any, b: Any) -> Any:
    if isinstance(a, (Buffer, Region)) or isinstance(b, (Buffer, Region)):
        a, b = as_expr(a), as_expr(b)
    return _IN_PLACE[op](a, b)


def _operand(value: Any, word: str) -> bool | Expr:
    """An operand of ``and``/``or``/``not``: device values must be bools."""
    if isinstance(value, Buffer) and value.is_var:
        value = as_expr(value)
    if isinstance(value, Expr) and not isinstance(value, Const) and not value.dtype.is_bool:
        raise TileTypeError(
            f"an operand of `{word}` has dtype {value.dtype}",
            expected="a bool",
            got=f"`{value!r}`",
            hint="compare it, e.g. `x != 0`; for bits use `&`, `|`, `~`",
        )
    return truth(value, f"an operand of `{word}`")


def _not_indexable(base: Expr | Region) -> TileTypeError:
    if isinstance(base, Region):
        return TileTypeError(
            f"the slice `{base!r}` is indexed",
            expected="a buffer",
            hint=f"index the buffer `{base.buffer.name}` itself",
        )
    return TileTypeError(
        f"the scalar value `{base!r}` is indexed",
        expected="a buffer",
        got=f"a value of dtype {base.dtype}",
        hint="to change a value later, make it a T.alloc_var",
    )
