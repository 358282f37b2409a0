"""Everyday kernels of other shapes, dtypes and spellings than those that any pass was tried on.

Each is written as users write it, with names that PyPI's tilelang has too. ``bench/everyday.py``
measures them.
"""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tilelang.language as T


@dataclass(frozen=True)
class Program:
    """One kernel.

    Attributes:
        build: gives the traced function.
        inputs: of a device, gives the tensors that it reads.
        reference: the same by torch.
        operations: additions and multiplications of products; 0 where memory bounds the kernel.
        tolerance: of the largest element.
    """

    build: Callable[[], Any]
    inputs: Callable[[Callable[..., Any], Callable[..., Any]], list[Any]]
    reference: Callable[..., Any]
    operations: int = 0
    tolerance: float = 2e-2


PROGRAMS: dict[str, Program] = {}


def add(name: str, build: Any, inputs: Any, reference: Any, **more: Any) -> None:
    """Enter a program."""
    PROGRAMS[name] = Program(build, inputs, reference, **more)


# -- rows ----------------------------------------------------------------------------------------
def softmax(rows: int, columns: int, dtype: str, block: int, threads: int):
    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype)):
            with T.Kernel(T.ceildiv(rows, block), threads=threads) as bx:
                x = T.alloc_fragment((block, columns), "float32")
                high = T.alloc_fragment((block,), "float32")
                total = T.alloc_fragment((block,), "float32")
                T.copy(X[bx * block, 0], x)
                T.reduce_max(x, high, dim=1)
                for i, j in T.Parallel(block, columns):
                    x[i, j] = T.exp(x[i, j] - high[i])
                T.reduce_sum(x, total, dim=1)
                for i, j in T.Parallel(block, columns):
                    x[i, j] = x[i, j] / total[i]
                T.copy(x, Y[bx * block, 0])

        return kernel

    return build


for rows, columns, dtype, block, threads in (
    (4096, 1024, "float16", 4, 128),
    (8192, 512, "float32", 8, 256),
    (2048, 4096, "bfloat16", 1, 256),
    (6000, 384, "float32", 8, 128),
):
    add(
        f"softmax_{rows}x{columns}_{dtype}",
        softmax(rows, columns, dtype, block, threads),
        lambda normal, integers, r=rows, c=columns, d=dtype: [normal(r, c, dtype=d)],
        lambda x: x.float().softmax(-1).to(x.dtype),
    )


def norm(rows: int, columns: int, tile: int, centered: bool):
    """Layer or root mean square normalization; ``tile`` need not divide the length."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, columns), "bfloat16"),
            W: T.Tensor((columns,), "bfloat16"),
            Y: T.Tensor((rows, columns), "bfloat16"),
        ):
            with T.Kernel(rows, threads=256) as row:
                x = T.alloc_fragment((1, tile), "float32")
                square = T.alloc_fragment((1, tile), "float32")
                mean = T.alloc_fragment((1,), "float32")
                var = T.alloc_fragment((1,), "float32")
                for i, j in T.Parallel(1, tile):
                    x[i, j] = T.if_then_else(j < columns, T.cast(X[row, j], "float32"), 0.0)
                T.reduce_sum(x, mean, dim=1)
                for i in T.Parallel(1):
                    mean[i] = mean[i] / columns if centered else 0.0
                for i, j in T.Parallel(1, tile):
                    d = x[i, j] - mean[i]
                    square[i, j] = T.if_then_else(j < columns, d * d, 0.0)
                T.reduce_sum(square, var, dim=1)
                for i, j in T.Parallel(1, tile):
                    if j < columns:
                        y = (x[i, j] - mean[i]) * T.rsqrt(var[i] / columns + 1e-5)
                        Y[row, j] = T.cast(y * T.cast(W[j], "float32"), "bfloat16")

        return kernel

    return build


def norm_reference(x: Any, w: Any, centered: bool) -> Any:
    y = x.float()
    y = y - y.mean(-1, keepdim=True) if centered else y
    return (y * ((y * y).mean(-1, keepdim=True) + 1e-5).rsqrt() * w.float()).to(x.dtype)


for rows, columns, tile, centered in (
    (4096, 2048, 2048, False),
    (4096, 3000, 3072, True),
    (2048, 5120, 5120, True),
    (8192, 1000, 1024, False),
):
    add(
        f"{'layer' if centered else 'rms'}_norm_{rows}x{columns}",
        norm(rows, columns, tile, centered),
        lambda normal, integers, r=rows, c=columns: [
            normal(r, c, dtype="bfloat16"), normal(c, dtype="bfloat16"),
        ],
        lambda x, w, centered=centered: norm_reference(x, w, centered),
        tolerance=6e-2,
    )  # fmt: skip


def scan(rows: int, columns: int, block: int, dtype: str):
    """Running sums, tile after tile, by the scan of a tile."""

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype)):
            with T.Kernel(rows // block, threads=128) as bx:
                s = T.alloc_shared((block, 256), "float32")
                x = T.alloc_fragment((block, 256), "float32")
                carry = T.alloc_fragment((block,), "float32")
                part = T.alloc_fragment((block,), "float32")
                T.clear(carry)
                for t in T.serial(columns // 256):
                    T.copy(X[bx * block, t * 256], x)
                    T.reduce_sum(x, part, dim=1)
                    T.copy(x, s)
                    T.cumsum(s, dim=1)
                    for i, j in T.Parallel(block, 256):
                        Y[bx * block + i, t * 256 + j] = T.cast(s[i, j] + carry[i], dtype)
                    for i in T.Parallel(block):
                        carry[i] = carry[i] + part[i]

        return kernel

    return build


for rows, columns, block, dtype in ((2048, 1024, 8, "float32"), (1024, 4096, 4, "float16")):
    add(
        f"scan_{rows}x{columns}_{dtype}",
        scan(rows, columns, block, dtype),
        lambda normal, integers, r=rows, c=columns, d=dtype: [normal(r, c, dtype=d) * 0.1],
        lambda x: x.float().cumsum(-1).to(x.dtype),
        tolerance=6e-2,
    )


def total(elements: int, dtype: str, kind: str):
    """A reduction to one number, a partial one of each block first."""
    tile = 4096
    blocks = elements // tile

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((elements,), dtype), Y: T.Tensor((blocks,), "float32")):
            with T.Kernel(blocks, threads=256) as bx:
                x = T.alloc_fragment((tile,), "float32")
                y = T.alloc_fragment((1,), "float32")
                T.copy(X[bx * tile], x)
                if kind == "max":
                    T.reduce_max(x, y, dim=0)
                else:
                    T.reduce_sum(x, y, dim=0)
                Y[bx] = y[0]

        return kernel

    return build


for elements, dtype, kind in ((1 << 24, "float32", "sum"), (1 << 23, "bfloat16", "max")):
    add(
        f"{kind}_of_{elements}_{dtype}",
        total(elements, dtype, kind),
        lambda normal, integers, n=elements, d=dtype: [normal(n, dtype=d)],
        lambda x, kind=kind: (
            x.float().view(-1, 4096).amax(-1) if kind == "max" else x.float().view(-1, 4096).sum(-1)
        ),
    )


# -- elements ------------------------------------------------------------------------------------
def gated(rows: int, columns: int, dtype: str, block: int):
    """silu(x) * y of the halves of a row."""

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, 2 * columns), dtype), Y: T.Tensor((rows, columns), dtype)):
            with T.Kernel(T.ceildiv(columns, block), rows, threads=128) as (bx, by):
                for j in T.Parallel(block):
                    at = bx * block + j
                    if at < columns:
                        g = T.cast(X[by, at], "float32")
                        u = T.cast(X[by, columns + at], "float32")
                        Y[by, at] = T.cast(g / (1.0 + T.exp(-g)) * u, dtype)

        return kernel

    return build


for rows, columns, dtype, block in (
    (4096, 4096, "bfloat16", 1024),
    (2048, 5504, "float16", 1024),
    (8192, 1377, "float16", 512),
):
    add(
        f"gated_{rows}x{columns}_{dtype}",
        gated(rows, columns, dtype, block),
        lambda normal, integers, r=rows, c=columns, d=dtype: [normal(r, 2 * c, dtype=d)],
        lambda x: (
            (x.chunk(2, -1)[0].float() * x.chunk(2, -1)[0].float().sigmoid()
             * x.chunk(2, -1)[1].float()).to(x.dtype)
        ),
    )  # fmt: skip


def rotary(tokens: int, heads: int, dim: int, dtype: str, interleaved: bool):
    """Rotary embedding; the partner is the neighbour or half a head away."""
    half = dim // 2

    def build():
        shape = (tokens, heads, dim)

        @T.prim_func
        def kernel(
            X: T.Tensor(shape, dtype),
            P: T.Tensor((tokens,), "int32"),
            C: T.Tensor((4096, half), "float32"),
            S: T.Tensor((4096, half), "float32"),
            Y: T.Tensor(shape, dtype),
        ):
            with T.Kernel(tokens, threads=128) as n:
                for h, d in T.Parallel(heads, half):
                    position = P[n]
                    c = C[position, d]
                    s = S[position, d]
                    first = 2 * d if interleaved else d
                    second = 2 * d + 1 if interleaved else d + half
                    x = T.cast(X[n, h, first], "float32")
                    y = T.cast(X[n, h, second], "float32")
                    Y[n, h, first] = T.cast(x * c - y * s, dtype)
                    Y[n, h, second] = T.cast(y * c + x * s, dtype)

        return kernel

    return build


def rotary_reference(x: Any, p: Any, c: Any, s: Any, interleaved: bool) -> Any:
    import torch

    c, s = c[p.long()][:, None], s[p.long()][:, None]
    half = x.shape[-1] // 2
    a = (x[..., 0::2] if interleaved else x[..., :half]).float()
    b = (x[..., 1::2] if interleaved else x[..., half:]).float()
    first, second = a * c - b * s, b * c + a * s
    out = (
        torch.stack((first, second), -1).flatten(-2)
        if interleaved
        else torch.cat((first, second), -1)
    )
    return out.to(x.dtype)


for tokens, heads, dim, dtype, interleaved in (
    (4096, 16, 128, "bfloat16", False),
    (8192, 8, 64, "float16", True),
):
    add(
        f"rotary_{tokens}x{heads}x{dim}_{'pairs' if interleaved else 'halves'}",
        rotary(tokens, heads, dim, dtype, interleaved),
        lambda normal, integers, t=tokens, h=heads, d=dim, k=dtype: [
            normal(t, h, d, dtype=k), integers(4096, t), normal(4096, d // 2), normal(4096, d // 2),
        ],
        lambda x, p, c, s, i=interleaved: rotary_reference(x, p, c, s, i),
        tolerance=6e-2,
    )  # fmt: skip


def transposed(rows: int, columns: int, dtype: str):
    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((columns, rows), dtype)):
            with T.Kernel(T.ceildiv(columns, 64), T.ceildiv(rows, 64), threads=256) as (bx, by):
                s = T.alloc_shared((64, 64), dtype)
                T.copy(X[by * 64, bx * 64], s)
                for i, j in T.Parallel(64, 64):
                    if bx * 64 + i < columns and by * 64 + j < rows:
                        Y[bx * 64 + i, by * 64 + j] = s[j, i]

        return kernel

    return build


for rows, columns, dtype in ((4096, 4096, "float32"), (3000, 2000, "float16")):
    add(
        f"transpose_{rows}x{columns}_{dtype}",
        transposed(rows, columns, dtype),
        lambda normal, integers, r=rows, c=columns, d=dtype: [normal(r, c, dtype=d)],
        lambda x: x.t().contiguous(),
    )


def mean_pool(batch: int, channels: int, size: int, window: int):
    out = size // window

    def build():
        image = (batch, channels, size, size)

        @T.prim_func
        def kernel(
            X: T.Tensor(image, "float16"),
            Y: T.Tensor((batch, channels, out, out), "float16"),
        ):
            with T.Kernel(T.ceildiv(batch * channels * out * out, 512), threads=256) as b:
                for t in T.Parallel(512):
                    at = b * 512 + t
                    if at < batch * channels * out * out:
                        column = at % out
                        row = at // out % out
                        plane = at // (out * out)
                        acc = T.alloc_var("float32")
                        acc = 0.0
                        for y in T.serial(window):
                            for x in T.serial(window):
                                acc = acc + T.cast(
                                    X[plane // channels, plane % channels,
                                      row * window + y, column * window + x], "float32"
                                )  # fmt: skip
                        Y[plane // channels, plane % channels, row, column] = T.cast(
                            acc / (window * window), "float16"
                        )

        return kernel

    return build


add(
    "mean_pool_2x2",
    mean_pool(32, 64, 112, 2),
    lambda normal, integers: [normal(32, 64, 112, 112, dtype="float16")],
    lambda x: x.float().view(32, 64, 56, 2, 56, 2).mean((3, 5)).half(),
)


# -- rows by number ------------------------------------------------------------------------------
def gather(rows: int, columns: int, out: int, dtype: str, guarded: bool):
    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, columns), dtype),
            I: T.Tensor((out,), "int32"),
            Y: T.Tensor((out, columns), dtype),
        ):
            with T.Kernel(T.ceildiv(out, 4), threads=128) as b:
                for r, j in T.Parallel(4, columns):
                    slot = b * 4 + r
                    row = I[slot]
                    if guarded:
                        Y[slot, j] = T.if_then_else(row >= 0, X[row, j], T.cast(0, dtype))
                    else:
                        Y[slot, j] = X[row, j]

        return kernel

    return build


for rows, columns, out, dtype, guarded in (
    (50000, 512, 16384, "float32", False),
    (30000, 768, 16384, "bfloat16", True),
):
    add(
        f"gather_{columns}_{dtype}{'_guarded' if guarded else ''}",
        gather(rows, columns, out, dtype, guarded),
        lambda normal, integers, r=rows, c=columns, o=out, d=dtype, g=guarded: [
            normal(r, c, dtype=d), integers(r, o) - (50 if g else 0) * (integers(2, o)),
        ],
        lambda x, i: (x[i.clamp(min=0).long()] * (i >= 0)[:, None]).to(x.dtype),
    )  # fmt: skip


# -- products ------------------------------------------------------------------------------------
def product(m: int, n: int, k: int, tile: tuple[int, int, int], stages: int, threads: int,
            dtype: str = "float16", scaled: bool = False):  # fmt: skip
    """A product with edges where tiles do not divide; ``scaled`` by rows and columns behind it."""
    tm, tn, tk = tile

    def build():
        @T.prim_func
        def kernel(
            A: T.Tensor((m, k), dtype),
            B: T.Tensor((n, k), dtype),
            R: T.Tensor((m,), "float32"),
            S: T.Tensor((n,), "float32"),
            C: T.Tensor((m, n), "bfloat16"),
        ):
            with T.Kernel(T.ceildiv(n, tn), T.ceildiv(m, tm), threads=threads) as (bx, by):
                a = T.alloc_shared((tm, tk), dtype)
                b = T.alloc_shared((tn, tk), dtype)
                c = T.alloc_fragment((tm, tn), "float32")
                T.clear(c)
                for t in T.Pipelined(T.ceildiv(k, tk), num_stages=stages):
                    T.copy(A[by * tm, t * tk], a)
                    T.copy(B[bx * tn, t * tk], b)
                    T.gemm(a, b, c, transpose_B=True)
                if scaled:
                    for i, j in T.Parallel(tm, tn):
                        c[i, j] = c[i, j] * R[by * tm + i] * S[bx * tn + j]
                T.copy(c, C[by * tm, bx * tn])

        return kernel

    return build


for m, n, k, tile, stages, threads, dtype, scaled in (
    (4096, 4096, 4096, (128, 128, 64), 3, 256, "bfloat16", False),
    (1000, 3000, 2000, (128, 128, 64), 3, 256, "float16", False),
    (256, 8192, 4096, (64, 128, 64), 4, 128, "float16", False),
    (4096, 2048, 2048, (128, 128, 128), 2, 256, "float8_e4m3fn", True),
    (2048, 2048, 8192, (128, 256, 64), 1, 256, "bfloat16", True),
    (4096, 4096, 1024, (64, 64, 32), 2, 128, "float16", False),
):
    add(
        f"product_{m}x{n}x{k}_{dtype}_{'x'.join(map(str, tile))}",
        product(m, n, k, tile, stages, threads, dtype, scaled),
        lambda normal, integers, m=m, n=n, k=k, d=dtype: [
            normal(m, k, dtype=d, scale=0.3), normal(n, k, dtype=d, scale=0.3),
            normal(m), normal(n),
        ],
        lambda a, b, r, s, scaled=scaled: (
            (a.float() @ b.float().T) * (r[:, None] * s if scaled else 1)
        ).bfloat16(),
        operations=2 * m * n * k,
        tolerance=6e-2,
    )  # fmt: skip


def attention(batch: int, heads: int, length: int, dim: int, rows: int, width: int, stages: int,
              causal: bool):  # fmt: skip
    scale = dim**-0.5 * 1.44269504

    def build():
        shape = (batch, length, heads, dim)

        @T.prim_func
        def kernel(
            Q: T.Tensor(shape, "bfloat16"),
            K: T.Tensor(shape, "bfloat16"),
            V: T.Tensor(shape, "bfloat16"),
            O: T.Tensor(shape, "bfloat16"),
        ):
            with T.Kernel(T.ceildiv(length, rows), heads, batch, threads=256) as (bx, by, bz):
                q = T.alloc_shared((rows, dim), "bfloat16")
                k = T.alloc_shared((width, dim), "bfloat16")
                v = T.alloc_shared((width, dim), "bfloat16")
                s = T.alloc_fragment((rows, width), "float32")
                p = T.alloc_fragment((rows, width), "bfloat16")
                o = T.alloc_fragment((rows, dim), "float32")
                high = T.alloc_fragment((rows,), "float32")
                before = T.alloc_fragment((rows,), "float32")
                part = T.alloc_fragment((rows,), "float32")
                total = T.alloc_fragment((rows,), "float32")
                T.copy(Q[bz, bx * rows : (bx + 1) * rows, by, :], q)
                T.clear(o)
                T.clear(total)
                T.fill(high, -T.infinity("float32"))
                end = T.ceildiv((bx + 1) * rows, width) if causal else T.ceildiv(length, width)
                for t in T.Pipelined(end, num_stages=stages):
                    T.copy(K[bz, t * width : (t + 1) * width, by, :], k)
                    if causal:
                        for i, j in T.Parallel(rows, width):
                            s[i, j] = T.if_then_else(
                                bx * rows + i >= t * width + j, 0, -T.infinity("float32")
                            )
                    else:
                        T.clear(s)
                    T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    T.copy(V[bz, t * width : (t + 1) * width, by, :], v)
                    T.copy(high, before)
                    T.reduce_max(s, high, dim=1, clear=False)
                    for i in T.Parallel(rows):
                        before[i] = T.exp2(before[i] * scale - high[i] * scale)
                    for i, j in T.Parallel(rows, width):
                        s[i, j] = T.exp2(s[i, j] * scale - high[i] * scale)
                    T.reduce_sum(s, part, dim=1)
                    for i in T.Parallel(rows):
                        total[i] = total[i] * before[i] + part[i]
                    for i, j in T.Parallel(rows, dim):
                        o[i, j] = o[i, j] * before[i]
                    T.copy(s, p)
                    T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(rows, dim):
                    o[i, j] = o[i, j] / total[i]
                T.copy(o, O[bz, bx * rows : (bx + 1) * rows, by, :])

        return kernel

    return build


def attention_reference(q: Any, k: Any, v: Any, causal: bool) -> Any:
    import torch

    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return out.transpose(1, 2).contiguous()


for batch, heads, length, dim, rows, width, stages, causal in (
    (2, 16, 2048, 128, 128, 128, 2, True),
    (4, 16, 2048, 64, 128, 128, 2, False),
    (2, 8, 2048, 256, 128, 64, 1, False),
):
    add(
        f"attention_{length}x{dim}_{stages}{'_causal' if causal else ''}",
        attention(batch, heads, length, dim, rows, width, stages, causal),
        lambda normal, integers, b=batch, h=heads, n=length, d=dim: [
            normal(b, n, h, d, dtype="bfloat16") for _ in range(3)
        ],
        lambda q, k, v, causal=causal: attention_reference(q, k, v, causal),
        operations=(2 if causal else 4) * batch * heads * length * length * dim,
        tolerance=4e-2,
    )
