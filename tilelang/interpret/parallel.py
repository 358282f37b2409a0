"""``T.Parallel``: one lane per iteration, or distributed to the threads where the difference is
visible.

Iterations that update an element together (``acc[i] += A[i, j]``) run one after the other over the
missing index, so the result is that of the loop in row-major order.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilelang.interpret import values
from tilelang.interpret.analysis import PRIVATE, LoopFacts, is_arithmetic, variables
from tilelang.interpret.lanes import Active, Lanes
from tilelang.interpret.sync import Steps
from tilelang.interpret.values import Array
from tilelang.ir.effects import accesses
from tilelang.ir.expr import Binary, Expr, Var, are_same_exprs
from tilelang.ir.lanes import exchange_in_shared_loop
from tilelang.ir.stmt import Parallel, Stmt, Store
from tilelang.ir.visitor import substitute
from tilelang.layout.evaluate import ranks

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup

Execute: TypeAlias = "Callable[[DivergentGroup, Stmt, Active], Steps]"


def run_parallel(s: DivergentGroup, node: Parallel, active: Active, execute: Execute) -> Steps:
    """All iterations of a shared loop, by the active thread group."""
    extents = [s.number(extent, active, "the extent of a T.Parallel") for extent in node.extents]
    if prod(max(0, extent) for extent in extents) == 0:
        return active
    facts = s.run.facts.loop(node)
    if s.per_thread:
        yield from _serial(s, node, extents, active, execute)
    elif s.lanes.threads is not None and _differs_by_thread(s, facts):
        yield from _run_distributed(s, node, extents, active, execute)
    else:
        yield from _all_iterations(s, node, facts, extents, active, execute)
    return active


def _differs_by_thread(s: DivergentGroup, facts: LoopFacts) -> bool:
    """Whether the result depends on which thread runs which iteration."""
    if facts.private_written or facts.thread_code:
        return True
    for data in facts.private_read:
        memory = s.scope.memory.get(data)
        if memory is not None and memory.copies > 1:
            return True
    known = s.scope.values
    return any(var in known and known[var][1] is not None for var in facts.free)


def _bind(s: DivergentGroup, var: Var, value: Array | int) -> None:
    working_type = values.compute_dtype(var.dtype)
    s.bind(var, working_type.type(value) if isinstance(value, int) else value.astype(working_type))


# -- distributed over threads -------------------------------------------------------------------
def _owners(node: Parallel, extents: list[int]) -> Array | None:
    """Thread of each iteration in row-major order, as ``loop_layout`` says."""
    layout = node.loop_layout
    if layout is None:
        return None
    threads = np.asarray(layout.thread_table())
    return threads.reshape(prod(extents), -1)[:, 0]  # of replicas the first


def _distribution(s: DivergentGroup, node: Parallel, extents: list[int], active: Active) -> Array:
    """Table (round, lane) of the iteration a lane runs in a round; -1 for none."""
    total = prod(extents)
    members = s.lanes.members(active)
    owners = _owners(node, extents)
    iterations = np.arange(total)
    if owners is None:
        lane, iteration = members[iterations % members.size], iterations // members.size
    else:
        lane, iteration = members[owners % members.size], ranks(owners)
    table = np.full((int(iteration.max()) + 1, s.lanes.count), -1, np.int64)
    table[iteration, lane] = iterations
    return table


def _run_distributed(
    s: DivergentGroup, node: Parallel, extents: list[int], active: Active, execute: Execute
) -> Steps:
    """Each thread runs its iterations in order."""
    facts = s.run.facts.loop(node)
    serial = _ordered_dims(s, node, facts, extents)
    rounds = _distribution(s, node, extents, active)
    if facts.exchange is not None and len(rounds) > 1 and node.loop_layout is None:
        raise exchange_in_shared_loop(facts.exchange, len(rounds), node.loc)
    s.per_thread = True
    for row in rounds:
        element = np.unravel_index(np.where(row >= 0, row, 0), extents)
        for var, index in zip(node.vars, element):
            _bind(s, var, np.asarray(index))
        for executing in _conflict_free(row >= 0, element, serial):
            with s.within(s.lanes):
                s.open_loop()
                yield from execute(s, node.body, None if executing.all() else executing)
    s.per_thread = False
    return active


def _conflict_free(
    executing: Array, element: tuple[Array, ...], serial: frozenset[int]
) -> list[Array]:
    """Groups of lanes of a round that run together: no two of a group update one element."""
    if not serial:
        return [executing]
    chosen = np.flatnonzero(executing)
    keys = np.zeros(chosen.size, np.int64)
    for d, index in enumerate(element):
        if d not in serial:
            keys = keys * (int(index.max()) + 1) + index[chosen]
    rank = ranks(keys)
    groups = []
    for step in range(int(rank.max(initial=-1)) + 1):
        group = np.zeros_like(executing)
        group[chosen[rank == step]] = True
        groups.append(group)
    return groups


def _serial(
    s: DivergentGroup, node: Parallel, extents: list[int], active: Active, execute: Execute
) -> Steps:
    """A loop inside an iteration that belongs to one thread."""
    for index in product(*(range(extent) for extent in extents)):
        for var, value in zip(node.vars, index):
            _bind(s, var, value)
        with s.within(s.lanes):
            s.open_loop()
            yield from execute(s, node.body, active)
    return active


# -- one lane per iteration -----------------------------------------------------------------------
def _all_iterations(
    s: DivergentGroup, node: Parallel, facts: LoopFacts, extents: list[int], active: Active,
    execute: Execute,
) -> Steps:  # fmt: skip
    serial = _ordered_dims(s, node, facts, extents)
    across = [d for d in range(len(extents)) if d not in serial]
    lanes, mask = _lanes(s, node, extents, across, active)
    with s.within(lanes):
        shape = [extents[d] for d in across]
        position = np.arange(lanes.count) % prod(shape)
        for d, index in zip(across, np.unravel_index(position, shape) if shape else ()):
            _bind(s, node.vars[d], np.asarray(index))
        for step in product(*(range(extents[d]) for d in sorted(serial))):
            for d, value in zip(sorted(serial), step):
                _bind(s, node.vars[d], value)
            s.open_loop()
            yield from execute(s, node.body, mask)
    return active


def _lanes(
    s: DivergentGroup, node: Parallel, extents: list[int], across: list[int], active: Active
) -> tuple[Lanes, Active]:
    """Lanes for the dimensions ``across``, inside the lanes of an enclosing shared loop if any."""
    own = tuple(node.vars[d] for d in across)
    count = prod(extents[d] for d in across)
    outer = s.lanes
    if outer.threads is not None or s.block.index is None:
        return Lanes(count, loop_vars=own), None
    above = np.repeat(outer.ids, count)
    lanes = Lanes(
        outer.count * count, parent=outer, to_parent=above, loop_vars=outer.loop_vars + own
    )
    return lanes, None if active is None else active[above]


# -- order between iterations --------------------------------------------------------------------
def _ordered_dims(
    s: DivergentGroup, node: Parallel, facts: LoopFacts, extents: list[int]
) -> frozenset[int]:
    """Dimensions that must run in order because iterations update an element together."""
    read = {data for data, _, _ in facts.loads}
    serial: set[int] = set()
    for store, depth in facts.stores:
        if store.buffer.data not in read:
            continue
        used = _depends(store.indices, facts, set(node.vars))
        serial.update(d for d, var in enumerate(node.vars) if var not in used and extents[d] > 1)
        dims = [d for d in range(len(extents)) if d not in serial and extents[d] > 1]
        if has_separate_indices(store.indices, tuple(node.vars[d] for d in dims)):
            continue
        if _is_update(store, depth, facts) or _is_injective(s, node, store, facts, extents, dims):
            continue
        return frozenset(range(len(extents)))
    return frozenset(serial)


def _depends(exprs: tuple[Expr, ...], facts: LoopFacts, loop_vars: set[Var]) -> set[Var]:
    """Loop variables that the values of ``exprs`` depend on, through bindings and loads."""
    dependent: set[Var] = set()
    pending = list(exprs)
    seen: set[Var] = set()
    while pending:
        expr = pending.pop()
        for buffer in (access.buffer for access in accesses(expr)):
            if buffer.storage in PRIVATE:
                return set(loop_vars)  # written somewhere in the body: may depend on anything
        for var in variables(expr) - seen:
            seen.add(var)
            if var in loop_vars:
                dependent.add(var)
            elif var in facts.lets:
                pending.append(facts.lets[var])
            elif var in facts.inner:
                loop = facts.inner[var]
                pending.extend((loop.start, loop.stop, loop.step))
    return dependent


def has_separate_indices(indices: tuple[Expr, ...], loop_vars: tuple[Var, ...]) -> bool:
    """Whether each loop variable is an index of its own, possibly shifted by another value."""
    return all(any(_is_shift(index, var, set(loop_vars)) for index in indices) for var in loop_vars)


def _is_shift(index: Expr, var: Var, loop_vars: set[Var]) -> bool:
    if index is var:
        return True
    if not isinstance(index, Binary) or index.op not in ("add", "sub"):
        return False
    for side, other in ((index.a, index.b), (index.b, index.a)):
        if side is var and is_arithmetic(other) and not variables(other) & loop_vars:
            return True
    return False


def _is_update(store: Store, depth: int, facts: LoopFacts) -> bool:
    """Whether one statement both reads and writes the buffer, always the same element: then the
    statement itself keeps the order (see ``stmts.store``)."""
    data = store.buffer.data
    rest = [other for other, _ in facts.stores if other.buffer.data is data and other is not store]
    return (
        depth == 0
        and not rest
        and all(
            stmt is store and are_same_exprs(indices, store.indices)
            for load, stmt, indices in facts.loads
            if load is data
        )
    )


def _is_injective(
    s: DivergentGroup, node: Parallel, store: Store, facts: LoopFacts, extents: list[int],
    across: list[int],
) -> bool:  # fmt: skip
    """Whether all iterations store to different elements, found by computing the indices."""
    resolved = [substitute(expr, facts.lets) for expr in store.indices]
    for _ in range(len(facts.lets)):
        resolved = [substitute(expr, facts.lets) for expr in resolved]
    inner = set(facts.inner)
    if any(not is_arithmetic(expr) or variables(expr) & inner for expr in resolved):
        return False
    shape = [extents[d] for d in across]
    probe = s.fork()
    probe.lanes = Lanes(prod(shape))
    for d in range(len(extents)):
        _bind(probe, node.vars[d], 0)
    for d, index in zip(across, np.unravel_index(probe.lanes.ids, shape)):
        _bind(probe, node.vars[d], np.asarray(index))
    if any(var not in probe.scope.values for expr in resolved for var in variables(expr)):
        return False
    rows = np.stack([probe.spread(probe.eval(expr, None)) for expr in resolved])
    return bool(np.unique(rows, axis=1).shape[1] == prod(shape))
