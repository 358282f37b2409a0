"""C statements of one matrix product: packing of operands, then the call of the micro-kernel."""

from __future__ import annotations

from collections.abc import Callable

from tilelang.codegen.c import bare
from tilelang.cpu.codegen import BlockWriter
from tilelang.cpu.dot_instructions import (
    BFLOAT16_PAIRS,
    SEVEN_BITS,
    SIGNED_BYTES,
    TILE_WORDS,
    PackedDot,
    packed_dot_of,
)
from tilelang.cpu.dot_kernels import PAIRS, FewRows, emit_few_rows, has_few_rows
from tilelang.cpu.gemm_kernels import ACCUMULATORS, KernelSpec, emit_kernel, panel_width
from tilelang.cpu.outer_product_kernels import OuterProduct, emit_outer, is_outer_product
from tilelang.cpu.small_operands import is_b_small
from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.transforms.analysis.combine import accumulator


def has_kernel(stmt: S.Gemm) -> bool:
    """Whether there is a kernel for the accumulator dtype and all sizes are constant."""
    wide = accumulator(stmt.a.dtype, stmt.c.dtype)
    sizes = (*stmt.a.extents[-2:], *stmt.b.extents[-2:], *stmt.c.extents[-2:])
    return wide in ACCUMULATORS and all(isinstance(size, int) for size in sizes)


class GemmWriter:
    """Writes one product into a block function."""

    def __init__(self, writer: BlockWriter, stmt: S.Gemm) -> None:
        self.w = writer
        self.p = writer.p
        self.stmt = stmt
        self.wide = accumulator(stmt.a.dtype, stmt.c.dtype)
        self.ctype = ACCUMULATORS[self.wide]
        self.m, self.n = (int(e) for e in stmt.c.extents[-2:])
        self.k = int(stmt.a.extents[-2 if stmt.trans_a else -1])

    def write(self) -> None:
        """The statements, in a block of their own."""
        with self.w.block():
            if has_few_rows(self.stmt):
                c, c_row = self._few_rows()
            elif is_outer_product(self.stmt):
                c, c_row = self._outer_products()
            else:
                c, c_row = self._blocks()
            if self.stmt.c.dtype != self.wide:
                self._convert_back(c, c_row)

    def _few_rows(self) -> tuple[str, int]:
        """The product of few rows; gives its result and row stride."""
        a, a_row, _ = self._rows(self.stmt.a, "a")
        region = self.stmt.b
        b, b_row = self.p.address(region.buffer, region.mins), self._stride(region)
        c, c_row = self._result()
        pairs, more = 0, ""
        if packed_dot_of(self.stmt.a.dtype, region.dtype, self.wide) and self.k % PAIRS == 0:
            pairs = self._stride(self.stmt.a)
            more = f"{self.p.address(self.stmt.a.buffer, self.stmt.a.mins)}, "
            self.w.unit.support.setdefault(BFLOAT16_PAIRS.prefix, BFLOAT16_PAIRS.text)
            self.w.unit.dots = True
        spec = FewRows(region.dtype, self.m, self.n, self.k, a_row, b_row, c_row, pairs)
        self.w.unit.vectors = True
        self._call(spec.name, emit_few_rows(spec), f"{a}, {more}{b}, {c}")
        return c, c_row

    def _outer_products(self) -> tuple[str, int]:
        """The product of few rows with a B that is read in place; gives its result and row
        stride."""
        a, a_row, _ = self._rows(self.stmt.a, "a")
        b, b_row, _ = self._rows(self.stmt.b, "b")
        c, c_row = self._result()
        spec = OuterProduct(self.m, self.n, self.k, a_row, b_row, c_row)
        self.w.unit.vectors = True
        self._call(spec.name, emit_outer(spec), f"{a}, {b}, {c}")
        return c, c_row

    def _blocks(self) -> tuple[str, int]:
        """The product by blocks of registers; gives its result and row stride."""
        packed = packed_dot_of(self.stmt.a.dtype, self.stmt.b.dtype, self.wide)
        taps = self.stmt.hints.taps
        if packed is BFLOAT16_PAIRS:
            return self._bfloat16_pairs(packed)
        if packed is SIGNED_BYTES:
            return self._signed_bytes(packed)
        if packed is None:
            a, a_row, a_col = self._rows(self.stmt.a, "a")
            if self.stmt.trans_a:
                a_row, a_col = a_col, a_row
            b, b_row = self._panels(taps is not None)
        else:
            a_row, a_col, b_row = 0, 1, 0
            a, b = self._packed(packed)
        c, c_row = self._result()
        spec = KernelSpec(
            self.wide, self.m, self.n, self.k, a_row, a_col, c_row, packed, b_row, taps
        )
        self._call(spec.name, emit_kernel(spec), f"{a}, {b}, {c}")
        return c, c_row

    def _call(self, name: str, kernel: str, operands: str) -> None:
        """A call of ``kernel``, whose text is put into the file once."""
        self.w.unit.support.setdefault(name, kernel)
        self.w.put(f"{name}({operands}, {bare(self.p.value(self.stmt.clear))});")

    # -- operands -------------------------------------------------------------------------------
    def _stride(self, region: Region) -> int:
        """Row stride of the matrix in its buffer."""
        strides = region.buffer.stride_list()
        row, column = strides[-2], strides[-1]
        if not isinstance(row, int) or column != 1:
            raise TileUnsupportedError(
                f"an operand of T.gemm is the strided tensor `{region.buffer.name}`",
                expected="a tile made by T.alloc_shared or T.alloc_fragment", loc=self.stmt.loc,
            )  # fmt: skip
        return row

    def scratch(self, name: str, count: int, kind: str = "") -> str:
        """A converted operand in the arena; ``kind`` is its type in C, that of sums by default."""
        kind = kind or self.ctype
        size = 8 if self.wide == "float64" else 4
        offset = self.w.arena_bytes
        self.w.arena_bytes += (count * size + 63) // 64 * 64
        fresh = self.w.names.fresh(name)
        self.w.put(f"{kind}* const {fresh} = ({kind}*)(arena + {offset});")
        return fresh

    def _rows(self, region: Region, name: str) -> tuple[str, int, int]:
        """Pointer, row stride and column stride of a region in the accumulator's type."""
        stride = self._stride(region)
        if region.dtype == self.wide:
            return self.p.address(region.buffer, region.mins), stride, 1
        rows, columns = (int(e) for e in region.extents[-2:])
        target = self.scratch(f"{region.buffer.name}_{name}", rows * columns)
        self._convert(region, target, rows, columns)
        return target, columns, 1

    def _convert(self, region: Region, target: str, rows: int, columns: int) -> None:
        def convert(row: str, column: str, at: tuple[E.Expr, ...]) -> str:
            value = bare(self.p.value(E.cast(E.Load(region.buffer, at), self.wide)))
            return f"{target}[{row} * {columns} + {column}] = {value};"

        self._loop_over(region, rows, columns, convert)

    def _loop_over(
        self, region: Region, rows: int, columns: int,
        text: Callable[[str, str, tuple[E.Expr, ...]], str],
    ) -> None:  # fmt: skip
        """``text`` for each element of ``region``: its row and column, and its indices."""
        r, c = E.Var("r", DType("int32")), E.Var("c", DType("int32"))
        self.p.wide.update((r, c))
        row, column, low = self.w.names.of(r, "r"), self.w.names.of(c, "c"), region.mins
        line = text(row, column, (*low[:-2], low[-2] + r, low[-1] + c))
        self.w.put(f"for (int64_t {row} = 0; {row} < {rows}; ++{row}) {{")
        self.w.put("    #pragma omp simd")
        self.w.put(f"    for (int64_t {column} = 0; {column} < {columns}; ++{column}) {line}")
        self.w.put("}")

    def _panels(self, in_place: bool) -> tuple[str, int]:
        """Pointer to B in panels, packed here unless the tile is stored that way; or to a small B
        in place, and the stride of its rows; that with ``in_place`` in any case."""
        region = self.stmt.b
        if self.stmt.hints.panels is not None:
            return self.p.pointer(region.buffer), 0
        if in_place or is_b_small(self.stmt):
            return self.p.address(region.buffer, region.mins), self._stride(region)
        source, stride, _ = self._rows(region, "b")
        width = panel_width(self.wide)
        target = self.scratch(f"{region.buffer.name}_panels", -(-self.n // width) * width * self.k)
        size = 8 if self.wide == "float64" else 4
        if self.stmt.trans_b:
            call = f"tl_pack_t_{size}({source}, {stride}, {self.n}, {self.k}, {target}, {width});"
        else:
            call = f"tl_pack_n({source}, {stride}, {self.n}, {self.k}, {target}, {width}, {size});"
        self.w.put(call)
        return target, 0

    def _packed(self, packed: PackedDot) -> tuple[str, str]:
        """Pointers to packed A and B."""
        tiles = self._packed_tiles(packed)
        self._pack(packed, tiles, f"TL_{packed.prefix}_LAYOUT")
        return tiles[0][-1], tiles[1][-1]

    def _pack(
        self, packed: PackedDot, tiles: list[tuple[Region, str, int, bool, str]], layout: str
    ) -> None:
        """Pack the operands in 32-bit words; ``layout``: elements per word, and the offset added to
        those of B."""
        for region, form, size, trans, target in tiles:
            source, stride = self.p.address(region.buffer, region.mins), self._stride(region)
            self.w.put(
                f"tl_{form}_{packed.pack}({source}, {stride}, {size}, {self.k}, {int(trans)}, "
                f"{int(region.dtype.is_uint)}, {layout}, {target});"
            )

    def _signed_bytes(self, packed: PackedDot) -> tuple[str, int]:
        """The product of int8, which one more instruction computes where an operand has seven
        bits and the machine has none for eight."""
        tiles, (c, c_row) = self._packed_tiles(packed), self._result()
        support, prefix = self.w.unit.support, SEVEN_BITS.prefix
        support.setdefault(prefix, SEVEN_BITS.text)
        plain, seven = (
            KernelSpec(self.wide, self.m, self.n, self.k, 0, 1, c_row, name)
            for name in (packed, SEVEN_BITS)
        )
        if plain.name not in support:
            support[plain.name] = emit_kernel(plain)
            support[seven.name] = f"#ifdef TL_{prefix}_GROUP\n{emit_kernel(seven)}#endif\n"
        operands = f"{tiles[0][-1]}, {tiles[1][-1]}, {c}, {bare(self.p.value(self.stmt.clear))}"
        offset, arguments = self.w.names.fresh("offset"), []
        for region, *_ in tiles:
            rows, columns = region.extents[-2:]
            address = self.p.address(region.buffer, region.mins)
            arguments.append(f"{address}, {self._stride(region)}, {rows}, {columns}")
        self.w.put(f"#ifdef TL_{prefix}_GROUP")
        self.w.put(f"const int {offset} = tl_seven_bits({', '.join(arguments)});")
        with self.w.block(f"if ({offset}) {{", "} else"):
            self._pack(packed, tiles, f"TL_{prefix}_GROUP, {offset}")
            self.w.put(f"{seven.name}({operands});")
        self.w.put("#endif")
        with self.w.block():
            self._pack(packed, tiles, f"TL_{packed.prefix}_LAYOUT")
            self.w.put(f"{plain.name}({operands});")
        return c, c_row

    def _packed_tiles(self, packed: PackedDot) -> list[tuple[Region, str, int, bool, str]]:
        """Each operand with its packing, its rows or columns, whether it is transposed, and its
        packed address."""
        self.w.unit.support.setdefault(packed.prefix, packed.text)
        self.w.unit.dots = True
        stmt, words = self.stmt, packed.most_words(self.k)
        width = panel_width(packed.accumulator)
        counts = self.m * (words + TILE_WORDS), -(-self.n // width) * width * words
        sides = ((stmt.a, "rows", self.m, stmt.trans_a), (stmt.b, "panels", self.n, stmt.trans_b))
        return [
            (*side, self.scratch(f"{side[0].buffer.name}_{side[1]}", count, "int32_t"))
            for side, count in zip(sides, counts)
        ]

    def _bfloat16_pairs(self, packed: PackedDot) -> tuple[str, int]:
        """The product of bfloat16 in pairs, or element by element where one is subnormal."""
        tiles, (c, c_row) = self._packed_tiles(packed), self._result()
        fast = KernelSpec(self.wide, self.m, self.n, self.k, 0, 1, c_row, packed)
        exact = KernelSpec(self.wide, self.m, self.n, self.k, self.k + 1, 1, c_row)
        support, group = self.w.unit.support, self.w.names.fresh("group")
        if exact.name not in support:
            support[exact.name] = emit_kernel(exact)
        support.setdefault(
            fast.name,
            f"#if TL_{packed.prefix}_GROUP > 1\n{emit_kernel(fast)}\n#else\n"
            f"#define {fast.name}(A, B, C, CLEAR) ((void)0)\n#endif\n",
        )
        calls = []
        for region, form, size, trans, target in tiles:
            source, stride = self.p.address(region.buffer, region.mins), self._stride(region)
            arguments = f"{source}, {stride}, {size}, {self.k}, {int(trans)}"
            calls.append((f"tl_{form}_{packed.pack}({arguments}, ", f", {target})"))
        tests = " || ".join(f"{head}{group}{tail}" for head, tail in calls)
        self.w.put(f"int {group} = TL_{packed.prefix}_GROUP;")
        self.w.put(f"if ({group} > 1 && ({tests})) {group} = 1;")
        repack = " ".join(f"{head}1{tail};" for head, tail in calls)
        self.w.put(f"if ({group} == 1) {{ {repack} }}")
        a, b, clear = tiles[0][-1], tiles[1][-1], bare(self.p.value(self.stmt.clear))
        self.w.put(f"if ({group} > 1) {fast.name}({a}, {b}, {c}, {clear});")
        self.w.put(f"else {exact.name}((const float*){a}, (const float*){b}, {c}, {clear});")
        return c, c_row

    def _result(self) -> tuple[str, int]:
        """Pointer to C in the accumulator's type, and its row stride."""
        region = self.stmt.c
        if region.dtype == self.wide:
            return self.p.address(region.buffer, region.mins), self._stride(region)
        target = self.scratch(f"{region.buffer.name}_c", self.m * self.n)
        self._convert(region, target, self.m, self.n)
        return target, self.n

    def _convert_back(self, source: str, stride: int) -> None:
        buffer, dtype = self.stmt.c.buffer, self.stmt.c.dtype

        def store(row: str, column: str, at: tuple[E.Expr, ...]) -> str:
            value = f"{source}[{row} * {stride} + {column}]"
            return self.p.stored(
                dtype, self.p.pointer(buffer), self.p.flat_index(buffer, at), value
            )

        self._loop_over(self.stmt.c, self.m, self.n, store)
