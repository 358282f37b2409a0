"""Every hardware word becomes its instruction where there is one and is refused elsewhere."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import ptx_programs
import pytest
from ptx_programs import BYTES
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.codegen.gpu.module import LaunchPlan, MapStep
from tilelang.compat.host_text.host_module import host_module
from tilelang.compiler import compile
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.cuda.toolchain import compile_cubin
from tilelang.emulator.compilers import find_cxx
from tilelang.errors import TileError, TileTypeError, TileUnsupportedError, TileValueError
from tilelang.language import builtin
from tilelang.target import Target
from tilelang.target.features import FEATURES
from tilelang.target.instruction_table import ROWS

ROOT = Path(__file__).resolve().parents[2]


def _cases():
    path = ROOT / "scripts" / "ptx_cases.py"
    spec = importlib.util.spec_from_file_location("ptx_cases", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["ptx_cases"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


WORDS = _cases()
CASES = WORDS.cases()


def source_of(func, arch):
    return compile(func, Target("cuda", arch)).source


def machine_code(source, arch):
    """What the assembler says; None where there is no compiler."""
    return compile_cubin(source, arch) if find_nvrtc() is not None else None


# -- all words ---------------------------------------------------------------------------------------
# Words of the document of ``tilelang.language.builtin`` that say nothing about an instruction.
_ELSEWHERE = {
    "call_extern", "call_intrin", "call_pure_extern", "create_list_of_mbarrier", "get_mbarrier",
    "thread_return", "tvm_storage_sync", "rng_init", "rng_rand", "rng_rand_float", "isnullptr",
    "dp4a", "lds32", "lds64", "lds128", "sts32", "sts64", "sts128", "ptx_cp_async",
}  # fmt: skip


def test_every_intrinsic_of_the_module_has_a_case():
    tried = {case.intrinsic for case in CASES}
    assert set(builtin.__all__) - _ELSEWHERE <= tried
    assert all(callable(getattr(T, name)) for name in tried)
    assert len(tried) == len(CASES)


def test_every_intrinsic_that_needs_an_architecture_has_a_case():
    """What lowering makes by itself is tested with the lowering."""
    text = "\n".join(WORDS.program(case).script() for case in CASES)
    used = set(re.findall(r"\bT\.(\w+)\(", text))
    missing = {
        name
        for name, row in ROWS.items()
        if row.needs in FEATURES and not row.lowered and not used & {name, row.usual}
    }
    assert missing == {"tmem_free"}  # T.deallocate_tmem is a tile operation


@pytest.mark.share(4)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.intrinsic)
def test_the_intrinsic_compiles_on_the_lowest_architecture_that_has_it(case):
    source = source_of(WORDS.program(case), case.arch)
    assert case.shows in source
    machine_code(source, case.arch)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.below], ids=lambda case: case.intrinsic
)
def test_the_intrinsic_is_an_error_on_older_architectures(case):
    func = WORDS.program(case)
    if case.dropped:
        source = source_of(func, case.below)
        assert case.shows == "intrinsic_kernel" or case.shows not in source
        return
    with pytest.raises(TileUnsupportedError) as found:
        source_of(func, case.below)
    lines = str(found.value).splitlines()
    needs = case.needs or case.arch
    assert lines[:3] == [
        f"{case.error or f'T.{case.intrinsic}'} is not available on {case.below}",
        f"  expected: a target with {needs}",
        f"  got: cuda -arch={case.below}",
    ]
    assert re.match(r" --> .*\.py:\d+(:\d+)?$", lines[3])


# -- forms of single words ---------------------------------------------------------------------------
def line_of(body, arch="sm_90a", containing="tl_", threads=128):
    """The last line of the kernel with `containing`; the text is held to the compiler."""
    case = WORDS.Case("word", body, "")
    source = source_of(WORDS.program(case, threads), arch)
    machine_code(source, arch)
    return [line.strip() for line in source.splitlines() if containing in line][-1]


def message_of(body, arch="sm_90a", error=TileError):
    with pytest.raises(error) as found:
        source_of(WORDS.program(WORDS.Case("word", body, "")), arch)
    return "\n".join(line for line in str(found.value).splitlines() if not line.startswith(" --> "))


def wgmma(shape, a, b, c, a_order=True, b_order=True, registers=128, signs=(1, 1)):
    return lambda k: T.ptx_wgmma_ss(
        "float32", shape, a_order, b_order, a, b, c, k.wgmma(), 0, k.wgmma(), 0,
        k.registers(registers), 0, True, *signs,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "kinds", "name", "registers"),
    [
        ("m64n8k16", ("fp16", "fp16", "fp32"), "f16_f16_f32", 4),
        ("m64n256k16", ("bf16", "bf16", "fp32"), "bf16_bf16_f32", 128),
        ("m64n24k16", ("float16", "float16", "float16"), "f16_f16_f16", 6),
        ("m64n256k16", ("fp16", "fp16", "fp16"), "f16_f16_f16", 64),
        ("m64n96k8", ("tf32", "tf32", "fp32"), "tf32_tf32_f32", 48),
        ("m64n96k8", ("float32", "float32", "float32"), "tf32_tf32_f32", 48),
        ("m64n64k32", ("e4m3", "e5m2", "fp32"), "e4m3_e5m2_f32", 32),
        ("m64n64k32", ("float8_e5m2", "float8_e5m2", "fp16"), "e5m2_e5m2_f16", 16),
        ("m64n224k32", ("int8", "uint8", "int32"), "s8_u8_s32", 112),
    ],
)
def test_warpgroup_instructions_of_all_dtypes(shape, kinds, name, registers):
    body = wgmma(shape, *kinds)
    columns, depth = shape.removeprefix("m64n").split("k")
    assert line_of(body).startswith(f"tl_wgmma_{shape}_{name}_ss<0, 0, 1, 1>(")
    a, b, c = name.split("_")
    wanted = f"TL_WGMMA({columns}, {depth}, {a}, {b}, {c}, {registers})"
    assert line_of(body, containing="TL_WGMMA") == wanted


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (wgmma("m64n64k16", "fp16", "bf16", "fp32"),
         "there is no warpgroup instruction m64n64k16 of f16 and bf16 into f32\n"
         "  expected: m64nNkK of f16, bf16, tf32, fp8 or bytes into f32, f16 or s32"),
        (wgmma("m64n40k32", "int8", "int8", "int32"),
         "there is no warpgroup instruction m64n40k32 of s8 and s8\n"
         "  expected: m64nNk32 with N from 8 to 256 in steps of 16\n"
         "  got: m64n40k32"),
        (wgmma("m64n64k32", "e4m3", "e4m3", "fp32", True, False),
         "a warpgroup instruction takes e4m3 only where K is contiguous\n"
         "  expected: K-major operands, or float16 and bfloat16"),
        (lambda k: T.ptx_wgmma_rs("m64n64k16", True, "fp16", "fp16", "fp32", k.wgmma()),
         "T.ptx_wgmma_rs in this form is not supported on CUDA\n"
         '  expected: ([dtype,] "m64nNkK", b_k_major, a, b, c, A, offset, desc_b, offset, C, '
         "offset, scale_out, scale_a, scale_b)"),
        (lambda k: T.tma_load(k.map(), k.bar, k.tile, 0),
         "T.tma_load with 1 coordinates\n  expected: 2 for a map of 2 dimensions"),
        (lambda k: T.tma_load_im2col(k.image(), k.bar, k.tile, 0, 0, 0, 0, 0),
         "T.tma_load_im2col with 5 coordinates\n"
         "  expected: 6 for a map of 4 dimensions and their offsets"),
        (lambda k: T.prefetch_tma_descriptor(T.create_tma_descriptor(6, 2, k.H, 64, 64, 2)),
         "T.create_tma_descriptor of 2 dimensions with 6 arguments\n  expected: 15 arguments"),
        (lambda k: T.prefetch_tma_descriptor(
             T.create_tma_descriptor(
                 6, 2, k.H, 64, 64, 2, 128, k.thread, 64, 1, 1, 0, 3, 2, 0
             )
         ),
         "the box, step or mode of T.create_tma_descriptor is not a constant\n"
         "  expected: a number known when the kernel is compiled\n"
         "  got: `tx`"),
        (lambda k: T.prefetch_tma_descriptor(
             T.create_tma_descriptor(6, 2, k.H, 64, k.thread, 2, 128, 64, 64, 1, 1, 0, 3, 2, 0)
         ),
         "`tx` cannot be computed on the host for CUDA"),
        (lambda k: T.prefetch_tma_descriptor(
             T.create_tma_descriptor(6, 2, k.H, 64, 64, 2, 100, 64, 64, 1, 1, 0, 3, 2, 0)
         ),
         "the tensor map of `H`: a stride is out of range\n"
         "  expected: a multiple of 16 bytes below 2**40\n"
         "  got: 100"),
        (lambda k: T.ptx_mma_sp(
             "m16n8k8", "row", "col", "fp16", "fp16", "fp32", k.registers(8), 0,
             k.registers(8), 0, k.registers(4), 0, k.registers(1, "uint32"), 0, 0,
         ),
         "there is no sparse matrix instruction m16n8k8 of f16 and f16 into f32"),
        (lambda k: T.ptx_mma_sm70(
             "m16n16k4", "row", "col", "bf16", "bf16", "fp32", k.registers(4), 0,
             k.registers(4), 0, k.registers(8), 0,
         ),
         "T.ptx_mma_sm70 in this form is not supported on CUDA"),
        (lambda k: T.ptx_mma_sm70(
             "float16", "m16n16k4", "row", "rox", "fp16", "fp16", "fp32", k.registers(4), 0,
             k.registers(4), 0, k.registers(8), 0,
         ),
         "the layout of B of T.ptx_mma_sm70 does not exist\n"
         "  expected: \"row\" or \"col\"\n  got: 'rox'\n"),
        (lambda k: T.ptx_cp_async_bulk(k.tile, k.H[0, 0], -8, k.bar),
         "T.ptx_cp_async_bulk in this form is not supported on CUDA\n"
         "  expected: bytes to copy: a positive multiple of 16\n"),
        (lambda k: T.ptx_cp_async_bulk(k.tile, k.H[0, 0], float("nan"), k.bar),
         "the operand 3 of T.ptx_cp_async_bulk is not an integer\n"
         "  expected: an integer\n  got: nan of dtype float32\n"),
        (lambda k: T.ptx_arrive_cluster_barrier(k.bar, 99),
         "T.ptx_arrive_cluster_barrier of a block that the cluster does not have\n"
         "  expected: 0 to 0: it has 1 block\n  got: 99\n"
         "  hint: T.Kernel(..., cluster_dims=(x, y, z)) says how many\n"),
    ],
)  # fmt: skip
def test_forms_that_do_not_exist_are_refused(body, text):
    assert message_of(body).startswith(text)


@pytest.mark.parametrize("name", sorted(name for name, row in ROWS.items() if row.forms))
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 0.5], ids=str)
def test_no_operand_of_a_raw_instruction_is_a_number_with_a_fraction(name, wrong):
    for at in range(6):
        message = message_of(
            lambda k, at=at: getattr(T, name)(*[k.tile] * at, wrong, *[k.tile] * (5 - at))
        )
        assert message.startswith(f"the operand {at + 1} of T.{name} is not an integer\n")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda: T.tma_load(1), "T.tma_load without coordinates\n  expected: at least 4 arguments\n"
         "  got: 1 arguments"),
        (lambda: T.tma_store(1, 2, 3, eviction_policy="never"),
         "T.tma_store with an unknown eviction policy\n"
         "  expected: evict_normal, evict_first, evict_last\n  got: 'never'"),
        (lambda: T.tma_store(1, 2, 3, reduce="mul"),
         "T.tma_store with an unknown reduction\n"
         "  expected: add, min, max, inc, dec, and, or, xor\n  got: 'mul'"),
        (lambda: T.create_tma_descriptor(6), "T.create_tma_descriptor with 1 arguments\n"
         "  expected: data type, rank, address, ...\n  got: 1 arguments"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_at_the_line_of_the_intrinsic(body, text):
    case = WORDS.Case("word", lambda k: body(), "")
    with pytest.raises((TileTypeError, TileValueError)) as found:
        WORDS.program(case)
    assert str(found.value).startswith(text)


def test_a_coordinate_more_is_a_cache_policy():
    def load(policy):
        return lambda k: T.tma_load(k.map(), k.bar, k.tile, 0, 8, policy)

    assert line_of(load(0)) == "tl_tma_load(buf_1, &H_map, buf, 0, 8);"
    assert line_of(load(2)) == "tl_tma_load_hint(buf_1, &H_map, buf, 0x14f0000000000000ull, 0, 8);"


def test_stores_combine_or_carry_a_policy():
    assert (
        line_of(lambda k: T.tma_store(k.map(), k.tile, 0, 8)) == "tl_tma_store(&H_map, buf, 0, 8);"
    )
    evicted = line_of(lambda k: T.tma_store(k.map(), k.tile, 0, 8, eviction_policy="evict_first"))
    assert evicted == "tl_tma_store_hint(&H_map, buf, 0x12f0000000000000ull, 0, 8);"


def test_bulk_copies_take_both_orders_of_arguments():
    stored = line_of(lambda k: T.ptx_cp_async_bulk(k.H, k.tile, 8192))
    assert stored == "tl_bulk_store(H, buf, 8192);"
    loaded = line_of(
        lambda k: T.ptx_cp_async_bulk("float16", k.tile, 64, k.H, 128, 1024, T.address_of(k.bar))
    )
    assert loaded == "tl_bulk_load(&buf[64], &H[128], 1024, buf_1);"


@pytest.mark.parametrize(
    ("more", "got"),
    [
        ({"num_regs": 1000}, "1 to 32 registers from there on\n  got: 1000 of `buf`"),
        ({"num_regs": -1}, "1 to 32 registers from there on\n  got: -1 of `buf`"),
        ({"offset": -4}, "registers of the buffer\n  got: 0 of `buf`"),
        ({"offset": 40}, "got: -8 of `buf`"),
        ({"offset": 16, "num_regs": 17}, "1 to 16 registers from there on\n  got: 17 of `buf`"),
    ],
)
def test_a_fence_of_registers_that_do_not_exist_is_refused(more: dict[str, int], got: str):
    with pytest.raises(TileValueError) as found:
        line_of(lambda k: T.warpgroup_fence_operand(k.registers(32, "float32"), **more))
    text = str(found.value)
    assert text.startswith("T.warpgroup_fence_operand of registers that do not exist\n  expected: ")
    assert got in text


def test_a_fence_names_registers_by_their_buffer_or_its_data():
    data = line_of(lambda k: T.warpgroup_fence_operand(k.registers(32, "float32").data))
    assert data == "tl_wgmma_touch_f32<32>(buf);"
    with pytest.raises(
        TileTypeError, match="the accumulator of T.warpgroup_fence_operand is in sh"
    ):
        line_of(lambda k: T.warpgroup_fence_operand(k.tile))


def test_a_fence_of_a_fragment_does_not_change_its_layout():
    def program(fence):
        @T.prim_func
        def held(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
            with T.Kernel(1, threads=128):
                tile = T.alloc_fragment((64, 64), "float32")
                T.copy(A, tile)
                if fence:
                    T.warpgroup_fence_operand(tile)
                T.copy(tile, B)

        return held

    with_fence, without = (source_of(program(fence), "sm_90a") for fence in (True, False))
    lines = [re.sub("// .*", "", text) for text in (with_fence, without)]
    assert lines[0] == lines[1]


@pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
@pytest.mark.parametrize(("kind", "lanes"), [("float32", 2), ("float32", 4), ("float16", 2)])
def test_previous_values_are_those_of_the_interpreter(kind, lanes):
    add = {2: T.atomic_addx2, 4: T.atomic_addx4}[lanes]
    store = {4: T.stg32, 8: T.stg64, 16: T.stg128}[lanes * BYTES[kind]]

    @T.prim_func
    def sums(A: T.Tensor((66,), kind), B: T.Tensor((64,), kind)):
        with T.Kernel(1, threads=16):
            tx = T.get_thread_binding()
            old = add(A[tx * lanes + 2], B[tx * lanes], return_prev=True)
            store(B[tx * lanes], old)

    results = []
    for backend in ("emulator", "interpret"):
        a, b = np.arange(66).astype(kind), np.arange(64).astype(kind) / 2
        tilelang.compile(sums, target="cuda -arch=sm_90", execution_backend=backend)(a, b)
        results.append((a, b))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


# -- tensor maps -------------------------------------------------------------------------------------
def test_maps_are_parameters_that_the_host_encodes_before_the_kernel():
    n = T.dynamic("n")

    @T.prim_func
    def moves(A: T.Tensor((n, 64), "float16"), B: T.Tensor((64,), "float16")):
        A_map = T.create_tma_descriptor(6, 2, A.data, 64, n, 2, 128, 64, 8, 1, 1, 0, 3, 2, 0)
        with T.Kernel(T.ceildiv(n, 8), threads=32) as bx:
            tile = T.alloc_shared((8, 64), "float16")
            bar = T.alloc_barrier([1])
            if T.get_thread_binding() == 0:
                T.mbarrier_arrive_expect_tx(bar, 1024)
                T.tma_load(A_map, bar, tile, 0, bx * 8)
            T.mbarrier_wait_parity(bar, 0)
            if T.get_thread_binding() == 0:
                T.tma_store(T.create_tma_descriptor(
                    6, 2, A[8, 0], 64, n - 8, 2, 128, 64, 8, 1, 1, 0, 3, 2, 0
                ), tile, 0, bx * 8)  # fmt: skip

    module = compile(moves, Target("cuda", "sm_90a")).device
    machine_code(module.source, "sm_90a")
    first, second, plan = module.steps
    assert isinstance(first, MapStep) and isinstance(second, MapStep)
    assert isinstance(plan, LaunchPlan)
    assert (first.name, first.address, first.map.tensor) == ("A_map", ("$0",), "A")
    assert first.map.dims == (64, ("$2",)) and first.map.box == (64, 8)
    assert first.map.strides == (2, 128) and first.map.swizzle == 3
    assert second.name == "A_map_1"
    assert second.address == ("$0", 8, 64, "mul", 2, "mul", "add")
    assert second.map.dims[1] in (("$2", 8, "sub"), ("$2", -8, "add"))
    assert [(arg.kind, arg.dtype, arg.slot) for arg in plan.args] == [
        ("tensormap", "A_map", first.slot), ("tensormap", "A_map_1", second.slot),
    ]  # fmt: skip
    assert (
        "(const __grid_constant__ tl_tensor_map A_map, const __grid_constant__ tl_tensor_map "
        in (module.source)
    )


def test_memory_of_asynchronous_units_is_aligned_and_never_shared():
    @T.prim_func
    def two(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            A_map = ptx_programs.map_of(A, 6, 64, 64, 64, 64)
            small = T.alloc_shared((40,), "float16")
            small[T.get_thread_binding() % 40] = 1.0
            bar = T.alloc_barrier([1])
            front = T.alloc_shared((64, 64), "float16")
            T.tma_load(A_map, bar, front, 0, 0)
            T.mbarrier_wait_parity(bar, 0)
            T.sync_threads()
            second = T.alloc_shared((64, 64), "float16")
            T.tma_load(A_map, bar, second, 0, 0)
            A[0, 0] = small[0]

    text = source_of(two, "sm_90a")
    places = dict(re.findall(r"const (\w+) = \(uint16_t\*\)\(tl_smem(?: \+ (\d+))?\)", text))
    offsets = {name: int(place or 0) for name, place in places.items()}
    assert offsets["front"] % 1024 == offsets["second"] % 1024 == 0
    assert abs(offsets["front"] - offsets["second"]) >= 8192


def test_different_maps_of_two_kernels_have_different_names():
    @T.prim_func
    def both(A: T.Tensor((64, 64), "float16")):
        whole = T.create_tma_descriptor(6, 2, A, 64, 64, 2, 128, 64, 64, 1, 1, 0, 3, 2, 0)
        with T.Kernel(1, threads=32):
            T.prefetch_tma_descriptor(whole)
            T.prefetch_tma_descriptor(ptx_programs.map_of(A, 6, 64, 64, 8, 64))
        with T.Kernel(1, threads=32):
            T.prefetch_tma_descriptor(ptx_programs.map_of(A, 6, 64, 64, 16, 64))
            T.prefetch_tma_descriptor(whole)

    module = compile(both, Target("cuda", "sm_90a")).device
    machine_code(module.source, "sm_90a")
    boxes = {}
    for step in module.steps:
        if isinstance(step, MapStep):
            assert boxes.setdefault(step.name, step.map.box) == step.map.box
    assert {box[1] for box in boxes.values()} == {8, 16, 64}
    names = [[arg.dtype for arg in p.args] for p in module.steps if isinstance(p, LaunchPlan)]
    assert len(names[0]) == len(names[1]) == 2 and set(names[0]) != set(names[1])


def test_host_source_of_a_map_inside_a_tensor_is_refused():
    @T.prim_func
    def part(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=32):
            T.prefetch_tma_descriptor(
                T.create_tma_descriptor(6, 2, A[8, 0], 64, 8, 2, 128, 64, 8, 1, 1, 0, 3, 2, 0)
            )

    module = compile(part, Target("cuda", "sm_90a")).device
    assert refusal(TileUnsupportedError, host_module, module, part) == (
        "host source cannot encode the tensor map `A_map`\n"
        "  expected: a map of a whole tensor parameter\n"
        "  got: an address inside of `A`"
    )


# -- whole programs ----------------------------------------------------------------------------------
@pytest.mark.skipif(find_nvrtc() is None, reason="there is no NVRTC")
@pytest.mark.parametrize("name", ptx_programs.PROGRAMS)
def test_programs_of_intrinsics_compile_without_spills_or_serialised_products(name):
    entry = ptx_programs.PROGRAMS[name]
    func = entry.make()
    result = machine_code(source_of(func, entry.arch), entry.arch)
    assert not result.warnings
    assert all(item.spills == 0 for item in result.resources)
    assert func.script() == entry.make().script()
