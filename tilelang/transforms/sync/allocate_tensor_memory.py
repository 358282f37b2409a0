"""Allocate and free tensor memory (tcgen05) by statements of the program.

Columns of tensor memory belong to the block from `tcgen05.alloc` to `tcgen05.dealloc`. One whole
warp executes each of them, and columns that are not freed outlive the kernel. The first warp
allocates the columns, which writes their address to shared memory, and a block barrier between two
fences makes it visible to all threads. Columns that the program does not free are freed at its end.
"""

from __future__ import annotations

from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.lanes import WARP
from tilelang.ir.visitor import Rewriter
from tilelang.target import Context, operations
from tilelang.target.alternatives import unavailable
from tilelang.transforms.analysis.groups import thread_number
from tilelang.transforms.rules import Cursor, Phase, rule
from tilelang.transforms.sync.allocate_scratch import allocate_scratch
from tilelang.transforms.sync.early_loads import batch_loads, issue_loads_early
from tilelang.transforms.sync.initialize_barriers import initialize_barriers

STORAGE = "shared.tmem"


@rule(S.Launch)
def allocate_tensor_memory(launch: S.Launch, cursor: Cursor) -> S.Launch:
    """Allocate and free tensor memory, whose addresses are in shared memory.

    Raises:
        TileUnsupportedError: the target has none, or a buffer does not fit into it.
    """
    kernel = _Kernel(launch, cursor.context)
    body = kernel.rewrite(launch.body)
    end = kernel.release(*kernel.allocated_columns)
    return launch.with_body(S.seq(body, *end) if end else body)


class _Kernel(Rewriter):
    def __init__(self, launch: S.Launch, context: Context) -> None:
        self.first = thread_number(launch) < WARP
        self.context = context
        self.allocated_columns: dict[Buffer, int] = {}  # buffer -> its columns

    def stmt(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        """Statements for an allocation or a release."""
        if isinstance(stmt, S.Alloc) and stmt.buffer.storage == STORAGE:
            return self.allocation(stmt)
        call = stmt.call
        if call is not None and call.atom is operations.TMEM_FREE:
            assert isinstance(call.args[0], E.AddressOf)
            return self.release(call.args[0].buffer)
        return stmt

    def allocation(self, stmt: S.Alloc) -> list[S.Stmt]:
        """The first warp asks, all threads learn where."""
        buffer, target = stmt.buffer, self.context.target
        if "tcgen05" not in target.features:
            raise unavailable(f"the tensor memory of `{buffer.name}`", "tcgen05", target, stmt.loc)
        self.allocated_columns[buffer] = columns = tensor_columns(buffer, stmt)
        slot = Buffer(f"{buffer.name}_slot", Shape((1,)), DType("uint32"), "shared")
        at = (E.const(0),)
        allocate = E.call(operations.TMEM_ALLOCATE, E.AddressOf(slot, at, "w"), columns=columns)
        return [
            S.Alloc(buffer=slot, loc=stmt.loc),
            S.If(cond=self.first, then=S.Eval(value=allocate, loc=stmt.loc), loc=stmt.loc),
            *_barrier(),
            S.View(buffer=buffer, source=E.Load(slot, at), loc=stmt.loc),
        ]

    def release(self, *buffers: Buffer) -> list[S.Stmt]:
        """The columns go back once all threads are here."""
        freed = [
            (buffer, self.allocated_columns.pop(buffer))
            for buffer in buffers
            if buffer in self.allocated_columns
        ]
        if not freed:
            return []
        calls = [
            S.do(operations.TMEM_RELEASE, _start(buffer), columns=columns)
            for buffer, columns in freed
        ]
        return [*_barrier(), S.If(cond=self.first, then=S.seq(*calls))]


def _start(buffer: Buffer) -> E.Expr:
    return E.AddressOf(buffer, tuple(E.const(0) for _ in buffer.shape), "rw")


def _barrier() -> list[S.Stmt]:
    """A barrier that also orders what the tensor core does."""
    return [S.do(operations.TENSOR_BEFORE), S.do("sync_threads"), S.do(operations.TENSOR_AFTER)]


def tensor_columns(buffer: Buffer, stmt: S.Stmt) -> int:
    """Columns of 32 bits that a buffer takes of tensor memory: a power of two from 32 to 512."""
    rows, width = buffer.shape
    if not isinstance(rows, int) or not isinstance(width, int):
        raise TileUnsupportedError(
            f"`{buffer.name}` has an extent that is not a constant",
            expected="compile-time extents for tensor memory",
            loc=stmt.loc,
        )
    wanted = -(-width * buffer.dtype.bits // 32)
    columns = max(32, 1 << (wanted - 1).bit_length())
    if columns > 512 or rows > 128:
        raise TileUnsupportedError(
            f"`{buffer.name}` does not fit into tensor memory",
            expected="at most 128 rows and 512 columns of 32 bits",
            got=f"{rows} rows and {wanted} columns",
            loc=stmt.loc,
        )
    return columns


allocate_resources = Phase(
    batch_loads, issue_loads_early, allocate_scratch, initialize_barriers, allocate_tensor_memory
)  # fmt: skip
