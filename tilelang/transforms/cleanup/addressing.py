"""Addressing modes, predicates and strength reduction: the final form of indices and conditions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import TypeAlias

import numpy as np

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.atoms import Effect, group
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.facts import plain_values
from tilelang.ir.indices import displaced, is_index
from tilelang.ir.linear import Linear
from tilelang.ir.simplify import simplify
from tilelang.ir.tables import MBARRIER_WAIT, VECTOR_COPY
from tilelang.ir.uniform import Varying
from tilelang.ir.visitor import ExprRewriter, Rewriter, map_stmts, replace_changed
from tilelang.records import dataclass
from tilelang.target import operations
from tilelang.transforms.analysis import loops
from tilelang.transforms.analysis.groups import Mask, thread_mask, thread_number
from tilelang.transforms.normalize.overlaps import separate_tensors
from tilelang.transforms.rules import Cursor, Phase, rule

_COPIES = (operations.TMA_LOAD_BOX, operations.TMA_LOAD_PIXELS)


@rule(S.Launch, needs="elect", where=lambda _, context: context.has("tma"))
def elect_lanes(launch: S.Launch, cursor: Cursor) -> S.Launch:
    """Elect one lane for TMA and mbarrier operations.

    Instructions of TMA take their operands from registers of a warp. Behind a condition on the
    number of a thread the assembler does not know that one lane is there alone: each copy gets a
    loop over the lanes that might be. Behind `elect.sync` (PTX, "elect.sync") there is none, and a
    producer fills a stage again sooner.

    The rule: the branch of one thread, the first of a warp that comes there whole, is the last that
    its warp does and has a loop of copies of boxes; if all lanes took it, all would do the same. So
    any of them may, and nothing that it leaves in registers is read later.
    """
    return _Elected(launch, cursor.context.limits.warp).launch()


class _Elected:
    """One launch; masks are of the threads that reach a statement."""

    def __init__(self, kernel: S.Launch, warp: int) -> None:
        self.kernel = kernel
        self.warp = warp

    def launch(self) -> S.Launch:
        """The launch with elected threads."""
        everyone = np.ones(prod(self.kernel.threads), np.bool_)
        return self.kernel.with_body(self.last(self.kernel.body, everyone))

    def last(self, stmt: S.Stmt, mask: Mask) -> S.Stmt:
        """``stmt``, the last that the threads of ``mask`` do."""
        if isinstance(stmt, S.Seq) and stmt.stmts:
            tail = self.last(stmt.stmts[-1], mask)
            return stmt if tail is stmt.stmts[-1] else S.seq(*stmt.stmts[:-1], tail)
        entering = thread_mask(stmt.cond, self.kernel) if isinstance(stmt, S.If) else None
        if entering is None:
            return stmt
        assert isinstance(stmt, S.If)
        elected = self.elected(stmt, mask, mask & entering)
        if elected is not None:
            return elected
        then = self.last(stmt.then, mask & entering)
        orelse = stmt.orelse and self.last(stmt.orelse, mask & ~entering)
        return replace_changed(stmt, then=then, orelse=orelse)

    def elected(self, stmt: S.If, mask: Mask, entering: Mask) -> S.If | None:
        """The rule, for a branch that the threads ``entering`` of ``mask`` take; None elsewhere."""
        if stmt.orelse is not None or entering.sum() != 1 or not _has_copy_loop(stmt.then):
            return None
        first = int(np.flatnonzero(entering)[0])
        lanes = slice(first, first + self.warp)
        if first % self.warp or not mask[lanes].all():
            return None
        alone = _Seen(self.kernel, slice(first, first + 1)).rewrite(stmt.then)
        seen = _Seen(self.kernel, lanes, (stmt, alone)).rewrite(self.kernel.body)
        if Varying(replace(self.kernel, body=seen)).touches(alone):
            return None
        own_warp = (thread_number(self.kernel) // self.warp).equal(first // self.warp)
        return replace(
            stmt, cond=E.binary("land", own_warp, E.call(operations.ELECT_ONE)), then=alone
        )


def _has_copy_loop(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` has a loop of copies of boxes."""
    return any(
        call.atom in _COPIES
        for loop in S.find(stmt, S.For)
        if loop.kind not in loops.UNROLLED
        for call in S.calls(loop)
    )


class _Seen(Rewriter):
    """The statements that the threads ``lanes`` execute; ``instead`` names a branch, and the side
    of it that all of them take."""

    def __init__(
        self, launch: S.Launch, lanes: slice, instead: tuple[S.If, S.Stmt] | None = None
    ) -> None:
        self.launch = launch
        self.lanes = lanes
        self.instead = instead

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        if not isinstance(stmt, S.If):
            return super()._visit(stmt)
        if self.instead is not None and stmt is self.instead[0]:
            return self.instead[1]
        entering = thread_mask(stmt.cond, self.launch)
        if entering is None or entering[self.lanes].any() != entering[self.lanes].all():
            return super()._visit(stmt)
        side = stmt.then if entering[self.lanes].all() else stmt.orelse
        return [] if side is None else super()._visit(side)


@dataclass(frozen=True)
class Remainder:
    """``(var + first + ahead) % size``, or with ``phase`` ``(var + first + ahead) // size % 2``."""

    size: int
    ahead: int
    first: tuple[tuple[E.Expr, int], ...]
    kind: str
    phase: bool = False

    @property
    def order(self) -> tuple[bool, int, str, int]:
        """Stages before phases, those that follow each other together."""
        return self.phase, self.size, repr(self.first), self.ahead


@rule(S.For)
def reduce_modulo(loop: S.For, cursor: Cursor) -> S.Stmt:
    """Strength reduction: remainders of a loop variable become counters that wrap around.

    The stages of a pipeline are ``(k + c) % S``. Where S is not a power of two, the division is a
    chain of operations (a multiplication by the reciprocal, a shift, a multiplication, a
    subtraction) in every iteration, before the addresses of all copies and loads are known.
    In loops with asynchronous copies, and in those that wait for them on mbarriers, each such
    remainder gets a name at the head of the iteration. The loop increments these names; its hint
    ``counted`` is the number of such statements at its head. The value of each name stays in the
    program, so that other passes see plain arithmetic.

    A loop of mbarriers also counts the parity of its phases, ``(k + c) // S % 2``, which changes
    when the stage wraps around. ``c`` is what the loop does not change: the item that it begins
    with, too.

    Relies on stages being written as remainders of the loop variable; indices are exact, so that a
    remainder that rounds down is never negative.
    """
    reducible = remainders(loop)
    if not reducible:
        return loop
    names = {
        form: E.Var("phase" if form.phase else "stage", DType(form.kind))
        for form in sorted(reducible, key=lambda form: form.order)
    }
    lets = [
        S.Let(var=name, value=_value(loop.var, form), loc=loop.loc) for form, name in names.items()
    ]
    body = _Named(loop.var, names).rewrite(loop.body)
    return replace(loop, body=S.seq(*lets, body), hints=replace(loop.hints, counted=len(lets)))


def remainders(loop: S.For) -> set[Remainder]:
    """The remainders to count in ``loop``."""
    if loop.kind != "serial" or not isinstance(loop.start, E.Const):
        return set()
    if not isinstance(loop.step, E.Const) or loop.step.value != 1:
        return set()
    roots = [root for stmt in S.walk(loop.body) for root in stmt.exprs()]
    calls = [call for root in roots for call in E.find(root, E.Call)]
    phases = any(call.atom is MBARRIER_WAIT for call in calls)
    if not phases and not any(call.atom.completes == group("cp_async") for call in calls):
        return set()
    bound = S.bound(loop.body)
    inside = (node for root in roots for node in E.find(root, E.Binary))
    forms = (_form(node, loop.var) for node in inside)
    result = {
        form
        for form, _ in (result for result in forms if result is not None)
        if (phases or not (form.phase or form.first))
        and all(bound.isdisjoint(term.variables) for term, _ in form.first)
        and not any(E.holds(term, E.Load, E.Call) for term, _ in form.first)
    }
    return result | {replace(form, phase=False) for form in result}  # phases change with stages


def _form(expr: E.Expr, var: E.Var) -> tuple[Remainder, bool] | None:
    """The form of a remainder where S is not a power of two (then it is a mask). And whether
    ``expr`` is the other phase."""
    if not isinstance(expr, E.Binary) or expr.op != "floormod" or not isinstance(expr.b, E.Const):
        return None
    size, inner, other = int(expr.b.value), expr.a, False
    phase = _quotient(inner) if size == 2 else None
    if phase is not None:
        inner, size, other = phase
    if size < 3 or size & (size - 1) == 0:
        return None
    form = Linear.of(inner)
    first = tuple(pair for pair in form.terms if pair[0] is not var)
    if form.factor(var) != 1 or any(var in term.variables for term, _ in first):
        return None
    return Remainder(size, form.constant, first, str(expr.dtype), phase is not None), other


def _quotient(expr: E.Expr) -> tuple[E.Expr, int, bool] | None:
    """``x``, ``S`` and whether c is odd of ``x // S + c``."""
    form = Linear.of(expr)
    if len(form.terms) != 1 or form.terms[0][1] != 1:
        return None
    term = form.terms[0][0]
    if not isinstance(term, E.Binary) or term.op != "floordiv" or not isinstance(term.b, E.Const):
        return None
    return term.a, int(term.b.value), form.constant % 2 == 1


def _value(var: E.Var, form: Remainder) -> E.Expr:
    moved: E.Expr = E.binary("add", var, E.const(form.ahead, var.dtype))
    for term, factor in form.first:
        moved = moved + term * factor
    size = E.const(form.size, moved.dtype)
    if form.phase:
        return E.binary("floormod", E.binary("floordiv", moved, size), E.const(2, moved.dtype))
    return E.binary("floormod", moved, size)


class _Named(ExprRewriter):
    """Puts the counters where the remainders are."""

    def __init__(self, var: E.Var, names: dict[Remainder, E.Var]) -> None:
        self.var = var
        self.names = names

    def node(self, expr: E.Expr) -> E.Expr:
        """``expr`` with its remainders replaced."""
        if self.var not in expr.variables:
            return expr
        form, other = _form(expr, self.var) or (None, False)
        name = None if form is None else self.names.get(form)
        if name is None:
            return super().node(expr)
        return E.binary("bitxor", name, E.const(1, name.dtype)) if other else name


MANY = 64  # matrix instructions of one iteration


@rule(S.If, needs="cp_async")
def predicate_copies(stmt: S.If, cursor: Cursor) -> S.Stmt | list[S.Stmt]:
    """Predicate cp.async instructions of prologues.

    The last iterations of a pipeline start no copies, so that one condition covers all copies of
    an iteration. The assembler moves nothing across a branch; with a predicate at each copy it can
    spread the copies over the matrix instructions of the iteration, whose time hides theirs. Below
    `MANY` instructions there is nothing to spread them over, and one branch is cheaper.

    Relies on copies being single instructions, whose addresses may be computed whether they are
    made or not: nothing below reads the conditions around accesses.
    """
    *around, branch = cursor.around
    outer = [node for node in around if isinstance(node, S.For) and not loops.is_unrolled(node)]
    assert isinstance(branch, S.If)
    if not outer or stmt.orelse is not None or not has_only_copies(branch.then):
        return stmt
    if loops.matrix_calls(outer[-1].body) < MANY:
        return stmt
    more = E.Var("more", stmt.cond.dtype)
    let = S.Let(var=more, value=stmt.cond, loc=stmt.loc)
    return [let, map_stmts(stmt.then, S.Eval, partial(_predicated_copy, more))]


def _predicated_copy(predicate: E.Var, stmt: S.Eval) -> S.Stmt:
    """A copy with a predicate, its last operand."""
    call = stmt.value
    if not isinstance(call, E.Call):
        return stmt
    args, attrs = (*call.args, predicate), (*call.attrs, ("predicated", True))
    return replace(stmt, value=E.Call(call.atom, args, call.dtype, attrs))


def has_only_copies(stmt: S.Stmt) -> bool:
    """Whether `stmt` is asynchronous copies and nothing else, at addresses that are computed
    without reading memory: each can then have a condition of its own."""
    if isinstance(stmt, S.Seq):
        return all(map(has_only_copies, stmt.stmts))
    if isinstance(stmt, S.For):
        return stmt.kind in loops.UNROLLED and _calls_only_copy(stmt) and has_only_copies(stmt.body)
    if isinstance(stmt, S.Let):
        return _calls_only_copy(stmt)
    return isinstance(stmt, S.Eval) and _is_copy(stmt.value) and _calls_only_copy(stmt)


def _is_copy(expr: E.Expr) -> bool:
    return isinstance(expr, E.Call) and expr.atom.completes == group("cp_async")


def _calls_only_copy(stmt: S.Stmt) -> bool:
    """Whether the expressions of `stmt` read nothing and call nothing but the copy."""
    return not any(
        isinstance(node, E.Load) or (isinstance(node, E.Call) and not _is_copy(node))
        for root in stmt.exprs()
        for node in E.walk(root)
    )


_Vars: TypeAlias = frozenset[E.Var]


@rule(S.Eval)
def split_addresses(stmt: S.Eval, cursor: Cursor) -> S.Stmt:
    """Split addresses into a register and an immediate offset.

    These instructions have the addressing mode base + immediate: one register, and a number of
    bytes in the instruction itself. In an unrolled loop that copies them out, their addresses
    differ by constants only, so that one register serves all copies. The compiler finds that for
    loads of its own but not for the operands of inline assembly: it adds the constant to the
    register before each instruction, which costs an instruction and a register per copy. So what is
    constant in every iteration is a displacement of the index
    (:func:`tilelang.ir.indices.displaced`).

    Which instructions those are is a field of their rows, ``displaces``. Relies on indices being
    as they are printed: the unchanging parts of sums in loops have names, and no pass below
    rebuilds a sum. Only index arithmetic is split, which is exact.
    """
    call = stmt.call
    if call is None or not call.atom.displaces:
        return stmt
    outer = (node for node in cursor.around if isinstance(node, S.For) and loops.is_unrolled(node))
    copied, values = frozenset(loop.var for loop in outer), cursor.of(_values, cursor.kernel)
    args = tuple(_operand(arg, copied, values) for arg in call.args)
    if all(a is b for a, b in zip(args, call.args)):
        return stmt
    return S.Eval(value=E.Call(call.atom, args, call.dtype, call.attrs), loc=stmt.loc)


def _values(launch: S.Launch) -> _Vars:
    """The variables that are no index arithmetic."""
    return plain_values(launch.body)


def _operand(arg: E.Expr, copied: _Vars, values: _Vars) -> E.Expr:
    """An address in memory whose units are elements, split."""
    if not isinstance(arg, E.AddressOf) or arg.buffer.dtype.bits < 8:
        return arg
    if arg.buffer.storage == "global":
        indices = _strided(arg.buffer, arg.indices, copied, values)
    elif arg.buffer.storage.startswith("shared") and len(arg.indices) == 1:
        indices = (_flat(arg.indices[0], copied, values),)
    else:
        return arg
    is_unchanged = all(a is b for a, b in zip(indices, arg.indices))
    return arg if is_unchanged else replace(arg, indices=indices)


def _flat(index: E.Expr, copied: _Vars, values: _Vars) -> E.Expr:
    """An index of shared memory: what is added last of it is constant."""
    start: E.Expr = index
    offset: E.Expr = E.const(0)
    while isinstance(start, E.Binary) and start.op == "add" and _is_fixed(start.b, copied, values):
        offset = E.binary("add", start.b, offset)
        start = start.a
    offset = simplify(offset)
    if isinstance(start, E.Const) or (isinstance(offset, E.Const) and not offset.value):
        return index
    return displaced(start, offset)


def _strided(
    buffer: Buffer, indices: tuple[E.Expr, ...], copied: _Vars, values: _Vars
) -> tuple[E.Expr, ...]:
    """The indices of a tensor: terms that are constant, along dimensions whose stride is."""
    result = []
    for index, stride in zip(indices, buffer.stride_list()):
        form = Linear.of(index)
        moved = tuple(pair for pair in form.terms if _is_fixed(pair[0], copied, values))
        if moved and isinstance(stride, (int, E.Const)) and is_index(index, values):
            varying = tuple(pair for pair in form.terms if not _is_fixed(pair[0], copied, values))
            start = replace(form, terms=varying).expr()
            index = displaced(start, Linear(moved, 0, form.dtype).expr())
        result.append(index)
    return tuple(result)


def _is_fixed(expr: E.Expr, copied: _Vars, values: _Vars) -> bool:
    """Whether ``expr`` is a constant in every copy of the unrolled loops."""
    return expr.variables <= copied and is_index(expr, values)


LEAST, MOST = 8, 32  # iterations that become one; the device's compiler joins a few by itself
REGISTERS, NODES = 128, 12288  # of the loads and expressions of all of them, at most
_BARS = (Effect.ATOMIC, Effect.SYNC, Effect.OUTPUT)  # loads do not pass them


@rule(S.For, needs="cp_async")
def unroll_loads(loop: S.For, cursor: Cursor) -> S.Stmt:
    """Unroll loops that load where a small grid has too few bytes in flight.

    A grid that does not fill the multiprocessors has few threads to hide the latency of memory:
    each has to ask for more at once (column sums of 8192 x 2048 by 32 blocks on an H200: 29 us as
    the compiler unrolls, 24 with eight iterations; a recurrence: 111 us with 16, 96 with 32).
    Loops of any number of iterations may have few, and stay.
    """
    limits, trips, (size, nodes) = cursor.context.limits, loops.trip_count(loop), _cost(loop.body)
    if loop.kind != "serial" or not size or not trips or cursor.launch is None:
        return loop
    threads = loops.blocks_each(cursor.launch, limits) * prod(cursor.launch.threads)
    if threads * 2 > limits.threads_processor:
        return loop
    limit, factor = min(MOST, 4 * REGISTERS // size, NODES // nodes, trips // 2), 1
    while factor * 2 <= limit and factor * size * threads < loops.IN_FLIGHT:
        factor *= 2
    hints = replace(loop.hints, unroll_factor=factor)
    return loop if factor < LEAST else replace(loop, kind="unroll", hints=hints)


def _cost(stmt: S.Stmt) -> tuple[int, int]:
    """Bytes of global memory that a thread loads in ``stmt``, and nodes of expressions; more than
    may be where it waits, or has a loop of its own."""
    own = [node for expr in stmt.exprs() for node in E.walk(expr)]
    stays = isinstance(stmt, S.For) and not loops.is_unrolled(stmt)
    bars = any(isinstance(node, E.Call) and node.atom.effect in _BARS for node in own)
    if bars or stays or isinstance(stmt, (S.While, *S.LEAVES)):
        return 0, NODES + 1
    costs = [(sum(map(_bytes_loaded, own)), len(own) + 1), *map(_cost, stmt.blocks())]
    times = (loops.trip_count(stmt) or 1) if isinstance(stmt, S.For) else 1
    return times * sum(cost[0] for cost in costs), times * sum(cost[1] for cost in costs)


def _bytes_loaded(node: E.Expr) -> int:
    """Bytes of global memory that ``node`` itself loads."""
    if isinstance(node, E.Call) and node.atom is VECTOR_COPY:
        return int(node.attr("bytes")) if _is_global(node.args[1]) else 0
    return node.dtype.bits // 8 if isinstance(node, E.Load) and _is_global(node) else 0


def _is_global(expr: E.Expr) -> bool:
    return isinstance(expr, (E.Load, E.AddressOf)) and expr.buffer.storage == "global"


select_addressing = Phase(
    separate_tensors, predicate_copies, split_addresses, reduce_modulo, elect_lanes, unroll_loads
)  # fmt: skip
