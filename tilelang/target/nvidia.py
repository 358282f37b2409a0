"""The instructions of NVIDIA's GPUs as rows: one group for each family.

Sources: PTX ISA, "Instruction Set" (each family and each row names its section). The C++ functions
that the rows name are in the device headers. A row with a ``doc`` becomes ``T.<name>``: its
parameters, checks, documentation and smallest program come from the row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.ir.atoms import (
    BARRIER,
    VALUE,
    Atom,
    Effect,
    Operand,
    Option,
    Order,
    group,
    intrinsic,
    mbarrier,
)
from tilelang.ir.tables import table
from tilelang.target import operations as O
from tilelang.target.operations import hint, lowered, unit


def run(role: str, count: int, kind: str, index: str = "") -> tuple[Operand, Operand]:
    """Registers from an offset on; the smallest program has ``count`` of dtype ``kind``."""
    return (
        Operand(role, "registers", example=(count, kind)),
        Operand(index or f"{role} offset", example=0),
    )


def texts(**examples: str) -> tuple[Operand, ...]:
    """Operands that are text, with those of the smallest program."""
    return tuple(Operand(name, "text", example=value) for name, value in examples.items())


# -- operands --------------------------------------------------------------------------------------
TILE = Operand("tile", "shared", name="shared")
PARITY = Operand("parity", dtype="int32")
COORDINATES = Operand("coordinate", name="coordinates", many=True, example=(0, 8))
DESCRIPTOR = Operand("descriptor", "descriptor", "w")
START = Operand("start address", "shared")
BLOCK_RANK = Operand("block", name="block", example=0)
# Registers of a thread that one unit of a move of tensor memory takes.
TMEM_MOVES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}
_MOVE = (Option("shape", "32x32b"), Option("count", 1, kind="int"))
_SOURCE = Option(
    "shape", "128x256b",
    ("128x256b", "4x256b", "128x128b", "64x128b_warpx2_02_13", "64x128b_warpx2_01_23",
     "32x128b_warpx4"),
    wrong="of a shape that does not exist",
)  # fmt: skip

# -- rows that lowering makes ----------------------------------------------------------------------
MMA = lowered(
    "mma", 3, 3, "mma",
    Operand("d", "registers", "rw", tile="mn"),
    Operand("a", "registers", "r", tile="mk"),
    Operand("b", "registers", "r", tile="kn"), writer="mma",
    semantics="multiply matrices",
)  # fmt: skip

# -- matrices of one warp ("Matrix Multiply-Accumulate Operation Using mma Instruction") -----------
_MMA_DTYPES = {"A_dtype": "fp16", "B_dtype": "fp16", "C_dtype": "fp32"}


def _product(shape: str, a: int, b: int, c: int, *more: Operand, **known: str) -> list[Operand]:
    """The operands of a product of registers, whose forms ``ptx_mma`` and its like share."""
    half = "float16"
    return [
        *texts(shape=shape, A_layout="row", B_layout="col", **_MMA_DTYPES, **known),
        *run("multiplicand a", a, half, "a index"), *run("multiplicand b", b, half, "b index"),
        *run("accumulator", c, "float32", "c index"), *more,
    ]  # fmt: skip


_MATRICES = [
    MMA, O.LDMATRIX, O.STMATRIX,
    intrinsic("ptx_mma", "mma", "Run a matrix instruction of one warp.",
         *_product("m16n8k16", 8, 4, 8, Operand("saturate", default=False)),
         forms=True, writer="ptx mma", check="operand layouts", ptx="mma"),
    intrinsic("ptx_mma_sp", "mma_sp", "Run a sparse matrix instruction of one warp.",
         *_product("m16n8k32", 8, 8, 4, *run("metadata", 1, "uint32"),
                   Operand("selector", example=1), Operand("saturate", default=False)),
         forms=True, writer="sparse mma", check="operand layouts", ptx="mma.sp"),
    intrinsic("ptx_mma_sm70", "mma_sm70", "Run the m16n16k4 matrix instruction of sm_70; "
              "a leading dtype argument is accepted.",
         *_product("m16n16k4", 4, 4, 8), forms=True, writer="mma of sm_70",
         check="operand layouts", ptx="mma"),
    intrinsic("ptx_ldmatrix", "ldmatrix", "Load 8 x 8 matrices from shared memory.",
         Operand("dtype", "text", example="float16"), Operand("trans", example=False),
         Operand("count", example=4), Operand("type", "text", example=".b16"),
         *run("registers", 8, "float16"), TILE, Operand("shared offset", example=0),
         forms=True, writer="ldmatrix", ptx="ldmatrix"),
    intrinsic("ptx_stmatrix", "stmatrix", "Store 8 x 8 matrices to shared memory, the reverse of "
         "``T.ptx_ldmatrix``.\n\n"
         "Write ``T.ptx_stmatrix(trans, count, shared, offset, registers, offset)``.",
         Operand("trans", example=False), Operand("count", example=4), TILE,
         Operand("shared offset", example=0), *run("registers", 8, "float16"),
         forms=True, writer="stmatrix", ptx="stmatrix"),
]  # fmt: skip

# -- cp.async and mbarriers ("Data Movement and Conversion", "Parallel Synchronization") -----------
_COPIES = [
    O.CP_ASYNC, O.CP_ASYNC_COMMIT, O.CP_ASYNC_WAIT, O.PTX_WAIT_GROUP, O.MBARRIER_INIT,
    O.FENCE_BARRIER_INIT,
    unit("ptx_commit_group", "cp_async", Order("commit", "thread", "cp_async"),
         "Commit the asynchronous copies issued so far as a group.",
         text="tl_cp_async_commit", semantics="commit a group", ptx="cp.async.commit_group"),
    intrinsic("mbarrier_try_wait", "mbarrier",
         "Return whether the phase with that parity is complete; it may wait a little.", BARRIER,
         PARITY,
         effect=Effect.SYNC, result="bool", orders=Order("test", "barrier"),
         text="tl_mbarrier_try_wait", ptx="mbarrier.try_wait"),
]  # fmt: skip

# -- bulk copies of runs and of boxes of tensors ("cp.async.bulk", "cp.async.bulk.tensor") ---------


def _load(name: str, doc: str, *more: Operand, described: Operand = O.MAP) -> Atom:
    return intrinsic(
        name, "tma", doc, described, BARRIER, TILE, *more, completes=mbarrier(), own_order=True,
        options=(O.EVICTION,), writer="load of a box", ptx="cp.async.bulk.tensor",
    )  # fmt: skip


_BULK = [
    O.TMA_LOAD_BOX, O.TMA_LOAD_PIXELS, O.TMA_STORE_BOX, O.BULK_COPY_CLUSTER, O.TENSOR_MAP,
    O.IMAGE_MAP, O.FENCE_PROXY_ASYNC, O.BULK_COMMIT, O.BULK_WAIT,
    _load("tma_load", """Load a box: ``T.tma_load(descriptor, barrier, shared, *coordinates)``.

    The barrier counts the bytes of the whole box; elements outside the tensor become 0.
    Coordinates count elements, innermost dimension first. A last argument more than the rank of
    the descriptor is an eviction policy (0 normal, 1 first, 2 last).
    """, COORDINATES),
    _load("tma_load_multicast", "Load a box to the same address in several blocks of the cluster; "
          "``blocks`` has a bit for each rank.", Operand("blocks", example=3), COORDINATES),
    _load("tma_load_im2col", "Load pixels of a convolution; one offset for each spatial dimension "
          "follows the coordinates.",
          Operand("coordinate", name="coordinates", many=True, example=(0, -1, 0, 0, 2, 1)),
          described=replace(O.MAP, example="image")),
    intrinsic("tma_store", "tma", """Store a box: ``T.tma_store(descriptor, shared, *coordinates)``.

    Args:
        reduce: combine with the stored values: add, min, max, inc, dec, and, or, xor.

    ``eviction_policy`` is that of ``T.tma_load``. ``T.tma_store_wait`` waits until it is done.
    """, O.MAP, TILE, COORDINATES, completes=group("bulk_store"), own_order=True,
         options=(O.REDUCTION, O.EVICTION), text="tl_tma_store", writer="store of a box",
         ptx="cp.async.bulk.tensor"),
    intrinsic("ptx_cp_async_bulk", "bulk_copy",
         "Copy contiguous bytes in bulk: ``T.ptx_cp_async_bulk(dst, src, bytes, barrier)``.",
         Operand("dst", "shared"), Operand("src", "global"), Operand("bytes", example=8192),
         BARRIER, completes=mbarrier(), own_order=True, forms=True, writer="bulk copy",
         ptx="cp.async.bulk"),
    intrinsic("prefetch_tma_descriptor", "tma", "Fetch a tensor map before it is needed.", O.MAP,
         own_order=True, text="tl_tma_prefetch", ptx="prefetch.tensormap"),
]  # fmt: skip


# -- products of a warpgroup ("Asynchronous Warpgroup Level Matrix Instructions") ------------------
def _warpgroup(name: str, doc: str, a: tuple[Operand, ...], *majors: str) -> Atom:
    return intrinsic(
        name, "wgmma", doc, *texts(dtype="float32", shape="m64n64k16"),
        *(Operand(f"{major} k major", example=True) for major in majors),
        *texts(**_MMA_DTYPES), *a,
        Operand("desc b", "descriptor bits", example="wgmma"), Operand("b offset", example=2),
        *run("accumulator", 32, "float32"), Operand("scale out", example=True),
        Operand("scale a", example=1), Operand("scale b", example=1),
        completes=group("wgmma"), own_order=True, forms=True, writer="ptx wgmma",
        ptx="wgmma.mma_async",
    )  # fmt: skip


_WARPGROUPS = [
    O.WGMMA_SS, O.WGMMA_RS, O.WARPGROUP_FENCE, O.WARPGROUP_ARRIVE, O.WARPGROUP_COMMIT,
    O.WARPGROUP_WAIT, O.WAIT_WGMMA,
    _warpgroup("ptx_wgmma_ss", "Multiply in a warpgroup with both operands in shared memory.",
               (Operand("desc a", "descriptor bits", example="wgmma"),
                Operand("a offset", example=0)), "a", "b"),
    _warpgroup("ptx_wgmma_rs", "Multiply in a warpgroup with A in registers.",
               run("multiplicand a", 8, "float16"), "b"),
    intrinsic("initialize_wgmma_descriptor", "descriptors",
              """Fill the descriptor of a wgmma operand.

    Args:
        start_address: pointer to the operand in shared memory.
        layout_type_: 0 no swizzle, 1, 2, 3 for 128, 64 and 32 bytes.
        leading_byte_offset, stride_byte_offset: distances in units of 16 bytes.
    """, DESCRIPTOR, START, Operand("layout type", name="layout_type_", default=0),
         Operand("leading byte offset", default=0), Operand("stride byte offset", default=0),
         own_order=True, text="tl_wgmma_descriptor", ptx="wgmma.mma_async"),
    intrinsic("increase_descriptor_offset", "descriptors",
         "Move the start address of a descriptor by ``offset`` bytes.", DESCRIPTOR,
         Operand("offset", example=32), own_order=True, text="tl_descriptor_add",
         ptx="wgmma.mma_async"),
]  # fmt: skip


# -- blocks that reach each other's shared memory ("barrier.cluster", "mapa", "elect.sync") --------


def _cluster(name: str, doc: str, orders: Order) -> Atom:
    return intrinsic(
        name, "cluster", doc, effect=Effect.SYNC, orders=orders, text=f"tl_{name}",
        ptx="barrier.cluster",
    )  # fmt: skip


_CLUSTERS = [
    _cluster("cluster_arrive", "Arrive at the barrier of the cluster.", Order("arrive", "cluster")),
    _cluster("cluster_arrive_relaxed", "Arrive without ordering memory.",
             Order("arrive", "cluster", memory=False)),
    _cluster("cluster_wait", "Wait at the barrier of the cluster.", Order("wait", "cluster")),
    O.CLUSTER_SYNC, O.RANK_IN_CLUSTER,
    intrinsic("map_shared_rank", "cluster",
         "Return a pointer to this address in the shared memory of block ``block`` of the cluster.",
         Operand("address", "shared"), BLOCK_RANK, effect=Effect.NONE, result="handle",
         own_order=True, text="tl_map_shared", check="block of the cluster", ptx="mapa"),
    O.ELECT_ONE,
]  # fmt: skip

# -- dependent launches ("griddepcontrol"), work of blocks that have not started ("clusterlaunch") -
_LAUNCHES = [
    unit("pdl_trigger", "pdl", Order("arrive", "launches"), "Let a dependent kernel start.",
         text="tl_pdl_trigger", ptx="griddepcontrol"),
    unit("pdl_sync", "pdl", Order("wait", "launches"), "Wait for the kernel this one depends on.",
         text="tl_pdl_sync", ptx="griddepcontrol"),
    *[
        intrinsic(name, needs, doc, Operand("address", "shared"), BARRIER, completes=mbarrier(),
             own_order=True, text=f"tl_{name}", ptx="clusterlaunchcontrol.try_cancel")
        for name, needs, doc in (
            ("clc_try_cancel", "clc", "Request the work of a block that has not started."),
            ("clc_try_cancel_multicast", "clc_multicast",
             "Request the work of a cluster that has not started."),
        )
    ],
    intrinsic("clc_is_canceled", "clc", "Return whether such a request succeeded.",
         Operand("address", "shared"), effect=Effect.READ, result="bool", own_order=True,
         text="tl_clc_is_canceled", ptx="clusterlaunchcontrol.query_cancel"),
    *[
        intrinsic(f"clc_get_first_ctaid_{axis}", "clc",
             f"Return the {axis} index of the block obtained.", Operand("address", "shared"),
             effect=Effect.READ, result="int32", own_order=True,
             text=f"tl_clc_first_ctaid_{axis}", ptx="clusterlaunchcontrol.query_cancel")
        for axis in "xyz"
    ],
]  # fmt: skip

# -- registers that move between warpgroups ("setmaxnreg") -----------------------------------------
NO_SET_MAX_NREG = hint("no_set_max_nreg", semantics="leave registers")
_REGISTERS = [
    O.SET_MAX_NREG,
    NO_SET_MAX_NREG,
    hint("disable_warp_group_reg_alloc", semantics="leave registers"),
    hint("annotate_producer_reg_dealloc", VALUE, semantics="registers of producers"),
    hint("annotate_consumer_reg_alloc", VALUE, semantics="registers of consumers"),
]  # fmt: skip


# -- tensor memory ("TensorCore 5th Generation Family Instructions") -------------------------------


def _tensor(name: str, doc: str, *operands: Operand, **more: Any) -> Atom:
    return intrinsic(name, "tcgen05", doc, *operands, own_order=True, **more)


def _tensor_product(form: str, doc: str, *a: Operand) -> Atom:
    return _tensor(
        f"ptx_tcgen05_mma_{form}", doc, *texts(kind="fp16"), *a, Operand("a offset", example=0),
        Operand("desc b", "descriptor bits", example="tcgen05"), Operand("b offset", example=2),
        Operand("d", "tensor memory"), Operand("column", example=0),
        Operand("instruction", example=0x8100490), Operand("scale out", example=True),
        completes=group("tcgen05"), forms=True, writer="tensor product", ptx="tcgen05.mma",
    )  # fmt: skip


_TENSORS = [
    O.TENSOR_BEFORE, O.TENSOR_AFTER, O.TMEM_FREE,
    _tensor_product("ss", "Multiply operands in shared memory by tcgen05.",
                    Operand("desc a", "descriptor bits", example="tcgen05")),
    _tensor_product("ts", "Multiply with A in tensor memory by tcgen05.", O.TMEM_ADDRESS),
    _tensor("tcgen05_cp", "Copy from shared memory, by descriptor, to tensor memory.",
            Operand("descriptor", "descriptor bits", example="tcgen05"), O.TMEM_ADDRESS,
            options=(_SOURCE,), completes=group("tcgen05"),
            text="tl_tcgen05_cp_{shape}({1}, {0})", ptx="tcgen05.cp"),
    _tensor("tcgen05_ld", """Load tensor memory to registers; complete after ``T.tcgen05_wait_ld``.

    Args:
        registers: where the 32-bit registers of the thread start.
        address: an element of tensor memory, or a buffer of it.
        shape, count: of the instruction, e.g. ``"32x32b"`` and 8 for ``.32x32b.x8``.
    """, Operand("registers", "registers", "w", example=(8, "float32")), O.TMEM_ADDRESS,
            options=_MOVE, completes=group("tcgen05_ld"), check="move of tensor memory",
            writer="move of tensor memory", ptx="tcgen05.ld"),
    _tensor("tcgen05_st", "Store registers of a warp to tensor memory; done after "
            "``T.tcgen05_wait_st``.", O.TMEM_ADDRESS,
            Operand("registers", "registers", "r", example=(8, "float32")), options=_MOVE,
            completes=group("tcgen05_st"), check="move of tensor memory",
            writer="move of tensor memory", ptx="tcgen05.st"),
    *[
        _tensor(f"tcgen05_wait_{way}", f"Wait for the {verb} tensor memory of this thread.",
                orders=Order("wait", "thread", f"tcgen05_{way}"), text=f"tl_tcgen05_wait_{way}",
                ptx="tcgen05.wait")
        for way, verb in (("ld", "loads from"), ("st", "stores to"))
    ],
    _tensor("tcgen05_mma_arrive",
            "Signal a barrier when the tcgen05 products issued so far are complete.",
            Operand("barrier", "barrier", name="mbar"),
            orders=Order("commit", "barrier", "tcgen05"),
            options=(Option("arrive_2cta", False, kind="bool"),), writer="commit of products",
            ptx="tcgen05.commit"),
    _tensor("initialize_tcgen05_descriptor",
            "Fill the descriptor of a tcgen05 operand in shared memory.", DESCRIPTOR, START,
            Operand("leading byte offset", example=1), Operand("stride byte offset", example=64),
            Operand("base offset", default=0), Operand("leading is absolute", default=0,
                                                        dtype="int32"),
            Operand("swizzle mode", default=0), text="tl_tcgen05_descriptor", ptx="tcgen05.mma"),
]  # fmt: skip

ATOMS: dict[str, Atom] = table(
    _MATRICES, _COPIES, _BULK, _WARPGROUPS, _CLUSTERS, _LAUNCHES, _REGISTERS, _TENSORS
)

# Tile operations (``HardwareOp``) and the feature that they need.
HARDWARE_TILES: dict[str, str] = {
    "gemm_sp": "mma_sp",
    "wgmma_gemm_sp": "wgmma",
    "copy_tmem": "tcgen05",
    "deallocate_tmem": "tcgen05",
    "tcgen05_cp_warpx4": "tcgen05",
    "tcgen05_gemm": "tcgen05",
    "tcgen05_gemm_blockscaled": "tcgen05",
    "tcgen05_gemm_sp": "tcgen05",
    "tcgen05_sf_warp_transpose": "tcgen05",
    "tma_gather4": "tcgen05",
    "tma_scatter4": "tcgen05",
    "mma_gemm_blockscaled": "mma_blockscaled",
}
