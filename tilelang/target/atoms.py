"""Matrix instructions of one warp (``mma.sync``): shapes, dtypes, features, registers.

An atom multiplies an m x k by a k x n matrix into an m x n one, all held in the registers of the
32 threads of a warp. The register layouts of all of them follow one rule, of which the figures of
the PTX manual are instances: eight rows of A (or columns of B) times 16 bytes of k make a block,
whose row ``i`` belongs to the threads ``4i .. 4i+3``, each with 4 bytes of it; the registers of a
thread count the blocks, along m first for A, then along k.

A float32 operand is used as tfloat32, that is with 10 bits of mantissa: the instruction does not
look at the lowest 13 bits. Programs that need all of float32 in a product multiply without matrix
instructions, e.g. with float64 operands, or on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.lanes import WARP
from tilelang.layout.distribution import Digit, Distribution

BLOCK = 8  # rows of A, columns of B of one block

Digits = tuple[Digit, ...]


@dataclass(frozen=True)
class MmaAtom:
    """One instruction.

    Attributes:
        m, n, k: its shape.
        a, b, c: dtypes of the factors and of the sum, as the instruction names them.
        needs: the feature of targets that have it.
    """

    m: int
    n: int
    k: int
    a: DType
    b: DType
    c: DType
    needs: str

    @property
    def shape(self) -> str:
        """The name of the shape, e.g. "m16n8k16"."""
        return f"m{self.m}n{self.n}k{self.k}"

    @property
    def warp(self) -> int:
        """Threads that execute it together."""
        return WARP

    @property
    def per_register(self) -> int:
        """Elements of a factor that are neighbours along k in one thread."""
        return max(1, 32 // self.a.bits)

    @property
    def blocks_m(self) -> int:
        """Blocks of A along m."""
        return self.m // BLOCK

    @property
    def blocks_k(self) -> int:
        """Blocks of a factor along k."""
        return self.k // (4 * self.per_register)

    @property
    def a_slots(self) -> int:
        """Elements of A in a thread."""
        return self.m * self.k // WARP

    @property
    def b_slots(self) -> int:
        """Elements of B in a thread."""
        return self.k * self.n // WARP

    @property
    def c_slots(self) -> int:
        """Elements of C in a thread."""
        return self.m * self.n // WARP

    # -- registers: the digits of each index ---------------------------------------------------
    def _block_k(self, stride: int) -> Digits:
        """Digits of k; ``stride`` is the distance of blocks along k in registers."""
        per = self.per_register
        return _used(
            Digit(self.blocks_k, "slot", stride), Digit(4, "thread", 1), Digit(per, "slot", 1)
        )

    @cached_property
    def a_digits(self) -> tuple[Digits, Digits]:
        """Digits of the row and of k of an element of A."""
        per = self.per_register
        rows = _used(Digit(self.blocks_m, "slot", per), Digit(BLOCK, "thread", 4))
        return rows, self._block_k(per * self.blocks_m)

    @cached_property
    def b_digits(self) -> tuple[Digits, Digits]:
        """Digits of k and of the column of an element of B."""
        return self._block_k(self.per_register), (Digit(BLOCK, "thread", 4),)

    @cached_property
    def c_digits(self) -> tuple[Digits, Digits]:
        """Digits of the row and of the column of an element of C."""
        rows = _used(Digit(self.blocks_m, "slot", 2), Digit(BLOCK, "thread", 4))
        return rows, (Digit(4, "thread", 1), Digit(2, "slot", 1))

    @cached_property
    def a_layout(self) -> Distribution:
        """An m x k matrix in a warp."""
        return Distribution((self.m, self.k), self.a_digits, (), WARP)

    @cached_property
    def b_layout(self) -> Distribution:
        """A k x n matrix in a warp."""
        return Distribution((self.k, self.n), self.b_digits, (), WARP)

    @cached_property
    def c_layout(self) -> Distribution:
        """An m x n matrix in a warp."""
        return Distribution((self.m, self.n), self.c_digits, (), WARP)


def _used(*digits: Digit) -> Digits:
    return tuple(digit for digit in digits if digit.extent > 1)


# Shape, factors, sum, feature. On sm_75 the longer shapes of float16 and of bytes are
# made of two or four of its own instructions, in the same registers.
_TABLE: tuple[tuple[tuple[int, int, int], str, str, str], ...] = (
    ((16, 8, 16), "float16", "float32", "mma"),
    ((16, 8, 8), "float16", "float32", "mma"),
    ((16, 8, 16), "float16", "float16", "mma"),
    ((16, 8, 8), "float16", "float16", "mma"),
    ((16, 8, 16), "bfloat16", "float32", "mma_sm80"),
    ((16, 8, 8), "bfloat16", "float32", "mma_sm80"),
    ((16, 8, 8), "tfloat32", "float32", "mma_sm80"),
    ((16, 8, 4), "tfloat32", "float32", "mma_sm80"),
    ((8, 8, 4), "float64", "float64", "mma_sm80"),
    ((16, 8, 32), "int8", "int32", "mma"),
    ((16, 8, 16), "int8", "int32", "mma_sm80"),
    ((16, 8, 32), "uint8", "int32", "mma"),
    ((16, 8, 16), "uint8", "int32", "mma_sm80"),
    ((16, 8, 64), "int4", "int32", "mma_sm80"),
    ((16, 8, 32), "int4", "int32", "mma_sm80"),
    ((16, 8, 64), "uint4", "int32", "mma_sm80"),
    ((16, 8, 32), "uint4", "int32", "mma_sm80"),
    ((16, 8, 32), "float8_e4m3fn", "float32", "mma_fp8"),
    ((16, 8, 32), "float8_e5m2", "float32", "mma_fp8"),
)

ATOMS: tuple[MmaAtom, ...] = tuple(
    MmaAtom(m, n, k, DType(kind), DType(kind), DType(result), needs)
    for (m, n, k), kind, result, needs in _TABLE
)

# What the operand's dtype is called by the instruction that takes it.
_CALLED = {"float32": "tfloat32", "float8_e4m3": "float8_e4m3fn"}


def find_atom(a: DType, b: DType, c: DType, k: int, features: frozenset[str]) -> MmaAtom | None:
    """The instruction for factors of dtypes ``a`` and ``b``, summed into ``c``.

    The sum of the instruction has dtype ``c`` where that exists, else a wider one (of 32 bits or
    more), to be converted. The longest instruction that divides ``k`` is best.

    Args:
        k: length of the products.
        features: of the target, e.g. "mma".
    """
    x, y = (DType(_CALLED.get(str(kind), str(kind))) for kind in (a, b))
    fitting = [
        atom
        for atom in ATOMS
        if atom.a is x and atom.b is y and atom.needs in features and k % atom.k == 0
        and atom.c.is_float == c.is_float and atom.c.bits >= c.bits
    ]  # fmt: skip
    return min(fitting, key=lambda atom: (atom.c is not c, -atom.m, -atom.k), default=None)
