"""Scopes of tracing: what rewritten code calls, one ``Scope`` per activation of a kernel or macro.

``ast.py`` shows the translation. The rules, in short: a name that holds an ``alloc_var`` (or a
``T.Ref`` parameter) is stored to by assignment; other device expressions become values fixed at
the assignment; Python values stay Python values. Conditions known at trace time take one side,
others become branches of the kernel.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from tilelang import errors
from tilelang.frontend.frames import Frame, Loop
from tilelang.frontend.ir_builder import (
    BRANCHES,
    LOOPS,
    Block,
    Builder,
    count,
    describe,
    has_effect,
    is_pure,
    is_same_value,
    locate,
    warn,
)
from tilelang.frontend.rebind import Binding, Follow, Undecided, Wanted
from tilelang.frontend.regions import stored
from tilelang.frontend.statements import ForStatement, IfStatement, WhileStatement, WithStatement
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Const, Expr, Load, as_expr, binary, const, select, unary
from tilelang.ir.stmt import Assert, Break, Continue, Fill, ThreadReturn

if TYPE_CHECKING:
    from tilelang.frontend.returns import Results

_CONTROL = LOOPS | BRANCHES

_IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, f"i{name.rstrip('_')}")
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
        *("lshift", "rshift", "and_", "or_", "xor"),
    )
}
_FOLLOWED: Wanted = ((), (), (), ())
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "is_": operator.is_,
    "is_not": operator.is_not,
    "in": lambda a, b: _contained(a, b),
    "not_in": lambda a, b: _negated(_contained(a, b)),
}
_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "matmul": "@",
}  # fmt: skip


def _contained(value: Any, container: Any) -> Any:
    """``value in items``: of a value of the kernel in a sequence, that it equals an item."""
    if isinstance(value, Buffer) and value.is_var:
        value = as_expr(value)
    if isinstance(container, (Buffer, Region)):
        iter(container)  # raises: says how to loop over it, which `in` would not pass on
    if isinstance(value, (Buffer, Region)) and isinstance(container, (tuple, list, range)):
        for entry in container:
            if isinstance(entry, (int, float, Expr)):
                from tilelang.ir.arrays import refuse

                refuse(value, entry, "==")
    if not isinstance(value, Expr) or isinstance(value, Const):
        return value in container
    if isinstance(container, range) and container.step == 1:
        return binary("land", value >= container.start, value < container.stop)
    if isinstance(container, str):
        raise errors.TileTypeError(
            f"`{value!r}` is looked for in a string",
            expected="a sequence, set or dict of numbers",
            got=f"the string {container!r}",
        )
    known = isinstance(container, (tuple, list, range, Mapping, Set))
    if not known or any(entry is value for entry in container):
        return value in container
    contained: Any = False
    for entry in container:
        contained = (
            (value == entry) if contained is False else binary("lor", contained, value == entry)
        )
    return contained


def _refuse_device_key(key: object, kind: str, method: str) -> None:
    if isinstance(key, Buffer) and key.is_var:
        key = as_expr(key)
    if isinstance(key, Expr) and not isinstance(key, Const):
        raise errors.TileTypeError(
            f"a value of the device is looked up in a {kind} by `{method}`",
            expected="a key that is known while the kernel is traced",
            got=f"`{key!r}`",
            hint="write `x in (...)`, T.if_then_else, or put the table into a tensor",
        )


def _negated(value: Any) -> Any:
    return unary("lnot", value) if isinstance(value, Expr) else not value


def truth(value: object, role: str) -> bool | Expr:
    """A condition: a Python bool when it is known at trace time, else a bool expression."""
    if isinstance(value, Buffer) and value.is_var:
        value = as_expr(value)
    if isinstance(value, Region):
        raise errors.TileTypeError(
            f"the slice `{value!r}` is used as {role}",
            expected="a scalar expression",
            hint="compare an element, or use T.any_of / T.all_of",
        )
    if not isinstance(value, Expr) or isinstance(value, Const):
        return bool(value)
    if value.dtype.is_bool:
        return value
    if value.dtype.is_integer:
        return binary("ne", value, const(0, value.dtype))
    raise errors.TileTypeError(
        f"{role} has dtype {value.dtype}",
        expected="a bool or an integer",
        got=f"`{value!r}`",
        hint="compare it, e.g. `x != 0`",
    )


def _one_truth(value: object, role: str) -> bool | Expr:
    """The condition of a statement, which is the same for all lanes of a vector."""
    test = truth(value, role)
    if isinstance(test, Expr) and test.dtype.lanes > 1:
        raise errors.TileTypeError(
            f"{role} is a vector",
            expected="a scalar expression",
            got=f"`{test!r}` of dtype {test.dtype}",
            hint="compare one element, or choose lane by lane with T.if_then_else",
        )
    return test


class Scope:
    """One activation of a rewritten function."""

    def __init__(
        self, builder: Builder, name: str, values: Mapping[str, object], refs: frozenset[str]
    ) -> None:
        self.builder = builder
        self.name = name
        self.base = len(builder.blocks)
        block = builder.blocks[-1]
        self.bindings: dict[str, Binding] = {
            key: Binding(value, block) for key, value in values.items()
        }
        self.refs = refs
        self.results: Results | None = None
        self.following: dict[str, list[Follow]] = {}  # innermost statement last

    # -- names --------------------------------------------------------------------------------
    def _storable(self, name: str) -> Buffer | Load | Region | None:
        """The target of an assignment to ``name``, if it is a store."""
        binding = self.bindings.get(name)
        value = None if binding is None else binding.value
        if name in self.refs and isinstance(value, (Load, Region)):
            return value
        if isinstance(value, Buffer) and value.is_var and self.builder.ended(value) is None:
            return value
        return None

    def _store_name(self, target: Buffer | Load | Region, value: object) -> None:
        if isinstance(target, Region):
            self.builder.emit(Fill(dst=target, value=stored(value, target.dtype)))
        elif isinstance(target, Load):
            self.builder.store_at(target.buffer, target.indices, value)
        else:
            self.builder.store_at(target, (const(0),), value)

    def _keep_reference(self, name: str, value: object) -> object:
        loc = locate() if self.following.get(name) else None
        self.bindings[name] = Binding(value, self.builder.scope(), loc)
        return value

    def bind(self, name: str, value: object) -> object:
        """Rebind ``name`` without storing (loop indices, functions)."""
        return self._keep_reference(name, value)

    def use(self, name: str, value: object) -> object:
        """A read of ``name`` that needs a look: one bound in several blocks, or out of its own."""
        if isinstance(value, Undecided):
            raise value.error()
        for follow in self.following.get(name, ()):
            follow.saw(name, value)
        if self.builder.ended(value) is not None:
            hint = f"declare `{name} = T.alloc_var(dtype)` before it and assign to it inside"
            if isinstance(value, Buffer) and not value.is_var:
                hint = f"allocate `{name}` before it"
            raise errors.TileNameError(
                f"`{name}` is used outside its defining region",
                expected="a value defined in this block or one around it",
                hint=f"to carry a value out of a loop or branch, {hint}",
            )
        return value

    def assign(self, name: str, value: object, by_reference: bool) -> object:
        """``name = value``: a store into an ``alloc_var``, or a new binding."""
        target = self._storable(name)
        if isinstance(value, Buffer) and value.is_var:
            if not by_reference or (target is not None and _is_bound(value, target)):
                value = as_expr(value)  # `w = v` copies the value of the variable
        if target is not None and isinstance(value, (bool, int, float, Expr)):
            self._store_name(target, value)
            return target
        if isinstance(value, Frame) and (bound := value.bind(self.builder, name)) is not None:
            value = bound
        if isinstance(value, Frame):
            raise errors.TileSyntaxError(
                f"the frame {value.op_name} is assigned to `{name}`",
                hint=f"write `with {value.op_name}(...) as {name}:`"
                if not isinstance(value, Loop)
                else f"write `for {name} in {value.op_name}(...):`",
            )
        if isinstance(value, Buffer) and value.name:
            self._check_parameter(name, value)
        return self._keep_reference(name, self.builder.bind(name, value))

    def _check_parameter(self, name: str, value: Buffer) -> None:
        """Warn where a tensor parameter is given the name of something else: nothing is copied."""
        binding = self.bindings.get(name)
        old = None if binding is None else binding.value
        declared = any(old is param and param.name == name for param in self.builder.params)
        if declared and old is not value:
            warn(
                f"`{name} = {value.name}` copies nothing: from here on `{name}` is another name of "
                f"`{value.name}`; T.copy({value.name}, {name}) copies",
                locate(),
            )

    def assign_outer(
        self, name: str, value: object, by_reference: bool, current: Callable[[], object]
    ) -> object:
        """``name = value`` for a ``nonlocal`` name, whose value may change elsewhere.

        Other functions share the name, so its value on the paths of this one is not known.
        """
        try:
            old = current()
        except NameError:  # the enclosing function has not bound it yet
            self.bindings.pop(name, None)
            return self.assign(name, value, by_reference)
        self.bindings[name] = Binding(old, self.builder.blocks[0])
        result = self.assign(name, value, by_reference)
        inside = any(block.kind in LOOPS | BRANCHES for block in self.builder.blocks)
        if inside and not is_same_value(result, old):
            raise errors.TileNameError(
                f"the nonlocal name `{name}` is bound again in a branch or loop",
                expected="a variable made by T.alloc_var",
                got=f"`{name}` bound outside to {describe(old)}",
                hint=f"declare `{name} = T.alloc_var(dtype, init)` in the enclosing function",
            )
        return result

    def commit(self, name: str, value: object) -> object:
        """Second phase of a tuple assignment: ``value`` is already fixed."""
        target = self._storable(name)
        if target is not None and isinstance(value, (bool, int, float, Expr)):
            self._store_name(target, value)
            return target
        return self._keep_reference(name, value)

    def snapshot(self, value: object, hint: str) -> object:
        """The right side of ``a = b = value``, evaluated once."""
        return self.builder.snapshot(value, hint if self._storable(hint) is None else "_tmp")

    def unpack(
        self, value: object, shape: tuple[Any, ...], plain: tuple[bool, ...]
    ) -> list[object]:
        """First phase of a tuple assignment: the values of all targets, left to right."""
        if plain and isinstance(value, (tuple, list)):
            value = [
                as_expr(element)
                if bare and isinstance(element, Buffer) and element.is_var
                else element
                for element, bare in zip(value, plain, strict=True)
            ]
        out: list[object] = []
        for name, element in list(_match(value, shape)):
            target = self._storable(name) if name else None
            if name and target is None:
                out.append(self.builder.bind(name, element))
            elif isinstance(element, Expr) or (target is not None and _is_bound(element, target)):
                out.append(self.builder.snapshot(element))
            else:
                out.append(element)
        return out

    def aug_name(self, name: str, op: str, current: object, value: object) -> object:
        """``name op= value``."""
        target = self._storable(name)
        if target is not None and not isinstance(target, Region):
            self._store_name(target, _apply(op, as_expr(target), value))
            return target
        if isinstance(current, (Buffer, Region)) and not (
            isinstance(current, Buffer) and current.is_var
        ):
            raise errors.TileTypeError(
                f"`{_SYMBOLS[op]}=` on the whole buffer `{name}`",
                expected="an element or a T.alloc_var",
                hint=f"write `for i in T.Parallel(n): {name}[i] {_SYMBOLS[op]}= ...`",
            )
        return self.assign(name, _apply(op, current, value), True)

    def annotate(self, name: str, annotation: Callable[[], object], current: object) -> object:
        """``name: annotation`` for a parameter of an eager kernel."""
        return self._keep_reference(name, self.builder.hooks.annotate(name, annotation, current))

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
            self._set_item(base, key, value)

    def aug_item(self, base: Any, key: object, op: str, value: object) -> None:
        """``base[key] op= value``; base and key are evaluated once."""
        if isinstance(base, (Expr, Region)):
            raise _not_indexable(base)
        if isinstance(base, Buffer):
            target = base[key]
            if isinstance(target, Load):
                value = _apply(op, target, value)
            self.builder.store(base, key, value)
        else:
            self._set_item(base, key, _apply(op, base[key], value))

    def _set_item(self, base: Any, key: Any, value: object) -> None:
        """``base[key] = value`` of a Python container."""
        if isinstance(base, dict) or (isinstance(base, list) and isinstance(key, int)):
            old = base.get(key, value) if isinstance(base, dict) else base[key]
            changed = f"the item [{key!r}] of a {type(base).__name__}"
            self.builder.set_part(base, key, old, value, changed)
        base[key] = value

    def store_attr(self, value: object, owner: object, name: str) -> None:
        """``owner.name = value`` in a class that keeps state."""
        current = getattr(owner, name, None)
        if isinstance(current, Buffer) and current.is_var and isinstance(value, (int, float, Expr)):
            self._store_name(current, value)
        else:
            bound = self.builder.bind(name, value)
            old = bound if current is None else current
            self.builder.set_part(owner, name, old, bound, f"the attribute `{name}`")
            setattr(owner, name, bound)

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
            kept = test is (word == "or") and device is not None and has_effect(device)
            if isinstance(test, bool) and not kept:
                if test is (word == "or"):  # decides the result
                    return value if device is None else test
            else:
                device = as_expr(test) if device is None else binary("l" + word, device, test)
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
                if isinstance(right, Expr) and len(rest) > 2 and has_effect(right):
                    right = self.builder.let("middle", right)
                result = _COMPARE[op](left, right)
            left = right
        return result

    def expr(self, value: object) -> None:
        """An expression statement."""
        if isinstance(value, Frame):
            if value.emit_alone(self.builder):
                return
            raise errors.TileSyntaxError(
                f"{value.op_name}(...) is not used",
                hint=f"write `for ... in {value.op_name}(...):`"
                if isinstance(value, Loop)
                else f"write `with {value.op_name}(...):`",
            )
        self.builder.eval(value)
        for block in self.builder.control()[-1:]:
            if block.state is not None:
                block.state.check(locate())

    def keyed(self, method: Any, *args: Any, **options: Any) -> Any:
        """``owner.get(key, ...)`` and its like, which look a key up by its hash."""
        owner = getattr(method, "__self__", None)
        if args and isinstance(owner, (Mapping, Set)):
            _refuse_device_key(args[0], type(owner).__name__, method.__name__)
        return method(*args, **options)

    # -- control flow -------------------------------------------------------------------------
    def iterated(self, value: object) -> object:
        """The iterable of a comprehension: nothing that iterates when the kernel runs."""
        if isinstance(value, Loop):
            raise errors.TileTypeError(
                f"a comprehension over {value.op_name}, which is a loop of the kernel",
                expected="a sequence of Python, or range() of constants",
                got=f"{value.op_name}(...)",
                hint=f"write `for i in {value.op_name}(...):` and store each element in a tile",
            )
        return value

    def matched(self, value: object) -> object:
        """The subject of ``match``, known while the kernel is traced."""
        from tilelang.frontend.matches import matched

        return matched(value)

    def if_(self, cond: object, followed: Wanted = _FOLLOWED) -> IfStatement:
        """``if cond:``"""
        return IfStatement(self, _one_truth(cond, "the condition of `if`"), followed)

    def while_(self, cond: Callable[[], object], followed: Wanted = _FOLLOWED) -> WhileStatement:
        """``while cond:``"""
        statement = WhileStatement(self, followed)
        with self.builder.pure("the condition of `while`"):
            test = _one_truth(cond(), "the condition of `while`")
        if test is False:
            warn("the condition of `while` is always false; the loop is dropped", locate())
        elif isinstance(test, Expr) and is_pure(test):
            raise errors.TileRuntimeError(
                "the condition of `while` never changes: an infinite loop",
                expected="a condition that reads a T.alloc_var or a buffer",
                got=f"`{test!r}`, which is fixed before the loop",
                hint="use a T.alloc_var in the condition",
            )
        statement.cond = const(test) if test is True else test
        return statement

    def range(self, function: Any, *args: Any) -> Any:
        """``range(...)`` as the source of a loop; a function of that name is just called."""
        if function is not range:
            return function(*args)
        from tilelang.frontend.loop import loop_over_range

        return loop_over_range(*args)

    def rounds(self, function: Any, *sources: Any, **options: Any) -> Any:
        """The items of ``enumerate(...)`` or ``zip(...)``; another function is just called."""
        if function not in (enumerate, zip):
            return function(*sources, **options)
        rounds = (
            [] if any(isinstance(s, Loop) for s in sources) else [*function(*sources, **options)]
        )
        for source in (*sources, *_parts(rounds)):
            if isinstance(source, Loop) or self.builder.ended(source) is not None:
                raise errors.TileTypeError(
                    f"{function.__name__}() over a loop of the device",
                    expected="sequences of Python: lists, tuples, ranges of constants",
                    got=describe(source),
                    hint="a loop of the device has its index: `for i in T.serial(n)`, then `x[i]`",
                )
        return rounds

    def is_sequence(self, value: object) -> bool:
        """Whether a loop goes over values of Python: its body is traced for each."""
        return isinstance(value, Iterable) and not isinstance(value, (range, Loop, Buffer, Expr))

    def level(self) -> int:
        """The number of open branches and loops of the device."""
        return len(self.builder.control())

    def leave_round(self, word: str, level: int) -> None:
        """``break`` or ``continue`` of a loop over a sequence of Python."""
        if len(self.builder.control()) > level:
            raise errors.TileSyntaxError(
                f"`{word}` of a loop over a Python sequence, in a device branch",
                expected="a condition that is known while the kernel is traced",
                hint="the loop is unrolled while tracing; guard what follows with `if`",
            )

    def for_(
        self, source: object, names: tuple[str, ...], single: bool, followed: Wanted = _FOLLOWED
    ) -> ForStatement:
        """``for names in source:``"""
        if isinstance(source, range):
            source = self.range(range, source.start, source.stop, source.step)
        if not isinstance(source, Loop):
            raise errors.TileTypeError(
                f"a kernel cannot loop over a value of type {type(source).__name__}",
                expected="range(...), T.serial, T.Parallel, T.Pipelined, T.unroll, T.vectorized, "
                "T.grid or T.Persistent",
                got=describe(source),
                hint="`for x in list(values)` is unrolled while tracing; for a loop of the device "
                "use T.serial(n)",
            )
        return ForStatement(self, source, names, single, followed)

    def with_(
        self, context: Any, names: tuple[str, ...], followed: Wanted = _FOLLOWED
    ) -> WithStatement:
        """``with context as names:``"""
        if not isinstance(context, Frame) and not hasattr(context, "__enter__"):
            raise errors.TileTypeError(
                f"`with` on a value of type {type(context).__name__}",
                expected="T.Kernel(...), T.ws(...), T.If(...), T.attr(...) or a context manager",
                got=describe(context),
            )
        return WithStatement(self, context, names, followed)

    def _innermost_loop(self, word: str) -> Block:
        for block in reversed(self.builder.blocks[self.base :]):
            if block.kind in LOOPS:
                return block
        raise errors.TileSyntaxError(f"`{word}` outside a loop")

    def break_(self) -> None:
        """``break``"""
        if self._innermost_loop("break").kind == "parallel":
            raise errors.TileSyntaxError(
                "`break` in a T.Parallel loop",
                expected="`break` in T.serial, T.unroll, range or while",
                hint="iterations of T.Parallel have no order; guard the body with `if`",
            )
        if self.builder.loops:
            self.builder.loops[-1].leave()
        self.builder.emit(Break())
        self.builder.blocks[-1].done = "break"

    def printed(self, function: Callable[..., object], *args: object, **options: object) -> object:
        """A call of something called ``print``."""
        if function is builtins.print:
            for value in args:
                self.formatted(value)
        return function(*args, **options)

    def formatted(self, value: object) -> object:
        """The value that ``print`` shows, alone or in an f-string."""
        if isinstance(value, (Expr, Buffer, Region)) and not isinstance(value, Const):
            warn(
                f"print() shows the text of {describe(value)} once, while the kernel is "
                "traced; T.print(...) prints values when the kernel runs",
                locate(),
            )
        return value

    def continue_(self) -> None:
        """``continue``"""
        self._innermost_loop("continue")
        if self.builder.loops:
            self.builder.loops[-1].next_iteration()
        self.builder.emit(Continue())
        self.builder.blocks[-1].done = "continue"

    def assert_(self, cond: object, message: Callable[[], object]) -> None:
        """``assert cond, message``"""
        test = _one_truth(cond, "the condition of `assert`")
        if test is True:
            return
        text = message()
        if test is False:
            raise AssertionError(*([] if text is None else [text]))
        self.builder.emit(Assert(cond=test, message=f"{test!r}" if text is None else str(text)))

    def returns(self, value: object) -> bool:
        """``return value`` inside a compound statement: whether tracing ends here, too.

        In a branch that is taken while the kernel runs the other ways are still to be traced.
        """
        inside = [block for block in self.builder.blocks[self.base :] if block.kind in _CONTROL]
        if not inside:
            return True
        if self.builder.macro_depth == 0:
            self._leave_kernel(value, inside)
        else:
            self._leave_macro(value, inside)
        self.builder.blocks[-1].done = "return"
        return False

    def _leave_kernel(self, value: object, inside: Sequence[Block]) -> None:
        if value is not None or self.builder.launch is None:
            raise errors.TileUnsupportedError(
                f"`return` of `{self.name}` in a branch or loop"
                + (" with a value" if value is not None else " outside T.Kernel"),
                expected="`return` as the last statement, or without a value in T.Kernel",
                hint="a thread that returns early leaves the kernel; results are stored to tensors",
            )
        if any(block.kind == "parallel" for block in inside):
            raise errors.TileSyntaxError(
                "`return` in a T.Parallel loop",
                expected="`return` in thread code: serial loops and branches",
                hint="the compiler chooses which threads run an iteration, and so which would "
                "return; guard the body with `if`",
            )
        self.builder.emit(ThreadReturn())

    def _leave_macro(self, value: object, inside: Sequence[Block]) -> None:
        if any(block.kind in LOOPS for block in inside):
            raise errors.TileUnsupportedError(
                f"`return` of the macro `{self.name}` in a loop",
                expected="`return` at the end, or in branches outside of loops",
                hint="assign the result to a T.alloc_var, leave the loop with `break`, and return "
                "at the end; to stop a thread early use T.thread_return()",
            )
        if self.results is None:
            from tilelang.frontend.returns import Results

            self.results = Results(self.builder, self.base, self.name)
        self.results.add(value)

    def returned(self) -> object:
        """The end of a macro: what it returned on ways that are taken while the kernel runs."""
        return None if self.results is None or not self.results.ways else self.results.value()

    def return_(self, value: object) -> object:
        """``return value``, where tracing ends."""
        if self.builder.macro_depth == 0:
            self.builder.return_loc = locate()
        return value


def _parts(value: object) -> Iterator[object]:
    """The values in nested tuples and lists."""
    if isinstance(value, (tuple, list)):
        for element in value:
            yield from _parts(element)
    else:
        yield value


def _is_bound(value: object, target: object) -> bool:
    """Whether ``value`` is a variable that has a name already, as one that a macro returns has: in
    the variable ``target`` its value is stored, where a new variable takes its place."""
    return isinstance(value, Buffer) and value.is_var and bool(value.name) and value is not target


def _match(value: Any, shape: tuple[Any, ...]) -> Iterator[tuple[str, object]]:
    """Pairs (target name, value) of unpacking ``value`` into nested targets."""
    if isinstance(value, Expr) and len(shape) == 1:
        values: list[Any] = [value]  # `with T.Kernel(n) as (bx,)`
    else:
        try:
            values = list(value)
        except TypeError:
            if isinstance(value, Buffer):
                raise  # says how to loop over it
            raise errors.TileTypeError(
                f"a value of type {type(value).__name__} cannot be unpacked",
                expected=count(len(shape), "value"),
                got=describe(value),
            ) from None
    star = [i for i, part in enumerate(shape) if isinstance(part, str) and part.startswith("*")]
    if star:
        after = len(shape) - star[0] - 1
        if len(values) >= len(shape) - 1:
            stop = len(values) - after
            values = [*values[: star[0]], values[star[0] : stop], *values[stop:]]
    if len(values) != len(shape):
        raise errors.TileValueError(
            f"{count(len(values), 'value')} for {count(len(shape), 'name')}",
            expected=count(len(shape), "value") if not star else f"at least {len(shape) - 1}",
            got=f"{len(values)}",
        )
    for part, element in zip(shape, values, strict=True):
        if isinstance(part, tuple):
            yield from _match(element, part)
        else:
            yield part.lstrip("*"), element


def _apply(op: str, a: Any, b: Any) -> Any:
    if isinstance(a, (Buffer, Region)) or isinstance(b, (Buffer, Region)):
        a, b = as_expr(a), as_expr(b)
    return _IN_PLACE[op](a, b)


def _operand(value: Any, word: str) -> bool | Expr:
    """An operand of ``and``/``or``/``not``: device values must be bools."""
    if isinstance(value, Buffer) and value.is_var:
        value = as_expr(value)
    if isinstance(value, Expr) and not isinstance(value, Const) and not value.dtype.is_bool:
        raise errors.TileTypeError(
            f"an operand of `{word}` has dtype {value.dtype}",
            expected="a bool",
            got=f"`{value!r}`",
            hint="compare it, e.g. `x != 0`; for bits use `&`, `|`, `~`",
        )
    return truth(value, f"an operand of `{word}`")


def _not_indexable(base: Expr | Region) -> errors.TileTypeError:
    if isinstance(base, Region):
        base[0]  # raises
    return errors.TileTypeError(
        f"the scalar value `{base!r}` is indexed",
        expected="a buffer",
        got=f"a value of dtype {base.dtype}",
        hint="to change a value later, make it a T.alloc_var",
    )
