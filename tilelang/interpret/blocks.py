"""Launches: every block of the grid in order, x fastest; all at once when they synchronise."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilelang.interpret import values
from tilelang.interpret.analysis import calls_in
from tilelang.interpret.lanes import Active, Lanes
from tilelang.interpret.machine import Block, Strand
from tilelang.interpret.sync import Rendezvous, Steps, drive, join
from tilelang.ir.stmt import Launch, Stmt, walk

if TYPE_CHECKING:
    from tilelang.ir.expr import Var

Execute: TypeAlias = "Callable[[Strand, Stmt, Active], Steps]"


def launch(s: Strand, node: Launch, execute: Execute) -> None:
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
    cooperative = any(
        call.op == "sync_grid" for part in walk(node.body) for call in calls_in(part.exprs())
    )
    if not cooperative:
        for index in indices:
            drive(execute(_strand(s, node, lanes, index), node.body, None))
        return
    total = len(indices) * lanes.count
    meeting = Rendezvous(lambda: total)
    flows: list[Steps] = []
    for index in indices:
        strand = _strand(s, node, lanes, index)
        strand.block.grid = meeting
        flows.append(execute(strand, node.body, None))

    def together() -> Steps:
        yield from join(flows)
        return None

    drive(together())


def _strand(s: Strand, node: Launch, lanes: Lanes, index: tuple[int, int, int]) -> Strand:
    """The control flow of all threads of one block."""
    block = Block(s.run, lanes, index, node)
    strand = Strand(block, s.scope.copy(), lanes)
    for number in block.safe_values:
        strand.scope.bounds.pop(number, None)  # bound anew, with the safe value
    for var, value in zip(node.block_vars, index):
        _bind(strand, var, np.int64(value))
    x, y, _ = node.threads
    positions = (lanes.ids % x, lanes.ids // x % y, lanes.ids // (x * y))
    for var, position, extent in zip(node.thread_vars, positions, node.threads):
        _bind(strand, var, np.int64(0) if extent == 1 else position)
    return strand


def _bind(strand: Strand, var: Var, value: values.Value) -> None:
    strand.bind(var, value.astype(values.compute_dtype(var.dtype)))
