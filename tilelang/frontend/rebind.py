"""Rebinding: names that branches and loops of the program bind, and their values afterwards.

Tracing runs a body once, so after it a Python name has the value of that one run. That value is
right if it is the same on all paths: both sides of an ``if`` bind the name to the same value, or a
loop that certainly runs binds it. If paths differ, the name is ``Undecided``: reading it is an
error that suggests ``T.alloc_var``, and binding it again makes it usable. A name that a loop reads
first and binds later is an error at the end of the loop, because the trace contains the reads of
the next iterations with the old value. ``flow.py`` computes which names may be read; the others
cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from tilelang.errors import Loc, TileNameError
from tilelang.frontend.ir_builder import Block, Builder, describe, is_same_value, warn
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Const, Expr, as_expr


class Binding(NamedTuple):
    """The value of a name; ``loc`` is where it was bound, inside statements that follow the
    name."""

    value: object
    block: Block
    loc: Loc | None = None


Names = tuple[str, ...]
Wanted = tuple[Names, Names, Names, Names]  # read after, read again, by functions, carried
Snapshot = dict[str, Binding]


class Bindings(Protocol):
    """The names of a scope, which statements follow."""

    builder: Builder
    bindings: dict[str, Binding]
    following: dict[str, list[Follow]]


class Undecided:
    """A name whose value depends on the way the program takes; nothing can be done with it."""

    def __init__(self, name: str, control: str, values: Sequence[Binding]) -> None:
        self.__dict__.update(name=name, control=control, values=values)

    def error(self) -> TileNameError:
        """The error of a use."""
        name, control, values = (self.__dict__[key] for key in ("name", "control", "values"))
        leaves: list[Binding] = []
        for binding in values:
            if not any(is_same_value(binding.value, known.value) for known in leaves):
                leaves.append(binding)
        return TileNameError(
            f"`{name}` depends on {_DEPENDS[control]}",
            expected="one value on every path to this statement, or a variable made by T.alloc_var",
            got=" or ".join(_described(binding, control) for binding in leaves),
            hint=advice(name, control, [binding.value for binding in leaves]),
        )

    def __repr__(self) -> str:
        return f"<undecided {self.__dict__['name']}>"

    def _refuse(self, *_: object) -> Any:
        raise self.error()

    # What reads that are not rewritten do with it: those of nested functions.
    __getattr__ = __bool__ = __iter__ = __len__ = __call__ = __enter__ = __contains__ = _refuse
    __getitem__ = __setitem__ = __index__ = __int__ = __float__ = __hash__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __neg__ = __pos__ = __abs__ = __invert__ = _refuse
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _refuse
    __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = _refuse
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = _refuse


_DEPENDS = {
    "if": "a condition that is known only at run time",
    "loop": "how often the loop runs",
    "parallel": "the iterations of T.Parallel",
}


def _described(binding: Binding, block: str) -> str:
    value = binding.value
    where = f"before the {_STATEMENT[block]}" if binding.loc is None else f"line {binding.loc.line}"
    if isinstance(value, Undecided) or (isinstance(value, Expr) and not isinstance(value, Const)):
        return f"the value of {where}" if binding.loc is not None else f"the value {where}"
    return f"{describe(value)} ({where})"


_STATEMENT = {"if": "`if`", "loop": "loop", "parallel": "loop"}


def advice(name: str, control: str, values: Sequence[object]) -> str:
    """The form to write instead of rebinding ``name``."""
    if control != "if" and all(map(_is_tile, values)):
        return (
            "a name denotes one object; alternating tiles are one tile with a dimension "
            f"more, indexed by the iteration, e.g. {name}[k % 2, ...]"
        )
    if not all(isinstance(value, (bool, int, float, Expr)) for value in values):
        return (
            f"a name denotes one object; write the statements that use `{name}` where it is bound"
        )
    if control == "parallel":
        return (
            "iterations have no order; store to a tile, or combine them with T.reduce_... or "
            "T.alloc_reducer"
        )
    kinds = {as_expr(value).dtype for value in values}
    kind = f'"{next(iter(kinds))}"' if len(kinds) == 1 else "dtype"
    declared = f"declare `{name} = T.alloc_var({kind})` before the {_STATEMENT[control]}"
    if control == "if":
        return f"{declared} and assign to it inside, or write `{name} = a if condition else b`"
    return f"{declared} and assign to it inside"


def _leaves(binding: Binding) -> Iterator[Binding]:
    """The bindings that a name may have."""
    if isinstance(binding.value, Undecided):
        for value in binding.value.__dict__["values"]:
            yield from _leaves(value)
    else:
        yield binding


def _is_tile(value: object) -> bool:
    return isinstance(value, Region) or (isinstance(value, Buffer) and not value.is_var)


def _ended(name: str, outer: Binding) -> str:
    """The remark on a name that an inner block binds anew."""
    value = outer.value
    if isinstance(value, Buffer):
        read = describe(value)
    elif isinstance(value, Expr) and not isinstance(value, Const):
        where = "from before the loop" if outer.loc is None else f"of line {outer.loc.line}"
        read = f"the value {where}"
    else:
        read = describe(value)
    return (
        f"`{name}` is bound again here, for this block only: other blocks and later iterations "
        f"still read {read}"
    )


class Follow:
    """The followed names of one compound statement while it is traced."""

    def __init__(self, scope: Bindings, control: str, followed: Wanted) -> None:
        self.scope, self.control = scope, control
        self.after, self.next_reads, self.captured, self.carried = followed
        self.names = {*self.after, *self.next_reads}
        self.ways: list[Snapshot] = []  # how the statement after this one is reached
        self.back: list[Snapshot] = []  # how the next iteration is reached
        self.seen: set[str] = set()  # names of ``next_reads`` read with the value from before
        self.inside: list[tuple[str, object]] = []  # names read in the block that binds them
        self.behind: set[str] = set()  # names read after the block that bound them
        self.first = self.snapshot()
        for name in self.names:
            scope.following.setdefault(name, []).append(self)

    def snapshot(self) -> Snapshot:
        """The followed names that are bound here."""
        bindings = self.scope.bindings
        return {name: bindings[name] for name in self.names if name in bindings}

    def reset(self) -> None:
        """Go back to the start of the statement, for its other side."""
        for name in self.names:
            if name in self.first:
                self.scope.bindings[name] = self.first[name]
            else:
                self.scope.bindings.pop(name, None)

    def saw(self, name: str, value: object) -> None:
        """A read of ``name`` inside the statement."""
        if name in self.first and is_same_value(self.first[name].value, value):
            self.seen.add(name)
        elif (binding := self.scope.bindings.get(name)) is not None:
            if not binding.block.alive:
                self.behind.add(name)
            else:
                self.inside.append((name, binding.value))

    def holds(self, name: str) -> bool:
        """Whether ``name`` is bound."""
        return name in self.scope.bindings

    def value(self, name: str) -> object:
        """The value of ``name``."""
        return self.scope.bindings[name].value

    def merge_paths(self) -> None:
        """End of the statement: what the names hold on every way to the next one."""
        for name in self.names:
            self.scope.following[name].pop()
        if not self.ways:
            return
        for name in self.after:
            values = [way[name] for way in self.ways if name in way]
            if not values:
                self.scope.bindings.pop(name, None)
            elif all(is_same_value(values[0].value, other.value) for other in values):
                around = (binding for binding in values if binding.block.alive)
                self.scope.bindings[name] = next(around, values[0])
                if self.control == "if" or not isinstance(inner := values[0].value, Undecided):
                    continue
                self._undecide(name, inner.__dict__["values"])
            else:
                self._undecide(name, values)

    def _undecide(self, name: str, values: Sequence[Binding]) -> None:
        loc = next((binding.loc for binding in values if binding.loc is not None), None)
        undecided = Undecided(name, self.control, values)
        self.scope.bindings[name] = Binding(undecided, self.scope.builder.scope(), loc)

    def check_reread(self, own: Sequence[Block]) -> None:
        """End of a loop of the blocks ``own``: what its next iteration reads must be what it read.

        What an inner block binds ends with that block, so the next iteration reads the value from
        before; where a reader of Python would expect another one, the name is refused.
        """
        for name in self.next_reads:
            if name not in self.first or not (name in self.seen or name in self.captured):
                continue
            old = self.first[name].value
            ends = [binding for way in self.back if name in way for binding in _leaves(way[name])]
            for binding in [binding for binding in ends if not is_same_value(binding.value, old)]:
                if not self._is_block_local(name, old, binding, own):
                    raise self._updated(name, old, binding)
                warn(_ended(name, self.first[name]), binding.loc)

    def _is_block_local(self, name: str, old: object, new: Binding, own: Sequence[Block]) -> bool:
        """Whether the binding ``new`` is one of its block alone."""
        if _is_tile(old) and isinstance(new.value, (bool, int, float, Expr)):
            return name not in self.behind  # they cannot be confused
        if name in self.carried or name in self.behind or any(new.block is b for b in own):
            return False
        return name in self.captured or any(
            is_same_value((name, new.value), x) for x in self.inside
        )

    def _updated(self, name: str, old: object, new: Binding) -> TileNameError:
        scalar = all(isinstance(v, (bool, int, float, Expr, Undecided)) for v in (old, new.value))
        shown = "" if isinstance(old, Expr) or not scalar else f" to {old!r}"
        hint = f"declare `{name} = T.alloc_var(dtype, init)` before the loop"
        if not scalar or self.control == "parallel":
            hint = advice(name, self.control, [old, new.value])
        return TileNameError(
            f"the immutable value `{name}` is updated in a loop",
            expected="a variable made by T.alloc_var",
            got=f"`{name}` bound outside the loop{shown}",
            hint=hint,
            loc=new.loc,
        )
