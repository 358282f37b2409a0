"""What an instruction, a target or an effect is, is said in one place: ``scripts/counts.py``."""

from __future__ import annotations

import ast
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer

sys.path.append(str(Path(__file__).resolve().parents[1] / "scripts"))
import counts

# Its row, the device headers, and one more: the function that programs call, or its lowering.
MOST_FILES = 3
MOST_KEYS = 15
# Passes may only become fewer: lower these numbers, never raise them. A rewrite of single nodes is a
# row of a table.
MOST_PASSES = {"distinct": 39, "sm_90a": 25, "cpu": 21}


@pytest.fixture(scope="module")
def modules() -> dict[Path, ast.Module]:
    return counts.parsed()


def test_an_instruction_is_named_in_few_files(modules: dict[Path, ast.Module]) -> None:
    files = counts.files_of_instructions(modules)
    assert len(files) > 80
    assert {name: found for name, found in files.items() if len(found) > MOST_FILES} == {}


def test_no_part_knows_instructions_by_name(modules: dict[Path, ast.Module]) -> None:
    assert counts.name_sets(modules) == []


def test_only_targets_and_back_ends_ask_for_a_kind(modules: dict[Path, ast.Module]) -> None:
    assert counts.kinds(modules) == []


def test_the_width_of_a_warp_is_defined_once(modules: dict[Path, ast.Module]) -> None:
    assert len(counts.warps(modules)) == 1


def test_only_effects_finds_out_what_is_read_and_written(modules: dict[Path, ast.Module]) -> None:
    assert counts.effects(modules) == []


def test_statements_and_buffers_carry_fields_and_functions_few_keys(
    modules: dict[Path, ast.Module],
) -> None:
    assert len(counts.keys(modules)) <= MOST_KEYS
    holders = [Buffer, *_classes(S.Stmt)]
    pairs = {
        f"{cls.__name__}.{f.name}" for cls in holders for f in fields(cls) if f.type == "Pairs"
    }
    assert pairs == {"HardwareOp.options"}, "a field for each, in tilelang/ir/hints.py"


def _classes(base: type) -> list[type]:
    return [base, *(cls for derived in base.__subclasses__() for cls in _classes(derived))]


def test_no_transform_imports_rows_of_a_vendor(modules: dict[Path, ast.Module]) -> None:
    assert counts.vendors(modules) == []


def test_there_are_not_more_passes() -> None:
    found = counts.passes()
    assert {name: found[name] for name in MOST_PASSES if found[name] > MOST_PASSES[name]} == {}


def test_the_counts_can_fail() -> None:
    text = (
        "WARP = 32\n"
        "from tilelang.target import Context, nvidia\n"
        "OLD = func.attr('old'), dict(stmt.annotations).get('older')\n"
        "def asks(target, name):\n"
        "    return target.kind == 'cuda' or name in ('shfl_sync', 'sync_threads')\n"
        "def reads(expr):\n"
        "    return {n.buffer.data.add(n) for n in walk(expr) if isinstance(n, E.Load)}\n"
    )
    wrong = {Path("transforms/wrong.py"): ast.parse(text)}
    assert counts.keys(wrong) == ["old", "older"]
    for find in (counts.vendors, counts.name_sets, counts.kinds, counts.warps, counts.effects):
        assert len(find(wrong)) == 1, find.__name__
