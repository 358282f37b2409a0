"""The page of instructions says what the compiler chooses now."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tilelang.emulator.compilers import find_cxx

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
    others = [(f"{table}, AMD and Metal", row) for table, row in rows]
    assert list(shown(generator)) == [*rows, *others], WRITE


def test_the_functions_of_single_instructions_are_those_of_the_rows(generator: ModuleType) -> None:
    found = generator.functions()
    assert generator.PAGE.read_text(encoding="utf-8").endswith(found), WRITE
    wait = "* `T.mbarrier_try_wait(mbarrier, parity)`, sm_80: Return whether the phase with that parity is "
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
    cells, known = shown(generator)[table, row], generator.Known.read()
    for arch in archs:
        (cell,) = generator.column(arch, [case.make()])
        assert cells[generator.ARCHS.index(arch)] == generator._shown(case, arch, cell, known), (
            f"{arch}: {WRITE}"
        )


OTHERS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201", "metal")
ROWS = range(87)  # 609 cells with `--whole`, one in 24 of them without


@pytest.mark.share(24)
@pytest.mark.parametrize("arch", OTHERS)
@pytest.mark.parametrize("number", ROWS)
def test_a_cell_of_another_vendor_is_current_and_runs_as_it_says(
    generator: ModuleType, number: int, arch: str
) -> None:
    case = generator.cases(arch)[number]
    (cell,) = generator.column(arch, [case.make()])
    found = generator._shown(case, arch, cell, generator.Known.read())
    place = (*generator.CHIPS, generator.METAL).index(arch)
    assert shown(generator)[f"{case.table}, AMD and Metal", case.row][place] == found, WRITE
    if cell.refused:
        assert not cell.text.startswith("internal error")
    elif find_cxx() is not None:
        assert generator.emulated(case, arch) == ""
        assert found.endswith("**emulated**")


def test_no_row_is_left_out(generator: ModuleType) -> None:
    assert len(generator.cases()) == len(ROWS)
    assert (*generator.CHIPS, generator.METAL) == OTHERS


@pytest.mark.share(7)
@pytest.mark.parametrize("arch", OTHERS)
def test_clang_takes_all_texts_of_a_column(generator: ModuleType, arch: str) -> None:
    from metal_clang import clang

    from tilelang.hip.toolchain import tools

    if not (clang() if arch == generator.METAL else list(tools())):
        pytest.skip("needs a clang")
    generator.compile_all(
        arch, generator.column(arch, [case.make() for case in generator.cases(arch)])
    )


def test_what_was_run_is_marked_until_it_changes(generator: ModuleType) -> None:
    case = generator.cases()[0]
    key = "T.gemm: float16 to float32: sm_90"
    known = generator.Known({key: "mma.x"}, {key.replace("sm_90", "metal"): "multiply"})
    shown = generator._shown
    assert shown(case, "sm_90", generator.Cell("mma.x"), known) == "mma.x; **tested**"
    assert shown(case, "sm_90", generator.Cell("mma.y"), known) == "mma.y; compiled"
    assert shown(case, "metal", generator.Cell("multiply"), known) == "multiply; **emulated**"
    refused = generator.Cell("T.x is not supported", refused=True)
    assert shown(case, "sm_80", refused, known) == "error: T.x is not supported"


def test_only_known_cells_are_called_tested(generator: ModuleType) -> None:
    from instruction_runs import key_of

    known = generator.Known.read()
    cases = generator.cases()
    assert set(known.tested) <= {key_of(c, arch) for c in cases for arch in generator.ARCHS}
    assert set(known.emulated) <= {key_of(c, arch) for c in cases for arch in OTHERS}


def test_a_cell_that_differs_is_not_called_emulated(
    generator: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    from instruction_runs import run_all

    cells = [generator.Cell("x"), generator.Cell("y"), generator.Cell("no", refused=True)]
    answers = iter(("differs", ""))
    passed = run_all(generator.cases()[:3], "metal", cells, lambda case, arch: next(answers))
    assert passed == {"T.gemm: float16 to float16: metal": "y"}
    assert capsys.readouterr().out == (
        "T.gemm: float16 to float32: metal: differs\nmetal: 1 cells agree with the interpreter\n"
    )
