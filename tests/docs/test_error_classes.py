"""The page of errors has a section for each class, with the bases of Python that it says."""

from __future__ import annotations

import re
from pathlib import Path

from tilelang import errors

PAGE = Path(__file__).resolve().parents[2] / "docs" / "error_classes.md"
HEADINGS = re.findall(r"^### ([\w, ]+?)(?: \((.+)\))?$", PAGE.read_text("utf-8"), re.M)
CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.TileError) and name[0] != "_"
}


def test_every_class_has_a_section() -> None:
    told = [name for names, _ in HEADINGS for name in names.split(", ")]
    assert sorted(told) == sorted(set(CLASSES) - {"TileError"})


def test_the_bases_of_a_section_are_those_of_its_classes() -> None:
    for names, bases in HEADINGS:
        for name in names.split(", "):
            for base in re.findall(r"\w+(?:Error|Exception)", bases):
                assert base in {kind.__name__ for kind in CLASSES[name].__mro__}, (name, base)
