"""Random products of tiles with annotated layouts, each with its result by numpy.

Factors and results are in shared memory or in fragments, with layouts that the instructions read
well, badly or not at all; the loop over k is serial or pipelined; tiles may be used under other
names. The numbers are small integers, so that every result is exact in every order of summation.
"""

from __future__ import annotations

import random

import numpy as np

from .model import Computed
from .views import _Maker

SIZES = ((32, 32, 32), (64, 64, 32), (32, 64, 64), (16, 32, 32), (64, 32, 16), (48, 40, 32))


def make_product(seed: int) -> Computed:
    """The program of one seed."""
    return _Products(random.Random(seed)).program()


class _Products(_Maker):
    def program(self) -> Computed:
        rng = self.rng
        self.threads = rng.choice((32, 64, 128, 128))
        m, n, k = rng.choice(SIZES)
        policy = rng.choice(("", "", ", policy=T.GemmWarpPolicy.FullRow",
                             ", policy=T.GemmWarpPolicy.FullCol"))  # fmt: skip
        if self.threads > 32 and min(m, n) < 64:
            policy, self.threads = "", 32 if m % 32 or n % 32 else 64
        dtype, total = rng.choice((("float16", "float32"), ("int8", "int32"), ("float32",) * 2))
        rounds = rng.choice((1, 2, 4))
        trans_a, trans_b = rng.random() < 0.3, rng.random() < 0.4
        a = self.values.integers(-4, 5, (m, k * rounds)).astype(dtype)
        b = self.values.integers(-4, 5, (k * rounds, n)).astype(dtype)
        first = self.tensor(np.ascontiguousarray(a.T) if trans_a else a)
        second = self.tensor(np.ascontiguousarray(b.T) if trans_b else b)
        result = self.tensor(np.zeros((m, n), total))
        shape_a, shape_b = ((k, m) if trans_a else (m, k)), ((n, k) if trans_b else (k, n))
        at_a = "p * {0}, 0" if trans_a else "0, p * {0}"
        at_b = "0, p * {0}" if trans_b else "p * {0}, 0"
        scopes = [rng.choice(("shared", "shared", "fragment")) for _ in "ab"]
        out_scope = rng.choice(("fragment", "fragment", "fragment", "shared"))
        self.tile("a", shape_a, dtype, scopes[0])
        self.tile("b", shape_b, dtype, scopes[1])
        self.tile("c", (m, n), total, out_scope)
        names = {name: self.renamed(name) for name in "abc"}
        entries = [entry for name in "abc" if (entry := self.asked(name)) is not None]
        for entry in entries:
            self.put(f"T.annotate_layout({{{entry}}})")
        self.put("T.clear(c)")
        loop = rng.choice((f"T.serial({rounds})", f"T.Pipelined({rounds}, num_stages=2)",
                           f"T.Pipelined({rounds}, num_stages=3)"))  # fmt: skip
        change = rng.choice((None, None, "a", "b"))
        body = [f"T.copy({first}[{at_a.format(k)}], a)", f"T.copy({second}[{at_b.format(k)}], b)"]
        factor = 1
        if change is not None:
            shape = shape_a if change == "a" else shape_b
            body += [f"for i, j in T.Parallel{shape}:",
                     f"    {change}[i, j] = {change}[i, j] * T.cast(2, '{dtype}')"]  # fmt: skip
            factor = 2
        body.append(f"T.gemm(a, b, c, transpose_A={trans_a}, transpose_B={trans_b}{policy})")
        self.put(f"for p in {loop}:", *("    " + line for line in body))
        product = (a.astype(np.int64) @ b.astype(np.int64) * factor).astype(total)
        self.names = {name: product for name in ("c",)}
        if names["c"] is not None:
            self.names[names["c"][0]] = product.reshape(names["c"][1])
        for _ in range(rng.randint(0, 2)):
            rng.choice((self.reduce, self.rows, self.turned, self.atomic))(
                rng.choice(list(self.names))
            )
        self.put(f"T.copy(c, {result})")
        self.expected[result] = product
        return Computed(self.text(), self.inputs, self.expected)

    def tile(self, name: str, shape: tuple[int, ...], dtype: str, scope: str) -> None:
        self.put(f"{name} = T.alloc_{scope}({shape}, {dtype!r})")
        self.names[name] = np.zeros(shape, dtype)
        self.scopes = {**getattr(self, "scopes", {}), name: scope}

    def renamed(self, name: str) -> tuple[str, tuple[int, ...]] | None:
        if self.rng.random() < 0.6:
            return None
        shape = self.factors(self.names[name].size)
        self.put(f"{name}v = T.reshape({name}, {shape})")
        return f"{name}v", shape

    def asked(self, name: str) -> str | None:
        if self.rng.random() < 0.4:
            return None
        shape = self.names[name].shape
        if self.scopes[name] == "shared":
            return f"{name}: {self.shared_layout(name, shape)}"
        return f"{name}: {self.fragment(name, shape)}"
