"""Annotations, print, views, hardware words, and the exported names."""

# ruff: noqa: E501  # a program and the text it must give are one line each
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from executors import holds
from vocabulary import buf, frag, launch, one, shared, texts

import tilelang.language as T
from tilelang.absent import WORDS
from tilelang.errors import TileWarning
from tilelang.ir.stmt import HardwareOp, PrintTile
from tilelang.language.v2.builder import Builder
from tilelang.layout import Fragment, Layout, make_swizzled_layout
from tilelang.target.instruction_table import ROWS
from tilelang.target.nvidia import HARDWARE_TILES

G = buf("G", (64, 64))
S = shared("S", (64, 64))
F = frag("F", (8, 8))


def annotation(body: Any, key: str) -> Any:
    return getattr(launch(body).hints, key)


def attribute(body: Any, key: str) -> Any:
    builder = Builder()
    with builder.prim_func("main"), T.Kernel(1):
        body()
    return builder.get().attr(key)


def test_layouts_are_collected_per_buffer() -> None:
    layout = make_swizzled_layout(S)
    rows = Fragment((8, 8), lambda i, j: (i, j))

    def body() -> None:
        T.annotate_layout({S: layout})
        T.annotate_layout({F: rows, G: lambda i, j: j * 64 + i})

    found = dict(annotation(body, "layout_map"))
    assert found[S] is layout and found[F] is rows
    assert isinstance(found[G], Layout) and found[G].size == 4096


def _summed() -> Any:
    @T.prim_func
    def summed(A: T.Tensor((4,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            total = T.alloc_local([1], "float32")
            T.annotate_layout({total: Fragment((1,), forward_thread_fn=lambda i: i)})
            total[0] = 0
            for k in T.serial(4):
                total[0] += A[k]
            for i in T.Parallel(64):
                B[i] = total[0]

    return summed


def test_a_fragment_layout_of_a_local_array_is_ignored_with_a_warning() -> None:
    """Each thread has the whole array, so nothing can be distributed."""
    message = (
        r"^the layout of `total` in T\.annotate_layout is ignored: each thread has an array of its "
        r"own; T\.alloc_fragment makes a tile whose elements are distributed over threads$"
    )
    a = np.arange(4, dtype=np.float32)
    with pytest.warns(TileWarning, match=message):
        holds(_summed(), (a, np.zeros(64, np.float32)), np.full(64, 6, np.float32))


def test_safe_values_have_the_dtype_of_the_tensor() -> None:
    ((buffer, value),) = annotation(lambda: T.annotate_safe_value({G: 1}), "safe_value")
    assert buffer is G and value.dtype == "float32" and value.value == 1.0


def test_hints_are_kept() -> None:
    assert annotation(lambda: T.annotate_l2_hit_ratio({G: 0.5}), "l2_hit_ratio") == ((G, 0.5),)
    assert annotation(lambda: T.annotate_restrict_buffers(G), "other") == (
        ("restrict_buffers", ((G, True),)),
    )
    assert annotation(lambda: T.annotate_min_blocks_per_sm(2), "min_blocks_per_sm") == 2
    assert attribute(lambda: T.annotate_compile_flags("-O3 -lineinfo"), "compile_flags") == (
        "-O3", "-lineinfo",
    )  # fmt: skip
    configs = attribute(lambda: T.annotate_pass_configs({"tl.x": [1, 2]}), "pass_configs")
    assert dict(configs) == {"tl.x": (1, 2)}
    assert attribute(lambda: T.func_attr({"global_symbol": "k"}), "global_symbol") == "k"


def test_sources_accumulate() -> None:
    def body() -> None:
        T.import_source("int a;")
        T.import_source(None)
        T.import_source("int b;")

    assert annotation(body, "import_source") == "int a;\nint b;"


def test_schedules_are_kept() -> None:
    schedule = T.WSSchedule(
        num_warps=8,
        roles=[T.WSRole("load", [T.ws_op("copy")], warps_lo=0, warps_hi=4, max_nreg=40)],
        pipelines=[T.WSPipeline("p", ["A"], depth=2)],
        scopes=[T.WSScope("k", [T.WSSync.acquire("p", stage=1)])],
    )
    assert annotation(lambda: T.annotate_ws_schedule(schedule), "ws_schedule") is schedule
    assert T.WSID == "ws_id" and T.WSSyncKind.WAIT.value == "wait"
    assert T.WSSync.producer_acquire("p", stage=1) == T.WSSync.acquire("p", stage=1)
    assert T.WSSync.producer_commit("p") == T.WSSync.commit("p")
    assert T.WSSync.consumer_wait("p", 2) == T.WSSync.wait("p", 2)
    assert T.WSSync.consumer_release("p") == T.WSSync.release("p")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda: T.print(G[0, 1] + 1.0), 'T.print(G[0, 1] + T.float32(1.0), message="")'),
        (lambda: T.device_assert(G[0, 0] > 0, "no"), None),
        (lambda: T.device_assert(True), ""),
    ],
)
def test_debug_statements(body: Any, text: str | None) -> None:
    lines = texts(body)
    if text is None:
        assert lines[0].startswith("T.device_assert(G[0, 0] > ") and 'message="no"' in lines[0]
    else:
        assert lines == ([text] if text else [])


def test_tiles_are_printed_by_one_thread() -> None:
    found = one(lambda: T.print(F, "tile", warp_group_id=1, warp_id=2))
    assert isinstance(found, PrintTile)
    assert (found.message, found.thread, found.src.buffer) == ("tile", 192, F)
    assert one(lambda: T.print(S[0:2, :])).src.shape == (2, 64)


def test_instructions_with_several_forms_trace_with_any_operands() -> None:
    forms = [row for row in ROWS.values() if row.forms]
    assert len(forms) > 8
    for row in forms:
        word = getattr(T, row.name)
        assert repr(one(lambda w=word: w("f16", S, 3))) == (
            f'T.{row.name}("f16", T.address_of(S[0, 0]), 3)'
        )


def test_dtypes_are_names_of_the_language() -> None:
    assert T.float == "float32" and T.int == "int32" and T.bool == "bool" and T.half == "float16"
    assert T.float4_e2m1fnx2.lanes == 2 and T.bfloat16x2(1, 2).dtype == "bfloat16x2"
    assert T.dtypes.float16 is T.float16 and T.dtype("float16") is T.float16
    for name in ("annot", "ast", "builder", "dtypes", "eager", "v2"):
        assert getattr(T, name).__name__.startswith(("tilelang.language.", "tilelang.frontend"))


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(AttributeError) as raised:
        _ = T.alloc_sharde
    assert str(raised.value) == (
        "tilelang.language has no name 'alloc_sharde'; did you mean T.alloc_shared?"
    )


def test_names_of_other_languages_get_a_hint() -> None:
    with pytest.raises(AttributeError) as raised:
        _ = T.relu
    assert str(raised.value) == "tilelang.language has no name 'relu'; use T.max(x, 0)"
    assert [word for word in WORDS if word in T.__all__] == []
    named = {word for advice in WORDS.values() for word in re.findall(r"T\.(\w+)", advice)}
    assert [word for word in named if not hasattr(T, word)] == []


def test_hardware_tiles_name_required_features() -> None:
    bar = buf("bar", (1,), "uint64", "shared.barrier")
    tm = buf("tm", (128, 64), "float32", "shared.tmem")
    E = buf("E", (64, 8), "uint16", "shared.dyn")
    C = frag("C", (64, 64))
    for body in (
        lambda: T.gemm_sp(S, E, S, C, False, False, True),
        lambda: T.gemm_sp_v2(S, E, S, C),
        lambda: T.wgmma_gemm_sp(S, E, S, C),
        lambda: T.tcgen05_gemm_sp(S, E, S, tm, mbar=bar),
        lambda: T.tcgen05_gemm_blockscaled(
            S, S, tm, tm, tm, mbar=bar, k_start=0, sf_a_granularity_k=32, sf_b_granularity_k=32
        ),
        lambda: T.mma_gemm_blockscaled(S, S, C, E, E, transpose_B=True, k_start=0),
        lambda: T.tcgen05_cp_warpx4(S, tm, use_2cta=True),
        lambda: T.tcgen05_sf_warp_transpose(S),
        lambda: T.deallocate_tmem(tm),
        lambda: T.copy(tm, frag("G", (128, 64))),
    ):
        found = one(body)
        assert isinstance(found, HardwareOp) and found.needs == HARDWARE_TILES[found.name]
        assert repr(found)


def test_a_view_of_another_dtype_has_as_many_bytes() -> None:
    text = 'buf = T.Buffer((64, 128), "int8", data=S, scope="shared.dyn")'
    assert texts(lambda: T.view(S, dtype="int8")) == [text]
