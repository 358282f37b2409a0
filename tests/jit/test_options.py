"""What a compilation may be told: pass configs, compiler flags, targets and backends."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang import options as module
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import (
    TileTypeError,
    TileUnsupportedError,
    TileValueError,
    TileWarning,
    UninitializedReadError,
)
from tilelang.jit.execution import BACKENDS, check_backend
from tilelang.options import WITHOUT_EFFECT, Options, PassConfigKey, make_options

# The keys of the language with their strings; `tl.` and the rest in lower case where none is given.
KEYS = """
TL_SIMPLIFY=tl.Simplify TL_DISABLE_WARP_SPECIALIZED TL_ENABLE_FAST_MATH TL_DISABLE_FAST_MATH
TL_DISABLE_TMA_LOWER TL_DISABLE_THREAD_STORAGE_SYNC TL_DISABLE_VECTORIZE_256
TL_PTXAS_REGISTER_USAGE_LEVEL TL_ENABLE_PTXAS_VERBOSE_OUTPUT TL_DEVICE_COMPILE_FLAGS
TL_DISABLE_OUT_OF_BOUND_WARNING TL_ENABLE_LOWER_LDGSTG TL_ENABLE_LOWER_LDGSTG_PREDICATED
TL_DISABLE_DATA_RACE_CHECK TL_DISABLE_WGMMA TL_DISABLE_WGMMA_OVERLAP
TL_DISABLE_SAFE_MEMORY_ACCESS=tl.disable_safe_memory_legalize TL_CONFIG_INDEX_BITWIDTH
TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE TL_DISABLE_SHARED_MEMORY_REUSE TL_DISABLE_SHUFFLE_ELECT
TL_ENABLE_ASYNC_COPY TL_FORCE_LET_INLINE TL_AST_PRINT_ENABLE TL_LAYOUT_VISUALIZATION_ENABLE
TL_LAYOUT_VISUALIZATION_FORMATS TL_STORAGE_REWRITE_DETECT_INPLACE TL_DISABLE_BUFFER_INIT_CHECK
TL_DISABLE_PRELOWER_SEMANTIC_CHECK TL_DISABLE_LOOP_UNSWITCHING
TL_LOOP_UNSWITCHING_ALLOW_NON_TRIVIAL_ELSE TL_LAYOUT_COST_MODEL TL_REDUCER_FORCE_BASELINE
TL_EMIT_LINE_DIRECTIVES TL_ENABLE_DUMP_IR TL_DUMP_IR_DIR=tl.dump_ir_path TL_PASS_PROFILE
TL_DUMP_IR_AFTER TL_STOP_AFTER
TL_PASS_PROFILE_THRESHOLD_MS TL_DEBUG_MERGE_SHARED_MEMORY_ALLOCATIONS
TL_ENABLE_VECTORIZE_PLANNER_VERBOSE TIR_ENABLE_EQUIV_TERMS_IN_CSE=tir.enable_equiv_terms_in_cse_tir
TIR_DISABLE_CSE=tir.disable_cse_tir TIR_SIMPLIFY=tir.Simplify TIR_DISABLE_STORAGE_REWRITE
TIR_DISABLE_VECTORIZE TIR_USE_ASYNC_COPY TIR_ENABLE_DEBUG TIR_MERGE_STATIC_SMEM TIR_ADD_LOWER_PASS
TIR_NOALIAS CUDA_KERNELS_OUTPUT_DIR
TL_SIMPLIFY_TRANSITIVELY_PROVE_INEQUALITIES=transitively_prove_inequalities
TL_SIMPLIFY_CONVERT_BOOLEAN_TO_AND_OF_ORS=convert_boolean_to_and_of_ors
TL_SIMPLIFY_APPLY_CONSTRAINTS_TO_BOOLEAN_BRANCHES=apply_constraints_to_boolean_branches
TL_SIMPLIFY_PROPAGATE_KNOWNS_TO_PROVE_CONDITIONAL=propagate_knowns_to_prove_conditional
TL_SIMPLIFY_PROPAGATE_KNOWNS_TO_SIMPLIFY_EXPRESSIONS=propagate_knowns_to_simplify_expressions
TL_SIMPLIFY_ENABLE_LET_INLINE=enable_simplify_let_inline
TL_IF_STMT_BINDING_INLINE_REPLAYABLE_BINDS TL_ENABLE_AUTO_SCHEDULE
TL_ENABLE_AUTO_WARP_SPECIALIZATION TL_ENABLE_FP32X2_REDUCTION TL_ENABLE_REDUCER_PLAN_VERBOSE
TL_UNINITIALIZED_READS TL_NEGATIVE_INDICES TL_DISABLE_PERSISTENT_TILES
TL_DISABLE_LAUNCH_VERSIONS TL_SIMDGROUP_ELEMENT_MAP
""".split()


def string_of(word: str) -> tuple[str, str]:
    name, _, text = word.partition("=")
    prefix, _, rest = name.partition("_")
    return name, text or f"{prefix.lower()}.{rest.lower()}"


NAMES = dict(map(string_of, KEYS))


@pytest.fixture(autouse=True)
def fresh_warnings() -> Iterator[None]:
    module._warn_once.cache_clear()
    yield
    module._warn_once.cache_clear()


def program(n: int = 40) -> Any:
    @T.prim_func
    def double(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
            for i in T.Parallel(32):
                Y[bx * 32 + i] = X[bx * 32 + i] * 2.0

    return double


# -- keys -------------------------------------------------------------------------------------------
def test_keys_are_those_of_the_language() -> None:
    assert {key.name: key.value for key in PassConfigKey} == NAMES
    assert tilelang.PassConfigKey is PassConfigKey
    assert isinstance(PassConfigKey.TL_SIMPLIFY, str)


@pytest.mark.parametrize("name", NAMES)
def test_every_key_is_accepted_in_every_spelling(name: str) -> None:
    key = PassConfigKey[name]
    texts = {"TL_DUMP_IR_DIR": "dumps", "TL_DUMP_IR_AFTER": "simplify", "TL_STOP_AFTER": "simplify"}
    value = {**texts, "TL_DEVICE_COMPILE_FLAGS": "-DMINE"}.get(name, True)
    spellings: list[Any] = [key, key.value, key.value.upper(), name]
    if key.value.startswith("tir."):
        spellings.append("tirx." + key.value[4:])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TileWarning)
        for spelling in spellings:
            assert make_options({spelling: value}).configs == ((key.value, value),)


def test_kernel_with_every_key_runs(tmp_path: Path) -> None:
    values: dict[Any, Any] = dict.fromkeys(PassConfigKey, True)
    values[PassConfigKey.TL_DUMP_IR_DIR] = str(tmp_path)
    values[PassConfigKey.TL_DUMP_IR_AFTER] = "simplify"
    values.pop(PassConfigKey.TL_STOP_AFTER)
    values[PassConfigKey.TL_DEVICE_COMPILE_FLAGS] = "-DNOTHING=1"
    values.pop(PassConfigKey.TL_DISABLE_SAFE_MEMORY_ACCESS)  # the last block reaches outside
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TileWarning)
        kernel = tilelang.compile(program(), out_idx=[-1], target="cpu", pass_configs=values)
    assert kernel(np.ones(40, np.float32)).tolist() == [2.0] * 40


def test_keys_without_effect_warn_once() -> None:
    for key in sorted(WITHOUT_EFFECT):
        with pytest.warns(TileWarning) as said:
            make_options({key: 1})
            make_options({key: 1})
        assert [str(item.message) for item in said] == [f"pass config {key.value!r} has no effect"]


def test_performance_keys_are_ignored_silently() -> None:
    silent = set(PassConfigKey) - WITHOUT_EFFECT - set(module.MEANING)
    silent -= {PassConfigKey.TL_DEVICE_COMPILE_FLAGS, PassConfigKey.TL_NEGATIVE_INDICES}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = make_options(dict.fromkeys(silent, True))
    assert replace(found, configs=()) == Options()


def test_unknown_key_names_the_nearest() -> None:
    with pytest.raises(TileValueError) as error:
        tilelang.compile(program(), target="cpu", pass_configs={"tl.enable_fastmath": True})
    assert str(error.value) == (
        "unknown pass config 'tl.enable_fastmath'\n"
        "  expected: a member of tilelang.PassConfigKey\n"
        "  hint: did you mean 'tl.enable_fast_math'?"
    )


def test_unknown_key_like_no_other() -> None:
    assert refusal(TileValueError, make_options, {"zzz": True}) == (
        "unknown pass config 'zzz'\n"
        "  expected: a member of tilelang.PassConfigKey\n"
        "  hint: known keys: tl.Simplify, tl.disable_warp_specialized, tl.enable_fast_math, "
        "tl.disable_fast_math, tl.disable_tma_lower, tl.disable_thread_storage_sync, ..."
    )


def test_key_that_is_no_string() -> None:
    assert refusal(TileTypeError, make_options, {3: True}) == (
        "pass_configs has the key 3\n  expected: a tilelang.PassConfigKey or its string\n  got: 3"
    )


# -- what keys do -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("key", "field", "value"),
    [
        ("TL_DISABLE_SAFE_MEMORY_ACCESS", "unsafe_memory", True),
        ("TL_ENABLE_FAST_MATH", "fast_math", True),
        ("TL_DISABLE_THREAD_STORAGE_SYNC", "no_auto_sync", True),
        ("TL_DISABLE_TMA_LOWER", "no_tma", True),
        ("TL_DISABLE_WGMMA", "no_wgmma", True),
        ("TL_DISABLE_WGMMA_OVERLAP", "no_overlap", True),
        ("TL_DISABLE_WARP_SPECIALIZED", "no_roles", True),
        ("TL_DISABLE_PERSISTENT_TILES", "no_persistent_tiles", True),
        ("TL_DISABLE_LAUNCH_VERSIONS", "no_launch_versions", True),
        ("TL_ENABLE_DUMP_IR", "dump", True),
        ("TL_DUMP_IR_DIR", "dump_dir", "somewhere"),
        ("TL_DUMP_IR_AFTER", "dump_after", "simplify, fold_zero_init"),
        ("TL_STOP_AFTER", "stop_after", "simplify"),
        ("TL_PASS_PROFILE", "profile", True),
        ("TL_PASS_PROFILE_THRESHOLD_MS", "profile_threshold", 2.5),
    ],
)
def test_keys_with_a_meaning_set_their_option(key: str, field: str, value: object) -> None:
    assert getattr(make_options({key: value}), field) == value
    off = "" if isinstance(value, str) else 0
    assert getattr(make_options({key: off}), field) in (False, "0", "")


def test_dump_writes_the_program_after_every_pass(tmp_path: Path) -> None:
    if find_compiler() is None:
        pytest.skip("no C compiler on this machine")
    configs = {"tl.enable_dump_ir": True, "tl.dump_ir_path": str(tmp_path / "ir")}
    tilelang.compile(program(), target="cpu", pass_configs=configs)
    names = sorted(path.name for path in (tmp_path / "ir").iterdir())
    assert names[0] == "00_double_traced.py"
    assert [name[:2] for name in names] == [f"{number:02d}" for number in range(len(names))]
    assert (tmp_path / "ir" / names[0]).read_text() == program().script() + "\n"


def test_arguments_override_options_of_the_program() -> None:
    from tilelang.jit.compile import options_for

    class Annotated:
        """What is asked of a traced function here."""

        def attr(self, name: str, default: Any) -> Any:
            own = {"pass_configs": {"tl.enable_fast_math": True}, "compile_flags": "-DOWN"}
            return own.get(name, default)

    func: Any = Annotated()
    assert options_for(func, None, None, None).fast_math
    assert not options_for(func, {PassConfigKey.TL_ENABLE_FAST_MATH: False}, None, None).fast_math
    assert options_for(func, None, None, None).compile_flags == ("-DOWN",)
    assert options_for(func, None, ["-DMINE"], None).compile_flags == ("-DMINE",)


# -- compiler flags -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (None, ()), ("", ()), ("-O3 -DX=1", ("-O3", "-DX=1")), (["-O3", "-DX=1"], ("-O3", "-DX=1")),
        (("-O3 -DX=1", "-g"), ("-O3", "-DX=1", "-g")),
    ],
)  # fmt: skip
def test_flags_are_a_text_or_a_list(flags: Any, expected: tuple[str, ...]) -> None:
    assert make_options(None, flags).compile_flags == expected


def test_flags_of_the_pass_config_come_first() -> None:
    options = make_options({"tl.device_compile_flags": ["-DA"]}, "-DB")
    assert options.compile_flags == ("-DA", "-DB")


def test_flags_of_another_type() -> None:
    assert refusal(TileTypeError, tilelang.compile, program(), target="cpu", compile_flags=3) == (
        "compile_flags has the wrong type\n  expected: a list of strings\n  got: 3"
    )


def test_only_definitions_reach_the_c_compiler() -> None:
    if find_compiler() is None:
        pytest.skip("no C compiler on this machine")
    flags = ["-DMINE=1", "--use_fast_math", "-UOTHER", "-lineinfo"]
    kernel = tilelang.compile(program(), target="cpu", out_idx=[-1], compile_flags=flags)
    assert kernel.artifact.flags == ("-DMINE=1", "-UOTHER")
    assert kernel(np.ones(40, np.float32)).tolist() == [2.0] * 40


# -- targets ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "target", ["cpu", "c", "llvm", "llvm -mcpu=native", {"kind": "cpu"}, "CPU"]
)
def test_every_spelling_of_the_cpu_runs(target: Any) -> None:
    kernel = tilelang.compile(program(), out_idx=[-1], target=target)
    assert kernel.target.kind == "cpu"
    assert kernel(np.ones(40, np.float32)).tolist() == [2.0] * 40


def test_target_of_the_environment_is_used_where_none_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "llvm")
    assert tilelang.jit(lambda: None).settings["target"] == "llvm"
    assert tilelang.jit(lambda: None, target="cuda").settings["target"] == "cuda"


def test_target_without_code_generator() -> None:
    assert refusal(TileUnsupportedError, tilelang.compile, program(), target="webgpu") == (
        "no code generator for the target 'webgpu' yet\n"
        '  expected: target="cpu" or target="cuda" or target="hip" or target="metal"\n'
        "  got: target='webgpu'\n"
        '  hint: the program can be run anywhere with execution_backend="interpret"'
    )


# -- backends ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", sorted(set(BACKENDS) - {"emulator"}))  # GPU text alone
def test_every_known_backend_runs_on_the_cpu(name: str) -> None:
    kernel = tilelang.compile(program(), out_idx=[-1], target="cpu", execution_backend=name)
    assert kernel(np.ones(40, np.float32)).tolist() == [2.0] * 40


def test_names_of_other_runtimes_mean_auto() -> None:
    others = ("tvm_ffi", "cython", "ctypes", "dlpack", "torch", "cutedsl", None)
    assert {check_backend(name) for name in others} == {"auto"}


def test_unknown_backend() -> None:
    assert refusal(TileValueError, tilelang.jit(program, execution_backend="fortran")) == (
        f"unknown execution_backend 'fortran'\n  expected: {', '.join(BACKENDS)}\n  got: 'fortran'"
    )


def test_backend_of_the_environment_is_used_where_none_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TILELANG_EXECUTION_BACKEND", "interpret")
    made = tilelang.jit(program, target="cpu")
    assert made(8).execution_backend == "interpret"


# -- reads of what nothing has written -------------------------------------------------------------
def uncleared() -> Any:
    @T.prim_func
    def sums(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            total = T.alloc_fragment((8,), "float32")
            for i in T.Parallel(8):
                total[i] += A[i]
            T.copy(total, A)

    return sums


def interpreted(configs: dict[Any, Any]) -> Any:
    kernel = tilelang.compile(
        uncleared(), target="cpu", execution_backend="interpret", pass_configs=configs
    )
    array = np.arange(8, dtype=np.float32)
    kernel(array)
    return array


@pytest.mark.parametrize(
    "key, value, expected",
    [
        ("tl.enable_fast_math", "false", "True or False"),
        ("tl.disable_wgmma", 2, "True or False"),
        ("tl.enable_dump_ir", [True], "True or False"),
        ("tl.stop_after", 5, "a string"),
        ("tl.dump_ir_path", ["dumps"], "a string"),
        ("tl.pass_profile_threshold_ms", "3", "milliseconds, 0 or more"),
    ],
)
def test_a_value_that_a_key_cannot_have_is_refused(key: str, value: Any, expected: str) -> None:
    assert refusal(TileValueError, make_options, {key: value}) == (
        f"pass config {key!r} has an unknown value\n  expected: {expected}\n  got: {value!r}"
    )


def test_a_switch_may_be_a_number_or_a_scalar_of_numpy() -> None:
    for value in (True, 1, np.bool_(True)):
        assert make_options({"tl.disable_wgmma": value}).no_wgmma is True
    assert make_options({"tl.disable_wgmma": None}).no_wgmma is False


def test_the_interpreter_stops_at_unwritten_memory_by_default() -> None:
    key = PassConfigKey.TL_UNINITIALIZED_READS
    for configs in ({}, {key: "error"}, {PassConfigKey.TL_DISABLE_BUFFER_INIT_CHECK: False}):
        with pytest.raises(UninitializedReadError):
            interpreted(configs)
    for configs in (
        {key: "zero"}, {"tl.disable_buffer_init_check": True},
        {key: "zero", PassConfigKey.TL_DISABLE_BUFFER_INIT_CHECK: True},
    ):  # fmt: skip
        np.testing.assert_array_equal(interpreted(configs), np.arange(8))
    with pytest.warns(TileWarning, match="is read before anything is written to it") as found:
        np.testing.assert_array_equal(interpreted({key: "warn"}), np.arange(8))
    assert "total[i] += A[i]" in str(found[0].message)
    assert refusal(TileValueError, interpreted, {key: "shrug"}) == (
        "pass config 'tl.uninitialized_reads' has an unknown value\n"
        "  expected: error, warn or zero\n  got: 'shrug'"
    )
