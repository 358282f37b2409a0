"""GEMM micro-kernels in C: matrix products of tiles in the memory of a core.

``C[M, N] (+)= A . B`` with a register block of MR rows by NV vectors: the inner loop loads one row
of a B panel (vectors) and one element of each A row (broadcasts with constant displacements) and
issues MR * NV fused multiply-adds. A table has the block sizes for each vector width; the
preprocessor picks one, so the same text serves every machine.

Panels are a cache line wide on every machine (:func:`panel_width`). A block reads consecutive whole
lines, so the part of B that it reads repeatedly uses all sets of the L1 cache. Narrow vectors take
a panel in parts, wide vectors two panels at a time.
"""

from __future__ import annotations

from tilelang.cpu.dot_instructions import PackedDot
from tilelang.records import dataclass

# Accumulator dtype -> C type. A tile is converted to it before it is multiplied.
ACCUMULATORS = {"float32": "float", "float64": "double", "int32": "int32_t"}


@dataclass(frozen=True)
class Isa:
    """Register block for one vector width; ``guard`` is the condition of the preprocessor for it.
    The loop over k is unrolled ``unroll`` times."""

    guard: str
    vector_bytes: int
    rows: int  # MR
    vectors: int  # NV
    unroll: int = 1


# AVX-512 has 32 registers: 28 accumulators, 2 of B, the broadcasts are memory operands. AVX2 has
# 16: 12 accumulators, 2 of B, 1 broadcast; its short steps (12 multiply-adds) gain from unrolling,
# which brings it from 0.91 of OpenBLAS's own AVX2 kernel to 0.98. SVE, built for
# a width, has the registers of AVX-512. The last row is for machines with 128-bit vectors.
ISAS = (
    Isa("defined(__AVX512F__) || __ARM_FEATURE_SVE_BITS == 512", 64, 14, 2),
    Isa("defined(__AVX2__) || __ARM_FEATURE_SVE_BITS == 256", 32, 6, 2, unroll=4),
    Isa("", 16, 8, 2),
)
PANEL_BYTES = LINE = 64
# Rows of C at this stride in bytes fall into one set of the L1 cache, which has this many ways.
#
CACHE_SET_STRIDE, WAYS = 4096, 8


def panel_width(dtype: str) -> int:
    """Columns of a panel of elements of ``dtype``."""
    return PANEL_BYTES // {"float32": 4, "float64": 8, "int32": 4}[dtype]


@dataclass(frozen=True)
class KernelSpec:
    """One kernel: type of the sums, sizes, strides of A (row, column), row stride of C.

    ``packed``: how narrow elements are packed into words of 32 bits, or None. Each row of A is then
    followed by the initial values of its sums, and the strides follow from that. ``b_row`` is the
    row stride of a B that is read in place, 0 for panels. ``taps``, for an implicit im2col, is
    (window size, row stride, column stride): A is read as a window of pieces of ``k`` elements, and
    B is contiguous.
    """

    dtype: str
    m: int
    n: int
    k: int
    a_row: int
    a_col: int
    c_row: int
    packed: PackedDot | None = None
    b_row: int = 0
    taps: tuple[int, int, int] | None = None

    @property
    def name(self) -> str:
        """A C name that is unique among specs."""
        kind = {"float32": "f32", "float64": "f64", "int32": "i32"}[self.dtype]
        if self.packed is not None:
            return f"tl_gemm_{self.packed.prefix.lower()}_{self.m}x{self.n}x{self.k}_{self.c_row}"
        sizes = f"{self.m}x{self.n}x{self.k}_{self.a_row}_{self.a_col}_{self.c_row}"
        taps = "" if self.taps is None else "_taps{}_{}_{}".format(*self.taps)
        return f"tl_gemm_{kind}_{sizes}" + f"_{self.b_row}" * bool(self.b_row) + taps

    @property
    def ctype(self) -> str:
        """C type of the sums."""
        return ACCUMULATORS[self.dtype]

    @property
    def size(self) -> int:
        """Bytes of a sum."""
        return 8 if self.dtype == "float64" else 4

    @property
    def operand(self) -> str:
        """C type of the elements of A and B."""
        return self.ctype if self.packed is None else "int32_t"

    @property
    def steps(self) -> str:
        """Iterations of the inner loop."""
        if self.packed is None:
            return str(self.k)
        return f"TL_DOT_WORDS({self.k}, TL_{self.packed.prefix}_GROUP)"

    @property
    def a_stride(self) -> str:
        """Row stride of A."""
        if self.packed is None:
            return str(self.a_row)
        return f"TL_DOT_ROW({self.k}, TL_{self.packed.prefix}_GROUP)"


def emit_kernel(spec: KernelSpec) -> str:
    """``static void NAME(const T* a, const T* b, T* c, int clear)``; b in panels."""
    lines: list[str] = []
    isas = _isas(spec)
    for position, isa in enumerate(isas):
        last = position == len(isas) - 1
        keyword = "else" if last else f"{'el' * bool(position)}if {_isa_condition(spec, isa)}"
        lines += [f"#{keyword}"] * (len(isas) > 1)
        rows_conflict = spec.c_row * spec.size % CACHE_SET_STRIDE == 0
        full, count = _blocks(spec.m, min(isa.rows, WAYS) if rows_conflict else isa.rows)
        has_remainder = count * full < spec.m
        lines += _types(spec, isa)
        lines.append(_micro(spec, isa, f"{spec.name}_block", full))
        if has_remainder:
            lines.append(_micro(spec, isa, f"{spec.name}_rest", full - 1))
        lines.append(f"#define TL_MR {full}")
        lines.append(f"#define TL_FULL {count * full}")
        lines.append(f"#define TL_REST {spec.name}_{'rest' if has_remainder else 'block'}")
        lines.append(f"#define TL_PART {isa.vectors * isa.vector_bytes // spec.size}")
    lines += ["#endif"] * (len(isas) > 1)
    lines.append(_driver(spec))
    lines += ["#undef TL_MR", "#undef TL_FULL", "#undef TL_REST", "#undef TL_PART", ""]
    return "\n".join(lines)


def _isas(spec: KernelSpec) -> list[Isa]:
    """Vectors that a machine with one of the units of ``spec`` may have."""
    if spec.packed is None or not all(unit.guard for unit in spec.packed.units):
        return list(ISAS)
    widths = {unit.vector_bytes for unit in spec.packed.units}
    return [isa for isa in ISAS if isa.vector_bytes in widths]


def _blocks(m: int, limit: int) -> tuple[int, int]:
    """Rows of a block, and how many blocks have as many; the others have one row less. Blocks of
    few rows wait for their own sums, so all get about the same number."""
    count = -(-m // limit)
    rows = -(-m // count)
    return rows, m - count * (rows - 1)


def _isa_condition(spec: KernelSpec, isa: Isa) -> str:
    """The condition of the preprocessor for the block of ``isa``."""
    if spec.packed is None:
        return isa.guard
    return f"TL_{spec.packed.prefix}_BYTES == {isa.vector_bytes}"


def _types(spec: KernelSpec, isa: Isa) -> list[str]:
    """Vectors of sums, aligned and not."""
    wide = f"vector_size({isa.vector_bytes})"
    return [
        f"typedef {spec.ctype} {spec.name}_v __attribute__(({wide}));",
        f"typedef {spec.ctype} {spec.name}_u __attribute__(({wide}, aligned({spec.size})));",
    ]


def _micro(spec: KernelSpec, isa: Isa, name: str, rows: int) -> str:
    """The inner kernel: a block of ``rows`` by NV vectors in registers. It prefetches its
    accumulators and the rows of the next block; ``next`` is the distance to the next panel."""
    lanes, width = isa.vector_bytes // spec.size, panel_width(spec.dtype)
    vec, loose = f"{spec.name}_v", f"{spec.name}_u"
    factors = vec if spec.packed is None else f"tl_word{isa.vector_bytes}"
    vectors = range(isa.vectors)
    out = [
        f"static __attribute__((noinline)) void {name}(const {spec.operand}* restrict a, "
        f"const {spec.operand}* restrict b, const long next, {spec.ctype}* restrict c, "
        "const long ldc, const int clear) {"
    ]
    for i in range(rows):
        names = ", ".join(f"c{i}_{v} = {_start(spec, vec, i)}" for v in vectors)
        out.append(f"    {vec} {names};")
    for line in range(0, isa.vectors * isa.vector_bytes, LINE):
        at = f"c + i * ldc{f' + {line // spec.size}' if line else ''}"
        out.append(f"    for (int i = 0; i < {rows}; ++i) __builtin_prefetch({at}, 1);")
    left_operand, right_operand = ("a", "b") if spec.taps is None else ("pixels", "weights")
    if spec.taps is not None:
        count, lines, columns = spec.taps
        out += [
            f"    for (long tap = 0; tap < {count * count}; ++tap) {{",
            f"    const {spec.ctype}* const {left_operand} = a + tap / {count} * {lines}"
            f" + tap % {count} * {columns};",
            f"    const {spec.ctype}* const {right_operand} = b + tap * {spec.k * spec.b_row};",
        ]
    if isa.unroll > 1:
        out.append(f"#pragma GCC unroll {isa.unroll}")
    out.append(f"    for (long p = 0; p < {spec.steps}; ++p) {{")
    stored = loose if spec.b_row else factors
    addresses = {v: f"{right_operand} + {_column(v * lanes, width, spec.b_row)}" for v in vectors}
    loads = " ".join(f"const {factors} b{v} = *(const {stored}*)({addresses[v]});" for v in vectors)
    out.append(f"        {_prefetch(spec, rows)}{loads}")
    step = "p" if spec.packed is not None or spec.a_col == 1 else f"p * {spec.a_col}"
    for i in range(rows):
        at = f"{left_operand}[{_times(i, spec.a_stride)} + {step}]"
        if spec.packed is None:
            fma = " ".join(f"c{i}_{v} += x * b{v};" for v in vectors)
            out.append(f"        {{ const {spec.ctype} x = {at}; {fma} }}")
            continue
        dot = f"TL_{spec.packed.prefix}_DOT({vec}, "
        fma = " ".join(f"c{i}_{v} = {dot}c{i}_{v}, b{v}, x);" for v in vectors)
        out.append(f"        {{ const {factors} x = {at} - ({factors}){{0}}; {fma} }}")
    out.append("    }" if spec.taps is None else "    }}")
    for sign, head in (("=", "if (clear) {"), ("+=", "} else {")):
        out.append(f"    {head}")
        for i in range(rows):
            stores = (f"*({loose}*)(c + {i} * ldc + {v * lanes}) {sign} c{i}_{v};" for v in vectors)
            out.append(f"        {' '.join(stores)}")
    out += ["    }", "}"]
    return "\n".join(out)


def _prefetch(spec: KernelSpec, rows: int) -> str:
    """Prefetch A of the next block, where its rows are contiguous: about one line per step. A does
    not stay in the L1 cache from one part of B to the next, and a hardware prefetcher does not
    follow so many rows."""
    is_contiguous = spec.packed is not None or (spec.a_col == 1 and 0 <= spec.a_row - spec.k <= 16)
    if not is_contiguous or spec.taps is not None or 2 * rows * spec.size < LINE:
        return ""
    return f"__builtin_prefetch(a + {rows} * ({spec.a_stride} + p)); "


def _start(spec: KernelSpec, vec: str, row: int) -> str:
    """The initial value of the sums of a row."""
    if spec.packed is None or spec.dtype == "float32":
        return "{0}"
    return f"a[{_times(row, spec.a_stride)} + {spec.steps}] - ({vec}){{0}}"


def _times(row: int, stride: str) -> str:
    return str(row * int(stride)) if stride.isdigit() else f"{row} * {stride}"


def _column(column: int, width: int, row: int) -> str:
    """Offset of row p of B, from a column of the part on; ``row`` is the stride of its rows, 0 for
    panels."""
    panel, within = divmod(column, width)
    return f"{'next + ' if panel else ''}p * {row or width} + {within}"


def _tiles(spec: KernelSpec) -> str:
    """The call of the kernel for tiles, where there are some."""
    if spec.packed is None or spec.packed.tiles is None:
        return ""
    name, group = f"TL_{spec.packed.prefix}_TILES", spec.packed.tiles.group
    packed, row = (f"TL_DOT_{size}({spec.k}, {group})" for size in ("WORDS", "ROW"))
    return f"""\
#ifdef {name}
    if (tl_tiles()) {{
        {name}(a, b, c, {spec.m}, {spec.n}, {packed}, {row} * 4, {spec.c_row}, clear);
        return;
    }}
#endif
"""


def _driver(spec: KernelSpec) -> str:
    """Loops over panels and row blocks; columns beyond the tile are computed in a buffer and
    copied."""
    ctype, operand = spec.ctype, spec.operand
    width = panel_width(spec.dtype)
    name, row = spec.name, spec.c_row
    panel = str(width * (1 if spec.b_row else spec.k))
    if spec.packed is not None:
        panel = f"{width} * {spec.steps}"
    return f"""\
static void {name}(const {operand}* a, const {operand}* b, {ctype}* c, int clear) {{
{_tiles(spec)}\
    {ctype} t[TL_MR * TL_PART] __attribute__((aligned(64)));
    for (long j = 0; j < {spec.n}; j += TL_PART) {{
        const {operand}* part = b + j / {width} * ({panel}) + j % {width};
        const long n = {spec.n} - j < TL_PART ? {spec.n} - j : TL_PART;
        const long next = n > {width} ? {panel} : 0, ldc = n == TL_PART ? {row} : TL_PART;
        for (long i = 0, m; i < {spec.m}; i += m) {{
            m = i < TL_FULL ? TL_MR : TL_MR - 1;
            const {operand}* rows = a + i * {spec.a_stride};
            {ctype}* out = c + i * {row} + j;
            {ctype}* to = n == TL_PART ? out : t;
            if (m == TL_MR) {name}_block(rows, part, next, to, ldc, clear || to == t);
            else TL_REST(rows, part, next, to, ldc, clear || to == t);
            if (to != t) continue;
            for (long x = 0; x < m; ++x)
                for (long y = 0; y < n; ++y)
                    out[x * {row} + y] = t[x * TL_PART + y] + (clear ? 0 : out[x * {row} + y]);
        }}
    }}
}}"""
