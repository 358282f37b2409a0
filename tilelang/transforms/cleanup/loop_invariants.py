"""Loop-invariant code motion: expressions that a loop does not change are computed before it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Region
from tilelang.ir.facts import bounds_of
from tilelang.ir.indices import is_widening
from tilelang.ir.linear import Linear
from tilelang.ir.memo import memoized
from tilelang.ir.prover import prove
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import map_exprs, rebuild, replace_nodes, rewrite_blocks
from tilelang.target import operations
from tilelang.transforms.analysis.dependence import written_in
from tilelang.transforms.analysis.loops import UNROLLED, trip_count
from tilelang.transforms.cleanup.reciprocal_division import divide_by_reciprocals
from tilelang.transforms.rules import Cursor, Phase, rule

UNIT = 128  # bits that a descriptor counts
_PLACES = {operations.WGMMA_SS: (1, 3), operations.WGMMA_RS: (2,)}  # of operands; distances follow


@rule(S.Eval, needs="wgmma")
def offset_descriptors(stmt: S.Eval, cursor: Cursor) -> S.Stmt:
    """Strength reduction of wgmma descriptors: a fixed descriptor plus a varying offset.

    A descriptor is made of an address by a mask, a shift and an "or" (PTX, "Matrix Descriptor"),
    and the version of a tile changes with each iteration of a pipeline: so each product would begin
    with that arithmetic, of both operands, between the wait for its stage and its first
    instruction. The uniform parts of an index, in units of 16 bytes, are added to the descriptor
    instead: it is the same as long as the warpgroup is, so that the device's compiler makes it
    before the loop.

    An address has its own bits in a descriptor, and sums of shared addresses fit into them: a
    distance that is not negative never carries into the others.
    """
    call = stmt.call
    if call is None or call.atom not in _PLACES:
        return stmt
    args, threads = list(call.args), frozenset(cursor.kernel.thread_vars)
    for at in _PLACES[call.atom]:
        args[at], args[at + 1] = _split(args[at], args[at + 1], threads)
    if all(a is b for a, b in zip(args, call.args)):
        return stmt
    return S.Eval(value=E.Call(call.atom, tuple(args), call.dtype, call.attrs), loc=stmt.loc)


def _split(address: E.Expr, distance: E.Expr, threads: frozenset[E.Var]) -> tuple[E.Expr, E.Expr]:
    """An equal address and offset, with everything in the offset that can be."""
    if not isinstance(address, E.AddressOf) or len(address.indices) != 1:
        return address, distance
    (index,) = address.indices
    unit = UNIT // address.buffer.dtype.bits
    form = Linear.of(index)
    base_index: E.Expr = E.const(form.constant, index.dtype)
    extra: E.Expr = E.const(0, index.dtype)
    for term, factor in form.terms:
        is_uniform = threads.isdisjoint(term.variables)
        if is_uniform and factor > 0 and factor % unit == 0 and form.constant >= 0:
            extra = extra + term * (factor // unit)
        else:
            base_index = base_index + term * factor
    if isinstance(extra, E.Const):
        return address, distance
    base = E.AddressOf(address.buffer, (simplify(base_index),), address.access)
    return base, simplify(extra) + distance


_LEAST = 2  # operations that get a name
_DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")
_RING = ("add", "sub", "mul")
_OTHERS = ("bitxor", "bitand", "bitor", "min", "max")
_LAZY = ("land", "lor")
_WAITS = ("rendezvous", "wait")  # kinds of orders after which others may have written


@rule(S.For)
def hoist_loop_invariants(loop: S.For, cursor: Cursor) -> S.Stmt | list[S.Stmt]:
    """Loop-invariant code motion of the parts of indices.

    A loop that is unrolled leaves its index arithmetic once per copy in what the CUDA compiler has
    to optimise, and most of that is about the block and the thread. Naming those parts before the
    loop makes the text shorter to read and about a third faster to compile; the machine code is the
    same.

    An index is a sum. What of it does not mention a variable of the loop becomes a constant
    (``A_at``), and so does any such part inside the rest. The same part is named once in a block
    and what is below it. Indices stay exact: a name has the value before any wrapping.

    An element of an index tensor (a page table, a list of rows) is such a part where the kernel
    writes to no element of the tensor, and every iteration loads it: it is loaded once. So is an
    element of any tensor that iterations load only where a condition holds, if it is certainly
    inside: the CUDA compiler keeps a load behind each condition. Where it changes from iteration to
    iteration of a loop around them, it is loaded once in each of these.
    """
    outer = next(filter(_is_unrolled, cursor.around[:-1]), None)
    fixed = cursor.launch is not None and not _may_wait(loop)
    if not _is_unrolled(loop) or (outer is not None and not fixed):
        return loop
    nest = _Nest(cursor, loop, cursor.of(written_in, cursor.kernel) if fixed else None)
    nest.changing = None if outer is None else cursor.of(S.bound, outer)
    body = nest.stmt(loop)
    return [*nest.lets, body] if nest.lets else body


def _may_wait(loop: S.For) -> bool:
    """Whether threads wait in ``loop``: for others, or for a kernel before theirs."""
    orders = (call.atom.orders for call in S.calls(loop.body))
    return any(order is not None and order.kind in _WAITS for order in orders)


def _is_lazy(expr: E.Expr) -> bool:
    """Whether the second operand of ``expr`` is evaluated only if the first one does not decide."""
    return isinstance(expr, E.Binary) and expr.op in _LAZY


def _is_unrolled(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` is a loop that leaves several copies of its body."""
    return isinstance(stmt, S.For) and stmt.kind in UNROLLED and trip_count(stmt) not in (0, 1)


class _Nest:
    """An unrolled loop with everything in it."""

    def __init__(self, cursor: Cursor, loop: S.For, written: frozenset[E.Var] | None) -> None:
        self.cursor = cursor
        self.named = cursor.names
        self.loop = loop
        self.written = written  # storage that the kernel changes; None: no load may be moved
        # Names of an unrolled loop around this one, where only loads that use them may be moved.
        self.changing: Collection[E.Var] | None = None
        self.certain = True  # whether every iteration reaches this statement
        self.lets: list[S.Let] = []
        self.inner = S.bound(loop)
        self.fixed: dict[tuple[E.Expr, bool], bool] = {}
        self.label = "at"

    # -- statements ------------------------------------------------------------------------------
    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with names in its indices."""
        changed: dict[str, Any] = {}
        around = self.certain
        comes = isinstance(stmt, S.Seq) or (isinstance(stmt, S.For) and stmt.kind in UNROLLED)
        for name, role in stmt.role_table().items():
            old = getattr(stmt, name)
            if role in ("expr", "exprs", "block", "read", "write", "update"):
                self.certain = around and (comes or role != "block")
                new = self.field(old, _label(stmt, name))
                if new is not old:
                    changed[name] = new
        self.certain = around
        return replace(stmt, **changed) if changed else stmt

    def field(self, old: Any, label: str) -> Any:
        """A field of a statement."""
        if isinstance(old, tuple):
            new = tuple(self.field(element, label) for element in old)
            return old if all(a is b for a, b in zip(old, new)) else new
        if isinstance(old, S.Stmt):
            return self.stmt(old)
        self.label = label
        if isinstance(old, E.Expr):
            return self.expr(old)
        return old.map(self.expr) if isinstance(old, Region) else old

    # -- expressions -----------------------------------------------------------------------------
    @memoized
    def expr(self, expr: E.Expr) -> E.Expr:
        """``expr`` with its unchanging parts named."""
        if not expr.children():
            return expr
        if isinstance(expr, (E.Load, E.Select)) and (self.loads(expr) or self.may_load(expr)):
            return self.name(expr)
        if isinstance(expr, E.Select) or _is_lazy(expr):
            first, *others = expr.children()
            moved, around = {first: self.expr(first)}, self.certain
            self.certain = False
            moved |= {other: self.expr(other) for other in others if other is not first}
            self.certain = around
            return rebuild(expr, moved.__getitem__)
        if isinstance(expr, (E.Load, E.AddressOf)):
            outer, self.label = self.label, f"{expr.buffer.name}_at"
            new = rebuild(expr, self.expr)
            self.label = outer
            return new
        if self.changing is not None or not _is_arithmetic(expr):
            return rebuild(expr, self.expr)
        if isinstance(expr, E.Binary) and expr.op in ("add", "sub"):
            split = self.split(expr)
            if split is not None:
                return split
        if self.is_invariant(expr):
            return self.name(expr) if self.size(expr) >= _LEAST else expr
        return rebuild(expr, self.expr)

    def split(self, expr: E.Expr) -> E.Expr | None:
        """A sum with one name for its unchanging terms; None where they are not worth one."""
        form = Linear.of(expr)
        base = _sum([pair for pair in form.terms if self.is_invariant(pair[0])], expr)
        if base is None or self.size(base) < _LEAST:
            return None
        terms: list[tuple[E.Expr, int]] = [(self.name(base), 1)]
        terms += [(self.expr(term), factor) for term, factor in form.terms
                 if not self.is_invariant(term)]  # fmt: skip
        total = _sum(terms, expr)
        assert total is not None  # it has the name at least
        return E.binary("add", total, E.const(form.constant, expr.dtype))

    def name(self, value: E.Expr) -> E.Var:
        """The constant with the value of ``value``."""
        var = self.named.get(value)
        if var is None:
            known = {part: self.name(part) for part in self.loaded_parts(value)}
            label = self.label
            if isinstance(value, (E.Load, E.Select)):
                label = f"{E.find(value, E.Load)[0].buffer.name}_value"
            var = self.named[value] = E.Var(label, value.dtype)
            named = rebuild(value, lambda part: replace_nodes(part, known)) if known else value
            self.lets.append(S.Let(var=var, value=named, loc=self.loop.loc))
        return var

    def loaded_parts(self, value: E.Expr) -> Iterator[E.Expr]:
        """The elements of index tensors in ``value`` that are loaded whenever it is evaluated."""
        always = value.children()
        for part in always[:1] if isinstance(value, E.Select) or _is_lazy(value) else always:
            if self.loads(part):
                yield part
            else:
                yield from self.loaded_parts(part)

    def loads(self, expr: E.Expr) -> bool:
        """Whether ``expr`` is an element of an index tensor, or a choice with one, that is the same
        in every iteration."""
        if not isinstance(expr, (E.Load, E.Select)) or expr.dtype not in ("int32", "int64"):
            return False
        return self.changing is None and E.holds(expr, E.Load) and self.is_invariant(expr)

    def may_load(self, expr: E.Expr) -> bool:
        """Whether ``expr`` is an element that some iterations load, the same in all of them, which
        no thread writes and every iteration may load."""
        if self.certain or self.written is None or not isinstance(expr, E.Load):
            return False
        fixed = expr.buffer.storage == "global" and expr.buffer.data not in self.written
        if not fixed or not all(map(self.is_invariant, expr.indices)):
            return False
        if self.changing is not None and expr.variables.isdisjoint(self.changing):
            return False  # the loop around moves it
        bounds = self.cursor.of(bounds_of, self.cursor.kernel)
        dims = zip(expr.indices, expr.buffer.shape)
        return all(prove(at >= 0, bounds) and prove(at < extent, bounds) for at, extent in dims)

    def is_invariant(self, expr: E.Expr) -> bool:
        """Whether ``expr`` is arithmetic that has the same value in every iteration."""
        key = expr, self.certain
        invariant = self.fixed.get(key)
        if invariant is None:
            if isinstance(expr, E.Var):
                invariant = expr not in self.inner
            else:
                plain = isinstance(expr, E.Const) or _is_arithmetic(expr) or self.may_move(expr)
                invariant = plain and all(self.is_invariant(child) for child in expr.children())
            self.fixed[key] = invariant
        return invariant

    def may_move(self, expr: E.Expr) -> bool:
        """Whether ``expr`` is part of an index that is loaded, and may be evaluated before the
        loop: a load that every iteration makes, of what no thread writes, or its guard."""
        if self.written is None or not self.certain:
            return False
        if isinstance(expr, E.Load):
            is_index = expr.dtype in ("int32", "int64") and expr.buffer.storage == "global"
            return is_index and expr.buffer.data not in self.written
        is_bool = expr.dtype.is_bool and isinstance(expr, (E.Binary, E.Unary))
        return is_bool or (isinstance(expr, E.Select) and expr.dtype in ("int32", "int64"))

    @memoized
    def size(self, expr: E.Expr) -> int:
        """Operations in ``expr``."""
        own = _LEAST if isinstance(expr, E.Load) else isinstance(expr, (E.Binary, E.Unary))
        return own + sum([self.size(child) for child in expr.children()])


def _label(stmt: S.Stmt, field: str) -> str:
    """The name of a part of a field of ``stmt``."""
    return f"{stmt.buffer.name}_at" if isinstance(stmt, S.Store) and field == "indices" else "at"


def _is_arithmetic(expr: E.Expr) -> bool:
    """Whether ``expr`` is an operation of index arithmetic, which may be evaluated anywhere."""
    if expr.dtype not in ("int32", "int64"):
        return False
    if isinstance(expr, E.Binary):
        if expr.op in _DIVISIONS:
            return isinstance(expr.b, E.Const) and expr.b.value != 0
        return expr.op in _RING or expr.op in _OTHERS
    if isinstance(expr, E.Cast):
        return is_widening(expr)
    return isinstance(expr, E.Unary) and expr.op == "neg"


def _sum(terms: Iterable[tuple[E.Expr, int]], like: E.Expr) -> E.Expr | None:
    """The sum of factor times term, positive ones first; None for no terms."""
    total: E.Expr | None = None
    for term, factor in sorted(terms, key=lambda pair: pair[1] < 0):
        scale = abs(factor) if total is not None else factor
        product = E.binary("mul", term, E.const(scale, like.dtype))
        if total is None:
            total = product
        else:
            total = E.binary("add" if factor > 0 else "sub", total, product)
    return total


@rule(S.For, needs="wgmma")
def hoist_warp_uniform(loop: S.For, cursor: Cursor) -> S.Stmt | list[S.Stmt]:
    """Loop-invariant code motion of values that a warp shares.

    A wgmma product computes its warpgroup number by
    :data:`~tilelang.target.operations.WARP_UNIFORM`: a shuffle and a dependent move to the uniform
    registers of the warp. In a loop they add latency between the wait for one product and the next.

    The call is hoisted if it depends on the thread index alone, and if no condition is between it
    and the outermost loop of the kernel, so that whole warps reach the loop.
    """
    launch, outer = cursor.launch, cursor.around
    if launch is None or not _repeats(loop) or any(map(_repeats, outer[outer.index(launch) : -1])):
        return loop
    names: dict[E.Expr, E.Var] = {}
    result = _replace_calls(launch, loop, names)
    return [*(S.Let(var=var, value=call, loc=loop.loc) for call, var in names.items()), result]


def _repeats(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` is a loop that is not unrolled."""
    return isinstance(stmt, S.For) and stmt.kind not in UNROLLED


def _replace_calls(launch: S.Launch, stmt: S.Stmt, names: dict[E.Expr, E.Var]) -> S.Stmt:
    """``stmt``, a loop or a part of one, with ``names`` for calls."""
    if isinstance(stmt, (S.If, S.While)):
        return stmt

    def named(expr: E.Expr) -> E.Expr:
        fixed = isinstance(expr, E.Call) and expr.atom is operations.WARP_UNIFORM
        if fixed and expr.variables <= set(launch.thread_vars):
            return names.setdefault(expr, E.Var("group", expr.dtype))
        return rebuild(expr, named)

    if not tuple(stmt.blocks()):
        return map_exprs(stmt, named)
    return rewrite_blocks(stmt, lambda block: _replace_calls(launch, block, names))


hoist_invariants = Phase(
    offset_descriptors, hoist_loop_invariants, divide_by_reciprocals, hoist_warp_uniform
)  # fmt: skip
