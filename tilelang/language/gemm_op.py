"""``T.gemm`` and its family: checks of shapes, dtypes and scopes, one ``Gemm`` statement.

Sizes are free here; which instruction computes a product, and what sizes it likes, is the business
of the back ends.
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import TileTypeError, TileValueError, check_choice
from tilelang.frontend import regions
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.emitter import emitter
from tilelang.ir.expr import Expr, binary
from tilelang.ir.hints import GemmHints
from tilelang.ir.stmt import Gemm, HardwareOp, Pairs
from tilelang.language.sync import barrier_address
from tilelang.layout.policy import GemmWarpPolicy
from tilelang.target.nvidia import HARDWARE_TILES
from tilelang.tracebacks import borders

__all__ = [
    "GemmWarpPolicy", "gemm", "gemm_v1", "gemm_v2", "tcgen05_gemm", "tcgen05_mma",
    "validate_gemm_ab_dtypes", "wgmma_gemm", "wgmma_mma",
]  # fmt: skip

_SAME_FORMAT = frozenset(("float8_e4m3", "float8_e4m3fn"))


def matrix_of(operand: object, op_name: str, role: str) -> tuple[Region, int, int]:
    """A matrix operand with its rows and columns: the last two dimensions."""
    region = regions.tile_of(operand, op_name, f"operand {role}")
    extents = regions.constant_extents(region, op_name, f"operand {role}")
    if len(extents) < 2 or any(extent != 1 for extent in extents[:-2]):
        raise TileValueError(
            f"{role} of {op_name} is not a matrix",
            expected="two dimensions, leading ones of extent 1",
            got=f"`{region!r}` with extents {regions.text_of(extents)}",
            hint="select one matrix, e.g. A[stage, :, :]",
        )
    return region, extents[-2], extents[-1]


def _check_scopes(a: Region, b: Region, c: Region, op_name: str) -> None:
    for region, role in ((a, "A"), (b, "B"), (c, "C")):
        scope = region.scope()
        if scope == "global":
            where = "T.alloc_fragment" if role == "C" else "T.alloc_shared or T.alloc_fragment"
            raise TileTypeError(
                f"{role} of {op_name} is in global memory",
                expected=f"a tile made by {where}",
                got=f"`{region.buffer.name}` in global memory",
                hint="T.copy it into a tile first" if role != "C" else "T.copy the result out",
            )
        if scope in ("shared.barrier", "shared.cluster_barrier", "local.descriptor", "local.var"):
            raise TileTypeError(
                f"{role} of {op_name} is not a tile",
                expected="a shared or fragment tile",
                got=f"`{region.buffer.name}` in {scope} memory",
            )


def validate_gemm_ab_dtypes(a: object, b: object, op_name: str = "T.gemm") -> None:
    """Check that both operands have one dtype (the two names of e4m3 are one).

    Args:
        a, b: the dtypes of A and B.
        op_name: the operation, for the message.

    Raises:
        TileTypeError: two dtypes.
    """
    x, y = DType(a), DType(b)
    if x is not y and not {str(x), str(y)} <= _SAME_FORMAT:
        raise TileTypeError(
            f"A and B of {op_name} have different dtypes",
            expected=f"B of dtype {x}, as A",
            got=f"{y}",
            hint="convert one of them with T.copy into a tile of the other dtype",
        )


def _check_dtypes(a: Region, b: Region, c: Region, op_name: str) -> None:
    validate_gemm_ab_dtypes(a.dtype, b.dtype, op_name)
    kind, result = a.dtype, c.dtype
    for dtype, role in ((kind, "A"), (result, "C")):
        if dtype.lanes > 1 or dtype.is_bool or dtype.is_handle:
            raise TileTypeError(
                f"{role} of {op_name} has the dtype {dtype}",
                expected="a scalar integer or float dtype",
                got=str(dtype),
            )
    if kind.is_integer != result.is_integer:
        accumulators = "int32" if kind.is_integer else "float32, or float16 for float16 operands"
        raise TileTypeError(
            f"C of {op_name} cannot hold the product of {kind} matrices",
            expected=accumulators,
            got=str(result),
        )


def _check_shapes(
    a: tuple[Region, int, int], b: tuple[Region, int, int], c: tuple[Region, int, int],
    trans_a: bool, trans_b: bool, op_name: str,
) -> None:  # fmt: skip
    m, k = (a[2], a[1]) if trans_a else (a[1], a[2])
    k_b, n = (b[2], b[1]) if trans_b else (b[1], b[2])
    if k != k_b:
        flags = f"transpose_A={trans_a}, transpose_B={trans_b}"
        raise TileValueError(
            f"the inner dimensions of {op_name} differ",
            expected=f"B with K = {k}, as A of shape {regions.text_of(a[1:])}",
            got=f"K = {k_b} from B of shape {regions.text_of(b[1:])} with {flags}",
            hint="B is [K, N], or [N, K] with transpose_B=True",
        )
    if (c[1], c[2]) != (m, n):
        raise TileValueError(
            f"C of {op_name} has the wrong shape",
            expected=f"{regions.text_of((m, n))}, from A {regions.text_of(a[1:])} "
            f"and B {regions.text_of(b[1:])}",
            got=f"{regions.text_of(c[1:])} of `{c[0]!r}`",
        )


def warp_policy(policy: object, op_name: str) -> GemmWarpPolicy:
    """The policy that a program gives as a member or as its number."""
    if isinstance(policy, int) and not isinstance(policy, bool) and policy in (0, 1, 2):
        return GemmWarpPolicy(policy)
    raise TileValueError(
        f"the policy of {op_name} is unknown",
        expected="T.GemmWarpPolicy.Square, FullRow or FullCol",
        got=regions.describe(policy),
    )


def condition(value: object, op_name: str, role: str) -> Expr:
    """A flag that may be an expression, e.g. ``clear_accum=k == 0``."""
    expr = regions.scalar(value, op_name, role)
    return expr if expr.dtype.is_bool else binary("ne", expr, 0)


def _gemm(
    op_name: str, tiles: tuple[object, object, object], transposed: tuple[object, object],
    policy: object, clear_accum: object, annotations: Pairs, k_pack: object = 1,
    asynchronous: bool = True, mbar: object = None,
) -> None:  # fmt: skip
    active = emitter(op_name)
    a, b, c = (matrix_of(x, op_name, role) for x, role in zip(tiles, "ABC"))
    trans_a, trans_b = _transposed(transposed, op_name)
    _check_scopes(a[0], b[0], c[0], op_name)
    _check_dtypes(a[0], b[0], c[0], op_name)
    _check_shapes(a, b, c, trans_a, trans_b, op_name)
    chosen = warp_policy(policy, op_name)
    packed = regions.constant_int(k_pack, op_name, "k_pack")
    check_choice(packed, (1, 2), f"the k_pack of {op_name} is {packed}", "1 or 2", str)
    clear = condition(clear_accum, op_name, "clear_accum")
    if c[0].scope() == "shared.tmem":
        options = regions.pairs(
            transpose_A=trans_a,
            transpose_B=trans_b,
            policy=int(chosen),
            annotations=annotations or None,
        )
        _tcgen05("tcgen05_gemm", (a[0], b[0]), c[0], clear, mbar, options)
        return
    signal = None if mbar is None else barrier_address(mbar, op_name)
    active.emit(
        Gemm(
            a=a[0], b=b[0], c=c[0], trans_a=trans_a, trans_b=trans_b, clear=clear,
            policy=int(chosen), k_pack=packed, asynchronous=asynchronous and signal is None,
            barrier=signal, hints=GemmHints.of(annotations),
        )
    )  # fmt: skip


def _transposed(flags: tuple[object, object], op_name: str) -> tuple[bool, bool]:
    a, b = flags
    return regions.constant_bool(a, op_name, "transpose_A"), regions.constant_bool(
        b, op_name, "transpose_B"
    )


def _tcgen05(
    name: str, reads: tuple[Region, ...], c: Region, clear: Expr, mbar: object, options: Pairs
) -> None:
    args = (clear,) if mbar is None else (clear, barrier_address(mbar, f"T.{name}"))
    needs = HARDWARE_TILES[name]
    emitter(f"T.{name}").emit(
        HardwareOp(name=name, needs=needs, reads=reads, writes=(c,), args=args, options=options)
    )


def gemm(
    A: object, B: object, C: object, transpose_A: bool = False, transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square, clear_accum: object = False, k_pack: int = 1,
    wg_wait: object = 0, mbar: object = None, annotations: dict[str, Any] | None = None,
    use_2cta: bool = False,
) -> None:  # fmt: skip
    """Accumulate ``C += op(A) @ op(B)`` of tiles; C is overwritten where ``clear_accum`` holds.

    All threads of the block, or of the branch that runs it, take part. The order of additions is
    not fixed. The compiler chooses the instruction; ``kernel.explain()`` names it.

    Args:
        A: [M, K], or [K, M] with ``transpose_A``; a shared tile or a fragment.
        B: [K, N], or [N, K] with ``transpose_B``; a shared tile or a fragment, of A's dtype.
        C: [M, N], a fragment or a shared tile: float for float operands, integer for integers.
        transpose_A, transpose_B: constants; whether the operand is stored transposed.
        policy: how warps divide C among them: ``T.GemmWarpPolicy.Square``, ``FullRow`` or
            ``FullCol``. It affects speed only.
        clear_accum: bool or expression, e.g. ``k == 0``: C is 0 before the product.
        k_pack: 1 or 2; accepted for programs of other implementations, without effect.
        wg_wait: -1 leaves the product in flight, as :func:`wgmma_gemm`. A barrier as this argument
            is ``mbar``.
        mbar: element of ``T.alloc_barrier``. The product arrives at it once when it is complete:
            then C may be read, and A and B overwritten. Results in tensor memory (sm_100) need it.
        annotations, use_2cta: hints, kept with the statement.

    Raises:
        TileTypeError: an operand in global memory, or dtypes that do not fit together.
        TileValueError: shapes that do not fit together, or an unknown policy.

    Source: PTX ISA, "mma", "wgmma.mma_async" and "tcgen05.mma".
    """
    if isinstance(wg_wait, (Buffer, Expr)):
        mbar, wg_wait = wg_wait, 0
    waits = regions.constant_int(wg_wait, "T.gemm", "wg_wait")
    notes = regions.pairs(annotations=annotations, use_2cta=use_2cta)
    transposed = (transpose_A, transpose_B)
    _gemm("T.gemm", (A, B, C), transposed, policy, clear_accum, notes, k_pack, waits < 0, mbar)


gemm_v1 = gemm
gemm_v2 = gemm


def wgmma_gemm(
    A: object, B: object, C: object, transpose_A: bool = False, transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square, clear_accum: object = False,
    annotations: dict[str, Any] | None = None, *, k_pack: int = 1, wg_wait: object = 0,
) -> None:  # fmt: skip
    """Issue a :func:`gemm` that may still run afterwards; ``T.wait_wgmma(n)`` waits for it.

    ``T.wait_wgmma(n)`` waits until at most ``n`` of the products that were issued last are in
    flight. Before that C must not be read, nor A and B overwritten. Arguments are those of
    :func:`gemm`. A target without wgmma computes the product at once.

    Raises:
        TileValueError: as for :func:`gemm`.

    Source: PTX ISA, "wgmma.mma_async", "wgmma.wait_group".
    """
    notes, transposed = regions.pairs(annotations=annotations), (transpose_A, transpose_B)
    _gemm("T.wgmma_gemm", (A, B, C), transposed, policy, clear_accum, notes)


wgmma_mma = wgmma_gemm


def tcgen05_gemm(
    A: object, B: object, C: object, transpose_A: bool = False, transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square, clear_accum: object = False, *,
    mbar: object = None, use_2cta: bool = False, annotations: dict[str, Any] | None = None,
    k_pack: int = 1, wg_wait: object = 0,
) -> None:  # fmt: skip
    """Accumulate a product in tensor memory (sm_100).

    Args:
        A, B: tiles in shared memory, with shapes as in :func:`gemm`.
        C: a tile of ``T.alloc_tmem``.
        mbar: element of ``T.alloc_barrier`` at which the product arrives when it is complete.

    The other arguments are those of :func:`gemm`.

    Source: PTX ISA, "tcgen05.mma", "tcgen05.commit".
    """
    op = "T.tcgen05_gemm"
    a, b, c = (matrix_of(x, op, role)[0] for x, role in zip((A, B, C), "ABC"))
    trans_a, trans_b = _transposed((transpose_A, transpose_B), op)
    options = regions.pairs(
        transpose_A=trans_a,
        transpose_B=trans_b,
        policy=int(warp_policy(policy, op)),
        use_2cta=use_2cta,
        annotations=annotations,
    )
    _tcgen05("tcgen05_gemm", (a, b), c, condition(clear_accum, op, "clear_accum"), mbar, options)


tcgen05_mma = tcgen05_gemm


borders(globals(), __all__)
