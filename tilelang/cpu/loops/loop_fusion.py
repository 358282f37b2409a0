"""Loop fusion: loops over the same elements become one loop.

The loops of a producer and a consumer over the same elements are fused from the outermost loop
inwards. A copy in, a computation and a copy out become one loop over a tile, and a reduction is
fused with the loop that computes its input. Values that fused iterations pass to each other need no
memory (:mod:`~tilelang.cpu.loops.scalar_replacement`). The operations of each element keep their
order, so no result changes.

Two loops are fused if they access common memory and ``dependence.Memory`` shows that an iteration
of one depends only on the same iteration of the other. Statements between them must be independent
of the loop that moves. Innermost loops are fused only if the stores of both are contiguous or those
of neither are, because only loops with contiguous stores are vectorized. A fused loop has at most
four accumulators, and a loop that calls functions is not fused into a nest.

Runs after tile operations have become loops, and before guards are inserted.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.cpu.loops.nests import line_of
from tilelang.cpu.loops.unroll_stencils import unrolled_stencil
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.hints import LoopHints
from tilelang.ir.memo import memoized
from tilelang.ir.visitor import rewrite_blocks, rewrite_launches, substitute_in
from tilelang.target import Context
from tilelang.transforms.analysis.dependence import Facts, Memory, steps_of
from tilelang.transforms.analysis.loops import steps_by_one, trip_count
from tilelang.transforms.notes import with_lines

REACH = 16  # statements between two loops that are fused
FEW = 32  # iterations of a loop with functions or a sum that may become parts of a nest
TOTALS = 4  # variables that a loop sums in: their partial results stay in registers
LARGEST = 24  # elements that a fused innermost loop stores


def fuse_loops(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with loops over the same elements fused."""
    memory = Memory(func)

    def fuse(launch: S.Launch) -> S.Stmt:
        fuser = _Fuser(memory)
        body = fuser.visit(launch.body)
        fused = launch.with_body(_renumber(body) if fuser.count else body)
        return with_lines(fused, (*fuser.unrolled, *fuser.notes()))

    return rewrite_launches(func, fuse)


class _Fuser:
    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.count = 0  # loops that were fused into others
        self.unrolled: list[str] = []  # lines on stencils whose window is unrolled
        self.hosts: dict[int, list[str]] = {}  # line -> the lines in whose loops it runs
        self.obstacles: dict[int, str] = {}  # line -> why its loop stays one of its own

    def visit(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with the loops of each sequence in it fused, and the windows of stencils
        unrolled inside their loops over elements, which can then be fused, too."""
        stencil = unrolled_stencil(stmt, self.memory) if isinstance(stmt, S.For) else None
        if stencil is not None:
            line = line_of(stmt, "has its window unrolled inside the loop over elements")
            self.unrolled += [line] if line else []
            return stencil
        inner = rewrite_blocks(stmt, self.visit)
        return self.sequence(inner) if isinstance(inner, S.Seq) else inner

    def sequence(self, seq: S.Seq, tried: int = 0) -> S.Stmt:
        """The loops of one sequence fused; the sequence itself where none is.

        Args:
            tried: statements at its start that have been tried with each other: a loop that takes
                in one after the other would look at all of them again each time.
        """
        before = self.count
        stmts = S.flat(seq)
        new = sum(not _is_early(stmt) for stmt in stmts[tried:])
        ordered = sorted(stmts, key=lambda stmt: not _is_early(stmt))
        out = ordered[: len(ordered) - new]
        for loop in ordered[len(ordered) - new :]:
            out = self.append(out, loop)
        return seq if self.count == before else S.seq(*out)

    def append(self, out: list[S.Stmt], stmt: S.Stmt) -> list[S.Stmt]:
        """``out`` and then ``stmt``, which joins an earlier loop if it can."""
        if not isinstance(stmt, S.For) or not self.is_plain(stmt):
            return [*out, stmt]
        used = self.memory.facts(stmt.body).used
        obstacle: tuple[S.For, str] | None = None
        for position in reversed(range(max(0, len(out) - REACH), len(out))):
            loop = out[position]
            if not isinstance(loop, S.For) or not self.is_plain(loop):
                continue
            if used.isdisjoint(self.memory.facts(loop.body).used):
                continue
            why = self.why_not(loop, stmt)
            after = [] if why else self.dependent(loop, out[position + 1 :])
            if not why and all(self.memory.is_independent(between, stmt) for between in after):
                self.note(stmt, loop, "")
                before = [between for between in out[position + 1 :] if between not in after]
                return [*self.append([*out[:position], *before], self.fused(loop, stmt)), *after]
            obstacle = obstacle or (loop, why or "statements between them depend on both")
        if obstacle is not None:
            self.note(stmt, *obstacle)
        return [*out, stmt]

    def note(self, stmt: S.For, loop: S.For, why: str) -> None:
        """Record, for reports, that ``stmt`` is fused into ``loop``, or ``why`` it is not."""
        if stmt.loc is None or loop.loc is None or stmt.loc.line == loop.loc.line:
            return
        line, host = stmt.loc.line, f"line {loop.loc.line}"
        if why:
            self.obstacles.setdefault(line, f"is not fused into the loop of {host}: {why}")
        elif host not in (hosts := self.hosts.setdefault(line, [])):
            hosts.append(host)

    def notes(self) -> tuple[str, ...]:
        """Which loops are fused and why others are not, in the order of the program's lines."""
        texts = {line: f"line {line} {why}" for line, why in self.obstacles.items()}
        for line, hosts in self.hosts.items():
            texts[line] = f"line {line} is fused into the loop of {' and of '.join(hosts)}"
        return tuple(texts[line] for line in sorted(texts))

    def dependent(self, loop: S.For, between: list[S.Stmt]) -> list[S.Stmt]:
        """Those of ``between`` that have to stay behind ``loop``."""
        blocked: list[S.Stmt] = [loop]
        for stmt in between:
            if not all(self.memory.is_independent(earlier, stmt) for earlier in blocked):
                blocked.append(stmt)
        return blocked[1:]

    def why_not(self, a: S.For, b: S.For) -> str:
        """Why the iterations of ``b`` do not follow those of ``a`` one by one; "" where they do."""
        if a.start is not b.start or a.stop is not b.stop:
            return "it has another extent"
        if len(a.hints.reduction) + len(b.hints.reduction) > TOTALS:
            return f"a loop sums {TOTALS} values at most"
        totals = [loop.hints.reduction or loop.hints.scan for loop in (a, b)]
        if all(totals) and (a.hints.scan or b.hints.scan):
            return "a loop has at most one scan"
        first, second = self.memory.facts(a.body), self.memory.facts(b.body)
        if _is_innermost(first) and _is_innermost(second):
            if self.stores_neighbours(a) != self.stores_neighbours(b):
                return "one of them stores elements that are not contiguous"
            if len({**first.stores, **second.stores}) > LARGEST:
                return "the loop would be too long"
        elif _wants_vectors(a, first) or _wants_vectors(b, second):
            return "one of them is vectorized"
        is_legal = self.memory.is_fusion_legal(a, b)
        return "" if is_legal else "an iteration uses what other iterations write"

    def fused(self, a: S.For, b: S.For) -> S.For:
        """One loop of the bodies of both."""
        self.count += 1
        tried = S.flat(a.body)
        body: S.Stmt = self.memory.concatenate(a.body, substitute_in(b.body, {b.var: a.var}))
        if a.hints.parallel is not None and b.hints.parallel is not None:
            hints = a.hints
        elif scan := a.hints.scan or b.hints.scan:
            hints = LoopHints(scan=scan)
        else:
            hints = LoopHints(reduction=(*a.hints.reduction, *b.hints.reduction))
        if isinstance(body, S.Seq) and S.For in self.memory.facts(body).kinds:
            body = self.sequence(body, len(tried))
        return replace(a, body=body, hints=hints)

    @memoized
    def is_plain(self, loop: S.For) -> bool:
        """Whether a loop is one of those that tile operations become."""
        facts = self.memory.facts(loop.body)
        is_known = loop.hints.has_only("parallel", "reduction", "scan")
        if not (steps_by_one(loop) and is_known and loop.kind == "serial" and facts.quiet):
            return False
        if E.holds(loop.stop, E.Load, E.Call) or E.holds(loop.start, E.Load, E.Call):
            return False  # what it depends on may change
        return S.Gemm not in facts.kinds and (bool(loop.hints) or facts.noted)

    @memoized
    def stores_neighbours(self, loop: S.For) -> bool:
        """Whether all stores to memory are contiguous: one element further with each iteration."""
        facts = self.memory.facts(loop.body)
        for indices in {indices for buffer, indices in facts.stores if not buffer.is_var}:
            steps = steps_of(indices, loop.var)
            if not steps or steps[-1] != 1 or any(steps[:-1]):
                return False
        return True


def _is_innermost(facts: Facts) -> bool:
    return S.For not in facts.kinds


def _wants_vectors(loop: S.For, facts: Facts) -> bool:
    """Whether a loop is an innermost one with work that takes much longer as one element in a
    nest."""
    if not _is_innermost(facts):
        return False
    count = trip_count(loop)
    works = facts.calls or bool(loop.hints.reduction) or loop.hints.scan is not None
    return works and (count is None or count >= FEW)


def _is_early(stmt: S.Stmt) -> bool:
    """Whether a statement is an allocation whose first value does not depend on its position: those
    go before what computes."""
    if not isinstance(stmt, S.Alloc) or stmt.buffer.strides is not None:
        return False
    constant = all(isinstance(extent, int) for extent in stmt.buffer.shape)
    first = stmt.init is None or not (stmt.init.variables or E.holds(stmt.init, E.Load))
    return constant and first and stmt.buffer.storage != "global"


def _renumber(stmt: S.Stmt, depth: int = 0) -> S.Stmt:
    """``stmt`` with the depths of loops in their nests as they are now."""

    def inner(nested: S.Stmt) -> S.Stmt:
        return _renumber(nested, depth)

    if not isinstance(stmt, S.For):
        return rewrite_blocks(stmt, inner)
    if stmt.hints.parallel is None:
        body = _renumber(stmt.body, 0)
        return stmt if body is stmt.body else replace(stmt, body=body)
    body = _renumber(stmt.body, depth + 1)
    if body is stmt.body and stmt.hints.parallel == depth:
        return stmt
    return replace(stmt, body=body, hints=replace(stmt.hints, parallel=depth))
