"""Skinny GEMM by dot products: few rows and a transposed right operand, as in decoding.

``C[m, n] (+)= sum over k of A[m, k] B[n, k]``: every element of B is used only m times, so packing
B into panels would cost more than the product. Rows of B are read in place, along k, and converted
in registers. Each pair of a row of A and a row of B has a vector accumulator, whose lanes are added
at the end. The kernel prefetches the next rows of B, because the rows of a tile are too short for
the hardware prefetcher.

Where both operands are bfloat16 and the machine has a bfloat16 dot-product instruction, rows of A
are read in place, too. That instruction treats subnormal elements as zero. So products with
subnormal elements are computed in float32; if only some rows of B have them, only these, as in
:mod:`~tilelang.cpu.dot_instructions`.
"""

from __future__ import annotations

from tilelang.ir import stmt as S
from tilelang.records import dataclass
from tilelang.transforms.analysis.combine import accumulator

MOST_ROWS = 8
# Rows of A -> rows of B at once: at least eight sums, which hide the time of an addition, and no
# more registers than AVX2 has.
_COLUMNS = {1: 8, 2: 4, 3: 3, 4: 2, 5: 2, 6: 2, 7: 1, 8: 1}
_WIDE_COLUMNS = {1: 8, 2: 8, 3: 4, 4: 4, 5: 4, 6: 4, 7: 2, 8: 2}  # than AVX-512 has
LANES = 64  # of vectors of every machine, a multiple
PAIRS = 32  # elements in a vector of pairs
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
    """One kernel: dtype of B, sizes, row strides, and that of the pairs of A, 0 without."""

    dtype: str
    m: int
    n: int
    k: int
    a_row: int
    b_row: int
    c_row: int
    pairs: int = 0

    @property
    def name(self) -> str:
        """A C name that is unique among specs."""
        kind = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}[self.dtype]
        strides = f"{self.a_row}_{self.b_row}_{self.c_row}" + f"_{self.pairs}" * bool(self.pairs)
        return f"tl_rows_{kind}_{self.m}x{self.n}x{self.k}_{strides}"


def emit_few_rows(spec: FewRows) -> str:
    """``static void NAME(const float* a, const B* b, float* c, int clear)``, which gets after
    ``a`` the same as bfloat16 where it may use pairs."""
    wide, narrow = min(_WIDE_COLUMNS[spec.m], spec.n), min(_COLUMNS[spec.m], spec.n)
    lines = []
    if spec.pairs:
        lines = ["#if TL_AVX512 && TL_BF16_GROUP == 2", *_kernel(spec, wide, True)]
    if wide != narrow:
        lines += ["#elif TL_AVX512" if lines else "#if TL_AVX512", *_kernel(spec, wide, False)]
    rest = _kernel(spec, narrow, False)
    return "\n".join([*lines, "#else", *rest, "#endif", ""] if lines else [*rest, ""])


def _kernel(spec: FewRows, columns: int, pairs: bool) -> list[str]:
    """The functions for ``columns`` rows of B at once, and the loop around them."""
    ctype, remainder, lines = _SOURCES[spec.dtype][0], spec.n % columns, []
    for count, macro in ((columns, "part"), (remainder, "rest")):
        if count:
            lines += _columns(spec, f"{spec.name}_{macro}", count)
        if count and pairs:
            lines += _pairs(spec, f"{spec.name}_{macro}_pairs", count)
    more = "const uint16_t* pairs, " if spec.pairs else ""
    lines += [
        f"static void {spec.name}(const float* a, {more}const {ctype}* b, float* c, int clear) {{",
        *(_subnormal_check(spec) if pairs else ["    (void)pairs;"] if spec.pairs else []),
        f"    for (long j = 0; j + {columns} <= {spec.n}; j += {columns})",
        f"        {_call(spec, 'part', f'b + j * {spec.b_row}', 'c + j', pairs)}",
    ]
    if remainder:
        start = spec.n - remainder
        call = _call(spec, "rest", f"b + {start} * {spec.b_row}L", f"c + {start}", pairs)
        lines.append(f"    {call}")
    return [*lines, "}"]


def _call(spec: FewRows, macro: str, b: str, c: str, pairs: bool) -> str:
    """A call for some rows of B; by pairs if no element is subnormal."""
    name = f"{spec.name}_{macro}"
    tried = f"if (small || !{name}_pairs(pairs, {b}, {c}, clear)) " if pairs else ""
    return f"{tried}{name}(a, {b}, {c}, clear);"


def _subnormal_check(spec: FewRows) -> list[str]:
    """Code that tests whether elements of A are subnormal."""
    return [
        "    tl_u16x32 some = {0};",
        f"    for (long i = 0; i < {spec.m}; ++i)",
        f"        for (long p = 0; p < {spec.k}; p += {PAIRS})",
        f"            some |= TL_SUBNORMAL(tl_u16x32, "
        f"TL_GET(tl_u16x32, pairs + i * {spec.pairs} + p));",
        "    const int small = !tl_w_all((tl_w_mask)some == 0);",
    ]


def _pairs(spec: FewRows, name: str, columns: int) -> list[str]:
    """The same as :func:`_columns` by pairs. Returns 0 and does nothing if an element of B is
    subnormal."""
    pairs = [(i, j) for i in range(spec.m) for j in range(columns)]
    sums = ", ".join(f"s{i}_{j} = {{0}}" for i, j in pairs)
    out = [
        f"static int {name}(const uint16_t* restrict a, const uint16_t* restrict b, "
        "float* restrict c, const int clear) {",
        f"    tl_w_f32 {sums};",
        "    tl_u16x32 some = {0};",
        f"    for (long p = 0; p < {spec.k}; p += {PAIRS}) {{",
    ]
    for j in range(columns):
        address = f"b + {j * spec.b_row}L + p"
        out.append(f"        __builtin_prefetch({address} + {columns * spec.b_row});")
        out.append(f"        const tl_word64 b{j} = TL_GET(tl_word64, {address});")
        out.append(f"        some |= TL_SUBNORMAL(tl_u16x32, b{j});")
    for i in range(spec.m):
        dots = (f"s{i}_{j} = TL_BF16_DOT(tl_w_f32, s{i}_{j}, b{j}, x);" for j in range(columns))
        load = f"const tl_word64 x = TL_GET(tl_word64, a + {i * spec.pairs} + p);"
        out.append(f"        {{ {load} {' '.join(dots)} }}")
    out += ["    }", "    if (!tl_w_all((tl_w_mask)some == 0)) return 0;"]
    return [*out, *_totals(spec, pairs, False), "    return 1;", "}"]


def _totals(spec: FewRows, pairs: list[tuple[int, int]], rest: bool) -> list[str]:
    """Add sums of lanes, and ``rest``, to C: four at a time."""
    out = []
    for first in range(0, len(pairs), 4):
        group = pairs[first : first + 4]
        vectors = ", ".join(f"s{i}_{j}" for i, j in (group * 4)[:4])
        out.append(f"    {{ const tl_f4 sums = tl_w_sums({vectors});")
        for at, (i, j) in enumerate(group):
            address = f"c[{i * spec.c_row} + {j}]"
            more = f" + r{i}_{j}" if rest else ""
            out.append(f"      {address} = (clear ? 0 : {address}) + sums[{at}]{more};")
        out[-1] += " }"
    return out


def _columns(spec: FewRows, name: str, columns: int) -> list[str]:
    """A function for ``columns`` rows of B, which are columns of C."""
    ctype, vector, widen, single = _SOURCES[spec.dtype]
    pairs = [(i, j) for i in range(spec.m) for j in range(columns)]
    sums = ", ".join(f"s{i}_{j} = {{0}}" for i, j in pairs)
    totals = ", ".join(f"r{i}_{j} = 0" for i, j in pairs)
    out = [
        f"static void {name}(const float* restrict a, const {ctype}* restrict b, "
        "float* restrict c, const int clear) {",
        f"    tl_w_f32 {sums};",
        "    long p = 0;",
        f"    for (; p + TL_LANES_w <= {spec.k}; p += TL_LANES_w) {{",
    ]
    for j in range(columns):
        address = f"b + {j * spec.b_row}L + p"
        out.append(f"        __builtin_prefetch({address} + {columns * spec.b_row});")
        out.append(f"        const tl_w_f32 b{j} = {widen}(TL_LOAD({vector}, {address}));")
    for i in range(spec.m):
        adds = " ".join(f"s{i}_{j} += x * b{j};" for j in range(columns))
        address = f"a + {i * spec.a_row} + p"
        out.append(f"        {{ const tl_w_f32 x = TL_LOAD(tl_w_f32, {address}); {adds} }}")
    out.append("    }")
    rest = spec.k % LANES != 0
    if rest:
        out.append(f"    float {totals};")
        out.append(f"    for (; p < {spec.k}; ++p) {{")
        for i, j in pairs:
            value = f"{single}(b[{j * spec.b_row}L + p])"
            out.append(f"        r{i}_{j} += a[{i * spec.a_row} + p] * {value};")
        out.append("    }")
    return [*out, *_totals(spec, pairs, rest), "}"]
