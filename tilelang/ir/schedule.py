"""Statements of the schedule: pipelines of tiles, roles of threads, fences between proxies.

They say what is ordered and not how: a pass chooses a mechanism of the target and lowers them.
For values they mean nothing but that copies are complete where they are waited for.

A pipeline passes *items* from the statements that fill its tiles to those that use them. Item ``n``
lives in version ``n % stages`` of every tile. ``Acquire(p, n)`` .. copies .. ``Commit(p, n)`` fill
it, ``Wait(p, n)`` .. uses .. ``Release(p, n)`` use it. Items are counted over all runs of a
pipeline (``Run``): a loop around it passes on more of them.
"""

from __future__ import annotations

from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr, Var
from tilelang.ir.stmt import Stmt, attr_, block_, expr_, update_, var_
from tilelang.records import dataclass


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Pipeline(Stmt):
    """``body`` with the pipeline ``pipe`` of ``stages`` versions of each of ``tiles``.

    ``tiles`` are the storage of buffers whose first dimension counts the versions. ``mechanism``
    names the row of the mechanism table that orders it. Where ``body`` ends, every copy has
    arrived, for all threads, and no thread uses the tiles any more. ``proxy``: of the
    accesses that use the tiles; a write by the other proxy needs a proxy fence.
    """

    pipe: Var = var_()
    stages: int = attr_()
    tiles: tuple[Var, ...] = attr_()
    mechanism: str = attr_()
    proxy: str = attr_("generic")
    body: Stmt = block_()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Run(Stmt):
    """``body`` runs ``count`` more iterations of ``pipe``: ``first`` and the next ones. ``first``

    is the number of iterations of the runs before. All threads of a pipeline run it equally
    often, each time with the same count. A pipeline without runs passes on its items once.
    """

    pipe: Expr = expr_()
    first: Var = var_()
    count: Expr = expr_()
    body: Stmt = block_()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PipelineStep(Stmt):
    """A step of a thread for iteration ``number`` of ``pipe``."""

    pipe: Expr = expr_()
    number: Expr = expr_()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Acquire(PipelineStep):
    """The stage of the iteration may be overwritten: all its users have released it."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Commit(PipelineStep):
    """The copies since the stage was acquired are all of them.

    A mechanism that counts iterations commits those that do not exist, too, without acquiring them.
    """


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Wait(PipelineStep):
    """The stage is full, for every thread that waits.

    ``ahead``: how many stages committed after it may still be in flight.
    """

    ahead: int = attr_(0)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Release(PipelineStep):
    """The executing thread does not use the stage any more."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Role(Stmt):
    """The code of the threads ``first`` .. ``first + count - 1`` of a block: a branch of ``Roles``.

    ``registers``: how many each of them may use from here on; None leaves that as it is.
    ``elected``: the first of them does it alone.
    """

    name: str = attr_()
    first: int = attr_()
    count: int = attr_()
    registers: int | None = attr_(None)
    elected: bool = attr_(False)
    body: Stmt = block_()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Roles(Stmt):
    """Branches of different threads that run side by side; threads of no role skip them."""

    branches: tuple[Stmt, ...] = block_()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Fence(Stmt):
    """Accesses of the thread to shared memory through the proxy ``source`` are visible to what it
    does, or starts, through ``target`` afterwards ("generic" or "async"; PTX, Proxies)."""

    source: str = attr_()
    target: str = attr_()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class WaitProducts(Stmt):
    """Asynchronous products that the executing threads have issued are complete, but the ``newer``
    last of them. ``sums``: what they have added up, which may be used from here on."""

    newer: int = attr_()
    sums: tuple[Region, ...] = update_(())


PROXIES = ("generic", "async")
