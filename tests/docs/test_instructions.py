"""The page of instructions says what the compiler chooses now."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
WRITE = "python scripts/instruction_table.py writes it"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = ROOT / "scripts" / "instruction_table.py"
    spec = importlib.util.spec_from_file_location("instruction_table", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["instruction_table"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def shown(generator: ModuleType) -> dict[tuple[str, str], list[str]]:
    """Table and row of the page -> its cells, architecture by architecture."""
    found, table = {}, ""
    for line in generator.PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            table = line[3:]
        elif line.startswith("| ") and not line.startswith(("| dtypes", "| ---")):
            row, *cells = (part.strip() for part in line.strip("|").split("|"))
            found[table, row] = cells
    return found


def test_the_page_has_every_row(generator: ModuleType) -> None:
    rows = [(c.table, c.row) for c in generator.cases()]
    amd = [(f"{table}, AMD", row) for table, row in rows]
    assert list(shown(generator)) == [*rows, *amd], WRITE


def test_the_functions_of_single_instructions_are_those_of_the_rows(generator: ModuleType) -> None:
    found = generator.functions()
    assert generator.PAGE.read_text(encoding="utf-8").endswith(found), WRITE
    wait = (
        "* `T.mbarrier_try_wait(mbarrier, parity)`, sm_80: Whether the phase with that parity is "
    )
    assert wait + "complete; it may wait a little.\n" in found


# One row of each kind, on architectures that differ in it.
SAMPLE = [
    ("T.gemm", "float16 to float32", ("sm_80",)),
    ("T.gemm", "bfloat16 to float32", ("sm_75", "sm_90")),
    ("T.gemm, transpose_B=True", "float8_e4m3fn to float32", ("sm_86", "sm_89")),
    ("T.copy in T.Pipelined, global to shared", "float16", ("sm_75", "sm_120")),
    ("T.tma_copy, global to shared", "float16", ("sm_80",)),
    ("T.atomic_add of a fragment to global", "float16", ("sm_90",)),
]


@pytest.mark.parametrize(("table", "row", "archs"), SAMPLE)
def test_a_row_is_current(
    generator: ModuleType, table: str, row: str, archs: tuple[str, ...]
) -> None:
    (case,) = (c for c in generator.cases() if (c.table, c.row) == (table, row))
    cells = shown(generator)[table, row]
    tested = generator.known_tests()
    for arch in archs:
        (cell,) = generator.column(arch, [case.make()])
        assert cells[generator.ARCHS.index(arch)] == generator._shown(case, arch, cell, tested), (
            f"{arch}: {WRITE}"
        )


def test_what_was_tested_is_marked_until_it_changes(generator: ModuleType) -> None:
    case = generator.cases()[0]
    cell = generator.Cell("mma.x")
    key = generator.key_of(case, "sm_90")
    assert generator._shown(case, "sm_90", cell, {key: "mma.x"}) == "mma.x; **tested**"
    assert generator._shown(case, "sm_90", cell, {key: "mma.y"}) == "mma.x; compiled"
    refused = generator.Cell("T.x is not supported", refused=True)
    assert generator._shown(case, "sm_80", refused, {}) == "error: T.x is not supported"


def test_only_known_cells_are_called_tested(generator: ModuleType) -> None:
    known = {generator.key_of(c, arch) for c in generator.cases() for arch in generator.ARCHS}
    cells: dict[str, Any] = json.loads(generator.TESTED.read_text(encoding="utf-8"))["cells"]
    assert set(cells) <= known


def test_sources_of_one_architecture_are_compiled_together(
    generator: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []
    monkeypatch.setattr(
        generator, "compile_cubin", lambda source, arch, name: given.append((source, arch, name))
    )
    cases = [c for c in generator.cases() if c.row == "float16"][:2]
    generator.compile_all("sm_80", generator.column("sm_80", [c.make() for c in cases]))
    ((source, arch, name),) = given
    assert (arch, name) == ("sm_80", "table_sm_80")
    kernels = re.findall(r"(\w+)\(", " ".join(re.findall(r"__global__ void [^{]*", source)))
    assert len({k for k in kernels if k.endswith(("_0", "_1"))}) == 2
    assert source.index("#include") < source.index("namespace row0 {")
