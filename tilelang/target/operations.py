"""Operations that lowering generates, as rows: asynchronous copies and matrix registers.

Passes name rows by what they mean. The feature of a row (``needs``) says which machines have it;
dialects print it. Rows that only programs write are with their vendors.

Sources: PTX ISA, "Instruction Set"; AMD CDNA 3 instruction set manual; Metal Shading Language
Specification, "SIMD-Group Matrix Functions".
"""

from __future__ import annotations

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
from tilelang.target.matrices import WARPGROUP


def unit(name: str, needs: str, orders: Order, doc: str, *operands: Operand, **more: Any) -> Atom:
    """Order of asynchronous units, which is left out where there are none."""
    return intrinsic(
        name, needs, doc, *operands, effect=Effect.SYNC, orders=orders, optional=True, **more
    )


def hint(name: str, *operands: Operand, semantics: str, writer: str = "") -> Atom:
    """A call that sets the registers of warpgroups, without effect on results; its function
    checks."""
    return Atom(
        name, len(operands), len(operands), "void", effect=Effect.HINT, operands=operands,
        needs="setmaxnreg", optional=True, semantics=semantics, writer=writer,
    )  # fmt: skip


def lowered(name: str, low: int, high: int, needs: str, *operands: Operand, **more: Any) -> Atom:
    """A call that lowering makes; programs do not write it."""
    return Atom(
        name, low, high, "void", effect=Effect.WRITE, operands=operands, needs=needs, lowered=True,
        **more,
    )  # fmt: skip


TO_ASYNC = ("generic", "async")  # what fences between a thread's accesses and TMA's
MAP = Operand("map", "map", name="descriptor")
EVICTION = Option(
    "eviction_policy", None, ("evict_normal", "evict_first", "evict_last"),
    wrong="with an unknown eviction policy",
)  # fmt: skip
BLOCKS = Option("blocks", None, kind="int")  # of the cluster that get it, a bit for each rank
REDUCTION = Option(
    "reduce", None, ("add", "min", "max", "inc", "dec", "and", "or", "xor"),
    wrong="with an unknown reduction",
)  # fmt: skip

# An operand in shared memory is the start of a tile and an offset in units of 16 bytes. Attributes
# of the call give its layout: swizzle and strides ("Matrix Descriptor Format").
# The last operand says whether d is added to.
_WGMMA_D = Operand("d", "registers", "rw", tile="mn", width=WARPGROUP)
_WGMMA_B = (Operand("b", "shared", "r", proxy="async"), VALUE, VALUE)
WGMMA_SS = lowered(
    "wgmma_ss", 6, 6, "wgmma",
    _WGMMA_D, Operand("a", "shared", "r", proxy="async"), VALUE, *_WGMMA_B,
    completes=group("wgmma"), writer="wgmma", semantics="multiply in a warpgroup",
)  # fmt: skip
WGMMA_RS = lowered(
    "wgmma_rs", 5, 5, "wgmma",
    _WGMMA_D, Operand("a", "registers", "r", tile="mk", width=WARPGROUP), *_WGMMA_B,
    completes=group("wgmma"), writer="wgmma", semantics="multiply in a warpgroup",
)  # fmt: skip
# A lane names the 16 bytes of one row of an 8 x 8 matrix, and has 4 bytes of each matrix.
LDMATRIX = lowered(
    "ldmatrix", 2, 2, "ldmatrix",
    Operand("destination", "registers", "w", bytes=4, times="count"),
    Operand("source", "shared", "r", bytes=16), text="tl_ldmatrix_x{count}{trans}",
    semantics="load matrices", displaces=True,
)  # fmt: skip
STMATRIX = lowered(
    "stmatrix", 2, 2, "stmatrix",
    Operand("destination", "shared", "w", bytes=16),
    Operand("source", "registers", "r", bytes=4, times="count"), text="tl_stmatrix_x{count}{trans}",
    semantics="store matrices", displaces=True,
)  # fmt: skip
CP_ASYNC = lowered(
    "cp_async", 2, 4, "cp_async",
    Operand("destination", "shared", "w", bytes=1, times="bytes"),
    Operand("source", "global", "r", bytes=1, times="bytes"),
    completes=group("cp_async"), writer="copy bytes later",
    semantics="copy bytes later", displaces=True,
)  # fmt: skip
CP_ASYNC_COMMIT, CP_ASYNC_WAIT = (
    Atom(
        f"cp_async_{kind}", 0, 0, "void", effect=Effect.SYNC, needs="cp_async", lowered=True,
        orders=Order(kind, "thread", "cp_async"), text=f"tl_cp_async_{kind}{more}",
        semantics=meaning,
    )
    for kind, more, meaning in (
        ("commit", "", "commit a group"), ("wait", "<{count}>", "wait for groups"),
    )
)  # fmt: skip
# A descriptor is taken from registers that all lanes share; the compiler of the device knows that
# of a number of the warp only where one lane gives it to all.
WARP_UNIFORM = Atom(
    "warp_uniform", 1, 1, takes="int", needs="threads", lowered=True, identity=True,
    text="tl_warp_uniform",
)  # fmt: skip
# A box at coordinates of the tensor that the map describes, innermost first; outside of the tensor
# it is zero, and not written. One thread issues it.
TMA_LOAD_BOX = lowered(
    "tma_load_box", 4, 8, "tma",
    Operand("destination", "shared", "w", bytes=1, times="bytes", proxy="async"), MAP,
    BARRIER,
    completes=mbarrier(), text="tl_tma_load", options=(EVICTION, BLOCKS),
    writer="box to shared memory", semantics="load a box",
)  # fmt: skip
# Where one thread issues a box for all: how many they are, and coordinates that are not proved to
# be the same for them.
TMA_AGREE = Atom(
    "tma_agree", 2, 11, "void", effect=Effect.HINT, needs="tma", lowered=True, optional=True,
    text="tl_tma_agree",
)  # fmt: skip
# So many channels of so many pixels, from coordinates on; the last operands are offsets within the
# window of a convolution, one for each spatial dimension.
TMA_LOAD_PIXELS = lowered(
    "tma_load_pixels", 9, 9, "tma",
    Operand("destination", "shared", "w", bytes=1, times="bytes", proxy="async"), MAP,
    BARRIER,
    completes=mbarrier(), text="tl_tma_load_im2col", options=(EVICTION,),
    writer="box to shared memory", semantics="load pixels",
)  # fmt: skip
TMA_STORE_BOX = lowered(
    "tma_store_box", 3, 7, "tma",
    MAP, Operand("source", "shared", "r", bytes=1, times="bytes", proxy="async"),
    completes=group("bulk_store"), text="tl_tma_store", options=(EVICTION, REDUCTION),
    writer="box to a tensor", semantics="store a box",
)  # fmt: skip
# Contiguous bytes to the shared memory of another block of the cluster, whose barrier counts them.
# One thread issues it ("cp.async.bulk", to .shared::cluster).
BULK_COPY_CLUSTER = lowered(
    "bulk_copy_cluster", 5, 5, "cluster",
    Operand("destination", "shared"), Operand("source", "shared", "r", bytes=1, times="bytes",
                                              proxy="async"),
    VALUE, BARRIER, VALUE, completes=mbarrier(), text="tl_bulk_copy_cluster",
)  # fmt: skip
TMEM_ALLOCATE = lowered(
    "tmem_allocate", 1, 1, "tcgen05", Operand("address", "shared", "w", bytes=4),
    text="tl_tmem_alloc<{columns}>",
)  # fmt: skip
TMEM_RELEASE = lowered(
    "tmem_release", 1, 1, "tcgen05", Operand("columns", "tensor memory"),
    text="tl_tmem_free<{columns}>",
)  # fmt: skip
PTX_WAIT_GROUP = unit(
    "ptx_wait_group", "cp_async", Order("wait", "thread", "cp_async"),
    "Wait until at most ``num`` groups of asynchronous copies are pending.",
    Operand("count", "constant", name="num", example=1),
    text="tl_cp_async_wait<{0}>()", semantics="wait for groups", ptx="cp.async.wait_group",
)  # fmt: skip
MBARRIER_INIT = unit(
    "mbarrier_init", "mbarrier", Order("init", "barrier"),
    "Initialize a barrier by hand; ``T.alloc_barrier`` has done it already.",
    BARRIER, Operand("thread count", example=1),
    text="tl_mbarrier_init", names=("ptx_init_barrier_thread_count",), ptx="mbarrier.init",
)  # fmt: skip
FENCE_BARRIER_INIT = unit(
    "ptx_fence_barrier_init", "cluster", Order("fence", "cluster", "", TO_ASYNC),
    "Make barrier initialisation visible to the asynchronous proxy.", text="tl_fence_barrier_init",
    ptx="fence.mbarrier_init",
)  # fmt: skip
FENCE_PROXY_ASYNC = unit(
    "fence_proxy_async", "bulk_copy", Order("fence", "thread", "", TO_ASYNC),
    "Order ordinary shared-memory accesses before asynchronous ones.", text="tl_fence_proxy_async",
    ptx="fence.proxy.async",
)  # fmt: skip
BULK_COMMIT = unit(
    "tma_store_arrive", "bulk_copy", Order("commit", "thread", "bulk_store"),
    "Commit the bulk stores issued so far as a group.", text="tl_bulk_commit",
    ptx="cp.async.bulk.commit_group",
)  # fmt: skip
BULK_WAIT = unit(
    "tma_store_wait", "bulk_copy", Order("wait", "thread", "bulk_store"),
    "Wait until at most ``count`` groups of bulk stores are pending.\n\n"
    "With ``read``, wait only until their sources are read.",
    Operand("count", "constant", default=0), text="tl_bulk_wait{read}<{0}>()",
    options=(Option("read", True, kind="bool"),), ptx="cp.async.bulk.wait_group",
)  # fmt: skip


def _map(name: str, doc: str, example: tuple[object, ...]) -> Atom:
    """A tensor map that the host encodes before the kernel starts."""
    return intrinsic(
        name, "tma", doc, Operand("data type", example=6), Operand("rank", example=example[0]),
        Operand("address", "global"), Operand("...", name="numbers", many=True, default=(),
                                              example=example[1:]),
        effect=Effect.NONE, result="handle", writer="tensor map",
    )  # fmt: skip


TENSOR_MAP = _map(
    "create_tma_descriptor",
    """Create a tensor map, which the host encodes before the kernel starts.

    Args:
        data_type, numbers: data type, rank and address. Then, for all dimensions, innermost first:
            extents, strides in bytes, extents of the box, element strides. Last, interleave,
            swizzle, L2 promotion and fill. Types and options are values of the driver's enums.

    Source: CUDA Driver API, "cuTensorMapEncodeTiled".
    """,
    (2, 64, 64, 2, 128, 64, 64, 1, 1, 0, 3, 2, 0),
)
IMAGE_MAP = _map(
    "create_tma_im2col_descriptor",
    """Create a tensor map whose loads gather the pixels of a convolution.

    Args:
        data_type, numbers: data type, rank and address; extents, byte strides, element strides;
            lower and upper corners of the spatial dimensions; pixels and channels of a load;
            interleave, swizzle, L2 promotion and fill.

    Source: CUDA Driver API, "cuTensorMapEncodeIm2col".
    """,
    (4, 64, 4, 4, 4, 2, 128, 512, 2048, 1, 1, 1, 1, -1, -1, 0, 0, 64, 64, 0, 3, 2, 0),
)
WARPGROUP_FENCE = unit(
    "warpgroup_fence_operand", "wgmma", Order("fence", "thread"), "",
    Operand("accumulator", "registers"), Operand("offset"), Operand("register count", default=0),
    semantics="keep registers", writer="fence of registers",
)  # fmt: skip
WARPGROUP_ARRIVE = unit(
    "warpgroup_arrive", "wgmma", Order("fence", "warpgroup"),
    "Order register accesses before asynchronous products.", text="tl_wgmma_fence",
    ptx="wgmma.fence",
)  # fmt: skip
WARPGROUP_COMMIT = unit(
    "warpgroup_commit_batch", "wgmma", Order("commit", "warpgroup", "wgmma"),
    "Commit the products issued so far as a group.", text="tl_wgmma_commit",
    semantics="commit a group", ptx="wgmma.commit_group",
)  # fmt: skip
WARPGROUP_WAIT, WAIT_WGMMA = (
    unit(name, "wgmma", Order("wait", "warpgroup", "wgmma"),
         f"Wait until at most ``{count}`` groups of asynchronous products are pending.",
         Operand("count", "constant", name=count, example=1), text="tl_wgmma_wait<{0}>()",
         semantics="wait for groups", ptx="wgmma.wait_group")
    for name, count in (("warpgroup_wait", "num_mma"), ("wait_wgmma", "id"))
)  # fmt: skip


CLUSTER_SYNC = intrinsic(
    "cluster_sync", "cluster", "Arrive and wait at the barrier of the cluster.", effect=Effect.SYNC,
    orders=Order("rendezvous", "cluster"), text="tl_cluster_sync", ptx="barrier.cluster",
)  # fmt: skip
RANK_IN_CLUSTER = intrinsic(
    "block_rank_in_cluster", "cluster", "Return the rank of the block in its cluster.",
    effect=Effect.NONE, result="int32", text="tl_block_rank_in_cluster", ptx="%cluster_ctarank",
)  # fmt: skip
ELECT_ONE = intrinsic(
    "elect_one", "elect", "Return True in one lane of the warp; all lanes must take part.",
    effect=Effect.SYNC, result="bool", per_thread=True, text="tl_elect_one", ptx="elect.sync",
)  # fmt: skip
SET_MAX_NREG = hint(
    "set_max_nreg", Operand("register count", "constant"), Operand("direction", "constant"),
    semantics="set registers", writer="registers",
)  # fmt: skip


TENSOR_BEFORE, TENSOR_AFTER = (
    intrinsic(
        f"tcgen05_{name}_thread_sync", "tcgen05", f"Order tcgen05 work {name} a barrier.",
        own_order=True, orders=Order("fence", "thread", "", proxies),
        text=f"tl_tcgen05_fence_{name}", ptx="tcgen05.fence",
    )
    for name, proxies in (("before", ("tcgen05", "generic")), ("after", ("generic", "tcgen05")))
)  # fmt: skip
TMEM_ADDRESS = Operand("address", "tensor memory")
TMEM_FREE = intrinsic("tmem_free", "tcgen05", "", TMEM_ADDRESS, own_order=True)

# -- loads to LDS, which are counted ---------------------------------------------------------------
# The lanes of a wavefront load contiguous memory. The instructions of a thread are
# counted while they are in flight; those of one stage of a pipeline are what other machines call a
# group.
LOAD_LDS = Atom(
    "load_lds", 2, 2, "void", effect=Effect.WRITE, needs="direct_lds", lowered=True,
    operands=(
        Operand("destination", "shared", "w", bytes=1, times="bytes"),
        Operand("source", "global", "r", bytes=1, times="bytes"),
    ),
    completes=group("cp_async"), writer="load to LDS", semantics="copy bytes later",
    displaces=True,
)  # fmt: skip
LOADS_COMMIT = Atom(
    "loads_commit", 0, 0, "void", effect=Effect.SYNC, needs="direct_lds", lowered=True,
    orders=Order("commit", "thread", "cp_async"), text="tl_loads_commit",
    semantics="commit a group",
)  # fmt: skip
# ``count`` stages of ``loads`` instructions stay in flight, fewer where the operand says that fewer
# have been started.
LOADS_WAIT = Atom(
    "loads_wait", 1, 1, "void", effect=Effect.SYNC, needs="direct_lds", lowered=True,
    operands=(VALUE,), orders=Order("wait", "thread", "cp_async"),
    text="tl_loads_wait<{loads}, {count}>", semantics="wait for groups",
)  # fmt: skip

# -- matrices in the registers of a simdgroup ------------------------------------------------------


def _matrix(name: str, text: str, *operands: Operand) -> Atom:
    return Atom(
        name, len(operands), len(operands), "void", effect=Effect.WRITE, operands=operands,
        needs="simdgroup", lowered=True, text=text, semantics=name.replace("_", " "),
    )  # fmt: skip


# Attributes of the calls give the shape. The rows here give the least size in memory.
_WHOLE = Operand("matrix", "registers", "w", tile="mn")
_PITCH = Operand("elements of a row", "constant")
MATRIX_FILL = _matrix("fill_matrix", "tl_matrix_fill", _WHOLE)
MATRIX_LOAD = _matrix(
    "load_matrix", "tl_matrix_load{transposed}", _WHOLE,
    Operand("source", "shared", "r", bytes=16), _PITCH,
)  # fmt: skip
MATRIX_STORE = _matrix(
    "store_matrix", "tl_matrix_store", Operand("target", "shared", "w", bytes=16),
    Operand("matrix", "registers", "r", tile="mn"), _PITCH,
)  # fmt: skip
MATRIX_MULTIPLY = _matrix(
    "multiply_add_matrix", "tl_matrix_multiply", Operand("d", "registers", "rw", tile="mn"),
    Operand("a", "registers", "r", tile="mk"), Operand("b", "registers", "r", tile="kn"),
)  # fmt: skip
MATRIX_GIVE = _matrix(
    "give_matrix", "tl_matrix_give", _WHOLE, Operand("elements", "registers", "r")
)
MATRIX_TAKE = _matrix(
    "take_matrix", "tl_matrix_take", Operand("elements", "registers", "w"),
    Operand("matrix", "registers", "r", tile="mn"),
)  # fmt: skip
