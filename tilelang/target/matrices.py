"""Matrix instructions as rows: shapes, dtypes, features, registers.

An atom multiplies an m x k by a k x n matrix into an m x n one, held in the registers of the
threads that execute it together: a warp or a warpgroup. Rows are made by constructors of vendors,
e.g. ``nvidia_mma.mma_sync``.
"""

from __future__ import annotations

from functools import cached_property
from math import prod

from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.lanes import WARP
from tilelang.layout.register_layout import Mode, RegisterLayout
from tilelang.records import dataclass

BLOCK = 8  # rows of A, columns of B of one block
PER_LANE = BLOCK * BLOCK // 32  # elements of a square block in each thread of a warp
WARPGROUP = 128  # threads

Modes = tuple[Mode, ...]


@dataclass(frozen=True)
class MmaAtom:
    """One instruction.

    Attributes:
        m, n, k: its shape.
        a, b, c: dtypes of the operands and of the accumulator, as the instruction names them.
        needs: the feature of targets that have it.
        a_modes: modes of the row and of k of an element of A: which thread and register has it.
        b_modes: modes of k and of the column of an element of B; none where it is never in
            registers.
        c_modes: modes of the row and of the column of an element of C.
        width: threads that hold the matrices and execute it together.
        copies: (extent, stride) of threads that hold the same elements of an operand.
        row: name of the row of the instruction.
        opaque: whether its matrices are objects of their own, which are loaded and stored as a
            whole; the layouts are those of registers that elements are moved through.
        known: whether these registers have the elements that the thread has of such a matrix;
            otherwise elements go through memory.
    """

    m: int
    n: int
    k: int
    a: DType
    b: DType
    c: DType
    needs: str
    a_modes: tuple[Modes, Modes]
    b_modes: tuple[Modes, Modes]
    c_modes: tuple[Modes, Modes]
    width: int = WARP
    copies: tuple[tuple[int, int], ...] = ()
    row: str = "mma"
    opaque: bool = False
    known: bool = False

    @property
    def shape(self) -> str:
        """The name of the shape, e.g. "m16n8k16"."""
        return f"m{self.m}n{self.n}k{self.k}"

    @property
    def k_run(self) -> int:
        """Elements of an operand that are contiguous along k in consecutive registers of one
        thread; 1 if blocks of other rows are between them."""
        last = self.a_modes[1][-1]
        return last.extent if (last.kind, last.stride) == ("register", 1) else 1

    @property
    def can_chain(self) -> bool:
        """Whether each lane holds the columns of a result that it needs as k of an operand."""
        along, columns = (
            modes[next((i for i, mode in enumerate(modes) if mode.kind == "thread"), 0) :]
            for modes in (self.a_modes[1], self.c_modes[1])
        )
        return along == columns

    @property
    def per_register(self) -> int:
        """Elements of an operand that are contiguous along k in one register."""
        return max(1, 32 // self.a.bits)

    @property
    def blocks_m(self) -> int:
        """Blocks of A along m."""
        return self.m // BLOCK

    @property
    def blocks_k(self) -> int:
        """Blocks of an operand along k."""
        return self.k // (4 * self.per_register)

    @property
    def _replicas(self) -> int:
        return prod(extent for extent, _ in self.copies)

    @property
    def a_registers(self) -> int:
        """Elements of A in a thread."""
        return self.m * self.k * self._replicas // self.width

    @property
    def b_registers(self) -> int:
        """Elements of B in a thread."""
        return self.k * self.n * self._replicas // self.width

    @property
    def c_registers(self) -> int:
        """Elements of C in a thread."""
        return self.m * self.n // self.width

    @cached_property
    def a_layout(self) -> RegisterLayout:
        """An m x k matrix in a warp."""
        return RegisterLayout((self.m, self.k), self.a_modes, self.copies, self.width)

    @cached_property
    def b_layout(self) -> RegisterLayout:
        """A k x n matrix in a warp."""
        return RegisterLayout((self.k, self.n), self.b_modes, self.copies, self.width)

    @cached_property
    def c_layout(self) -> RegisterLayout:
        """An m x n matrix in a warp."""
        return RegisterLayout((self.m, self.n), self.c_modes, (), self.width)
