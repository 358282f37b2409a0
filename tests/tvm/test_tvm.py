"""``tilelang.tvm``: names over this package's own objects."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tilelang
import tilelang.language as T
from tilelang import tvm
from tilelang.errors import TileError, TileNameError, TileTypeError, TileUnsupportedError
from tilelang.target import Target
from tilelang.tvm import tir, tirx


def program(factor: int = 2) -> Any:
    @T.prim_func
    def scale(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=8):
            for i in T.Parallel(8):
                A[i] = A[i] * factor

    return scale


def test_targets_are_those_of_the_package() -> None:
    made = tvm.target.Target("cuda -arch=sm_90a")
    assert made == Target("cuda", "sm_90a")
    assert isinstance(made, tvm.target.Target)
    assert not isinstance("cuda", tvm.target.Target)
    assert tvm.target.Target({"kind": "cuda", "arch": "sm_80"}, host="c").arch == "sm_80"
    with pytest.raises(tvm.TVMError):
        tvm.target.Target("no such machine")


def test_modules_are_lowered() -> None:
    module = tvm.IRModule.from_expr(program())
    assert module["scale"].name == "scale"
    assert tilelang.lower(module, target="cpu").kernel_source == (
        tilelang.lower(program(), target="cpu").kernel_source
    )
    with pytest.raises(TileTypeError, match="a module holds traced functions"):
        tvm.IRModule.from_expr(3)


def test_structural_equality_is_about_meaning_and_not_identity() -> None:
    first, same, other = program(), program(), program(3)
    assert tvm.ir.structural_equal(first, same)
    assert not tvm.ir.structural_equal(first, other)
    tvm.ir.assert_structural_equal(tvm.IRModule.from_expr(first), tvm.IRModule.from_expr(same))
    with pytest.raises(AssertionError, match="the two differ"):
        tvm.ir.assert_structural_equal(first, other)
    with pytest.raises(TileTypeError, match="cannot be compared"):
        tvm.ir.structural_equal(first, "text")


def test_classes_of_the_ir() -> None:
    n = tvm.te.var("n")
    total = tir.Add(n, 1)
    assert isinstance(total, tir.Add)
    assert not isinstance(total, tir.Mul)
    assert isinstance(total, tir.PrimExpr)
    assert isinstance(tir.IntImm("int32", 3), tir.IntImm)
    assert not isinstance(tir.FloatImm("float32", 3), tir.IntImm)
    assert isinstance(n, tvm.tirx.Var)
    assert isinstance(program(), tir.PrimFunc)
    assert tir.floordiv(n, 4).dtype == "int32"
    assert repr(tir.all(n > 0, n < 4, n != 2)) == repr(
        tir.And(tir.And(tir.GT(n, 0), tir.LT(n, 4)), tir.NE(n, 2))
    )


def test_visits_reach_everything_parts_first() -> None:
    seen: list[Any] = []
    tir.stmt_functor.post_order_visit(program(), seen.append)
    kinds = [type(node).__name__ for node in seen]
    assert {"Store", "Load", "Parallel", "Launch", "Var"} <= set(kinds)
    assert kinds.index("Load") < kinds.index("Store") < kinds.index("Launch")


def test_analyzers_simplify_and_prove() -> None:
    analyzer, n = tvm.arith.Analyzer(), tvm.te.var("n")
    assert repr(analyzer.simplify(n + 1 - n)) == "1"
    assert not analyzer.can_prove(n < 8)
    analyzer.bind(n, tvm.ir.Range(0, 8))
    assert analyzer.can_prove(n < 8)
    assert analyzer.can_prove_equal(n * 2, n + n)
    assert not analyzer.can_prove_equal(n, 2)


def test_what_is_no_part_of_this_package_says_so() -> None:
    with pytest.raises(TileUnsupportedError) as caught:
        tvm.transform.Sequential([])
    assert str(caught.value).startswith(
        "tilelang.tvm.transform.Sequential does not exist in this implementation\n"
        "  hint: the passes of this compiler are functions PrimFunc -> PrimFunc"
    )
    with pytest.raises(TileUnsupportedError, match="get_global_func does not exist"):
        tvm.ffi.get_global_func("x")
    assert tvm.error.InternalError is TileError
    assert tvm.runtime.enabled("cpu")


def in_process(program: str, *path: Path) -> str:
    """What a program prints in a process of its own, with folders in front of its path."""
    code = f"import sys; sys.path[:0] = {[str(folder) for folder in path]!r}\n{program}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_import_tvm_finds_the_same_modules() -> None:
    made = in_process(
        "import tilelang, tvm, tvm.tir; from tvm import DataType; from tvm.target import Target\n"
        "print(tvm is tilelang.tvm, tvm.tir is tilelang.tvm.tir, tvm.__spec__.name,"
        " DataType('float16').bits)"
    )
    assert made == "True True tilelang.compat.tvm 16"


def test_an_installed_tvm_comes_first(tmp_path: Path) -> None:
    (tmp_path / "tvm.py").write_text("name = 'another'\n")
    assert in_process("import tilelang, tvm; print(tvm.name)", tmp_path) == "another"


def test_modules_that_are_not_here_are_not_found() -> None:
    made = in_process("import tilelang, tvm.relay")
    assert made == "ModuleNotFoundError: No module named 'tvm.relay'"


def test_a_variable_takes_the_name_of_its_dtype() -> None:
    var = tvm.tir.Var("x", "float16x2")
    assert var.dtype == "float16x2" and isinstance(var, tvm.tir.Var)


def test_a_missing_name_in_a_kernel_is_named() -> None:
    def program(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            A[0] = tirx.op.Op.get("tl.max_nan")

    assert tirx is tir
    with pytest.raises(TileNameError, match=r"^tilelang\.tvm\.tir has no `op`\n"):
        T.prim_func(program)


def test_an_index_map_gives_where_indices_go() -> None:
    from tilelang.tvm.tirx import IndexMap

    by_rows = IndexMap.from_func(lambda i, j: (i * 4 + j // 2, j % 2), index_dtype="int32")
    assert [int(index) for index in by_rows.map_indices([3, 5])] == [14, 1]
    assert [int(index) for index in IndexMap.from_func(lambda i: i + 1).map_indices([3])] == [4]
    fragment = tilelang.language.Fragment(
        (8, 8),
        forward_thread_fn=lambda i, j: by_rows.map_indices([i, j])[0],
        forward_index_fn=lambda i, j: by_rows.map_indices([i, j])[1],
    )
    assert "thread i0 * 4 + i1 // 2" in repr(fragment) or "thread 4 * i0 + i1 // 2" in repr(
        fragment
    )
