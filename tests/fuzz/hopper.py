"""Random programs as they are written for Hopper's units: tiles that a pipeline brings to products.

Products with random tiles, stages, types, transposes, policies and ends; sums that several blocks
share; two products in a row, of which the second has the first one's result in registers. Tensors
are boxes or not: with ragged or dynamic sizes, and rows that no tensor map can have. The numbers are
small integers, so that every result is exact in every order of summation.
"""

from __future__ import annotations

from .draws import Draw
from .model import Program, Tensor, Text

POLICIES = ("", "", ", policy=T.GemmWarpPolicy.FullRow", ", policy=T.GemmWarpPolicy.FullCol")
# Type of the operands -> of the sums, and of results.
SUMS = {
    "float16": ("float32", ("float16", "float32")), "bfloat16": ("float32", ("bfloat16", "float32")),
    "float8_e4m3fn": ("float32", ("bfloat16", "float32", "float16")),
    "int8": ("int32", ("int32",)), "uint8": ("int32", ("int32",)),
}  # fmt: skip
PREC = {"float16": 11, "bfloat16": 8}
STAGES = (3, 2, 4, 3, 2, 1, 0)
MOST_SUMS = 128  # registers of a thread that a product adds up in


def make_hopper(draw: Draw) -> Program:
    """A random program."""
    maker = _Maker(draw)
    draw.choice((maker.product, maker.product, maker.product, maker.shared_sums, maker.chain))()
    maker.out.features.add("hopper")
    maker.out.kernels.append(maker.text.lines)
    return maker.out.assemble()


class _Maker:
    def __init__(self, draw: Draw) -> None:
        self.draw, self.out, self.text = draw, Program(), Text()

    # -- sizes and tensors -------------------------------------------------------------------------
    def extent(self, tile: int, most: int, name: str) -> tuple[int, str]:
        """The size of a dimension that tiles go through, and its text."""
        size = tile * self.draw.integer(1, most)
        if self.draw.chance(0.3):  # ragged; of multiples of 8 some are boxes of a tensor
            less = self.draw.integer(1, tile - 1)
            size -= less if self.draw.chance(0.5) else less // 8 * 8
        if not self.draw.chance(0.2):
            return size, str(size)
        self.out.symbols.append(name)
        return size, name

    def tensor(self, name: str, dims: list[tuple[int, str]], dtype: str, role: str = "in") -> None:
        shape, texts = tuple(size for size, _ in dims), tuple(text for _, text in dims)
        self.out.tensors.append(
            Tensor(name, "ij", shape, texts, dtype, role, mag=2.0, prec=PREC.get(dtype, 53))
        )

    def tiles(self) -> tuple[int, int, int, int]:
        """Threads, rows, columns and terms of a product's tiles."""
        threads = self.draw.choice((256, 128, 256, 384))
        rows = 192 if threads == 384 else self.draw.choice((64, 128))
        fitting = [n for n in (16, 32, 64, 96, 128, 256) if rows * n <= MOST_SUMS * threads]
        return threads, rows, self.draw.choice(fitting), self.draw.choice((16, 32, 64, 64, 128))

    # -- programs ----------------------------------------------------------------------------------
    def product(self, parts: int = 1) -> None:
        """``parts`` blocks have a tile of the result."""
        draw, add = self.draw, self.text.add
        dtype = draw.choice(tuple(SUMS)[:3] if parts > 1 else tuple(SUMS))
        total, results = SUMS[dtype]
        threads, bm, bn, bk = self.tiles()
        bk = max(bk, 32) if dtype not in PREC else bk
        stages, result = draw.choice(STAGES), "float32" if parts > 1 else draw.choice(results)
        while (bm + bn) * bk * (1 if dtype not in PREC else 2) * max(stages, 1) > 150_000:
            stages -= 1
        trans_a = dtype != "float8_e4m3fn" and draw.chance(0.25)
        trans_b = dtype == "float8_e4m3fn" or draw.chance(0.5)
        M, N = self.extent(bm, 2, "rows"), self.extent(bn, 2, "columns")
        K = self.extent(bk * parts * 2, 1, "terms") if parts > 1 else self.extent(bk, 6, "terms")
        self.tensor("A", [K, M] if trans_a else [M, K], dtype)
        self.tensor("B", [N, K] if trans_b else [K, N], dtype)
        grid = [f"T.ceildiv({N[1]}, {bn})", f"T.ceildiv({M[1]}, {bm})"]
        head = f"with T.Kernel({', '.join(grid)}, {parts}, threads={threads}) as (bx, by, bz):"
        add(head)
        self.text.depth += 1
        add(f"A_s = T.alloc_shared({(bk, bm) if trans_a else (bm, bk)}, {dtype!r})")
        add(f"B_s = T.alloc_shared({(bn, bk) if trans_b else (bk, bn)}, {dtype!r})")
        add(f"acc = T.alloc_fragment(({bm}, {bn}), {total!r})")
        in_registers = not trans_a and dtype in PREC and draw.chance(0.25)
        if in_registers:
            add(f"A_f = T.alloc_fragment(({bm}, {bk}), {dtype!r})")
        if draw.chance(0.3):
            add(f"T.use_swizzle({draw.integer(1, 4)})")
        add("T.fill(acc, 1)" if parts == 1 and draw.chance(0.2) else "T.clear(acc)")
        count, k = f"T.ceildiv({K[1]}, {bk})", "k"
        if parts > 1:
            count, k = "2", "(bz * 2 + k)"
        add(f"for k in {self.loop(count, stages)}:")
        self.text.depth += 1
        row, column, term = f"by * {bm}", f"bx * {bn}", f"{k} * {bk}"
        copies = [f"T.copy(A[{term}, {row}], A_s)" if trans_a else f"T.copy(A[{row}, {term}], A_s)",
                  f"T.copy(B[{column}, {term}], B_s)" if trans_b
                  else f"T.copy(B[{term}, {column}], B_s)"]  # fmt: skip
        for line in reversed(copies) if draw.chance(0.3) else copies:
            add(line)
        if in_registers:
            add("T.copy(A_s, A_f)")
            add(f"for i, j in T.Parallel({bm}, {bk}):")
            add(f"    A_f[i, j] = A_f[i, j] * T.cast(2, {dtype!r})")
        add(f"T.gemm({'A_f' if in_registers else 'A_s'}, B_s, acc, transpose_A={trans_a}, "
            f"transpose_B={trans_b}{draw.choice(POLICIES)})")  # fmt: skip
        self.text.depth -= 1
        if parts > 1:
            self.added(bm, bn, M, N)
        else:
            self.end(bm, bn, M, N, result)

    def shared_sums(self) -> None:
        """Several blocks have a tile of the result."""
        self.product(parts=self.draw.integer(2, 3))

    def loop(self, count: str, stages: int) -> str:
        if self.draw.chance(0.15):
            return f"T.serial({count})"
        return f"T.Pipelined({count}, num_stages={stages})"

    def added(self, bm: int, bn: int, M: tuple[int, str], N: tuple[int, str]) -> None:
        """The sums added to the result."""
        self.tensor("C", [M, N], "float32", "inout")
        if self.draw.chance(0.5):
            self.text.add(f"C_s = T.alloc_shared(({bm}, {bn}), 'float32')")
            self.text.add("T.copy(acc, C_s)")
            self.text.add(f"T.atomic_add(C[by * {bm}, bx * {bn}], C_s, use_tma=True)")
        else:
            self.text.add(f"T.atomic_add(C[by * {bm}, bx * {bn}], acc)")

    def end(self, bm: int, bn: int, M: tuple[int, str], N: tuple[int, str], result: str) -> None:
        """What becomes of the sums, and how they are stored."""
        draw, add = self.draw, self.text.add
        if draw.chance(0.4):
            add(f"for i, j in T.Parallel({bm}, {bn}):")
            ends = ["acc[i, j] = T.max(acc[i, j], 0)", "acc[i, j] = acc[i, j] * 2"]
            if draw.chance(0.5):
                self.tensor("bias", [N], "float16")
                ends.append(f"acc[i, j] += T.cast(bias[bx * {bn} + j], acc.dtype)")
            add("    " + draw.choice(ends[::-1]))
        self.tensor("C", [M, N], result, "out")
        way = draw.choice(("copy", "shared", "loop"))
        if way == "shared":
            add(f"C_s = T.alloc_shared(({bm}, {bn}), {result!r})")
            add("T.copy(acc, C_s)")
        if way == "loop":
            add(f"for i, j in T.Parallel({bm}, {bn}):")
            add(f"    if by * {bm} + i < {M[1]} and bx * {bn} + j < {N[1]}:")
            add(f"        C[by * {bm} + i, bx * {bn} + j] = acc[i, j]")
        else:
            add(f"T.copy({'acc' if way == 'copy' else 'C_s'}, C[by * {bm}, bx * {bn}])")

    def chain(self) -> None:
        """Scores of queries and keys, and their product with values."""
        draw, add = self.draw, self.text.add
        dtype = draw.choice(("float16", "bfloat16"))
        threads, dim = draw.choice((128, 256)), draw.choice((32, 64, 128))
        bm, bn = threads // 2, draw.choice((16, 32, 64, 128))
        stages = draw.choice(STAGES)
        M, N = self.extent(bm, 2, "rows"), self.extent(bn, 4, "keys")
        for name, length in (("Q", M), ("K", N), ("V", N)):
            self.tensor(name, [length, (dim, str(dim))], dtype)
        self.tensor("O", [M, (dim, str(dim))], "float32", "out")
        add(f"with T.Kernel(T.ceildiv({M[1]}, {bm}), threads={threads}) as bx:")
        self.text.depth += 1
        for name, rows in (("Q", bm), ("K", bn), ("V", bn)):
            add(f"{name}_s = T.alloc_shared(({rows}, {dim}), {dtype!r})")
        add(f"scores = T.alloc_fragment(({bm}, {bn}), 'float32')")
        add(f"weights = T.alloc_fragment(({bm}, {bn}), {dtype!r})")
        add(f"out = T.alloc_fragment(({bm}, {dim}), 'float32')")
        add(f"T.copy(Q[bx * {bm}, 0], Q_s)")
        add("T.clear(out)")
        add(f"for k in {self.loop(f'T.ceildiv({N[1]}, {bn})', stages)}:")
        self.text.depth += 1
        add(f"T.copy(K[k * {bn}, 0], K_s)")
        causal = draw.chance(0.4)
        if causal:
            add(f"for i, j in T.Parallel({bm}, {bn}):")
            add(f"    scores[i, j] = T.if_then_else(bx * {bm} + i >= k * {bn} + j, 0, 1)")
        else:
            add("T.clear(scores)")
        add("T.gemm(Q_s, K_s, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)")
        add(f"for i, j in T.Parallel({bm}, {bn}):")
        add("    scores[i, j] = T.min(T.max(scores[i, j], -8), 8)")
        add("T.copy(scores, weights)")
        add(f"T.copy(V[k * {bn}, 0], V_s)")
        add("T.gemm(weights, V_s, out, policy=T.GemmWarpPolicy.FullRow)")
        self.text.depth -= 1
        add(f"T.copy(out, O[bx * {bm}, 0])")
