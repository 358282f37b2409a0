"""Products of warpgroups (sm_90a), emitted instruction by instruction.

The descriptors of operands in shared memory are made once; the instructions of a product add
constants to them. A product is

    fences of registers, arrive, instructions, commit, wait, fences

and :meth:`TensorCoreIntrinEmitter.wgmma` is all of it for a tile. Nothing here waits for operands:
what threads have written to shared memory needs ``T.fence_proxy_async()`` and a barrier before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tilelang.language as T
from tilelang.compat.emitters.layout.mma_layout import operand_position, result_position
from tilelang.compat.emitters.macro import descriptors, mma_macro_generator as mma
from tilelang.compat.emitters.macro.descriptors import SwizzleMode, WGMMADescriptorParams
from tilelang.compat.emitters.macro.mma_macro_generator import lift, simplified, whole_buffer
from tilelang.cuda.forms import WGMMA
from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError
from tilelang.frontend.regions import describe, region_of
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const
from tilelang.language.annotations import layout_given
from tilelang.language.gemm_op import condition
from tilelang.layout import Fragment
from tilelang.layout.layout import constant_extents

__all__ = ["SwizzleMode", "TensorCoreIntrinEmitter", "WGMMADescriptorParams", "lift"]

GROUP = 4  # warps of a warpgroup
ROWS = 64  # of an instruction


class TensorCoreIntrinEmitter(mma.TensorCoreIntrinEmitter):
    """Emits warpgroup products ``C += A @ B`` for a block of warps.

    Four neighbouring warps along m are a warpgroup, which computes ``4 * warp_row_tiles`` rows and
    ``warp_col_tiles`` columns. B is in shared memory, A there (SS) or in registers (RS).

    Args:
        a_dtype, b_dtype, accum_dtype: of the operands and of the sum.
        a_transposed: A is stored as (k, m) instead of (m, k).
        b_transposed: B is stored as (n, k) instead of (k, n).
        block_row_warps, block_col_warps: warps along m, a multiple of 4, and along n.
        warp_row_tiles, warp_col_tiles: rows and columns of a warp.
        chunk: extent of k.
        reduce_k: 1: the warps of a product do not split k.
        num_elems_per_byte: 1: operands have no elements of less than a byte.
        is_m_first: neighbouring warps are neighbours along n; only with one warp along n.
        thread_var: number of the thread; by default that of the kernel.

    Attributes:
        wgmma_prefix: shape of an instruction, e.g. "m64n128k16".
        wgmma_inst_m, wgmma_inst_n: its rows and columns: the most that divide the tile of a warp.

    Raises:
        TileUnsupportedError: no instruction has these dtypes.
        TileValueError: extents that instructions do not fill.
    """

    wgmma_prefix: str
    wgmma_inst_m: int
    wgmma_inst_n: int

    def _choose_instruction(self) -> None:
        a, b, c = self.a_dtype_abbrv, self.b_dtype_abbrv, self.accum_dtype_abbrv
        if c not in WGMMA.get((a, b), ()):
            raise TileUnsupportedError(
                f"there is no warpgroup instruction of {a} and {b} into {c}",
                expected="f16, bf16, tf32, fp8 or bytes into f32, f16 or s32",
                got=f"{self.a_dtype}, {self.b_dtype}, {self.accum_dtype}",
            )
        if self.block_row_warps % GROUP or (self.is_m_first and self.block_col_warps > 1):
            raise TileValueError(
                "the four warps of a warpgroup are not consecutive along m",
                expected="block_row_warps a multiple of 4, is_m_first only with one warp along n",
                got=f"{self.block_row_warps} x {self.block_col_warps} warps",
            )
        if self.reduce_k != 1:
            raise TileUnsupportedError(
                "warpgroups do not split k: each would compute all of it",
                expected="reduce_k=1",
                got=f"reduce_k={self.reduce_k}",
                hint="give each group its part of k, and add up the results",
            )
        self.wgmma_inst_m, self.wgmma_inst_n = ROWS, self._columns()
        self.wgmma_prefix = f"m{ROWS}n{self.wgmma_inst_n}k{self.micro_size_k}"

    def _columns(self) -> int:
        """The most columns of an instruction that divide those of a warp."""
        integers = self.accum_dtype_abbrv == "s32"
        return max(
            n
            for n in range(8, 257, 8)
            if self.warp_col_tiles % n == 0 and not (integers and n > 32 and n % 16)
        )

    # -- sizes -------------------------------------------------------------------------------------
    @property
    def wgmma_num_inst_m(self) -> int:
        """Instructions of a warpgroup along m."""
        return GROUP * self.warp_row_tiles // self.wgmma_inst_m

    @property
    def wgmma_num_inst_n(self) -> int:
        """Instructions of a warpgroup along n."""
        return self.warp_col_tiles // self.wgmma_inst_n

    @property
    def wgmma_num_k_atoms(self) -> int:
        """Instructions along k: ``chunk // micro_size_k``."""
        return self.chunk // self.micro_size_k

    @property
    def wgmma_a_regs(self) -> int:
        """32-bit registers of a thread for A (RS)."""
        return self._held_a * self.a_dtype.bits // 32

    @property
    def wgmma_accum_regs(self) -> int:
        """32-bit registers of a thread for the sum."""
        return self._held_c * self.accum_dtype.bits // 32

    @property
    def _held_a(self) -> int:
        return self.wgmma_num_inst_m * self.wgmma_num_k_atoms * self.local_size_a

    @property
    def _held_c(self) -> int:
        return self.wgmma_num_inst_m * self.wgmma_num_inst_n * self.wgmma_inst_n // 2

    # -- descriptors -------------------------------------------------------------------------------
    def compute_wgmma_a_desc_params(self, A_region: Any) -> WGMMADescriptorParams:
        """The parameters of the descriptor of A in shared memory; emits nothing.

        Args:
            A_region: (m, k), or (k, m) where A is transposed: a buffer, a region of a larger one
                or the first element of one. Its swizzle is that of ``T.annotate_layout``, else
                the widest that fits.

        Raises:
            TileUnsupportedError: a layout that no descriptor describes, or k as the slow dimension
                of elements that are not 16 bits wide.
            TileTypeError, TileValueError: no such tile, or one that starts inside of a pattern.
        """
        rows = self.block_row_warps * self.warp_row_tiles
        extents = (self.chunk, rows) if self.a_transposed else (rows, self.chunk)
        part = GROUP * self.warp_row_tiles
        tile = descriptors.Tile(
            "A", self.a_dtype, not self.a_transposed, extents, self.micro_size_k, ROWS, part
        )
        return descriptors.params_of(A_region, tile)

    def compute_wgmma_b_desc_params(self, B_region: Any) -> WGMMADescriptorParams:
        """The parameters of the descriptor of B in shared memory, (k, n) or, transposed, (n, k); as
        :meth:`compute_wgmma_a_desc_params`."""
        columns = self.block_col_warps * self.warp_col_tiles
        extents = (columns, self.chunk) if self.b_transposed else (self.chunk, columns)
        tile = descriptors.Tile(
            "B", self.b_dtype, self.b_transposed, extents, self.micro_size_k, self.wgmma_inst_n,
            self.warp_col_tiles,
        )  # fmt: skip
        return descriptors.params_of(B_region, tile)

    def init_wgmma_a_desc(
        self, desc_a: Buffer, A_region: Any, a_params: WGMMADescriptorParams
    ) -> None:
        """Point a descriptor of ``T.alloc_wgmma_desc()`` to the rows of A of the warpgroup.

        The buffer gets the layout of the parameters, unless ``T.annotate_layout`` gave it that.
        """
        first = 0
        if self.block_row_warps > GROUP:
            thread = self.get_thread_binding()
            group = thread // (GROUP * self.WARP_SIZE) % (self.block_row_warps // GROUP)
            first = group * (self.wgmma_num_inst_m * ROWS)
        self._point(desc_a, A_region, a_params, first)

    def init_wgmma_b_desc(
        self, desc_b: Buffer, B_region: Any, b_params: WGMMADescriptorParams
    ) -> None:
        """Point a descriptor of ``T.alloc_wgmma_desc()`` to the columns of B of the warpgroup."""
        first = 0
        if self.block_col_warps > 1:
            _, warp_n, _ = self.extract_thread_binding(self.get_thread_binding())
            first = warp_n * self.warp_col_tiles
        self._point(desc_b, B_region, b_params, first)

    @staticmethod
    def _point(desc: Buffer, value: Any, params: WGMMADescriptorParams, first: Any) -> None:
        region = region_of(value, "a warpgroup product")
        buffer, layout = region.buffer, descriptors.layout_for(region.buffer, params)
        args = layout_given(buffer)
        if args is None:
            T.annotate_layout({buffer: layout})
        elif not np.array_equal(
            args.addresses(), layout.addresses()[(0,) * (len(layout.shape) - len(args.shape))]
        ):
            raise TileValueError(
                f"`{buffer.name}` has another layout than the parameters of its descriptor",
                expected=repr(layout),
                got=repr(args),
            )
        *lead, row, column = region.mins
        at = (row + first, column) if params.k_major else (row, column + first)
        T.initialize_wgmma_descriptor(
            desc, T.access_ptr(buffer[(*lead, *at)], "r"), int(params.swizzle_mode),
            params.leading_byte_offset, params.stride_byte_offset,
        )  # fmt: skip

    # -- order -------------------------------------------------------------------------------------
    def wgmma_fence_a(self, A_buf: Buffer) -> None:
        """Keep the compiler from moving accesses of the registers of A over the products."""
        T.warpgroup_fence_operand(A_buf, num_regs=self.wgmma_a_regs)

    def wgmma_fence_c(self, C_buf: Buffer) -> None:
        """Keep the compiler from moving accesses of the sum over the products."""
        T.warpgroup_fence_operand(C_buf, num_regs=self.wgmma_accum_regs)

    def wgmma_arrive(self) -> None:
        """Order accesses of registers before the products (``wgmma.fence``)."""
        T.warpgroup_arrive()

    def wgmma_commit(self) -> None:
        """Make the products so far a group."""
        T.warpgroup_commit_batch()

    def wgmma_wait(self, n: int = 0) -> None:
        """Wait until at most ``n`` groups are pending."""
        T.warpgroup_wait(n)

    # -- instructions ------------------------------------------------------------------------------
    def wgmma_ss_atom(
        self, desc_a: Buffer, desc_b: Buffer, C_buf: Buffer, inst_m_idx: Any, inst_n_idx: Any,
        ki: Any, a_params: WGMMADescriptorParams, b_params: WGMMADescriptorParams,
        clear_accum: Any = False,
    ) -> None:  # fmt: skip
        """One instruction with both operands in shared memory.

        Args:
            desc_a, desc_b: what :meth:`init_wgmma_a_desc` and :meth:`init_wgmma_b_desc` filled.
            C_buf: the sum: a fragment of :meth:`make_mma_store_layout`, or a local array.
            inst_m_idx, inst_n_idx, ki: which one, of :attr:`wgmma_num_inst_m` x
                :attr:`wgmma_num_inst_n` x :attr:`wgmma_num_k_atoms`; ints or loop variables.
            a_params, b_params: of the descriptors.
            clear_accum: the sum starts at 0 with the first ``ki``.
        """
        self._check_atom(inst_m_idx, inst_n_idx, ki)
        self._results(C_buf)
        a_at = a_params.offset(inst_m_idx * ROWS, ki * self.micro_size_k)
        T.ptx_wgmma_ss(
            str(self.accum_dtype), self.wgmma_prefix, a_params.k_major, b_params.k_major,
            self.a_dtype_abbrv, self.b_dtype_abbrv, self.accum_dtype_abbrv, desc_a.data,
            simplified(a_at), desc_b.data, self._b_at(b_params, inst_n_idx, ki), C_buf.data,
            self._c_at(inst_m_idx, inst_n_idx), self._adds(ki, clear_accum), 1, 1,
        )  # fmt: skip

    def wgmma_rs_atom(
        self, A_buf: Buffer, desc_b: Buffer, C_buf: Buffer, inst_m_idx: Any, inst_n_idx: Any,
        ki: Any, b_params: WGMMADescriptorParams, clear_accum: Any = False,
    ) -> None:  # fmt: skip
        """One instruction with A in registers: a fragment of :meth:`make_mma_load_layout`, or a
        local array. The rest is as for :meth:`wgmma_ss_atom`."""
        self._check_atom(inst_m_idx, inst_n_idx, ki)
        self._results(C_buf)
        self._operand_a(A_buf)
        a_at = (ki * self.wgmma_num_inst_m + inst_m_idx) * self.local_size_a
        T.ptx_wgmma_rs(
            str(self.accum_dtype), self.wgmma_prefix, b_params.k_major, self.a_dtype_abbrv,
            self.b_dtype_abbrv, self.accum_dtype_abbrv, A_buf.data, simplified(a_at),
            desc_b.data, self._b_at(b_params, inst_n_idx, ki), C_buf.data,
            self._c_at(inst_m_idx, inst_n_idx), self._adds(ki, clear_accum), 1, 1,
        )  # fmt: skip

    def _check_atom(self, *indices: Any) -> None:
        """Refuse constants that name no instruction of the product."""
        counts = (self.wgmma_num_inst_m, self.wgmma_num_inst_n, self.wgmma_num_k_atoms)
        for role, index, count in zip(("inst_m_idx", "inst_n_idx", "ki"), indices, counts):
            offset = simplified(lift(index))
            if isinstance(offset, Const) and not 0 <= offset.value < count:
                raise TileValueError(
                    f"{role} names no instruction of the product",
                    expected=f"0 to {count - 1}",
                    got=repr(offset.value),
                )

    def _b_at(self, params: WGMMADescriptorParams, j: Any, ki: Any) -> Any:
        return simplified(params.offset(j * self.wgmma_inst_n, ki * self.micro_size_k))

    def _c_at(self, i: Any, j: Any) -> Any:
        return simplified((i * self.wgmma_num_inst_n + j) * (self.wgmma_inst_n // 2))

    @staticmethod
    def _adds(ki: Any, clear_accum: Any) -> Any:
        """Whether the instruction adds to what the sum is."""
        clear = condition(clear_accum, "a warpgroup product", "clear_accum")
        if isinstance(clear, Const):
            return ki > 0 if clear.value else True
        return T.Or(ki > 0, T.Not(clear))

    # -- whole tiles -------------------------------------------------------------------------------
    def wgmma(
        self, A_region: Any, B_region: Any, C_region: Any, clear_accum: Any = False,
        wg_wait: int = 0,
    ) -> None:  # fmt: skip
        """Multiply tiles in shared memory.

        Args:
            A_region, B_region: as for :meth:`compute_wgmma_a_desc_params`.
            C_region: the sum.
            clear_accum: start at 0.
            wg_wait: groups of products that may be pending afterwards; negative does not wait.
        """
        C_buf = whole_buffer(C_region, "a warpgroup product")
        a_params = self.compute_wgmma_a_desc_params(A_region)
        b_params = self.compute_wgmma_b_desc_params(B_region)
        desc_a, desc_b = T.alloc_wgmma_desc(), T.alloc_wgmma_desc()
        self.init_wgmma_a_desc(desc_a, A_region, a_params)
        self.init_wgmma_b_desc(desc_b, B_region, b_params)

        def atom(i: Any, j: Any, ki: Any) -> None:
            self.wgmma_ss_atom(desc_a, desc_b, C_buf, i, j, ki, a_params, b_params, clear_accum)

        self._all(atom, C_buf, wg_wait)

    def wgmma_rs(
        self, A_region: Any, B_region: Any, C_region: Any, clear_accum: Any = False,
        wg_wait: int = 0,
    ) -> None:  # fmt: skip
        """Multiply a tile in registers by one in shared memory; as :meth:`wgmma`."""
        A_buf = whole_buffer(A_region, "a warpgroup product")
        C_buf = whole_buffer(C_region, "a warpgroup product")
        b_params = self.compute_wgmma_b_desc_params(B_region)
        desc_b = T.alloc_wgmma_desc()
        self.init_wgmma_b_desc(desc_b, B_region, b_params)

        def atom(i: Any, j: Any, ki: Any) -> None:
            self.wgmma_rs_atom(A_buf, desc_b, C_buf, i, j, ki, b_params, clear_accum)

        self.wgmma_fence_a(A_buf)
        self._all(atom, C_buf, wg_wait)
        self.wgmma_fence_a(A_buf)

    def _all(self, atom: Callable[[Any, Any, Any], None], C_buf: Buffer, wg_wait: int) -> None:
        """The instructions of a tile, one group of products."""
        self.wgmma_fence_c(C_buf)
        self.wgmma_arrive()
        for j, i, ki in T.grid(
            self.wgmma_num_inst_n, self.wgmma_num_inst_m, self.wgmma_num_k_atoms
        ):
            atom(i, j, ki)
        self.wgmma_commit()
        if wg_wait >= 0:
            self.wgmma_wait(wg_wait)
        self.wgmma_fence_c(C_buf)

    # -- layouts of fragments ----------------------------------------------------------------------
    def make_mma_load_layout(self, local_buf: Buffer, matrix: str = "A") -> Fragment:
        """The thread and register that hold each element of A (RS).

        Args:
            local_buf: a fragment of the block's rows of A, in the order of memory.
            matrix: "A"; B is never in registers.

        Raises:
            TileTypeError: no fragment (an ``AssertionError``, too).
            TileValueError: a fragment of another shape, or another matrix.
        """
        if matrix != "A":
            raise TileValueError(
                "only A of a warpgroup product is in registers", expected="A", got=repr(matrix)
            )
        shape = (self.block_row_warps * self.warp_row_tiles, self.chunk)
        shape = shape[::-1] if self.a_transposed else shape
        self._fragment(local_buf, shape, "operand A")
        position, tiles = operand_position("A", self.a_dtype.bits), self.wgmma_num_inst_m

        def forward(*args: Any) -> tuple[Any, Any]:
            m, k = args[1::-1] if self.a_transposed else args[:2]
            other = args[2] if self.block_col_warps > 1 else 0
            lane, register = position(m % 16, k % self.micro_size_k)
            step = k // self.micro_size_k * tiles + m % (tiles * ROWS) // ROWS
            warp = self._warp(self._row_warp(m), other)
            return warp * self.WARP_SIZE + lane, step * self.local_size_a + register

        return Fragment(shape, forward, replicate=self.block_col_warps)

    def make_mma_store_layout(self, local_buf: Buffer) -> Fragment:
        """The thread and register that hold each result of the block.

        Args:
            local_buf: a fragment of the block's results.

        Raises:
            TileTypeError: no fragment (an ``AssertionError``, too).
            TileValueError: a fragment of another shape.
        """
        columns, width = self.warp_col_tiles, self.wgmma_inst_n
        shape = (self.block_row_warps * self.warp_row_tiles, self.block_col_warps * columns)
        self._fragment(local_buf, shape, "results")

        def forward(m: Any, n: Any) -> tuple[Any, Any]:
            lane, register = result_position(m, n % columns % width)
            tile = m % (self.wgmma_num_inst_m * ROWS) // ROWS * self.wgmma_num_inst_n
            tile = tile + n % columns // width
            warp = self._warp(self._row_warp(m), n // columns)
            return warp * self.WARP_SIZE + lane, tile * (width // 2) + register

        return Fragment(shape, forward)

    def _row_warp(self, m: Any) -> Any:
        """The warp along m that has a row: a warpgroup's rows are neighbours, and each of its
        instructions gives 16 of 64 to a warp."""
        return m // (self.wgmma_num_inst_m * ROWS) * GROUP + m % ROWS // 16

    def _results(self, buffer: Buffer) -> None:
        """Check the registers of a sum; a fragment without a layout gets it."""
        self._registers(buffer, "results", self.accum_dtype, self._held_c)
        if buffer.storage == "local.fragment":
            self._lay(buffer, self.make_mma_store_layout(buffer))

    def _operand_a(self, buffer: Buffer) -> None:
        """The same for A in registers."""
        self._registers(buffer, "operand A", self.a_dtype, self._held_a)
        if buffer.storage == "local.fragment":
            self._lay(buffer, self.make_mma_load_layout(buffer))

    @staticmethod
    def _registers(buffer: Any, operand: str, dtype: Any, count: int) -> None:
        if (
            not isinstance(buffer, Buffer)
            or buffer.storage not in ("local", "local.fragment")
            or buffer.dtype != dtype
        ):
            raise TileTypeError(
                f"the {operand} of a warpgroup product are not registers of {dtype}",
                expected=f"a fragment or a local array of {dtype}",
                got=describe(buffer),
            )
        if buffer.storage == "local":
            length = int(np.prod(constant_extents(buffer, operand)))
            if length < count:
                raise TileValueError(
                    f"`{buffer.name}` is too short for the {operand} of a warpgroup product",
                    expected=f"{count} elements",
                    got=str(length),
                )

    @staticmethod
    def _lay(buffer: Buffer, layout: Fragment) -> None:
        args = layout_given(buffer)
        if args is None:
            T.annotate_layout({buffer: layout})
        elif not (
            isinstance(args, Fragment)
            and np.array_equal(args.addresses(), layout.addresses())
            and np.array_equal(np.sort(args.thread_table(), -1), np.sort(layout.thread_table(), -1))
        ):
            raise TileValueError(
                f"the fragment `{buffer.name}` has another layout than the product's registers",
                expected="the layout of make_mma_store_layout or make_mma_load_layout",
                got=repr(args),
            )
