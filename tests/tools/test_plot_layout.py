"""Drawings of layouts: every element's thread, register, offset and bank, in text and files."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from refusals import refusal

import tilelang.language as T
from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError
from tilelang.layout import make_gemm_fragment_8x8, make_swizzled_layout
from tilelang.layout.register_layout import RegisterLayout
from tilelang.layout.svg import colour_of
from tilelang.tools import draw_layout, plot_layout


class Tile:
    shape = (8, 64)
    dtype = "float16"


def test_a_fragment_names_threads_and_registers() -> None:
    text = draw_layout(T.Fragment((2, 4), lambda i, j: (i * 2 + j // 2, j % 2))).text()
    assert text == (
        "fragment (2, 4): 4 threads x 2 registers, cells are thread:register\n"
        "      0-1     2-3\n"
        "0  T0:0-1  T1:0-1\n"
        "1  T2:0-1  T3:0-1"
    )


def test_replicas_are_named() -> None:
    text = draw_layout(T.Fragment((2,), lambda i, r: (i + r * 2, 0), replicate=2)).text()
    assert text == (
        "fragment (2,): 4 threads x 1 registers, each element in 2, cells are thread:register\n"
        "       0       1\n"
        "  T0,2:0  T1,3:0"
    )


def test_a_swizzle_shows_offsets_and_banks() -> None:
    lines = draw_layout(make_swizzled_layout(Tile())).text().splitlines()
    assert lines[0] == "layout (8, 64) float16: 512 positions, cells are offset and banks"
    assert lines[2].split() == (
        "0 0 b0-3 8 b4-7 16 b8-11 24 b12-15 32 b16-19 40 b20-23 48 b24-27 56 b28-31".split()
    )
    assert lines[3].split()[:5] == ["1", "72", "b4-7", "64", "b0-3"]
    # Eight rows of one chunk column are in eight different groups of banks.
    banks = {re.split(r"\s{2,}", line)[1].split()[1] for line in lines[2:]}
    assert len(banks) == 8


def test_banks_follow_the_dtype() -> None:
    layout = T.Layout((2, 32), lambda i, j: i * 32 + j)
    assert draw_layout(layout, "float32").rows[1][0].colour == 0
    assert draw_layout(layout, "float16").rows[1][0].colour == 16
    assert draw_layout(layout, "int8").rows[1][0].colour == 8


def test_broken_rows_are_drawn_element_by_element() -> None:
    drawing = draw_layout(T.Layout((2, 2), lambda i, j: j * 2 + i), "float32")
    assert [[cell.label for cell in row] for row in drawing.rows] == [
        ["0 b0", "2 b2"], ["1 b1", "3 b3"],
    ]  # fmt: skip


def test_leading_dimensions_are_rows() -> None:
    drawing = draw_layout(T.Layout((2, 2, 4), lambda s, i, j: s * 8 + i * 4 + j))
    assert drawing.row_names == ("0,0", "0,1", "1,0", "1,1") and drawing.column_names == ("0-3",)


def test_large_drawings_are_cut_in_text_only() -> None:
    drawing = draw_layout(T.Layout((100, 2), lambda i, j: j * 100 + i))
    lines = drawing.text(limit=3).splitlines()
    assert len(lines) == 1 + 1 + 3 + 1 and lines[-1].strip() == "..."
    assert drawing.text(limit=1).splitlines()[2].split() == ["0", "0", "b0", "..."]
    assert len(drawing.rows) == 100


def test_what_inference_chose_can_be_drawn() -> None:
    held = RegisterLayout.linear((4, 32), 32, vector=4)
    assert draw_layout(held).rows[0][1].label == "T1:0-3"


def test_svg_has_a_rectangle_and_a_label_per_cell() -> None:
    drawing = draw_layout(make_gemm_fragment_8x8())
    root = ElementTree.fromstring(drawing.svg())
    space = "{http://www.w3.org/2000/svg}"
    labels = [node.text for node in root.iter(f"{space}text")]
    assert len(list(root.iter(f"{space}rect"))) == 1 + 8 * 4
    assert labels[0] == drawing.title and "T31:0-1" in labels


@pytest.mark.parametrize("count", [4, 32, 128])
def test_colours_differ(count: int) -> None:
    assert len({colour_of(number, count) for number in range(count)}) == count


def test_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fragment = make_gemm_fragment_8x8()
    folder = tmp_path / "new" / "folder"
    paths = plot_layout(fragment, save_directory=folder, name="f", verbose=True, formats="svg,txt")
    assert paths == (folder / "f.svg", folder / "f.txt")
    assert paths[0].read_text() == draw_layout(fragment).svg()
    assert paths[1].read_text() == capsys.readouterr().out == f"{draw_layout(fragment)}\n"


def test_svg_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert plot_layout(make_gemm_fragment_8x8(), name="mine") == (Path("tmp/mine.svg"),)
    assert (tmp_path / "tmp" / "mine.svg").is_file()


def test_png_and_pdf_through_matplotlib(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="it draws PNG and PDF")
    png, pdf = plot_layout(
        make_gemm_fragment_8x8(), tmp_path, "f", colormap="RdPu", formats=["png", "pdf"]
    )
    assert png.read_bytes()[:4] == b"\x89PNG" and pdf.read_bytes()[:4] == b"%PDF"


def test_png_without_matplotlib_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(TileUnsupportedError) as caught:
        plot_layout(make_gemm_fragment_8x8(), tmp_path, formats="png")
    assert str(caught.value) == (
        "a drawing as png needs matplotlib\n"
        "  expected: an installed matplotlib\n"
        "  got: none\n"
        '  hint: pip install matplotlib, or use formats="svg"'
    )


def test_unknown_formats_and_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TileValueError) as caught:
        plot_layout(make_gemm_fragment_8x8(), tmp_path, formats="svg,bmp")
    assert str(caught.value) == (
        "plot_layout knows no such format\n"
        '  expected: txt, svg, png, pdf or "all"\n'
        "  got: 'svg,bmp'"
    )
    assert refusal(TileTypeError, plot_layout, "fragment", tmp_path) == (
        "this is not a layout\n  expected: a T.Layout or a T.Fragment\n  got: str"
    )
    assert not list(tmp_path.iterdir())
