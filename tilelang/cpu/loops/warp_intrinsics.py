"""Warp intrinsics on the CPU: shuffles, votes and reductions of a warp or block as plain loops.

A warp is 32 consecutive linear thread indices. Each operation becomes a loop in which every thread
stores its operand to a slot, loops that combine the slots, and reads of the slots by each thread.
Results equal those of the interpreter bit for bit: reductions use the same butterfly, and lanes
that do not exist or do not participate contribute nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TypeAlias

from tilelang.cpu.loops.privatization import INT, ThreadLoops
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.lanes import WARP
from tilelang.ir.visitor import ExprRewriter, rebuild
from tilelang.transforms.analysis.combine import combine, start_of

WORD = DType("uint32")


class Exchange(ExprRewriter):
    """Writes the operations between threads that one statement holds.

    Args:
        loops: the loops over the threads of the launch.
        mask: which threads execute the statement, over the thread variables; None for all.
    """

    kinds = (E.Call,)

    def __init__(self, loops: ThreadLoops, mask: E.Expr | None) -> None:
        self.loops = loops
        self.mask = mask
        self.out: list[S.Stmt] = []
        self.lanes = -(-loops.count // WARP) * WARP

    def node(self, expr: E.Expr) -> E.Expr:
        """``expr`` with variables for the values of its exchanges, whose statements go to `out`."""
        rebuilt = rebuild(expr, self.expr)
        if isinstance(rebuilt, E.Call) and rebuilt.atom.exchanges:
            return _WRITERS[rebuilt.op](self, rebuilt)
        return rebuilt

    # -- pieces ----------------------------------------------------------------------------------
    def slots(self, name: str, dtype: DType, first: E.Expr) -> Buffer:
        """One element per lane of all warps, set to ``first``."""
        buffer = Buffer(name, Shape((self.lanes,)), dtype, "local")
        lane = E.Var("lane", INT)
        self.out.append(S.Alloc(buffer=buffer))
        self.over(self.lanes, lane, S.Store(buffer=buffer, indices=(lane,), value=first))
        return buffer

    def over(self, count: int, var: E.Var, *body: S.Stmt) -> None:
        """A plain loop."""
        self.out.append(plain_loop(var, count, *body))

    def gather(self, name: str, value: E.Expr, first: E.Expr, all_lanes: bool = False) -> Buffer:
        """The operand of each executing thread in its slot, ``first`` in the others."""
        buffer = self.slots(name, value.dtype, first)
        t = E.Var("t", INT)
        store = S.Store(buffer=buffer, indices=(t,), value=value)
        self.out.append(self.loops.over([store], None if all_lanes else self.mask, t))
        return buffer

    def each(self, name: str, value: Callable[[E.Var], E.Expr], dtype: DType) -> E.Expr:
        """A variable that has ``value(t)`` in each executing thread ``t``."""
        var = E.Var(name, dtype)
        alloc, buffer = self.loops.keep(var)
        t = E.Var("t", INT)
        store = S.Store(buffer=buffer, indices=(t,), value=E.cast(value(t), dtype))
        self.out += [alloc, self.loops.over([store], self.mask, t)]
        return var

    def words(self, name: str, flags: Buffer) -> Buffer:
        """The bit masks of the warps from the bools of their lanes."""
        words = Buffer(name, Shape((self.lanes // WARP,)), WORD, "local")
        warp, lane = E.Var("warp", INT), E.Var("lane", INT)
        word = E.Load(words, (warp,))
        flag = E.cast(E.Load(flags, (warp * WARP + lane,)), WORD)
        bit = E.binary("shl", flag, E.cast(lane, WORD))
        step = S.Store(buffer=words, indices=(warp,), value=E.binary("bitor", word, bit))
        self.out.append(S.Alloc(buffer=words))
        zero = S.Store(buffer=words, indices=(warp,), value=E.const(0, WORD))
        self.over(self.lanes // WARP, warp, zero, plain_loop(lane, WARP, step))
        return words

    def present(self, call: E.Call) -> Buffer:
        """Whether the thread of each lane executes and is named by the mask operand, its second."""
        named: E.Expr = E.const(True)
        if len(call.args) > 1:
            bits = E.cast(call.args[1], WORD)
            lane = E.cast(self.linear() % WARP, WORD)
            named = E.binary("ne", E.binary("bitand", E.binary("shr", bits, lane), 1), 0)
        return self.gather("present", named, E.const(False))

    def linear(self) -> E.Expr:
        """The linear thread index over the thread variables."""
        x, y, _ = self.loops.launch.threads
        tx, ty, tz = self.loops.launch.thread_vars
        return E.as_expr(tx + ty * x + tz * (x * y))


Writer: TypeAlias = "Callable[[Exchange, E.Call], E.Expr]"


def exchanges(expr: E.Expr) -> bool:
    """Whether evaluating ``expr`` needs what other threads have."""
    return any(call.atom.exchanges for call in E.find(expr, E.Call))


def plain_loop(var: E.Var, count: int, *body: S.Stmt) -> S.For:
    """``body`` for ``var`` from 0 to ``count``."""
    return S.counted(var, count, S.seq(*body))


def _is_speculatable(value: E.Expr) -> bool:
    """Whether threads that do not execute a statement may evaluate ``value`` all the same."""
    return not E.find(value, E.Load, E.Call, E.RegionArg)


# -- shuffles --------------------------------------------------------------------------------------
def _source(kind: str, lane: E.Expr, step: E.Expr, width: E.Expr) -> E.Expr:
    """The lane of the warp that a lane reads, by the rules of ``shfl``."""
    base = E.binary("bitand", lane, E.unary("bitnot", width - 1))
    if kind == "sync":
        return E.binary("bitor", base, E.binary("bitand", step, width - 1))
    if kind == "up":
        return E.select(lane - step < base, lane, lane - step)
    if kind == "down":
        return E.select((lane - base) + step >= width, lane, lane + step)
    partner = E.binary("bitxor", lane, step)
    return E.select(partner >= base + width, lane, partner)


def _shuffle(kind: str) -> Writer:
    def write(x: Exchange, call: E.Call) -> E.Expr:
        value = call.args[0]
        # The value of an inactive lane is undefined; this one costs nothing.
        table = x.gather("own", value, E.const(0, value.dtype), _is_speculatable(value))
        width = (
            E.cast(call.args[2], INT) if len(call.args) > 2 else E.const(call.attr("width", WARP))
        )
        step = E.cast(call.args[1], INT)

        def read(t: E.Var) -> E.Expr:
            lane = t % WARP
            source = E.binary("bitand", _source(kind, lane, step, width), WARP - 1)
            return E.Load(table, (t - lane + source,))

        return x.each("taken", read, value.dtype)

    return write


# -- reductions ------------------------------------------------------------------------------------
def _warp_reduce(op: str) -> Writer:
    def write(x: Exchange, call: E.Call) -> E.Expr:
        dtype = call.args[0].dtype
        table = x.gather("part", call.args[0], start_of(op, dtype))
        next_table = Buffer("next", table.shape, dtype, "local")
        x.out.append(S.Alloc(buffer=next_table))
        for step in (16, 8, 4, 2, 1):
            lane = E.Var("lane", INT)
            partner = E.Load(table, (E.binary("bitxor", lane, step),))
            value = combine(op, E.Load(table, (lane,)), partner)
            x.over(x.lanes, lane, S.Store(buffer=next_table, indices=(lane,), value=value))
            table, next_table = next_table, table
        return x.each("total", lambda t: E.Load(table, (t,)), call.dtype)

    return write


def _allreduce(x: Exchange, call: E.Call) -> E.Expr:
    """Halves are folded onto each other, as the interpreter folds them."""
    op, dtype = str(call.attr("op", "sum")), call.args[0].dtype
    nothing = start_of(op, dtype)
    takes = E.binary("ne", call.args[1], E.const(0, call.args[1].dtype))
    table = x.gather("part", E.select(takes, call.args[0], nothing), nothing)
    axis, dims = call.attr("axis", None), x.loops.launch.threads
    extent = x.loops.count if axis is None else dims[int(axis)]
    stride = 1 if axis is None else prod(dims[: int(axis)])
    count = extent
    while count > 1:
        half = count // 2
        lane = E.Var("lane", INT)
        group_lane = lane // stride % extent
        far = E.Load(table, (lane + half * stride,))
        folded = combine(op, E.Load(table, (lane,)), far)
        store = S.Store(buffer=table, indices=(lane,), value=folded)
        x.over(x.loops.count, lane, S.If(cond=group_lane < half, then=store))
        if count % 2:  # the last one moves up
            lane = E.Var("lane", INT)
            far = E.Load(table, (lane + half * stride,))
            store = S.Store(buffer=table, indices=(lane,), value=far)
            x.over(
                x.loops.count, lane,
                S.If(cond=E.binary("eq", lane // stride % extent, half), then=store),
            )  # fmt: skip
        count = half + count % 2
    return x.each(
        "total", lambda t: E.Load(table, (t - t // stride % extent * stride,)), call.dtype
    )


# -- votes -----------------------------------------------------------------------------------------
def _true(value: E.Expr) -> E.Expr:
    return value if value.dtype.is_bool else E.binary("ne", value, E.const(0, value.dtype))


def _votes(x: Exchange, call: E.Call) -> tuple[Buffer, Buffer]:
    """The masks of the warps: which lanes vote yes, and which vote."""
    present = x.present(call)
    yes = x.gather("vote", _true(call.args[0]), E.const(False))
    lane = E.Var("lane", INT)
    votes = E.binary("land", E.Load(yes, (lane,)), E.Load(present, (lane,)))
    x.over(x.lanes, lane, S.Store(buffer=yes, indices=(lane,), value=votes))
    return x.words("votes", yes), x.words("members", present)


def _word_at(words: Buffer, t: E.Var) -> E.Expr:
    return E.Load(words, (t // WARP,))


def _any(x: Exchange, call: E.Call) -> E.Expr:
    yes, _ = _votes(x, call)
    return x.each("any", lambda t: E.binary("ne", _word_at(yes, t), E.const(0, WORD)), call.dtype)


def _all(x: Exchange, call: E.Call) -> E.Expr:
    yes, lanes = _votes(x, call)
    return x.each("all", lambda t: E.binary("eq", _word_at(yes, t), _word_at(lanes, t)), call.dtype)


def _ballot(x: Exchange, call: E.Call) -> E.Expr:
    yes, _ = _votes(x, call)
    return x.each("ballot", lambda t: _word_at(yes, t), call.dtype)


def _activemask(x: Exchange, call: E.Call) -> E.Expr:
    members = x.words("members", x.present(call))
    return x.each("members", lambda t: _word_at(members, t), call.dtype)


def _match(is_all: bool) -> Writer:
    def write(x: Exchange, call: E.Call) -> E.Expr:
        value = call.args[0]
        present = x.present(call)
        table = x.gather("own", value, E.const(0, value.dtype))
        matches = x.slots("found", WORD, E.const(0, WORD))
        lane, peer = E.Var("lane", INT), E.Var("other", INT)
        far = lane - lane % WARP + peer
        is_equal = E.binary("eq", E.Load(table, (far,)), E.Load(table, (lane,)))
        bits = E.cast(E.binary("land", E.Load(present, (far,)), is_equal), WORD)
        bit = E.binary("shl", bits, E.cast(peer, WORD))
        word = E.binary("bitor", E.Load(matches, (lane,)), bit)
        step = S.Store(buffer=matches, indices=(lane,), value=word)
        x.over(x.lanes, lane, plain_loop(peer, WARP, step))
        if not is_all:
            return x.each("matching", lambda t: E.Load(matches, (t,)), call.dtype)
        members = x.words("members", present)

        def whole(t: E.Var) -> E.Expr:
            agree = E.binary("eq", E.Load(matches, (t,)), _word_at(members, t))
            return E.select(agree, _word_at(members, t), E.const(0, WORD))

        return x.each("matching", whole, call.dtype)

    return write


def _block_vote(op: str, first: int) -> Writer:
    def write(x: Exchange, call: E.Call) -> E.Expr:
        total = Buffer("votes", Shape((1,)), INT, "local.var")
        zero = (E.const(0),)
        x.out.append(S.Alloc(buffer=total, init=E.const(first)))
        value = E.binary(op, E.Load(total, zero), E.cast(_true(call.args[0]), INT))
        x.out.append(x.loops.over([S.Store(buffer=total, indices=zero, value=value)], x.mask))
        return x.each("votes", lambda _: E.Load(total, zero), call.dtype)

    return write


def _elect(x: Exchange, call: E.Call) -> E.Expr:
    """True in the first thread of each group of the given extent (0: of the block)."""
    extent, count = call.args[0], E.const(x.loops.count)
    size = E.select(E.cast(extent, INT) > 0, E.cast(extent, INT), count)
    return E.binary("eq", E.binary("floormod", x.linear(), size), 0)


_WRITERS: dict[str, Writer] = {
    **{f"shfl_{kind}": _shuffle(kind) for kind in ("sync", "xor", "up", "down")},
    **{f"warp_reduce_{op}": _warp_reduce(op) for op in ("sum", "max", "min", "bitand", "bitor")},
    "syncthreads_count": _block_vote("add", 0), "syncthreads_and": _block_vote("bitand", 1),
    "syncthreads_or": _block_vote("bitor", 0), "any_sync": _any, "all_sync": _all,
    "ballot_sync": _ballot, "ballot": _ballot, "activemask": _activemask,
    "match_any_sync": _match(False), "match_all_sync": _match(True), "shuffle_elect": _elect,
    "thread_allreduce": _allreduce,
}  # fmt: skip
