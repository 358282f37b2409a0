"""Atomics on elements and tiles, their results, their dtypes."""

from __future__ import annotations

import numpy as np
from tensor_types import F16, F32, I8, I32, I64, U16, U32

import tilelang.language as T

from .registry import F, I, Out, program


@program()
def every_thread_every_index_and_one_thread():
    @T.prim_func
    def f(A: I32[4]):
        with T.Kernel(3, threads=64):
            T.atomic_add(A[0], 1)
            for i in T.Parallel(10):
                T.atomic_add(A[1], i)
            if T.get_thread_binding() == 5:
                T.atomic_add(A[2], 1)
            for i in T.serial(2):
                T.atomic_add(A[3], 1)

    return f, [Out(np.array([3 * 64, 3 * 45, 3, 3 * 128], I), np.zeros(4, I))]


def _add(dtype, out):
    @T.prim_func
    def f(A: T.Tensor((100,), dtype), S: T.Tensor((3,), dtype)):
        with T.Kernel(4, threads=32) as b:
            for i in T.Parallel(25):
                T.atomic_add(S[(b * 25 + i) % 3], A[b * 25 + i])

    a = (np.arange(100) % 5).astype(out)
    want = np.array([a[k::3].sum() for k in range(3)]).astype(out)
    return f, [a, Out(want, np.zeros(3, out))]


@program()
def additions_of_int32():
    return _add("int32", I)


@program()
def additions_of_int64():
    return _add("int64", np.int64)


@program()
def additions_of_uint32():
    return _add("uint32", np.uint32)


@program()
def additions_of_uint64():
    return _add("uint64", np.uint64)


@program()
def additions_of_float32():
    return _add("float32", F)


@program()
def additions_of_float64():
    return _add("float64", np.float64)


@program()
def additions_of_float16():
    return _add("float16", np.float16)


@program()
def additions_of_bfloat16():
    import ml_dtypes

    return _add("bfloat16", ml_dtypes.bfloat16)


@program()
def maxima_and_minima_of_signed_and_unsigned():
    @T.prim_func
    def f(A: I32[60], S: I32[2], U: U32[2], L: I64[2]):
        with T.Kernel(2, threads=32) as b:
            for i in T.Parallel(30):
                v = A[b * 30 + i]
                T.atomic_max(S[0], v)
                T.atomic_min(S[1], v)
                T.atomic_max(U[0], T.cast(v, "uint32"))
                T.atomic_min(U[1], T.cast(v, "uint32"))
                T.atomic_max(L[0], T.cast(v, "int64") * 1000000007)
                T.atomic_min(L[1], T.cast(v, "int64") * 1000000007)

    a = (np.arange(60) * 37 % 61 - 30).astype(I)
    u = a.astype(np.uint32)
    big = a.astype(np.int64) * 1000000007
    zero = np.zeros(2, I)
    top = np.array([0, 2**32 - 1], np.uint32)
    return f, [
        a,
        Out(np.array([a.max(), a.min()], I), zero),
        Out(np.array([u.max(), u.min()], np.uint32), top),
        Out(np.array([big.max(), big.min()]), np.zeros(2, np.int64)),
    ]


@program()
def maxima_and_minima_of_floats_with_both_signs():
    """Tricks that compare floats as integers go wrong for one of the signs."""

    @T.prim_func
    def f(A: F32[3, 40], M: F32[3, 2], H: F16[3, 2]):
        with T.Kernel(3, threads=32) as b:
            for i in T.Parallel(40):
                T.atomic_max(M[b, 0], A[b, i])
                T.atomic_min(M[b, 1], A[b, i])
                T.atomic_max(H[b, 0], T.cast(A[b, i], "float16"))
                T.atomic_min(H[b, 1], T.cast(A[b, i], "float16"))

    rng = np.random.default_rng(0)
    a = rng.integers(1, 200, (3, 40)).astype(F) / 4
    a[1] = -a[1]
    a[2, ::2] *= -1
    start = np.stack([np.full(3, -np.inf), np.full(3, np.inf)], 1)
    want = np.stack([a.max(1), a.min(1)], 1)
    return f, [
        a,
        Out(want, start.astype(F)),
        Out(want.astype(np.float16), start.astype(np.float16)),
    ]


@program()
def the_old_value_makes_every_number_once():
    @T.prim_func
    def f(N: I32[1], B: I32[200]):
        with T.Kernel(4, threads=50):
            t = T.get_thread_binding()
            old = T.atomic_add(N[0], 1, return_prev=True)
            B[old] = 1

    return f, [Out(np.array([200], I), np.zeros(1, I)), Out(np.ones(200, I), np.zeros(200, I))]


@program()
def old_values_of_maxima_and_minima():
    @T.prim_func
    def f(A: I32[5], M: I32[2], B: I32[5, 2]):
        with T.Kernel(1, threads=1):
            for i in T.serial(5):
                high = T.atomic_max(M[0], A[i], return_prev=True)
                low = T.atomic_min(M[1], A[i], return_prev=True)
                B[i, 0] = high
                B[i, 1] = low

    a = np.array([3, -1, 7, 2, -9], I)
    want = np.array([[0, 0], [3, 0], [3, -1], [7, -1], [7, -1]], I)
    return f, [a, Out(np.array([7, -9], I), np.zeros(2, I)), Out(want)]


@program()
def a_list_of_the_places_that_fit_a_condition():
    @T.prim_func
    def f(A: I32[128], N: I32[1], B: I32[128]):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            count = T.alloc_shared((1,), "int32")
            places = T.alloc_shared((128,), "int32")
            if t == 0:
                count[0] = 0
            places[t] = 0
            T.sync_threads()
            if A[t] % 3 == 1:
                p = T.atomic_add(count[0], 1, return_prev=True)
                places[p] = t + 1
            T.sync_threads()
            if t < count[0]:
                T.atomic_add(B[places[t] - 1], 1)
            N[0] = count[0]

    a = np.random.default_rng(3).integers(0, 50, 128).astype(I)
    hit = (a % 3 == 1).astype(I)
    return f, [a, Out(np.array([hit.sum()], I)), Out(hit, np.zeros(128, I))]


@program()
def a_tile_added_once_for_each_element():
    @T.prim_func
    def f(A: F32[4, 16, 8], B: F32[16, 8]):
        with T.Kernel(4, threads=64) as b:
            x = T.alloc_fragment((16, 8), "float32")
            T.copy(A[b, 0, 0], x)
            T.atomic_add(B, x)

    a = np.arange(512, dtype=F).reshape(4, 16, 8)
    return f, [a, Out(a.sum(0) + 1, np.ones((16, 8), F))]


@program()
def a_shared_tile_added_at_an_anchor_over_the_edge():
    @T.prim_func
    def f(A: F32[20, 20], B: F32[20, 20]):
        with T.Kernel(2, 2, threads=64) as (x, y):
            s = T.alloc_shared((16, 16), "float32")
            T.copy(A[y * 8, x * 8], s)
            T.atomic_add(B[y * 8, x * 8], s)

    a = np.arange(400, dtype=F).reshape(20, 20)
    want = np.zeros((20, 20), F)
    for y in (0, 8):
        for x in (0, 8):
            want[y : y + 16, x : x + 16] += a[y : y + 16, x : x + 16]
    return f, [a, Out(want, np.zeros((20, 20), F))]


@program()
def a_tile_of_another_dtype_is_cast():
    @T.prim_func
    def f(A: F32[32], B: I32[32], C: F16[32]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((32,), "float32")
            T.copy(A, x)
            T.atomic_add(B, x)
            T.atomic_add(C, x)

    a = np.arange(32, dtype=F) * 0.75 - 8
    base = np.arange(32)
    return f, [
        a,
        Out((base + np.trunc(a)).astype(I), base.astype(I)),
        Out((base.astype(np.float16) + a.astype(np.float16)), base.astype(np.float16)),
    ]


@program()
def maxima_of_tiles_in_global_memory():
    @T.prim_func
    def f(A: I32[5, 24], M: I32[24], N: I32[24]):
        with T.Kernel(5, threads=32) as b:
            x = T.alloc_fragment((24,), "int32")
            T.copy(A[b, 0:24], x)
            T.atomic_max(M, x)
            T.atomic_min(N[0:24], x)

    a = np.random.default_rng(5).integers(-50, 50, (5, 24)).astype(I)
    return f, [
        a,
        Out(np.maximum(a.max(0), 0), np.zeros(24, I)),
        Out(np.minimum(a.min(0), 0), np.zeros(24, I)),
    ]


@program()
def atomics_in_shared_memory():
    @T.prim_func
    def f(A: I32[3, 100], H: I32[3, 8]):
        with T.Kernel(3, threads=64) as b:
            bins = T.alloc_shared((8,), "int32")
            T.clear(bins)
            for i in T.Parallel(100):
                T.atomic_add(bins[A[b, i]], 1)
            T.copy(bins, H[b, 0:8])

    a = np.random.default_rng(6).integers(0, 8, (3, 100)).astype(I)
    return f, [a, Out(np.stack([np.bincount(r, minlength=8) for r in a]).astype(I))]


@program()
def atomics_outside_a_tensor_do_nothing():
    @T.prim_func
    def f(A: I32[40], B: I32[10]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(40):
                T.atomic_add(B[A[i]], 1)

    a = (np.arange(40) % 20).astype(I)
    return f, [a, Out(np.full(10, 2, I), np.zeros(10, I))]


@program()
def bits_set_by_many_threads():
    @T.prim_func
    def f(A: I32[64], W: U32[4]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            T.atomic_or(W[A[t] // 32], T.shift_left(T.uint32(1), T.cast(A[t] % 32, "uint32")))

    a = np.random.default_rng(7).permutation(128)[:64].astype(I)
    want = np.zeros(4, np.uint32)
    for x in a:
        want[x // 32] |= np.uint32(1) << np.uint32(x % 32)
    return f, [a, Out(want, np.zeros(4, np.uint32))]


@program()
def loads_and_stores_in_order():
    @T.prim_func
    def f(A: I32[4], B: I32[4]):
        with T.Kernel(1, threads=1):
            for i in T.serial(4):
                T.atomic_store(B[i], T.atomic_load(A[3 - i], "acquire") + i, "release")

    a = np.array([5, 6, 7, 8], I)
    return f, [a, Out(a[::-1] + np.arange(4, dtype=I))]


@program()
def loads_and_stores_of_one_and_two_bytes():
    @T.prim_func
    def f(A: I8[32], B: U16[32], C: T.Tensor((32,), "bool"), D: I8[32], E: U16[32]):
        with T.Kernel(1, threads=32):
            i = T.get_thread_binding()
            told = T.alloc_shared((32,), "bool")
            T.copy(C, told)
            T.atomic_store(D[i], T.atomic_load(A[31 - i]))
            if T.atomic_load(told[i], "relaxed"):
                T.atomic_store(E[i], T.atomic_load(B[i], "acquire") + 1, "release")

    a = np.arange(-16, 16).astype(np.int8) * 8
    b = np.arange(32).astype(np.uint16) * 2000
    c = np.arange(32) % 3 == 1
    return f, [a, b, c, Out(a[::-1]), Out(np.where(c, b + 1, 0).astype(np.uint16), b * 0)]


@program()
def pairs_and_quadruples_added_at_once():
    @T.prim_func
    def f(A: F32[3, 16], B: F32[16], C: F32[16]):
        with T.Kernel(3, threads=8) as b:
            t = T.get_thread_binding()
            T.atomic_addx2(B[t * 2], A[b, t * 2])
            if t < 4:
                T.atomic_addx4(C[t * 4], A[b, t * 4])

    a = np.arange(48, dtype=F).reshape(3, 16)
    return f, [a, Out(a.sum(0), np.zeros(16, F)), Out(a.sum(0) + 2, np.full(16, 2, F))]


@program()
def pairs_of_halves_added_at_once():
    @T.prim_func
    def f(A: F16[2, 16], B: F16[16]):
        with T.Kernel(2, threads=8) as b:
            t = T.get_thread_binding()
            T.atomic_addx2(B[t * 2], A[b, t * 2])

    a = np.arange(32).astype(np.float16).reshape(2, 16)
    return f, [a, Out(a.sum(0), np.zeros(16, np.float16))]


@program()
def the_last_block_to_finish_adds_up():
    """A counter decides which block works on what all the others have stored."""

    @T.prim_func
    def f(A: F32[6, 32], P: F32[6], N: I32[1], S: F32[1]):
        with T.Kernel(6, threads=32) as b:
            x = T.alloc_fragment((32,), "float32")
            s = T.alloc_fragment((1,), "float32")
            T.copy(A[b, 0:32], x)
            T.reduce_sum(x, s)
            T.copy(s, P[b])
            for i in T.Parallel(1):
                T.atomic_add(S[0], s[i])
                T.atomic_add(N[0], 1)

    a = np.arange(192, dtype=F).reshape(6, 32)
    return f, [
        a,
        Out(a.sum(1)),
        Out(np.array([6], I), np.zeros(1, I)),
        Out(np.array([a.sum()], F), np.zeros(1, F)),
    ]


@program()
def an_atomic_under_a_condition_of_the_data():
    @T.prim_func
    def f(A: I32[8, 32], C: I32[2]):
        with T.Kernel(8, threads=32) as b:
            for i in T.Parallel(32):
                if A[b, i] > 10:
                    T.atomic_add(C[0], A[b, i])
                else:
                    T.atomic_add(C[1], 1)

    a = np.random.default_rng(8).integers(0, 20, (8, 32)).astype(I)
    return f, [a, Out(np.array([a[a > 10].sum(), (a <= 10).sum()], I), np.zeros(2, I))]


@program()
def a_value_of_each_thread_added_to_an_element_of_a_local_index():
    @T.prim_func
    def f(A: I32[96], B: I32[3]):
        with T.Kernel(1, threads=96):
            t = T.get_thread_binding()
            v = A[t]
            w = v * 2
            T.atomic_add(B[t // 32], w + v)

    a = np.arange(96, dtype=I)
    return f, [a, Out((a * 3).reshape(3, 32).sum(1).astype(I), np.zeros(3, I))]
