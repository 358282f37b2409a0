"""Thread serialization: SIMT statements become loops over the threads of a block.

For a target on which one core runs a whole block. After this pass no statement means "every
thread": a uniform statement runs once, a divergent one in a loop over the thread index
(For with the hint ``threads``), ``T.Parallel`` is a loop nest (hint ``parallel``), and
private storage that differs has a leading dimension of one slot per thread. Tile operations stay,
each executed once; block barriers disappear, because statements run to completion in order
(:mod:`loop_fission` checks them).

A loop that contains a barrier, and that threads leave at different iterations, runs until all of
them have left; a mask selects the threads that execute its statements. Threads exchange values by
shuffles and votes through slots (:mod:`warp_intrinsics`).

Uses :mod:`tilelang.ir.uniform`. The language orders shared-memory accesses of different statements,
so a loop over threads is split wherever a later statement accesses memory that an earlier one
wrote.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field, replace

from tilelang.cpu.loops.interleaving import interleave, joined
from tilelang.cpu.loops.loop_fission import Barriers, check_intrinsics
from tilelang.cpu.loops.privatization import BOOL, INT, ThreadLoops, thread_loop, vars_in
from tilelang.cpu.loops.thread_shares import distribute_exchanges
from tilelang.cpu.loops.warp_intrinsics import Exchange, exchanges
from tilelang.errors import TileUnsupportedError
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.indices import row_major
from tilelang.ir.print_expr import shape_vars
from tilelang.ir.uniform import PRIVATE, leaves
from tilelang.ir.visitor import map_stmts, rewrite_exprs, rewrite_launches
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.analysis.atomics import updated_in_two_ways

SHARED_STATE = ("shared", "shared.dyn", "local.fragment", "global")


def serialize_threads(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with every launch's threads made explicit loops."""
    return rewrite_launches(func, lambda launch: _Serializer(distribute_exchanges(launch)).run())


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
    for access in effects.accesses(stmt, nested=True):
        by = access.by
        if access.buffer.storage in PRIVATE or isinstance(by, S.TileOp):
            continue
        # Statements of one step are in order, whichever thread executes them.
        atomic = isinstance(by, E.Call) and by.atom.effect is Effect.ATOMIC
        if access.reads and not atomic and not isinstance(by, S.ReducerUpdate):
            reads.add(access.data)
        if access.writes:
            writes.add(access.data)
    return reads, writes


@dataclass(frozen=True)
class _DivergentLoop:
    """A loop that threads leave at different iterations: variables that tell each thread whether
    it is in it, and whether it is still in the current iteration."""

    going: E.Var
    mask: E.Var


class _Serializer:
    def __init__(self, launch: S.Launch) -> None:
        self.launch = launch
        self.loops = ThreadLoops(launch)
        self.barriers = Barriers(self.loops)
        self.varying = self.loops.varying
        self.count = self.loops.count
        self.ordered: set[E.Var] = set()  # varying lets that keep their position
        self.uses = Counter(vars_in(launch.body))
        self.may_have_returned = False  # some thread, before the current statement
        self.places = [(v, 0, size, 1) for v, size in zip(launch.thread_vars, launch.threads)]
        self.in_part = False  # of a block whose parts may alternate
        self.present: list[E.Expr | None] = []  # masks that some thread is known to pass
        # The loops around; None for a loop that all threads leave together.
        self.loop_stack: list[_DivergentLoop | None] = []

    def run(self) -> S.Launch:
        check_intrinsics(self.launch)
        head: list[S.Stmt] = []
        if self._has_divergent_return():
            alive, head = self._flags("alive")
            head.append(self._set(alive, True, None))
            self.loops.alive = self.loops.spilled[alive]
        body = self.block([self.launch.body], None)
        head += self.barriers.head()
        return replace(self.launch, body=S.seq(*head, *body), thread_vars=())

    def _has_divergent_return(self) -> bool:
        def may_return(stmt: S.Stmt, control: bool) -> bool:
            if isinstance(stmt, S.ThreadReturn):
                return control
            conds = list(stmt.exprs()) if isinstance(stmt, (S.If, S.For, S.While)) else []
            under = control or any(self.varying.varies(cond) for cond in conds)
            return any(may_return(block, under) for block in stmt.blocks())

        return may_return(self.launch.body, False)

    # -- statements in order --------------------------------------------------------------
    def block(self, stmts: list[S.Stmt], mask: E.Expr | None) -> list[S.Stmt]:
        """``stmts`` run by the threads for which ``mask`` (over the thread variables) holds."""
        out: list[S.Stmt] = []
        run = _Run()
        known = Bounds().with_ranges([*self.places, *self.loops.recompute.items()])
        for original in joined(S.flat(*stmts), known):
            stmt = self._condition_in_body(original)
            if any(map(exchanges, stmt.exprs())):
                self._flush(run, mask, out)
                stmt = self._with_exchanges(stmt, mask, out)
            kind = self.classify(stmt)
            if kind == "drop":
                self._flush(run, mask, out)
            elif kind == "barrier":
                self._flush(run, mask, out)
                assert isinstance(stmt, S.Eval)
                out += self.barriers.operation(stmt, mask, mask is not None)
            elif kind == "recompute":
                assert isinstance(stmt, S.Let)
                self.loops.recompute[stmt.var] = stmt.value
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
                out.extend(self._uniform(stmt, mask))
            self.may_have_returned |= self.loops.alive is not None and S.holds(stmt, S.ThreadReturn)
        self._flush(run, mask, out)
        return out

    def _condition_in_body(self, stmt: S.Stmt) -> S.Stmt:
        """A loop whose condition is a warp intrinsic, with the condition evaluated in its body."""
        if not isinstance(stmt, S.While) or not exchanges(stmt.cond):
            return stmt
        keep_going = E.Var("cond", BOOL)
        self.varying.names.add(keep_going)
        leave = S.If(cond=E.unary("lnot", keep_going), then=S.Break(loc=stmt.loc), loc=stmt.loc)
        head = S.Let(var=keep_going, value=stmt.cond, loc=stmt.loc)
        return replace(stmt, cond=E.const(True), body=S.seq(head, leave, stmt.body))

    def _with_exchanges(self, stmt: S.Stmt, mask: E.Expr | None, out: list[S.Stmt]) -> S.Stmt:
        """``stmt`` with variables for the results of its warp intrinsics; the exchanges, in which
        the threads that pass ``mask`` take part, go to ``out``."""
        exchange = Exchange(self.loops, mask)
        rewritten = rewrite_exprs(stmt, exchange.expr)
        out.extend(exchange.out)
        return rewritten

    def classify(self, stmt: S.Stmt) -> str:
        """The way to run ``stmt``: "thread", "recompute", "barrier", "drop", "once" (uniform)."""
        if stmt.call is not None:
            atom = stmt.call.atom
            if atom.is_sync:
                return "barrier"
            if atom.optional:
                return "drop"
        if isinstance(stmt, S.Let):
            if not self.varying.varies(stmt.value):
                return "once"
            return "recompute" if self._can_recompute(stmt.value) else "thread"
        if isinstance(stmt, S.View):
            self._check_view(stmt)
        if isinstance(stmt, (S.TileOp, S.Parallel, S.Alloc, S.View, S.Launch)):
            return "once"
        if (self._is_in_divergent_loop() and leaves(stmt)) or not self._differs_by_thread(stmt):
            return "once"
        if _is_collective(stmt) or self._orders_threads(stmt) or self._updates_uniform_state(stmt):
            return "once"
        return "thread"

    def _check_view(self, view: S.View) -> None:
        varying_names = sorted(
            var.name for var in shape_vars(view.buffer) if self.varying.varies(var)
        )
        if varying_names:
            raise TileUnsupportedError(
                f"the shape of the view `{view.buffer.name}` differs between threads",
                expected="extents, strides and an offset that all threads of a block share",
                got=f"one that depends on `{varying_names[0]}`", loc=view.loc,
                hint="put what differs into the indices; GPUs and the interpreter run it as it is",
            )  # fmt: skip

    def _is_in_divergent_loop(self) -> bool:
        return bool(self.loop_stack) and self.loop_stack[-1] is not None

    def _can_recompute(self, value: E.Expr) -> bool:
        """Whether a varying value may be computed at the head of any later loop: it reads no
        memory, and nothing that it is computed from has to be kept from where it was bound."""
        return self.ordered.isdisjoint(value.variables) and not any(
            isinstance(n, E.Load) or (isinstance(n, E.Call) and n.atom.effect is not Effect.NONE)
            for n in E.walk(value)
        )

    def _differs_by_thread(self, stmt: S.Stmt) -> bool:
        """Whether threads do different things in ``stmt``, or one thing each."""
        for node in S.walk(stmt):
            if isinstance(node, S.ThreadReturn):
                return self.loops.alive is not None
            if isinstance(node, S.ReducerUpdate):
                return True  # each thread contributes, with equal values or not
            if any(self.varying.has_effect(expr) for expr in node.exprs()):
                return True
        return self.varying.touches(stmt)

    def _updates_uniform_state(self, stmt: S.Stmt) -> bool:
        """Whether ``stmt`` changes a private variable that is the same for all threads and so
        is updated once: each thread in a loop over them would update it again."""
        allocated = {node.buffer.data for node in S.find(stmt, S.Alloc)}
        changed = [
            access.buffer
            for access in effects.accesses(stmt, nested=True)
            if access.writes and not isinstance(access.by, S.TileOp)
        ]
        return any(
            buffer.storage in PRIVATE
            and buffer.data not in allocated
            and not self.loops.is_private(buffer)
            for buffer in changed
        )

    def _orders_threads(self, stmt: S.Stmt) -> bool:
        """Whether ``stmt`` is a compound whose inner statements pass data between threads."""
        if not isinstance(stmt, (S.For, S.While, S.If)):
            return False
        reads, writes = memory_use(stmt)
        shared = {
            node.buffer.data
            for node in S.find(stmt, S.Store)
            if node.buffer.storage in SHARED_STATE[:3]
        }
        if isinstance(stmt, S.If) and not S.holds(stmt, S.For, S.While):
            return bool(reads & writes)
        return bool(shared) or bool(reads & writes) or bool(updated_in_two_ways(stmt))

    # -- one loop over the threads ---------------------------------------------------------
    def _flush(self, run: _Run, mask: E.Expr | None, out: list[S.Stmt]) -> None:
        if not run.stmts:
            return
        stmts = run.stmts
        inside = Counter(vars_in(S.Seq(stmts=tuple(stmts))))
        t = E.Var("t", INT)
        body: list[S.Stmt] = []
        for stmt in stmts:
            if isinstance(stmt, S.Let) and inside[stmt.var] < self.uses[stmt.var]:
                alloc, slots = self.loops.keep(stmt.var, stmt.loc)  # it is used later
                out.append(alloc)
                stmt = S.Store(buffer=slots, indices=(t,), value=stmt.value, loc=stmt.loc)
            body.append(stmt)
        out.append(self.loops.over(body, mask, t))
        run.stmts, run.reads, run.writes = [], set(), set()

    # -- uniform statements ----------------------------------------------------------
    def _uniform(self, stmt: S.Stmt, mask: E.Expr | None) -> list[S.Stmt]:
        if isinstance(stmt, S.Alloc):
            return self._alloc(stmt, mask)
        if isinstance(stmt, S.View):
            private = stmt.source is None and self.loops.is_private(stmt.buffer)
            return [replace(stmt, buffer=self.loops.slot_buffer(stmt.buffer)) if private else stmt]
        if isinstance(stmt, (S.Break, S.Continue)) and self._is_in_divergent_loop():
            return [self._exit_loop(stmt, mask)]
        if isinstance(stmt, S.Parallel):
            return self._when_any(mask, self._parallel(stmt, mask))
        if isinstance(stmt, S.TileOp):
            return self._when_any(mask, self._tile_op(stmt, mask))
        if isinstance(stmt, S.If):
            return self._if(stmt, mask)
        if isinstance(stmt, (S.For, S.While)):
            return self._loop(stmt, mask)
        return self._let(stmt, mask) if isinstance(stmt, S.Let) else self._when_any(mask, [stmt])

    def _let(self, stmt: S.Let, mask: E.Expr | None) -> list[S.Stmt]:
        """A value that is the same for all threads. It stays in scope of what follows, so its
        definition is not under the mask; memory is read only if some thread executes this."""
        reads = any(isinstance(node, (E.Load, E.Call)) for node in E.walk(stmt.value))
        if not reads or stmt.var.dtype == "handle" or not self._may_be_skipped(mask):
            return [stmt]
        test, flag = self._any(mask)
        nothing = E.const(0, stmt.var.dtype)
        return [*test, replace(stmt, value=E.select(flag, stmt.value, nothing, lazy=True))]

    def _tile_op(self, stmt: S.TileOp, mask: E.Expr | None) -> list[S.Stmt]:
        issued = isinstance(stmt, S.Copy) and stmt.mode == "tma"
        if isinstance(stmt, S.Copy) and stmt.barrier is not None:
            stmt = replace(stmt, barrier=None)  # it is synchronous
        private = any(access.data in self.varying.names for access in effects.own(stmt))
        if not private and not any(self.varying.varies(expr) for expr in stmt.exprs()):
            return [stmt]
        # The operation of each thread on its own storage, or by the first thread for all.
        is_once = issued or not (private or isinstance(stmt, (S.Copy, S.Fill)))
        return [self.loops.over([stmt, S.Break()] if is_once else [stmt], mask)]

    def _alloc(self, stmt: S.Alloc, mask: E.Expr | None) -> list[S.Stmt]:
        if stmt.buffer.storage.endswith("barrier"):
            return self.barriers.alloc(stmt)
        if stmt.buffer.data not in self.varying.names:
            return [stmt]
        out: list[S.Stmt] = [S.Alloc(buffer=self.loops.slot_buffer(stmt.buffer), loc=stmt.loc)]
        init = stmt.init
        if init is None and stmt.buffer.is_var:  # variables start as zero
            init = E.const(0, stmt.buffer.dtype)
        if init is not None:
            first = tuple(E.const(0) for _ in stmt.buffer.shape)
            store = S.Store(buffer=stmt.buffer, indices=first, value=init, loc=stmt.loc)
            out.append(self.loops.over([store], mask))
        return out

    def _may_be_skipped(self, mask: E.Expr | None) -> bool:
        """Whether it may be that no thread runs this statement."""
        if any(nonempty is mask for nonempty in self.present):
            return False
        return mask is not None or self.may_have_returned

    def _when_any(self, mask: E.Expr | None, stmts: list[S.Stmt]) -> list[S.Stmt]:
        """``stmts`` if some thread that has not returned passes ``mask``."""
        if not self._may_be_skipped(mask):
            return stmts
        test, flag = self._any(mask)
        return [*test, S.If(cond=flag, then=S.seq(*stmts))]

    def _any(self, mask: E.Expr | None) -> tuple[list[S.Stmt], E.Expr]:
        """Statements that compute whether any thread is active here, and the expression with the
        result."""
        flag = Buffer("any", Shape((1,)), BOOL, "local.var")
        zero = (E.const(0),)
        test = self.loops.over([S.Store(buffer=flag, indices=zero, value=E.const(True))], mask)
        return [S.Alloc(buffer=flag, init=E.const(False)), test], E.Load(flag, zero)

    def _if(self, stmt: S.If, mask: E.Expr | None) -> list[S.Stmt]:
        if not self.varying.varies(stmt.cond):
            then = S.seq(*self.block([stmt.then], mask))
            orelse = None if stmt.orelse is None else S.seq(*self.block([stmt.orelse], mask))
            return [S.If(cond=stmt.cond, then=then, orelse=orelse, loc=stmt.loc)]
        outermost, self.in_part = not self.in_part, True
        out, parts = self._parts(stmt, mask)
        self.in_part = not outermost
        return out + (interleave(parts) if outermost else [each for part in parts for each in part])

    def _parts(self, stmt: S.If, mask: E.Expr | None) -> tuple[list[S.Stmt], list[list[S.Stmt]]]:
        """The statements that compute which threads run which branch of a chain, and those of
        each."""
        out: list[S.Stmt] = []
        cond = stmt.cond
        if any(isinstance(node, E.Load) for node in E.walk(cond)):
            # The branch must not change what it was chosen by.
            out, cond = self.loops.spill("cond", cond, mask, stmt.loc)
        parts = [self.block([stmt.then], cond if mask is None else E.binary("land", mask, cond))]
        if stmt.orelse is None:
            return out, parts
        negated = E.unary("lnot", cond)
        else_mask = negated if mask is None else E.binary("land", mask, negated)
        inner = stmt.orelse
        if isinstance(inner, S.If) and not E.holds(inner.cond, E.Load, E.Call):
            return out, parts + self._parts(inner, else_mask)[1]
        return out, [*parts, self.block([inner], else_mask)]

    def _loop(self, stmt: S.For | S.While, mask: E.Expr | None) -> list[S.Stmt]:
        if self.varying.divides(stmt):
            return self._divergent_loop(stmt, mask)
        if S.holds(stmt, S.ThreadReturn):  # threads of an earlier iteration
            self.may_have_returned |= self.loops.alive is not None
            if isinstance(stmt, S.While) and self._may_be_skipped(mask):
                # Without a thread that has not returned, its condition would never change.
                body = self._body(stmt.body, mask, None)
                test, flag = self._any(mask)
                leave = S.If(cond=E.unary("lnot", flag), then=S.Break(loc=stmt.loc), loc=stmt.loc)
                return [replace(stmt, body=S.seq(*test, leave, *body))]
        elif self._may_be_skipped(mask):
            # Tested once for all iterations; and without a thread to run its body, the condition
            # of a While would never change.
            self.present.append(mask)
            body = self._body(stmt.body, mask, None)
            self.present.pop()
            return self._when_any(mask, [replace(stmt, body=S.seq(*body))])
        return [replace(stmt, body=S.seq(*self._body(stmt.body, mask, None)))]

    def _body(self, body: S.Stmt, mask: E.Expr | None, loop: _DivergentLoop | None) -> list[S.Stmt]:
        self.loop_stack.append(loop)
        statements = self.block([body], mask)
        self.loop_stack.pop()
        return statements

    # -- loops that threads leave at different iterations --------------------------------------
    def _divergent_loop(self, stmt: S.For | S.While, mask: E.Expr | None) -> list[S.Stmt]:
        """The loop as long as some thread is in it, each iteration run by those that are."""
        going, out = self._flags("going")
        present = going
        if leaves(stmt.body):  # some are out of an iteration that others go on with
            present, setup = self._flags("here")
            out += setup
        loop = _DivergentLoop(going, present)
        if mask is not None:
            out.append(self._set(going, False, None))
        out.append(self._set(going, True, mask))
        if isinstance(stmt, S.While):
            body = S.seq(*self._divergent_iteration(stmt, loop, stmt.cond))
            return [*out, replace(stmt, cond=E.const(True), body=body)]
        fixed: list[E.Expr] = []
        for bound in (stmt.start, stmt.stop, stmt.step):
            fixed.append(bound)
            if not isinstance(bound, E.Const) and self.varying.varies(bound):
                # As it is when the loop starts.
                setup, fixed[-1] = self.loops.spill("bound", bound, mask, stmt.loc)
                out += setup
        start, stop, step = fixed
        if not any(map(self.varying.varies, fixed)):
            return [
                *out,
                replace(stmt, body=S.seq(*self._divergent_iteration(stmt, loop, E.const(True)))),
            ]
        up, down = stmt.var < stop, E.binary("land", step < 0, stmt.var > stop)
        more = E.binary("lor", E.binary("land", step > 0, up), down)
        if isinstance(step, E.Const):
            more = up if step.value > 0 else stmt.var > stop
        if self.varying.varies(start) or self.varying.varies(step):
            setup, index = self.loops.spill(stmt.var.name, start, mask, stmt.loc)
            out += setup
            self.loops.spilled[stmt.var] = self.loops.spilled[index]
            head: list[S.Stmt] = []
            last: S.Stmt = self._set(stmt.var, stmt.var + step, going)
        else:  # all threads in the loop are at the same iteration
            count = Buffer(stmt.var.name, Shape((1,)), stmt.var.dtype, "local.var")
            zero = (E.const(0),)
            out.append(S.Alloc(buffer=count, init=E.cast(start, stmt.var.dtype)))
            head = [S.Let(var=stmt.var, value=E.Load(count, zero), loc=stmt.loc)]
            value = E.cast(stmt.var + step, stmt.var.dtype)
            last = S.Store(buffer=count, indices=zero, value=value)
        body = S.seq(*head, *self._divergent_iteration(stmt, loop, more), last)
        return [*out, S.While(cond=E.const(True), body=body, loc=stmt.loc)]

    def _divergent_iteration(
        self, stmt: S.For | S.While, loop: _DivergentLoop, more: E.Expr
    ) -> list[S.Stmt]:
        """One iteration: the mask of active threads, the exit when it is empty, and the body."""
        flag = Buffer("any", Shape((1,)), BOOL, "local.var")
        t, zero = E.Var("t", INT), (E.const(0),)
        has_own_mask = loop.mask is not loop.going
        stays: list[S.Stmt] = [S.Store(buffer=flag, indices=zero, value=E.const(True))]
        if has_own_mask:
            stays.append(self._slot_store(loop.mask, t, True))
        choose = S.seq(*stays)
        if not isinstance(more, E.Const):
            choose = S.If(cond=more, then=choose, orelse=self._slot_store(loop.going, t, False))
        stop = S.If(cond=E.unary("lnot", E.Load(flag, zero)), then=S.Break())
        out: list[S.Stmt] = [S.Alloc(buffer=flag, init=E.const(False))]
        if has_own_mask:
            out.append(self._set(loop.mask, False, None))
        out += [self.loops.over([choose], loop.going, t), stop]
        is_nonempty = not has_own_mask and not S.holds(stmt, S.ThreadReturn)
        self.may_have_returned |= self.loops.alive is not None and S.holds(stmt, S.ThreadReturn)
        if is_nonempty:
            self.present.append(loop.mask)
        out += self._body(stmt.body, loop.mask, loop)
        if is_nonempty:
            self.present.pop()
        return out

    def _exit_loop(self, stmt: S.Break | S.Continue, mask: E.Expr | None) -> S.Stmt:
        """The threads that execute ``stmt`` leave the iteration, or with break the loop."""
        loop = self.loop_stack[-1]
        assert loop is not None
        t = E.Var("t", INT)
        body = [self._slot_store(loop.mask, t, False)]
        if isinstance(stmt, S.Break):
            body.append(self._slot_store(loop.going, t, False))
        return self.loops.over(body, mask, t)

    def _flags(self, name: str) -> tuple[E.Var, list[S.Stmt]]:
        """A bool of each thread, and the statement that makes its slots."""
        var = E.Var(name, BOOL)
        alloc, _ = self.loops.keep(var)
        return var, [alloc]

    def _slot_store(self, var: E.Var, t: E.Var, value: object) -> S.Stmt:
        stored = E.cast(E.as_expr(value), var.dtype)
        return S.Store(buffer=self.loops.spilled[var], indices=(t,), value=stored)

    def _set(self, var: E.Var, value: object, mask: E.Expr | None) -> S.Stmt:
        t = E.Var("t", INT)
        return self.loops.over([self._slot_store(var, t, value)], mask, t)

    def _parallel(self, stmt: S.Parallel, mask: E.Expr | None) -> list[S.Stmt]:
        """The loop nest of a ``T.Parallel``; iterations touch per-thread storage through the
        thread that runs them."""
        head, body = list[S.Stmt](), self._plain_body(stmt.body)
        if self.varying.touches(stmt.body):
            t = E.Var("t", INT)
            linear = row_major(stmt.extents, stmt.vars)
            if stmt.loop_layout is not None:
                owner = E.as_expr(stmt.loop_layout.thread_of(stmt.vars))
            elif mask is None:
                owner = linear % self.count
            else:
                head, owner = self._thread_of_iteration(linear, mask)
            body = self.loops.at_thread(body, t)
            if mask is None and _uses_thread_state(stmt.body):
                # In order: each thread has its own generator, which the loop over it alone names.
                body = replace(thread_loop(t, 1, body), start=owner, stop=owner + 1)
                return [S.nested(stmt.vars, stmt.extents, body, False, stmt.loc)]
            body = S.seq(S.Let(var=t, value=owner), body)
        return [*head, S.nested(stmt.vars, stmt.extents, body, True, stmt.loc)]

    def _thread_of_iteration(self, number: E.Expr, mask: E.Expr) -> tuple[list[S.Stmt], E.Expr]:
        """Statements that list the threads of ``mask``, and the one for iteration ``number``."""
        t, members = E.Var("t", INT), Buffer("members", Shape((self.count + 1,)), INT, "local")
        last = (E.const(self.count),)  # place of their number
        member = E.Load(members, last)
        add = S.Store(buffer=members, indices=(member,), value=t)
        count = S.Store(buffer=members, indices=last, value=member + 1)
        head = [S.Alloc(buffer=members), replace(count, value=E.const(0))]
        listed = self.loops.over([add, count], mask, t)
        return [*head, listed], E.Load(members, (E.cast(number, INT) % member,))

    def _plain_body(self, body: S.Stmt) -> S.Stmt:
        """Nested ``T.Parallel`` loops of a body as plain loops."""
        return map_stmts(body, S.Parallel, lambda loop: S.seq(*self._parallel(loop, None)))


def _uses_thread_state(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` uses the state of the thread that runs it."""
    return any(call.atom.per_thread and call.atom.effect is Effect.OUTPUT for call in S.calls(stmt))


def _is_collective(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` holds an operation of the whole group: tile op, Parallel, barrier, vote."""
    return any(
        isinstance(node, (S.TileOp, S.Parallel))
        or any(call.atom.effect is Effect.SYNC and not call.atom.optional for call in node.calls())
        for node in S.walk(stmt)
    )
