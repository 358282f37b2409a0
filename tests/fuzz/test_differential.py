"""Interpreter and CPU back end agree on random whole programs."""

from __future__ import annotations

import ast
import os
import signal
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, Verbosity, given, settings

from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import TileError

from .draws import SeededDraw
from .model import Disagreement, Program, numbered
from .programs import make_program, programs
from .running import check, check_meaning, difference, execute, execute_shadow, load
from .shadow import NotShadowed
from .shadow.values import rounded
from .shrinking import shrink

pytestmark = pytest.mark.skipif(
    find_compiler() is None, reason="needs a C compiler to have something to compare with"
)

# Every program has one to three kernels. Half of them run, the others on the next day
# (`--share`); `bench/fuzz_long.py` runs many more.
SEEDED = int(os.environ.get("TILELANG_FUZZ_PROGRAMS", "300"))  # all different
BATCH = 10  # programs in a test
EXPLORED = SEEDED // 10  # chosen and shrunk by hypothesis

settings.register_profile(
    "differential",
    max_examples=max(EXPLORED, 1),
    derandomize=True,  # the same programs in every run: a red run can be repeated
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
    verbosity=Verbosity.normal,
    print_blob=True,
)


def _too_long(*_: object) -> NoReturn:
    raise TimeoutError


def disagrees(program: Program) -> bool:
    """Whether executors differ; not where a loop that lost its counter does not end."""
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(20)
    try:
        check(program)
    except Disagreement:
        return True
    except (TileError, TimeoutError):
        return False
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return False


@pytest.mark.share(4)
@pytest.mark.parametrize("first", range(0, SEEDED, BATCH))
def test_seeded_programs_agree(first: int) -> None:
    """A failure names the seed: ``python bench/fuzz_long.py --only SEED`` repeats it."""
    for seed in range(first, first + BATCH):
        program = make_program(SeededDraw(seed))
        try:
            check(program)
        except Disagreement as wrong:
            small = shrink(program, disagrees, attempts=60)
            detail = f"seed {seed}: {wrong.tensor} differs: {wrong.detail}"
            pytest.fail(f"{detail}\n{numbered(small.source)}")


def test_seeded_programs_are_all_different() -> None:
    sources = {make_program(SeededDraw(seed)).source for seed in range(SEEDED)}
    assert len(sources) == SEEDED


@given(program=programs())
@settings(settings.get_profile("differential"))
def test_interpreter_and_compiled_code_agree(program: Program) -> None:
    check(program)


def test_generated_programs_use_the_whole_language() -> None:
    sources = [make_program(SeededDraw(seed)) for seed in range(400)]
    features = set().union(*(program.features for program in sources))
    assert features >= {
        "annotated", "atomic", "dynamic", "gemm", "macro", "persistent", "rebinds", "reducer", "simt",
        "strided", "view", "warp",
    }  # fmt: skip
    text = "\n".join(program.source for program in sources)
    words = (
        "T.Parallel", "T.Pipelined", "T.Persistent", "T.serial", "T.unroll", "T.vectorized",
        "T.grid", "range(", "while ", "break", "continue", "elif ", "else:", "T.if_then_else",
        "T.alloc_shared", "T.alloc_fragment", "T.alloc_local", "T.alloc_var", "T.alloc_reducer",
        "T.copy", "T.fill", "T.clear", "T.gemm", "transpose_A", "transpose_B", "clear_accum",
        "T.reduce_sum", "T.reduce_max", "T.reduce_min", "T.reduce_absmax", "T.reduce_abssum",
        "T.reduce_bitand", "T.reduce_bitor", "T.reduce_bitxor", "clear=False", "T.cumsum",
        "T.cummax", "reverse=True", "T.atomic_add", "T.atomic_max", "T.atomic_min",
        "T.transpose", "T.StridedTensor", "T.cast", "T.exp", "T.sync_threads", "T.shfl_",
        "T.annotate_layout", "T.Fragment", "T.Layout", "T.reshape", "T.view", "T.macro", "T.call_extern",
        "T.shfl_sync", "False", "int64\")", "T.ceildiv", "float8_e4m3fn", "bfloat16", "int8", "uint32", "float64",
    )  # fmt: skip
    missing = [word for word in words if word not in text]
    assert not missing


def test_the_comparison_can_fail() -> None:
    program = make_program(SeededDraw(1), kernels=1)
    func = load(program.source)
    one = execute(program, func, "interpret", seed=0)
    other = execute(program, func, "interpret", seed=1)
    tensors = {tensor.name: tensor for tensor in program.tensors}
    found = [name for name in one if difference(tensors[name], one[name], other[name])]
    assert found
    shown = str(Disagreement(program.source, found[0], "3 of 4 elements"))
    assert shown.startswith(f"{found[0]} differs: 3 of 4 elements\n  1 import tilelang")


def test_the_shadow_imports_nothing_of_what_it_checks() -> None:
    for path in Path(__file__).with_name("shadow").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in getattr(node, "names", []) if hasattr(alias, "name")]
            names.append(getattr(node, "module", None) or "")
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                assert not any(name.startswith("tilelang") for name in names), path


def test_most_programs_have_a_shadow() -> None:
    missing = 0
    for seed in range(60):
        program = make_program(SeededDraw(seed))
        try:
            execute_shadow(program, 0)
        except NotShadowed:
            missing += 1
    assert missing == 0


def test_a_wrong_meaning_that_all_executors_share_is_found() -> None:
    program = make_program(SeededDraw(1), kernels=1)
    expected = execute(program, load(program.source), "interpret", seed=0)
    check_meaning(program, expected, seed=0)
    name, array = next((n, a) for n, a in expected.items() if a.size)
    array.reshape(-1)[0] += 1  # as if the front end had taken another element
    with pytest.raises(Disagreement, match=f"{name} differs: 1 of .* plain Python"):
        check_meaning(program, expected, seed=0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16"])
def test_the_shadow_rounds_to_the_nearest_number(dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    top = float(np.finfo(kind).max if dtype == "float16" else ml_dtypes.finfo(kind).max)
    numbers = np.random.default_rng(0).standard_normal(4000) * np.logspace(-9, 3, 4000)
    with np.errstate(all="ignore"):
        nearest = numbers.astype(np.float32).astype(kind).astype(np.float64)
    if dtype.startswith("float8"):
        outside = ~(np.abs(nearest) <= top)
        nearest[outside] = np.copysign(top, numbers[outside])
    found = [rounded(float(np.float32(number)), dtype) for number in numbers]
    np.testing.assert_array_equal(found, nearest)
