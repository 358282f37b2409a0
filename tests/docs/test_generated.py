"""Pages that scripts write are what the scripts write today, and leave nothing out."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tilelang.language as T
from tilelang.target.limits import limits_of

ROOT = Path(__file__).resolve().parents[2]


@cache
def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(sys.version_info < (3, 11), reason="signatures of contexts have other names")
def test_the_pages_of_names_are_current() -> None:
    for path, text in script("api_pages").pages().items():
        assert path.read_text(encoding="utf-8") == text, "python scripts/api_pages.py writes it"


def test_the_page_of_benchmarks_is_current() -> None:
    benchmarks = script("benchmarks_page")
    assert benchmarks.PAGE.read_text(encoding="utf-8") == benchmarks.page(), (
        "python scripts/benchmarks_page.py writes it"
    )
    files = {path.stem for path in benchmarks.FOLDER.iterdir()}
    assert files == set(benchmarks.TABLES)


def test_figures_say_what_measured_them_where_and_when() -> None:
    benchmarks = script("benchmarks_page")
    for name in benchmarks.TABLES:
        found = benchmarks.table(name)
        commands = found["commands"] or [row["command"].strip("`") for row in found["rows"]]
        for command in commands:
            assert (ROOT / command.split()[1]).exists(), command
        assert found["machine"] and re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"])
        assert re.fullmatch(r"[0-9a-f]{7,}", found["commit"])
        keys = [column["key"] for column in found["columns"]]
        assert all(set(row) == set(keys) for row in found["rows"]), name


def test_a_ratio_is_that_of_its_row() -> None:
    for name, ours, theirs, more in (
        ("cpu_programs", "library", "tilelang", 0.03),
        ("gpu_intrinsics", "value", "torch", 0.01),
    ):
        for row in script("benchmarks_page").table(name)["rows"]:
            assert row["ratio"] == pytest.approx(row[ours] / row[theirs], rel=more), row
    for row in script("benchmarks_page").table("cpu_gemm")["rows"]:
        best = max(row["numpy"] or 0, row["torch"])
        assert row["ratio"] == pytest.approx(row["tilelang"] / best, rel=0.01), row


def test_benchmarks_write_the_same_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("record", ROOT / "bench" / "record.py")
    assert spec is not None and spec.loader is not None
    record = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(record)
    monkeypatch.setattr(sys, "argv", [str(ROOT / "bench" / "a.py"), "--json", "f", "--runs", "2"])
    record.write(tmp_path / "f", {"x": 1})
    found = json.loads((tmp_path / "f").read_text(encoding="utf-8"))
    assert record.read(tmp_path / "f") == {"x": 1}
    assert found["commands"] == ["python bench/a.py --runs 2"]
    head = set(script("benchmarks_page").table("cpu_gemm")) - {"title", "notes", "columns", "rows"}
    assert head == set(found) - {"results"}


def test_the_tables_of_passes_are_current() -> None:
    table = script("pass_table")
    assert table.PAGE.read_text(encoding="utf-8") == table.page(), (
        "python scripts/pass_table.py writes it"
    )


def test_files_that_the_page_of_the_architecture_names_exist() -> None:
    page = script("pass_table").PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:tilelang/)?[\w/]+/\w+\.(?:py|h))`", page))
    places = (ROOT, ROOT / "tilelang")
    assert len(named) > 65
    assert not [name for name in named if not any((place / name).exists() for place in places)]


def test_the_gallery_is_current() -> None:
    assert script("gallery").PAGE.read_text(encoding="utf-8") == script("gallery").page(), (
        "python scripts/gallery.py writes it"
    )


def test_the_page_of_memory_has_the_limits_of_the_targets() -> None:
    text = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w, ]+) \| (\d+) KiB \| (\d+) KiB \|$", text, re.M)
    assert len(rows) == 7
    for archs, block, processor in rows:
        for arch in archs.split(", "):
            kind = {"s": "cuda", "g": "hip", "M": "metal"}[arch[0]]
            limits = limits_of(kind, arch)
            expected = (int(block) * 1024, int(processor) * 1024)
            assert (limits.shared_block, limits.shared_processor) == expected, arch


def test_every_function_of_the_language_has_an_entry() -> None:
    everything = "\n".join(script("api_pages").pages().values())
    for name in script("api_pages").names():
        assert f"`T.{name}`" in everything or name in script("api_pages").CONSTANTS, name


def test_a_module_without_a_page_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    api = script("api_pages")
    monkeypatch.setattr(api, "PAGES", api.PAGES[1:])
    with pytest.raises(SystemExit, match="no page for .*'Kernel'"):
        dict(api.language_pages())


def test_the_pictures_are_current() -> None:
    pictures = script("pictures")
    for name, text in pictures.pictures(whole=False).items():
        assert (pictures.FOLDER / name).read_text(encoding="utf-8") == text, (
            "python scripts/pictures.py writes it"
        )
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    shown = {name for text in texts for name in re.findall(r"pictures/(\w+\.svg)", text)}
    assert shown == {path.name for path in pictures.FOLDER.glob("*.svg")}


def test_the_gallery_has_the_output_of_each_example() -> None:
    outputs = json.loads(script("gallery").OUTPUTS.read_text(encoding="utf-8"))
    assert sorted(outputs) == sorted(path.name for path in (ROOT / "examples").glob("*.py"))
    assert script("gallery").output(ROOT / "examples" / "softmax.py") == outputs["softmax.py"]


def test_the_gallery_names_the_functions_of_an_example() -> None:
    import ast

    tree = ast.parse("with T.Kernel(1):\n    T.clear(T.alloc_shared((1,), 'int8'))\n    U.sum(x)\n")
    assert script("gallery").functions(tree) == ["clear", "alloc_shared"]


def test_signatures_leave_types_out_and_keep_defaults() -> None:
    assert script("api_pages").signature("T.view", T.view).startswith("T.view(")
    assert ": '" not in script("api_pages").signature("T.copy", T.copy)
    assert "disable_tma=False" in script("api_pages").signature("T.copy", T.copy)
