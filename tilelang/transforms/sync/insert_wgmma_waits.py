"""Insert wgmma waits: products of warpgroups stay in flight until something needs their result.

Each ``Gemm`` by instructions of warpgroups leaves its group open, and a wait stands before the
first statement that needs it: one that touches the sum, overwrites an operand, or lets others do
so (see ``analysis/in_flight_wgmma.py``). What the threads do in between overlaps the product. A
loop is analyzed until the set of products that its iterations leave in flight is stable.

A pipeline stage that such products read is released after the wait that completes them
anyway, at the latest where the statements around end: the producer has the next stages
before, and needs this one for none that these threads wait for in between.

Groups are waited for where they were issued: a branch or a role ends with what was in flight
before it. A program that waits for such products itself keeps its own order.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E
from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Region
from tilelang.ir.visitor import rewrite_launches
from tilelang.target import Context
from tilelang.transforms.analysis import in_flight_wgmma as P

_NEVER = E.const(False)  # of a product that clears nothing
_BRANCHES = (S.If, S.For, S.While)  # that products may be issued in, or waited for
_LEAVES = (S.Break, S.Continue, S.ThreadReturn)


def insert_wgmma_waits(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with ``WaitProducts`` where products of warpgroups have to be complete.

    Relied on: all barriers are there, and products have their plans.
    """

    def waited(launch: S.Launch) -> S.Stmt:
        if not any(map(P.can_stay_in_flight, S.walk(launch.body))) or P.orders_itself(launch):
            return launch
        if S.holds(launch.body, *_LEAVES):
            return launch
        return replace(launch, body=_Waits(launch).whole(launch.body))

    return rewrite_launches(func, waited)


class _Waits:
    """One launch. ``visit`` gives the statements that stand for one, and what may be in flight
    behind them."""

    def __init__(self, launch: S.Launch) -> None:
        self.needs = P.Needs(launch)

    def whole(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt``, after which nothing is in flight."""
        return S.seq(*self.closed(stmt, P.NOTHING)[0])

    def closed(self, stmt: S.Stmt, before: P.Pending) -> tuple[list[S.Stmt], P.Pending]:
        """``stmt``, after which nothing is in flight that was not before it."""
        stmts, after = self.visit(stmt, before)
        issued = [product for product in after if product not in before]
        wait, after = self.wait(issued, after, stmt)
        return [*stmts, *wait], after

    def wait(
        self, products: list[S.Gemm], before: P.Pending, at: S.Stmt
    ) -> tuple[list[S.Stmt], P.Pending]:
        """The wait for ``products``."""
        newer = P.depth(before, products)
        if newer is None:
            return [], before
        after = P.after_wait(before, newer)
        sums: dict[object, Region] = {
            product.c.buffer.data: product.c.buffer.whole()
            for product in before
            if product not in after
        }
        return [H.WaitProducts(newer=newer, sums=tuple(sums.values()), loc=at.loc)], after

    def visit(self, stmt: S.Stmt, before: P.Pending) -> tuple[list[S.Stmt], P.Pending]:
        """``stmt`` with its waits."""
        if isinstance(stmt, S.Seq):
            return self.sequence(stmt, before)
        if not any(map(P.can_stay_in_flight, S.walk(stmt))):
            wait, after = self.wait(self.needs.of(stmt, before), before, stmt)
            return [*wait, stmt], after
        wait, before = self.wait(self.needs.of(stmt, before, nested=False), before, stmt)
        inside, after = self.inside(stmt, before)
        return [*wait, inside], after

    def sequence(self, stmt: S.Seq, before: P.Pending) -> tuple[list[S.Stmt], P.Pending]:
        """Statements one after another, with releases where their products are complete.

        A release is deferred past waits for the same iteration only: to fill that stage, nobody
        waits for it, as a stage reuses one that was released in an earlier iteration.
        """
        result: list[S.Stmt] = []
        deferred: list[tuple[S.Stmt, list[S.Gemm]]] = []
        for inner in stmt.stmts:
            needed = self.needs.of(inner, before) if isinstance(inner, H.Release) else []
            if needed and not self.needs.is_user_synchronized:
                deferred.append((inner, needed))
                continue
            if deferred and not _can_defer_past(inner, [release for release, _ in deferred]):
                visited, before = self.flush(deferred, before)
                result += visited
                deferred = []
            visited, before = self.visit(inner, before)
            ready = [
                held_release
                for held_release, products in deferred
                if not any(map(before.__contains__, products))
            ]
            deferred = [
                (held_release, products)
                for held_release, products in deferred
                if held_release not in ready
            ]
            where = 1 if isinstance(visited[0], H.WaitProducts) else len(visited)
            result += [*visited[:where], *ready, *visited[where:]]
        visited, before = self.flush(deferred, before) if deferred else ([], before)
        return [*result, *visited], before

    def flush(
        self, deferred: list[tuple[S.Stmt, list[S.Gemm]]], before: P.Pending
    ) -> tuple[list[S.Stmt], P.Pending]:
        """The releases that were held back, behind what they need."""
        products = [product for _, needed in deferred for product in needed if product in before]
        wait, before = self.wait(products, before, deferred[0][0])
        return [*wait, *(release for release, _ in deferred)], before

    def inside(self, stmt: S.Stmt, before: P.Pending) -> tuple[S.Stmt, P.Pending]:
        """A statement that is, or holds, such a product."""
        if isinstance(stmt, S.Gemm):
            product = stmt
            return replace(product, asynchronous=True), P.after_issue(before, product)
        if isinstance(stmt, S.If):
            then, after = self.closed(stmt.then, before)
            orelse, other = None, before
            if stmt.orelse is not None:
                kept, other = self.closed(stmt.orelse, before)
                orelse = S.seq(*kept)
            return replace(stmt, then=S.seq(*then), orelse=orelse), P.merge(after, other)
        if isinstance(stmt, (S.For, S.While)):
            return self.loop(stmt, before)
        if isinstance(stmt, H.Pipeline):
            stmts, after = self.visit(stmt.body, before)
            wait, after = self.wait(self.needs.at_end(stmt, after), after, stmt)
            return replace(stmt, body=S.seq(*stmts, *wait)), after
        assert isinstance(stmt, (S.Attr, H.Run))
        stmts, after = self.closed(stmt.body, before)
        return replace(stmt, body=S.seq(*stmts)), after

    def loop(self, stmt: S.For | S.While, before: P.Pending) -> tuple[S.Stmt, P.Pending]:
        """A loop. Tiles that nobody writes meanwhile keep their place to its end, so that its
        barriers are for others.

        A product that adds to what threads have put into its registers is complete where the
        iteration ends: to the assembler the first iteration's wait, which is for nothing, would
        stand behind registers that threads define, and it serialises such products (C7515)."""
        outer, entered = self.needs.read_only, before
        self.needs.read_only = self.needs.unwritten(stmt)
        while True:
            body, after = self.visit(stmt.body, before)
            adding = [
                product for product in after if product not in entered and product.clear is _NEVER
            ]
            wait, after = self.wait(adding, after, stmt)
            body += wait
            both = P.merge(before, after)
            if both == before:
                self.needs.read_only = outer
                return replace(stmt, body=S.seq(*body)), both
            before = both


def _can_defer_past(stmt: S.Stmt, releases: list[S.Stmt]) -> bool:
    """Whether the releases of ``releases`` may stand behind ``stmt``."""
    steps = S.find(stmt, H.PipelineStep, H.Pipeline)
    if steps != [stmt]:
        return not steps and not isinstance(stmt, _BRANCHES)
    if isinstance(stmt, H.Release):
        return True
    return isinstance(stmt, H.Wait) and all(
        isinstance(release, H.Release) and release.number is stmt.number for release in releases
    )
