"""Products of warpgroups that the program leaves in flight until it waits for them itself.

``T.wgmma_gemm`` and ``T.gemm(wg_wait=-1)`` leave their group of instructions open; the program
waits with ``T.wait_wgmma(n)`` for all groups but the ``n`` last. Its waits say here which
accumulators they complete: the device's compiler does not know that registers are written later.
Where an accumulator is used, or an operand overwritten, before such a wait, one is added, and a
remark in ``explain()`` names the line. The order in which other threads overwrite operands in
shared memory is the program's own, as with any other copy of its own.

Products that the tensor core cannot leave open, and all of a kernel whose loops may end early, are
complete where they stand.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.errors import Loc, TileUnsupportedError
from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Region
from tilelang.ir.visitor import map_stmts, rewrite_blocks, rewrite_launches
from tilelang.target import Context
from tilelang.transforms.analysis import in_flight_wgmma as P

_LEAVES = (S.Break, S.Continue, S.ThreadReturn)


def keep_user_wgmma_waits(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with asynchronous products that may stay in flight, and with ``WaitProducts`` for
    the waits of the program and for those that it lacks.

    Relied on: products have their plans.
    """

    def kept(launch: S.Launch) -> S.Stmt:
        nodes = list(S.walk(launch.body))
        if not any(isinstance(node, S.Gemm) and node.asynchronous for node in nodes):
            return launch
        if any(isinstance(node, _LEAVES) for node in nodes):
            return map_stmts(launch, S.Gemm, lambda gemm: replace(gemm, asynchronous=False))
        waits = _UserWaits()
        body, after = waits.visit(launch.body, P.NOTHING)
        launch = replace(launch, body=S.seq(body, *waits.wait(0, after, body)[0]))
        if not waits.added:
            return launch
        return replace(launch, hints=replace(launch.hints, remarks=tuple(waits.added)))

    return rewrite_launches(func, kept)


class _UserWaits:
    """One launch. ``visit`` gives what stands for a statement, and what may be in flight then."""

    def __init__(self) -> None:
        self.added: dict[tuple[str, Loc | None], None] = {}
        self.overwritten: TileUnsupportedError | None = None  # why a wait needs a barrier behind it

    def visit(self, stmt: S.Stmt, before: P.Pending) -> tuple[S.Stmt, P.Pending]:
        """``stmt`` with its waits."""
        if isinstance(stmt, S.Seq):
            result: list[S.Stmt] = []
            for inner in stmt.stmts:
                visited, before = self.visit(inner, before)
                parts = S.flat(visited)
                if self.overwritten and parts and isinstance(parts[0], H.WaitProducts):
                    self.complete_before_barrier(result, parts[0])
                    result += parts[1:]
                else:
                    result.append(visited)
                self.overwritten = None
            return S.seq(*result), before
        newer = _waits(stmt)
        if newer is not None:
            wait, after = self.wait(newer, before, stmt)
            return S.seq(*(wait or [stmt])), after
        added, before = self.waits_before(stmt, before)
        inside, after = self.inside(stmt, before)
        return S.seq(*added, inside), after

    def complete_before_barrier(self, stmts: list[S.Stmt], wait: H.WaitProducts) -> None:
        """Put ``wait`` before the barrier in front of it: behind that, one thread overwrites what
        the products of all warps have read.

        Raises:
            TileUnsupportedError: there is no barrier.
        """
        at = len(stmts)
        while at and any(map(P.orders_threads, S.walk(stmts[at - 1]))):
            at -= 1
        if at == len(stmts) and self.overwritten is not None:
            raise self.overwritten
        stmts.insert(at, wait)

    def inside(self, stmt: S.Stmt, before: P.Pending) -> tuple[S.Stmt, P.Pending]:
        """A statement behind the waits that it needs itself."""
        if isinstance(stmt, S.Gemm) and P.can_stay_in_flight(stmt):
            if stmt.asynchronous:
                return stmt, P.after_issue(before, stmt)
            wait, after = self.wait(0, P.after_issue(before, stmt), stmt)
            return S.seq(replace(stmt, asynchronous=True), *wait), after
        if isinstance(stmt, S.Gemm):
            return replace(stmt, asynchronous=False), before
        if isinstance(stmt, S.If):
            then, after = self.visit(stmt.then, before)
            orelse, other = None, before
            if stmt.orelse is not None:
                orelse, other = self.visit(stmt.orelse, before)
            return replace(stmt, then=then, orelse=orelse), P.merge(after, other)
        if isinstance(stmt, (S.For, S.While)):
            while True:
                body, after = self.visit(stmt.body, before)
                both = P.merge(before, after)
                if both == before:
                    return replace(stmt, body=body), both
                before = both
        if isinstance(stmt, (S.Attr, H.Pipeline, H.Run)):
            body, after = self.visit(stmt.body, before)
            return rewrite_blocks(stmt, lambda _: body), after
        return stmt, before

    def wait(self, newer: int, before: P.Pending, at: S.Stmt) -> tuple[list[S.Stmt], P.Pending]:
        """The wait for all groups but the ``newer`` last; none where none is known."""
        after = P.after_wait(before, newer)
        if not before:
            return [], after
        sums = {
            product.c.buffer.data: product.c.buffer.whole()
            for product in before
            if product not in after
        }
        regions: tuple[Region, ...] = tuple(sums.values())
        return [H.WaitProducts(newer=newer, sums=regions, loc=at.loc)], after

    def waits_before(self, stmt: S.Stmt, before: P.Pending) -> tuple[list[S.Stmt], P.Pending]:
        """The wait for products in flight that ``stmt`` needs to be complete."""
        nested = isinstance(stmt, (S.Parallel, S.ReducerUpdate)) or not stmt.blocks()
        needed: list[S.Gemm] = []
        for access in effects.accesses(stmt, nested=nested) if before else ():
            for product in before:
                role = _role(product, access, stmt)
                if role:
                    needed.append(product)
                    if role == "operand" and access.buffer.storage != product.c.buffer.storage:
                        self.overwritten = _unordered(product, access, stmt)
                    self.added[_remark(product, role, access), stmt.loc] = None
        newer = P.depth(before, needed)
        return ([], before) if newer is None else self.wait(newer, before, stmt)


def _waits(stmt: S.Stmt) -> int | None:
    """How many groups the wait ``stmt`` leaves in flight."""
    call = stmt.call
    if call is None or call.atom.orders is None:
        return None
    if (call.atom.orders.kind, call.atom.orders.group) != ("wait", P.GROUP):
        return None
    count = call.args[0] if call.args else None
    return int(count) if isinstance(count, E.Const) else None


def _role(product: S.Gemm, access: effects.Access, stmt: S.Stmt) -> str:
    """What the accessed element is to ``product`` in flight: its "accumulator", its "operand" or
    nothing. Of operands in shared memory only what is certainly the same element."""
    if access.mode == effects.NAME:
        return ""
    if access.data is product.c.buffer.data:
        return "" if P.continues(stmt, product) else "accumulator"
    for operand in (product.a, product.b):
        if access.data is not operand.buffer.data or not access.writes:
            continue
        if operand.buffer.storage == product.c.buffer.storage:
            return "operand"
        if isinstance(access.where, Region):
            if E.same_exprs(access.region.mins, operand.mins):
                return "operand"
    return ""


def _unordered(product: S.Gemm, access: effects.Access, stmt: S.Stmt) -> TileUnsupportedError:
    name = access.buffer.name
    line = f" of line {product.loc.line}" if product.loc is not None else ""
    return TileUnsupportedError(
        f"`{name}` is overwritten while the product{line} may still read it in other warps",
        expected="T.wait_wgmma(n) and a barrier between them",
        got="no barrier of the block between them",
        hint="T.gemm waits for itself",
        loc=stmt.loc,
    )


def _remark(product: S.Gemm, role: str, access: effects.Access) -> str:
    line = f" of line {product.loc.line}" if product.loc is not None else ""
    return (
        f"waits for the product{line}, whose {role} `{access.buffer.name}` is: "
        f"no T.wait_wgmma stands between them on every way"
    )
