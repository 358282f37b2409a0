"""Statements: one case per node, every one a generator so that any of them may have to wait.

``execute(s, stmt, active)`` runs ``stmt`` in the active lanes of the control flow ``s`` and returns
the lanes that continue with the next statement. Threads that take different sides of a branch with
waits run as separate control flows. They reconverge at an operation of the whole group, or at the
end of the block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from tilelang.errors import (
    DeviceAssertError,
    KernelArgumentError,
    TileRuntimeError,
    assert_never,
    at,
)
from tilelang.interpret import atomics, barriers, memory, pointers, schedule, values
from tilelang.interpret.analysis import PRIVATE, is_arithmetic, variables
from tilelang.interpret.blocks import launch
from tilelang.interpret.lanes import Active, Mask, has_active, narrow, union
from tilelang.interpret.machine import DivergentGroup, LoopRecord, Unwritten
from tilelang.interpret.parallel import has_separate_indices, run_parallel
from tilelang.interpret.sync import Steps, Wait, join
from tilelang.interpret.tile_ops import OWN_MEANING, run_tile_op
from tilelang.interpret.values import Value
from tilelang.ir import stmt as S
from tilelang.ir.elementwise import loop_of
from tilelang.ir.expr import Call, call, const
from tilelang.ir.schedule import Fence, Pipeline, PipelineStep, Roles, Run, WaitProducts
from tilelang.ir.tables import MBARRIER_ARRIVE
from tilelang.layout.evaluate import ranks

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

Node: TypeAlias = (
    "S.Seq | S.Let | S.Alloc | S.View | S.Store | S.For | S.Parallel | S.While | S.If | S.Eval "
    "| S.Assert | S.Break | S.Continue | S.ThreadReturn | S.Attr | S.Launch | S.ReducerUpdate "
    "| S.TileOp | Pipeline | Run | PipelineStep | Roles | Fence | WaitProducts"
)


def execute(s: DivergentGroup, stmt: S.Stmt, active: Active) -> Steps:
    """Run ``stmt``; the result is the lanes that continue."""
    node = cast("Node", stmt)
    s.run.loc_of_stmt = stmt.loc
    with at(stmt.loc):
        match node:
            case S.Seq():
                return (yield from sequence(s, node.stmts, active))
            case S.Let():
                s.let(node.var, node.value, active)
            case S.Store():
                store(s, node, active)
            case S.For():
                return (yield from for_loop(s, node, active))
            case S.If():
                return (yield from branch(s, node, active))
            case S.ElementOp() if not isinstance(node, OWN_MEANING):
                loop = cast("S.Parallel", loop_of(node))
                return (yield from run_parallel(s, loop, active, execute))
            case S.TileOp():
                yield from tile_op(s, node, active)
            case S.Parallel():
                return (yield from run_parallel(s, node, active, execute))
            case S.Eval():
                return (yield from effect(s, node, active))
            case S.Alloc():
                allocate(s, node, active)
            case S.View():
                pointers.view(s, node, active)
            case S.While():
                return (yield from while_loop(s, node, active))
            case S.Attr():
                return (yield from execute(s, node.body, active))
            case S.Assert():
                check(s, node, active)
            case S.Break():
                s.leave_iteration(active, True)
                return s.lanes.empty
            case S.Continue():
                s.leave_iteration(active, False)
                return s.lanes.empty
            case S.ThreadReturn():
                s.leave_kernel(active)
                return s.lanes.empty
            case S.ReducerUpdate():
                reducer_update(s, node, active)
            case S.Launch():
                launch(s, node, execute)
            case Pipeline():
                return (yield from schedule.pipeline(s, node, active, execute))
            case Run():
                return (yield from schedule.run(s, node, active, execute))
            case PipelineStep():
                return (yield from schedule.step(s, node, active))
            case Roles():
                return (yield from schedule.roles(s, node, active, execute))
            case Fence() | WaitProducts():
                pass  # every access is visible when it is made, every product complete
            case _:
                assert_never(node)
    return active


# -- sequences and strands ------------------------------------------------------------------------
def sequence(s: DivergentGroup, stmts: Sequence[S.Stmt], active: Active) -> Steps:
    """Statements in order, until no lane is left."""
    facts = s.run.facts
    k = 0
    while k < len(stmts) and has_active(active):
        stmt = stmts[k]
        step = 1
        groups: list[Mask] = []
        if s.lanes.threads is not None and facts.waits(stmt) and not facts.needs_group(stmt):
            end = k
            while end < len(stmts) and not facts.needs_group(stmts[end]):
                end += 1
            groups = _groups(s, stmts[k:end], active)
            step = end - k
        if len(groups) > 1:
            active = yield from _interleave(s, stmts[k : k + step], active, groups)
        else:
            active = yield from execute(s, stmt, active)
            step = 1
        k += step
    return active


def _groups(s: DivergentGroup, stmts: Sequence[S.Stmt], active: Active) -> list[Mask]:
    """The active threads split by the conditions that decide about waits in ``stmts``."""
    trial = s.fork()
    kinds: Value = np.zeros(s.lanes.count, np.int64)
    split = False
    for condition in s.run.facts.conditions(stmts):
        expr = condition.value if isinstance(condition, S.Let) else condition.cond
        if not is_arithmetic(expr) or any(var not in trial.scope.values for var in variables(expr)):
            continue
        value = trial.eval(expr, active)
        if isinstance(condition, S.Let):
            trial.bind(condition.var, value)
        elif np.ndim(value):
            kinds, split = 2 * kinds + value, True
    if not split:
        return []
    members = np.ones(s.lanes.count, np.bool_) if active is None else active
    groups = [members & (kinds == kind) for kind in np.unique(kinds[members])]
    return sorted(groups, key=lambda group: int(group.argmax()))


def _interleave(
    s: DivergentGroup, stmts: Sequence[S.Stmt], active: Active, groups: list[Mask]
) -> Steps:
    """Each group of threads runs ``stmts`` on its own, until all have ended."""
    hoisted = [stmt for stmt in stmts if isinstance(stmt, S.Alloc)]
    for alloc in hoisted:
        _reserve(s, alloc, active)
    strands = [s.fork() for _ in groups]
    for strand in strands:
        strand.hoisted.update(id(stmt) for stmt in hoisted)
    flows: list[Steps] = [sequence(strand, stmts, group) for strand, group in zip(strands, groups)]
    results = yield from join(flows)
    for stmt in stmts:
        if isinstance(stmt, S.Let):
            _merge(s, stmt, strands, groups)
    return _merge_lanes(active, groups, results)


def _merge_lanes(active: Active, groups: list[Mask], results: list[Active]) -> Active:
    """Lanes that continue after divergent groups."""
    if all(before is after for before, after in zip(groups, results)):
        return active
    array: Active = np.zeros_like(groups[0])
    for result in results:
        array = union(array, result)
    return array


def _merge(
    s: DivergentGroup, stmt: S.Let, strands: list[DivergentGroup], groups: list[Mask]
) -> None:
    """A variable bound by several strands: each thread keeps its own value."""
    merged: Value = None
    noted = list[Unwritten]()
    for strand, group in zip(strands, groups):
        if stmt.var not in strand.scope.values:
            continue
        own, _, unwritten = strand.scope.values[stmt.var]
        noted += unwritten
        value = s.spread(own, stmt.var.dtype.lanes)
        if merged is None:
            merged = np.array(value)
        merged[group] = value[group]
    if merged is not None:
        s.bind(stmt.var, merged if stmt.var.dtype.lanes > 1 else s.collapse(merged, None), noted)


def branch(s: DivergentGroup, node: S.If, active: Active) -> Steps:
    """Both sides for the lanes that take them; side by side if there are waits inside."""
    cond = s.collapse(s.eval(node.cond, active), active)
    if np.ndim(cond) == 0:
        if cond:
            return (yield from execute(s, node.then, active))
        if node.orelse is not None:
            return (yield from execute(s, node.orelse, active))
        return active
    groups = [narrow(active, cond), narrow(active, ~cond)]
    sides = [node.then, node.orelse]
    results: list[Active] = list(groups)
    if s.lanes.threads is not None and s.run.facts.waits(node):
        flows = [
            execute(s.fork(), side, group) for side, group in zip(sides, groups) if side is not None
        ]
        results[: len(flows)] = yield from join(flows)
    else:
        for k, side in enumerate(sides):
            if side is not None and groups[k].any():
                results[k] = yield from execute(s, side, groups[k])
    return _merge_lanes(active, groups, results)


# -- loops --------------------------------------------------------------------------------------
def for_loop(s: DivergentGroup, node: S.For, active: Active) -> Steps:
    """The serial loop; lanes may run different numbers of iterations."""
    start, stop, step = (
        s.collapse(s.exact(bound, active), active) for bound in (node.start, node.stop, node.step)
    )
    record = LoopRecord(s.lanes.empty, s.lanes.empty)
    s.loops.append(record)
    live, count = active, 0
    if np.ndim(start) == np.ndim(stop) == np.ndim(step) == 0 and step != 0:
        for index in range(int(start), int(stop), int(step)):
            s.bind(node.var, np.int64(index))
            live = _resumed(record, s, (yield from execute(s, node.body, live)))
            if not has_active(live):
                break
        s.loops.pop()
        return _staying(s, active)
    while has_active(live):
        at = np.asarray(start).astype(np.int64) + np.asarray(step).astype(np.int64) * count
        going = np.where(step > 0, at < stop, at > stop)[()]
        if np.ndim(going):
            live = narrow(live, going)
            if not live.any():
                break
        elif not going:
            break
        s.bind(node.var, at[()])
        live = yield from execute(s, node.body, live)
        live = _resumed(record, s, live)
        count += 1
    s.loops.pop()
    return _staying(s, active)


def while_loop(s: DivergentGroup, node: S.While, active: Active) -> Steps:
    """Repeat while the condition holds, for the lanes in which it does."""
    record = LoopRecord(s.lanes.empty, s.lanes.empty)
    s.loops.append(record)
    live = active
    if s.run.facts.is_spin(node) and s.lanes.threads is not None:
        yield from barriers.spin(s, lambda: not _is_any_true(s, node, active), active, node.loc)
    while has_active(live):
        cond = s.collapse(s.eval(node.cond, live), live)
        if np.ndim(cond):
            live = narrow(live, cond)
            if not live.any():
                break
        elif not cond:
            break
        live = yield from execute(s, node.body, live)
        live = _resumed(record, s, live)
    s.loops.pop()
    return _staying(s, active)


def _is_any_true(s: DivergentGroup, node: S.While, active: Active) -> bool:
    """Whether the condition holds in some active lane."""
    cond = s.eval(node.cond, active)
    return bool(cond) if np.ndim(cond) == 0 else bool(narrow(active, cond).any())


def _resumed(record: LoopRecord, s: DivergentGroup, live: Active) -> Active:
    """Lanes for the next iteration: those at the end of this one and those that continued."""
    if record.continued is not s.lanes.empty:
        live = union(live, record.continued)
        record.continued = s.lanes.empty
    return live


def _staying(s: DivergentGroup, active: Active) -> Active:
    """``active`` without the threads that have left the kernel."""
    if s.lanes is not s.block.lanes or not s.block.gone.any():
        return active
    return narrow(active, ~s.block.gone)


# -- single statements ---------------------------------------------------------------------------
def tile_op(s: DivergentGroup, node: S.TileOp, active: Active) -> Generator[Wait, None, None]:
    """Execute a tile operation. The first thread of a product, or of a copy that requests it,
    arrives at its barrier."""
    run_tile_op(s, node, active)
    if not isinstance(node, (S.Copy, S.Gemm)) or node.barrier is None:
        return
    if isinstance(node, S.Copy) and not node.arrives:
        return
    first = s.lanes.empty.copy()
    first[s.lanes.members(active)[0]] = True
    arrival = call(MBARRIER_ARRIVE, node.barrier)
    assert isinstance(arrival, Call)
    yield from barriers.synchronise(s, arrival, first, node.loc)


def store(s: DivergentGroup, node: S.Store, active: Active) -> None:
    """``buffer[indices] = value``; in a shared loop, updates of one element happen one after the
    other."""
    lanes = s.lanes
    if (
        (lanes.threads is None or s.per_thread or node.buffer.attrs.reducer is not None)
        and lanes.count > 1
        and s.run.facts.updates_itself(node)
        and not (lanes.threads is None and has_separate_indices(node.indices, lanes.loop_vars))
        and node.buffer.storage not in PRIVATE
    ):
        indices = [
            s.spread(index) for index in s.element_indices(node.buffer, node.indices, active)
        ]
        members = lanes.members(active)
        rows = np.stack([index[members] for index in indices])
        _, keys = np.unique(rows, axis=1, return_inverse=True)
        rank = ranks(keys.reshape(-1))
        if rank.any():
            for step in range(int(rank.max()) + 1):
                mask = lanes.empty.copy()
                mask[members[rank == step]] = True
                s.store(node.buffer, node.indices, s.eval(node.value, mask), mask)
            return
    s.store(node.buffer, node.indices, s.eval(node.value, active), active)


def effect(s: DivergentGroup, node: S.Eval, active: Active) -> Steps:
    """An expression evaluated for its effect."""
    value = node.value
    if isinstance(value, Call):
        if value.atom.is_sync:
            yield from barriers.synchronise(s, value, active, node.loc)
            return active
    s.eval(value, active)
    return active


def _reserve(s: DivergentGroup, node: S.Alloc, active: Active) -> None:
    """Uninitialized memory for a buffer; scalars start as zero."""
    buffer = node.buffer
    shape = tuple(s.number(e, active, f"the shape of `{buffer.name}`") for e in buffer.shape)
    if buffer.storage == "global" and s.block.index is not None:
        reserved = s.run.workspaces.get(id(node))  # one for all blocks of the launch
        if reserved is None:
            reserved = s.run.workspaces[id(node)] = memory.allocate(buffer, shape, None)
    else:
        reserved = memory.allocate(buffer, shape, s.lanes if buffer.storage in PRIVATE else None)
    is_arithmetic = buffer.is_var or buffer.storage.endswith("barrier")
    if is_arithmetic or s.run.uninitialized == "zero":
        reserved.valid = None
    reserved.complain = s.run.unwritten
    reserved.owner = active
    s.attach(buffer, reserved)


def allocate(s: DivergentGroup, node: S.Alloc, active: Active) -> None:
    """Make a buffer; an ``alloc_var`` takes its first value."""
    if id(node) in s.hoisted:
        s.hoisted.discard(id(node))  # the next iteration allocates again
    else:
        _reserve(s, node, active)
    if node.init is not None:
        value = values.convert(s.eval(node.init, active), node.init.dtype, node.buffer.dtype)
        s.store(node.buffer, (const(0),) * len(node.buffer.shape), value, active)


def reducer_update(s: DivergentGroup, node: S.ReducerUpdate, active: Active) -> None:
    """Each executing lane contributes its value; the total is exact at once."""
    indices = s.element_indices(node.buffer, node.indices, active)
    value = values.convert(s.eval(node.value, active), node.value.dtype, node.buffer.dtype)
    op = {"sum": "add"}.get(node.op, node.op)
    atomics.update(s, s.bound(node.buffer), indices, value, op, active, False)


def check(s: DivergentGroup, node: S.Assert, active: Active) -> None:
    """An assertion or assumption."""
    if not s.run.checks:
        return
    failed, lane = s.failing(s.eval(node.cond, active), active)
    if not failed:
        return
    if s.block.index is None:
        raise (KernelArgumentError if node.assumed else TileRuntimeError)(node.host_text)
    message, position = node.kernel_text, s.site.text(lane)
    if node.assumed:
        names = node.cond.variables
        held = sorted((v.name, s.spread(s.lookup(v, active))[lane or 0]) for v in names)
        position = "".join(f"for {name} = {value}, " for name, value in held) + position
    raise DeviceAssertError(
        "Device assert failed" + (f": {message}" if message else ""),
        expected=f"`{node.cond!r}` to hold",
        got=f"false {position}",
    )
