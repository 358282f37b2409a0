"""Which matrix instruction a product uses.

On NVIDIA's GPUs a float32 operand is used as tfloat32, that is with 10 bits of mantissa: the
instruction does not look at the lowest 13 bits. Programs that need all of float32 in a product
multiply without matrix instructions, e.g. with float64 operands, or on the CPU. AMD's and Apple's
instructions multiply all of float32.
"""

from __future__ import annotations

from tilelang.ir.dtypes import dtype as DType
from tilelang.target.amd_matrices import MATRICES
from tilelang.target.apple import SIMDGROUP
from tilelang.target.matrices import MmaAtom
from tilelang.target.nvidia_mma import MMA_SYNC, WGMMA_KINDS

ATOMS: tuple[MmaAtom, ...] = MMA_SYNC + MATRICES + SIMDGROUP

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
    x, y = _called(a), _called(b)
    fitting = [
        atom
        for atom in ATOMS
        if atom.a in (x, a) and atom.b in (y, b) and atom.needs in features and k % atom.k == 0
        and atom.c.is_float == c.is_float and atom.c.bits >= c.bits
    ]  # fmt: skip
    return min(fitting, key=lambda atom: (atom.c is not c, -atom.m, -atom.k), default=None)


def warpgroup_kinds(a: DType, b: DType, c: DType) -> tuple[DType, DType, DType] | None:
    """The dtypes by which an instruction of a warpgroup knows the factors and the sum.

    The sum is wider than ``c`` where no instruction adds in ``c``; None where there is none.
    """
    x, y = _called(a), _called(b)
    sums = [DType(kind) for kind in WGMMA_KINDS.get((str(x), str(y)), ())]
    fitting = [kind for kind in sums if kind.is_float == c.is_float and kind.bits >= c.bits]
    found = min(fitting, key=lambda kind: (kind is not c, -kind.bits), default=None)
    return None if found is None else (x, y, found)


def _called(kind: DType) -> DType:
    return DType(_CALLED.get(str(kind), str(kind)))
