"""Reports and drawings of every example: nothing that a program can contain stops them."""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod
from typing import Any

import pytest
from example_modules import FOLDER, NAMES, load

from tilelang.explain.report import explain
from tilelang.explain.snapshots import allocated, snapshots
from tilelang.ir import stmt as S
from tilelang.ir.stmt import PrimFunc
from tilelang.jit import kernel as jit_kernel
from tilelang.options import Options
from tilelang.target.parse import parse_target
from tilelang.tools import draw_layout

TARGET = parse_target("cuda -arch=sm_80")


class Stop(Exception):
    """The first kernel of an example is known."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func


@lru_cache
def program_of(name: str) -> PrimFunc:
    """The first program that an example compiles."""

    def build(func: PrimFunc, *rest: Any) -> Any:
        raise Stop(func)

    module = load(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit_kernel, "build", build)
        with pytest.raises(Stop) as found:
            module.main("interpret")
    return found.value.func


@pytest.mark.parametrize("name", NAMES)
def test_the_example_is_explained(name: str) -> None:
    func = program_of(name)
    text = explain(func, TARGET, Options())
    assert text.startswith(f"`{func.name}` for cuda -arch=sm_80\n\nkernel 1: ")
    headings = re.findall(rf"^{name}\.py:(\d+)  (.*)$", text, re.MULTILINE)
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()
    assert headings
    for number, shown in headings:
        assert source[int(number) - 1].strip() == shown
    for line in re.findall(r"^  (?:loads|stores|updates) .*", text, re.MULTILINE):
        assert re.fullmatch(
            r"  \w+ \w* ?\((global|shared)\): \d+ bytes? per thread( by [\w.]+)?"
            r"(, no bank conflicts|, bank conflicts: \d+ passes instead of \d+"
            r"|, bank conflicts depend on data)?",
            line,
        ), line


@pytest.mark.parametrize("name", NAMES)
def test_the_layouts_of_the_example_are_drawn(name: str) -> None:
    (laid, *_) = S.find(snapshots(program_of(name), TARGET, Options())[1].body, S.Launch)
    for buffer in allocated(laid).values():
        for layout in (buffer.attrs.register_layout, buffer.attrs.layout):
            if layout is not None:
                drawing = draw_layout(layout, buffer.dtype)
                assert drawing.title.split(" ")[0] in ("fragment", "layout")
                assert len(drawing.rows) == prod(layout.shape[:-1])
                assert drawing.text(limit=2).startswith(drawing.title)
