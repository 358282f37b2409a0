"""The context of a lowering: its thread group, and how to allocate registers and workspaces."""

from __future__ import annotations

from dataclasses import field

from tilelang.errors import InternalError, Loc
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import BufferHints
from tilelang.ir.lanes import WARP
from tilelang.layout.register_layout import RegisterLayout
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.analysis.groups import NO_BARRIER, no_free_barrier

INT = DType("int32")
REGISTER = 32  # bits
HIDDEN = BufferHints(is_generated=True)  # of arrays whose indices are the compiler's own


@dataclass(frozen=True)
class Group:
    """The threads that execute a tile operation together.

    Attributes:
        thread: number of the executing thread in the group, from 0.
        threads: how many there are.
        lo: number of the first one in the block.
        barrier: the hardware barrier of the group; 0 is that of the whole block.
    """

    thread: E.Expr
    threads: int
    lo: int = 0
    barrier: int = 0


@dataclass
class Lowering:
    """The state of one launch while its tile operations are lowered."""

    context: Context
    group: Group
    bounds: Bounds
    arrays: dict[E.Var, Buffer] = field(default_factory=dict)  # fragment storage -> registers
    workspaces: list[Buffer] = field(default_factory=list)  # allocated by the current operation
    fragments: int = 0  # registers of all fragments of the launch
    matrices: dict[E.Var, Buffer] = field(default_factory=dict)  # fragment storage -> its matrices

    @property
    def thread(self) -> E.Expr:
        """Number of the executing thread in its group."""
        return self.group.thread

    @property
    def warp(self) -> int:
        """Lanes of a warp."""
        return self.context.limits.warp

    def shuffle(self, kind: str, value: E.Expr, lane: E.Expr | int) -> E.Expr:
        """``value`` of another lane of the target's warps, which may be wider than those of the
        language; ``kind`` is "sync", "xor", "up" or "down"."""
        width = () if self.warp == WARP else (E.const(self.warp),)
        return E.call(f"shfl_{kind}", value, lane, *width)

    @property
    def threads(self) -> int:
        """Size of the thread group."""
        return self.group.threads

    def registers(self, buffer: Buffer) -> Buffer:
        """The register array of a fragment: one dimension, as long as a thread has registers."""
        array = self.arrays.get(buffer.data)
        if array is None or array.dtype != buffer.dtype:
            shape = Shape((register_layout_of(buffer).register_count,))
            array = self.arrays[buffer.data] = Buffer(
                buffer.name, shape, buffer.dtype, "local", data=buffer.data, attrs=HIDDEN
            )
        return array

    def barrier(self) -> S.Stmt:
        """A rendezvous of the group."""
        return barrier_of(self.group)

    def workspace(self, name: str, dtype: object, count: int) -> Buffer:
        """A new shared buffer of one dimension, for the current operation only."""
        buffer = Buffer(name, Shape((count,)), DType(dtype), "shared", attrs=HIDDEN)
        self.workspaces.append(buffer)
        return buffer

    def fresh(self, name: str) -> E.Var:
        """A new integer variable."""
        return E.Var(name, INT)


def barrier_of(group: Group) -> S.Stmt:
    """A rendezvous of ``group``."""
    if group.barrier == 0:
        return S.do("sync_threads")
    if group.barrier == NO_BARRIER:
        raise no_free_barrier((group.lo, group.threads))
    return S.do("sync_threads", E.const(group.barrier), E.const(group.threads))


def register_layout_of(buffer: Buffer) -> RegisterLayout:
    """The distribution of a fragment over the threads."""
    layout = buffer.attrs.register_layout
    if not isinstance(layout, RegisterLayout):
        raise InternalError(f"the fragment `{buffer.name}` has no layout")
    return layout


def sync_warp(loc: Loc | None = None) -> S.Stmt:
    """A rendezvous of the 32 lanes of a warp."""
    return S.do("sync_warp", E.const(0xFFFFFFFF, DType("uint32")), loc=loc)
