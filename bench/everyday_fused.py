"""Everyday kernels: norms with what comes before them, gradients, losses and samples of rows."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from typing import Any

from everyday_family import Program, family

import tilelang.language as T


@family((8192, 4096, "bfloat16"), (4096, 2048, "float16"), small=(6, 256, "bfloat16"))
def add_rms_norm(rows: int, columns: int, dtype: str) -> Program:
    """The sum of a row and its residual is stored, and its root mean square norm."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, columns), dtype),
            R: T.Tensor((rows, columns), dtype),
            W: T.Tensor((columns,), dtype),
            S: T.Tensor((rows, columns), dtype),
            Y: T.Tensor((rows, columns), dtype),
        ):
            with T.Kernel(rows, threads=256) as row:
                x = T.alloc_fragment((columns,), "float32")
                square = T.alloc_fragment((columns,), "float32")
                total = T.alloc_fragment((1,), "float32")
                for j in T.Parallel(columns):
                    x[j] = T.cast(X[row, j], "float32") + T.cast(R[row, j], "float32")
                    S[row, j] = T.cast(x[j], dtype)
                    square[j] = x[j] * x[j]
                T.reduce_sum(square, total, dim=0)
                scale = T.rsqrt(total[0] / columns + 1e-6)
                for j in T.Parallel(columns):
                    Y[row, j] = T.cast(x[j] * scale * T.cast(W[j], "float32"), dtype)

        return kernel

    def reference(x: Any, r: Any, w: Any, _: Any) -> Any:
        y = x.float() + r.float()
        return (y * ((y * y).mean(-1, keepdim=True) + 1e-6).rsqrt() * w.float()).to(x.dtype)

    return Program(
        build,
        lambda normal, integers: [
            normal(rows, columns, dtype=dtype), normal(rows, columns, dtype=dtype),
            normal(columns, dtype=dtype), normal(rows, columns, dtype=dtype),
        ],
        reference,
        tolerance=6e-2,
    )  # fmt: skip


@family((4096, 8192, "bfloat16"), (8192, 2816, "float16"), small=(4, 256, "bfloat16"))
def geglu_gradient(rows: int, columns: int, dtype: str) -> Program:
    """The gradients of gelu(g) u by tanh, side by side."""

    def build():
        @T.prim_func
        def kernel(
            D: T.Tensor((rows, columns), dtype),
            G: T.Tensor((rows, columns), dtype),
            U: T.Tensor((rows, columns), dtype),
            Y: T.Tensor((rows, 2 * columns), dtype),
        ):
            with T.Kernel(T.ceildiv(columns, 1024), rows, threads=128) as (bx, row):
                for j in T.Parallel(1024):
                    at = bx * 1024 + j
                    if at < columns:
                        d = T.cast(D[row, at], "float32")
                        g = T.cast(G[row, at], "float32")
                        u = T.cast(U[row, at], "float32")
                        t = T.tanh(0.7978845608 * (g + 0.044715 * g * g * g))
                        slope = 0.7978845608 * (1.0 + 3 * 0.044715 * g * g)
                        inner = 0.5 * (1.0 + t) + 0.5 * g * (1.0 - t * t) * slope
                        Y[row, at] = T.cast(d * u * inner, dtype)
                        Y[row, columns + at] = T.cast(d * 0.5 * g * (1.0 + t), dtype)

        return kernel

    def reference(d: Any, g: Any, u: Any) -> Any:
        import torch

        d, g, u = d.float(), g.float(), u.float()
        t = (0.7978845608 * (g + 0.044715 * g**3)).tanh()
        slope = 0.7978845608 * (1 + 3 * 0.044715 * g * g)
        left = d * u * (0.5 * (1 + t) + 0.5 * g * (1 - t * t) * slope)
        return torch.cat((left, d * 0.5 * g * (1 + t)), 1).to(getattr(torch, dtype))

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns, dtype=dtype) for _ in range(3)],
        reference,
    )


@family(
    (64, 128, 4096, 64, "float32"),
    (32, 512, 2048, 32, "bfloat16"),
    small=(2, 32, 64, 32, "float32"),
)
def softmax_over_middle(batch: int, length: int, channels: int, block: int, dtype: str) -> Program:
    """The softmax over the second of three dimensions."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((batch, length, channels), dtype),
            Y: T.Tensor((batch, length, channels), dtype),
        ):
            with T.Kernel(channels // block, batch, threads=128) as (bx, by):
                x = T.alloc_fragment((length, block), "float32")
                high = T.alloc_fragment((block,), "float32")
                total = T.alloc_fragment((block,), "float32")
                T.copy(X[by, 0:length, bx * block : (bx + 1) * block], x)
                T.reduce_max(x, high, dim=0)
                for i, j in T.Parallel(length, block):
                    x[i, j] = T.exp(x[i, j] - high[j])
                T.reduce_sum(x, total, dim=0)
                for i, j in T.Parallel(length, block):
                    x[i, j] = x[i, j] / total[j]
                T.copy(x, Y[by, 0:length, bx * block : (bx + 1) * block])

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(batch, length, channels, dtype=dtype)],
        lambda x: x.float().softmax(1).to(x.dtype),
    )


@family((8192, 4096, 1, "bfloat16"), (16384, 1024, 4, "float32"), small=(8, 256, 4, "bfloat16"))
def layer_norm_gradient(rows: int, columns: int, block: int, dtype: str) -> Program:
    """The gradient of the elements, from the mean and the deviation of each row."""

    def build():
        @T.prim_func
        def kernel(
            D: T.Tensor((rows, columns), dtype),
            X: T.Tensor((rows, columns), dtype),
            W: T.Tensor((columns,), dtype),
            M: T.Tensor((rows,), "float32"),
            R: T.Tensor((rows,), "float32"),
            Y: T.Tensor((rows, columns), dtype),
        ):
            with T.Kernel(rows // block, threads=256) as bx:
                g = T.alloc_fragment((block, columns), "float32")
                x = T.alloc_fragment((block, columns), "float32")
                both = T.alloc_fragment((block, columns), "float32")
                first = T.alloc_fragment((block,), "float32")
                second = T.alloc_fragment((block,), "float32")
                for i, j in T.Parallel(block, columns):
                    row = bx * block + i
                    x[i, j] = (T.cast(X[row, j], "float32") - M[row]) * R[row]
                    g[i, j] = T.cast(D[row, j], "float32") * T.cast(W[j], "float32")
                    both[i, j] = g[i, j] * x[i, j]
                T.reduce_sum(g, first, dim=1)
                T.reduce_sum(both, second, dim=1)
                for i, j in T.Parallel(block, columns):
                    row = bx * block + i
                    part = (first[i] + x[i, j] * second[i]) / columns
                    Y[row, j] = T.cast((g[i, j] - part) * R[row], dtype)

        return kernel

    def reference(d: Any, x: Any, w: Any, m: Any, r: Any) -> Any:
        n = (x.float() - m[:, None]) * r[:, None]
        g = d.float() * w.float()
        part = g.mean(-1, keepdim=True) + n * (g * n).mean(-1, keepdim=True)
        return ((g - part) * r[:, None]).to(x.dtype)

    return Program(
        build,
        lambda normal, integers: [
            normal(rows, columns, dtype=dtype), normal(rows, columns, dtype=dtype),
            normal(columns, dtype=dtype), normal(rows) * 0.1, normal(rows).abs() * 0.1 + 1,
        ],
        reference,
        tolerance=4e-2,
    )  # fmt: skip


@family((8192, 3072), small=(3, 256))
def dropout_residual_norm(rows: int, columns: int) -> Program:
    """What a mask of bytes keeps, plus the residual, normalized; the sum is stored as well."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, columns), "float16"),
            K: T.Tensor((rows, columns), "uint8"),
            R: T.Tensor((rows, columns), "float16"),
            W: T.Tensor((columns,), "float16"),
            B: T.Tensor((columns,), "float16"),
            S: T.Tensor((rows, columns), "float16"),
            Y: T.Tensor((rows, columns), "float16"),
        ):
            with T.Kernel(rows, threads=128) as row:
                x = T.alloc_fragment((1, columns), "float32")
                square = T.alloc_fragment((1, columns), "float32")
                mean = T.alloc_fragment((1,), "float32")
                var = T.alloc_fragment((1,), "float32")
                for i, j in T.Parallel(1, columns):
                    kept = T.if_then_else(K[row, j] != 0, T.cast(X[row, j], "float32") / 0.9, 0.0)
                    x[i, j] = kept + T.cast(R[row, j], "float32")
                for i, j in T.Parallel(1, columns):
                    S[row, j] = x[i, j]
                T.reduce_sum(x, mean, dim=1)
                for i, j in T.Parallel(1, columns):
                    x[i, j] = x[i, j] - mean[i] / columns
                for i, j in T.Parallel(1, columns):
                    square[i, j] = x[i, j] * x[i, j]
                T.reduce_sum(square, var, dim=1)
                for i, j in T.Parallel(1, columns):
                    Y[row, j] = x[i, j] * T.rsqrt(var[i] / columns + 1e-5) * W[j] + B[j]

        return kernel

    def reference(x: Any, k: Any, r: Any, w: Any, b: Any, _: Any) -> Any:
        import torch

        y = x.float() / 0.9 * (k != 0) + r.float()
        return torch.nn.functional.layer_norm(y, (columns,), w.float(), b.float()).half()

    return Program(
        build,
        lambda normal, integers: [
            normal(rows, columns, dtype="float16"), (integers(10, rows, columns) != 0).byte(),
            normal(rows, columns, dtype="float16"), normal(columns, dtype="float16"),
            normal(columns, dtype="float16"), normal(rows, columns, dtype="float16"),
        ],
        reference,
        tolerance=6e-2,
    )  # fmt: skip


@family((8192, 32, 128), small=(4, 8, 64))
def norm_of_heads(tokens: int, heads: int, dim: int) -> Program:
    """A root mean square norm of each head, in float32 with weights of one plus w."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((tokens, heads, dim), "bfloat16"),
            W: T.Tensor((dim,), "bfloat16"),
            Y: T.Tensor((tokens, heads, dim), "bfloat16"),
        ):
            with T.Kernel(tokens, threads=128) as token:
                x = T.alloc_fragment((heads, dim), "float32")
                square = T.alloc_fragment((heads, dim), "float32")
                total = T.alloc_fragment((heads,), "float32")
                T.copy(X[token, :, :], x)
                for i, j in T.Parallel(heads, dim):
                    square[i, j] = x[i, j] * x[i, j]
                T.reduce_sum(square, total, dim=1)
                for i, j in T.Parallel(heads, dim):
                    x[i, j] *= T.rsqrt(total[i] / dim + 1e-6) * (1.0 + T.cast(W[j], "float32"))
                T.copy(x, Y[token, :, :])

        return kernel

    def reference(x: Any, w: Any) -> Any:
        y = x.float()
        return (y * ((y * y).mean(-1, keepdim=True) + 1e-6).rsqrt() * (1 + w.float())).bfloat16()

    return Program(
        build,
        lambda normal, integers: [
            normal(tokens, heads, dim, dtype="bfloat16"), normal(dim, dtype="bfloat16"),
        ],
        reference,
        tolerance=6e-2,
    )  # fmt: skip


@family((65536, 512), small=(300, 24))
def nll_loss(rows: int, classes: int) -> Program:
    """The weighted loss of each row; labels of -100 are left out."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, classes), "float32"),
            L: T.Tensor((rows,), "int64"),
            W: T.Tensor((classes,), "float32"),
            Y: T.Tensor((rows,), "float32"),
        ):
            with T.Kernel(T.ceildiv(rows, 256), threads=256) as bx:
                for i in T.Parallel(256):
                    row = bx * 256 + i
                    if row < rows:
                        label = L[row]
                        if label == -100:
                            Y[row] = 0.0
                        else:
                            Y[row] = -X[row, label] * W[label]

        return kernel

    def reference(x: Any, label: Any, w: Any) -> Any:
        import torch

        return torch.nn.functional.nll_loss(x, label, w, reduction="none")

    def inputs(normal: Any, integers: Any) -> list[Any]:
        label = integers(classes, rows).long()
        return [
            normal(rows, classes), label.masked_fill(integers(5, rows) == 0, -100),
            normal(classes).abs(),
        ]  # fmt: skip

    return Program(build, inputs, reference)


@family((8192, 32000, 2048), small=(5, 300, 128))
def divergence_ignored(rows: int, words: int, tile: int) -> Program:
    """KL of log probabilities, over tiles; rows of an ignored label take no time and give 0."""

    def build():
        @T.prim_func
        def kernel(
            P: T.Tensor((rows, words), "bfloat16"),
            Q: T.Tensor((rows, words), "bfloat16"),
            L: T.Tensor((rows,), "int32"),
            Y: T.Tensor((rows,), "float32"),
        ):
            with T.Kernel(rows, threads=256) as row:
                sums = T.alloc_fragment((tile,), "float32")
                total = T.alloc_fragment((1,), "float32")
                T.clear(sums)
                if L[row] >= 0:
                    for t in T.serial(T.ceildiv(words, tile)):
                        for j in T.Parallel(tile):
                            at = t * tile + j
                            if at < words:
                                p = T.cast(P[row, at], "float32")
                                q = T.cast(Q[row, at], "float32")
                                sums[j] += T.exp(p) * (p - q)
                T.reduce_sum(sums, total, dim=0)
                Y[row] = total[0]

        return kernel

    def reference(p: Any, q: Any, label: Any) -> Any:
        p, q = p.float(), q.float()
        return (p.exp() * (p - q)).sum(1) * (label >= 0)

    def inputs(normal: Any, integers: Any) -> list[Any]:
        return [
            normal(rows, words).log_softmax(-1).bfloat16(),
            normal(rows, words).log_softmax(-1).bfloat16(), integers(8, rows) - 1,
        ]  # fmt: skip

    return Program(build, inputs, reference)


@family((8192, 7168), (16384, 2048), small=(3, 256))
def token_e4m3(tokens: int, columns: int) -> Program:
    """Rows in e4m3 by their largest element; the row waits in shared memory."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((tokens, columns), "bfloat16"),
            S: T.Tensor((tokens,), "float32"),
            Y: T.Tensor((tokens, columns), "float8_e4m3fn"),
        ):
            with T.Kernel(tokens, threads=256) as row:
                held = T.alloc_shared((1, columns), "bfloat16")
                x = T.alloc_fragment((1, columns), "float32")
                high = T.alloc_fragment((1,), "float32")
                T.copy(X[row, 0], held)
                T.copy(held, x)
                T.reduce_absmax(x, high, dim=1)
                for i in T.Parallel(1):
                    high[i] = T.max(high[i], 1e-10) / 448.0
                    S[row + i] = high[i]
                for i, j in T.Parallel(1, columns):
                    y = T.cast(held[i, j], "float32") / high[i]
                    Y[row, j] = T.cast(T.clamp(y, -448.0, 448.0), "float8_e4m3fn")

        return kernel

    def reference(x: Any, _: Any) -> Any:
        import torch

        y = x.float()
        return (y / (y.abs().amax(1, keepdim=True) / 448.0)).to(torch.float8_e4m3fn)

    return Program(
        build,
        lambda normal, integers: [normal(tokens, columns, dtype="bfloat16"), normal(tokens)],
        reference,
        tolerance=8e-2,
    )


@family((4096, 4096), small=(3, 256))
def sample(rows: int, columns: int) -> Program:
    """The first column at which the running sum of probabilities passes a number of the row."""

    def build():
        @T.prim_func
        def kernel(
            P: T.Tensor((rows, columns), "float32"),
            U: T.Tensor((rows,), "float32"),
            Y: T.Tensor((rows,), "int32"),
        ):
            with T.Kernel(rows, threads=256) as row:
                p = T.alloc_shared((1, columns), "float32")
                below = T.alloc_fragment((1, columns), "int32")
                count = T.alloc_fragment((1,), "int32")
                T.copy(P[row, 0], p)
                T.cumsum(p, dim=1)
                for i, j in T.Parallel(1, columns):
                    below[i, j] = T.if_then_else(p[i, j] < U[row], 1, 0)
                T.reduce_sum(below, count, dim=1)
                Y[row] = T.min(count[0], columns - 1)

        return kernel

    def reference(p: Any, u: Any) -> Any:
        return (p.cumsum(1) < u[:, None]).sum(1).clamp(max=columns - 1).int()

    def inputs(normal: Any, integers: Any) -> list[Any]:
        return [normal(rows, columns).softmax(-1), normal(rows).sigmoid()]

    return Program(build, inputs, reference)


@family((4096, 1024), small=(2, 64))
def argsort(rows: int, columns: int) -> Program:
    """A bitonic network in shared memory over keys and positions; equal keys by position."""
    steps = columns.bit_length() - 1

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, columns), "float32"), Y: T.Tensor((rows, columns), "int32")):
            with T.Kernel(rows, threads=256) as row:
                keys = T.alloc_shared((columns,), "float32")
                order = T.alloc_shared((columns,), "int32")
                for j in T.Parallel(columns):
                    keys[j] = X[row, j]
                    order[j] = j
                for p in T.serial(steps):
                    for q in T.serial(p + 1):
                        for i in T.Parallel(columns // 2):
                            gap = 1 << (p - q)
                            low = (i // gap) * 2 * gap + i % gap
                            high = low + gap
                            a = keys[low]
                            b = keys[high]
                            m = order[low]
                            n = order[high]
                            more = T.if_then_else(a == b, m > n, a > b)
                            if more == ((low >> (p + 1)) % 2 == 0):
                                keys[low] = b
                                keys[high] = a
                                order[low] = n
                                order[high] = m
                for j in T.Parallel(columns):
                    Y[row, j] = order[j]

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns)],
        lambda x: x.sort(dim=1, stable=True).indices.int(),
        tolerance=0.0,
    )


@family((32, 1024, 1024, 32), small=(1, 64, 64, 32))
def running_sums_of_columns(batch: int, rows: int, columns: int, block: int) -> Program:
    """Running sums along the rows, tile after tile, with what came before."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((batch, rows, columns), "float32"),
            Y: T.Tensor((batch, rows, columns), "float32"),
        ):
            with T.Kernel(columns // block, batch, threads=128) as (bx, by):
                x = T.alloc_shared((32, block), "float32")
                before = T.alloc_fragment((block,), "float32")
                T.clear(before)
                for t in T.serial(rows // 32):
                    T.copy(X[by, t * 32, bx * block], x)
                    T.cumsum(x, dim=0)
                    for i, j in T.Parallel(32, block):
                        Y[by, t * 32 + i, bx * block + j] = x[i, j] + before[j]
                    for j in T.Parallel(block):
                        before[j] += x[31, j]

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(batch, rows, columns)],
        lambda x: x.cumsum(1),
    )


@family((65536, 512, "float16"), small=(32, 64, "float16"))
def dots_of_rows(rows: int, columns: int, dtype: str) -> Program:
    """The product of each row of one matrix with that of another: the delta of attention."""

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((rows, columns), dtype),
            B: T.Tensor((rows, columns), dtype),
            Y: T.Tensor((rows,), "float32"),
        ):
            with T.Kernel(rows // 32, threads=128) as bx:
                a = T.alloc_fragment((32, 64), dtype)
                b = T.alloc_fragment((32, 64), dtype)
                sums = T.alloc_fragment((32, 64), "float32")
                total = T.alloc_fragment((32,), "float32")
                T.clear(sums)
                for t in range(columns // 64):
                    T.copy(A[bx * 32 : bx * 32 + 32, t * 64 : t * 64 + 64], a)
                    T.copy(B[bx * 32 : bx * 32 + 32, t * 64 : t * 64 + 64], b)
                    for i, j in T.Parallel(32, 64):
                        sums[i, j] += T.cast(a[i, j], "float32") * T.cast(b[i, j], "float32")
                T.reduce_sum(sums, total, dim=1)
                T.copy(total, Y[bx * 32 : bx * 32 + 32])

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns, dtype=dtype) for _ in range(2)],
        lambda a, b: (a.float() * b.float()).sum(1),
    )
