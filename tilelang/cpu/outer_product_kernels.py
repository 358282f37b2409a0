"""Skinny GEMM by outer products: few rows, and a right operand that is read unpacked.

``C[m, n] (+)= sum over k of A[m, k] B[k, n]``: every element of B is used only m times, so packing
B into panels would take about as long as the product. The kernel streams through B, a few rows at a
time, and adds their products to accumulators of all columns, which stay in the L1 cache. It
prefetches the next rows, because the hardware prefetcher does not follow such long strides.
"""

from __future__ import annotations

from itertools import pairwise

from tilelang.cpu.small_operands import is_b_small
from tilelang.ir import stmt as S
from tilelang.records import dataclass
from tilelang.transforms.analysis.combine import accumulator

MOST_ROWS = 8
STEPS = 4  # rows of B at once
LANES = 16  # of the longest vectors
# Rows of sums -> vectors of each: eight hide the time of an addition, and AVX2 has registers.
_VECTORS = {1: 8, 2: 4, 3: 2, 4: 2}


def is_outer_product(stmt: S.Gemm) -> bool:
    """Whether ``stmt`` is such a product, once B is not a tile."""
    m, n = stmt.c.extents[-2:]
    k, stride = stmt.a.extents[-1], stmt.b.buffer.stride_list()[-2]
    if stmt.trans_a or stmt.trans_b or stmt.hints:
        return False
    if not all(isinstance(size, int) for size in (m, n, k, stride)):
        return False
    plain = stmt.a.dtype == stmt.b.dtype == accumulator(stmt.a.dtype, stmt.c.dtype) == "float32"
    return (
        plain
        and stmt.b.buffer.storage == "global"
        and int(m) <= MOST_ROWS
        and int(n) % LANES == 0
        and int(k) % STEPS == 0
        and not is_b_small(stmt)
    )


@dataclass(frozen=True)
class OuterProduct:
    """One kernel: sizes and row strides."""

    m: int
    n: int
    k: int
    a_row: int
    b_row: int
    c_row: int

    @property
    def name(self) -> str:
        """A C name that is unique among specs."""
        return f"tl_passing_{self.m}x{self.n}x{self.k}_{self.a_row}_{self.b_row}_{self.c_row}"

    @property
    def groups(self) -> list[range]:
        """Rows whose sums are in registers together."""
        count = -(-self.m // max(_VECTORS))
        cuts = [self.m * i // count for i in range(count + 1)]
        return [range(first, last) for first, last in pairwise(cuts)]

    @property
    def vectors(self) -> int:
        """Vectors of each row at once."""
        count = _VECTORS[max(map(len, self.groups))]
        while self.n % (count * LANES):
            count //= 2
        return count


def emit_outer(spec: OuterProduct) -> str:
    """``static void NAME(const float* a, const float* b, float* c, int clear)``."""
    columns = f"{spec.vectors} * TL_LANES_w"
    lines = [
        f"static void {spec.name}(const float* restrict a, const float* restrict b, "
        "float* restrict c, const int clear) {",
        f"    for (long i = 0; clear && i < {spec.m}; ++i) "
        f"memset(c + i * {spec.c_row}, 0, {spec.n * 4});",
        f"    for (long p = 0; p < {spec.k}; p += {STEPS})",
        f"        for (long j = 0; j < {spec.n}; j += {columns}) {{",
        f"            for (long q = {STEPS}; q < {2 * STEPS}; ++q)",
        f"                for (long l = 0; l < {columns}; l += 16)",
        f"                    __builtin_prefetch(b + (p + q) * {spec.b_row}L + j + l);",
    ]
    for rows in spec.groups:
        lines += [f"            {line}" for line in _group(spec, rows)]
    return "\n".join([*lines, "        }", "}", ""])


def _group(spec: OuterProduct, rows: range) -> list[str]:
    """Add the products of the steps to some rows of C."""
    vectors = range(spec.vectors)
    addresses = {
        (i, v): f"c + {i * spec.c_row} + j + {v} * TL_LANES_w" for i in rows for v in vectors
    }
    lines = ["{"]
    for i in rows:
        sums = ", ".join(f"s{i}_{v} = TL_LOAD(tl_w_f32, {addresses[i, v]})" for v in vectors)
        lines.append(f"    tl_w_f32 {sums};")
    for q in range(STEPS):
        row = f"b + (p + {q}) * {spec.b_row}L + j"
        loads = (f"b{v} = TL_LOAD(tl_w_f32, {row} + {v} * TL_LANES_w)" for v in vectors)
        lines.append(f"    {{ const tl_w_f32 {', '.join(loads)};")
        for i in rows:
            adds = " ".join(f"s{i}_{v} += x * b{v};" for v in vectors)
            lines.append(f"      {{ const float x = a[{i * spec.a_row} + p + {q}]; {adds} }}")
        lines[-1] += " }"
    lines += [f"    TL_STORE(tl_w_f32, {to}, s{i}_{v});" for (i, v), to in addresses.items()]
    return [*lines, "}"]
