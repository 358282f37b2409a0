"""``T.Kernel`` and what belongs to a launch: thread and block indices, extents, swizzles."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from tilelang.errors import TileTypeError, TileValueError, near, shown
from tilelang.frontend.frames import Frame
from tilelang.frontend.ir_builder import Block, Builder, builder, count, locate
from tilelang.frontend.regions import bound, check_options, constant_int, shape_tuple
from tilelang.ir.expr import Const, Expr, Var, as_expr, binary, const
from tilelang.ir.stmt import If
from tilelang.tracebacks import borders

__all__ = [
    "CUDASourceCodeKernel", "ClusterKernel", "Kernel", "KernelLaunchFrame", "get_block_binding",
    "get_block_bindings", "get_block_extent", "get_block_extents", "get_cluster_dims",
    "get_cluster_extent", "get_cluster_extents", "get_cluster_id", "get_cluster_ids",
    "get_cluster_size", "get_thread_binding", "get_thread_bindings", "get_thread_extent",
    "get_thread_extents", "launch_thread", "use_swizzle", "ws",
]  # fmt: skip

Extent = TypeVar("Extent")
_DEFAULT_THREADS = 128
_WARPGROUP = 128


def _thread_counts(threads: Any, is_cpu: bool) -> tuple[int, int, int]:
    if threads is None:
        threads = 1 if is_cpu else _DEFAULT_THREADS
    extents = list(threads) if isinstance(threads, (list, tuple)) else [threads]
    if not 1 <= len(extents) <= 3:
        raise TileValueError(
            "T.Kernel takes 1 to 3 thread extents", expected="1 to 3", got=f"{len(extents)}"
        )
    counts = []
    for entry in extents:
        index = None if isinstance(entry, (bool, float)) else getattr(entry, "__index__", None)
        if index is None or (isinstance(entry, Expr) and not isinstance(entry, Const)):
            raise TileTypeError(
                "a thread extent of T.Kernel is not a constant", expected="an int", got=shown(entry)
            )
        counts.append(int(index()))
    if any(count <= 0 for count in counts):
        raise TileValueError(
            "a thread extent of T.Kernel is not positive",
            expected="1 or more threads",
            got=f"threads={threads!r}",
        )
    counts += [1] * (3 - len(counts))
    return counts[0], counts[1], counts[2]


def _grid(blocks: Sequence[Any]) -> tuple[Expr, ...]:
    if len(blocks) == 1 and isinstance(blocks[0], (list, tuple)):
        blocks = blocks[0]
    if len(blocks) > 3:
        raise TileValueError(
            "T.Kernel takes at most 3 grid extents", expected="0 to 3", got=f"{len(blocks)}"
        )
    grid = []
    for extent in blocks:
        expr = bound(extent, "a grid extent of T.Kernel")
        if isinstance(expr, Const) and expr.value < 0:
            raise TileValueError(
                "a grid extent of T.Kernel is negative", expected="0 or more", got=f"{expr!r}"
            )
        grid.append(expr)
    return tuple(grid)


class BlockIndices(tuple[Var, ...]):
    """The indices of a grid of two or three dimensions, which are no number."""

    def _refuse(self, *_: object) -> NoReturn:
        """Raises:
        TileTypeError: always; the arithmetic of tuples means nothing here.
        """
        names = ", ".join(f"b{'xyz'[dim]}" for dim in range(len(self)))
        raise TileTypeError(
            f"the {len(self)} block indices of T.Kernel are used as one number",
            expected="a name for each extent of the grid",
            got="one name for all of them",
            hint=f"write `with T.Kernel(...) as ({names}):`",
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __truediv__ = _refuse


class KernelLaunchFrame(Frame):
    """The frame of ``with T.Kernel(...) as (bx, by):``.

    Args:
        grid: extents of the grid, x first.
        threads: threads of a block in x, y and z.
        annotations: options of the launch by name; those that are None are left out.
    """

    op_name = "T.Kernel"

    def __init__(
        self, grid: tuple[Expr, ...], threads: tuple[int, int, int], annotations: dict[str, Any]
    ) -> None:
        self.grid, self.threads = grid, threads
        self.annotations = {k: v for k, v in annotations.items() if v is not None}

    def open(self, active: Builder, names: tuple[str, ...]) -> Any:
        # An eager kernel takes extents from tensors, which may be empty.
        if active.hooks is None and any(isinstance(e, Const) and e.value == 0 for e in self.grid):
            raise TileValueError(
                "a grid extent of T.Kernel is 0",
                expected="1 or more",
                got="0",
                hint="a grid without blocks runs nothing; an extent known at the call may be 0",
            )
        if len(names) > 1 and len(names) != len(self.grid):
            raise TileValueError(
                f"{count(len(names), 'name')} for {count(len(self.grid), 'grid extent')}",
                expected=count(len(self.grid), "name"),
                got=f"({', '.join(names)})",
            )
        block_vars = active.open_launch(self.grid, self.threads, names, self.annotations).block_vars
        return block_vars[0] if len(block_vars) == 1 else BlockIndices(block_vars)

    def close(self, active: Builder) -> None:
        active.close_launch()

    def emit_alone(self, active: Builder) -> bool:
        """Emit a kernel that is written as CUDA source: it has no body here."""
        if "cuda_source" not in self.annotations:
            return False
        self.open(active, ())
        self.close(active)
        return True


def Kernel(
    *blocks: Any, threads: Any = None, prelude: str | None = None, is_cpu: bool = False,
    **options: Any,
) -> KernelLaunchFrame:  # fmt: skip
    """Launch a kernel: a grid of blocks and the threads of each block.

    Args:
        blocks: 0 to 3 grid extents (x, y, z), ints or expressions evaluated on the host.
        threads: threads of a block: an int, up to three ints, or None for the target's default:
            128 on a GPU, 1 on a CPU. A program that uses the number of threads
            (``T.get_thread_extent``, ``T.ws``) has 128 on every target.
        prelude: source text put before the kernel.
        is_cpu: no thread axis.
        options: ``cluster_dims``, blocks of a cluster in x, y and z (sm_90).

    Raises:
        TileValueError: too many extents, or one that is not positive.
        TileTypeError: an unknown option.
    """
    clusters = options.pop("cluster_dims", None)
    if options:
        name = min(options)
        raise TileTypeError(
            f"T.Kernel has no option `{name}`",
            expected="threads=, prelude=, is_cpu=, cluster_dims=",
            hint=near(name, ["threads", "prelude", "is_cpu", "cluster_dims"]),
        )
    return KernelLaunchFrame(
        _grid(blocks),
        _thread_counts(threads, is_cpu),
        {
            "prelude": prelude,
            "is_cpu": True if is_cpu else None,
            "default_threads": True if threads is None and not is_cpu else None,
            "cluster_dims": None if clusters is None else _cluster(clusters),
        },
    )


def ClusterKernel(
    *blocks: Any, cluster_dims: Any, threads: Any = None, prelude: str | None = None
) -> KernelLaunchFrame:
    """Launch a kernel whose blocks run in clusters (sm_90).

    Args:
        blocks, threads, prelude: as for :func:`Kernel`.
        cluster_dims: blocks of a cluster in x, y and z. Each extent of the grid is a multiple.

    Raises:
        TileValueError: ``cluster_dims`` is not 1 to 3 positive ints.

    Source: PTX ISA, "Cluster of Cooperative Thread Arrays".
    """
    return Kernel(*blocks, threads=threads, prelude=prelude, cluster_dims=_cluster(cluster_dims))


def _cluster(value: Any) -> tuple[int, ...]:
    """The blocks of a cluster, (x, y, z)."""
    dims = tuple(constant_int(size, "T.Kernel", "cluster size") for size in shape_tuple(value))
    if not 1 <= len(dims) <= 3 or min(dims) < 1:
        raise TileValueError(
            "cluster_dims are 1 to 3 positive ints", expected="e.g. (2, 1, 1)", got=f"{dims!r}"
        )
    return (*dims, 1, 1)[:3]


def CUDASourceCodeKernel(
    *blocks: Any, threads: Any = None, source_code_or_path: str | PathLike[str] = "",
    entry_name: str = "main_kernel", cluster_dims: Any = None, prelude: str | None = None,
) -> KernelLaunchFrame:  # fmt: skip
    """Declare a kernel by its CUDA source; only CUDA targets compile it.

    Args:
        blocks, threads, prelude: as for :func:`Kernel`.
        source_code_or_path: CUDA source, or the path of a file that contains it.
        entry_name: the ``__global__`` function to launch. It gets the tensors and scalars of the
            program, in order.
        cluster_dims: blocks of a cluster in x, y and z (sm_90).

    Raises:
        TileValueError: no source.
    """
    if not source_code_or_path:
        raise TileValueError(
            "T.CUDASourceCodeKernel has no source",
            expected="source_code_or_path= with CUDA source or the path of a file",
        )
    options = {
        "prelude": prelude,
        "cuda_source": _source_text(source_code_or_path),
        "entry_name": entry_name,
        "cluster_dims": None if cluster_dims is None else _cluster(cluster_dims),
    }
    return KernelLaunchFrame(_grid(blocks), _thread_counts(threads, False), options)


def _source_text(text_or_path: str | PathLike[str]) -> str:
    """CUDA source, or that of a file: what is not a path of a file has braces."""
    if isinstance(text_or_path, str) and set(text_or_path) & set("{}\n"):
        return text_or_path
    try:
        return Path(text_or_path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # a name with a NUL, a file that is not text
        raise TileValueError(
            "the source of T.CUDASourceCodeKernel cannot be read",
            expected="CUDA source, or the path of a file",
            got=f"{shown(str(text_or_path))}: {getattr(error, 'strerror', None) or error}",
        ) from None
    except TypeError:
        raise TileTypeError(
            "the source of T.CUDASourceCodeKernel is not a string",
            expected="CUDA source, or the path of a file",
            got=shown(text_or_path),
        ) from None


# -- indices and extents ------------------------------------------------------------------------
def _axis(values: Sequence[Extent], dim: Any, op_name: str) -> Extent:
    if isinstance(dim, bool) or not isinstance(dim, int) or not 0 <= dim < len(values):
        raise TileValueError(
            f"`{op_name}` has no dimension {dim!r}",
            expected=f"0 to {len(values) - 1}" if values else "a kernel with grid extents",
            got=f"{dim!r}",
        )
    return values[dim]


def get_thread_binding(dim: int = 0) -> Var:
    """Return the thread index of dimension ``dim`` (x is 0).

    Args:
        dim: 0, 1 or 2 for x, y or z; constant.

    Raises:
        TileValueError: a dimension that the kernel does not have.
    """
    active = builder("T.get_thread_binding")
    return _axis(active.kernel("T.get_thread_binding").thread_vars, dim, "get_thread_binding")


def get_thread_bindings() -> tuple[Var, ...]:
    """Return the thread indices (x, y, z)."""
    return builder("T.get_thread_bindings").kernel("T.get_thread_bindings").thread_vars


def get_block_binding(dim: int = 0) -> Var:
    """Return the block index of dimension ``dim`` (x is 0).

    Args:
        dim: 0, 1 or 2 for x, y or z; constant.

    Raises:
        TileValueError: a dimension that the kernel does not have.
    """
    active = builder("T.get_block_binding")
    return _axis(active.kernel("T.get_block_binding").block_vars, dim, "get_block_binding")


def get_block_bindings() -> tuple[Var, ...]:
    """Return the block indices, one for each extent of the grid."""
    return builder("T.get_block_bindings").kernel("T.get_block_bindings").block_vars


def get_thread_extent(dim: int = 0) -> int:
    """Return the number of threads in dimension ``dim``.

    Args:
        dim: 0, 1 or 2 for x, y or z; constant.

    Raises:
        TileValueError: a dimension that the kernel does not have.
    """
    return _axis(builder("T.get_thread_extent").thread_extents(), dim, "get_thread_extent")


def get_thread_extents() -> tuple[int, int, int]:
    """Return the numbers of threads (x, y, z)."""
    return builder("T.get_thread_extents").thread_extents()


def _plain(extent: Expr) -> Any:
    return extent.__index__() if isinstance(extent, Const) else extent


def get_block_extent(dim: int = 0) -> Any:
    """Return the grid extent of dimension ``dim``: an int if it is constant.

    Args:
        dim: 0, 1 or 2 for x, y or z; constant.

    Raises:
        TileValueError: a dimension that the kernel does not have.
    """
    launch = builder("T.get_block_extent").kernel("T.get_block_extent")
    return _plain(_axis(launch.grid, dim, "get_block_extent"))


def get_block_extents() -> tuple[Any, ...]:
    """Return the grid extents: an int for each one that is constant, an expression for others."""
    launch = builder("T.get_block_extents").kernel("T.get_block_extents")
    return tuple(_plain(extent) for extent in launch.grid)


def get_cluster_dims() -> tuple[int, int, int]:
    """Return the blocks of a cluster (x, y, z): 1s in a kernel without clusters."""
    return builder("T.get_cluster_dims").cluster_dims("T.get_cluster_dims")


def get_cluster_size() -> int:
    """Return the number of blocks of a cluster."""
    return prod(get_cluster_dims())


def get_cluster_ids() -> tuple[Any, ...]:
    """Return the indices of the block's cluster in the grid of clusters."""
    dims = zip(get_block_bindings(), get_cluster_dims())
    return tuple(block if size == 1 else block // size for block, size in dims)


def get_cluster_id(dim: int = 0) -> Any:
    """Return the index of the block's cluster in dimension ``dim`` (x is 0).

    Args:
        dim: 0, 1 or 2 for x, y or z; constant.

    Raises:
        TileValueError: a dimension that the kernel does not have.
    """
    return _axis(get_cluster_ids(), dim, "get_cluster_id")


def get_cluster_extents() -> tuple[Any, ...]:
    """Return the numbers of clusters in each dimension of the grid."""
    dims = zip(get_block_extents(), get_cluster_dims())
    return tuple((extent + size - 1) // size for extent, size in dims)


def get_cluster_extent(dim: int = 0) -> Any:
    """Return the number of clusters in dimension ``dim``.

    Args:
        dim: 0, 1 or 2 for x, y or z; constant.

    Raises:
        TileValueError: a dimension that the kernel does not have.
    """
    return _axis(get_cluster_extents(), dim, "get_cluster_extent")


def launch_axis(thread: str) -> tuple[str, int]:
    """("block" or "thread", dimension) of a name such as ``threadIdx.x``."""
    kind, _, axis = str(thread).partition(".")
    if kind not in ("blockIdx", "threadIdx") or axis not in ("x", "y", "z"):
        raise TileValueError(
            f"unknown launch axis {thread!r}",
            expected="blockIdx.x, .y, .z or threadIdx.x, .y, .z",
            got=repr(thread),
        )
    return kind[:-3], "xyz".index(axis)


def axis_of(active: Builder, axis: tuple[str, int], op_name: str) -> tuple[Var, Expr]:
    """The variable and extent of a launch axis of the enclosing kernel."""
    launch = active.kernel(op_name)
    kind, dim = axis
    if kind == "thread":
        return launch.thread_vars[dim], const(launch.threads[dim])
    if dim >= len(launch.block_vars):
        raise TileValueError(
            f"the kernel has no grid dimension {dim}",
            expected=f"one of its {len(launch.block_vars)}",
            got=f"blockIdx.{'xyz'[dim]}",
        )
    return launch.block_vars[dim], launch.grid[dim]


class _LaunchThread(Frame):
    """``with T.launch_thread("threadIdx.x", n) as tx:``; opens a kernel when there is none."""

    op_name = "T.launch_thread"

    def __init__(self, thread: str, extent: Any) -> None:
        self.axis = launch_axis(thread)
        self.extent = _grid((extent,))[0]
        self.opened = False

    def open(self, active: Builder, names: tuple[str, ...]) -> Any:
        kind, dim = self.axis
        name = names[0] if names and names[0] not in ("", "_") else f"{kind[0]}{'xyz'[dim]}"
        if active.launch is None:
            active.open_launch((), (1, 1, 1), (), {})
            self.opened = True
        launch = active.kernel(self.op_name)
        if kind == "thread":
            counts = list(launch.threads)
            counts[dim] = _thread_counts(self.extent, False)[0]
            launch.threads = (counts[0], counts[1], counts[2])
            launch.annotations.pop("default_threads", None)
            return launch.thread_vars[dim]
        while len(launch.block_vars) <= dim:
            var = Var(f"b{'xyz'[len(launch.block_vars)]}", as_expr(self.extent).dtype)
            launch.block_vars = (*launch.block_vars, var)
            launch.grid = (*launch.grid, const(1))
            active.live_in(var)
        grid = list(launch.grid)
        grid[dim] = self.extent
        launch.grid = tuple(grid)
        object.__setattr__(launch.block_vars[dim], "name", name)
        return launch.block_vars[dim]

    def close(self, active: Builder) -> None:
        if self.opened:
            active.close_launch()

    def bind(self, active: Builder, name: str) -> Any:
        """``tx = T.launch_thread("threadIdx.x", n)`` inside a kernel."""
        return None if active.launch is None else self.open(active, (name,))


def launch_thread(thread: str, extent: Any) -> Frame:
    """Bind a launch axis: ``with T.launch_thread("blockIdx.x", n) as bx:``.

    Raises:
        TileValueError: an unknown launch axis.
    """
    return _LaunchThread(thread, extent)


def use_swizzle(panel_size: int = 10, order: str = "row", enable: bool = True) -> None:
    """Visit blocks in panels of ``panel_size`` for L2 locality; results do not change.

    Blocks that run at the same time then read the same rows and columns of the operands from the L2
    cache.

    Args:
        panel_size: rows (or columns) of blocks in a panel, at least 1.
        order: "row" or "column": the direction in which a panel is visited, or "mlx".
        enable: False leaves the order as it is.

    Raises:
        TileValueError: another order, or a size below 1.
    """
    active = builder("T.use_swizzle")
    check_options(enable=enable)
    if order not in ("row", "column", "mlx"):
        raise TileValueError(
            f"unknown order {order!r} of T.use_swizzle",
            expected='"row", "column" or "mlx"',
            got=repr(order),
        )
    if isinstance(panel_size, bool) or not isinstance(panel_size, int) or panel_size < 1:
        raise TileValueError(
            "panel_size of T.use_swizzle must be a positive int", got=f"{panel_size!r}"
        )
    active.kernel("T.use_swizzle")
    if enable:
        active.annotate("swizzle", (panel_size, order))


class _WarpGroups(Frame):
    """``with T.ws(0, 1):`` restricts the body to warp groups of 128 threads."""

    op_name = "T.ws"

    def __init__(self, groups: tuple[int, ...]) -> None:
        self.groups = groups

    def open(self, active: Builder, names: tuple[str, ...]) -> None:
        x, y, z = active.thread_extents()
        count = -(-x * y * z // _WARPGROUP)
        index = active.thread_index()
        cond: Any = None
        for group in self.groups:
            if group >= count:
                raise TileValueError(
                    f"T.ws({group}) in a kernel of {x * y * z} threads",
                    expected=f"warp groups 0 to {count - 1}",
                    got=f"{group}",
                    hint="raise threads= of T.Kernel",
                )
            low, high = group * _WARPGROUP, (group + 1) * _WARPGROUP
            inside = binary("land", index >= low, index < high) if low else index < high
            cond = inside if cond is None else binary("lor", cond, inside)
        self.cond = as_expr(cond)
        self.loc = locate()
        self.block: Block = active.push("then", self.loc)

    def close(self, active: Builder) -> None:
        active.emit(If(cond=self.cond, then=active.pop(self.block), loc=self.loc))


def ws(*groups: int) -> Frame:
    """Run the body in the given warpgroups (128 threads each) only.

    Raises:
        TileTypeError: the number of a warpgroup is not an int of at least 0.
        TileValueError: no warpgroup.
    """
    if not groups:
        raise TileValueError("T.ws needs at least one warp group", expected="e.g. T.ws(0)")
    for group in groups:
        if isinstance(group, bool) or not isinstance(group, int) or group < 0:
            raise TileTypeError(
                "a warp group of T.ws is not an int", expected="0, 1, ...", got=f"{group!r}"
            )
    return _WarpGroups(tuple(sorted(set(groups))))


borders(globals(), __all__)
