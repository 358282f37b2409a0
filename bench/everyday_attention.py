"""Everyday kernels: attention in the forms that models have."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from typing import Any

from everyday_family import Program, family

import tilelang.language as T

LOG2_E = 1.44269504
# A score whose weight is 0; its product with the scale is still exact to less than a score.
MASKED = -1e6


@T.macro
def online_softmax(s, high, before, part, total, o, rows, width, dim, scale):
    """The next scores: ``s`` becomes weights, ``o`` and ``total`` are scaled by the new maximum."""
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


@family(
    (2, 16, 2048, 128, 128, 128, 2, True),
    (4, 16, 2048, 64, 128, 128, 2, False),
    (2, 8, 2048, 256, 128, 64, 1, False),
    small=(1, 2, 128, 64, 64, 64, 2, True),
)
def attention(batch: int, heads: int, length: int, dim: int, rows: int, width: int, stages: int,
              causal: bool) -> Program:  # fmt: skip
    scale = dim**-0.5 * LOG2_E

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
                    online_softmax(s, high, before, part, total, o, rows, width, dim, scale)
                    T.copy(s, p)
                    T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(rows, dim):
                    o[i, j] = o[i, j] / total[i]
                T.copy(o, O[bz, bx * rows : (bx + 1) * rows, by, :])

        return kernel

    def reference(q: Any, k: Any, v: Any) -> Any:
        import torch

        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return out.transpose(1, 2).contiguous()

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, length, heads, dim, dtype="bfloat16") for _ in range(3)
        ],
        reference,
        operations=(2 if causal else 4) * batch * heads * length * length * dim,
        tolerance=4e-2,
    )


@family((2, 16, 4096, 128, 512), (1, 8, 8192, 64, 1000), small=(1, 2, 192, 64, 70))
def window_attention(batch: int, heads: int, length: int, dim: int, window: int) -> Program:
    """A query sees the ``window`` tokens up to its own."""
    scale = dim**-0.5 * LOG2_E

    def build():
        shape = (batch, heads, length, dim)

        @T.prim_func
        def kernel(
            Q: T.Tensor(shape, "float16"),
            K: T.Tensor(shape, "float16"),
            V: T.Tensor(shape, "float16"),
            O: T.Tensor(shape, "float16"),
        ):
            with T.Kernel(T.ceildiv(length, 64), heads, batch, threads=128) as (bx, by, bz):
                q = T.alloc_shared((64, dim), "float16")
                k = T.alloc_shared((64, dim), "float16")
                v = T.alloc_shared((64, dim), "float16")
                s = T.alloc_fragment((64, 64), "float32")
                p = T.alloc_fragment((64, 64), "float16")
                o = T.alloc_fragment((64, dim), "float32")
                high = T.alloc_fragment((64,), "float32")
                before = T.alloc_fragment((64,), "float32")
                part = T.alloc_fragment((64,), "float32")
                total = T.alloc_fragment((64,), "float32")
                T.copy(Q[bz, by, bx * 64 : (bx + 1) * 64, :], q)
                T.clear(o)
                T.clear(total)
                T.fill(high, MASKED)
                first = T.max(0, bx * 64 - window + 1) // 64
                for t in T.Pipelined(bx + 1 - first, num_stages=2):
                    start = (first + t) * 64
                    T.copy(K[bz, by, start : start + 64, :], k)
                    T.clear(s)
                    T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    for i, j in T.Parallel(64, 64):
                        ahead = bx * 64 + i - (start + j)
                        s[i, j] = T.if_then_else(ahead >= 0 and ahead < window, s[i, j], MASKED)
                    T.copy(V[bz, by, start : start + 64, :], v)
                    online_softmax(s, high, before, part, total, o, 64, 64, dim, scale)
                    T.copy(s, p)
                    T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(64, dim):
                    o[i, j] = o[i, j] / total[i]
                T.copy(o, O[bz, by, bx * 64 : (bx + 1) * 64, :])

        return kernel

    def reference(q: Any, k: Any, v: Any) -> Any:
        import torch

        at = torch.arange(length, device=q.device)
        ahead = at[:, None] - at
        seen = (ahead >= 0) & (ahead < window)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, heads, length, dim, dtype="float16") for _ in range(3)
        ],
        reference,
        operations=4 * batch * heads * length * window * dim,
    )


@family((16, 2048, 16, 64), (32, 700, 32, 128), small=(2, 100, 16, 64))
def packed_attention(count: int, length: int, heads: int, dim: int) -> Program:
    """Sequences one behind the other; offsets say where each begins. No mask."""
    scale = dim**-0.5 * LOG2_E
    tokens, longest = count * length, length + length // 2

    def build():
        shape = (tokens, heads, dim)

        @T.prim_func
        def kernel(
            Q: T.Tensor(shape, "float16"),
            K: T.Tensor(shape, "float16"),
            V: T.Tensor(shape, "float16"),
            N: T.Tensor((count + 1,), "int32"),
            O: T.Tensor(shape, "float16"),
        ):
            with T.Kernel(T.ceildiv(longest, 64), heads, count, threads=128) as (bx, by, bz):
                q = T.alloc_shared((64, dim), "float16")
                k = T.alloc_shared((64, dim), "float16")
                v = T.alloc_shared((64, dim), "float16")
                s = T.alloc_fragment((64, 64), "float32")
                p = T.alloc_fragment((64, 64), "float16")
                o = T.alloc_fragment((64, dim), "float32")
                high = T.alloc_fragment((64,), "float32")
                before = T.alloc_fragment((64,), "float32")
                part = T.alloc_fragment((64,), "float32")
                total = T.alloc_fragment((64,), "float32")
                begin = N[bz]
                size = N[bz + 1] - begin
                T.copy(Q[begin + bx * 64 : begin + bx * 64 + 64, by, :], q)
                T.clear(o)
                T.clear(total)
                T.fill(high, MASKED)
                for t in T.Pipelined(T.ceildiv(size, 64), num_stages=2):
                    T.copy(K[begin + t * 64 : begin + t * 64 + 64, by, :], k)
                    T.clear(s)
                    T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    for i, j in T.Parallel(64, 64):
                        s[i, j] = T.if_then_else(t * 64 + j < size, s[i, j], MASKED)
                    T.copy(V[begin + t * 64 : begin + t * 64 + 64, by, :], v)
                    online_softmax(s, high, before, part, total, o, 64, 64, dim, scale)
                    T.copy(s, p)
                    T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(64, dim):
                    if bx * 64 + i < size:
                        O[begin + bx * 64 + i, by, j] = o[i, j] / total[i]

        return kernel

    def reference(q: Any, k: Any, v: Any, n: Any) -> Any:
        import torch

        parts = []
        for b in range(count):
            at = slice(int(n[b]), int(n[b + 1]))
            operands = (x[at].transpose(0, 1)[None] for x in (q, k, v))
            out = torch.nn.functional.scaled_dot_product_attention(*operands)
            parts.append(out[0].transpose(0, 1))
        return torch.cat(parts)

    def inputs(normal: Any, integers: Any) -> list[Any]:
        # Pairs of sequences of unequal length fill the tensor.
        shift = integers(length, count) // 2
        shift[1::2] = -shift[0::2][: count // 2]
        shift[count - count % 2 :] = 0
        ends = (shift + length).cumsum(0).int()
        offsets = ends.new_zeros(count + 1)
        offsets[1:] = ends
        return [*(normal(tokens, heads, dim, dtype="float16") for _ in range(3)), offsets]

    return Program(build, inputs, reference, operations=4 * heads * count * length**2 * dim)


@family((64, 32, 8, 128, 4096, 64), (16, 64, 8, 64, 2048, 32), small=(2, 8, 2, 64, 100, 32))
def paged_decode(batch: int, heads: int, groups: int, dim: int, length: int, page: int) -> Program:
    """Decoding with a paged KV cache: one query per sequence, grouped query heads."""
    scale = dim**-0.5 * LOG2_E
    shared = heads // groups
    pages = (length + page - 1) // page
    rows = 16

    def build():
        @T.prim_func
        def kernel(
            Q: T.Tensor((batch, heads, dim), "float16"),
            K: T.Tensor((batch * pages, page, groups, dim), "float16"),
            V: T.Tensor((batch * pages, page, groups, dim), "float16"),
            P: T.Tensor((batch, pages), "int32"),
            N: T.Tensor((batch,), "int32"),
            O: T.Tensor((batch, heads, dim), "float16"),
        ):
            with T.Kernel(groups, batch, threads=128) as (bx, by):
                q = T.alloc_shared((rows, dim), "float16")
                k = T.alloc_shared((page, dim), "float16")
                v = T.alloc_shared((page, dim), "float16")
                s = T.alloc_fragment((rows, page), "float32")
                p = T.alloc_shared((rows, page), "float16")
                o = T.alloc_fragment((rows, dim), "float32")
                high = T.alloc_fragment((rows,), "float32")
                before = T.alloc_fragment((rows,), "float32")
                part = T.alloc_fragment((rows,), "float32")
                total = T.alloc_fragment((rows,), "float32")
                for i, j in T.Parallel(rows, dim):
                    q[i, j] = T.if_then_else(
                        i < shared, Q[by, bx * shared + i % shared, j], T.cast(0, "float16")
                    )
                T.clear(o)
                T.clear(total)
                T.fill(high, MASKED)
                size = N[by]
                for t in T.Pipelined(T.ceildiv(size, page), num_stages=2):
                    T.copy(K[P[by, t], :, bx, :], k)
                    T.clear(s)
                    T.gemm(q, k, s, transpose_B=True)
                    for i, j in T.Parallel(rows, page):
                        s[i, j] = T.if_then_else(t * page + j < size, s[i, j], MASKED)
                    T.copy(V[P[by, t], :, bx, :], v)
                    online_softmax(s, high, before, part, total, o, rows, page, dim, scale)
                    T.copy(s, p)
                    T.gemm(p, v, o)
                for i, j in T.Parallel(rows, dim):
                    if i < shared:
                        O[by, bx * shared + i, j] = o[i, j] / total[i]

        return kernel

    def reference(q: Any, k: Any, v: Any, p: Any, n: Any) -> Any:
        import torch

        parts = []
        for b in range(batch):
            keys, values = (x[p[b].long()].flatten(0, 1)[: int(n[b])] for x in (k, v))
            keys, values = (x.transpose(0, 1).repeat_interleave(shared, 0) for x in (keys, values))
            parts.append(
                torch.nn.functional.scaled_dot_product_attention(q[b, :, None], keys, values)[:, 0]
            )
        return torch.stack(parts)

    def inputs(normal: Any, integers: Any) -> list[Any]:
        order = normal(batch * pages).argsort().int().view(batch, pages)
        return [
            normal(batch, heads, dim, dtype="float16"),
            normal(batch * pages, page, groups, dim, dtype="float16"),
            normal(batch * pages, page, groups, dim, dtype="float16"),
            order,
            integers(length, batch) + 1,
        ]

    return Program(build, inputs, reference)


@family((4, 16, 4096, 64, 64), (2, 8, 2048, 128, 64), small=(1, 2, 192, 64, 64))
def linear_attention(batch: int, heads: int, length: int, dim: int, chunk: int) -> Program:
    """o = q (sum of k v up to the chunk) + masked (q k) v inside it; no decay."""

    def build():
        shape = (batch, heads, length, dim)

        @T.prim_func
        def kernel(
            Q: T.Tensor(shape, "bfloat16"),
            K: T.Tensor(shape, "bfloat16"),
            V: T.Tensor(shape, "bfloat16"),
            O: T.Tensor(shape, "bfloat16"),
        ):
            with T.Kernel(heads, batch, threads=128) as (by, bz):
                q = T.alloc_shared((chunk, dim), "bfloat16")
                k = T.alloc_shared((chunk, dim), "bfloat16")
                v = T.alloc_shared((chunk, dim), "bfloat16")
                state = T.alloc_fragment((dim, dim), "float32")
                before = T.alloc_shared((dim, dim), "bfloat16")
                s = T.alloc_fragment((chunk, chunk), "float32")
                p = T.alloc_shared((chunk, chunk), "bfloat16")
                o = T.alloc_fragment((chunk, dim), "float32")
                T.clear(state)
                for t in T.Pipelined(length // chunk, num_stages=2):
                    T.copy(Q[bz, by, t * chunk : (t + 1) * chunk, :], q)
                    T.copy(K[bz, by, t * chunk : (t + 1) * chunk, :], k)
                    T.copy(V[bz, by, t * chunk : (t + 1) * chunk, :], v)
                    T.copy(state, before)
                    T.clear(s)
                    T.gemm(q, k, s, transpose_B=True)
                    for i, j in T.Parallel(chunk, chunk):
                        p[i, j] = T.if_then_else(i >= j, s[i, j], 0.0)
                    T.clear(o)
                    T.gemm(p, v, o)
                    T.gemm(q, before, o)
                    T.gemm(k, v, state, transpose_A=True)
                    T.copy(o, O[bz, by, t * chunk : (t + 1) * chunk, :])

        return kernel

    def reference(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (x.float() for x in (q, k, v))
        return ((q @ k.transpose(2, 3)).tril() @ v).bfloat16()

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, heads, length, dim, dtype="bfloat16", scale=0.2) for _ in range(3)
        ],
        reference,
        operations=8 * batch * heads * length * chunk * dim,
        tolerance=6e-2,
    )
