"""Metal text as a compiler with its address spaces reads it."""

from __future__ import annotations

import pytest
from metal_clang import clang, refusal
from metal_programs import attention, counted, product, scaled, softmax, turned

from tilelang.compiler import compile
from tilelang.ir.stmt import PrimFunc
from tilelang.metal.standalone import standalone
from tilelang.options import Options
from tilelang.target import parse_target

needs_clang = pytest.mark.skipif(not clang(), reason="needs clang, or the ziglang package")
PROGRAMS = (
    scaled, softmax, counted, attention(), attention("bfloat16"), turned(True, True),
    product("float16"), product("bfloat16"), product("float32"),
)  # fmt: skip


@needs_clang
@pytest.mark.parametrize("func", PROGRAMS, ids=lambda func: func.name)
def test_the_text_compiles(func: PrimFunc) -> None:
    text = compile(func, parse_target("metal")).source
    assert not refusal(text)


@needs_clang
def test_the_text_with_the_known_element_layout_compiles() -> None:
    known = Options(element_map=True)
    for func in (attention(), attention("bfloat16"), product("float32")):
        text = compile(func, parse_target("metal"), known).source
        assert "tl_matrix_take(" in text and not refusal(text)


@needs_clang
def test_a_language_without_bfloat_is_refused() -> None:
    text = standalone(compile(scaled, parse_target("metal")).source)
    assert "need the Metal Shading Language 3.1" in refusal(
        f"#define __METAL_VERSION__ 300\n{text}"
    )
    assert not refusal(f"#define __METAL_VERSION__ 310\n{text}")


@needs_clang
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("device float* B", "device const float* B"),
        ("B[bx", "C[bx"),
        ("device const", "thread const"),
    ],
)
def test_errors_in_metal_source_are_found(old: str, new: str) -> None:
    text = compile(scaled, parse_target("metal")).source
    assert old in text and "error:" in refusal(text.replace(old, new))


def test_metal_source_includes_only_the_standard_library() -> None:
    text = standalone(compile(softmax, parse_target("metal")).source)
    included = [line for line in text.splitlines() if line.startswith("#include")]
    assert included == ["#include <metal_stdlib>"]
