"""Features: what each architecture has, and what options leave out."""

from __future__ import annotations

import pytest

from tilelang.errors import InternalError
from tilelang.options import make_options
from tilelang.target import Context, parse_target
from tilelang.target.features import FEATURES, lowest_with
from tilelang.target.instruction_table import ROWS
from tilelang.target.nvidia import HARDWARE_TILES

# Target -> features by name. Written out, so that a change of the tables is a change here.
VOLTA = "simt division_branches mma_sm70"
TURING = f"{VOLTA} mma ldmatrix"
AMPERE = f"{TURING} mma_sm80 mma_sp cp_async mbarrier bf16"
ADA = f"{AMPERE} fp8 mma_fp8 fp8x2"
HOPPER = f"{ADA} stmatrix bulk_copy tma cluster elect vector_red pdl descriptors bf16x2"
HOPPER_CHIP = f"{HOPPER} wgmma async_products page_locality setmaxnreg roles"
BLACKWELL = f"{HOPPER} access_256 clc"
BLACKWELL_CHIP = f"{BLACKWELL} setmaxnreg roles clc_multicast"
CDNA = "simt mfma ds_read vmcnt bf16 column_order"
FOUND = {
    "cuda -arch=sm_70": VOLTA,
    "cuda -arch=sm_75": TURING,
    "cuda -arch=sm_80": AMPERE,
    "cuda -arch=sm_86": AMPERE,
    "cuda -arch=sm_89": ADA,
    "cuda -arch=sm_90": HOPPER,
    "cuda -arch=sm_90a": HOPPER_CHIP,
    "cuda -arch=sm_100": BLACKWELL,
    "cuda -arch=sm_100a": f"{BLACKWELL_CHIP} tcgen05",
    "cuda -arch=sm_100f": f"{BLACKWELL_CHIP} tcgen05",
    "cuda -arch=sm_120": BLACKWELL,
    "cuda -arch=sm_120a": f"{BLACKWELL_CHIP} mma_blockscaled",
    "hip": f"{CDNA} direct_lds mfma_i8 mfma_fnuz mfma_xf32 fp8",
    "hip -arch=gfx90a": f"{CDNA} mfma_i8_k16",
    "hip -arch=gfx942:sramecc+": f"{CDNA} direct_lds mfma_i8 mfma_fnuz mfma_xf32 fp8",
    "hip -arch=gfx950": f"{CDNA} direct_lds direct_lds_16 mfma_i8 mfma_ocp mfma_k32 fp8",
    "hip -arch=gfx906": "simt ds_read vmcnt",
    "hip -arch=gfx1100": "simt wmma wmma_gfx11 ds_read vmcnt bf16 column_order",
    "hip -arch=gfx1201": "simt wmma wmma_gfx12 ds_read vmcnt bf16 fp8 column_order",
    "metal": "simt simdgroup simdgroup_elements bf16",
    "webgpu": "simt",
    "cpu": "cores",
}


@pytest.mark.parametrize("target", FOUND)
def test_features_of_a_target(target: str) -> None:
    assert parse_target(target).features == frozenset(FOUND[target].split())


def test_every_feature_is_explained_and_some_target_has_it() -> None:
    assert set(FEATURES) == {name for names in FOUND.values() for name in names.split()}
    assert all(FEATURES.values())


def test_messages_name_the_lowest_machine_with_a_feature() -> None:
    lowest = {"bf16x2": "sm_90", "wgmma": "sm_90a", "simdgroup": "metal", "wmma_gfx12": "gfx12"}
    assert {name: lowest_with(name) for name in lowest} == lowest


def test_rows_and_tile_operations_need_features() -> None:
    needed = {row.needs for row in ROWS.values()} | {*HARDWARE_TILES.values()}
    assert needed - {"", "threads"} <= set(FEATURES)


@pytest.mark.parametrize(
    ("key", "left_out"),
    [
        ("tl.disable_tma_lower", {"tma", "bulk_copy"}),
        ("tl.disable_wgmma", {"wgmma", "async_products"}),
        ("tl.disable_warp_specialized", {"roles"}),
    ],
)
def test_options_leave_features_out(key: str, left_out: set[str]) -> None:
    target = parse_target("cuda -arch=sm_90a")
    assert Context(target).features == target.features
    assert Context(target, make_options({key: False})).features == target.features
    context = Context(target, make_options({key: True}))
    assert target.features - context.features == left_out
    assert not any(context.has(name) for name in left_out)


def test_undocumented_layouts_are_available_on_request() -> None:
    target = parse_target("metal")
    asked = Context(target, make_options({"tl.simdgroup_element_map": True}))
    assert asked.features == target.features
    assert target.features - Context(target).features == {"simdgroup_elements"}


def test_a_feature_that_does_not_exist_is_a_defect() -> None:
    with pytest.raises(InternalError) as caught:
        Context(parse_target("cuda -arch=sm_80")).has("cp.async")
    assert str(caught.value).startswith("there is no feature 'cp.async'")
