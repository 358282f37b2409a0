"""Products of warpgroups stay under way until something needs them to be complete.

Each ``Gemm`` by instructions of warpgroups leaves its group open, and a wait stands before the
first statement that needs it: one that touches the sum, overwrites an operand, or lets others do
so (``analysis/pending.py`` says what does). What the threads do in between goes on beside the
product. A loop is looked at until what its iterations leave under way does not change.

An item of a pipeline that such products read is released behind the wait that completes them
anyway, at the latest where the statements around end: what fills the pipeline has the next items
before, and needs this one for none that these threads wait for in between.

Groups are waited for where they were issued: a branch or a role ends with what was under way
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
        if not any(map(P.may_stay, S.walk(launch.body))) or P.orders_itself(launch):
            return launch
        if S.holds(launch.body, *_LEAVES):
            return launch
        return replace(launch, body=_Waits(launch).whole(launch.body))

    return rewrite_launches(func, waited)


class _Waits:
    """One launch. ``visit`` gives the statements that stand for one, and what may be under way
    behind them."""

    def __init__(self, launch: S.Launch) -> None:
        self.needs = P.Needs(launch)

    def whole(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt``, behind which nothing is under way."""
        return S.seq(*self.closed(stmt, P.NOTHING)[0])

    def closed(self, stmt: S.Stmt, before: P.Pending) -> tuple[list[S.Stmt], P.Pending]:
        """``stmt``, behind which nothing is under way that was not before it."""
        made, after = self.visit(stmt, before)
        mine = [product for product in after if product not in before]
        wait, after = self.wait(mine, after, stmt)
        return [*made, *wait], after

    def wait(
        self, products: list[S.Gemm], before: P.Pending, at: S.Stmt
    ) -> tuple[list[S.Stmt], P.Pending]:
        """The wait for ``products``."""
        newer = P.depth(before, products)
        if newer is None:
            return [], before
        after = P.waited(before, newer)
        sums: dict[object, Region] = {
            one.c.buffer.data: one.c.buffer.whole() for one in before if one not in after
        }
        return [H.WaitProducts(newer=newer, sums=tuple(sums.values()), loc=at.loc)], after

    def visit(self, stmt: S.Stmt, before: P.Pending) -> tuple[list[S.Stmt], P.Pending]:
        """``stmt`` with its waits."""
        if isinstance(stmt, S.Seq):
            return self.row(stmt, before)
        if not any(map(P.may_stay, S.walk(stmt))):
            wait, after = self.wait(self.needs.of(stmt, before), before, stmt)
            return [*wait, stmt], after
        wait, before = self.wait(self.needs.of(stmt, before, nested=False), before, stmt)
        inside, after = self.inside(stmt, before)
        return [*wait, inside], after

    def row(self, stmt: S.Seq, before: P.Pending) -> tuple[list[S.Stmt], P.Pending]:
        """Statements one after another, with releases where their products are complete.

        A release is held back past waits for items of the same number only: to fill those, nobody
        waits for it, as an item takes the place of one that was released in an earlier iteration.
        """
        made: list[S.Stmt] = []
        held: list[tuple[S.Stmt, list[S.Gemm]]] = []
        for item in stmt.stmts:
            needed = self.needs.of(item, before) if isinstance(item, H.Release) else []
            if needed and not self.needs.by_hand:
                held.append((item, needed))
                continue
            if held and not _passes(item, [release for release, _ in held]):
                part, before = self.let_go(held, before)
                made += part
                held = []
            part, before = self.visit(item, before)
            freed = [one for one, products in held if not any(map(before.__contains__, products))]
            held = [(one, products) for one, products in held if one not in freed]
            where = 1 if isinstance(part[0], H.WaitProducts) else len(part)
            made += [*part[:where], *freed, *part[where:]]
        part, before = self.let_go(held, before) if held else ([], before)
        return [*made, *part], before

    def let_go(
        self, held: list[tuple[S.Stmt, list[S.Gemm]]], before: P.Pending
    ) -> tuple[list[S.Stmt], P.Pending]:
        """The releases that were held back, behind what they need."""
        products = [one for _, needed in held for one in needed if one in before]
        wait, before = self.wait(products, before, held[0][0])
        return [*wait, *(release for release, _ in held)], before

    def inside(self, stmt: S.Stmt, before: P.Pending) -> tuple[S.Stmt, P.Pending]:
        """A statement that is, or holds, such a product."""
        if isinstance(stmt, S.Gemm):
            product = stmt
            return replace(product, asynchronous=True), P.issued(before, product)
        if isinstance(stmt, S.If):
            then, after = self.closed(stmt.then, before)
            orelse, other = None, before
            if stmt.orelse is not None:
                kept, other = self.closed(stmt.orelse, before)
                orelse = S.seq(*kept)
            return replace(stmt, then=S.seq(*then), orelse=orelse), P.joined(after, other)
        if isinstance(stmt, (S.For, S.While)):
            return self.loop(stmt, before)
        if isinstance(stmt, H.Pipeline):
            made, after = self.visit(stmt.body, before)
            wait, after = self.wait(self.needs.at_end(stmt, after), after, stmt)
            return replace(stmt, body=S.seq(*made, *wait)), after
        assert isinstance(stmt, (S.Attr, H.Run))
        made, after = self.closed(stmt.body, before)
        return replace(stmt, body=S.seq(*made)), after

    def loop(self, stmt: S.For | S.While, before: P.Pending) -> tuple[S.Stmt, P.Pending]:
        """A loop. Tiles that nobody writes meanwhile keep their place to its end, so that its
        barriers are for others.

        A product that adds to what threads have put into its registers is complete where the
        iteration ends: to the assembler the first iteration's wait, which is for nothing, would
        stand behind registers that threads define, and it serialises such products (C7515)."""
        outer, entered = self.needs.quiet, before
        self.needs.quiet = self.needs.kept(stmt)
        while True:
            body, after = self.visit(stmt.body, before)
            adding = [one for one in after if one not in entered and one.clear is _NEVER]
            wait, after = self.wait(adding, after, stmt)
            body += wait
            both = P.joined(before, after)
            if both == before:
                self.needs.quiet = outer
                return replace(stmt, body=S.seq(*body)), both
            before = both


def _passes(item: S.Stmt, held: list[S.Stmt]) -> bool:
    """Whether the releases of ``held`` may stand behind ``item``."""
    steps = S.find(item, H.PipelineStep, H.Pipeline)
    if steps != [item]:
        return not steps and not isinstance(item, _BRANCHES)
    if isinstance(item, H.Release):
        return True
    return isinstance(item, H.Wait) and all(
        isinstance(one, H.Release) and one.number is item.number for one in held
    )
