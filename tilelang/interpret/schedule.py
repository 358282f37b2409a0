"""Pipelines and warp roles: stages in order, and threads that run branches side by side.

Copies complete at once, so only the order of a pipeline matters: a stage is acquired after its
release and used after its commit. Threads that run in lockstep follow this order without waits;
roles wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilelang.errors import Loc
from tilelang.interpret.lanes import Active, Mask, narrow, population, union
from tilelang.interpret.sync import PipelineState, Steps, Wait, join
from tilelang.ir import schedule as H
from tilelang.ir.expr import Var
from tilelang.ir.stmt import Stmt, walk

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup

Execute = Callable[["DivergentGroup", Stmt, Active], Steps]


def pipeline(s: DivergentGroup, node: H.Pipeline, active: Active, execute: Execute) -> Steps:
    """Execute the body, with stages that are empty at first."""
    iterations = np.zeros(s.lanes.count, np.int64)
    s.block.pipelines[node.pipe] = PipelineState(node.stages, _users(s, node, active), iterations)
    return (yield from execute(s, node.body, active))


def run(s: DivergentGroup, node: H.Run, active: Active, execute: Execute) -> Steps:
    """More iterations, numbered from those that the active threads have released."""
    assert isinstance(node.pipe, Var)
    runs = s.block.pipelines[node.pipe].iterations
    threads = s.lanes.members(active)
    first, count = int(runs[threads[0]]), s.number(node.count, active, "the number of iterations")
    assert (runs[threads] == first).all(), "threads of a pipeline run it equally often"
    s.bind(node.first, first)
    active = yield from execute(s, node.body, active)
    runs[threads] += count
    return active


def _users(s: DivergentGroup, node: H.Pipeline, active: Active) -> int:
    roles = [part for part in walk(node.body) if isinstance(part, H.Role)]
    roles = [role for role in roles if not any(isinstance(p, H.Roles) for p in walk(role.body))]
    using = [role for role in roles if any(isinstance(p, H.Wait) for p in walk(role.body))]
    return sum(role.count for role in using) if roles else population(active, s.lanes)


def step(s: DivergentGroup, node: H.PipelineStep, active: Active) -> Steps:
    """One operation of the active threads on a pipeline stage; it waits for the operations that
    precede it."""
    assert isinstance(node.pipe, Var)
    queue = s.block.pipelines[node.pipe]
    number = s.number(node.number, active, "the number of an iteration")
    match node:
        case H.Acquire():
            before = number - queue.stages
            yield from _wait_until(
                lambda: before < 0 or queue.released[before] >= queue.users,
                s, active, node.loc,
                lambda: f"acquire iteration {number}: {queue.released[before]} of {queue.users} "
                f"threads have released iteration {before}",
            )  # fmt: skip
        case H.Commit():
            queue.committed.add(number)
        case H.Wait():
            yield from _wait_until(
                lambda: number in queue.committed,
                s, active, node.loc, lambda: f"wait for iteration {number}: it is not committed",
            )  # fmt: skip
        case H.Release():
            queue.released[number] += population(active, s.lanes)
    return active


def _wait_until(
    ready: Callable[[], bool], s: DivergentGroup, active: Active, loc: Loc | None,
    description: Callable[[], str],
) -> Steps:  # fmt: skip
    if not ready():
        members = s.lanes.members(active)
        waiting = f"threads {members[0]}..{members[-1]} of block {s.block.index}"
        yield Wait(ready, lambda: f"{waiting} {description()}", loc)
    return active


def roles(s: DivergentGroup, node: H.Roles, active: Active, execute: Execute) -> Steps:
    """Every role by its threads, side by side."""
    threads = s.lanes.threads
    assert threads is not None, "roles are taken by threads"
    left: Mask = narrow(active, threads >= 0)
    flows: list[Steps] = []
    for role in node.branches:
        assert isinstance(role, H.Role)
        in_role = (threads >= role.first) & (threads < role.first + role.count)
        group, left = narrow(active, in_role), left & ~in_role
        if group.any():
            flows.append(execute(s.fork(), role.body, group))
    finished: Active = left
    for result in (yield from join(flows)):
        finished = union(finished, result)
    return finished
