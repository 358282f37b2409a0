"""Serialise the threads of a block: SIMT statements become loops over the threads.

For a target on which one core runs a whole block. After this pass no statement means "every
thread": what all threads do alike stands once, what differs stands in a loop over the thread index
(For with the annotation "threads"), ``T.Parallel`` is a loop nest (annotation "parallel"), and
private storage that differs has a leading dimension of one slot per thread. Tile operations stay,
each executed once; block barriers disappear, because statements run to completion in order.

Relies on :mod:`uniform` and on programs whose threads only meet through tile operations, barriers
and statements in program order (the language orders shared-memory accesses of different
statements). Loops over threads are therefore split wherever a later statement touches memory that
an earlier one wrote.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace

from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.tables import Effect
from tilelang.ir.visitor import Rewriter, rebuild, rewrite_launches
from tilelang.passes.serial.uniform import PRIVATE, Varying, varying_exit

INT = DType("int32")
BOOL = DType("bool")
BARRIERS = ("sync_threads", "sync_warp")  # order only: dropped
SHARED_STATE = ("shared", "shared.dyn", "local.fragment", "global")


def serialize_threads(func: S.PrimFunc) -> S.PrimFunc:
    """``func`` with every launch's threads made explicit loops."""
    return rewrite_launches(func, lambda launch: _Serializer(launch).run())


@dataclass
class _Run:
    """Consecutive per-thread statements that may share one loop over the threads."""

    stmts: list[S.Stmt] = field(default_factory=list)
    reads: set[E.Var] = field(default_factory=set)
    writes: set[E.Var] = field(default_factory=set)


def memory_use(stmt: S.Stmt) -> tuple[set[E.Var], set[E.Var]]:
    """Storage of non-private buffers read and written by plain statements in ``stmt``."""
    reads: set[E.Var] = set()
    writes: set[E.Var] = set()
    for node in S.walk(stmt):
        if isinstance(node, (S.Store, S.ReducerUpdate)) and node.buffer.storage not in PRIVATE:
            writes.add(node.buffer.data)
        for item in node.exprs():
            for part in E.walk(item):
                if isinstance(part, E.Load) and part.buffer.storage not in PRIVATE:
                    reads.add(part.buffer.data)
                elif isinstance(part, E.Call):
                    for target in part.written:
                        if isinstance(target, E.AddressOf):
                            writes.add(target.buffer.data)
    return reads, writes


class _Serializer:
    def __init__(self, launch: S.Launch) -> None:
        self.launch = launch
        self.varying = Varying(launch)
        self.count = launch.threads[0] * launch.threads[1] * launch.threads[2]
        self.expanded: dict[E.Var, Buffer] = {}  # storage -> buffer with a slot per thread
        self.recompute: dict[E.Var, E.Expr] = {}  # lets of thread indices and uniform values
        self.ordered: set[E.Var] = set()  # varying lets that stay where they stand
        self.spilled: dict[E.Var, Buffer] = {}  # those of them that later loops use, in memory
        self.uses = _count_uses(launch.body)
        self.alive: Buffer | None = None
        self.left = False  # whether a thread may have returned before the current statement
        self.present: list[E.Expr | None] = []  # masks that some thread is known to pass

    def run(self) -> S.Launch:
        head: list[S.Stmt] = []
        if self._threads_return_apart():
            self.alive = Buffer("alive", Shape((self.count,)), BOOL, "local")
            head.append(S.Alloc(buffer=self.alive))
            t = E.Var("t", INT)
            keep = S.Store(buffer=self.alive, indices=(t,), value=E.const(True))
            head.append(_thread_loop(t, self.count, keep))
        body = self.block([self.launch.body], None)
        return replace(self.launch, body=S.seq(*head, *body), thread_vars=())

    def _threads_return_apart(self) -> bool:
        def search(stmt: S.Stmt, control: bool) -> bool:
            if isinstance(stmt, S.ThreadReturn):
                return control
            conds = list(stmt.exprs()) if isinstance(stmt, (S.If, S.For, S.While)) else []
            under = control or any(self.varying.expr(item) for item in conds)
            return any(search(block, under) for block in stmt.blocks())

        return search(self.launch.body, False)

    # -- statements in order --------------------------------------------------------------
    def block(self, stmts: list[S.Stmt], mask: E.Expr | None) -> list[S.Stmt]:
        """``stmts`` run by the threads for which ``mask`` (over the thread variables) holds."""
        out: list[S.Stmt] = []
        run = _Run()
        for stmt in _flatten(stmts):
            kind = self.classify(stmt)
            if kind == "drop":
                self._flush(run, mask, out)
            elif kind == "recompute":
                assert isinstance(stmt, S.Let)
                self.recompute[stmt.var] = stmt.value
            elif kind == "thread":
                reads, writes = memory_use(stmt)
                if writes & (run.reads | run.writes) or reads & run.writes:
                    self._flush(run, mask, out)
                run.stmts.append(stmt)
                if isinstance(stmt, S.Let):
                    self.ordered.add(stmt.var)
                run.reads |= reads
                run.writes |= writes
            else:
                self._flush(run, mask, out)
                out.extend(self._once(stmt, mask))
            self.left |= self.alive is not None and _returns(stmt)
        self._flush(run, mask, out)
        return out

    def classify(self, stmt: S.Stmt) -> str:
        """How to run ``stmt``: "thread", "recompute", "drop", or "once" (structured)."""
        if isinstance(stmt, S.Eval) and isinstance(stmt.value, E.Call):
            intrinsic = stmt.value.intrinsic
            if stmt.value.op in BARRIERS:
                return "drop"
            if intrinsic.effect is Effect.HINT:
                return "drop"
        if isinstance(stmt, S.Let):
            if not self.varying.expr(stmt.value):
                return "once"
            return "recompute" if self._anywhere(stmt.value) else "thread"
        if isinstance(stmt, (S.TileOp, S.Parallel, S.Alloc, S.View, S.Attr, S.Launch)):
            return "once"
        if not self._per_thread(stmt):
            return "once"
        if _cooperates(stmt) or self._orders_threads(stmt):
            return "once"
        return "thread"

    def _anywhere(self, value: E.Expr) -> bool:
        """Whether a varying value may be computed at the head of any later loop: it reads no
        memory, and nothing that it is computed from has to be kept from where it was bound."""
        return self.ordered.isdisjoint(value.variables) and not any(
            isinstance(n, E.Load)
            or (isinstance(n, E.Call) and n.intrinsic.effect is not Effect.NONE)
            for n in E.walk(value)
        )

    def _per_thread(self, stmt: S.Stmt) -> bool:
        """Whether threads do different things in ``stmt``, or one thing each."""
        for node in S.walk(stmt):
            if isinstance(node, S.ThreadReturn):
                return self.alive is not None
            if isinstance(node, S.ReducerUpdate):
                return True  # each thread contributes, alike or not
            if any(self.varying.has_effect(item) for item in node.exprs()):
                return True
        return self.varying.touches(stmt)

    def _orders_threads(self, stmt: S.Stmt) -> bool:
        """Whether ``stmt`` is a compound whose inner statements pass data between threads."""
        if not isinstance(stmt, (S.For, S.While, S.If)):
            return False
        reads, writes = memory_use(stmt)
        shared = {
            node.buffer.data
            for node in S.walk(stmt)
            if isinstance(node, S.Store) and node.buffer.storage in SHARED_STATE[:3]
        }
        if isinstance(stmt, S.If) and not any(
            isinstance(n, (S.For, S.While)) for n in S.walk(stmt)
        ):
            return bool(reads & writes)
        return bool(shared) or bool(reads & writes)

    # -- one loop over the threads ---------------------------------------------------------
    def _flush(self, run: _Run, mask: E.Expr | None, out: list[S.Stmt]) -> None:
        if not run.stmts:
            return
        stmts = run.stmts
        inside = _count_uses(S.Seq(stmts=tuple(stmts)))
        for stmt in stmts:  # a let used later needs a slot per thread
            if isinstance(stmt, S.Let) and inside.get(stmt.var, 0) < self.uses.get(stmt.var, 0):
                buffer = Buffer(stmt.var.name, Shape((self.count,)), stmt.var.dtype, "local")
                self.spilled[stmt.var] = buffer
                out.append(S.Alloc(buffer=buffer, loc=stmt.loc))
        t = E.Var("t", INT)
        body: list[S.Stmt] = []
        for stmt in stmts:
            spill = self.spilled.get(stmt.var) if isinstance(stmt, S.Let) else None
            if spill is not None:
                assert isinstance(stmt, S.Let)
                body.append(S.Store(buffer=spill, indices=(t,), value=stmt.value, loc=stmt.loc))
            else:
                body.append(stmt)
        out.append(self._loop_over_threads(t, body, mask))
        run.stmts, run.reads, run.writes = [], set(), set()

    def _loop_over_threads(self, t: E.Var, body: list[S.Stmt], mask: E.Expr | None) -> S.Stmt:
        inner: S.Stmt = S.seq(*body)
        if mask is not None:
            inner = S.If(cond=mask, then=inner)
        if self.alive is not None:
            inner = S.If(cond=E.Load(self.alive, (t,)), then=inner)
        inner = self._at_thread(inner, t)
        return _thread_loop(t, self.count, inner, self.alive)

    def _at_thread(self, stmt: S.Stmt, t: E.Var) -> S.Stmt:
        """``stmt`` as run by thread ``t``: private storage gets its slot, thread indices their
        value, and recomputed lets their definition in front."""
        inner = {n.buffer.data for n in S.walk(stmt) if isinstance(n, S.Alloc)}
        rewritten = _AtThread(self, t, inner).rewrite(stmt)
        needed = self._needed(rewritten)
        lets: list[S.Stmt] = []
        for var in self.recompute:
            if var in needed:
                value = _AtThread(self, t).expr(self.recompute[var])
                lets.append(S.Let(var=var, value=value))
        x, y, _ = self.launch.threads
        used = {v for item in (*lets, rewritten) for v in _vars_in(item)}
        indices = (t % x, t // x % y, t // (x * y))
        plain = (t, E.const(0), E.const(0))
        only_x = self.count == x
        for var, full, simple in reversed(list(zip(self.launch.thread_vars, indices, plain))):
            if var in used:
                lets.insert(0, S.Let(var=var, value=E.as_expr(simple if only_x else full)))
        return S.seq(*lets, rewritten)

    def _needed(self, stmt: S.Stmt) -> set[E.Var]:
        needed = set(_vars_in(stmt))
        for var in reversed(self.recompute):
            if var in needed:
                needed.update(n for n in E.walk(self.recompute[var]) if isinstance(n, E.Var))
        return needed

    # -- statements that stand once ----------------------------------------------------------
    def _once(self, stmt: S.Stmt, mask: E.Expr | None) -> list[S.Stmt]:
        if isinstance(stmt, S.Alloc):
            return self._alloc(stmt, mask)
        if isinstance(stmt, S.View):
            return [stmt]
        if isinstance(stmt, S.Parallel):
            return self._when_any(mask, [self._parallel(stmt, mask)])
        if isinstance(stmt, S.TileOp):
            return self._when_any(mask, self._tile_op(stmt))
        if isinstance(stmt, S.If):
            return self._if(stmt, mask)
        if isinstance(stmt, (S.For, S.While)):
            return self._loop(stmt, mask)
        if isinstance(stmt, S.Attr):
            return self.block([stmt.body], mask)
        if isinstance(stmt, S.Let):
            return self._let(stmt, mask)
        return self._when_any(mask, [stmt])

    def _let(self, stmt: S.Let, mask: E.Expr | None) -> list[S.Stmt]:
        """A value that is the same for all threads. It stays in scope of what follows, so its
        definition is not put under the mask; memory is read only when some thread comes here."""
        reads = any(isinstance(node, (E.Load, E.Call)) for node in E.walk(stmt.value))
        if not reads or stmt.var.dtype == "handle" or not self._masked(mask):
            return [stmt]
        test, flag = self._any(mask)
        nothing = E.const(0, stmt.var.dtype)
        return [*test, replace(stmt, value=E.select(flag, stmt.value, nothing, lazy=True))]

    def _tile_op(self, stmt: S.TileOp) -> list[S.Stmt]:
        touched = [*stmt.regions_read(), *stmt.regions_written()]
        private = [r for r in touched if r.buffer.data in self.varying.buffers]
        if not private and not any(self.varying.expr(item) for item in stmt.exprs()):
            return [stmt]
        t = E.Var("t", INT)  # the operation of each thread on its own storage
        return [self._loop_over_threads(t, [stmt], None)]

    def _alloc(self, stmt: S.Alloc, mask: E.Expr | None) -> list[S.Stmt]:
        if stmt.buffer.data not in self.varying.buffers:
            return [stmt]
        wide = self.slot_buffer(stmt.buffer)
        out: list[S.Stmt] = [S.Alloc(buffer=wide, loc=stmt.loc)]
        init = stmt.init
        if init is None and stmt.buffer.is_var:  # variables start as zero
            init = E.const(0, stmt.buffer.dtype)
        if init is not None:
            t = E.Var("t", INT)
            first = tuple(E.const(0) for _ in stmt.buffer.shape)
            store = S.Store(buffer=stmt.buffer, indices=first, value=init, loc=stmt.loc)
            out.append(self._loop_over_threads(t, [store], mask))
        return out

    def slot_buffer(self, buffer: Buffer) -> Buffer:
        """``buffer`` with a leading dimension of one slot per thread."""
        known = self.expanded.get(buffer.data)
        if known is not None and known.dtype == buffer.dtype and known.shape[1:] == buffer.shape:
            return known
        shape = Shape((self.count, *buffer.shape))
        data = known.data if known is not None else E.Var(buffer.name, DType("handle"))
        wide = Buffer(buffer.name, shape, buffer.dtype, "local", data=data, attrs=buffer.attrs)
        self.expanded.setdefault(buffer.data, wide)
        return wide

    def _masked(self, mask: E.Expr | None) -> bool:
        """Whether it may be that no thread runs what stands here."""
        if any(known is mask for known in self.present):
            return False
        return mask is not None or self.left

    def _when_any(self, mask: E.Expr | None, stmts: list[S.Stmt]) -> list[S.Stmt]:
        """``stmts`` if some thread that has not returned passes ``mask``."""
        if not self._masked(mask):
            return stmts
        test, flag = self._any(mask)
        return [*test, S.If(cond=flag, then=S.seq(*stmts))]

    def _any(self, mask: E.Expr | None) -> tuple[list[S.Stmt], E.Expr]:
        """Statements that find out whether some thread is here, and the expression that tells."""
        flag = Buffer("any", Shape((1,)), BOOL, "local.var")
        zero = (E.const(0),)
        found = S.Store(buffer=flag, indices=zero, value=E.const(True))
        test = self._loop_over_threads(E.Var("t", INT), [found], mask)
        return [S.Alloc(buffer=flag, init=E.const(False)), test], E.Load(flag, zero)

    def _if(self, stmt: S.If, mask: E.Expr | None) -> list[S.Stmt]:
        if not self.varying.expr(stmt.cond):
            then = S.seq(*self.block([stmt.then], mask))
            orelse = None if stmt.orelse is None else S.seq(*self.block([stmt.orelse], mask))
            return [S.If(cond=stmt.cond, then=then, orelse=orelse, loc=stmt.loc)]
        out: list[S.Stmt] = []
        cond = stmt.cond
        if any(isinstance(node, E.Load) for node in E.walk(cond)):
            kept = E.Var("cond", BOOL)  # the branch must not change what it was chosen by
            buffer = Buffer("cond", Shape((self.count,)), BOOL, "local")
            self.spilled[kept] = buffer
            self.varying.vars.add(kept)
            out.append(S.Alloc(buffer=buffer))
            t = E.Var("t", INT)
            store = S.Store(buffer=buffer, indices=(t,), value=cond, loc=stmt.loc)
            out.append(self._loop_over_threads(t, [store], mask))
            cond = kept
        taken = cond if mask is None else E.binary("land", mask, cond)
        out.extend(self.block([stmt.then], taken))
        if stmt.orelse is not None:
            other = E.unary("lnot", cond)
            rest = other if mask is None else E.binary("land", mask, other)
            out.extend(self.block([stmt.orelse], rest))
        return out

    def _loop(self, stmt: S.For | S.While, mask: E.Expr | None) -> list[S.Stmt]:
        bounds = [stmt.cond] if isinstance(stmt, S.While) else [stmt.start, stmt.stop, stmt.step]
        if any(self.varying.expr(item) for item in bounds) or varying_exit(stmt.body, self.varying):
            raise TileUnsupportedError(
                "threads leave this loop at different iterations, but its body has operations of "
                "the whole block",
                expected="loop bounds and exits that are the same for all threads",
                hint="use bounds that do not depend on the thread index around tile operations, "
                "T.Parallel and barriers",
                loc=stmt.loc,
            )
        if _returns(stmt):  # threads of an earlier iteration
            self.left |= self.alive is not None
        elif self._masked(mask):
            # Tested once for all iterations; and without a thread to run its body, the condition
            # of a While would never change.
            self.present.append(mask)
            body = self.block([stmt.body], mask)
            self.present.pop()
            return self._when_any(mask, [replace(stmt, body=S.seq(*body))])
        return [replace(stmt, body=S.seq(*self.block([stmt.body], mask)))]

    def _parallel(self, stmt: S.Parallel, mask: E.Expr | None) -> S.Stmt:
        """The loop nest of a ``T.Parallel``; iterations touch per-thread storage through the
        thread that runs them."""
        body: S.Stmt = self._plain_body(stmt.body)
        if self.varying.touches(stmt.body):
            t = E.Var("t", INT)
            linear: E.Expr = E.const(0)
            for var, extent in zip(stmt.vars, stmt.extents):
                linear = linear * extent + var
            if stmt.loop_layout is not None:
                owner = E.as_expr(stmt.loop_layout.thread_of(stmt.vars))
            else:
                owner = linear % self.count
            # A sub-range of the threads deals the iterations among itself.
            body = S.seq(S.Let(var=t, value=owner), self._at_thread(body, t))
        for depth, (var, extent) in enumerate(reversed(list(zip(stmt.vars, stmt.extents)))):
            notes: S.Pairs = (("parallel", len(stmt.vars) - 1 - depth),)
            body = S.For(
                var=var,
                start=E.const(0),
                stop=extent,
                step=E.const(1),
                body=body,
                annotations=notes,
                loc=stmt.loc,
            )
        return body

    def _plain_body(self, body: S.Stmt) -> S.Stmt:
        """Nested ``T.Parallel`` loops of a body as plain loops."""
        outer = self

        class Nested(Rewriter):
            def stmt(self, stmt: S.Stmt) -> S.Stmt:
                return outer._parallel(stmt, None) if isinstance(stmt, S.Parallel) else stmt

        return Nested().rewrite(body)


class _AtThread(Rewriter):
    """Rewrites a statement for one thread: slots of private storage, spilled lets.

    Args:
        inner: storage that exists inside the statement only, which needs no slots.
    """

    def __init__(self, owner: _Serializer, t: E.Var, inner: Set[E.Var] = frozenset()) -> None:
        self.owner = owner
        self.t = t
        self.inner = inner
        self.memo: dict[int, E.Expr] = {}

    def expr(self, expr: E.Expr) -> E.Expr:
        found = self.memo.get(id(expr))
        if found is None:
            found = self.memo[id(expr)] = self._expr(expr)
        return found

    def _expr(self, expr: E.Expr) -> E.Expr:
        if isinstance(expr, E.Var):
            spill = self.owner.spilled.get(expr)
            return expr if spill is None else E.Load(spill, (self.t,))
        if isinstance(expr, E.Load) and self._private(expr.buffer):
            indices = tuple(self.expr(item) for item in expr.indices)
            return E.Load(self.owner.slot_buffer(expr.buffer), (self.t, *indices))
        if isinstance(expr, E.AddressOf) and self._private(expr.buffer):
            indices = tuple(self.expr(item) for item in expr.indices)
            wide = self.owner.slot_buffer(expr.buffer)
            return E.AddressOf(wide, (self.t, *indices), expr.access)
        return rebuild(expr, self.expr)

    def _private(self, buffer: Buffer) -> bool:
        return buffer.data in self.owner.varying.buffers and buffer.data not in self.inner

    def _visit_operand(self, old: object) -> object:
        if isinstance(old, Region) and self._private(old.buffer):
            region = old.map(self.expr)
            wide = self.owner.slot_buffer(old.buffer)
            return Region(wide, (self.t, *region.mins), (1, *region.extents))
        return super()._visit_operand(old)

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Store) and self._private(stmt.buffer):
            wide = self.owner.slot_buffer(stmt.buffer)
            return replace(stmt, buffer=wide, indices=(self.t, *stmt.indices))
        if isinstance(stmt, S.Alloc) and stmt.init is None and stmt.buffer.is_var:
            return replace(stmt, init=E.const(0, stmt.buffer.dtype))  # variables start as zero
        if isinstance(stmt, (S.Reduce, S.Scan)) and self._has_slots(stmt.src.buffer):
            return replace(stmt, dim=stmt.dim + 1)  # the slot stands before the dimensions
        return stmt

    def _has_slots(self, buffer: Buffer) -> bool:
        return any(buffer.data is wide.data for wide in self.owner.expanded.values())


def _thread_loop(t: E.Var, count: int, body: S.Stmt, alive: Buffer | None = None) -> S.For:
    notes: S.Pairs = (("threads", alive),)
    return S.For(
        var=t, start=E.const(0), stop=E.const(count), step=E.const(1), body=body, annotations=notes
    )


def _flatten(stmts: list[S.Stmt]) -> list[S.Stmt]:
    flat: list[S.Stmt] = []
    for stmt in stmts:
        flat.extend(_flatten(list(stmt.stmts)) if isinstance(stmt, S.Seq) else [stmt])
    return flat


def _cooperates(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` holds an operation of the whole group: tile op, Parallel or barrier."""
    return any(
        isinstance(node, (S.TileOp, S.Parallel))
        or (
            isinstance(node, S.Eval)
            and isinstance(node.value, E.Call)
            and node.value.intrinsic.effect is Effect.SYNC
        )
        for node in S.walk(stmt)
    )


def _returns(stmt: S.Stmt) -> bool:
    """Whether a thread may leave the kernel in ``stmt``."""
    return any(isinstance(node, S.ThreadReturn) for node in S.walk(stmt))


def _vars_in(stmt: S.Stmt) -> list[E.Var]:
    return [
        node
        for part in S.walk(stmt)
        for item in part.exprs()
        for node in E.walk(item)
        if isinstance(node, E.Var)
    ]


def _count_uses(stmt: S.Stmt) -> dict[E.Var, int]:
    counts: dict[E.Var, int] = {}
    for var in _vars_in(stmt):
        counts[var] = counts.get(var, 0) + 1
    return counts
