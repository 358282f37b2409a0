"""Features: what each architecture has, and what options leave out."""

from __future__ import annotations

import pytest

from tilelang.errors import InternalError
from tilelang.options import Options, make_options
from tilelang.target import Context, parse_target
from tilelang.target.features import FEATURES

# Target -> features by name. Written out, so that a change of the tables is a change here.
TURING = "simt mma ldmatrix"
AMPERE = f"{TURING} mma_sm80 mma_sp cp_async mbarrier bf16"
ADA = f"{AMPERE} fp8 mma_fp8"
HOPPER = f"{ADA} stmatrix bulk_copy tma cluster elect"
HOPPER_CHIP = f"{HOPPER} wgmma setmaxnreg roles"
BLACKWELL = f"{HOPPER} access_256"
FOUND = {
    "cuda -arch=sm_70": "simt",
    "cuda -arch=sm_75": TURING,
    "cuda -arch=sm_80": AMPERE,
    "cuda -arch=sm_86": AMPERE,
    "cuda -arch=sm_89": ADA,
    "cuda -arch=sm_90": HOPPER,
    "cuda -arch=sm_90a": HOPPER_CHIP,
    "cuda -arch=sm_100": BLACKWELL,
    "cuda -arch=sm_100a": f"{BLACKWELL} setmaxnreg roles tcgen05",
    "cuda -arch=sm_100f": f"{BLACKWELL} setmaxnreg roles tcgen05",
    "cuda -arch=sm_120": BLACKWELL,
    "cuda -arch=sm_120a": f"{BLACKWELL} setmaxnreg roles mma_blockscaled",
    "hip": "simt mfma ds_read vmcnt direct_lds bf16",
    "hip -arch=gfx90a": "simt mfma ds_read vmcnt direct_lds bf16",
    "hip -arch=gfx942:sramecc+": "simt mfma ds_read vmcnt direct_lds bf16 fp8",
    "hip -arch=gfx906": "simt ds_read vmcnt",
    "hip -arch=gfx1100": "simt wmma ds_read vmcnt bf16",
    "hip -arch=gfx1201": "simt wmma ds_read vmcnt bf16 fp8",
    "metal": "simt simdgroup",
    "webgpu": "simt",
    "cpu": "cores",
}


@pytest.mark.parametrize("target", FOUND)
def test_features_of_a_target(target: str) -> None:
    assert parse_target(target).features == frozenset(FOUND[target].split())


def test_every_feature_is_explained_and_some_target_has_it() -> None:
    assert set(FEATURES) == {name for names in FOUND.values() for name in names.split()}
    assert all(FEATURES.values())


@pytest.mark.parametrize(
    ("key", "left_out"),
    [
        ("tl.disable_tma_lower", {"tma", "bulk_copy"}),
        ("tl.disable_wgmma", {"wgmma"}),
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


def test_what_the_target_lacks_cannot_be_left_out() -> None:
    target = parse_target("cuda -arch=sm_80")
    options = Options(no_tma=True, no_wgmma=True, no_roles=True)
    assert Context(target, options).features == target.features


def test_a_feature_that_does_not_exist_is_a_defect() -> None:
    with pytest.raises(InternalError) as caught:
        Context(parse_target("cuda -arch=sm_80")).has("cp.async")
    assert str(caught.value).startswith("there is no feature 'cp.async'")
