"""Random programs that bind names in nested blocks, and what the rule of names says of each.

The rule is written down a second time here, from the definition and without anything of the
compiler: the program is run in plain Python on every way through its branches and loops, once with
names as Python has them and once with names that end with their block. Where a read sees one
binding on all ways, the program means that; where the two differ, ``refused`` says whether the
difference is one that the language accepts (docs/scopes.md).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["A", "N", "Rule", "make_scopes"]

A = (1, 5, 2, 9)
N = 2  # the argument `n` of the program
NAMES = ("u", "v", "w", "x", "y", "s")  # s starts as a tile
WAYS = 500


class TooManyWays(Exception):
    """The program has too many paths."""


# -- programs -------------------------------------------------------------------------------------
@dataclass
class Node:
    """A statement: its kind, parts and blocks; ``text`` is its first line."""

    kind: str
    text: str = ""
    binds: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()  # (kind, names and numbers) of the expressions
    blocks: tuple[list[Node], ...] = ()
    trips: int | None = None


def _text(value: tuple[Any, ...]) -> str:
    kind, *rest = value
    if kind == "number":
        return str(rest[0])
    if kind == "load":
        return f"A[{rest[0]}]"
    name = f"val({rest[0]})" if rest[0] == "s" else rest[0]
    return name if kind == "copy" else f"{name} + {rest[1]}"


class _Maker:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.sinks = self.counters = 0

    def value(self) -> tuple[Any, ...]:
        kind = self.draw.choice(("number", "load", "load", "copy", "sum", "sum"))
        if kind in ("number", "load"):
            return kind, self.draw.randrange(4)
        name = self.draw.choice(NAMES)
        return (kind, name) if kind == "copy" else (kind, name, self.draw.randrange(1, 4))

    def condition(self) -> tuple[tuple[Any, ...], str]:
        place, limit = self.draw.randrange(4), self.draw.randrange(1, 8)
        if self.draw.random() < 0.6:
            return ("test", place, limit), f"A[{place}] > {limit}"
        name = self.draw.choice(NAMES[:5])
        return ("test", place, limit, name), f"A[{place}] + {name} > {limit}"

    def block(self, depth: int, looped: bool, size: int) -> list[Node]:
        out = [self.statement(depth, looped) for _ in range(self.draw.randrange(1, size + 1))]
        if depth:  # most bindings of inner blocks are for the block alone
            out = [part for item in out for part in (item, *self.after(item))]
        if looped and self.draw.random() < 0.5:
            name = self.draw.choice(NAMES)  # read, then bound again in a block inside
            value, (cond, text) = self.value(), self.condition()
            bound = Node("bind", f"{name} = {_text(value)}", (name,), (value,))
            inner = [bound, self.sink(name)]
            one = Node("if", f"if {text}:", values=(cond,), blocks=(inner, []))
            out = [self.sink(name), *out, one] if self.draw.random() < 0.7 else [one, *out]
        if looped and depth < 3 and self.draw.random() < 0.08:
            word = self.draw.choice(("break", "continue"))
            cond, text = self.condition()
            exits = [Node(word, word)]
            if self.draw.random() < 0.5:
                exits.insert(0, self.simple())
            out.insert(
                self.draw.randrange(len(out) + 1),
                Node("if", f"if {text}:", values=(cond,), blocks=(exits, [])),
            )
        return out

    def after(self, item: Node) -> list[Node]:
        """A read of what the statement has bound."""
        bound = item.kind == "bind" and self.draw.random() < 0.6
        return [self.sink(self.draw.choice(item.binds))] if bound else []

    def sink(self, name: str) -> Node:
        place, self.sinks = self.sinks, self.sinks + 1
        shown = f"val({name})" if name == "s" else name
        text = f"O[{place}] = (O[{place}] * 3 + {shown}) % 1009"
        return Node("sink", text, values=(("copy", name), place))

    def simple(self) -> Node:
        draw = self.draw
        form = draw.choice(
            ("sink", "sink", "sink", "one", "one", "pair", "nested", "plus", "typed")
        )
        if form == "sink":
            return self.sink(draw.choice(NAMES))
        if form in ("pair", "nested"):
            names = tuple(draw.sample(NAMES, 2 if form == "pair" else 3))
            values = tuple(self.value() for _ in names)
            shown = [_text(value) for value in values]
            if form == "pair":
                return Node("bind", f"{', '.join(names)} = {', '.join(shown)}", names, values)
            left = f"{names[0]}, ({names[1]}, {names[2]})"
            return Node("bind", f"{left} = {shown[0]}, ({shown[1]}, {shown[2]})", names, values)
        name = draw.choice(NAMES)
        if form == "plus" and name != "s":
            extra = draw.randrange(1, 4)
            return Node("bind", f"{name} += {extra}", (name,), (("sum", name, extra),))
        value = self.value()
        middle = f"{name}: int = " if form == "typed" else f"{name} = "
        return Node("bind", middle + _text(value), (name,), (value,))

    def statement(self, depth: int, looped: bool) -> Node:
        form = self.draw.random()
        if depth == 3 or form < 0.5:
            return self.simple()
        if form < 0.72:
            cond, text = self.condition()
            other = self.block(depth + 1, looped, 2) if self.draw.random() < 0.4 else []
            blocks = (self.block(depth + 1, looped, 3), other)
            return Node("if", f"if {text}:", values=(cond,), blocks=blocks)
        if form < 0.78:
            self.counters += 1
            name = f"k{self.counters}"
            cond, text = self.condition()
            body = self.block(depth + 1, True, 3)
            return Node("while", f"while ({text}) & ({name} < 2):", (name,), (cond,), (body,), None)
        return self.loop(depth)

    def loop(self, depth: int) -> Node:
        self.counters += 1
        index = self.draw.choice(NAMES) if self.draw.random() < 0.15 else f"i{self.counters}"
        trips = self.draw.choice((1, 2, 2, 2, None))
        word = self.draw.choice(("T.serial", "range", "T.unroll"))
        if trips is None:
            word = self.draw.choice(("T.serial", "range"))
        text = f"for {index} in {word}({'n' if trips is None else trips}):"
        return Node("for", text, (index,), (), (self.block(depth + 1, True, 3),), trips)


def make_scopes(seed: int) -> tuple[list[Node], str]:
    """A program and its text: the body of a kernel of one thread."""
    maker = _Maker(seed)
    if seed % 2:
        body = maker.block(0, False, 5)
    else:  # one loop, with few ways
        body = [maker.simple(), maker.loop(2), maker.simple()]
    head = ["s = T.alloc_local((4,), 'int32')", "for q in T.serial(4):", "    s[q] = A[q]"]
    head += ["u = 7", "v = A[1]", "w = A[3] + 1", "x = A[0]", "y = 3"]
    return body, "\n".join([*head, *_lines(body)])


def _lines(body: list[Node]) -> Iterator[str]:
    for node in body:
        if node.kind == "while":
            yield f"{node.binds[0]} = T.alloc_var('int32', 0)"
        yield node.text
        if node.kind == "while":
            yield f"    {node.binds[0]} += 1"
        for number, block in enumerate(node.blocks):
            if number and block:
                yield "else:"
            yield from ("    " + line for line in _lines(block))


# -- the rule -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Value:
    """What a name holds: a number known before the run, or something made in the block ``home``."""

    known: int | None
    made: int = 0  # which statement made it
    home: tuple[int, ...] = ()
    tile: bool = False


@dataclass
class Bound:
    """A binding on one way: what, in which block, and in which iterations of the loops around."""

    value: Value
    number: int
    block: tuple[int, ...] = ()
    turns: dict[int, int] = field(default_factory=dict)
    origins: dict[int, frozenset[str]] = field(default_factory=dict)  # by loop: names at its start


class _Leave(Exception):
    pass


class Rule:
    """All ways through a program; ``refused`` is why it is none, ``outputs`` what it leaves."""

    def __init__(self, body: list[Node]) -> None:
        self.body = body
        self.direct: dict[int, set[Value]] = {}
        self.ended: set[int] = set()  # reads of a value whose block has ended
        self.carries: list[tuple[str, Bound, Bound, int]] = []
        self.inside: set[tuple[str, Value]] = set()
        self.behind: set[tuple[int, str]] = set()
        self.edges: dict[int, set[tuple[str, str]]] = {}
        self.concrete = False
        self.todo: list[list[int]] = [[]]
        ways = 0
        while self.todo:
            ways += 1
            if ways > WAYS:
                raise TooManyWays
            self._walk(self.todo.pop())
        self.refused = self._why()

    def outputs(self) -> dict[int, int]:
        """What the program stores, place by place."""
        self.concrete = True
        self._walk([])
        return self.out

    # -- one way --
    def _walk(self, way: list[int]) -> None:
        self.way, self.at = way, 0
        self.python: dict[str, Bound] = {}
        self.blocks: tuple[int, ...] = (0,)
        self.turns: dict[int, int] = {}
        self.first: dict[int, dict[str, Bound]] = {}
        self.control: list[dict[int, frozenset[str]]] = [{}]
        self.out: dict[int, int] = {}
        self.lexical: dict[str, Bound] = {}
        for name, value in zip(NAMES, (7, A[1], A[3] + 1, A[0], 3, 0), strict=True):
            made = Value(None, -len(self.lexical) - 1, (0,), name == "s")
            first = Bound(Value(value) if name in "uy" else made, value, (0,))
            self.lexical[name] = self.python[name] = first
        try:
            self._block(self.body)
        except _Leave:
            raise AssertionError("an exit outside a loop") from None

    def _choose(self, count: int) -> int:
        if self.at == len(self.way):
            self.todo += [[*self.way, other] for other in range(1, count)]
            self.way = [*self.way, 0]
        self.at += 1
        return self.way[self.at - 1]

    def _read(self, node: Node, name: str) -> Bound:
        bound, other = self.lexical[name], self.python[name]
        key = hash((id(node), name))
        self.direct.setdefault(key, set()).add(bound.value)
        if bound.value.home != self.blocks[: len(bound.value.home)]:
            self.ended.add(key)
        inner = bound.block == self.blocks[: len(bound.block)]
        for loop, start in self.first.items():
            if bound is not start.get(name) and bound.value != start[name].value:
                if inner:
                    self.inside.add((name, bound.value))
                else:
                    self.behind.add((loop, name))
        if other is not bound and other.value != bound.value:
            turns = self.turns
            over = next((loop for loop in turns if other.turns.get(loop) != turns[loop]), None)
            if over is not None:  # else it is read behind a loop, and another way binds it last
                self.carries.append((name, bound, other, over))
        return bound

    def _origins(self, name: str, bound: Bound) -> dict[int, frozenset[str]]:
        return {
            loop: frozenset((name,))
            if bound is start.get(name)
            else bound.origins.get(loop, frozenset())
            for loop, start in self.first.items()
        }

    def _value(
        self, node: Node, value: tuple[Any, ...]
    ) -> tuple[Value, int, dict[int, frozenset[str]]]:
        kind, *rest = value
        key = hash((id(node), value))
        if kind == "number":
            return Value(rest[0]), rest[0], {}
        if kind == "load":
            return Value(None, key, self.blocks), A[rest[0]], {}
        bound = self._read(node, rest[0])
        found, number = bound.value, bound.number
        if found.tile:  # element 1 of it
            found, number = Value(None, key, self.blocks), A[1]
        extra = rest[1] if kind == "sum" else 0
        if found.known is not None:
            found = Value(found.known + extra)
        elif extra:
            found = Value(None, key, self.blocks)
        return found, number + extra, self._origins(rest[0], bound)

    def _bind(
        self, name: str, value: Value, number: int, origins: dict[int, frozenset[str]]
    ) -> None:
        for part in self.control:
            origins = _merged(origins, part)
        for loop, names in origins.items():
            self.edges.setdefault(loop, set()).update((name, other) for other in names)
        made = Bound(value, number, self.blocks, dict(self.turns), origins)
        self.lexical[name] = self.python[name] = made

    def _test(self, node: Node) -> tuple[bool, dict[int, frozenset[str]]]:
        _, place, limit, *name = node.values[0]
        number, origins = A[place], {}
        if name:
            bound = self._read(node, name[0])
            number, origins = number + bound.number, self._origins(name[0], bound)
        return number > limit, origins

    def _block(self, body: list[Node]) -> None:
        for node in body:
            getattr(self, f"do_{node.kind}")(node)

    def do_sink(self, node: Node) -> None:
        place = node.values[1]
        _, number, _ = self._value(node, node.values[0])
        self.out[place] = (self.out.get(place, 0) * 3 + number) % 1009

    def do_bind(self, node: Node) -> None:
        made = [self._value(node, value) for value in node.values]
        for name, (value, number, origins) in zip(node.binds, made, strict=True):
            self._bind(name, value, number, origins)

    def do_break(self, node: Node) -> None:
        raise _Leave(node.kind)

    do_continue = do_break

    def do_if(self, node: Node) -> None:
        truth, origins = self._test(node)
        side = (0 if truth else 1) if self.concrete else self._choose(2)
        around = self.blocks
        self.control.append(origins)
        self.blocks = (*around, hash((id(node), side)))
        self._inside(node.blocks[side], around)
        self.control.pop()
        if any(part.kind in ("break", "continue") for block in node.blocks for part in block):
            self.control[-1] = _merged(self.control[-1], origins)

    def _inside(self, body: list[Node], around: tuple[int, ...]) -> None:
        height = len(self.control)
        try:
            self._block(body)
        finally:
            self.blocks = around
            del self.control[height:]

    def _loop(self, node: Node) -> None:
        loop, around = id(node), self.blocks
        self.blocks = (*around, loop)
        self.first[loop] = dict(self.lexical)
        self.control.append({})
        height = len(self.control)
        most = node.trips if node.trips is not None else 2
        for turn in range(most):
            self.lexical = dict(self.first[loop])
            self.turns[loop] = turn
            if node.kind == "while":
                truth, origins = self._test(node)
                self.control[-1] = _merged(self.control[-1], origins)
                if not (truth if self.concrete else self._choose(2)):
                    break
            elif node.trips is None and not self.concrete and not self._choose(2):
                break
            if node.kind == "for":
                self._bind(node.binds[0], Value(None, loop, self.blocks), turn, {})
            try:
                self._inside(node.blocks[0], self.blocks)
            except _Leave as leave:
                del self.control[height:]
                if leave.args[0] == "break":
                    break
        self.control.pop()
        del self.first[loop]
        self.turns.pop(loop, None)
        self.blocks = around

    do_for = do_while = _loop

    # -- the verdict --
    def _why(self) -> str:
        if any(len(values) > 1 for values in self.direct.values()):
            return "a read that two bindings reach"
        if self.ended:
            return "a value read behind its block"
        for name, old, new, loop in self.carries:
            if (loop, name) in self.behind:
                return f"{name} is read behind its block"
            if old.value.tile:
                continue
            if new.block[-1] == loop:
                return f"{name} is carried by its own loop"
            if name in _reached(self.edges.get(loop, set()), name):
                return f"{name} depends on itself"
            if (name, new.value) not in self.inside:
                return f"{name} is bound for later iterations only"
        return ""


def _merged(
    a: dict[int, frozenset[str]], b: dict[int, frozenset[str]]
) -> dict[int, frozenset[str]]:
    return {loop: a.get(loop, frozenset()) | b.get(loop, frozenset()) for loop in {*a, *b}}


def _reached(edges: set[tuple[str, str]], name: str) -> set[str]:
    found: set[str] = set()
    todo = [name]
    while todo:
        at = todo.pop()
        new = {other for one, other in edges if one == at} - found
        found |= new
        todo += new
    return found
