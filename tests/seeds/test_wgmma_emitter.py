"""Every class, attribute and method of the document of the emitter of warpgroup products,
``tilelang.cuda.intrinsics.macro.wgmma_macro_generator``."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refusal

import tilelang.language as T
from tilelang.cuda.intrinsics.macro import mma_macro_generator, wgmma_macro_generator
from tilelang.cuda.intrinsics.macro.wgmma_macro_generator import (
    SwizzleMode,
    TensorCoreIntrinEmitter,
    WGMMADescriptorParams,
    lift,
)
from tilelang.errors import TileError
from tilelang.ir.expr import Expr
from tilelang.layout import Fragment, make_padded_layout
from tilelang.layout.swizzle import swizzled
from tilelang.tvm import ir as tvm_ir

PRODUCT = "(self, {}_region, B_region, C_region, clear_accum=False, wg_wait=0)"
ATOM = "C_buf, inst_m_idx, inst_n_idx, ki, {}b_params, clear_accum=False)"
METHODS: dict[str, str] = {
    "wgmma": PRODUCT.format("A"),
    "wgmma_rs": PRODUCT.format("A"),
    "compute_wgmma_b_desc_params": "(self, B_region)",
    "compute_wgmma_a_desc_params": "(self, A_region)",
    "init_wgmma_b_desc": "(self, desc_b, B_region, b_params)",
    "init_wgmma_a_desc": "(self, desc_a, A_region, a_params)",
    "wgmma_fence_a": "(self, A_buf)",
    "wgmma_fence_c": "(self, C_buf)",
    "wgmma_arrive": "(self)",
    "wgmma_commit": "(self)",
    "wgmma_wait": "(self, n=0)",
    "wgmma_rs_atom": "(self, A_buf, desc_b, " + ATOM.format(""),
    "wgmma_ss_atom": "(self, desc_a, desc_b, " + ATOM.format("a_params, "),
    "make_mma_load_layout": "(self, local_buf, matrix='A')",
    "make_mma_store_layout": "(self, local_buf)",
}
PROPERTIES = (
    "wgmma_num_inst_m", "wgmma_num_inst_n", "wgmma_num_k_atoms", "wgmma_a_regs",
    "wgmma_accum_regs",
)  # fmt: skip


def plain(function: Any) -> str:
    """A signature without annotations."""
    signature = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(bare))


def emitter(
    kind: str = "float16", total: str = "float32", rows: int = 32, columns: int = 96, k: int = 64,
    ta: bool = False, tb: bool = True, warps: tuple[int, int] = (4, 1),
) -> TensorCoreIntrinEmitter:  # fmt: skip
    return TensorCoreIntrinEmitter(kind, kind, total, ta, tb, *warps, rows, columns, k)


def traced(body: Callable[[], None]) -> Any:
    """A program that is ``body`` in a kernel of 128 threads."""

    @T.prim_func
    def program():
        with T.Kernel(1, threads=128):
            body()

    return program


def lines(body: Callable[[], None]) -> list[str]:
    """Statements of the program, without allocations and names of buffers."""
    text = traced(body).script().splitlines()
    return [line.strip() for line in text if "T.warp" in line or "T.init" in line or "ptx_" in line]


def shared(*shape: int, kind: str = "float16") -> Any:
    return T.alloc_shared(shape, kind)


# -- the module ------------------------------------------------------------------------------------
def test_the_module_is_where_programs_import_it() -> None:
    import tilelang.intrinsics.wgmma_macro_generator as older
    from tilelang.intrinsics import WGMMATensorCoreIntrinEmitter

    assert older.TensorCoreIntrinEmitter is TensorCoreIntrinEmitter
    assert WGMMATensorCoreIntrinEmitter is TensorCoreIntrinEmitter
    assert set(wgmma_macro_generator.__all__) == {
        "lift", "WGMMADescriptorParams", "SwizzleMode", "TensorCoreIntrinEmitter",
    }  # fmt: skip


def test_lift_makes_expressions() -> None:
    made = lift(8)
    assert isinstance(made, Expr)
    assert lift(made) is made


def test_params_are_a_record_of_numbers() -> None:
    names = [field.name for field in dataclasses.fields(WGMMADescriptorParams)]
    assert names[:6] == [
        "swizzle_mode", "leading_byte_offset", "stride_byte_offset", "swizzle_atom_elems",
        "k_atom_size", "elems_in_bytes",
    ]  # fmt: skip
    assert WGMMADescriptorParams(1, 1, 64, 64, 4, 2).k_major


def test_swizzle_modes_are_those_of_descriptors() -> None:
    assert issubclass(SwizzleMode, enum.IntEnum)
    assert [(mode.name, int(mode)) for mode in SwizzleMode] == [
        ("NONE", 0), ("SWIZZLE_128B", 1), ("SWIZZLE_64B", 2), ("SWIZZLE_32B", 3),
    ]  # fmt: skip
    assert [mode.swizzle_byte_size() for mode in SwizzleMode] == [1, 128, 64, 32]
    assert [mode.swizzle_atom_size() for mode in SwizzleMode] == [1, 8, 4, 2]


def test_the_emitter_is_the_documented_class() -> None:
    assert TensorCoreIntrinEmitter.__bases__ == (mma_macro_generator.TensorCoreIntrinEmitter,)
    parameters = inspect.signature(TensorCoreIntrinEmitter).parameters
    assert {name: item.default for name, item in parameters.items()} == {
        "a_dtype": T.float16, "b_dtype": T.float16, "accum_dtype": T.float16,
        "a_transposed": False, "b_transposed": False, "block_row_warps": 2, "block_col_warps": 2,
        "warp_row_tiles": 8, "warp_col_tiles": 8, "chunk": 16, "reduce_k": 1,
        "num_elems_per_byte": 1, "is_m_first": False, "thread_var": None,
    }  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_methods_have_the_documented_parameters(name: str) -> None:
    assert plain(getattr(TensorCoreIntrinEmitter, name)) == METHODS[name]


@pytest.mark.parametrize("name", PROPERTIES)
def test_sizes_are_properties(name: str) -> None:
    assert isinstance(getattr(TensorCoreIntrinEmitter, name), property)


# -- sizes -----------------------------------------------------------------------------------------
def test_sizes_of_a_product() -> None:
    e = emitter()
    assert (e.wgmma_prefix, e.wgmma_inst_m, e.wgmma_inst_n) == ("m64n96k16", 64, 96)
    assert (e.wgmma_num_inst_m, e.wgmma_num_inst_n, e.wgmma_num_k_atoms) == (2, 1, 4)
    assert (e.wgmma_a_regs, e.wgmma_accum_regs) == (2 * 4 * 4, 2 * 48)
    half = emitter(total="float16", columns=512)
    assert (half.wgmma_inst_n, half.wgmma_num_inst_n) == (256, 2)
    assert half.wgmma_accum_regs == 2 * 2 * 64
    assert emitter("int8", "int32", columns=48).wgmma_prefix == "m64n48k32"
    assert emitter("int8", "int32", columns=72).wgmma_inst_n == 24
    wide = emitter("float32", columns=24)
    assert (wide.wgmma_prefix, wide.wgmma_a_regs) == ("m64n24k8", 2 * 8 * 4)


# -- descriptors -----------------------------------------------------------------------------------
@pytest.mark.parametrize("span", [128, 64, 32, 16])
@pytest.mark.parametrize("k_major", [True, False])
def test_parameters_of_descriptors_say_where_panels_are(span: int, k_major: bool) -> None:
    found: list[WGMMADescriptorParams] = []

    def body() -> None:
        e = emitter(ta=not k_major, tb=k_major, columns=64, rows=16)
        tile = shared(64, 64)
        T.annotate_layout({tile: swizzled((64, 64), 16, span)})
        found.append(e.compute_wgmma_a_desc_params(tile))
        found.append(e.compute_wgmma_b_desc_params(tile))

    text = traced(body).script()
    assert "descriptor" not in text
    leading = {True: (1, 64), False: (64 * span // 16, 8)}[k_major] if span > 16 else None
    stride = 8 * span // 16
    expected = (leading[0] if leading else 0, stride)
    if span == 16:
        expected = (64, 8) if k_major else (8, 64)
    for params in found:
        assert SwizzleMode(params.swizzle_mode).panel == span
        assert (params.leading_byte_offset, params.stride_byte_offset) == expected
        assert params.swizzle_atom_elems == span // 2
        assert params.k_atom_size == max(1, span // 32)
        assert params.elems_in_bytes == 2
        assert params.k_major is k_major


def test_without_an_annotation_the_widest_swizzle_that_fits_is_taken() -> None:
    found = []

    def body() -> None:
        for k, columns, tb in ((64, 96, True), (32, 96, True), (16, 96, True), (64, 96, False),
                               (64, 24, False), (64, 64, False)):  # fmt: skip
            e = emitter(k=k, columns=columns, tb=tb)
            tile = shared(columns, k) if tb else shared(k, columns)
            found.append(SwizzleMode(e.compute_wgmma_b_desc_params(tile).swizzle_mode).panel)

    traced(body)
    assert found == [128, 64, 32, 64, 16, 128]


def test_filling_a_descriptor_points_to_the_part_of_the_warpgroup() -> None:
    def body() -> None:
        e = emitter(warps=(8, 2), columns=64)
        A, B = shared(2, 256, 64), shared(128, 64)
        a_desc, b_desc = T.alloc_wgmma_desc(), T.alloc_wgmma_desc()
        e.init_wgmma_a_desc(a_desc, A[1, :, :], e.compute_wgmma_a_desc_params(A[1, :, :]))
        e.init_wgmma_b_desc(b_desc, B, e.compute_wgmma_b_desc_params(B))

    text = traced(body).script()
    assert '[1, tx // 128 % 2 * 128, 0], "r"), 1, 1, 64)' in text
    assert '[tx // 32 // 8 % 2 * 64, 0], "r"), 1, 1, 64)' in text
    assert text.count("Layout((2, 256, 64)") == 1, "the buffer has the layout of the descriptor"


# -- order -----------------------------------------------------------------------------------------
def test_fences_and_groups_are_those_of_the_language() -> None:
    def body() -> None:
        e = emitter()
        A, C = T.alloc_local((64,), "float16"), T.alloc_local((96,), "float32")
        e.wgmma_fence_a(A)
        e.wgmma_fence_c(C)
        e.wgmma_arrive()
        e.wgmma_commit()
        e.wgmma_wait()
        e.wgmma_wait(2)

    found = lines(body)
    assert [line.partition("(")[0] for line in found] == [
        "T.warpgroup_fence_operand", "T.warpgroup_fence_operand", "T.warpgroup_arrive",
        "T.warpgroup_commit_batch", "T.warpgroup_wait", "T.warpgroup_wait",
    ]  # fmt: skip
    assert found[0].endswith(", 0, 32)")
    assert found[1].endswith(", 0, 96)")
    assert found[-2:] == ["T.warpgroup_wait(0)", "T.warpgroup_wait(2)"]


def _rs(parts: bool) -> Callable[[], None]:
    def body() -> None:
        e = emitter()
        A, B, C = T.alloc_fragment((128, 64), "float16"), shared(96, 64), None
        C = T.alloc_fragment((128, 96), "float32")
        if not parts:
            e.wgmma_rs(A, B, C, wg_wait=1)
            return
        b = e.compute_wgmma_b_desc_params(B)
        desc = T.alloc_wgmma_desc()
        e.init_wgmma_b_desc(desc, B, b)
        e.wgmma_fence_a(A)
        e.wgmma_fence_c(C)
        e.wgmma_arrive()
        for j, i, ki in T.grid(e.wgmma_num_inst_n, e.wgmma_num_inst_m, e.wgmma_num_k_atoms):
            e.wgmma_rs_atom(A, desc, C, i, j, ki, b)
        e.wgmma_commit()
        e.wgmma_wait(1)
        e.wgmma_fence_c(C)
        e.wgmma_fence_a(A)

    return body


def _ss(parts: bool) -> Callable[[], None]:
    def body() -> None:
        e = emitter()
        A, B, C = shared(128, 64), shared(96, 64), T.alloc_fragment((128, 96), "float32")
        if not parts:
            e.wgmma(A, B, C, clear_accum=True)
            return
        a, b = e.compute_wgmma_a_desc_params(A), e.compute_wgmma_b_desc_params(B)
        a_desc, b_desc = T.alloc_wgmma_desc(), T.alloc_wgmma_desc()
        e.init_wgmma_a_desc(a_desc, A, a)
        e.init_wgmma_b_desc(b_desc, B, b)
        e.wgmma_fence_c(C)
        e.wgmma_arrive()
        for j, i, ki in T.grid(e.wgmma_num_inst_n, e.wgmma_num_inst_m, e.wgmma_num_k_atoms):
            e.wgmma_ss_atom(a_desc, b_desc, C, i, j, ki, a, b, clear_accum=True)
        e.wgmma_commit()
        e.wgmma_wait(0)
        e.wgmma_fence_c(C)

    return body


@pytest.mark.parametrize("form", [_rs, _ss])
def test_instructions_over_a_grid_are_the_program_of_a_whole_product(form: Any) -> None:
    whole, single = traced(form(False)), traced(form(True))
    tvm_ir.assert_structural_equal(whole, single)
    assert whole.script() == single.script()
    assert ("ptx_wgmma_rs" if form is _rs else "ptx_wgmma_ss") in whole.script()


def test_products_may_stay_in_flight() -> None:
    def body() -> None:
        emitter().wgmma(
            shared(128, 64), shared(96, 64), T.alloc_fragment((128, 96), "float32"), wg_wait=-1
        )

    assert "warpgroup_wait" not in traced(body).script()


def test_steps_of_instructions_are_constants() -> None:
    def body() -> None:
        e = emitter(columns=512, k=128, rows=16)
        A, B = shared(64, 128), shared(512, 128)
        a, b = e.compute_wgmma_a_desc_params(A), e.compute_wgmma_b_desc_params(B)
        a_desc, b_desc = T.alloc_wgmma_desc(), T.alloc_wgmma_desc()
        C = T.alloc_local((256,), "float32")
        for ki in (0, 3, 4):
            e.wgmma_ss_atom(a_desc, b_desc, C, 0, 1, ki, a, b, clear_accum=True)

    found = [line.split('f32", ')[1] for line in lines(body) if "ptx_wgmma" in line]
    # A panel is 64 wide; A has 64 rows of it, B 512.
    assert found == [
        "buf_2.data, 0, buf_3.data, 2048, buf_4.data, 128, T.bool(False), 1, 1)",
        "buf_2.data, 6, buf_3.data, 2054, buf_4.data, 128, T.bool(True), 1, 1)",
        "buf_2.data, 512, buf_3.data, 6144, buf_4.data, 128, T.bool(True), 1, 1)",
    ]


# -- layouts ---------------------------------------------------------------------------------------
def layouts(make: Callable[[TensorCoreIntrinEmitter, Any], Fragment], e: TensorCoreIntrinEmitter,
            *shape: int, kind: str) -> Fragment:  # fmt: skip
    found: list[Fragment] = []
    traced(lambda: found.append(make(e, T.alloc_fragment(shape, kind))))
    return found[0]


def test_results_are_where_the_instruction_leaves_them() -> None:
    e = emitter(warps=(8, 2), columns=48)
    found = layouts(TensorCoreIntrinEmitter.make_mma_store_layout, e, 256, 96, kind="float32")
    m, n = np.indices((256, 96))
    warp = n // 48 * 8 + m // 128 * 4 + m % 64 // 16
    assert np.array_equal(found.thread_table()[..., 0], warp * 32 + m % 8 * 4 + n % 8 // 2)
    register = n % 48 // 8 * 4 + m % 16 // 8 * 2 + n % 2
    assert np.array_equal(found.addresses(), m % 128 // 64 * 24 + register)
    assert found.is_bijective()


@pytest.mark.parametrize("kind", ["float16", "float32", "int8"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_operands_are_where_the_instruction_takes_them(
    kind: str, turned: bool, groups: int
) -> None:
    total = "int32" if kind == "int8" else "float32"
    e = emitter(kind, total, columns=48, warps=(4 * groups, 2), ta=turned)
    rows = 128 * groups
    shape = (64, rows) if turned else (rows, 64)
    make = TensorCoreIntrinEmitter.make_mma_load_layout
    found = layouts(make, e, *shape, kind=kind)
    m, k = np.indices((rows, 64))
    per, step = {"float16": (2, 16), "float32": (1, 8), "int8": (4, 32)}[kind]
    lane = m % 8 * 4 + k % (4 * per) // per
    register = k % step // (4 * per) * 2 * per + m % 16 // 8 * per + k % per
    register = register + (k // step * 2 + m % 128 // 64) * 4 * per
    threads, places = found.thread_table(), found.addresses()
    if turned:
        threads, places = threads.swapaxes(0, 1), places.T
    first = (m // 128 * 4 + m % 64 // 16) * 32 + lane
    assert np.array_equal(np.sort(threads, -1), np.stack([first, first + rows], -1))
    assert np.array_equal(places, register)


@pytest.mark.parametrize("name", ["make_mma_load_layout", "make_mma_store_layout"])
def test_only_fragments_have_wgmma_layouts(name: str) -> None:
    def body() -> None:
        getattr(emitter(), name)(T.alloc_shared((128, 64), "float16"))

    with pytest.raises(AssertionError, match="is one of fragments"):
        traced(body)


# -- what cannot be --------------------------------------------------------------------------------
def message(body: Callable[[], Any]) -> str:
    """The text of the error that tracing ``body`` is, without the place in the program."""
    with pytest.raises(TileError) as found:
        traced(T.macro(body))
    return str(found.value).partition("\n --> ")[0]


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ((1, 0, 0), "inst_m_idx names no instruction of the product\n  expected: 0 to 0\n  got: 1"),
        ((0, 1, 0), "inst_n_idx names no instruction of the product\n  expected: 0 to 0\n  got: 1"),
        ((0, 0, -1), "ki names no instruction of the product\n  expected: 0 to 3\n  got: -1"),
    ],
)
def test_instructions_that_a_product_does_not_have(at: tuple[int, int, int], text: str) -> None:
    def body() -> None:
        e = emitter(rows=16, columns=64)
        a, b = shared(64, 64), shared(64, 64)
        params = e.compute_wgmma_a_desc_params(a), e.compute_wgmma_b_desc_params(b)
        descriptors = T.alloc_wgmma_desc(), T.alloc_wgmma_desc()
        e.wgmma_ss_atom(*descriptors, T.alloc_local((32,), "float32"), *at, *params)

    assert message(body) == text

    def from_registers() -> None:
        e, b = emitter(rows=16, columns=64), shared(64, 64)
        left, total = T.alloc_local((32,), "float16"), T.alloc_local((32,), "float32")
        e.wgmma_rs_atom(left, T.alloc_wgmma_desc(), total, *at, e.compute_wgmma_b_desc_params(b))

    assert message(from_registers) == text


def test_a_layout_that_is_given_too_late() -> None:
    def body() -> None:
        e, tile = emitter(), shared(96, 64)
        params = e.compute_wgmma_b_desc_params(tile)
        T.annotate_layout({tile: swizzled((96, 64), 16, 32)})
        e.init_wgmma_b_desc(T.alloc_wgmma_desc(), tile, params)

    assert message(body).startswith(
        "`tile` has another layout than the parameters of its descriptor\n  expected: Layout("
    )


@pytest.mark.parametrize(("rows", "column"), [(4, 0), (0, 8), ("tx", 0), (0, "tx")])
def test_tiles_that_start_inside_of_a_pattern(rows: Any, column: Any) -> None:
    def body() -> None:
        tx = T.get_thread_binding()
        r, c = (tx if item == "tx" else item for item in (rows, column))
        tile = shared(256, 256)
        emitter().compute_wgmma_b_desc_params(tile[r : r + 96, c : c + 64])

    text = message(body)
    assert text.startswith(
        "operand B of a warpgroup product starts where no descriptor can point to\n"
        "  expected: a first row that is a multiple of 8, and instructions that stay in panels of "
        "128 bytes\n  got: `tile["
    )
    assert text.endswith(
        "  hint: start at constants or at products by them; a narrower swizzle has smaller panels"
    )


@pytest.mark.parametrize(
    ("shape", "kind", "layout", "part", "product", "text", "end"),
    [
        ((64, 96), "int8", None, None, {"kind": "int8", "total": "int32", "tb": False},
         "operand B of a warpgroup product of int8 is stored with k as the slow dimension\n"
         "  expected: k as the last dimension; only elements of 16 bits are read both ways\n"
         "  got: the buffer `tile` of shape (64, 96)\n",
         "  hint: transpose the tile when it is copied to shared memory"),
        ((96, 64), "float16", make_padded_layout, None, {},
         "the layout of `tile` is not one that wgmma reads\n"
         "  expected: a swizzle of 128, 64 or 32 bytes, or consecutive 16-byte columns\n"
         "  got: Layout(",
         "  hint: leave T.annotate_layout out, or give it "
         "tilelang.layout.make_wgmma_swizzled_layout(buffer)"),
        ((64, 192), "float16", lambda tile: swizzled((64, 192), 16, 128), None,
         {"columns": 96, "warps": (4, 2), "tb": False},
         "operand B of a warpgroup product starts where no descriptor can point to\n",
         "a narrower swizzle has smaller panels"),
        ((64, 64), "float16", None, None, {},
         "operand B of a warpgroup product has other extents than the product\n"
         "  expected: (96, 64)\n  got: (64, 64)\n",
         "  hint: an emitter multiplies tiles of (block_row_warps * warp_row_tiles, chunk) and "
         "(chunk, block_col_warps * warp_col_tiles)"),
        ((96, 64), "bfloat16", None, None, {},
         "operand B of a warpgroup product is not a tile in shared memory with the expected dtype\n"
         "  expected: a tile of float16 made by T.alloc_shared\n"
         "  got: the buffer `tile` of shape (96, 64) of bfloat16, shared.dyn", ""),
        ((1, 96, 20), "float16", None, (0, slice(0, 96), slice(0, 16)), {"k": 16},
         "`tile` has no layout that wgmma reads\n"
         "  expected: rows a multiple of 8, columns of 8\n"
         "  got: the buffer `tile` of shape (1, 96, 20)", ""),
    ],
)  # fmt: skip
def test_tiles_that_are_no_operands(
    shape: Any, kind: str, layout: Any, part: Any, product: dict[str, Any], text: str, end: str
) -> None:
    def body() -> None:
        tile = shared(*shape, kind=kind)
        if layout is not None:
            T.annotate_layout({tile: layout(tile)})
        emitter(**product).compute_wgmma_b_desc_params(tile if part is None else tile[part])

    found = message(body)
    assert found.startswith(text) and found.endswith(end)
    assert end or found == text


@pytest.mark.parametrize(
    ("registers", "layout", "text"),
    [
        (lambda: T.alloc_local((64,), "float32"), None,
         "`C` is too short for the results of a warpgroup product\n"
         "  expected: 96 elements\n  got: 64"),
        (lambda: T.alloc_fragment((128, 96), "float16"), None,
         "the results of a warpgroup product are not registers of float32\n"
         "  expected: a fragment or a local array of float32\n"
         "  got: the buffer `C` of shape (128, 96)"),
        (lambda: T.alloc_fragment((64, 96), "float32"), None,
         "the fragment `C` is not the tile of results\n  expected: (128, 96)\n  got: (64, 96)"),
        (lambda: T.alloc_fragment((128, 96), "float32"),
         Fragment((128, 96), lambda i, j: (i, j)),
         "the fragment `C` has another layout than the product's registers\n"
         "  expected: the layout of make_mma_store_layout or make_mma_load_layout\n"),
        (lambda: T.alloc_fragment((256, 96), "float32"), None,
         "a part of registers is an operand of a warpgroup product\n"),
    ],
)  # fmt: skip
def test_registers_that_are_none_of_the_product(registers: Any, layout: Any, text: str) -> None:
    def body() -> None:
        C = registers()
        if layout is not None:
            T.annotate_layout({C: layout})
        left, right = shared(128, 64), shared(96, 64)
        emitter().wgmma(left, right, C if C.shape[0] != 256 else C[0:128, :])

    found = message(body)
    assert found.startswith(text)
    assert text.endswith("\n") or found == text


def test_b_is_never_in_registers() -> None:
    def body() -> None:
        emitter().make_mma_load_layout(T.alloc_fragment((96, 64), "float16"), "B")

    assert message(body) == (
        "only A of a warpgroup product is in registers\n  expected: A\n  got: 'B'"
    )


NO_TILE = (
    "the tile of a warp is not made of whole matrix instructions\n"
    "  expected: rows a multiple of 16, columns of 8, k of 16\n"
    "  got: "
)
NO_WARPS = (
    "there is no such block of warps, or no such operand\n"
    "  expected: 1 or more warps along m, n and k; num_elems_per_byte=1\n"
    "  got: "
)


def of_sizes(*sizes: int) -> Callable[[], Any]:
    return lambda: TensorCoreIntrinEmitter("float16", "float16", "float32", False, True, *sizes)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: emitter(warps=(2, 2)),
         "the four warps of a warpgroup are not consecutive along m\n"
         "  expected: block_row_warps a multiple of 4, is_m_first only with one warp along n\n"
         "  got: 2 x 2 warps"),
        (lambda: emitter("bfloat16", "float16"),
         "there is no warpgroup instruction of bf16 and bf16 into f16\n"
         "  expected: f16, bf16, tf32, fp8 or bytes into f32, f16 or s32\n"
         "  got: bfloat16, bfloat16, float16"),
        (TensorCoreIntrinEmitter, NO_TILE + "8 x 8, k 16"),
        (of_sizes(4, 1, 16, 64, -16), NO_TILE + "16 x 64, k -16"),
        (of_sizes(4, 1, 16, 64, 0), NO_TILE + "16 x 64, k 0"),
        (of_sizes(-4, 1, 16, 64, 16), NO_WARPS + "-4 x 1 x 1 warps, 1 elements in a byte"),
        (of_sizes(4, 0, 16, 64, 16), NO_WARPS + "4 x 0 x 1 warps, 1 elements in a byte"),
        (of_sizes(4, 1, 16, 64, 16, 1, 2), NO_WARPS + "4 x 1 x 1 warps, 2 elements in a byte"),
        (of_sizes(4, 1, 16, 64, 16, 2),
         "warpgroups do not split k: each would compute all of it\n"
         "  expected: reduce_k=1\n  got: reduce_k=2\n"
         "  hint: give each group its part of k, and add up the results"),
        (lambda: TensorCoreIntrinEmitter("float16", "int8", "float32"),
         "there is no emitter of products of float16 and int8\n"
         "  expected: operands of the same 8, 16 or 32 bits\n  got: 16 and 8 bits"),
    ],
)  # fmt: skip
def test_products_that_no_instruction_computes(made: Callable[[], Any], text: str) -> None:
    assert refusal(TileError, made) == text
