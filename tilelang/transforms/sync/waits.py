"""Insert waits for outstanding operations, before the first statement that needs each of them.

The operations are products by wgmma and updates of tensors by TMA. Both are issued asynchronously
and leave a group in flight. One walk keeps what is outstanding. It inserts a wait before the first
statement that accesses an accumulator, overwrites an operand or the tile of an update, or allows
other threads to overwrite it: a barrier (see ``analysis/in_flight.py``). Statements before the wait
overlap the operation. A loop is analyzed until the set of operations that its iterations leave in
flight is stable. All threads wait for their products; only the thread that issued an update
waits for it. Redundant "empty" mbarriers are known only after these waits are placed
(``elide_empty_barriers.py``).

A pipeline stage that such products read is released after the wait that completes them, at the
latest at the end of the enclosing block. The delay is harmless: the producer fills other stages
meanwhile, and these threads do not wait for this one.

A branch or a role waits for the groups that it has issued before it ends.

A program may leave products in flight itself (``T.wgmma_gemm``, ``T.gemm(wg_wait=-1)``) and wait
with ``T.wait_wgmma(n)``. Then its other products are synchronous, and the analysis finds which
accumulators each of its waits completes. Where an accumulator is used, or an operand overwritten,
before such a wait, the pass adds a wait, and a remark in ``explain()`` names the line. The program
itself must order the writes of other threads to operands in shared memory. A kernel whose loops may
end early leaves nothing in flight.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tilelang.errors import Loc, TileUnsupportedError
from tilelang.ir import effects, expr as E, schedule as H, stmt as S
from tilelang.ir.buffer import Region
from tilelang.ir.visitor import map_stmts, rewrite_launches
from tilelang.target import Context, operations as O
from tilelang.transforms.analysis import in_flight as P
from tilelang.transforms.analysis.groups import thread_number
from tilelang.transforms.sync.elide_empty_barriers import without_empty_barriers

_NEVER = E.const(False)  # of a product that clears nothing
_BRANCHES = (S.If, S.For, S.While)  # that products may be issued in, or waited for


def insert_waits(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with waits where products of warpgroups and updates by TMA have to be complete, and
    without signals that barriers make redundant.

    Runs after barrier insertion; products have their plans.
    """

    def placed(launch: S.Launch) -> S.Launch:
        launch = _insert(launch)
        return launch.with_body(without_empty_barriers(launch.body))

    return rewrite_launches(func, placed)


def _insert(launch: S.Launch) -> S.Launch:
    gemms = S.find(launch.body, S.Gemm)
    by_program = any(gemm.asynchronous for gemm in gemms)
    products = any(map(P.can_stay_in_flight, gemms))
    if not by_program and (P.orders_itself(launch) if products else not P.issuers(launch)):
        return launch
    if S.holds(launch.body, *S.LEAVES):
        return launch.with_body(map_stmts(launch.body, S.Gemm, _complete))
    waits = _Waits(launch, by_program)
    stmts, after = waits.visit(launch.body, P.NOTHING)
    launch = replace(launch, body=S.seq(*stmts, *waits.complete(after, after, launch.body)[0]))
    if not waits.added:
        return launch
    return replace(launch, hints=replace(launch.hints, remarks=tuple(waits.added)))


class _Waits:
    """One launch. ``visit`` gives the statements that replace one, and what may be in flight after
    them. ``by_program``: the program leaves products in flight itself."""

    def __init__(self, launch: S.Launch, by_program: bool) -> None:
        self.needs = P.Needs(launch)
        self.by_program = by_program
        self.added: dict[tuple[str, Loc | None], None] = {}
        self.overwritten: TileUnsupportedError | None = None  # why a wait needs a barrier after it

    def closed(self, stmt: S.Stmt, before: P.Pending) -> tuple[list[S.Stmt], P.Pending]:
        """``stmt``; afterwards only earlier operations are in flight, or those of the program."""
        stmts, after = self.visit(stmt, before)
        left = S.Gemm if self.by_program else ()
        issued = [op for op in after if op not in before and not isinstance(op, left)]
        wait, after = self.complete(issued, after, stmt)
        return [*stmts, *wait], after

    def complete(
        self, operations: Iterable[P.Operation], before: P.Pending, at: S.Stmt
    ) -> tuple[list[S.Stmt], P.Pending]:
        """The waits for ``operations``, those for products first."""
        issuers = self.needs.issuers
        products = [op for op in operations if op not in issuers]
        wait, after = self.wait(P.depth(before, products), before, at)
        for issuer in sorted({issuers[op] for op in operations if op in issuers}):
            own = [op for op in operations if issuers.get(op) == issuer]
            newer = P.depth(after, own)
            assert newer is not None
            after = P.after_wait(after, newer, issuers, issuer)
            elected = (thread_number(self.needs.launch) - issuer).equal(0)
            drain = S.do(O.BULK_WAIT, E.const(newer), read=True, loc=own[0].loc)
            wait.append(S.If(cond=elected, then=drain, loc=own[0].loc))
        return wait, after

    def wait(
        self, newer: int | None, before: P.Pending, at: S.Stmt
    ) -> tuple[list[S.Stmt], P.Pending]:
        """The wait for all products but the ``newer`` last; none where none is in flight."""
        products = [op for op in before if isinstance(op, S.Gemm)]
        if newer is None or not products:
            return [], before
        after = P.after_wait(before, newer, self.needs.issuers)
        sums: dict[object, Region] = {
            product.c.buffer.data: product.c.buffer.whole()
            for product in products
            if product not in after
        }
        return [H.WaitProducts(newer=newer, sums=tuple(sums.values()), loc=at.loc)], after

    def visit(self, stmt: S.Stmt, before: P.Pending) -> tuple[list[S.Stmt], P.Pending]:
        """``stmt`` with its waits."""
        if isinstance(stmt, S.Seq):
            return self.sequence(stmt, before)
        if (newer := P.groups_in_flight(stmt)) is not None:
            wait, after = self.wait(newer, before, stmt)
            return wait or [stmt], after
        is_uniform = not self.is_mixed(stmt)
        wait, before = self.complete(self.operations_needed(stmt, before, is_uniform), before, stmt)
        if is_uniform:
            return [*wait, stmt], before
        inside, after = self.inside(stmt, before)
        return [*wait, *inside], after

    def is_mixed(self, stmt: S.Stmt) -> bool:
        """Whether operations are issued, or waits placed, in ``stmt``."""
        if self.by_program and isinstance(stmt, (S.Gemm, *_BRANCHES, H.Pipeline, H.Run)):
            return True
        return any(n in self.needs.issuers or P.can_stay_in_flight(n) for n in S.walk(stmt))

    def operations_needed(self, stmt: S.Stmt, before: P.Pending, nested: bool) -> list[P.Operation]:
        """Operations in flight that ``stmt`` needs to be complete."""
        if not self.by_program or isinstance(stmt, H.PipelineStep):
            return self.needs.of(stmt, before, nested)
        products = [op for op in before if isinstance(op, S.Gemm)]
        updates = {op: newer for op, newer in before.items() if op not in products}
        needed = self.needs.of(stmt, updates, nested)
        for access in effects.accesses(stmt, nested=nested) if products else ():
            for product in products:
                role = _role(product, access, stmt)
                if role:
                    needed.append(product)
                    if role == "operand" and access.buffer.storage != product.c.buffer.storage:
                        self.overwritten = _unordered(product, access, stmt)
                    self.added[_remark(product, role, access), stmt.loc] = None
        return needed

    def sequence(self, stmt: S.Seq, before: P.Pending) -> tuple[list[S.Stmt], P.Pending]:
        """Statements one after another, with releases where their products are complete.

        A release is deferred past waits for the same iteration only: no thread waits for it
        to fill that stage, as a stage reuses one that was released in an earlier iteration.
        """
        result: list[S.Stmt] = []
        deferred: list[tuple[S.Stmt, list[P.Operation]]] = []
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
            first = visited[0] if visited else None
            if isinstance(first, H.WaitProducts) and self.overwritten is not None:
                result.insert(self.before_barrier(result), first)
                visited = visited[1:]
            self.overwritten = None
            ready = [wait for wait, needed in deferred if before.keys().isdisjoint(needed)]
            deferred = [pair for pair in deferred if pair[0] not in ready]
            where = 1 if isinstance(first, H.WaitProducts) else len(visited)
            result += [*visited[:where], *ready, *visited[where:]]
        visited, before = self.flush(deferred, before) if deferred else ([], before)
        return [*result, *visited], before

    def before_barrier(self, stmts: list[S.Stmt]) -> int:
        """The place of a wait before the barrier at the end of ``stmts``: after that, one thread
        overwrites what the products of all warps have read.

        Raises:
            TileUnsupportedError: there is no barrier.
        """
        at = len(stmts)
        while at and any(map(P.orders_threads, S.walk(stmts[at - 1]))):
            at -= 1
        if at == len(stmts) and self.overwritten is not None:
            raise self.overwritten
        return at

    def flush(
        self, deferred: list[tuple[S.Stmt, list[P.Operation]]], before: P.Pending
    ) -> tuple[list[S.Stmt], P.Pending]:
        """The deferred releases, after what they need."""
        needed = [op for _, operations in deferred for op in operations if op in before]
        wait, before = self.complete(needed, before, deferred[0][0])
        return [*wait, *(release for release, _ in deferred)], before

    def inside(self, stmt: S.Stmt, before: P.Pending) -> tuple[list[S.Stmt], P.Pending]:
        """A statement that is such an operation, or may contain one."""
        if isinstance(stmt, S.AtomicTile):
            later = replace(stmt, hints=replace(stmt.hints, waited_later=True))
            return [later], P.after_issue(before, stmt, self.needs.issuers)
        if isinstance(stmt, S.Gemm):
            if not P.can_stay_in_flight(stmt):
                return [_complete(stmt)], before
            issued = replace(stmt, asynchronous=True)
            after = P.after_issue(before, stmt, self.needs.issuers)
            left = stmt.asynchronous or not self.by_program
            wait, after = ([], after) if left else self.wait(0, after, stmt)
            return [issued, *wait], after
        if isinstance(stmt, S.If):
            then, after = self.closed(stmt.then, before)
            orelse, other = None, before
            if stmt.orelse is not None:
                other_stmts, other = self.closed(stmt.orelse, before)
                orelse = S.seq(*other_stmts)
            return [replace(stmt, then=S.seq(*then), orelse=orelse)], P.merge(after, other)
        if isinstance(stmt, (S.For, S.While)):
            return self.loop(stmt, before)
        assert isinstance(stmt, (H.Run, H.Pipeline))
        if isinstance(stmt, H.Pipeline):
            stmts, after = self.visit(stmt.body, before)
            wait, after = self.complete(self.needs.at_end(stmt, after), after, stmt)
            stmts = [*stmts, *wait]
        else:
            stmts, after = self.closed(stmt.body, before)
        return [replace(stmt, body=S.seq(*stmts))], after

    def loop(self, stmt: S.For | S.While, before: P.Pending) -> tuple[list[S.Stmt], P.Pending]:
        """A loop. Tiles that no thread writes meanwhile stay live to its end, so that its
        barriers are for others.

        A product that adds to what threads have put into its registers is complete where the
        iteration ends: to the assembler the first iteration's wait, which has no effect, would
        come after registers that threads define, and it serialises such products (C7515)."""
        outer, entered = self.needs.read_only, before
        self.needs.read_only = self.needs.unwritten(stmt)
        while True:
            body, after = self.visit(stmt.body, before)
            issued = () if self.by_program else after.keys() - entered.keys()
            adding = [op for op in issued if isinstance(op, S.Gemm) and op.clear is _NEVER]
            wait, after = self.complete(adding, after, stmt)
            merged = P.merge(before, after)
            if merged == before:
                self.needs.read_only = outer
                return [replace(stmt, body=S.seq(*body, *wait))], merged
            before = merged


def _complete(gemm: S.Gemm) -> S.Gemm:
    return replace(gemm, asynchronous=False) if gemm.asynchronous else gemm


def _can_defer_past(stmt: S.Stmt, releases: list[S.Stmt]) -> bool:
    """Whether the releases of ``releases`` may move after ``stmt``."""
    steps = S.find(stmt, H.PipelineStep, H.Pipeline)
    if steps != [stmt]:
        return not steps and not isinstance(stmt, _BRANCHES)
    if isinstance(stmt, H.Release):
        return True
    return isinstance(stmt, H.Wait) and all(
        isinstance(release, H.Release) and release.number is stmt.number for release in releases
    )


def _role(product: S.Gemm, access: effects.Access, stmt: S.Stmt) -> str:
    """The role of the accessed element in ``product`` in flight: its "accumulator", its "operand"
    or nothing. Of operands in shared memory only what is certainly the same element."""
    if access.mode == effects.NAME:
        return ""
    if access.data is product.c.buffer.data:
        return "" if P.continues(stmt, product) else "accumulator"
    for operand in (product.a, product.b):
        if access.data is not operand.buffer.data or not access.writes:
            continue
        if operand.buffer.storage == product.c.buffer.storage:
            return "operand"
        if isinstance(access.where, Region) and E.are_same_exprs(access.region.mins, operand.mins):
            return "operand"
    return ""


def _unordered(product: S.Gemm, access: effects.Access, stmt: S.Stmt) -> TileUnsupportedError:
    return TileUnsupportedError(
        f"`{access.buffer.name}` is overwritten while the product{_line(product)} may still read "
        "it in other warps",
        expected="T.wait_wgmma(n) and a barrier between them",
        got="no barrier of the block between them",
        hint="T.gemm inserts the wait itself",
        loc=stmt.loc,
    )


def _remark(product: S.Gemm, role: str, access: effects.Access) -> str:
    return (
        f"waits for the product{_line(product)}, whose {role} `{access.buffer.name}` is: "
        f"not every path between them has a T.wait_wgmma"
    )


def _line(product: S.Gemm) -> str:
    return f" of line {product.loc.line}" if product.loc is not None else ""
