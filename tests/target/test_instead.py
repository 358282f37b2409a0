"""Intrinsics of NVIDIA GPUs on other GPUs: what exists compiles, what is not is refused with
what to use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "metal"))
import ptx_cases
from joined import joined
from metal_clang import clang, refusal

from tilelang.compiler import compile as text_of
from tilelang.errors import TileUnsupportedError
from tilelang.hip.toolchain import compile_code, tools
from tilelang.target import parse_target
from tilelang.target.alternatives import INSTEAD
from tilelang.target.features import FEATURES

OTHERS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201", "metal")
# Their texts call a function that the program itself would have to bring.
OWN = ("access_ptr", "address_of")


def outcomes(gpu: str) -> tuple[dict[str, str], dict[str, TileUnsupportedError]]:
    """Texts and refusals by the names of words."""
    target = parse_target(gpu if gpu == "metal" else f"hip -mcpu={gpu}")
    texts, refusals = {}, {}
    for case in ptx_cases.cases():
        try:
            texts[case.intrinsic] = text_of(ptx_cases.program(case), target).source
        except TileUnsupportedError as error:
            refusals[case.intrinsic] = error
    return texts, refusals


@pytest.mark.parametrize("gpu", OTHERS)
def test_every_operation_compiles_or_names_a_replacement(gpu: str) -> None:
    texts, refusals = outcomes(gpu)
    for name, error in refusals.items():
        said = f"{error.expected} {error.hint}"
        assert "T." in said and "sm_" not in said, f"{name}: {error}"
        assert error.loc is not None, f"{name}: {error}"
    assert {"tma_load", "ptx_wgmma_ss", "ptx_tcgen05_mma_ss", "ptx_mma"} <= set(refusals)
    made = joined(text for name, text in texts.items() if name not in OWN)
    if gpu == "metal" and clang():
        assert not refusal(made)
    elif gpu != "metal" and list(tools()):
        assert compile_code(made, gpu).code.startswith(b"\x7fELF")


def test_the_whole_text_of_a_refusal() -> None:
    case = next(c for c in ptx_cases.cases() if c.intrinsic == "cluster_sync")
    with pytest.raises(TileUnsupportedError) as caught:
        text_of(ptx_cases.program(case), parse_target("metal"))
    lines = [line.strip() for line in str(caught.value).splitlines()]
    assert lines[:3] == [
        "T.cluster_sync is not available on Metal",
        "expected: T.Kernel without clusters: a block exchanges data by tensors of its own",
        "got: metal",
    ]


def test_only_known_features_have_a_replacement() -> None:
    assert set(INSTEAD) <= set(FEATURES)
