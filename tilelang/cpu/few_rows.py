"""C text of products with few rows and a transposed right operand, as in decoding with a model.

``C[m, n] (+)= sum over k of A[m, k] B[n, k]``: every element of B is used m times only, so to bring
B to panels would cost more than the product. Rows of B are read as they lie, along k, and converted
in registers; each pair of a row of A and a row of B has a vector of sums, whose lanes are added at
the end. The next rows of B are fetched meanwhile: a row of a tile is too short for the machine to
see where reads go on.
"""

from __future__ import annotations

from tilelang.ir import stmt as S
from tilelang.passes.analysis.combine import accumulator
from tilelang.records import dataclass

MOST_ROWS = 8
# Rows of A -> rows of B at once: at least eight sums, which hide the time of an addition, and no
# more registers than AVX2 has.
_COLUMNS = {1: 8, 2: 4, 3: 3, 4: 2, 5: 2, 6: 2, 7: 1, 8: 1}
# dtype of B -> C type in memory, vector in memory, function to floats in vectors, and alone.
_SOURCES = {
    "float32": ("float", "tl_w_f32", "", ""),
    "float16": ("uint16_t", "tl_w_u16", "tl_w_f16_to_f32", "tl_f16_to_f32"),
    "bfloat16": ("uint16_t", "tl_w_u16", "tl_w_bf16_to_f32", "tl_bf16_to_f32"),
}


def has_few_rows(stmt: S.Gemm) -> bool:
    """Whether ``stmt`` is such a product."""
    rows = stmt.c.extents[-2]
    return (
        isinstance(rows, int)
        and rows <= MOST_ROWS
        and stmt.trans_b
        and not stmt.trans_a
        and stmt.b.dtype in _SOURCES
        and accumulator(stmt.a.dtype, stmt.c.dtype) == "float32"
    )


@dataclass(frozen=True)
class FewRows:
    """One kernel: dtype of B, sizes, row strides."""

    dtype: str
    m: int
    n: int
    k: int
    a_row: int
    b_row: int
    c_row: int

    @property
    def name(self) -> str:
        """A C name that is unique among specs."""
        kind = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}[self.dtype]
        return f"tl_rows_{kind}_{self.m}x{self.n}x{self.k}_{self.a_row}_{self.b_row}_{self.c_row}"


def emit_few_rows(spec: FewRows) -> str:
    """``static void NAME(const float* a, const B* b, float* c, int clear)``."""
    ctype, _, _, _ = _SOURCES[spec.dtype]
    columns = min(_COLUMNS[spec.m], spec.n)
    rest = spec.n % columns
    lines = _columns(spec, f"{spec.name}_part", columns)
    if rest:
        lines += _columns(spec, f"{spec.name}_rest", rest)
    lines += [
        f"static void {spec.name}(const float* a, const {ctype}* b, float* c, int clear) {{",
        f"    for (long j = 0; j + {columns} <= {spec.n}; j += {columns})",
        f"        {spec.name}_part(a, b + j * {spec.b_row}, c + j, clear);",
    ]
    if rest:
        done = spec.n - rest
        lines.append(f"    {spec.name}_rest(a, b + {done} * {spec.b_row}L, c + {done}, clear);")
    return "\n".join([*lines, "}", ""])


def _columns(spec: FewRows, name: str, columns: int) -> list[str]:
    """A function for ``columns`` rows of B, which are columns of C."""
    ctype, vector, widen, single = _SOURCES[spec.dtype]
    pairs = [(i, j) for i in range(spec.m) for j in range(columns)]
    sums = ", ".join(f"s{i}_{j} = {{0}}" for i, j in pairs)
    left = ", ".join(f"r{i}_{j} = 0" for i, j in pairs)
    out = [
        f"static void {name}(const float* restrict a, const {ctype}* restrict b, "
        "float* restrict c, const int clear) {",
        f"    tl_w_f32 {sums};",
        "    long p = 0;",
        f"    for (; p + TL_LANES_w <= {spec.k}; p += TL_LANES_w) {{",
    ]
    for j in range(columns):
        place = f"b + {j * spec.b_row}L + p"
        ahead = columns * spec.b_row
        out.append(f"        __builtin_prefetch({place} + {ahead});")
        out.append(f"        const tl_w_f32 b{j} = {widen}(TL_LOAD({vector}, {place}));")
    for i in range(spec.m):
        adds = " ".join(f"s{i}_{j} += x * b{j};" for j in range(columns))
        place = f"a + {i * spec.a_row} + p"
        out.append(f"        {{ const tl_w_f32 x = TL_LOAD(tl_w_f32, {place}); {adds} }}")
    out.append("    }")
    out.append(f"    float {left};")
    out.append(f"    for (; p < {spec.k}; ++p) {{")
    for i, j in pairs:
        value = f"{single}(b[{j * spec.b_row}L + p])"
        out.append(f"        r{i}_{j} += a[{i * spec.a_row} + p] * {value};")
    out.append("    }")
    for i, j in pairs:
        total = f"r{i}_{j} + TL_FOLD(tl_w_f32, s{i}_{j}, folded_ + other_)"
        place = f"c[{i * spec.c_row} + {j}]"
        out.append(f"    {place} = (clear ? 0 : {place}) + {total};")
    return [*out, "}"]
