"""Loop-carried dependences: names whose value in one iteration depends on the one before.

``if x > best: best = x`` counts on the value of earlier iterations, by the condition; ``n = n + 1``
by the value; ``a, b = b, a`` by two names. A binding in an inner block ends with the block, so such
a name would not have the value that it has in Python. This analysis finds these names on the syntax
tree: it visits the statements of a body in order and keeps the names that each name may depend on.
It ignores values in tiles and tensors, which persist between iterations.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence

Reads = Callable[[ast.AST], "set[str]"]
State = dict[str, frozenset[str]]
_NONE: frozenset[str] = frozenset()


def self_dependent(loop: ast.For | ast.While | ast.With, names: set[str], reads: Reads) -> set[str]:
    """Those of ``names`` that depend on their own value of an earlier iteration of ``loop``.

    ``reads(node)`` are the names that an expression or a simple statement reads.
    """
    walker = _Walker(reads)
    state: State = {name: frozenset((name,)) for name in names}
    around = walker.origins(state, loop.test) if isinstance(loop, ast.While) else _NONE
    walker.block(loop.body, state, around)
    return {name for name in names if name in _reachable(walker.edges, name)}


def _reachable(edges: Mapping[str, set[str]], name: str) -> set[str]:
    """The names on whose values of earlier iterations ``name`` depends."""
    reached: set[str] = set()
    todo = [name]
    while todo:
        new = edges.get(todo.pop(), set()) - reached
        reached |= new
        todo.extend(new)
    return reached


class _Walker:
    """Follows the statements of a body; ``edges`` are what each bound name depends on."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self.edges: dict[str, set[str]] = {}

    def origins(self, state: State, *nodes: ast.AST | None) -> frozenset[str]:
        """The names on which the expressions depend."""
        names = {name for node in nodes if node is not None for name in self.reads(node)}
        return _NONE.union(*(state.get(name, _NONE) for name in names))

    def bind(self, state: State, target: ast.AST, origins: frozenset[str]) -> None:
        """``target`` is bound to a value that depends on ``origins``."""
        for name in _stored(target):
            state[name] = origins
            self.edges.setdefault(name, set()).update(origins)

    def block(
        self, body: Sequence[ast.stmt], state: State, around: frozenset[str]
    ) -> frozenset[str]:
        """The statements in order; returns what decides whether those after them are reached."""
        for stmt in body:
            around |= self.statement(stmt, state, around)
        return around

    def statement(self, stmt: ast.stmt, state: State, around: frozenset[str]) -> frozenset[str]:
        if isinstance(stmt, ast.If):
            return self.branch(stmt, state, around)
        if isinstance(stmt, (ast.For, ast.While)):
            return self.loop(stmt, state, around)
        if isinstance(stmt, ast.With):
            for entry in stmt.items:
                origins = around | self.origins(state, entry.context_expr)
                if entry.optional_vars is not None:
                    self.bind(state, entry.optional_vars, origins)
            return self.block(stmt.body, state, around)
        if isinstance(stmt, ast.Assign):
            pairs = [pair for target in stmt.targets for pair in _pairs(target, stmt.value)]
            bindings = [(target, around | self.origins(state, value)) for target, value in pairs]
            for target, origins in bindings:
                self.bind(state, target, origins)
        elif isinstance(stmt, ast.AnnAssign) and stmt.value is not None:
            self.bind(state, stmt.target, around | self.origins(state, stmt.value))
        elif isinstance(stmt, ast.AugAssign) and isinstance(stmt.target, ast.Name):
            own = state.get(stmt.target.id, _NONE)
            self.bind(state, stmt.target, around | own | self.origins(state, stmt.value))
        elif isinstance(stmt, (ast.FunctionDef, ast.ClassDef)):
            state[stmt.name] = around
        return _NONE

    def branch(self, stmt: ast.If, state: State, around: frozenset[str]) -> frozenset[str]:
        test = self.origins(state, stmt.test)
        sides = []
        for body in (stmt.body, stmt.orelse):
            side = dict(state)
            test |= self.block(body, side, around | test) - around
            sides.append(side)
        _join(state, *sides)
        return test if _may_leave(stmt) else _NONE

    def loop(
        self, stmt: ast.For | ast.While, state: State, around: frozenset[str]
    ) -> frozenset[str]:
        head = stmt.iter if isinstance(stmt, ast.For) else stmt.test
        origins = around
        for _ in range(2 + len(state)):
            before = dict(state)
            origins |= self.origins(state, head)
            inner = dict(state)
            if isinstance(stmt, ast.For):
                self.bind(inner, stmt.target, origins)
            origins |= self.block(stmt.body, inner, origins)
            _join(state, state, inner)
            if state == before:
                break
        return origins if _may_leave(stmt) else _NONE


def _join(state: State, *sides: State) -> None:
    """``state`` at a join of control flow."""
    for name in {name for side in sides for name in side}:
        state[name] = _NONE.union(*(side.get(name, _NONE) for side in sides))


def _may_leave(stmt: ast.stmt) -> bool:
    """Whether a statement in ``stmt`` may leave the block around it."""
    looped = isinstance(stmt, (ast.For, ast.While))
    return any(
        isinstance(part, ast.Return)
        or (isinstance(part, (ast.Break, ast.Continue)) and not looped)
        or (isinstance(part, (ast.If, ast.With, ast.For, ast.While)) and _may_leave(part))
        for part in ast.iter_child_nodes(stmt)
    )


def _stored(target: ast.AST) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _stored(part)
    elif isinstance(target, ast.Starred):
        yield from _stored(target.value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """``target = value`` as single assignments, where the two have the same form."""
    rows = (ast.Tuple, ast.List)
    if isinstance(target, rows) and isinstance(value, rows):
        parts = [*target.elts, *value.elts]
        plain = not any(isinstance(part, ast.Starred) for part in parts)
        if plain and len(target.elts) == len(value.elts):
            for left, right in zip(target.elts, value.elts, strict=True):
                yield from _pairs(left, right)
            return
    yield target, value
