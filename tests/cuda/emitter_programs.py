"""Products written with the emitters of ``tilelang.cuda.intrinsics``, for all forms they have."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

from tensor_types import BF16, F32

import tilelang.language as T
from tilelang.cuda.intrinsics.macro import mma_macro_generator, wgmma_macro_generator
from tilelang.ir.dtypes import dtype as DType
from tilelang.layout.swizzle import swizzled

Warp = mma_macro_generator.TensorCoreIntrinEmitter
Group = wgmma_macro_generator.TensorCoreIntrinEmitter

# Operand -> sum.
SUMS = {
    "float16": "float32", "bfloat16": "float32", "float32": "float32", "float8_e4m3fn": "float32",
    "float8_e5m2": "float32", "int8": "int32", "uint8": "int32",
}  # fmt: skip
SPANS = ((128, 128), (64, 32), (32, 16), (16, 64))  # bytes of the patterns of A and B


def order(rows, columns, turned):
    return (columns, rows) if turned else (rows, columns)


def emitter(M, N, K, kind, ta=False, tb=True, rows=4, columns=1, total=None, **options):
    """The emitter of a block that is one tile."""
    return Group(
        kind, kind, total or SUMS[kind], ta, tb, rows, columns, M // rows, N // columns, K,
        **options,
    )  # fmt: skip


@T.macro
def arrived():
    """What threads have stored is there for the units that multiply."""
    T.fence_proxy_async()
    T.sync_threads()


def spans(kind, ta=False, tb=True, total=None):
    """C[0:4] = A @ B from shared memory, in four pairs of swizzles, C[4:8] with A in registers."""
    M, N, K = 64, 64, 128 * 8 // DType(kind).bits
    total = total or SUMS[kind]
    e = emitter(M, N, K, kind, ta, tb, total=total)
    a_shape, b_shape = order(M, K, ta), order(K, N, tb)
    bits = DType(kind).bits
    from_memory = not ta or bits == 16

    @T.macro
    def once(A, B, C, block, number, a_span, b_span):
        if block == number:
            part(A, B, C, number, a_span, b_span)

    @T.macro
    def part(A, B, C, number, a_span, b_span):
        A_tile = T.alloc_shared(a_shape, kind)
        B_tile = T.alloc_shared(b_shape, kind)
        own = T.alloc_fragment(a_shape, kind)
        acc = T.alloc_fragment((M, N), total)
        T.annotate_layout({B_tile: swizzled(b_shape, bits, b_span)})
        T.copy(B, B_tile)
        if from_memory:
            T.annotate_layout({A_tile: swizzled(a_shape, bits, a_span)})
            T.copy(A, A_tile)
            arrived()
            e.wgmma(A_tile, B_tile, acc, clear_accum=True)
            T.copy(acc, C[number, 0, 0])
        T.copy(A, own)
        arrived()
        e.wgmma_rs(own, B_tile, acc, clear_accum=True)
        T.copy(acc, C[number + 4, 0, 0])

    def every(A, B, C, block):
        for number, (a_span, b_span) in enumerate(SPANS):
            once(A, B, C, block, number, a_span, b_span)

    @T.prim_func
    def emitted_spans(
        A: T.Tensor(a_shape, kind), B: T.Tensor(b_shape, kind), C: T.Tensor((8, M, N), total)
    ):
        with T.Kernel(4, threads=128) as bx:
            every(A, B, C, bx)

    return emitted_spans


def steps(kind="float16", ta=False, tb=True, N=96):
    """C = A @ B over a loop, two warpgroups along m and two along n, A and B in stages that have
    two tiles of k each: slices of larger buffers, at expressions."""
    M, K, depth = 256, 256, 32
    e = emitter(M, N, depth, kind, ta, tb, rows=8, columns=2)
    a_stage, b_stage = order(M, 2 * depth, ta), order(2 * depth, N, tb)

    @T.prim_func
    def emitted_steps(
        A: T.Tensor(order(M, K, ta), kind),
        B: T.Tensor(order(K, N, tb), kind),
        C: F32[M, N],
    ):
        with T.Kernel(1, threads=512):
            A_tile = T.alloc_shared((2, *a_stage), kind)
            B_tile = T.alloc_shared((2, *b_stage), kind)
            acc = T.alloc_fragment((M, N), "float32")
            T.clear(acc)
            for k in T.serial(K // (2 * depth)):
                stage = k % 2
                low = k * 2 * depth
                T.copy(A[0, low] if not ta else A[low, 0], A_tile[stage, :, :])
                T.copy(B[low, 0] if not tb else B[0, low], B_tile[stage, :, :])
                arrived()
                for half in T.unroll(2):
                    at = half * depth
                    A_part = (
                        A_tile[stage, at : at + depth, :] if ta
                        else A_tile[stage, :, at : at + depth]
                    )  # fmt: skip
                    B_part = (
                        B_tile[stage, :, at : at + depth] if tb
                        else B_tile[stage, at : at + depth, :]
                    )  # fmt: skip
                    e.wgmma(A_part, B_part, acc)
            T.copy(acc, C)

    return emitted_steps


def atoms(registers):
    """C = A @ B, an instruction at a time, from shared memory or with A in ``registers``, where two
    products are in flight and sums are a local array."""
    M, N, K = 128, 192, 64
    e = emitter(M, N, K, "bfloat16", tb=False)

    @T.prim_func
    def emitted_atoms(A: BF16[M, K], B: BF16[K, N], C: F32[M, N]):
        with T.Kernel(1, threads=128):
            A_tile = T.alloc_shared((M, K), "bfloat16")
            B_tile = T.alloc_shared((K, N), "bfloat16")
            own = T.alloc_fragment((M, K), "bfloat16")
            acc = T.alloc_fragment((M, N), "float32")
            a_desc = T.alloc_wgmma_desc()
            b_desc = T.alloc_wgmma_desc()
            b = e.compute_wgmma_b_desc_params(B_tile)
            e.init_wgmma_b_desc(b_desc, B_tile, b)
            if registers:
                T.annotate_layout({own: e.make_mma_load_layout(own)})
                T.copy(A, own)
            else:
                a = e.compute_wgmma_a_desc_params(A_tile)
                e.init_wgmma_a_desc(a_desc, A_tile, a)
                T.copy(A, A_tile)
            T.copy(B, B_tile)
            arrived()
            if registers:
                e.wgmma_fence_a(own)
            e.wgmma_fence_c(acc)
            e.wgmma_arrive()
            for j, i in T.grid(e.wgmma_num_inst_n, e.wgmma_num_inst_m):
                for ki in T.unroll(e.wgmma_num_k_atoms):
                    if registers:
                        e.wgmma_rs_atom(own, b_desc, acc, i, j, ki, b, ki == 0)
                    else:
                        e.wgmma_ss_atom(a_desc, b_desc, acc, i, j, ki, a, b, ki == 0)
                e.wgmma_commit()
            e.wgmma_wait(0)
            e.wgmma_fence_c(acc)
            T.copy(acc, C)

    return emitted_atoms


def roles(M=256, N=256, K=256):
    """C = A @ B.T: one warp brings tiles by tensor maps, two warpgroups multiply, by barriers."""
    stages, depth = 3, 64
    kind = "float16"

    @T.prim_func
    def emitted_roles(
        A: T.Tensor((M, K), kind), B: T.Tensor((N, K), kind), C: T.Tensor((M, N), kind)
    ):
        with T.Kernel(N // 128, M // 128, threads=384) as (bx, by):
            tx = T.get_thread_binding()
            e = emitter(128, 128, depth, kind, rows=8, thread_var=tx - 128)
            A_map = T.create_tma_descriptor(
                6, 2, A, K, M, 2, K * 2, depth, 128, 1, 1, 0, 3, 2, 0
            )  # fmt: skip
            B_map = T.create_tma_descriptor(
                6, 2, B, K, N, 2, K * 2, depth, 128, 1, 1, 0, 3, 2, 0
            )  # fmt: skip
            A_tile = T.alloc_shared((stages, 128, depth), kind)
            B_tile = T.alloc_shared((stages, 128, depth), kind)
            full = T.alloc_barrier([1] * stages)
            empty = T.alloc_barrier([2] * stages)
            if tx < 128:
                T.dec_max_nreg(40)
                if tx == 0:
                    for k in T.serial(K // depth):
                        stage = k % stages
                        T.mbarrier_wait_parity(empty[stage], (k // stages) & 1 ^ 1)
                        T.mbarrier_arrive_expect_tx(full[stage], 256 * depth * 2)
                        T.tma_load(A_map, full[stage], A_tile[stage, 0, 0], k * depth, by * 128)
                        T.tma_load(B_map, full[stage], B_tile[stage, 0, 0], k * depth, bx * 128)
            else:
                T.inc_max_nreg(232)
                acc = T.alloc_local((e.wgmma_accum_regs,), "float32")
                for k in T.serial(K // depth):
                    stage = k % stages
                    T.mbarrier_wait_parity(full[stage], (k // stages) & 1)
                    e.wgmma(A_tile[stage, :, :], B_tile[stage, :, :], acc, clear_accum=k == 0)
                    if tx % 128 == 0:
                        T.mbarrier_arrive(empty[stage])
                row = by * 128 + (tx - 128) // 32 * 16 + tx % 32 // 4
                column = bx * 128 + tx % 4 * 2
                for i in T.unroll(16):
                    for half in T.unroll(2):
                        for j in T.vectorized(2):
                            C[row + half * 8, column + i * 8 + j] = acc[i * 4 + half * 2 + j]

    return emitted_roles


def warps(kind, ta=False, tb=True, fragments=False):
    """C = A @ B by ``mma.sync`` of four warps, operands by ldmatrix in a pipeline."""
    M, N, K, depth = 64, 48, 128, 64
    total = SUMS[kind]
    e = Warp(kind, kind, total, ta, tb, 2, 2, M // 2, N // 2, depth)
    a_tile, b_tile = order(M, depth, ta), order(depth, N, tb)

    @T.prim_func
    def emitted_warps(
        A: T.Tensor(order(M, K, ta), kind),
        B: T.Tensor(order(K, N, tb), kind),
        C: T.Tensor((M, N), total),
    ):
        with T.Kernel(1, threads=128):
            A_tile = T.alloc_shared(a_tile, kind)
            B_tile = T.alloc_shared(b_tile, kind)
            C_tile = T.alloc_shared((M, N), total)
            if fragments:
                A_own = T.alloc_fragment(a_tile, kind)
                B_own = T.alloc_fragment(b_tile, kind)
                sums = T.alloc_fragment((M, N), total)
                T.annotate_layout({
                    A_own: e.make_mma_load_layout(A_own, "A"),
                    B_own: e.make_mma_load_layout(B_own, "B"),
                    sums: e.make_mma_store_layout(sums),
                })  # fmt: skip
            else:
                A_own = T.alloc_local((e.warp_rows * e.local_size_a,), kind)
                B_own = T.alloc_local((e.warp_cols * e.local_size_b,), kind)
                sums = T.alloc_local((e.warp_rows * e.warp_cols * e.local_size_out,), total)
            T.clear(sums)
            for k in T.Pipelined(K // depth, num_stages=2):
                T.copy(A[k * depth, 0] if ta else A[0, k * depth], A_tile)
                T.copy(B[0, k * depth] if tb else B[k * depth, 0], B_tile)
                if fragments:
                    T.copy(A_tile, A_own)
                    T.copy(B_tile, B_own)
                for ki in T.unroll(depth // e.micro_size_k):
                    if not fragments:
                        e.ldmatrix_a(A_own, A_tile, ki)
                        e.ldmatrix_b(B_own, B_tile, ki)
                    e.mma(A_own, B_own, sums, ki)
            if fragments:
                T.copy(sums, C)
            else:
                e.stmatrix(sums, C_tile)
                T.copy(C_tile, C)

    return emitted_warps
