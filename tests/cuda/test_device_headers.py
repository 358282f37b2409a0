"""Every function of the device headers is taken by the compiler of every architecture."""

from __future__ import annotations

import re

import pytest

from tilelang.codegen.c import NARROW_FLOATS, WITH_INFINITY
from tilelang.cuda.dialect import includes
from tilelang.cuda.forms import (
    ARITHMETIC_HEADERS,
    ATOMIC_SUFFIX,
    HEADERS,
    MMA,
    MMA_SP,
    WGMMA,
    WGMMA_K,
)
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.cuda.toolchain import INCLUDE_DIR, compile_cubin
from tilelang.target.features import features_of
from tilelang.target.instruction_table import ROWS

pytestmark = pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC")

ARCHES = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120a")


def number(arch: str) -> int:
    return int(re.sub(r"\D", "", arch))


def kernel(statements: list[str], instances: list[str] | None = None) -> str:
    """A kernel of these statements over one array per C type, behind lines of their own."""
    kinds = "int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t float double".split()
    params = ", ".join(f"{kind}* {kind[0]}{sizes(kind)}" for kind in kinds)
    body = "\n".join(f"    {line}" for line in statements)
    heads = "".join(f'#include "{name}"\n' for name in includes(body))
    heads += "".join(f"{line}\n" for line in instances or [])
    return (
        f'{heads}extern "C" __global__ void __launch_bounds__(128, 1) k({params}, int n{maps(body)}) {{\n'
        "    __shared__ __align__(128) uint8_t tile[4096];\n"
        "    __shared__ uint64_t bar[2];\n"
        "    __align__(16) uint32_t r[8];\n"
        "    for (int i = 0; i < 8; ++i) r[i] = u32[i];\n"
        f"{body}\n"
        "    for (int i = 0; i < 8; ++i) u32[i] = r[i];\n}\n"
    )


def maps(body: str) -> str:
    """The parameter that a tensor map needs."""
    return ", const __grid_constant__ tl_tensor_map m" if "&m" in body else ""


def sizes(kind: str) -> str:
    return {"float": "32", "double": "64"}.get(kind) or re.sub(r"\D", "", kind)


def numeric() -> list[str]:
    """Conversions, arithmetic and functions of numbers."""
    lines = []
    for unit, name in sorted(set(NARROW_FLOATS.values())):
        pointer = "u16" if unit == "uint16_t" else "u8"
        lines.append(
            f"{pointer}[n] = tl_f32_to_{name}(tl_round_{name}(tl_{name}_to_f32({pointer}[0])));"
        )
    for dtype in sorted(WITH_INFINITY):
        name = NARROW_FLOATS[dtype][1]
        lines.append(f"u8[n] = tl_code_{name}(tl_result_{name}(f32[0]));")
    for name in "e3m4 e4m3 e4m3fn e4m3fnuz e4m3b11fnuz e5m2 e5m2fnuz e8m0fnu".split():
        lines.append(f"f32[n] += tl_open_{name}(f32[1]);")
    for suffix, pointer in (("i32", "i32"), ("u32", "u32"), ("i64", "i64"), ("u64", "u64")):
        for op in "truncdiv truncmod floordiv floormod min max fmin_nan fmax_nan pow".split():
            lines.append(f"{pointer}[n] += tl_{op}_{suffix}({pointer}[1], {pointer}[2]);")
        lines.append(f"{pointer}[n] += tl_abs_{suffix}({pointer}[1]);")
    for op in ("add", "sub", "mul"):
        lines += [f"i32[n] = tl_{op}_i32(i32[0], n);", f"i64[n] = tl_{op}_i64(i64[0], n);"]
    one = "exp exp2 exp10 log log2 log10 log1p expm1 sqrt rsqrt sigmoid tanh sin cos tan sinh cosh " \
          "asin acos atan asinh acosh atanh erf floor ceil trunc nearbyint round abs isnan isinf " \
          "isfinite"  # fmt: skip
    two = "atan2 hypot fmod copysign nextafter pow min max fmin_nan fmax_nan"
    for suffix, p in (("f32", "f32"), ("f64", "d64")):
        lines += [f"{p}[n] += tl_{op}_{suffix}({p}[1]);" for op in one.split()]
        lines += [f"{p}[n] += tl_{op}_{suffix}({p}[1], {p}[2]);" for op in two.split()]
        lines.append(
            f"{p}[n] += tl_ldexp_{suffix}({p}[1], n) + tl_fma_{suffix}({p}[1], {p}[2], {p}[3]);"
        )
        for mode in ("rn", "rz", "ru", "rd"):
            for op in ("add", "sub", "mul", "div"):
                lines.append(f"{p}[n] += tl_{op}_{mode}_{suffix}({p}[1], {p}[2]);")
            lines += [f"{p}[n] += tl_{op}_{mode}_{suffix}({p}[1]);" for op in ("rcp", "sqrt")]
            lines.append(f"{p}[n] += tl_fma_{mode}_{suffix}({p}[1], {p}[2], {p}[3]);")
        for kind in "i8 u8 i16 u16 i32 u32 i64 u64".split():
            lines.append(f"{kind}[n] = tl_{suffix}_to_{kind}({p}[1]);")
        lines += [f"i32[n] += tl_{suffix}_to_{kind}({p}[1]);" for kind in ("i4", "u4")]
    fast = [row.name for row in ROWS.values() if row.writer == "fast"]
    lines += [f"f32[n] += tl_{name}_f32(f32[1]);" for name in [*fast, "fast_rcp", "rsqrt_rn"]]
    lines += [
        "f32[n] += tl_f64_to_f32_odd(d64[1]) + tl_bits<float>(i32[1]);",
        "i32[n] += tl_popcount_32(n) + tl_popcount_64(n) + tl_clz_32(n) + tl_clz_64(n);",
        "i32[n] += tl_ffs_32(n) + tl_ffs_64(n) + tl_fns(u32[0], 1, n) + tl_wrap_i4(n);",
    ]
    for name in ("i4", "u4", "e2m1fn"):
        lines.append(f"tl_store_{name}(u8, n, tl_load_{name}(u8, n + 1));")
        lines.append(f"tl_store_shared_{name}(u8, n, tl_load_{name}(u8, n + 1));")
    return lines


POINTER = {"i32": "i32", "u32": "u32", "i64": "i64", "u64": "u64", "f16": "u16", "bf16": "u16",
           "f32": "f32", "f64": "d64"}  # fmt: skip


def shared_by_threads() -> list[str]:
    """Atomics and exchange between threads."""
    lines = []
    for suffix in ATOMIC_SUFFIX.values():
        p = POINTER[suffix]
        value = f"tl_atomic_load_{suffix}({p}, TL_ACQUIRE)"
        ops = ["add", "max", "min", "exch"] + (["or", "and", "xor"] if suffix[0] in "iu" else [])
        lines += [f"f32[n] += tl_atomic_{op}_{suffix}({p}, {value}, TL_ACQ_REL);" for op in ops]
        lines.append(f"tl_atomic_store_{suffix}({p}, {value}, TL_SEQ_CST);")
    lines += [f"tl_atomic_store_{s}({s}, tl_atomic_load_{s}({s}, TL_ACQUIRE), TL_SEQ_CST);"
              for s in ("i8", "u8", "i16", "u16")]  # fmt: skip
    lines += [f"tl_atomic_addx2_{suffix}({POINTER[suffix]}, {POINTER[suffix]} + 2);"
              for suffix in ("f16", "bf16", "f32")]  # fmt: skip
    lines.append("tl_atomic_addx4_f32(f32, f32 + 4);")
    lines += [f"tl_atomic_addx2_prev_{s}({POINTER[s]} + 8, {POINTER[s]}, {POINTER[s]} + 2);"
              for s in ("f16", "bf16", "f32")]  # fmt: skip
    lines.append("tl_atomic_addx4_prev_f32(f32 + 8, f32, f32 + 4);")
    for a, b, p, q in (("s", "s", "i8", "i8"), ("u", "u", "u8", "u8"), ("s", "u", "i8", "u8"),
                       ("u", "s", "u8", "i8")):  # fmt: skip
        lines.append(f"tl_dp4a_{a}{b}({p}, {q}, i32);")
        lines.append(f"tl_dp4a_{a}{b}({p}, {q}, u32);")
    for p in ("i8", "u8", "i16", "i32", "u32", "i64", "u64", "f32", "d64"):
        ways = ("tl_shfl", "tl_shfl_xor", "tl_shfl_up", "tl_shfl_down")
        lines += [f"{p}[n] = {way}({p}[1], n, 16, 0xffffu);" for way in ways]
        lines.append(f"u32[n] += tl_match_any({p}[1]) + tl_match_all({p}[1]);")
    for p in ("i32", "u32", "i64", "u64", "f32", "d64"):
        ops = ["sum", "max", "min"] + (["bitand", "bitor"] if p[0] in "iu" else [])
        lines += [f"{p}[n] += tl_warp_reduce_{op}({p}[1]);" for op in ops]
    lines += [
        "f32[n] += tl_warp_reduce(f32[1], [](float a, float b) { return tl_round_f16(a + b); });",
        "i32[n] += tl_any(n > 1) + tl_all(n > 2) + tl_ballot(n > 3) + tl_activemask() + tl_warp_uniform(n);",
        "__shared__ float space[128];",
        "__shared__ uint8_t has[128];",
        "f32[n] = tl_thread_allreduce<128, 1>(space, has, (int)threadIdx.x, f32[1], n > 1, "
        "[](float a, float b) { return a + b; });",
    ]
    return lines


def moves() -> list[str]:
    """Copies, barriers, launch order, random numbers and failures that every target has."""
    lines = [f"tl_copy_{size}(tile, u8 + n);" for size in (1, 2, 4, 8, 16)]
    lines += [f"tl_{way}{bits}(u8, u8 + n);" for way in ("ldg", "stg") for bits in (32, 64, 128)]
    lines += ["u32[n] = tl_ldg32(u32);", "tl_stg32(u32, u32[n]);"]
    for size in (4, 8, 16):
        lines += [f"tl_cp_async_{size}(tile, u8 + n);"]
        lines += [f"tl_cp_async_{size}_zfill(tile, u8 + n, n > 1);"]
        lines += [f"tl_cp_async_{size}_if(tile, u8 + n, n > 2);"]
        lines += [f"tl_cp_async_{size}_zfill_if(tile, u8 + n, n > 1, n > 2);"]
    lines += ["tl_cp_async_commit();", "tl_cp_async_wait<0>();"]
    lines += [f"tl_ldmatrix_x{k}{mode}(r, tile);" for k in (1, 2, 4) for mode in ("", "_trans")]
    lines += [
        "void* p = tl_pointer(u16); u8 = (uint8_t*)p;",
        "tl_bar_sync(1, 128);",
        "tl_bar_arrive(2, 128);",
        "tl_sync_grid();",
        "tl_fence_barrier_init();",
        "i32[0] = tl_swizzle_row<4>().x + tl_swizzle_column<4>().y;",
        "tl_philox s; tl_rng_init(s, 1, 2, 3);",
        "f32[n] = tl_rng_uniform_f32(s) + tl_rng_normal_f32(s); u32[n] = tl_rng_rand(s);",
        "d64[n] = tl_rng_uniform_f64(s) + tl_rng_normal_f64(s);",
        *[
            f"{{ {kind} s; tl_rng_init(s, 1, 2, 3); f32[n] = tl_rng_uniform_f32(s); u32[n] = tl_rng_rand(s);"
            " d64[n] = tl_rng_uniform_f64(s) + tl_rng_normal_f64(s); }"
            for kind in ("tl_xorwow", "tl_mrg")
        ],
        'tl_assert(n > 3, "n is small");',
    ]
    return lines


def halves() -> list[str]:
    """Pairs of float16."""
    lines = ["tl_half2_store(r, tl_half2_load(r + 1));",
             "r[2] = tl_half2_pack(u16[0], u16[1]) + tl_half2_both(u16[2]);",
             "r[3] = tl_half2_round(f32[0], f32[1]);"]  # fmt: skip
    lines += [f"r[4] = tl_half2_{op}(r[1], r[2]);" for op in ("add", "sub", "mul")]
    lines += [f"r[5] += tl_half2_field<{bits}>(r[{bits % 3}], {low}, {high}, -n);"
              for bits in (1, 2, 4, 8) for low, high in ((0, 8), (8, 24), (0, 16))]  # fmt: skip
    return [*lines, "r[6] = tl_half2_field<4>(r[0], n, n + 4, -8);"]


def newer(arch: str) -> list[str]:
    """What only some architectures have."""
    lines = []
    if "bf16x2" in features_of("cuda", arch):
        lines += [f"r[4] = tl_half2_{op}_bf16(r[1], r[2]);" for op in ("add", "sub", "mul")]
        lines += [f"r[4] = tl_half2_{op}(r[1], r[2]);"
                  for op in ("min", "max", "min_bf16", "max_bf16")]  # fmt: skip
        lines.append("r[6] = tl_half2_field_bf16<4>(r[0], n, n + 4, -8);")
    if "fp8x2" in features_of("cuda", arch):
        lines += [f"r[4] = tl_half2_quad_{kind}(f32[0], f32[1], f32[2], f32[3]);"
                  for kind in ("e4m3fn", "e5m2")]  # fmt: skip
        lines += [f"r[4] = tl_half2_wide_{kind}(r[1]);" for kind in ("e4m3fn", "e5m2")]
    for (shape, a, b, c), needs in MMA.items():
        if needs in features_of("cuda", arch):
            lines.append(f"tl_mma_{shape}_{a}_{b}_{c}(r, r, r + 4);")
    if number(arch) >= 80:
        lines += ["r[3] = tl_half2_round_bf16(f32[0], f32[1]);"]
        lines += ["tl_mbarrier_init(bar, 1);", "tl_mbarrier_arrive(bar);",
                  "tl_mbarrier_wait(bar, n);", "tl_cp_async_mbarrier_arrive_noinc(bar);"]  # fmt: skip
    if number(arch) >= 90:
        lines += [f"tl_stmatrix_x{k}{mode}(tile, r);" for k in (1, 2, 4) for mode in ("", "_trans")]
        lines += ["tl_mbarrier_arrive_remote(bar, 1);", "tl_mbarrier_expect_tx(bar, 16);",
                  "tl_mbarrier_arrive_expect_tx(bar, 16);", "tl_fence_proxy_async();",
                  "tl_cluster_arrive();", "tl_cluster_wait();", "tl_cluster_arrive_relaxed();",
                  "tl_cluster_sync();", "i32[n] = tl_block_rank_in_cluster();",
                  "tl_pdl_trigger();", "tl_pdl_sync();", "tl_bulk_commit();",
                  "tl_bulk_wait<0>();", "tl_bulk_wait_read<1>();"]  # fmt: skip
        lines += ["r[0] += tl_elect_one();", "tl_map_shared(tile, 1);"]
    if arch.endswith("a"):
        lines += ["tl_setmaxnreg_inc<240>();", "tl_setmaxnreg_dec<24>();"]
    if arch == "sm_90a":
        lines += ["tl_wgmma_fence();", "tl_wgmma_commit();", "tl_wgmma_wait<0>();"]
    return lines


def older() -> list[str]:
    """The instruction of sm_70 in all orders."""
    return [
        f"tl_mma_m16n16k4_{a}_{b}_f16_f16_{c}(r, r, r + 4);"
        for a in ("row", "col") for b in ("row", "col") for c in ("f16", "f32")
    ]  # fmt: skip


def sparse(arch: str) -> list[str]:
    """Sparse products of one warp."""
    return [
        f"tl_mma_sp_{'_'.join(key)}<0>(r, r, r + 4, u32[n]);"
        for key, needs in MMA_SP.items()
        if needs in features_of("cuda", arch)
    ]


def tensor_copies() -> list[str]:
    """Bulk copies (sm_90)."""
    lines = ["tl_tma_prefetch(&m);"]
    for rank in range(1, 6):
        at = ", ".join(["n"] * rank)
        lines += [f"tl_tma_load(tile, &m, bar, {at});",
                  f"tl_tma_agree(128, {at});",
                  f"tl_tma_load_hint(tile, &m, bar, u64[0], {at});",
                  f"tl_tma_load_multicast(tile, &m, bar, 3, {at});",
                  f"tl_tma_load_multicast_hint(tile, &m, bar, 3, u64[0], {at});",
                  f"tl_tma_store(&m, tile, {at});",
                  f"tl_tma_store_hint(&m, tile, u64[0], {at});"]  # fmt: skip
        lines += [f"tl_tma_reduce_{op}(&m, tile, {at});"
                  for op in "add min max inc dec and or xor".split()]  # fmt: skip
    for count in (4, 6, 8):
        at = ", ".join(["n"] * count)
        lines += [f"tl_tma_load_im2col(tile, &m, bar, {at});",
                  f"tl_tma_load_im2col_hint(tile, &m, bar, u64[0], {at});"]  # fmt: skip
    lines += [
        "tl_bulk_load(tile, u8, 64, bar);",
        "tl_bulk_load_multicast(tile, u8, 64, bar, 3);",
        "tl_bulk_store(u8, tile, 64);",
        "tl_bulk_copy_cluster(tile, tile, 64, bar, 1);",
    ]
    return lines + [f"tl_bulk_reduce_add_{kind}(u8, tile, 64);"
                    for kind in "f32 f64 f16 bf16 i32 u32 u64".split()]  # fmt: skip


def warpgroups() -> tuple[list[str], list[str]]:
    """Products of warpgroups (sm_90a), and the lines that make them."""
    lines = ["tl_wgmma_descriptor(u64, tile, 1, 1, 64);", "tl_descriptor_add(u64, 32);",
             "u64[0] = tl_wgmma_operand<1, 1, 64>(tile);", "tl_wgmma_touch_f32<4>(r);", "tl_wgmma_touch_b32<4>(r);", "uint32_t d[128];",
             "for (int i = 0; i < 128; ++i) d[i] = u32[i];", "tl_wgmma_fence();"]  # fmt: skip
    instances = []
    for (a, b), totals in WGMMA.items():
        for c in totals:
            for columns in (8, 24, 64, 256):
                k, registers = WGMMA_K[a], columns // (4 if c == "f16" else 2)
                instances.append(f"TL_WGMMA({columns}, {k}, {a}, {b}, {c}, {registers})")
                name = f"tl_wgmma_m64n{columns}k{k}_{a}_{b}_{c}"
                if columns <= 64:
                    lines.append(f"{name}_ss<0, 0, 1, 1>(d, u64[0], u64[1], true);")
                    lines.append(f"{name}_rs<0, 1, 1>(d, r, u64[1], n > 1);")
    lines += ["tl_wgmma_commit();", "tl_wgmma_wait<0>();",
              "for (int i = 0; i < 128; ++i) u32[i] = d[i];"]  # fmt: skip
    return lines, instances


def tensor_memory() -> tuple[list[str], list[str]]:
    """Tensor memory (sm_100a), and the lines that make its moves."""
    lines = ["tl_tcgen05_descriptor(u64, tile, 1, 64, 0, 0, 2);", "tl_tmem_alloc<512>((uint32_t*)tile);",
             "uint32_t d[128];", "for (int i = 0; i < 128; ++i) d[i] = u32[i];"]  # fmt: skip
    for kind in ("f16", "tf32", "f8f6f4", "i8"):
        for mask in ("", ", 1, 2, 3, 4"):
            lines += [f"tl_tcgen05_mma_ss_{kind}(n, u64[0], u64[1], n, true{mask});",
                      f"tl_tcgen05_mma_ts_{kind}(n, n, u64[1], n, true{mask});"]  # fmt: skip
    lines += [f"tl_tcgen05_cp_{shape}(n, u64[0]);" for shape in (
        "128x256b", "4x256b", "128x128b", "64x128b_warpx2_02_13", "64x128b_warpx2_01_23",
        "32x128b_warpx4")]  # fmt: skip
    instances = []
    for shape, unit in (("32x32b", 1), ("16x64b", 1), ("16x128b", 2), ("16x256b", 4)):
        for count in (1, 2, 4, 8, 16, 32, 64, 128):
            if count * unit <= 128:
                instances.append(f"TL_TCGEN05_MOVE({shape}, {count}, {count * unit})")
                lines += [f"tl_tcgen05_st_{shape}_x{count}(n, d);",
                          f"tl_tcgen05_ld_{shape}_x{count}(d, n);"]  # fmt: skip
    lines += [f"tl_{way}256(u8, u8 + n);" for way in ("ldg", "load", "stg")]
    lines += ["tl_tcgen05_wait_st();", "tl_tcgen05_wait_ld();", "tl_tcgen05_fence_before();",
              "tl_tcgen05_fence_after();", "tl_tcgen05_commit(bar);",
              "tl_tcgen05_commit_multicast(bar, 3);", "tl_clc_try_cancel(tile, bar);",
              "tl_clc_try_cancel_multicast(tile, bar);",
              "i32[0] = tl_clc_is_canceled(tile) + tl_clc_first_ctaid_x(tile) + "
              "tl_clc_first_ctaid_y(tile) + tl_clc_first_ctaid_z(tile);",
              "for (int i = 0; i < 128; ++i) u32[i] = d[i];", "tl_tmem_relinquish();",
              "tl_tmem_free<512>(n);"]  # fmt: skip
    return lines, instances


def all_text(arch: str) -> str:
    units = [*tensor_copies(), *warpgroups()[0], *tensor_memory()[0]]
    own = [*numeric(), *shared_by_threads(), *moves(), *halves(), *newer(arch), *older()]
    return "\n".join([*own, *sparse(arch), *units])


@pytest.mark.share(3)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("group", ["numeric", "shared_by_threads", "moves", "halves", "newer"])
def test_functions_compile(arch: str, group: str) -> None:
    lines = newer(arch) if group == "newer" else globals()[group]()
    compile_cubin(kernel(lines), arch)


@pytest.mark.parametrize("arch", ARCHES)
def test_matrix_instructions_of_other_ages_compile(arch: str) -> None:
    compile_cubin(kernel([*older(), *sparse(arch)]), arch)


@pytest.mark.parametrize("arch", [arch for arch in ARCHES if number(arch) >= 90])
def test_bulk_copies_compile(arch: str) -> None:
    compile_cubin(kernel(tensor_copies()), arch)


def test_products_of_warpgroups_compile() -> None:
    compile_cubin(kernel(*warpgroups()), "sm_90a")


def test_tensor_memory_compiles() -> None:
    compile_cubin(kernel(*tensor_memory()), "sm_100a")


def test_every_function_is_called_above() -> None:
    text = all_text("sm_90a")
    missing = []
    for path in sorted(INCLUDE_DIR.glob("*.h")):
        for name in re.findall(r"TL_INLINE [\w* ]*?(tl_[a-z0-9_]+)\(", path.read_text()):
            inner = name in (
                "tl_as_f32 tl_as_u32 tl_shared_address tl_before tl_after tl_aligned tl_panel "
                "tl_small_to_f32 tl_f32_to_small tl_dp4a_mixed tl_philox_words "
                "tl_philox_advance tl_xorwow_step tl_xorwow_square tl_xorwow_jump tl_xorwow_start "
                "tl_mrg_dot tl_mrg_jump tl_mrg_start tl_mrg_next tl_rng_angle "
                "tl_mbarrier_try_wait tl_pointer tl_hash tl_half_of_int tl_kept "
                "tl_global_address tl_peek tl_poke tl_kept_bits tl_lanes tl_below tl_thread_index "
                "tl_block_index"
            ).split() or name.endswith(("_", "_to", "_values_f16", "_values_bf16", "_values_f32"))
            if not inner and f"{name}(" not in text and f"{name}<" not in text:
                missing.append(f"{path.name}: {name}")
    assert not missing, "\n".join(missing)


def test_a_header_is_included_for_every_function() -> None:
    # What several places have is included by the headers of each.
    shared = {
        "tl_types.h", "tl_words.h", "tl_atomic_forms.h", "tl_atomic_pairs.h", "tl_power.h",
        "tl_random_steps.h",
    }  # fmt: skip
    named = shared | {*ARITHMETIC_HEADERS, *(name for name, _ in HEADERS)}
    assert named == {p.name for p in INCLUDE_DIR.glob("*.h")} - {"tl_math.h"}  # which is all four
    for line in all_text("sm_90a").splitlines():
        if "tl_" in line and "tl_bits" not in line:
            assert len(includes(line)) > 1, line
