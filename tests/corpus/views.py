"""Views, layouts, slices, strides: the same elements under other names."""

from __future__ import annotations

import numpy as np
from tensor_types import F16, F32, I8, I16, I32, U8, U32

import tilelang.language as T
from tilelang.layout import make_padded_layout, make_swizzled_layout

from .registry import F, H, I, Out, program


@program()
def a_shared_tile_seen_in_another_shape():
    @T.prim_func
    def f(A: F32[16, 32], B: F32[8, 4, 16]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((16, 32), "float32")
            T.copy(A, s)
            v = T.reshape(s, (8, 4, 16))
            T.copy(v, B)

    a = np.arange(512, dtype=F).reshape(16, 32)
    return f, [a, Out(a.reshape(8, 4, 16))]


@program()
def writing_through_a_view_changes_the_tile():
    @T.prim_func
    def f(A: F32[64], B: F32[64]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((64,), "float32")
            T.copy(A, s)
            v = T.reshape(s, (8, 8))
            for i, j in T.Parallel(8, 8):
                if i < j:
                    v[i, j] = -v[i, j]
            T.copy(s, B)

    a = np.arange(64, dtype=F)
    i, j = np.mgrid[:8, :8]
    return f, [a, Out(np.where(i < j, -a.reshape(8, 8), a.reshape(8, 8)).reshape(-1).astype(F))]


def _strided(a: np.ndarray, b: np.ndarray):
    m, n, k = T.dynamic("m"), T.dynamic("n"), T.dynamic("k")
    pitch = [T.dynamic(f"p{i}") for i in range(6)]

    @T.prim_func
    def f(
        A: T.StridedTensor((m, k), (pitch[0], pitch[1]), "float16"),
        B: T.StridedTensor((k, n), (pitch[2], pitch[3]), "float16"),
        C: T.StridedTensor((m, n), (pitch[4], pitch[5]), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, 32), T.ceildiv(m, 32), threads=64) as (bx, by):
            x = T.alloc_shared((32, 32), "float16")
            y = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for s in T.Pipelined(T.ceildiv(k, 32), num_stages=2):
                T.copy(A[by * 32, s * 32], x)
                T.copy(B[s * 32, bx * 32], y)
                T.gemm(x, y, c)
            T.copy(c, C[by * 32, bx * 32])

    want = (a.astype(F) @ b.astype(F)).astype(F)
    return f, [a, b, Out(want)]


@program(also=("sm_90a",))
def a_product_of_matrices_whose_strides_are_read_at_run_time():
    values = np.random.default_rng(3).integers(-4, 5, (45, 70)).astype(H)
    return _strided(values, np.asfortranarray(values[:39].T.copy()))


@program(also=("sm_90a",))
def a_product_of_matrices_that_lie_backwards():
    values = np.random.default_rng(4).integers(-4, 5, (45, 70)).astype(H)
    return _strided(values[::-1, ::-1], values[:39].T[::-1])


@program()
def words_of_a_tile_of_bytes():
    @T.prim_func
    def f(A: U8[16, 16], B: U32[16, 4]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16, 16), "uint8")
            T.copy(A, s)
            w = T.view(s, (16, 4), "uint32")
            T.copy(w, B)

    a = np.random.default_rng(0).integers(0, 256, (16, 16)).astype(np.uint8)
    return f, [a, Out(a.view("<u4"))]


@program()
def bits_of_floats_flipped_through_a_view():
    @T.prim_func
    def f(A: F32[64], B: F32[64]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((64,), "float32")
            T.copy(A, s)
            w = T.view(s, (64,), "uint32")
            for i in T.Parallel(64):
                w[i] = w[i] ^ T.uint32(0x80000000)
            T.copy(s, B)

    a = np.arange(64, dtype=F) - 20
    return f, [a, Out(-a)]


@program()
def a_fragment_reduced_in_groups_through_a_view():
    @T.prim_func
    def f(A: F32[8, 128], B: F32[8, 4]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((8, 128), "float32")
            m = T.alloc_fragment((8, 4), "float32")
            T.copy(A, x)
            v = T.reshape(x, (8, 4, 32))
            T.reduce_absmax(v, m, dim=2)
            T.copy(m, B)

    a = np.random.default_rng(1).standard_normal((8, 128)).astype(F)
    return f, [a, Out(np.abs(a.reshape(8, 4, 32)).max(2))]


@program()
def a_view_of_a_view():
    @T.prim_func
    def f(A: I32[4, 8, 8], B: I32[8, 32]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((4, 8, 8), "int32")
            T.copy(A, s)
            v = T.reshape(s, (256,))
            w = T.reshape(v, (8, 32))
            for i, j in T.Parallel(8, 32):
                w[i, j] = w[i, j] + v[i * 32 + j] * 1000
            T.copy(w, B)

    a = np.arange(256, dtype=I).reshape(4, 8, 8)
    return f, [a, Out(a.reshape(8, 32) * 1001)]


@program()
def a_view_of_a_global_tensor():
    @T.prim_func
    def f(A: F32[6, 10], B: F32[60], C: I32[60]):
        with T.Kernel(1, threads=32):
            v = T.reshape(A, (60,))
            w = T.view(A, (60,), "int32")
            for i in T.Parallel(60):
                B[i] = v[59 - i]
                C[i] = w[i]

    a = np.arange(60, dtype=F).reshape(6, 10)
    return f, [a, Out(a.reshape(-1)[::-1].copy()), Out(a.reshape(-1).view(I))]


@program()
def results_stored_through_a_view_of_the_result():
    @T.prim_func
    def f(A: F32[32], B: F32[4, 8]):
        with T.Kernel(1, threads=32):
            flat = T.reshape(B, (32,))
            x = T.alloc_fragment((32,), "float32")
            T.copy(A, x)
            for i in T.Parallel(32):
                x[i] = x[i] * x[i]
            T.copy(x, flat)

    a = np.arange(32, dtype=F)
    return f, [a, Out((a * a).reshape(4, 8))]


@program()
def slices_at_constant_places_from_the_end():
    @T.prim_func
    def f(A: F32[10, 16], B: F32[4, 16]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((10, 16), "float32")
            T.copy(A, s)
            T.copy(s[-1, :], B[0, :])
            T.copy(s[-4:-2, :], B[1:3, :])
            for j in T.Parallel(16):
                B[-1, j] = s[-10, j] + A[-2, -1]

    a = np.arange(160, dtype=F).reshape(10, 16)
    want = np.stack([a[-1], a[6], a[7], a[0] + a[-2, -1]])
    return f, [a, Out(want)]


@program()
def sub_tiles_copied_between_tiles():
    @T.prim_func
    def f(A: F32[16, 32], B: F32[16, 32]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((16, 32), "float32")
            d = T.alloc_shared((16, 32), "float32")
            x = T.alloc_fragment((8, 16), "float32")
            T.copy(A, s)
            T.fill(d, -1)
            for q in T.serial(2):
                T.copy(s[q * 8 : q * 8 + 8, 16:32], x)
                T.copy(x, d[8 - q * 8 : 16 - q * 8, 0:16])
            T.copy(s[3:5, 4:8], d[0:2, 20:24])
            T.copy(d, B)

    a = np.arange(512, dtype=F).reshape(16, 32)
    want = np.full((16, 32), -1, F)
    want[8:16, :16], want[0:8, :16] = a[:8, 16:], a[8:, 16:]
    want[0:2, 20:24] = a[3:5, 4:8]
    return f, [a, Out(want)]


@program()
def a_fill_of_a_part():
    @T.prim_func
    def f(A: F32[8, 24], B: F32[8, 24]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((8, 24), "float32")
            x = T.alloc_fragment((8, 24), "float32")
            T.copy(A, s)
            T.fill(s[2:5, 7:20], 3.5)
            T.clear(s[7, :])
            T.copy(s, x)
            T.fill(x[0:1, 0:24], -1.0)
            T.copy(x, B)

    a = np.arange(192, dtype=F).reshape(8, 24)
    want = a.copy()
    want[2:5, 7:20], want[7], want[0] = 3.5, 0, -1
    return f, [a, Out(want)]


@program()
def a_tile_transposed_in_each_scope():
    @T.prim_func
    def f(A: F32[24, 40], B: F32[40, 24], C: F32[40, 24]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((24, 40), "float32")
            t = T.alloc_shared((40, 24), "float32")
            x = T.alloc_fragment((24, 40), "float32")
            T.copy(A, s)
            T.transpose(s, t)
            T.copy(t, B)
            T.copy(A, x)
            for i, j in T.Parallel(24, 40):
                C[j, i] = x[i, j]

    a = np.arange(960, dtype=F).reshape(24, 40)
    return f, [a, Out(a.T.copy()), Out(a.T.copy())]


@program()
def strided_tensors_of_the_host():
    @T.prim_func
    def f(
        A: T.StridedTensor((6, 8), (32, 2), "float32"),
        B: T.StridedTensor((6, 8), (1, 6), "float32"),
    ):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((6, 8), "float32")
            T.copy(A, x)
            for i, j in T.Parallel(6, 8):
                x[i, j] = x[i, j] + i
            T.copy(x, B)

    base = np.arange(6 * 32, dtype=F).reshape(6, 32)
    a = base[:, 0:16:2]
    want = np.asfortranarray(a + np.arange(6, dtype=F)[:, None])
    out = np.asfortranarray(np.zeros((6, 8), F))

    def run(options):
        import tilelang

        tilelang.compile(f, **options)(a, out)
        Out(want).check("B", out)

    return run


@program()
def strides_that_each_call_chooses():
    import tilelang

    n, m, s = T.dynamic("n"), T.dynamic("m"), T.dynamic("s")

    @T.prim_func
    def f(A: T.StridedTensor((n, m), (s, 1), "float32"), B: F32[m]):
        with T.Kernel(m, threads=32) as j:
            v = T.alloc_var("float32", 0.0)
            for i in T.serial(n):
                v += A[i, j]
            B[j] = v

    def run(options):
        kernel = tilelang.compile(f, **options)
        for rows, columns, width in ((3, 5, 5), (7, 4, 9), (1, 1, 1), (20, 3, 64)):
            base = np.arange(rows * width, dtype=F).reshape(rows, width)
            a = base[:, :columns]
            b = np.zeros(columns, F)
            kernel(a, b)
            Out(a.sum(0, dtype=F)).check(f"{rows} x {columns} of {width}", b)

    return run


@program()
def a_transposed_product_of_strided_tiles():
    @T.prim_func
    def f(A: T.StridedTensor((32, 16), (1, 32), "float16"), B: F16[32, 16], C: F32[32, 32]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 16), "float16")
            b = T.alloc_shared((32, 16), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    import tilelang

    rng = np.random.default_rng(3)
    a = np.asfortranarray(rng.integers(-4, 5, (32, 16)).astype(H))
    b = rng.integers(-4, 5, (32, 16)).astype(H)

    def run(options):
        c = np.zeros((32, 32), F)
        tilelang.compile(f, **options)(a, b, c)
        Out(a.astype(F) @ b.astype(F).T).check("C", c)

    return run


@program()
def a_layout_that_reverses_rows_is_not_seen():
    @T.prim_func
    def f(A: F32[16, 32], B: F32[32, 16]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((16, 32), "float32")
            T.annotate_layout({s: T.Layout((16, 32), lambda i, j: (15 - i, (j + i) % 32))})
            T.copy(A, s)
            for i, j in T.Parallel(32, 16):
                B[i, j] = s[j, i] * 2

    a = np.arange(512, dtype=F).reshape(16, 32)
    return f, [a, Out(a.T * 2)]


@program()
def a_column_major_layout_with_slices():
    @T.prim_func
    def f(A: F16[16, 16], B: F16[4, 16]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16, 16), "float16")
            T.annotate_layout({s: T.Layout((16, 16), lambda i, j: j * 16 + i)})
            T.copy(A, s)
            x = T.alloc_fragment((4, 16), "float16")
            T.copy(s[4:8, :], x)
            T.copy(x, B)

    a = np.arange(256).astype(H).reshape(16, 16)
    return f, [a, Out(a[4:8])]


@program()
def a_fragment_layout_with_replicas():
    @T.prim_func
    def f(A: F32[32], B: F32[32, 8]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((32,), "float32")
            T.annotate_layout({x: T.Fragment((32,), lambda i, r: (i + r * 32, 0), replicate=2)})
            T.copy(A, x)
            for i in T.Parallel(32):
                x[i] = x[i] * 3
            for i, j in T.Parallel(32, 8):
                B[i, j] = x[i] + j

    a = np.arange(32, dtype=F)
    return f, [a, Out(a[:, None] * 3 + np.arange(8, dtype=F))]


@program()
def a_fragment_with_a_scattered_layout():
    @T.prim_func
    def f(A: F32[16, 16], B: F32[16, 16], R: F32[16]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((16, 16), "float32")
            r = T.alloc_fragment((16,), "float32")
            T.annotate_layout(
                {x: T.Fragment((16, 16), lambda i, j: (j % 8 * 8 + i % 8, i // 8 * 2 + j // 8))}
            )
            T.copy(A, x)
            T.reduce_sum(x, r, dim=0)
            for i, j in T.Parallel(16, 16):
                x[i, j] = x[i, j] - r[j]
            T.copy(x, B)
            T.copy(r, R)

    a = np.random.default_rng(4).integers(-9, 9, (16, 16)).astype(F)
    return f, [a, Out(a - a.sum(0)), Out(a.sum(0))]


@program()
def the_planes_of_a_tile_of_three_dimensions():
    @T.prim_func
    def f(A: F32[3, 16, 16], B: F32[16, 16]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((3, 16, 16), "float32")
            x = T.alloc_fragment((16, 16), "float32")
            y = T.alloc_fragment((16, 16), "float32")
            T.copy(A, s)
            T.clear(y)
            for k in T.serial(3):
                T.copy(s[k, :, :], x)
                for i, j in T.Parallel(16, 16):
                    y[i, j] = y[i, j] * 2 + x[i, j]
            T.copy(y, B)

    a = np.random.default_rng(5).integers(-9, 9, (3, 16, 16)).astype(F)
    return f, [a, Out(a[0] * 4 + a[1] * 2 + a[2])]


@program()
def a_product_of_slices_of_larger_tiles():
    @T.prim_func
    def f(A: F16[2, 32, 32], B: F16[64, 32], C: F32[32, 32]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((2, 32, 32), "float16")
            b = T.alloc_shared((64, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            for k in T.serial(2):
                T.gemm(a[k, :, :], b[k * 32 : (k + 1) * 32, :], c)
            T.copy(c, C)

    rng = np.random.default_rng(6)
    a = rng.integers(-4, 5, (2, 32, 32)).astype(H)
    b = rng.integers(-4, 5, (64, 32)).astype(H)
    a32, b32 = a.astype(F), b.astype(F)
    return f, [a, b, Out(a32[0] @ b32[:32] + a32[1] @ b32[32:])]


@program()
def the_same_bits_as_smaller_integers():
    @T.prim_func
    def f(A: I32[32], B: I16[64], C: I8[128]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32,), "int32")
            T.copy(A, s)
            T.copy(T.view(s, (64,), "int16"), B)
            c = T.view(s, (128,), "int8")
            for i in T.Parallel(128):
                C[i] = c[i]

    a = (np.arange(32, dtype=np.int64) * 0x01F3A7C5 % 2**31).astype(I)
    return f, [a, Out(a.view("<i2")), Out(a.view(np.int8))]


@program()
def a_view_inside_a_pipelined_loop():
    @T.prim_func
    def f(A: F32[4, 256], B: F32[16, 16]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((256,), "float32")
            acc = T.alloc_fragment((16, 16), "float32")
            T.clear(acc)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k, 0], s)
                v = T.reshape(s, (16, 16))
                for i, j in T.Parallel(16, 16):
                    acc[i, j] += v[j, i]
            T.copy(acc, B)

    a = np.arange(1024, dtype=F).reshape(4, 256)
    return f, [a, Out(a.sum(0).reshape(16, 16).T.copy())]


@program()
def rows_and_columns_of_a_fragment_read_apart():
    @T.prim_func
    def f(A: F32[16, 32], B: F32[16], C: F32[32]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((16, 32), "float32")
            T.copy(A, x)
            for i in T.Parallel(16):
                B[i] = x[i, 5] + x[i, 31]
            for j in T.Parallel(32):
                C[j] = x[0, j] - x[15, j]

    a = np.random.default_rng(7).integers(-9, 9, (16, 32)).astype(F)
    return f, [a, Out(a[:, 5] + a[:, 31]), Out(a[0] - a[15])]


@program()
def overlapping_parts_of_one_tile_moved_through_registers():
    @T.prim_func
    def f(A: I32[40], B: I32[40]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((40,), "int32")
            x = T.alloc_fragment((30,), "int32")
            T.copy(A, s)
            T.copy(s[0:30], x)
            T.copy(x, s[7:37])
            T.copy(s, B)

    a = np.arange(40, dtype=I)
    want = a.copy()
    want[7:37] = a[:30]
    return f, [a, Out(want)]


@program()
def a_view_of_a_swizzled_tile():
    @T.prim_func
    def f(A: F16[32, 64], B: F16[64, 32]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((32, 64), "float16")
            T.annotate_layout({s: make_swizzled_layout(s)})
            T.copy(A, s)
            v = T.reshape(s, (64, 32))
            T.copy(v, B)

    a = np.arange(2048, dtype=I).astype(H).reshape(32, 64)
    return f, [a, Out(a.reshape(64, 32))]


@program()
def a_view_of_a_padded_tile_written_and_read():
    @T.prim_func
    def f(A: F16[16, 64], B: F16[16, 64]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((16, 64), "float16")
            T.annotate_layout({s: make_padded_layout(s)})
            v = T.reshape(s, (4, 4, 64))
            T.copy(A, s)
            for i, j, k in T.Parallel(4, 4, 64):
                v[i, j, k] = v[i, j, k] * 2
            T.copy(s, B)

    a = (np.arange(1024) % 500).astype(H).reshape(16, 64)
    return f, [a, Out(a * H(2))]


@program()
def a_fragment_with_a_layout_of_its_own_reduced_through_a_view():
    @T.prim_func
    def f(A: F32[8, 128], B: F32[8, 4]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((8, 128), "float32")
            m = T.alloc_fragment((8, 4), "float32")
            T.annotate_layout(
                {
                    x: T.Fragment(
                        (8, 128),
                        lambda i, j: ((i * 128 + j) // 2 % 64, (i * 128 + j) // 128 * 2 + j % 2),
                    )
                }
            )
            T.copy(A, x)
            v = T.reshape(x, (8, 4, 32))
            T.reduce_sum(v, m, dim=2)
            T.copy(m, B)

    a = np.random.default_rng(1).integers(-9, 9, (8, 128)).astype(F)
    return f, [a, Out(a.reshape(8, 4, 32).sum(2))]


@program()
def a_view_of_a_local_array_in_other_words():
    @T.prim_func
    def f(A: U8[32, 4], B: U32[32]):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            bytes_ = T.alloc_local((4,), "uint8")
            word = T.view(bytes_, (1,), "uint32")
            for j in T.serial(4):
                bytes_[j] = A[t, j] + 1
            B[t] = word[0]

    a = np.random.default_rng(2).integers(0, 255, (32, 4)).astype(np.uint8)
    return f, [a, Out((a + 1).view("<u4").reshape(-1))]
