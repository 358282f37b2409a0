"""C text of matrix-product kernels on tiles in a core's memory.

``C[M, N] (+)= A . B`` with a register block of MR rows by NV vectors: the inner loop reads one row
of a B panel (vectors) and one element of each A row (broadcasts with constant displacements) and
issues MR * NV fused multiply-adds. The block sizes of each vector width are rows of a table; the
preprocessor picks one, so the same text serves every machine.

Panels are as wide for every machine (:func:`panel_width`), narrower vectors take them in parts.
"""

from __future__ import annotations

from dataclasses import dataclass

# Accumulator dtype -> C type. A tile is converted to it before it is multiplied.
ACCUMULATORS = {"float32": "float", "float64": "double", "int32": "int32_t"}


@dataclass(frozen=True)
class Isa:
    """Register block for one vector width; ``macro`` is what compilers define for it. The loop
    over k is unrolled ``unroll`` times."""

    macro: str
    vector_bytes: int
    rows: int  # MR
    vectors: int  # NV
    unroll: int = 1


# AVX-512 has 32 registers: 28 accumulators, 2 of B, the broadcasts are memory operands. AVX2 has
# 16: 12 accumulators, 2 of B, 1 broadcast; its short steps (12 multiply-adds) are worth unrolling,
# which brings it from 0.91 of OpenBLAS's own AVX2 kernel to 0.98. The last row is for machines with
# 128-bit vectors.
ISAS = (
    Isa("__AVX512F__", 64, 14, 2),
    Isa("__AVX2__", 32, 6, 2, unroll=4),
    Isa("", 16, 8, 2),
)
PANEL_BYTES = 128


def panel_width(dtype: str) -> int:
    """Columns of a panel of elements of ``dtype``."""
    return PANEL_BYTES // {"float32": 4, "float64": 8, "int32": 4}[dtype]


@dataclass(frozen=True)
class KernelSpec:
    """One kernel: element type, sizes, strides of A (row, column), row stride of C."""

    dtype: str
    m: int
    n: int
    k: int
    a_row: int
    a_col: int
    c_row: int

    @property
    def name(self) -> str:
        """A C name that is unique among specs."""
        kind = {"float32": "f32", "float64": "f64", "int32": "i32"}[self.dtype]
        sizes = f"{self.m}x{self.n}x{self.k}_{self.a_row}_{self.a_col}_{self.c_row}"
        return f"tl_gemm_{kind}_{sizes}"


def emit_kernel(spec: KernelSpec) -> str:
    """``static void NAME(const T* a, const T* b, T* c, int clear)``; b in panels."""
    lines: list[str] = []
    for position, isa in enumerate(ISAS):
        lines.append(
            f"#if defined({isa.macro})"
            if position == 0
            else f"#elif defined({isa.macro})"
            if isa.macro
            else "#else"
        )
        lines.append(_micro(spec, isa))
        lines.append(f"#define TL_MR {isa.rows}")
        lines.append(f"#define TL_PART {_part(spec, isa)}")
    lines.append("#endif")
    lines.append(_driver(spec))
    lines += ["#undef TL_MR", "#undef TL_PART", ""]
    return "\n".join(lines)


def _part(spec: KernelSpec, isa: Isa) -> int:
    """Columns that one call of the inner kernel computes."""
    size = 8 if spec.dtype == "float64" else 4
    return isa.vectors * isa.vector_bytes // size


def _micro(spec: KernelSpec, isa: Isa) -> str:
    """The inner kernel: a block of MR rows by NV vectors in registers."""
    ctype = ACCUMULATORS[spec.dtype]
    size = 8 if spec.dtype == "float64" else 4
    lanes = isa.vector_bytes // size
    width = panel_width(spec.dtype)
    name = f"{spec.name}_block"
    vec, loose = f"{spec.name}_v", f"{spec.name}_u"
    rows, vectors = range(isa.rows), range(isa.vectors)
    out = [
        f"typedef {ctype} {vec} __attribute__((vector_size({isa.vector_bytes})));",
        f"typedef {ctype} {loose} "
        f"__attribute__((vector_size({isa.vector_bytes}), aligned({size})));",
        f"static inline __attribute__((always_inline)) void {name}(const {ctype}* restrict a, "
        f"const {ctype}* restrict b, {ctype}* restrict c, const long ldc, const int clear) {{",
    ]
    for i in rows:
        names = ", ".join(f"c{i}_{v} = {{0}}" for v in vectors)
        out.append(f"    {vec} {names};")
    if isa.unroll > 1:
        out.append(f"#pragma GCC unroll {isa.unroll}")
    out.append(f"    for (long p = 0; p < {spec.k}; ++p) {{")
    loads = " ".join(
        f"const {vec} b{v} = *(const {vec}*)(b + p * {width} + {v * lanes});" for v in vectors
    )
    out.append(f"        {loads}")
    for i in rows:
        step = "p" if spec.a_col == 1 else f"p * {spec.a_col}"
        fma = " ".join(f"c{i}_{v} += x * b{v};" for v in vectors)
        out.append(f"        {{ const {ctype} x = a[{i * spec.a_row} + {step}]; {fma} }}")
    out.append("    }")
    for i in rows:
        for v in vectors:
            at = f"*({loose}*)(c + {i} * ldc + {v * lanes})"
            out.append(f"    if (clear) {at} = c{i}_{v}; else {at} += c{i}_{v};")
    out.append("}")
    return "\n".join(out)


def _driver(spec: KernelSpec) -> str:
    """Loops over panels and row blocks; what sticks out is computed beside and copied."""
    ctype = ACCUMULATORS[spec.dtype]
    width = panel_width(spec.dtype)
    call = f"{spec.name}_block"
    block = f"const {ctype}* a, const {ctype}* b, {ctype}* c"
    row = spec.c_row
    return f"""\
static __attribute__((noinline)) void {spec.name}_full({block}, int clear) {{
    if (clear) {call}(a, b, c, {row}, 1); else {call}(a, b, c, {row}, 0);
}}
static __attribute__((noinline)) void {spec.name}_edge({block}, long m, long n, int clear) {{
    {ctype} t[TL_MR * TL_PART] __attribute__((aligned(64)));
    {call}(a, b, t, TL_PART, 1);
    for (long i = 0; i < m; ++i)
        for (long j = 0; j < n; ++j) {{
            const {ctype} found = t[i * TL_PART + j];
            c[i * {row} + j] = clear ? found : c[i * {row} + j] + found;
        }}
}}
static void {spec.name}({block}, int clear) {{
    for (long j = 0; j < {spec.n}; j += TL_PART) {{
        const {ctype}* panel = b + j / {width} * {width * spec.k} + j % {width};
        const long n = {spec.n} - j < TL_PART ? {spec.n} - j : TL_PART;
        for (long i = 0; i < {spec.m}; i += TL_MR) {{
            const long m = {spec.m} - i < TL_MR ? {spec.m} - i : TL_MR;
            const {ctype}* rows = a + i * {spec.a_row};
            {ctype}* out = c + i * {row} + j;
            if (m == TL_MR && n == TL_PART) {spec.name}_full(rows, panel, out, clear);
            else {spec.name}_edge(rows, panel, out, m, n, clear);
        }}
    }}
}}"""
