"""Kernels that no block or grid of the target can hold are refused where they are opened, and
fragments that no block can hold where they are allocated."""

from __future__ import annotations

from math import prod

from tilelang.errors import TileUnsupportedError
from tilelang.ir import stmt as S
from tilelang.ir.expr import Const
from tilelang.ir.visitor import rewrite_launches
from tilelang.target import Context, Target
from tilelang.transforms.analysis.scopes import FRAGMENT, MOST_ELEMENTS


def check_launch_limits(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` itself, if the target can launch its kernels.

    Extents of the grid that only a call knows are left to the driver, whose refusal the launcher
    explains. Relies on ``simplify`` for constant extents.

    Raises:
        TileUnsupportedError: too many threads, or a constant extent or a fragment that is too
            large.
    """

    def checked(launch: S.Launch) -> S.Stmt:
        _check_threads(launch, context.target)
        _check_grid(launch, context.target)
        for stmt in S.find(launch.body, S.Alloc):
            if stmt.buffer.storage == FRAGMENT:
                _check_fragment(stmt, context.target)
        return launch

    return rewrite_launches(func, checked)


def _check_threads(launch: S.Launch, target: Target) -> None:
    limits, threads = target.limits, launch.threads
    if prod(threads) > limits.threads:
        raise TileUnsupportedError(
            f"a block of {target} cannot have {prod(threads)} threads",
            expected=f"at most {limits.threads}",
            got=f"threads={threads if prod(threads[1:]) > 1 else threads[0]}",
            hint="use fewer threads; tiles may be larger than the number of threads",
            loc=launch.loc,
        )
    for axis, count, most in zip("xyz", threads, limits.block):
        if count > most:
            raise TileUnsupportedError(
                f"a block of {target} cannot have {count} threads along {axis}",
                expected=f"at most {limits.block} along x, y, z",
                got=f"threads={threads}",
                hint="put the largest extent first",
                loc=launch.loc,
            )


def _check_fragment(alloc: S.Alloc, target: Target) -> None:
    elements = prod(int(extent) for extent in alloc.buffer.shape)
    if target.is_gpu and elements > MOST_ELEMENTS:
        raise TileUnsupportedError(
            f"the fragment `{alloc.buffer.name}` is too large for a block of {target}",
            expected=f"at most {MOST_ELEMENTS} elements; the registers of a block hold some 65536",
            got=f"{elements} elements",
            hint="let each block have a smaller tile, or allocate it as a tensor",
            loc=alloc.loc,
        )


def _check_grid(launch: S.Launch, target: Target) -> None:
    most = target.limits.grid
    for axis, extent, limit in zip("xyz", launch.grid, most):
        if isinstance(extent, Const) and int(extent.value) > limit:
            raise TileUnsupportedError(
                f"a grid of {target} cannot have {extent.value} blocks along {axis}",
                expected=f"at most {most} along x, y, z",
                got=f"T.Kernel({', '.join(map(repr, launch.grid))})",
                hint="put the largest extent first",
                loc=launch.loc,
            )
