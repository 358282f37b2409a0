"""Products of one warp by ``mma.sync``, emitted instruction by instruction.

A :class:`TensorCoreIntrinEmitter` divides a product among the warps of a block and emits the
intrinsics for it: loads of operands by ``ldmatrix``, products, stores. Its
methods are called in kernels and in macros. Operands and sums are local arrays, or fragments that
have the layouts of :meth:`~TensorCoreIntrinEmitter.make_mma_load_layout` and
:meth:`~TensorCoreIntrinEmitter.make_mma_store_layout`.
"""

from __future__ import annotations

from typing import Any

import tilelang.language as T
from tilelang.compat.emitters.layout.mma_layout import (
    operand_element,
    operand_position,
    result_position,
)
from tilelang.compat.emitters.layout.utils import get_ldmatrix_offset, mma_store_index_map
from tilelang.cuda.forms import MMA, SHORT
from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError, check_choice
from tilelang.frontend.regions import describe, region_of
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Expr, Var, as_expr
from tilelang.ir.lanes import WARP
from tilelang.ir.simplify import simplify
from tilelang.language.dtypes import float16
from tilelang.layout import Fragment
from tilelang.layout.layout import constant_extents

__all__ = ["TensorCoreIntrinEmitter", "lift"]


def lift(value: Any) -> Expr:
    """A Python number as an expression of the language; expressions stay what they are."""
    return as_expr(value)


class TensorCoreIntrinEmitter:
    """Emits the instructions of ``C += A @ B`` for a block of warps.

    A warp computes ``warp_row_tiles`` x ``warp_col_tiles`` of the block's
    ``block_row_warps * warp_row_tiles`` x ``block_col_warps * warp_col_tiles``, ``chunk`` deep.

    Args:
        a_dtype, b_dtype, accum_dtype: of the operands and of the sum.
        a_transposed: A is stored as (k, m) instead of (m, k).
        b_transposed: B is stored as (n, k) instead of (k, n).
        block_row_warps, block_col_warps: warps along m and along n.
        warp_row_tiles, warp_col_tiles: rows and columns of a warp.
        chunk: extent of k.
        reduce_k: groups of warps that split k.
        num_elems_per_byte: 1: operands have no elements of less than a byte.
        is_m_first: neighbouring warps are neighbours along n instead of m.
        thread_var: number of the thread; by default that of the kernel.

    Raises:
        TileUnsupportedError: no instruction has these dtypes.
        TileValueError: extents that instructions do not fill.
    """

    WARP_SIZE = WARP
    M_DIM = 16
    n_dim = 16
    dtype_abbrv = SHORT
    is_m_first = False

    def __init__(
        self, a_dtype: Any = float16, b_dtype: Any = float16, accum_dtype: Any = float16,
        a_transposed: bool = False, b_transposed: bool = False, block_row_warps: int = 2,
        block_col_warps: int = 2, warp_row_tiles: int = 8, warp_col_tiles: int = 8,
        chunk: int = 16, reduce_k: int = 1, num_elems_per_byte: int = 1,
        is_m_first: bool | None = False, thread_var: Var | None = None,
    ) -> None:  # fmt: skip
        self.a_dtype, self.b_dtype = DType(a_dtype), DType(b_dtype)
        self.accum_dtype = DType(accum_dtype)
        self.a_transposed, self.b_transposed = a_transposed, b_transposed
        self.block_row_warps, self.block_col_warps = block_row_warps, block_col_warps
        self.warp_row_tiles, self.warp_col_tiles = warp_row_tiles, warp_col_tiles
        self.chunk = chunk
        self.reduce_k = reduce_k
        self.num_elems_per_byte = num_elems_per_byte
        self.thread_var = thread_var
        if is_m_first is not None:
            self.is_m_first = is_m_first
        self.k_dim = 256 // self.a_dtype.bits
        self.micro_size_x, self.micro_size_k = self.M_DIM, self.k_dim
        self.micro_size_y = self.n_dim = 16 if warp_col_tiles % 16 == 0 else 8
        self._check_extents()
        self.warp_rows = warp_row_tiles // self.micro_size_x
        self.warp_cols = warp_col_tiles // self.micro_size_y
        self.local_size_a = self.micro_size_x * self.micro_size_k // self.WARP_SIZE
        self.local_size_b = self.micro_size_y * self.micro_size_k // self.WARP_SIZE
        self.local_size_out = self.micro_size_x * self.micro_size_y // self.WARP_SIZE
        self.threads = self.WARP_SIZE * block_row_warps * block_col_warps * reduce_k
        self.a_dtype_abbrv, self.b_dtype_abbrv = self._operand(a_dtype), self._operand(b_dtype)
        self.accum_dtype_abbrv = SHORT.get(str(self.accum_dtype), str(self.accum_dtype))
        self._choose_instruction()

    # -- queries -----------------------------------------------------------------------------
    @staticmethod
    def _operand(dtype: Any) -> str:
        """The name of an operand's dtype in instructions: float32 is multiplied as tfloat32."""
        name = str(DType(dtype))
        short = SHORT.get(name, name)
        return "tf32" if short == "f32" else short

    def _check_extents(self) -> None:
        rows, columns = self.warp_row_tiles, self.warp_col_tiles
        groups = (self.block_row_warps, self.block_col_warps, self.reduce_k)
        if min(groups) < 1 or self.num_elems_per_byte != 1:
            raise TileValueError(
                "there is no such block of warps, or no such operand",
                expected="1 or more warps along m, n and k; num_elems_per_byte=1",
                got=f"{' x '.join(map(str, groups))} warps, "
                f"{self.num_elems_per_byte} elements in a byte",
            )
        if self.a_dtype.bits not in (8, 16, 32) or self.a_dtype.bits != self.b_dtype.bits:
            raise TileUnsupportedError(
                f"there is no emitter of products of {self.a_dtype} and {self.b_dtype}",
                expected="operands of the same 8, 16 or 32 bits",
                got=f"{self.a_dtype.bits} and {self.b_dtype.bits} bits",
            )
        if (
            rows < 16
            or rows % 16
            or columns < 8
            or columns % 8
            or self.chunk < 1
            or self.chunk % self.k_dim
        ):
            raise TileValueError(
                "the tile of a warp is not made of whole matrix instructions",
                expected=f"rows a multiple of 16, columns of 8, k of {self.k_dim}",
                got=f"{rows} x {columns}, k {self.chunk}",
            )

    def _choose_instruction(self) -> None:
        self.mma_prefix = f"m16n8k{self.k_dim}"
        a, b, c = self.a_dtype_abbrv, self.b_dtype_abbrv, self.accum_dtype_abbrv
        if (self.mma_prefix, a, b, c) not in MMA:
            raise TileUnsupportedError(
                f"there is no matrix instruction {self.mma_prefix} of {a} and {b} into {c}",
                expected="one of " + ", ".join(".".join(key) for key in MMA if key[0][-2:] != "k4"),
                got=f"{self.mma_prefix}.{a}.{b}.{c}",
            )

    @property
    def mma_num_inst_m(self) -> int:
        """Instruction tiles of a warp along m."""
        return self.warp_rows

    @property
    def mma_num_inst_n(self) -> int:
        """Instruction tiles of a warp along n."""
        return self.warp_cols

    # -- threads -----------------------------------------------------------------------------------
    def get_thread_binding(self) -> Any:
        """The number of the thread."""
        return T.get_thread_binding() if self.thread_var is None else self.thread_var

    def extract_thread_binding(
        self, thread_id: Any, is_m_first: bool | None = None
    ) -> tuple[Any, Any, Any]:
        """Lane, number of the warp along n and along m, of a thread."""
        first = self.is_m_first if is_m_first is None else is_m_first
        rows, columns = self.block_row_warps, self.block_col_warps
        warp = thread_id // self.WARP_SIZE
        if first:
            return thread_id % self.WARP_SIZE, warp % columns, warp // columns % rows
        return thread_id % self.WARP_SIZE, warp // rows % columns, warp % rows

    def _warp(self, along_m: Any, along_n: Any) -> Any:
        """The number of a warp in the block."""
        if self.is_m_first:
            return along_m * self.block_col_warps + along_n
        return along_n * self.block_row_warps + along_m

    # -- loads -------------------------------------------------------------------------------------
    def ldmatrix_a(
        self, A_local_buf: Buffer, A_shared_buf: Any, ki: Any, rk: Any = 0, *,
        thread_binding: Any = None,
    ) -> None:  # fmt: skip
        """Load step ``ki`` of the warp's rows of A, a tile in shared memory, into registers.

        Args:
            A_local_buf: where to; a local array holds one step, a fragment all of them.
            A_shared_buf: (m, k), or (k, m) where A is transposed: a buffer or a region.
            ki: step of ``micro_size_k`` along k.
            rk: chunk of k, of ``chunk`` elements.
            thread_binding: number of the thread, instead of the emitter's.
        """
        self._load("A", A_local_buf, A_shared_buf, ki, rk, thread_binding)

    def ldmatrix_b(
        self, B_local_buf: Buffer, B_shared_buf: Any, ki: Any, rk: Any = 0, *,
        thread_binding: Any = None,
    ) -> None:  # fmt: skip
        """Load step ``ki`` of the warp's columns of B: (k, n), or (n, k) where B is transposed."""
        self._load("B", B_local_buf, B_shared_buf, ki, rk, thread_binding)

    def _load(self, matrix: str, local: Buffer, shared: Any, ki: Any, rk: Any, thread: Any) -> None:
        first = matrix == "A"
        dtype = self.a_dtype if first else self.b_dtype
        transposed = self.a_transposed if first else self.b_transposed
        outer_first = transposed != first  # the row of A, the column of B is the first index
        count, extent, size, per_thread = (
            (self.warp_rows, self.warp_row_tiles, self.micro_size_x, self.local_size_a) if first
            else (self.warp_cols, self.warp_col_tiles, self.micro_size_y, self.local_size_b)
        )  # fmt: skip
        region = region_of(shared, f"ldmatrix_{matrix.lower()}", "operand in shared memory")
        *lead, low, high = region.mins
        lane, warp_n, warp_m = self.extract_thread_binding(
            self.get_thread_binding() if thread is None else thread
        )
        step = self._step(local, count * per_thread, ki)
        for i in T.unroll(count):
            outer = (warp_m if first else warp_n) * extent + i * size
            inner = rk * self.chunk + ki * self.micro_size_k
            if dtype.bits == 16 or outer_first:
                row, column = get_ldmatrix_offset(matrix, lane, 0, 0, dtype, transposed)
                at = (outer + row, inner + column) if outer_first else (inner + row, outer + column)
                T.ptx_ldmatrix(
                    str(dtype), not outer_first, size * self.k_dim * dtype.bits // 1024, ".b16",
                    local.data, step + i * per_thread,
                    T.access_ptr(region.buffer[(*lead, low + at[0], high + at[1])], "r"), 0,
                )  # fmt: skip
                continue
            element = operand_element(matrix, dtype.bits)
            for j in T.unroll(per_thread):
                row, k = element(lane, j)
                at = (inner + k, outer + row)
                local[step + i * per_thread + j] = region.buffer[(*lead, low + at[0], high + at[1])]

    @staticmethod
    def _step(local: Buffer, size: int, step: Any) -> Any:
        """Where a step along k starts: a local array holds one, a fragment all of them."""
        return step * size if local.storage == "local.fragment" else 0

    # -- products ----------------------------------------------------------------------------------
    def mma(
        self, A_local_buf: Buffer, B_local_buf: Buffer, C_local_buf: Buffer, k_inner: Any = 0
    ) -> None:
        """Multiply one step of k, all tiles of the warp.

        Args:
            A_local_buf, B_local_buf: what the loads left.
            C_local_buf: the sums.
            k_inner: the step in operands that are fragments.
        """
        for i, j in T.grid(self.warp_rows, self.warp_cols):
            self.mma_atom(A_local_buf, B_local_buf, C_local_buf, i, j, k_inner)

    def mma_atom(
        self, A_local_buf: Buffer, B_local_buf: Buffer, C_local_buf: Buffer, inst_m_idx: Any,
        inst_n_idx: Any, k_inner: Any = 0,
    ) -> None:  # fmt: skip
        """Multiply one tile (``inst_m_idx``, ``inst_n_idx``) of the warp; :meth:`mma` is this for
        all of them."""
        held_a, held_b, held_c = self.local_size_a, self.local_size_b, self.local_size_out
        a = self._step(A_local_buf, self.warp_rows * held_a, k_inner) + inst_m_idx * held_a
        b = self._step(B_local_buf, self.warp_cols * held_b, k_inner) + inst_n_idx * held_b
        c = (inst_m_idx * self.warp_cols + inst_n_idx) * held_c
        parts = self.micro_size_y // 8
        for part in range(parts):  # an instruction has 8 columns
            T.ptx_mma(
                str(self.accum_dtype), self.mma_prefix, "row", "col", self.a_dtype_abbrv,
                self.b_dtype_abbrv, self.accum_dtype_abbrv, A_local_buf.data, a,
                B_local_buf.data, b + held_b // parts * part,
                C_local_buf.data, c + held_c // parts * part, False,
            )  # fmt: skip

    # -- results -----------------------------------------------------------------------------------
    def stmatrix(
        self, C_local_buf: Buffer, C_buf: Buffer, pid_m: Any = None, pid_n: Any = None, *,
        thread_binding: Any = None,
    ) -> None:  # fmt: skip
        """Store the sums.

        Args:
            C_local_buf: the sums.
            C_buf: the tile of the block, (m, n) or (m / 16, n / 16, 16, 16), in shared memory; with
                ``pid_m`` and ``pid_n`` a whole matrix.
            pid_m, pid_n: number of the block's tile in the matrix.
        """
        if len(C_buf.shape) not in (2, 4):
            raise TileValueError(
                "the results of a product are stored to a matrix or to a matrix of tiles",
                expected="2 or 4 dimensions",
                got=describe(C_buf),
            )
        lane, warp_n, warp_m = self.extract_thread_binding(
            self.get_thread_binding() if thread_binding is None else thread_binding
        )
        per_thread = self.local_size_out
        if pid_m is not None and pid_n is not None:
            warp_m = pid_m * self.block_row_warps + warp_m
            warp_n = pid_n * self.block_col_warps + warp_n
        for i, j in T.grid(self.warp_rows, self.warp_cols):
            tile = (i * self.warp_cols + j) * per_thread
            m, n = warp_m * self.warp_rows + i, warp_n * self.warp_cols + j
            for pair in T.unroll(per_thread // 2):
                for k in T.vectorized(2):
                    row, column = mma_store_index_map(lane, pair * 2 + k)
                    at = (
                        (m * self.micro_size_x + row, n * self.micro_size_y + column)
                        if len(C_buf.shape) == 2
                        else (m, n, row, column)
                    )
                    C_buf[at] = C_local_buf[tile + pair * 2 + k]

    # -- layouts of fragments ----------------------------------------------------------------------
    @staticmethod
    def _fragment(local_buf: Any, expected: tuple[int, ...], operand: str) -> None:
        """Raise unless ``local_buf`` is a fragment of that shape."""
        if not isinstance(local_buf, Buffer) or local_buf.storage != "local.fragment":
            raise TileTypeError(
                f"the layout of {operand} is one of fragments",
                expected="a buffer made by T.alloc_fragment",
                got=describe(local_buf),
            )
        shape = constant_extents(local_buf, operand)
        if shape != expected:
            raise TileValueError(
                f"the fragment `{local_buf.name}` is not the tile of {operand}",
                expected=str(expected),
                got=str(shape),
            )

    def make_mma_load_layout(self, local_buf: Buffer, matrix: str = "A") -> Fragment:
        """The thread and register that hold each element of an operand of the block.

        Args:
            local_buf: a fragment of the block's rows of "A" or columns of "B", in the order of
                memory.
            matrix: "A" or "B".

        Raises:
            TileTypeError: no fragment (an ``AssertionError``, too).
            TileValueError: a fragment of another shape, or another matrix.
        """
        check_choice(matrix, ("A", "B"), "an operand of a product has no such name", "A or B")
        first = matrix == "A"
        transposed = self.a_transposed if first else self.b_transposed
        extent = self.warp_row_tiles if first else self.warp_col_tiles
        warps, others = self.block_row_warps, self.block_col_warps
        warps, others = (warps, others) if first else (others, warps)
        size = self.micro_size_x if first else self.micro_size_y
        count, per_thread = extent // size, size * self.k_dim // self.WARP_SIZE
        position = operand_position(matrix, (self.a_dtype if first else self.b_dtype).bits)
        outer_first = transposed != first
        shape = (warps * extent, self.chunk)
        self._fragment(local_buf, shape if outer_first else shape[::-1], f"operand {matrix}")

        def forward(*args: Any) -> tuple[Any, Any]:
            outer, k = args[:2] if outer_first else args[1::-1]
            other = args[2] if others > 1 else 0
            warp, inside = outer // extent, outer % extent
            lane, register = position(inside % size, k % self.k_dim)
            number = self._warp(warp, other) if first else self._warp(other, warp)
            step = (k // self.k_dim * count + inside // size) * per_thread
            return number * self.WARP_SIZE + lane, step + register

        return Fragment(shape if outer_first else shape[::-1], forward, replicate=others)

    def make_mma_store_layout(self, local_buf: Buffer) -> Fragment:
        """The thread and register that hold each result of the block.

        Args:
            local_buf: a fragment of the block's results.

        Raises:
            TileTypeError: no fragment (an ``AssertionError``, too).
            TileValueError: a fragment of another shape.
        """
        rows, columns = self.warp_row_tiles, self.warp_col_tiles
        shape = (self.block_row_warps * rows, self.block_col_warps * columns)
        self._fragment(local_buf, shape, "results")

        def forward(m: Any, n: Any) -> tuple[Any, Any]:
            lane, register = result_position(m, n % columns % self.micro_size_y)
            warp = self._warp(m // rows, n // columns)
            tile = m % rows // self.micro_size_x * self.warp_cols
            tile = tile + n % columns // self.micro_size_y
            return warp * self.WARP_SIZE + lane, tile * self.local_size_out + register

        return Fragment(shape, forward)


def simplified(value: Any) -> Any:
    """An index without superfluous arithmetic; numbers stay numbers."""
    return simplify(value) if isinstance(value, Expr) else value


def whole_buffer(value: Any, operand: str) -> Buffer:
    """The buffer of registers behind an operand.

    Raises:
        TileValueError: a part of it, whose registers have no common layout.
    """
    region = region_of(value, operand)
    if isinstance(value, Region) and region.buffer.shape != region.extents:
        raise TileValueError(
            f"a part of registers is an operand of {operand}",
            expected="a whole fragment or local array",
            got=describe(value),
        )
    return region.buffer
