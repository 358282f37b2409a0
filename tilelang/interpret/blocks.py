"""Launches: every block of the grid in order, x fastest.

A block that waits for another block (grid barrier, flag in global memory) is suspended until the
rest of the grid has started.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilelang.interpret import values
from tilelang.interpret.lanes import Active, Lanes
from tilelang.interpret.machine import Block, DivergentGroup
from tilelang.interpret.sync import Rendezvous, Steps, Wait, deadlock, drive, join
from tilelang.ir.stmt import Launch, Stmt

if TYPE_CHECKING:
    from tilelang.ir.expr import Var

Execute: TypeAlias = "Callable[[DivergentGroup, Stmt, Active], Steps]"


def launch(s: DivergentGroup, node: Launch, execute: Execute) -> None:
    """Run a kernel for every block of its grid."""
    run = s.run
    run.facts.learn(node)
    run.workspaces.clear()
    grid = [s.number(extent, None, "a grid extent") for extent in node.grid]
    grid += [1] * (3 - len(grid))
    lanes = Lanes(prod(node.threads), threads=np.arange(prod(node.threads)))
    indices = [(x, y, z) for z, y, x in product(*(range(max(0, n)) for n in reversed(grid)))]
    if run.seed is not None:
        np.random.default_rng(run.seed).shuffle(indices)
    total = len(indices) * lanes.count
    grid_barrier = Rendezvous(lambda: total)
    waiting: list[Steps] = []
    for index in indices:
        strand = _strand(s, node, lanes, index)
        strand.block.grid = grid_barrier
        flow = execute(strand, node.body, None)
        wait = _advance(flow)
        if wait is not None:
            waiting.append(_resumed(wait, flow))
    drive(_run_flows(waiting))


def _advance(flow: Steps) -> Wait | None:
    """Run a block until it ends (None) or has to wait for another block."""
    for wait in flow:
        if wait.ready():
            continue
        leaves = wait.leaves()
        if all(leaf.inside for leaf in leaves):
            raise deadlock(leaves)
        return wait
    return None


def _resumed(wait: Wait, flow: Steps) -> Steps:
    yield wait
    return (yield from flow)


def _run_flows(flows: list[Steps]) -> Steps:
    yield from join(flows)
    return None


def _strand(
    s: DivergentGroup, node: Launch, lanes: Lanes, index: tuple[int, int, int]
) -> DivergentGroup:
    """The control flow of all threads of one block."""
    block = Block(s.run, lanes, index, node)
    strand = DivergentGroup(block, s.scope.copy(), lanes)
    for number in block.safe_values:
        strand.scope.bounds.pop(number, None)  # bound again, with the safe value
    for var, value in zip(node.block_vars, index):
        _bind(strand, var, np.int64(value))
    x, y, _ = node.threads
    positions = (lanes.ids % x, lanes.ids // x % y, lanes.ids // (x * y))
    for var, position, extent in zip(node.thread_vars, positions, node.threads):
        _bind(strand, var, np.int64(0) if extent == 1 else position)
    return strand


def _bind(strand: DivergentGroup, var: Var, value: values.Value) -> None:
    strand.bind(var, value.astype(values.compute_dtype(var.dtype)))
