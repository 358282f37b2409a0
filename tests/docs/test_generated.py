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


def test_the_pages_of_names_are_current() -> None:
    for path, text in script("api_pages").pages().items():
        assert path.read_text(encoding="utf-8") == text, "python scripts/api_pages.py writes it"


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
    pages = script("api_pages").pages()
    everything = "\n".join(pages.values())
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
    assert shown == {path.name for path in pictures.FOLDER.iterdir()}


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
