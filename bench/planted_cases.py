"""Small kernels, right as they stand, each with one change that plants a defect.

Texts are CUDA over the device headers. A kernel named NAME exists as NAME_right and NAME_wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from agreement_cases import Map, tiled

Array = npt.NDArray[Any]
VARIANTS = ("right", "wrong")
ARCH = "sm_90a"
HEAD = "".join(
    f'#include "tl_{name}.h"\n'
    for name in ("types", "memory", "sync", "warp", "atomic", "tma", "wgmma")
) + "TL_WGMMA(8, 16, f16, f16, f32, 4)\n"  # fmt: skip


@dataclass(frozen=True)
class Blank:
    """Memory that nothing has been written to, of so many 32-bit numbers."""

    count: int


@dataclass(frozen=True)
class Case:
    """A kernel and what is done to it.

    Attributes:
        name, what: of the defect; the second for people.
        params, body: of the kernel.
        old, new: what is changed in the body; nothing if something else is wrong.
        args: arrays, `Blank` memory, whole numbers, tensor maps; the last array is the result.
        wanted: the result of the kernel as it should be.
        kinds: findings of the emulator of which one must appear; none if it cannot see this.
        wrong_args, wrong_shared: of the defect's launch, where those are wrong.
        tiles: (name, offset, bytes) of buffers in dynamic shared memory.
        hangs: whether a GPU may never end.
    """

    name: str
    what: str
    params: str
    body: str
    old: str
    new: str
    args: Callable[[], list[Any]]
    wanted: Callable[[list[Any]], Array]
    kinds: tuple[str, ...]
    grid: int = 1
    block: int = 128
    cluster: int = 1
    shared: int = 0
    cooperative: bool = False
    wrong_args: Callable[[], list[Any]] | None = None
    wrong_shared: int | None = None
    tiles: tuple[tuple[str, int, int], ...] = ()
    hangs: bool = False

    def kernel(self, variant: str) -> str:
        """The text of one kernel."""
        body = self.body
        if variant == "wrong" and self.old:
            assert body.count(self.old) == 1, (self.name, self.old)
            body = body.replace(self.old, self.new)
        head = f'extern "C" __global__ void __launch_bounds__({self.block})'
        return f"{head} {self.name}_{variant}({self.params}) {{\n{body}}}\n"

    def arguments(self, variant: str) -> list[Any]:
        """Fresh arguments of a launch."""
        wrong = self.wrong_args if variant == "wrong" else None
        return (wrong or self.args)()

    def dynamic(self, variant: str) -> int:
        """Bytes of dynamic shared memory of a launch."""
        wrong = self.wrong_shared if variant == "wrong" else None
        return self.shared if wrong is None else wrong


def numbers(count: int) -> Array:
    return (np.arange(count, dtype=np.int32) * 7 + 3) % 1000


def one(count: int = 128, results: int = 128) -> Callable[[], list[Any]]:
    """An array of numbers and one for results."""
    return lambda: [numbers(count), np.zeros(results, np.int32)]


def turned(args: list[Any]) -> Array:
    return np.asarray(args[0][:128][::-1])


def rolled(step: int) -> Callable[[list[Any]], Array]:
    return lambda args: np.roll(args[0][:128], -step)


IO = "const int* a, int* out"
FLAG: dict[str, Any] = {  # one block tells another that data are there
    "params": "const int* a, int* data, int* flag, int* out",
    "args": lambda: [numbers(128), *(np.zeros(n, np.int32) for n in (128, 2, 1))],
    "wanted": lambda args: args[0][:1],
}
PAIR: dict[str, Any] = {**FLAG, "wanted": lambda args: args[0][:2].sum(keepdims=True)}
EXCHANGE = """    __shared__ int box[128];
    const int t = threadIdx.x;
    box[t] = a[t];
    __syncthreads();
    out[t] = box[127 - t];
"""
LOOP = """    __shared__ int box[128];
    const int t = threadIdx.x;
    int sum = 0;
    for (int k = 0; k < 8; ++k) {
        box[t] = a[k * 128 + t];
        __syncthreads();
        sum += box[127 - t] * (k + 1);
        __syncthreads(); // before the next write
    }
    out[t] = sum;
"""
PIPELINE = """    __shared__ __align__(16) int box[3][512];
    const int t = threadIdx.x;
    int sum = 0;
    for (int s = 0; s < 2; ++s) {
        tl_cp_async_16(&box[s][t * 4], &a[s * 512 + t * 4]);
        tl_cp_async_commit(); // ahead
    }
    for (int k = 0; k < 8; ++k) {
        if (k + 2 < 8) tl_cp_async_16(&box[(k + 2) % 3][t * 4], &a[(k + 2) * 512 + t * 4]);
        tl_cp_async_commit();
        tl_cp_async_wait<2>();
        __syncthreads();
        sum += box[k % 3][(t * 4 + 9) % 512] * (k + 1);
        __syncthreads();
    }
    out[t] = sum;
"""
BULK = """    __shared__ __align__(128) int box[128];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        tl_mbarrier_init(&bar, 1);
        tl_fence_barrier_init();
    }
    __syncthreads();
    if (t == 0) {
        tl_mbarrier_arrive_expect_tx(&bar, 512);
        tl_bulk_load(box, a, 512, &bar);
    }
    tl_mbarrier_wait(&bar, 0);
    out[t] = box[127 - t];
"""
TENSOR = BULK.replace("tl_bulk_load(box, a, 512, &bar)", "tl_tma_load(box, &m, &bar, 0, 0)")
TENSOR = TENSOR.replace("int box[128]", "int box[160]")
ARRIVE = """    __shared__ int box[128];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) tl_mbarrier_init(&bar, 128);
    __syncthreads();
    box[t] = a[t];
    tl_mbarrier_arrive(&bar);
    tl_mbarrier_wait(&bar, 0);
    out[t] = box[127 - t];
"""
STORE = """    __shared__ __align__(128) int box[128];
    const int t = threadIdx.x;
    for (int k = 0; k < 4; ++k) {
        box[t] = a[k * 128 + t];
        tl_fence_proxy_async();
        __syncthreads();
        if (t == 0) {
            tl_bulk_store(out + k * 128, box, 512);
            tl_bulk_commit();
            tl_bulk_wait_read<0>();
        }
        __syncthreads();
    }
    if (t == 0) tl_bulk_wait<0>();
"""
NAMED = """    __shared__ int box[64];
    const int t = threadIdx.x;
    if (t < 64) {
        box[t] = a[t];
        tl_bar_arrive(1, 128);
    } else {
        tl_bar_sync(1, 128);
        out[t - 64] = box[127 - t];
    }
"""
PRODUCT = """    __shared__ __align__(128) uint16_t a[1024], b[128];
    const int t = threadIdx.x;
    float d[4];
    for (int k = t; k < 1024; k += 128) a[k] = 0x3c00;
    b[t] = 0x3c00;
    for (int k = 0; k < 4; ++k) d[k] = 1.0f;
    tl_fence_proxy_async();
    __syncthreads();
    uint64_t da, db;
    tl_wgmma_descriptor(&da, a, 0, 8, 16);
    tl_wgmma_descriptor(&db, b, 0, 8, 16);
    tl_wgmma_touch_f32<4>(d);
    tl_wgmma_fence();
    tl_wgmma_m64n8k16_f16_f16_f32_ss<0, 0, 1, 1>(d, da, db, true);
    tl_wgmma_commit();
    tl_wgmma_wait<0>();
    tl_wgmma_touch_f32<4>(d);
    for (int k = 0; k < 4; ++k) out[t * 4 + k] = (int)d[k];
"""
TILES = """    extern __shared__ __align__(1024) unsigned char tl_smem[];
    int* const A_shared = (int*)(tl_smem);
    int* const B_shared = (int*)(tl_smem + 512);
    const int t = threadIdx.x;
    A_shared[t] = a[t];
    B_shared[t] = a[128 + t];
    __syncthreads();
    out[t] = A_shared[(t + 64) % 128] + B_shared[t];
"""


def weighted(index: Callable[[Array], Array], width: int) -> Callable[[list[Any]], Array]:
    """Sum over eight rows, the k-th times k + 1."""

    def result(args: list[Any]) -> Array:
        rows = args[0].reshape(8, width)
        return np.asarray(sum(index(row) * (k + 1) for k, row in enumerate(rows)))

    return result


def gathered(row: Array) -> Array:
    return np.asarray(row[(np.arange(128) * 4 + 9) % 512])


def tensor_args() -> list[Any]:
    x = numbers(128).reshape(4, 32)
    return [x, tiled(x, 0, (32, 4)), np.zeros(128, np.int32)]


def case(name: str, what: str, body: str, old: str, new: str, kinds: str, **more: Any) -> Case:
    """A case; by default 128 numbers are turned round by 128 threads."""
    usual: dict[str, Any] = {"params": IO, "args": one(), "wanted": turned}
    return Case(name, what, body=body, old=old, new=new, kinds=tuple(kinds.split()),
                **{**usual, **more})  # fmt: skip


LOOPED = {"args": one(1024), "wanted": weighted(lambda row: row[::-1], 128)}
STAGED = {"args": one(4096), "wanted": weighted(gathered, 512)}
STORED = {"args": one(512, 512), "wanted": lambda args: args[0]}
PRODUCTS = {"params": "int* out", "args": lambda: [np.zeros(512, np.int32)],
            "wanted": lambda args: np.full(512, 17)}  # fmt: skip
HALF = {"args": one(128, 64), "wanted": lambda args: args[0][:64][::-1]}
IN_TENSOR = {"params": "const int* a, const __grid_constant__ tl_tensor_map m, int* out",
             "args": tensor_args, "wanted": lambda args: args[0].ravel()[::-1]}  # fmt: skip

CASES = (
    # -- barriers of the block
    case("barrier", "no __syncthreads between a write and a read", EXCHANGE,
         "    __syncthreads();\n", "", "race"),
    case("barrier_in_loop", "no __syncthreads before the next iteration writes", LOOP,
         "        __syncthreads(); // before the next write\n", "", "race", **LOOPED),
    case("barrier_divergent", "__syncthreads that some warps and half a warp skip", EXCHANGE,
         "    __syncthreads();", "    if (t < 80) __syncthreads();",
         "barrier-divergence warp-divergence race"),
    case("named_count", "barriers of one name with different counts", NAMED,
         "tl_bar_arrive(1, 128)", "tl_bar_arrive(1, 96)", "barrier-count deadlock", hangs=True,
         **HALF),
    case("named_other", "a barrier at which no other thread arrives", NAMED,
         "tl_bar_sync(1, 128)", "tl_bar_sync(2, 128)", "deadlock", hangs=True, **HALF),
    # -- warps
    case("syncwarp", "no __syncwarp between a write and a read of one warp",
         EXCHANGE.replace("__syncthreads", "__syncwarp").replace("127", "31"),
         "    __syncwarp();\n", "", "race", block=32, args=one(32, 32)),
    case("shuffle_mask", "a shuffle that names lanes that do not take part",
         "    int v = a[threadIdx.x];\n    if (threadIdx.x < 16)\n"
         "        v = __shfl_sync(0xffffu, v, threadIdx.x ^ 15);\n    out[threadIdx.x] = v;\n"
         "    __syncwarp();\n", "0xffffu", "0xffffffffu", "warp-divergence", block=32, hangs=True,
         args=one(32, 32), wanted=lambda args: np.r_[args[0][:16][::-1], args[0][16:]]),
    # -- cp.async
    case("copy_wait", "no wait for copies", PIPELINE, "        tl_cp_async_wait<2>();\n", "",
         "missing-wait race", **STAGED),
    case("copy_count", "a wait that leaves one group too many", PIPELINE, "wait<2>", "wait<3>",
         "missing-wait race", **STAGED),
    case("copy_commit", "copies ahead that belong to no group", PIPELINE,
         "        tl_cp_async_commit(); // ahead\n", "", "missing-wait race", **STAGED),
    case("copy_stage", "the stage of the next iteration is read", PIPELINE, "box[k % 3]",
         "box[(k + 1) % 3]", "missing-wait race", **STAGED),
    # -- addresses
    case("global_read", "a read behind the end of a tensor", EXCHANGE, "a[t]", "a[t + 1]",
         "out-of-bounds"),
    case("global_write", "a write behind the end of a tensor", EXCHANGE, "out[t]", "out[t + 1]",
         "out-of-bounds"),
    case("shared_end", "a read behind all shared memory of the block", EXCHANGE, "box[127 - t]",
         "box[127 + 8 * t]", "out-of-bounds uninitialised-read"),
    case("shared_size", "a launch with too few bytes of shared memory",
         EXCHANGE.replace("__shared__ int box[128]", "extern __shared__ int box[]"), "", "",
         "out-of-bounds", shared=512, wrong_shared=256),
    case("shared_tile", "a read behind a tile, inside of the next one", TILES,
         "[(t + 64) % 128]", "[t + 64]", "out-of-bounds", shared=1024, args=one(256),
         wanted=lambda args: np.roll(args[0][:128], -64) + args[0][128:],
         tiles=(("A_shared", 0, 512), ("B_shared", 512, 512))),
    case("misaligned", "a vector at an address that is not a multiple of its size",
         "    __align__(16) int v[4];\n    tl_copy_16(v, a + threadIdx.x * 4);\n"
         "    out[threadIdx.x] = v[0] + v[1] * 2 + v[2] * 3 + v[3] * 4;\n",
         "threadIdx.x * 4)", "threadIdx.x * 4 + 1)", "misaligned", args=one(516),
         wanted=lambda args: args[0][:512].reshape(128, 4) @ np.arange(1, 5)),
    # -- memory that nothing has written
    case("shared_unwritten", "a read of shared memory that nothing has written", EXCHANGE,
         "    box[t] = a[t];", "    if (t < 64) box[t] = a[t];", "uninitialised-read"),
    case("global_unwritten", "a read of global memory that nothing has written", EXCHANGE, "", "",
         "uninitialised-read", wrong_args=lambda: [Blank(128), np.zeros(128, np.int32)]),
    # -- mbarriers and bulk copies
    case("mbarrier_parity", "a wait for the phase before", BULK, "wait(&bar, 0)", "wait(&bar, 1)",
         "missing-wait race"),
    case("mbarrier_visible", "a barrier used before its initialisation is visible", BULK,
         "    __syncthreads();\n", "", "mbarrier-misuse race", hangs=True),
    case("mbarrier_bytes", "fewer bytes expected than arrive", BULK, "expect_tx(&bar, 512)",
         "expect_tx(&bar, 256)", "mbarrier-misuse race missing-wait deadlock", hangs=True),
    case("mbarrier_count", "a barrier that counts one arrival too many", ARRIVE, "init(&bar, 128)",
         "init(&bar, 129)", "deadlock", hangs=True),
    case("mbarrier_early", "no wait at a barrier", ARRIVE, "    tl_mbarrier_wait(&bar, 0);\n", "",
         "race"),
    case("bulk_bounds", "a bulk copy that reads behind a tensor", BULK, "(box, a, 512",
         "(box, a + 4, 512", "out-of-bounds"),
    case("tensor_place", "a tensor copy to shared memory that is not aligned to 128 bytes", TENSOR,
         "(box, &m", "(box + 4, &m", "misaligned invalid-descriptor", hangs=True, **IN_TENSOR),
    case("proxy_fence", "no fence.proxy.async before a bulk store", STORE,
         "        tl_fence_proxy_async();\n", "", "missing-proxy-fence", **STORED),
    case("store_reuse", "shared memory written while a bulk store reads it", STORE,
         "            tl_bulk_wait_read<0>();\n", "", "missing-wait race", **STORED),
    # -- products of a warpgroup
    case("product_wait", "no wgmma.wait_group before the sums are used", PRODUCT,
         "    tl_wgmma_wait<0>();\n", "", "missing-wait", **PRODUCTS),
    case("product_fence", "no wgmma.fence after the sums were written", PRODUCT,
         "    tl_wgmma_fence();\n", "", "missing-wait", **PRODUCTS),
    # -- between blocks
    case("cluster", "another block's shared memory read without a barrier of the cluster",
         """    __shared__ int box[128];
    const int t = threadIdx.x, rank = tl_block_rank_in_cluster();
    box[t] = a[blockIdx.x * 128 + t];
    tl_cluster_sync(); // written
    const int* there = (const int*)tl_map_shared(box, rank ^ 1);
    out[blockIdx.x * 128 + t] = there[127 - t];
    tl_cluster_sync();
""", "    tl_cluster_sync(); // written\n", "", "race uninitialised-read", grid=2, cluster=2,
         args=one(256, 256), wanted=lambda args: args[0][::-1]),
    case("grid", "another block's results read without a barrier of the grid",
         """    const int at = blockIdx.x * 128 + threadIdx.x;
    part[at] = a[at];
    tl_sync_grid();
    out[at] = part[gridDim.x * 128 - 1 - at];
""", "    tl_sync_grid();\n", "", "race", grid=4, cooperative=True,
         params="const int* a, int* part, int* out",
         args=lambda: [numbers(512), np.zeros(512, np.int32), np.zeros(512, np.int32)],
         wanted=lambda args: args[0][::-1]),
    case("threadfence", "no __threadfence before a block says that it is done",
         """    part[blockIdx.x] = a[blockIdx.x];
    __threadfence(); // done
    if (tl_atomic_add_i32(count, 1) == (int)gridDim.x - 1) {
        __threadfence();
        int sum = 0;
        for (int k = 0; k < (int)gridDim.x; ++k) sum += part[k];
        out[0] = sum;
    }
""", "    __threadfence(); // done\n", "", "race", grid=64, block=1,
         params="const int* a, int* part, int* count, int* out",
         args=lambda: [numbers(64), *(np.zeros(n, np.int32) for n in (64, 1, 1))],
         wanted=lambda args: args[0].sum(keepdims=True)),
    case("atomic", "an addition by many blocks that is not atomic",
         "    tl_atomic_add_i32(out, a[threadIdx.x]);\n", "tl_atomic_add_i32(out, a[threadIdx.x]);",
         "out[0] += a[threadIdx.x];", "race", grid=8, args=one(128, 1),
         wanted=lambda args: 8 * args[0].sum(keepdims=True)),
    case("released", "data that a block writes after the flag that announces it",
         """    if (blockIdx.x == 0) {
        data[0] = a[0]; tl_atomic_store_i32(flag, 1, TL_RELEASE);
    } else {
        while (tl_atomic_load_i32(flag, TL_ACQUIRE) == 0) {}
        out[0] = data[0];
    }
""", "data[0] = a[0]; tl_atomic_store_i32(flag, 1, TL_RELEASE);",
         "tl_atomic_store_i32(flag, 1, TL_RELEASE); data[0] = a[0];", "race",
         grid=2, block=1, **FLAG),
    case("third", "data of a block that is not waited for, where another one is",
         """    if (blockIdx.x < 2) {
        data[blockIdx.x] = a[blockIdx.x];
        tl_atomic_store_i32(flag + blockIdx.x, 1, TL_RELEASE);
    } else {
        while (tl_atomic_load_i32(flag, TL_ACQUIRE) == 0) {}
        while (tl_atomic_load_i32(flag + 1, TL_ACQUIRE) == 0) {} // both
        out[0] = data[0] + data[1];
    }
""", "        while (tl_atomic_load_i32(flag + 1, TL_ACQUIRE) == 0) {} // both\n", "", "race",
         grid=3, block=1, **PAIR),
    case("gathered", "a flag that one thread sets without a barrier after the others wrote",
         """    const int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t] = a[t];
        __syncthreads(); // all
        if (t == 0) tl_atomic_store_i32(flag, 1, TL_RELEASE);
    } else if (t == 0) {
        while (tl_atomic_load_i32(flag, TL_ACQUIRE) == 0) {}
        out[0] = data[0] + data[1];
    }
""", "        __syncthreads(); // all\n", "", "race", grid=2, block=64, **PAIR),
    case("sync_last", "a last __syncthreads for which only some threads come",
         """    out[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
""", "    __syncthreads();", "    if (threadIdx.x % 4 == 0) __syncthreads();", "barrier-divergence",
         args=one(), wanted=lambda args: args[0]),
    case("shuffle_last", "a shuffle of all lanes whose others have ended",
         """    const int x = a[threadIdx.x];
    out[threadIdx.x] = __shfl_sync(~0u, x, threadIdx.x % 32 / 4 * 4);
""", "    out[", "    if (threadIdx.x % 4 == 0) out[", "warp-divergence",
         args=one(), wanted=lambda args: np.repeat(args[0][::4], 4)),
    case("local", "an index behind an array of the thread's own",
         """    int own[4] = {};
    own[a[0] & 3] = 1;
    out[0] = own[3];
""", "own[a[0] & 3]", "own[a[0] + 1]", "out-of-bounds", block=1, args=one(1, 1),
         wanted=lambda args: np.ones(1, np.int32)),
)  # fmt: skip

__all__ = ["ARCH", "CASES", "HEAD", "VARIANTS", "Blank", "Case", "Map"]
