"""The pass list runs in order, is dumped and checked, and gives the same text every time."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

import tilelang.language as T
from tilelang.compiler import compile, lower, pass_list
from tilelang.errors import InternalError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.legal import check
from tilelang.ir.levels import LEVELS
from tilelang.options import Options
from tilelang.target import Context, parse_target

CPU = parse_target("cpu")
NAMES = [
    "legalize", "simplify", "check_program", "normalize_operations",
    "forward_gemm_copies", "choose_operands",
    "serialize_threads",
    "lower_tiles", "lower_fragments_to_arrays", "fuse_loops", "contract_arrays", "interchange_loops", "forward_copies", "coarsen_blocks", "tile_registers", "pad_rows",
    "verify_views", "split_loops", "insert_guards", "simplify_again",
    "mark_vector_loops",
]  # fmt: skip


def program() -> S.PrimFunc:
    @T.prim_func
    def scale(A: T.Tensor((40, 16), "float16"), B: T.Tensor((40, 16), "float16")):
        with T.Kernel(2, threads=32) as bx:
            a = T.alloc_shared((32, 16), "float16")
            b = T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((32, 16), "float32")
            T.copy(A[bx * 32, 0], a)
            T.copy(A[0, 0], b)
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.gemm(a, b, c)
            T.copy(c, B[bx * 32, 0])

    return scale


def test_every_pass_has_a_unique_name_and_a_reason() -> None:
    steps = pass_list(CPU)
    assert [step.name for step in steps if step.applies(Context(CPU))] == NAMES
    assert len({step.name for step in steps}) == len(steps)
    assert all(step.does and step.after for step in steps)


def test_without_memory_checks_no_guards_are_inserted() -> None:
    options = Options(unsafe_memory=True)
    left_out = {
        step.name
        for step in pass_list(CPU)
        if step.applies(Context(CPU)) and not step.applies(Context(CPU, options))
    }
    assert left_out == {"insert_guards"}
    guard = "i < 8 ?"  # of the second block, 32 and 8 of 40
    assert guard in compile(program(), CPU).source
    assert guard not in compile(program(), CPU, options).source


def test_lowering_gives_thread_ir() -> None:
    func = lower(program(), CPU, Options())
    check(func, "thread")
    left = {type(node) for node in S.walk(func.body) if isinstance(node, S.TileOp)}
    assert left == {S.Gemm}  # the back end has a kernel for it


def test_an_illegal_program_is_found_before_the_first_pass() -> None:
    shape = Shape((8,))
    A = Buffer("A", shape, DType("float32"), "global")
    unbound = S.Assert(cond=E.Var("stray", DType("bool")), message="")
    with pytest.raises(InternalError) as caught:
        lower(S.PrimFunc("wrong", (A,), unbound), CPU, Options())
    assert str(caught.value).splitlines()[0] == (
        "`wrong` is not legal Tile IR: `stray` is used where it is not bound"
    )


def test_a_pass_that_breaks_the_program_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = tuple(step for step in pass_list(CPU) if step.name != "lower_tiles")
    monkeypatch.setattr("tilelang.compiler.pass_list", lambda target: steps)
    for checked, where in (("0", ""), ("1", " after the pass lower_fragments_to_arrays")):
        monkeypatch.setenv("TILELANG_CHECK_PASSES", checked)
        with pytest.raises(InternalError) as caught:
            lower(program(), CPU, Options())
        text = f"`scale` is not legal Thread IR{where}: the statement Copy may not appear"
        assert str(caught.value).splitlines()[0] == text


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_the_levels_of_the_passes_go_down(target: str) -> None:
    context = Context(parse_target(target))
    found = [
        "tile",
        *(step.level for step in pass_list(context.target) if step.applies(context) and step.level),
    ]
    assert found == list(LEVELS)


def test_a_crash_in_a_pass_names_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(func: S.PrimFunc, context: Context) -> S.PrimFunc:
        raise KeyError("lost")

    steps = tuple(
        dataclasses.replace(step, run=crash) if step.name == "normalize_operations" else step
        for step in pass_list(CPU)
    )
    monkeypatch.setattr("tilelang.compiler.pass_list", lambda target: steps)
    with pytest.raises(InternalError) as caught:
        lower(program(), CPU, Options())
    assert "running the pass normalize_operations on `scale`" in str(caught.value)


# -- dumps ----------------------------------------------------------------------------------
def test_the_program_is_written_after_every_pass(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    func = program()
    lowered = lower(func, CPU, Options(dump=True, dump_dir=str(folder)))
    names = ["traced", *NAMES]
    files = sorted(path.name for path in folder.iterdir())
    assert files == [f"{number:02d}_scale_{name}.py" for number, name in enumerate(names)]
    assert (folder / files[0]).read_text(encoding="utf-8") == func.script() + "\n"
    assert (folder / files[-1]).read_text(encoding="utf-8") == lowered.script() + "\n"


def test_no_file_is_written_without_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lower(program(), CPU, Options())
    assert not list(tmp_path.iterdir())


# -- text -----------------------------------------------------------------------------------


def test_the_same_program_gives_the_same_text_in_every_process() -> None:
    """Whatever the hashes of strings and the addresses of objects are."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_compiler import CPU, compile, program\n"
        "junk = [object() for _ in range(int(sys.argv[1]))]\n"
        "print(compile(program(), CPU).source)"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code, seed],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "977")
    }  # fmt: skip
    assert len(texts) == 1
    assert "int32_t tl_call(const int64_t* slots)" in texts.pop()


def test_the_artifact_says_how_to_call_its_text() -> None:
    m = T.dynamic("m")

    @T.prim_func
    def kernel(A: T.Tensor((m,), "float32")):
        with T.Kernel(1, threads=32):
            T.device_assert(A[0] > 0, "not positive")

    artifact = compile(kernel, CPU, Options(compile_flags=("-DX=1", "-O3", "--use_fast_math")))
    assert (artifact.language, artifact.entry) == ("c", "tl_call")
    assert artifact.symbols == ("m",)
    assert artifact.messages == ("Device assert failed: not positive",)
    assert artifact.flags == ("-DX=1",)  # device-only flags are left out
