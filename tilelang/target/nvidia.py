"""The instructions of NVIDIA's GPUs as rows: one constructor for each family.

Sources: PTX ISA, "Instruction Set" (each family names its section); the C++ functions that the rows
name stand in the device headers.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.ir.atoms import (
    BARRIER,
    NOW,
    VALUE,
    Atom,
    Completion,
    Effect,
    Operand,
    Order,
    group,
    mbarrier,
)
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.tables import table
from tilelang.layout.register_layout import Mode
from tilelang.target.matrices import BLOCK, MmaAtom, Modes

WARPGROUP = 128  # threads


def raw(
    names: str, needs: str, effect: Effect = Effect.OUTPUT, result: str = "void",
    orders: Order | None = None, completes: Completion = NOW, own_order: bool = False,
    text: str = "",
) -> list[Atom]:  # fmt: skip
    """PTX-level instructions with any operands, as programs give them.

    Args:
        names: separated by spaces.
        own_order: an asynchronous unit does it; barriers in memory and waits of the program order
            what it does.
    """
    return [
        Atom(
            name, 0, -1, result, effect=effect, needs=needs, orders=orders, completes=completes,
            own_order=own_order, text=text,
        )
        for name in names.split()
    ]  # fmt: skip


def units(
    names: str, needs: str, orders: Order, text: str = "", operands: tuple[Operand, ...] = (),
    word: str = "", semantics: str = "",
) -> list[Atom]:  # fmt: skip
    """Order of asynchronous units, which is left out where there are none."""
    return [
        Atom(
            name, 0, -1, "void", effect=Effect.SYNC, operands=operands, orders=orders, needs=needs,
            optional=True, word=word, text=text, semantics=semantics,
        )
        for name in names.split()
    ]  # fmt: skip


def hints(names: str, needs: str) -> list[Atom]:
    """What steers a machine that has it, without effect on results."""
    return [
        Atom(name, 0, -1, "void", effect=Effect.HINT, needs=needs, optional=True)
        for name in names.split()
    ]


def lowered(
    name: str, low: int, high: int, needs: str, *operands: Operand, completes: Completion = NOW,
    text: str = "", semantics: str = "", displaces: bool = False,
) -> Atom:  # fmt: skip
    """What lowering makes; programs do not write it."""
    return Atom(
        name, low, high, "void", effect=Effect.WRITE, operands=operands, completes=completes,
        needs=needs, lowered=True, text=text, semantics=semantics, displaces=displaces,
    )  # fmt: skip


# -- families --------------------------------------------------------------------------------------
def matrices() -> list[Atom]:
    """Products in the registers of one warp and their loads and stores: ``mma.sync``, ``mma.sp``,
    ``ldmatrix``, ``stmatrix`` ("Matrix Multiply-Accumulate Operation Using mma Instruction")."""
    return [MMA, LDMATRIX, STMATRIX, *raw("ptx_mma_sm70", "sm_70"), *raw("ptx_ldmatrix", "sm_75"),
            *raw("ptx_mma ptx_mma_sp", "sm_80"), *raw("ptx_stmatrix", "sm_90")]  # fmt: skip


def cp_async() -> list[Atom]:
    """``cp.async`` and its groups ("Data Movement and Conversion Instructions: cp.async")."""
    return [
        CP_ASYNC, CP_ASYNC_COMMIT, CP_ASYNC_WAIT, PTX_WAIT_GROUP,
        *units("ptx_commit_group", "sm_80", Order("commit", "thread", "cp_async"),
               "tl_cp_async_commit", semantics="commit a group"),
    ]  # fmt: skip


def mbarriers() -> list[Atom]:
    """What only the hardware's mbarriers have ("Parallel Synchronization: mbarrier"); arrivals and
    waits are portable rows."""
    return [
        *units("mbarrier_init", "sm_80", Order("init", "barrier"), "tl_mbarrier_init", (BARRIER,),
               "ptx_init_barrier_thread_count"),
        *units("ptx_fence_barrier_init", "sm_90", Order("fence", "cluster", "", TO_ASYNC),
               "tl_fence_barrier_init"),
        Atom(
            "mbarrier_try_wait", 2, 2, "bool", effect=Effect.SYNC, operands=(BARRIER,),
            orders=Order("test", "barrier"), needs="sm_80", text="tl_mbarrier_try_wait",
        ),
    ]  # fmt: skip


def tma() -> list[Atom]:
    """Bulk copies of runs and of boxes of tensors ("cp.async.bulk", "cp.async.bulk.tensor")."""
    return [
        TMA_LOAD_BOX, TMA_STORE_BOX, TENSOR_MAP,
        *raw("create_tma_im2col_descriptor", "sm_90", Effect.NONE, "handle"),
        *raw("tma_load tma_load_multicast tma_load_im2col ptx_cp_async_bulk", "sm_90",
             completes=mbarrier(), own_order=True),
        *raw("tma_store", "sm_90", completes=group("bulk_store"), own_order=True),
        *raw("prefetch_tma_descriptor", "sm_90", own_order=True),
        *units("fence_proxy_async", "sm_90", Order("fence", "thread", "", TO_ASYNC),
               "tl_fence_proxy_async"),
        BULK_COMMIT, BULK_WAIT,
    ]  # fmt: skip


def wgmma() -> list[Atom]:
    """Products of a warpgroup ("Asynchronous Warpgroup Level Matrix Instructions")."""
    return [
        *raw("ptx_wgmma_ss ptx_wgmma_rs", "sm_90", completes=group("wgmma"), own_order=True),
        *raw("initialize_wgmma_descriptor increase_descriptor_offset", "sm_90", own_order=True),
        *units("warpgroup_fence_operand", "sm_90a", Order("fence", "thread")),
        *units("warpgroup_arrive", "sm_90a", Order("fence", "warpgroup"), "tl_wgmma_fence"),
        *units("warpgroup_commit_batch", "sm_90a", Order("commit", "warpgroup", "wgmma"),
               "tl_wgmma_commit", semantics="commit a group"),
        *units("warpgroup_wait wait_wgmma", "sm_90a", Order("wait", "warpgroup", "wgmma"),
               "tl_wgmma_wait<{constant}>()", semantics="wait for groups"),
        WGMMA_SS, WGMMA_RS,
    ]  # fmt: skip


def clusters() -> list[Atom]:
    """Blocks that reach each other's shared memory ("barrier.cluster", "mapa", "elect.sync")."""

    def barrier(name: str, orders: Order) -> list[Atom]:
        return raw(name, "sm_90", Effect.SYNC, orders=orders, text=f"tl_{name}")

    return [
        *barrier("cluster_arrive", Order("arrive", "cluster")),
        *barrier("cluster_arrive_relaxed", Order("arrive", "cluster", memory=False)),
        *barrier("cluster_wait", Order("wait", "cluster")),
        *barrier("cluster_sync", Order("rendezvous", "cluster")),
        *raw("block_rank_in_cluster", "sm_90", Effect.NONE, "int32",
             text="tl_block_rank_in_cluster"),
        *raw("map_shared_rank", "sm_90", Effect.NONE, "handle", own_order=True),
        Atom("elect_one", 0, 0, "bool", effect=Effect.SYNC, per_thread=True, needs="sm_90",
             text="tl_elect_one"),
    ]  # fmt: skip


def launches() -> list[Atom]:
    """Programmatic dependent launch ("griddepcontrol"), and work of blocks that have not started
    ("clusterlaunchcontrol")."""
    return [
        *units("pdl_trigger", "sm_90", Order("arrive", "launches"), "tl_pdl_trigger"),
        *units("pdl_sync", "sm_90", Order("wait", "launches"), "tl_pdl_sync"),
        *raw("clc_try_cancel clc_try_cancel_multicast", "sm_100", completes=mbarrier(),
             own_order=True),
        *raw("clc_is_canceled", "sm_100", Effect.READ, "bool", own_order=True),
        *raw("clc_get_first_ctaid_x clc_get_first_ctaid_y clc_get_first_ctaid_z", "sm_100",
             Effect.READ, "int32", own_order=True),
    ]  # fmt: skip


def setmaxnreg() -> list[Atom]:
    """Registers that move between warpgroups ("setmaxnreg")."""
    return hints(
        "set_max_nreg no_set_max_nreg disable_warp_group_reg_alloc "
        "annotate_producer_reg_dealloc annotate_consumer_reg_alloc",
        "sm_90a",
    )


def tcgen05() -> list[Atom]:
    """Products with sums in tensor memory ("TensorCore 5th Generation Family Instructions")."""

    def orders(name: str, order: Order) -> list[Atom]:
        return raw(name, "sm_100", orders=order, own_order=True)

    return [
        *raw("ptx_tcgen05_mma_ss ptx_tcgen05_mma_ts tcgen05_cp", "sm_100",
             completes=group("tcgen05"), own_order=True),
        *raw("tcgen05_ld", "sm_100", completes=group("tcgen05_ld"), own_order=True),
        *raw("tcgen05_st", "sm_100", completes=group("tcgen05_st"), own_order=True),
        *orders("tcgen05_wait_ld", Order("wait", "thread", "tcgen05_ld")),
        *orders("tcgen05_wait_st", Order("wait", "thread", "tcgen05_st")),
        *orders("tcgen05_mma_arrive", Order("commit", "barrier", "tcgen05")),
        *orders("tcgen05_before_thread_sync", Order("fence", "thread", "", ("tcgen05", "generic"))),
        *orders("tcgen05_after_thread_sync", Order("fence", "thread", "", ("generic", "tcgen05"))),
        *raw("initialize_tcgen05_descriptor", "sm_100", own_order=True),
        TMEM_FREE,
    ]  # fmt: skip


# -- rows that lowering makes ----------------------------------------------------------------------
TO_ASYNC = ("generic", "async")  # what fences between a thread's accesses and a copy unit's
MMA = lowered(
    "mma", 3, 3, "sm_75",
    Operand("d", "registers", "rw", tile="mn"),
    Operand("a", "registers", "r", tile="mk"),
    Operand("b", "registers", "r", tile="kn"), semantics="multiply matrices",
)  # fmt: skip
# Operands in shared memory are where a tile starts and how many units of 16 bytes behind it the
# instruction begins; attributes of the call say how they lie there ("Matrix Descriptor Format").
# The last operand says whether d is added to.
_WGMMA_D = Operand("d", "registers", "rw", tile="mn", width=WARPGROUP)
_WGMMA_B = (Operand("b", "shared", "r", proxy="async"), VALUE, VALUE)
WGMMA_SS = lowered(
    "wgmma_ss", 6, 6, "sm_90a",
    _WGMMA_D, Operand("a", "shared", "r", proxy="async"), VALUE, *_WGMMA_B,
    completes=group("wgmma"), semantics="multiply in a warpgroup",
)  # fmt: skip
WGMMA_RS = lowered(
    "wgmma_rs", 5, 5, "sm_90a",
    _WGMMA_D, Operand("a", "registers", "r", tile="mk", width=WARPGROUP), *_WGMMA_B,
    completes=group("wgmma"), semantics="multiply in a warpgroup",
)  # fmt: skip
# A lane names the 16 bytes of one row of an 8 x 8 matrix, and has 4 bytes of each matrix.
LDMATRIX = lowered(
    "ldmatrix", 2, 2, "sm_75",
    Operand("destination", "registers", "w", bytes=4, times="count"),
    Operand("source", "shared", "r", bytes=16), text="tl_ldmatrix_x{count}{trans}",
    semantics="load matrices", displaces=True,
)  # fmt: skip
STMATRIX = lowered(
    "stmatrix", 2, 2, "sm_90",
    Operand("destination", "shared", "w", bytes=16),
    Operand("source", "registers", "r", bytes=4, times="count"), text="tl_stmatrix_x{count}{trans}",
    semantics="store matrices", displaces=True,
)  # fmt: skip
CP_ASYNC = lowered(
    "cp_async", 2, 4, "sm_80",
    Operand("destination", "shared", "w", bytes=1, times="bytes"),
    Operand("source", "global", "r", bytes=1, times="bytes"),
    completes=group("cp_async"), semantics="copy bytes later", displaces=True,
)  # fmt: skip
CP_ASYNC_COMMIT, CP_ASYNC_WAIT = (
    Atom(
        f"cp_async_{kind}", 0, 0, "void", effect=Effect.SYNC, needs="sm_80", lowered=True,
        orders=Order(kind, "thread", "cp_async"), text=f"tl_cp_async_{kind}{more}",
        semantics=meaning,
    )
    for kind, more, meaning in (
        ("commit", "", "commit a group"), ("wait", "<{count}>", "wait for groups"),
    )
)  # fmt: skip
(PTX_WAIT_GROUP,) = units(
    "ptx_wait_group",
    "sm_80",
    Order("wait", "thread", "cp_async"),
    "tl_cp_async_wait<{constant}>()",
    semantics="wait for groups",
)
# A descriptor is taken from registers that all lanes share; the compiler of the device knows that
# of a number of the warp only where one lane gives it to all.
WARP_UNIFORM = Atom(
    "warp_uniform", 1, 1, takes="int", needs="threads", lowered=True, identity=True,
    text="tl_warp_uniform",
)  # fmt: skip
# A box at coordinates of the tensor that the map describes, innermost first; outside of the tensor
# it is zero, and not written. One thread issues it.
TMA_LOAD_BOX = lowered(
    "tma_load_box", 4, 8, "sm_90",
    Operand("destination", "shared", "w", bytes=1, times="bytes", proxy="async"), Operand("map"),
    BARRIER,
    completes=mbarrier(), text="tl_tma_load", semantics="load a box",
)  # fmt: skip
TMA_STORE_BOX = lowered(
    "tma_store_box", 3, 7, "sm_90",
    Operand("map"), Operand("source", "shared", "r", bytes=1, times="bytes", proxy="async"),
    completes=group("bulk_store"), text="tl_tma_store", semantics="store a box",
)  # fmt: skip
(BULK_COMMIT,) = units(
    "tma_store_arrive", "sm_90", Order("commit", "thread", "bulk_store"), "tl_bulk_commit",
)  # fmt: skip
(BULK_WAIT,) = units(
    "tma_store_wait", "sm_90", Order("wait", "thread", "bulk_store"),
    "tl_bulk_wait{read}<{constant}>()",
)  # fmt: skip
(TENSOR_MAP,) = raw("create_tma_descriptor", "sm_90", Effect.NONE, "handle")
(TMEM_FREE,) = raw("tmem_free", "sm_100", own_order=True)
TMEM_ALLOCATE = lowered(
    "tmem_allocate", 1, 1, "sm_100", Operand("address", "shared", "w", bytes=4),
    text="tl_tmem_alloc<{columns}>",
)  # fmt: skip
TMEM_RELEASE = lowered(
    "tmem_release", 1, 1, "sm_100", Operand("columns", "tensor memory"),
    text="tl_tmem_free<{columns}>",
)  # fmt: skip

_FAMILIES: Iterable[list[Atom]] = (
    matrices(), cp_async(), mbarriers(), tma(), wgmma(), clusters(), launches(), setmaxnreg(),
    tcgen05(),
)  # fmt: skip
ATOMS: dict[str, Atom] = table(*_FAMILIES)


# -- registers of mma.sync -------------------------------------------------------------------------
def mma_sync(m: int, n: int, k: int, kind: str, result: str, needs: str) -> MmaAtom:
    """An ``mma.sync`` instruction with both factors of dtype ``kind``.

    The register layouts of all of them follow one rule, of which the figures of the PTX manual are
    instances: eight rows of A (or columns of B) times 16 bytes of k make a block, whose row ``i``
    belongs to the threads ``4i .. 4i+3``, each with 4 bytes of it; the registers of a thread count
    the blocks, along m first for A, then along k.
    """
    factor = DType(kind)
    per = max(1, 32 // factor.bits)  # neighbours along k in one register
    down, along = m // BLOCK, k // (4 * per)

    def k_modes(stride: int) -> Modes:
        return _used(
            Mode(along, "register", stride), Mode(4, "thread", 1), Mode(per, "register", 1)
        )

    def rows(stride: int) -> Modes:
        return _used(Mode(down, "register", stride), Mode(BLOCK, "thread", 4))

    return MmaAtom(
        m, n, k, factor, factor, DType(result), needs,
        a_modes=(rows(per), k_modes(per * down)),
        b_modes=(k_modes(per), (Mode(BLOCK, "thread", 4),)),
        c_modes=(rows(2), (Mode(4, "thread", 1), Mode(2, "register", 1))),
    )  # fmt: skip


def _used(*modes: Mode) -> Modes:
    return tuple(mode for mode in modes if mode.extent > 1)


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

# -- registers of wgmma ----------------------------------------------------------------------------
# Dtypes of the factors -> of the sum. Those of 8 bits may be mixed with their like.
_BYTES = (("float8_e4m3fn", "float8_e5m2"), ("int8", "uint8"))
WGMMA_KINDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("float16", "float16"): ("float32", "float16"),
    ("bfloat16", "bfloat16"): ("float32",),
    ("tfloat32", "tfloat32"): ("float32",),
    **{(a, b): ("float32", "float16") for a in _BYTES[0] for b in _BYTES[0]},
    **{(a, b): ("int32",) for a in _BYTES[1] for b in _BYTES[1]},
}


def wgmma_columns(c: DType) -> tuple[int, ...]:
    """Columns that an instruction with sums of dtype ``c`` may have, the most first."""
    some = (24, 8) if c.is_integer else range(248, 0, -16)
    return tuple(sorted((*range(256, 0, -16), *some), reverse=True))


def wgmma_atom(n: int, a: DType, b: DType, c: DType) -> MmaAtom:
    """A ``wgmma.mma_async`` with ``n`` columns ("Register Fragments for wgmma.mma_async").

    Warp ``w`` of the group holds rows ``16w .. 16w+15`` of A and of the sum, as for ``mma.sync``.
    """
    per = 32 // a.bits

    def rows(stride: int) -> Modes:
        return Mode(4, "thread", 32), Mode(2, "register", stride), Mode(BLOCK, "thread", 4)

    return MmaAtom(
        64, n, 256 // a.bits, a, b, c, "wgmma",
        a_modes=(rows(per), _used(
            Mode(2, "register", 2 * per), Mode(4, "thread", 1), Mode(per, "register", 1)
        )),
        b_modes=((), ()),
        c_modes=(rows(2), _used(
            Mode(n // BLOCK, "register", 4), Mode(4, "thread", 1), Mode(2, "register", 1)
        )),
        width=WARPGROUP,
    )  # fmt: skip


MMA_SYNC: tuple[MmaAtom, ...] = tuple(
    mma_sync(*shape, kind, result, needs) for shape, kind, result, needs in _TABLE
)

# Tile operations (``HardwareOp``) and the lowest architecture that has them.
HARDWARE_TILES: dict[str, str] = {
    "gemm_sp": "sm_80",
    "wgmma_gemm_sp": "sm_90",
    "copy_tmem": "sm_100",
    "deallocate_tmem": "sm_100",
    "tcgen05_cp_warpx4": "sm_100",
    "tcgen05_gemm": "sm_100",
    "tcgen05_gemm_blockscaled": "sm_100",
    "tcgen05_gemm_sp": "sm_100",
    "tcgen05_sf_warp_transpose": "sm_100",
    "tma_gather4": "sm_100",
    "tma_scatter4": "sm_100",
    "mma_gemm_blockscaled": "sm_120",
}
