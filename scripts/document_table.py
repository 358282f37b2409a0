"""Write ``docs/dev/documents.md``: which test holds each item of the documents of the language.

    python scripts/document_table.py           write the page
    python scripts/document_table.py --check   say whether the page is current (status 1 if not)

The items are those of five public documents of the language: annotations, host wrappers, the
notebook of eager kernels, builtins, the emitter of warpgroup products. Items and tests come from
``docs/data/documents.tsv``.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "docs" / "data" / "documents.tsv"
FAULTS = ROOT / "docs" / "data" / "planted_faults.tsv"
PAGE = ROOT / "docs" / "dev" / "documents.md"

# Document -> what it describes, in the order of the page.
DOCUMENTS = {
    "annotations": "`tilelang.language.v2.annot`: annotations of parameters",
    "host wrappers": "`tilelang.jit.adapter.wrapper`: host source around kernels",
    "notebook": "the notebook of eager kernels: cells, what they show, what is said of them",
    "builtins": "`tilelang.language.builtin`: intrinsics of single instructions",
    "warpgroup products": ("`tilelang.cuda.intrinsics.macro.wgmma_macro_generator`: their emitter"),
}
# Items of which a part is not there, with what is missing.
LIMITS = {
    "BufferAnnot.__call__ buffer_type=": "'' and 'default'; strides of 0 repeat elements",
    "DTypeAnnot doctest: torch.float32, T.float32, 'float32' -> dtype('float32')": (
        "`print` shows `float32`, `repr` as documented; a cached kernel is not traced again"
    ),
    "get_lane_idx": "32 lanes on every target, as `T.shfl_*` have; `warp_size=64` says else",
    "class TensorCoreIntrinEmitter": (
        "the default tile of a warp, 8 x 8, is less than an instruction, and refused"
    ),
    "ldg*/stg*: explicit PTX, tl::ldgN(ptr) in the text": "the text is `tl_ldgN(ptr)`",
    "output: TIR of foo with sincos": "functions of integers give float32, not int32",
}


@dataclass(frozen=True)
class Row:
    """One item of a document with the tests that hold it, as ``file::function``."""

    document: str
    item: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Fault:
    """A text of a file that is replaced; ``inside`` is a text before it, from where to look.

    The tests of each of ``items`` have to fail with it.
    """

    items: tuple[str, ...]
    file: str
    inside: str
    old: str
    new: str

    def planted(self, text: str) -> str:
        """``text`` with the fault."""
        start = text.index(self.inside)
        at = text.index(self.old, start)
        return text[:at] + self.new + text[at + len(self.old) :]


def faults() -> list[Fault]:
    """All faults: items with `` | `` between them, then texts with line breaks as in Python."""
    planted = []
    for line in FAULTS.read_text(encoding="utf-8").splitlines()[1:]:
        items, *texts = (cell.replace("\\n", "\n") for cell in line.split("\t"))
        planted.append(Fault(tuple(items.split(" | ")), *texts))
    return planted


def rows() -> list[Row]:
    """All rows in the order of the documents."""
    lines = DATA.read_text(encoding="utf-8").splitlines()[1:]
    return [Row(a, b, tuple(c.split())) for a, b, c in (line.split("\t") for line in lines)]


def page() -> str:
    """The text of the page."""
    table = rows()
    planted: dict[str, list[str]] = {}
    for number, fault in enumerate(faults(), 1):
        for entry in fault.items:
            planted.setdefault(entry, []).append(f"{number} `{Path(fault.file).name}`")
    text = ["# Tests of the documented API", ""]
    text += ["<!-- written by scripts/document_table.py; a test compares -->", ""]
    text += [
        "The tables list each item of the public documents of the language, its tests, and the "
        "planted faults that these tests find. `python scripts/planted_faults.py` plants the "
        "faults of `docs/data/planted_faults.tsv` one by one and runs the tests of their items. "
        "A fault has its number and the file that it breaks. Items with the same code share a "
        "fault.",
        "",
    ]
    text += ["| document | items |", "| --- | ---: |"]
    for name, what in DOCUMENTS.items():
        count = sum(row.document == name for row in table)
        text.append(f"| {what} | {count} |")
    for name, what in DOCUMENTS.items():
        text += ["", f"## {name.capitalize()}", "", f"{what[0].upper()}{what[1:]}.", ""]
        text += ["| item | tests | faults |", "| --- | --- | --- |"]
        for row in table:
            if row.document == name:
                cells = ("<br>".join(map(_shown, row.tests)), ", ".join(planted.get(row.item, ())))
                text.append(f"| {_item(row)} | {' | '.join(cells)} |")
    return "\n".join(text) + "\n"


def _item(row: Row) -> str:
    limit = LIMITS.get(row.item)
    entry = row.item.replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")
    return entry if limit is None else f"{entry} ({limit})"


def _shown(test: str) -> str:
    file, _, name = test.partition("::")
    return f"`{file.removeprefix('tests/')}`: {name.removeprefix('test_').replace('_', ' ')}"


def main() -> int:
    """Write or check the page; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    text = page()
    if parser.parse_args().check:
        return int(PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
