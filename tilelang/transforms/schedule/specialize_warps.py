"""Warp specialization: one producer warpgroup copies ahead while the consumers compute.

A launch whose pipelines have mbarriers becomes two roles around its body. The *consumers* are the
threads that the program has, with everything it does; a *producer* warpgroup behind them runs the
loops and conditions around the pipelines alone and fills their stages, as far ahead as there are
versions. The register file is handed on: a producer needs few registers. What every thread finds
out for itself before (the group of a tile in a table, say) stands before the roles, or in both
where the loops around a pipeline find it out anew.

Relied on: a pipeline whose order has been proved, in the form that ``pipeline_loops`` writes. The
order by roles is proved anew; where it cannot be, or the launch does not qualify (``why_not``), it
stays as it is and its loops say why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from math import prod

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.simplify import simplified_with, simplify
from tilelang.ir.visitor import Rewriter, map_stmts, rewrite_blocks, rewrite_launches
from tilelang.target import Context
from tilelang.transforms.analysis.mechanism import MECHANISMS
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.normalize.register_hints import BUDGET
from tilelang.transforms.normalize.register_hints import NOTE as REGISTER_NOTE
from tilelang.transforms.schedule.pipeline import append_note
from tilelang.transforms.verify.schedule import refusal

WARPGROUP = 128
MOST_THREADS = 1024
ACCUMULATOR_REGISTERS, OTHER_REGISTERS = (
    128,
    26,
)  # registers of the sums of m64n256, and those beside that ptxas asks for
PRIVATE = ("local", "local.var")  # scopes of arrays that a thread has alone
# Consumer warpgroups -> registers of a thread of them, of a producer: what 65536 registers give
# that compiles without spills (setmaxnreg counts in eights). One of each has 255 from the start.
REGISTERS = {2: (232, 40), 3: (160, 32), 4: (112, 32)}


class _NotSpecializedError(Exception):
    """Why a launch keeps one role; caught by :func:`specialize_warps`."""


def specialize_warps(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with a producer warpgroup in each launch that qualifies."""
    return rewrite_launches(func, lambda launch: specialized(launch, context))


@lru_cache(maxsize=1)  # `overlap_persistent_epilogues` has asked what becomes of a launch
def specialized(launch: S.Launch, context: Context) -> S.Stmt:
    """One kernel, with a producer warpgroup if it qualifies."""
    if not any(map(_has_mbarriers, S.walk(launch.body))):
        return launch
    try:
        _check(launch, context)
        return _specialized(launch, context)
    except _NotSpecializedError as why:
        return _noted(launch, f"one role: {why}")


def _has_mbarriers(stmt: S.Stmt) -> bool:
    """Whether two roles can share a pipeline: it has mbarriers instead of block barriers."""
    return isinstance(stmt, H.Pipeline) and MECHANISMS[stmt.mechanism].has_phases


# -- the rule ----------------------------------------------------------------------------------
def _check(launch: S.Launch, context: Context) -> None:
    """The rule. A launch is specialised where the target hands registers on and has products of
    warpgroups, a product reads tiles of a pipeline, its threads are whole warpgroups that leave
    room for another, and it orders nothing itself: a producer takes part in no barrier of the
    program and has no thread index that the program knows. With one warpgroup of consumers the
    blocks of a multiprocessor hide each other's waits, if two of them fit there.

    Raises:
        _NotSpecializedError: it is not; says why.
    """
    pipelines = S.find(launch.body, H.Pipeline)
    if not context.has("roles") or not context.has("wgmma"):
        raise _NotSpecializedError("the target or its options leave roles out")
    threads = prod(launch.threads)
    if launch.threads[0] != threads or threads % WARPGROUP:
        raise _NotSpecializedError(f"{threads} threads are not a whole number of warpgroups")
    if threads + WARPGROUP > MOST_THREADS:
        raise _NotSpecializedError(f"{threads} threads leave no room for a producer warpgroup")
    if not all(map(_has_mbarriers, pipelines)):
        raise _NotSpecializedError("a pipeline in it has no mbarriers")
    tiles = {data for node in pipelines for data in node.tiles}
    if not any(_reads_pipeline(node, tiles) for node in S.walk(launch.body)):
        raise _NotSpecializedError("no product of warpgroups reads what is copied ahead")
    if threads == WARPGROUP and 2 * shared_bytes(launch) <= context.limits.shared_processor:
        raise _NotSpecializedError("several blocks of one warpgroup share a multiprocessor")
    most = context.limits.registers_at_start(threads + WARPGROUP)
    if any(_registers(node, threads) > most for node in S.walk(launch.body)):
        raise _NotSpecializedError(
            f"{threads + WARPGROUP} threads begin with {most} registers, too few for its products"
        )
    _check_order(launch)


def _registers(stmt: S.Stmt, threads: int) -> int:
    """Registers of a thread that one instruction of a product may take; the assembler wants it to
    fit into those that a block begins with, whatever is handed on later (C7602)."""
    if not isinstance(stmt, S.Gemm) or stmt.c.buffer.storage != FRAGMENT:
        return 0
    sums = prod(extent for extent in stmt.c.buffer.shape if isinstance(extent, int)) // threads
    return min(sums, ACCUMULATOR_REGISTERS) + OTHER_REGISTERS


def _reads_pipeline(stmt: S.Stmt, tiles: set[E.Var]) -> bool:
    """Whether ``stmt`` is a product by warpgroups with an operand in ``tiles``."""
    if not isinstance(stmt, S.Gemm) or stmt.b.dtype.bits > 16:
        return False
    return not tiles.isdisjoint((stmt.a.buffer.data, stmt.b.buffer.data))


def shared_bytes(launch: S.Launch) -> int:
    """Bytes of all shared tiles of ``launch``, without reuse."""
    buffers = [node.buffer for node in S.find(launch.body, S.Alloc)]
    return sum(tile.constant_bytes for tile in buffers if tile.storage in ("shared", "shared.dyn"))


def _check_order(launch: S.Launch) -> None:
    """What the program says of its threads and of their order itself."""
    if launch.annotation("ws_schedule") is not None:
        raise _NotSpecializedError("it has a schedule of roles of its own")
    for stmt in S.walk(launch.body):
        if isinstance(stmt, (S.Break, S.Continue, S.ThreadReturn)):
            raise _NotSpecializedError("loops or the kernel may end early")
        own = isinstance(stmt, (S.HardwareOp, H.Roles)) or getattr(stmt, "asynchronous", False)
        if own or (isinstance(stmt, S.COPIES) and stmt.mode == "async"):
            raise _NotSpecializedError("it orders asynchronous operations itself")
        for expr in stmt.exprs():
            if not expr.variables.isdisjoint(launch.thread_vars):
                raise _NotSpecializedError("it uses the index of the thread")
            for call in E.find(expr, E.Call):
                if call.atom.effect is Effect.SYNC or call.atom.per_thread:
                    raise _NotSpecializedError(f"it synchronizes threads itself with `{call.op}`")


# -- roles -------------------------------------------------------------------------------------
def _specialized(launch: S.Launch, context: Context) -> S.Launch:
    """``launch`` with its body by roles.

    Raises:
        _NotSpecializedError: what a producer does cannot be taken out of it.
    """
    stmts = tuple(_flat(launch.body))
    pipelines = S.find(launch.body, H.Pipeline)
    tiles = {data for node in pipelines for data in node.tiles}
    if len(tiles) < sum(len(node.tiles) for node in pipelines):
        raise _NotSpecializedError("two pipelines share a tile")
    front = [inner for inner in stmts if isinstance(inner, S.Alloc) and inner.buffer.data in tiles]
    rest = [inner for inner in stmts if inner not in front]
    if any(S.holds(stmt, H.Pipeline) for stmt in rest):
        raise _NotSpecializedError("a pipeline stands inside of other statements")
    pipes = {node.pipe for node in pipelines}
    common, private = _common_prologue(rest, launch)
    rest = [inner for inner in rest if inner not in common]
    try:
        copying = _producer_body(rest, launch, pipes, private)
    except _NotSpecializedError:
        more_private = private | _private(rest, launch, pipes)
        if more_private == private:
            raise
        private = more_private
        common += [
            inner
            for inner in rest
            if isinstance(inner, S.Alloc) and inner.buffer.data in more_private
        ]
        rest = [inner for inner in rest if inner not in common]
        copying = _producer_body(rest, launch, pipes, private)
    threads = prod(launch.threads)
    upper, lower, note = _budget(launch, context)
    elected = all(MECHANISMS[node.mechanism].elected for node in pipelines)
    roles = (
        H.Role(name="producer", first=threads, count=WARPGROUP, registers=lower, elected=elected,
               body=copying),
        H.Role(name="consumers", first=0, count=threads, registers=upper,
               body=_Consumers(pipes).rewrite(S.seq(*rest))),
    )  # fmt: skip
    body: S.Stmt = H.Roles(branches=roles)
    nested = []
    for node in reversed(pipelines):
        body = replace(node, body=body)
        nested.append(body)
    for node in nested:
        why = refusal(node)
        if why is not None:
            raise _NotSpecializedError(why)
    launch = replace(
        launch,
        threads=(threads + WARPGROUP, 1, 1),
        body=S.seq(*front, *common, body),
        annotations=_with_note(launch.annotations, note),
    )
    count = threads // WARPGROUP
    groups = f"{count} warpgroup{'s' if count > 1 else ''}"
    return _noted(launch, f"filled by a warpgroup of its own, used by {groups}")


def _noted(launch: S.Launch, note: str) -> S.Launch:
    """``launch`` with who runs its pipelined loops in their notes."""

    def noted(loop: S.For) -> S.Stmt:
        return append_note(loop, note) if _uses(loop) else loop

    return launch.with_body(map_stmts(launch.body, S.For, noted))


def _producer_body(
    stmts: list[S.Stmt], launch: S.Launch, pipes: set[E.Var], private: set[E.Var]
) -> S.Stmt:
    """What a producer does of ``stmts``, with ``private`` arrays of its own.

    Raises:
        _NotSpecializedError: it cannot be taken out of them.
    """
    project = _Producer(launch, pipes, private)
    body, before = project.block(stmts), 0
    while before != (before := sum(1 for _ in S.walk(body))):
        body = _without_unused(body, private)
    project.check(body)
    return body


def _flat(stmt: S.Stmt) -> Iterator[S.Stmt]:
    """The statements of a kernel in order, with those of its pipelines in their place."""
    if isinstance(stmt, S.Seq):
        for inner in stmt.stmts:
            yield from _flat(inner)
    elif isinstance(stmt, H.Pipeline):
        yield from _flat(stmt.body)
    else:
        yield stmt


def _common_prologue(stmts: list[S.Stmt], launch: S.Launch) -> tuple[list[S.Stmt], set[E.Var]]:
    """What all threads compute for themselves before the pipelines, and the arrays of a thread that
    only this writes: it depends on nothing that a kernel writes elsewhere."""
    ahead = list(takewhile(lambda stmt: not any(map(_is_pipeline_step, S.walk(stmt))), stmts))
    allocs = S.find(launch.body, S.Alloc)
    private = {node.buffer.data for node in allocs if node.buffer.storage in PRIVATE}
    while private:
        known = _Producer(launch, set(), private)
        common = [stmt for stmt in ahead if known.can_repeat(stmt)]
        stores = [stmt for stmt in common if not isinstance(stmt, (S.Alloc, S.Let))]
        rest = [stmt for stmt in stmts if stmt not in common]
        others = {data for stmt in rest for data in effects.written(stmt)}
        if private.isdisjoint(others):
            return (common, private) if stores else ([], set())
        private -= others
    return [], set()


def _private(stmts: list[S.Stmt], launch: S.Launch, pipes: set[E.Var]) -> set[E.Var]:
    """The arrays of a thread at the top of the kernel that a producer can fill for itself beside
    its loops over pipelines, time after time as consumers do."""
    allocs = (stmt for stmt in stmts if isinstance(stmt, S.Alloc))
    private = {stmt.buffer.data for stmt in allocs if stmt.buffer.storage in PRIVATE}
    while private:
        others = _Producer(launch, pipes, private).consumer_writes(S.seq(*stmts))
        if private.isdisjoint(others):
            break
        private -= others
    return private


def _is_pipeline_step(stmt: S.Stmt) -> bool:
    return isinstance(stmt, (H.Acquire, H.Wait, H.Run))


def _budget(launch: S.Launch, context: Context) -> tuple[int | None, int | None, str | None]:
    """Registers of consumers and producer, and what became of the program's hints."""
    threads = prod(launch.threads)
    hints = launch.annotation(BUDGET)
    if hints == "off" or launch.annotation("min_blocks_per_sm", 1) > 1:
        return None, None, None
    upper, lower = REGISTERS.get(threads // WARPGROUP, (None, None))
    if isinstance(hints, tuple):
        lower, upper = (own or given for own, given in zip(hints, (lower or 24, upper or 240)))
        block = threads + WARPGROUP
        if upper * threads + lower * WARPGROUP > context.limits.registers_at_start(block) * block:
            raise _NotSpecializedError(
                f"{upper} registers for consumers and {lower} for a producer are too many"
            )
    if upper is None or lower is None:
        return None, None, None
    return upper, lower, f"{upper} for consumers, {lower} for the producer"


def _with_note(annotations: S.Pairs, note: str | None) -> S.Pairs:
    """``annotations`` with what became of registers, without the hints that led to it."""
    kept = tuple(pair for pair in annotations if pair[0] != BUDGET)
    if note is None:
        return kept
    return (*(pair for pair in kept if pair[0] != REGISTER_NOTE), (REGISTER_NOTE, note))


class _Consumers(Rewriter):
    """Everything except the statements that fill stages of ``pipes``."""

    def __init__(self, pipes: set[E.Var]) -> None:
        self.pipes = pipes

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        if isinstance(stmt, S.If) and _acquires(stmt.then, self.pipes) and not _uses(stmt):
            return []
        if isinstance(stmt, S.Seq) and any(_is_acquire(inner, self.pipes) for inner in stmt.stmts):
            return super()._visit(S.Seq(stmts=tuple(_without_fills(stmt.stmts, self.pipes))))
        return super()._visit(stmt)


def _is_acquire(stmt: S.Stmt, pipes: set[E.Var]) -> bool:
    return isinstance(stmt, H.Acquire) and stmt.pipe in pipes


def _acquires(stmt: S.Stmt, pipes: set[E.Var]) -> bool:
    return any(_is_acquire(node, pipes) for node in S.walk(stmt))


def _uses(stmt: S.Stmt) -> bool:
    return S.holds(stmt, H.Wait)


def _without_fills(stmts: tuple[S.Stmt, ...], pipes: set[E.Var]) -> Iterator[S.Stmt]:
    """``stmts`` without those from an ``Acquire`` to its ``Commit``."""
    fill_loop = False
    for stmt in stmts:
        fill_loop |= _is_acquire(stmt, pipes)
        if not fill_loop:
            yield stmt
        fill_loop &= not isinstance(stmt, H.Commit)


def _without_unused(stmt: S.Stmt, private: set[E.Var]) -> S.Stmt:
    """``stmt`` without variables that only consumers need, and without what is stored to arrays
    of ``private`` that only they read."""
    used: set[E.Var] = set()
    read = {access.data for access in effects.accesses(stmt, nested=True) if access.reads}

    def block(stmt: S.Stmt) -> S.Stmt:
        kept: list[S.Stmt] = []
        for inner in reversed(tuple(_flat(stmt))):
            if isinstance(inner, S.Let) and inner.var not in used:
                continue
            if isinstance(inner, S.Store) and inner.buffer.data in private - read:
                continue
            for expr in inner.exprs():
                used.update(expr.variables)
            kept.append(rewrite_blocks(inner, block))
        return S.seq(*reversed(kept))

    return block(stmt)


class _Producer:
    """The statements that fill the stages of ``pipes``, with the loops and conditions around them.

    Args:
        private: arrays of a thread that all threads fill alike.
    """

    def __init__(self, launch: S.Launch, pipes: set[E.Var], private: set[E.Var]) -> None:
        self.pipes = pipes
        self.private = private
        self.written = effects.written(launch.body) - private
        self.consumer_vars: set[E.Var] = set()  # variables that only consumers compute

    def block(self, stmts: list[S.Stmt]) -> S.Stmt:
        """The part of a block."""
        return S.seq(*(inner for stmt in stmts for inner in self.produced(stmt)))

    def produced(self, stmt: S.Stmt) -> list[S.Stmt]:
        """The part of a statement."""
        if isinstance(stmt, S.Let):
            if self.is_steady(stmt.value):
                return [stmt]
            self.consumer_vars.add(stmt.var)
            return []
        if not S.holds(stmt, H.Wait):
            return [stmt] if effects.written(stmt) & self.private and self.can_repeat(stmt) else []
        if isinstance(stmt, S.For) and (fill := self.fill_loop(stmt)) is not None:
            return [fill]
        if not isinstance(stmt, (S.For, S.If, H.Run, S.Attr)):
            raise _NotSpecializedError(f"a pipeline stands in a {type(stmt).__name__}")
        return [rewrite_blocks(stmt, lambda inner: self.block(list(_flat(inner))))]

    def fill_loop(self, loop: S.For) -> S.For | None:
        """The loop of a pipeline reduced to the copies that it uses; None for another loop."""
        stmts = S.flat(loop.body)
        waits = [stmt for stmt in stmts if isinstance(stmt, H.Wait)]
        if len(waits) != 1 or waits[0].pipe not in self.pipes:
            return None
        fills = [stmt for stmt in stmts if isinstance(stmt, S.If) and _acquires(stmt, self.pipes)]
        if len(fills) != 1:
            raise _NotSpecializedError("an iteration does not fill exactly one pipeline stage")
        first = S.find(fills[0].then, H.Acquire)[0]
        ahead = simplify(first.number - waits[0].number)
        back: dict[E.Var, E.Expr] = {loop.var: simplify(loop.var - loop.step * ahead)}
        body = simplified_with(fills[0].then, back)
        kept = tuple(pair for pair in loop.annotations if pair[0] == "num_stages")
        return replace(loop, body=body, annotations=kept)

    def consumer_writes(self, stmt: S.Stmt) -> set[E.Var]:
        """The arrays that consumers write where a producer does not."""
        arrays: set[E.Var] = set()

        def visit(block: S.Stmt) -> S.Stmt:
            for inner in _flat(block):
                if S.holds(inner, H.Wait):
                    if isinstance(inner, S.For) and self.fill_loop(inner) is not None:
                        arrays.update(effects.written(inner))
                    else:
                        rewrite_blocks(inner, visit)
                elif not self.can_repeat(inner):
                    arrays.update(effects.written(inner))
            return block

        visit(stmt)
        return arrays

    def is_steady(self, expr: E.Expr) -> bool:
        """Whether a producer sees the value of ``expr`` that consumers see."""
        return self.consumer_vars.isdisjoint(expr.variables) and effects.is_steady(
            expr, self.written, self.private
        )

    def can_repeat(self, stmt: S.Stmt) -> bool:
        """Whether a producer may do what ``stmt`` does, for itself; notes what it may not."""
        for node in S.walk(stmt):
            if isinstance(node, (S.Alloc, S.Store)):
                fine = node.buffer.data in self.private
            else:
                fine = isinstance(node, (S.Let, S.For, S.If, S.Seq))
            if not fine or not all(map(self.is_steady, node.exprs())):
                self.consumer_vars |= {let.var for let in S.find(stmt, S.Let)}
                return False
        return True

    def check(self, body: S.Stmt) -> None:
        """Whether what ``body`` copies and asks does not depend on what consumers do."""
        for stmt in S.walk(body):
            if not all(map(self.is_steady, stmt.exprs())):
                raise _NotSpecializedError("what is copied depends on what is computed")
            if isinstance(stmt, S.COPIES) and stmt.src.buffer.data in self.written:
                raise _NotSpecializedError(f"`{stmt.src.buffer.name}` is written in the kernel")
