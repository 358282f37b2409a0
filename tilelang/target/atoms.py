"""Which matrix instruction a product uses.

On NVIDIA's GPUs a float32 operand is used as tfloat32, that is with 10 bits of mantissa: the
instruction does not look at the lowest 13 bits. Programs that need all of float32 in a product
multiply without matrix instructions, e.g. with float64 operands, or on the CPU. AMD's and Apple's
instructions multiply all of float32; those of gfx942 that do not are used for tiles of tfloat32.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.ir.dtypes import dtype as DType
from tilelang.target.amd_matrices import MATRICES
from tilelang.target.apple import SIMDGROUP
from tilelang.target.matrices import MmaAtom
from tilelang.target.nvidia_mma import MMA_SYNC, WGMMA_KINDS, wgmma_atom, wgmma_columns

ATOMS: tuple[MmaAtom, ...] = MMA_SYNC + MATRICES + SIMDGROUP

SMALL, LARGE = 16, 32  # rows of an instruction
# What else holds the numbers of a dtype, of instructions that use all bits.
_STORED_AS = {DType("tfloat32"): DType("float32")}
# What the operand's dtype is called by the instruction that takes it.
_CALLED = {"float32": "tfloat32", "float8_e4m3": "float8_e4m3fn"}


def find_atom(
    a: DType, b: DType, c: DType, k: int, features: frozenset[str], *, side: int = SMALL,
    chained: bool = False,
) -> MmaAtom | None:  # fmt: skip
    """The instruction for operands of dtypes ``a`` and ``b`` and an accumulator of dtype ``c``.

    The accumulator of the instruction has dtype ``c`` if such an instruction exists, else a wider
    dtype (32 bits or more), which is converted. The instruction with the largest k that divides
    ``k`` is best, and of those the one whose lanes have the longest runs along k.

    Args:
        k: length of the products.
        features: of the target, e.g. "mma".
        side: the most rows of the instruction.
        chained: an operand is in registers; prefer an instruction whose operands have the layout
            of its results (back-to-back GEMMs).
    """
    x, y = _called(a), _called(b)
    stored_as = _STORED_AS if "mfma" in features else {}
    fitting = [
        atom
        for atom in ATOMS
        if atom.a in (x, a, stored_as.get(a)) and atom.b in (y, b, stored_as.get(b))
        and atom.needs in features and k % atom.k == 0 and atom.m <= side
        and atom.c.is_float == c.is_float and atom.c.bits >= c.bits
    ]  # fmt: skip

    def order(atom: MmaAtom) -> tuple[int, ...]:
        own = (atom.c is c, (atom.a, atom.b) == (a, b))
        return *own, atom.m, not chained or atom.can_chain, atom.k, atom.k_run

    return max(fitting, key=order, default=None)


def warpgroup_kinds(a: DType, b: DType, c: DType) -> tuple[DType, DType, DType] | None:
    """The dtypes of operands and accumulator as wgmma names them.

    The accumulator is wider than ``c`` if no instruction adds in ``c``; None if there is none.
    """
    x, y = _called(a), _called(b)
    sums = [DType(kind) for kind in WGMMA_KINDS.get((str(x), str(y)), ())]
    fitting = [kind for kind in sums if kind.is_float == c.is_float and kind.bits >= c.bits]
    fit = min(fitting, key=lambda kind: (kind is not c, -kind.bits), default=None)
    return None if fit is None else (x, y, fit)


def warpgroup_atoms(kinds: tuple[DType, DType, DType]) -> Iterator[MmaAtom]:
    """Instructions of a warpgroup for such dtypes, those with the most columns first."""
    return (wgmma_atom(columns, *kinds) for columns in wgmma_columns(kinds[2]))


def _called(kind: DType) -> DType:
    return DType(_CALLED.get(str(kind), str(kind)))
