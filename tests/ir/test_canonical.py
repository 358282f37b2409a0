"""Canonical text ignores local names and places and depends on everything that has a meaning."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from refusals import refusal

from tilelang.errors import InternalError, Loc
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.canonical import canonical_text
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import LaunchHints, LoopHints

I32, F32 = DType("int32"), DType("float32")


def make(**change: Any) -> S.PrimFunc:
    """A small kernel; every keyword changes one thing."""
    get: Callable[..., Any] = lambda key, default: change.get(key, default)  # noqa: E731
    size = E.Var(get("symbol", "n"), I32)
    a = Buffer(get("param", "A"), Shape((size,)), DType(get("dtype", "float32")))
    tile = Buffer(get("local", "tile"), Shape((get("extent", 8),)), a.dtype, get("scope", "shared"))
    i = E.Var(get("index", "i"), I32)
    store = S.Store(
        buffer=tile, indices=(i,), value=E.const(get("value", 1.0), a.dtype), loc=get("loc", None)
    )
    loop = S.For(
        var=i, start=E.const(0), stop=size, step=E.const(1), kind=get("kind", "serial"),
        body=store, hints=LoopHints(other=get("loop_notes", ())),
    )  # fmt: skip
    copy = S.Copy(src=tile.whole(), dst=tile.whole(), mode=get("mode", "copy"))
    kernel = S.Launch(
        grid=(size,),
        block_vars=(E.Var("bx", I32),),
        thread_vars=tuple(E.Var(name, I32) for name in "xyz"),
        threads=get("threads", (128, 1, 1)),
        body=S.seq(S.Alloc(buffer=tile), loop, copy),
        hints=LaunchHints(safe_value=((a, get("safe", 0.0)),)),
    )
    return S.PrimFunc(get("name", "main"), (a,), kernel, (), get("attrs", ()), get("loc", None))


def test_the_same_program_made_twice_has_the_same_text() -> None:
    assert canonical_text(make()) == canonical_text(make())


@pytest.mark.parametrize(
    "change", [{"index": "j"}, {"local": "x"}, {"loc": Loc("other.py", 3)}], ids=str
)
def test_local_names_and_locations_do_not_matter(change: dict[str, Any]) -> None:
    assert canonical_text(make(**change)) == canonical_text(make())


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "float16"}, {"extent": 16}, {"scope": "shared.dyn"}, {"value": 2.0},
        {"value": -1.0}, {"kind": "unroll"}, {"loop_notes": (("factor", 2),)}, {"mode": "async"},
        {"threads": (64, 1, 1)}, {"threads": (64, 2, 1)}, {"safe": 1.0}, {"safe": -0.0},
        {"param": "B"}, {"symbol": "m"}, {"name": "other"}, {"attrs": (("fast", True),)},
    ],
    ids=str,
)  # fmt: skip
def test_everything_with_a_meaning_matters(change: dict[str, Any]) -> None:
    assert canonical_text(make(**change)) != canonical_text(make())


def test_which_buffer_is_used_matters_even_if_names_agree() -> None:
    a, b = (Buffer("t", Shape((4,)), F32, "shared") for _ in range(2))
    allocs = (S.Alloc(buffer=a), S.Alloc(buffer=b))
    texts = {
        canonical_text(S.PrimFunc("f", (), S.seq(*allocs, S.Copy(src=a.whole(), dst=x.whole()))))
        for x in (a, b)
    }
    assert len(texts) == 2


def test_shared_expressions_are_written_once() -> None:
    x: E.Expr = E.Var("x", I32)
    param = x
    for _ in range(60):
        x = x + x
    out = Buffer("o", Shape((1,)), I32)
    body = S.Store(buffer=out, indices=(E.const(0),), value=x)
    assert len(canonical_text(S.PrimFunc("f", (out, param), body))) < 10_000


def test_the_text_is_the_same_in_another_process() -> None:
    code = "import test_canonical as t; print(t.canonical_text(t.make()), end='')"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert found == {canonical_text(make())}


def test_layouts_count_by_their_map() -> None:
    from tilelang.layout import Layout

    def hashed(fn: Callable[..., Any]) -> str:
        return canonical_text(replace(make(), attrs=(("layout", Layout((4, 8), fn)),)))

    plain = hashed(lambda i, j: i * 8 + j)
    assert plain == hashed(lambda row, col: row * 8 + col)
    assert plain != hashed(lambda i, j: j * 4 + i)


def test_a_value_without_canonical_form_is_refused() -> None:
    func = replace(make(), attrs=(("hook", print),))
    assert refusal(InternalError, canonical_text, func) == (
        "a compile-time value has no canonical form\n"
        "  expected: numbers, text, dtypes, expressions, buffers, layouts, or tuples of them\n"
        "  got: builtin_function_or_method"
    )
