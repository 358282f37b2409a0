"""Random programs that launch kernels in loops and branches of the host, with their results.

The host's part is a nest of loops of every kind, branches, values and blocks without work. Each
program is written twice: in the language, and in plain Python over NumPy arrays.
"""

from __future__ import annotations

import random

import numpy as np

from .model import Computed

SIZE = 96  # elements of A and B: three blocks of 32
HEAD = """import tilelang.language as T

@T.prim_func
def main(n: T.int32, A: T.Tensor((96,), "int32"), B: T.Tensor((96,), "int32")):
"""
# A kernel: its statements in the language, and in Python for the block b. `@` is an expression.
KERNELS = (
    (("for i in T.Parallel(32):", "    A[b * 32 + i] = (A[b * 32 + i] * 3 + @) % 1009"),
     ("A[b * 32:b * 32 + 32] = (A[b * 32:b * 32 + 32] * 3 + @) % 1009",)),
    (("tile = T.alloc_shared((32,), 'int32')", "T.copy(A[b * 32], tile)",
      "for i in T.Parallel(32):", "    B[b * 32 + i] = tile[31 - i] + @"),
     ("B[b * 32:b * 32 + 32] = A[b * 32:b * 32 + 32][::-1] + @",)),
    (("sums = T.alloc_fragment((32,), 'int32')", "T.clear(sums)", "for k in T.serial(3):",
      "    for i in T.Parallel(32):", "        sums[i] += B[k * 32 + i] % 7",
      "for i in T.Parallel(32):", "    A[b * 32 + i] = sums[i] + @"),
     ("A[b * 32:b * 32 + 32] = (B.reshape(3, 32) % 7).sum(0) + @",)),
    (("tile = T.alloc_shared((32,), 'int32')", "sums = T.alloc_fragment((32,), 'int32')",
      "T.clear(sums)", "for k in T.Pipelined((@) % 4, num_stages=2):",
      "    T.copy(A[k % 3 * 32], tile)", "    for i in T.Parallel(32):",
      "        sums[i] += tile[i] % 5", "T.copy(sums, B[b * 32])"),
     ("B[b * 32:b * 32 + 32] = sum((A[k % 3 * 32:][:32] % 5 for k in range((@) % 4)),",
      "    np.zeros(32, int))")),
)  # fmt: skip


class _Maker:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.source: list[str] = []
        self.plain: list[str] = []
        self.names = 0
        self.kernels = 0

    def both(self, depth: int, text: str, plain: str | None = None) -> None:
        self.source.append("    " * (depth + 1) + text)
        self.plain.append("    " * depth + (plain or text))

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def value(self, seen: list[str]) -> str:
        form = self.rng.choice(("{a}", "{a} + {k}", "{a} * 2 + {b}", "{a} % 3 + {k}", "{k}"))
        a, b = self.rng.choice(seen), self.rng.choice(seen)
        return form.format(a=a, b=b, k=self.rng.randrange(4))

    def block(self, depth: int, seen: list[str]) -> None:
        seen = list(seen)
        for _ in range(self.rng.randint(1, 3)):
            kinds = [self.kernel, self.kernel, self.let, self.nothing]
            kinds += [self.loop, self.loop, self.branch] * (depth < 3)
            self.rng.choice(kinds)(depth, seen)

    def let(self, depth: int, seen: list[str]) -> None:
        name = self.name()
        self.both(depth, f"{name} = {self.value(seen)}")
        seen.append(name)

    def loop(self, depth: int, seen: list[str]) -> None:
        var, trips = self.name(), self.rng.choice(("0", "1", "2", "n", "n - 1", seen[-1] + " % 3"))
        kind, plain = self.rng.choice((
            (f"T.serial({trips})", ""), (f"range({trips})", ""), ("T.unroll(2)", "range(2)"),
            (f"T.serial(1, {trips} + 2)", f"range(1, {trips} + 2)"),
            (f"T.Pipelined({trips}, num_stages=2)", ""), ("T.vectorized(2)", "range(2)"),
            (f"T.Pipelined({trips}, order=[0], stage=[0])", ""),
            (f"T.serial(0, {trips}, 2)", f"range(0, {trips}, 2)"),
        ))  # fmt: skip
        self.both(depth, f"for {var} in {kind}:", f"for {var} in {plain or f'range({trips})'}:")
        self.block(depth + 1, [*seen, var])

    def branch(self, depth: int, seen: list[str]) -> None:
        self.both(depth, f"if {self.rng.choice(seen)} % 2 == {self.rng.randrange(2)}:")
        self.block(depth + 1, seen)
        if self.rng.random() < 0.4:
            self.both(depth, "else:")
            self.block(depth + 1, seen)

    def kernel(self, depth: int, seen: list[str]) -> None:
        self.kernels += 1
        language, plain = self.rng.choice(KERNELS)
        value, blocks = self.value(seen), self.rng.choice(("1", "3", f"{seen[-1]} % 3 + 1"))
        threads = self.rng.choice((32, 64))
        indent = "    " * (depth + 1)
        self.source.append(f"{indent}with T.Kernel({blocks}, threads={threads}) as b:")
        self.source += [f"{indent}    {line.replace('@', value)}" for line in language]
        self.plain.append(f"{indent[4:]}for b in range({blocks}):")
        self.plain += [f"{indent}{line.replace('@', value)}" for line in plain]

    def nothing(self, depth: int, _: list[str]) -> None:
        self.both(depth, "pass")


def make_hosts(seed: int) -> Computed:
    """The program of one number."""
    maker = _Maker(seed)
    maker.block(0, ["n"])
    maker.kernel(0, ["n"])
    source = HEAD + "\n".join(maker.source) + "\n"
    n, A = maker.rng.randint(1, 3), np.arange(SIZE, dtype=np.int32)
    expected = {"A": A.copy(), "B": A[::-1].copy()}
    exec("\n".join(maker.plain), {"np": np, "n": n, **expected})  # noqa: S102
    return Computed(source, {"n": n, "A": A, "B": A[::-1].copy()}, expected)
