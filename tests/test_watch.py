"""What can be seen of the passes: programs after one of them, a stop behind one, their times."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.compiler import lower, pass_list
from tilelang.errors import CompilationStopped, TileValueError
from tilelang.jit.artifacts import artifact_of
from tilelang.options import Options, make_options
from tilelang.runtime.cache import DiskCache
from tilelang.target import Context, Target, parse_target
from tilelang.transforms.step import FORMER_NAMES
from tilelang.watch import count_nodes, is_watched

CPU, HOPPER = Target("cpu"), parse_target("cuda -arch=sm_90a")
PASSES = [step.name for step in pass_list(CPU) if step.applies(Context(CPU))]


@T.prim_func
def scale(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            A[i] = A[i] * 2


# -- dumps -----------------------------------------------------------------------------------------
def test_the_program_is_written_after_the_named_passes_only(tmp_path: Path) -> None:
    config = {"tl.dump_ir_after": "traced, simplify,lower_tiles", "tl.dump_ir_path": str(tmp_path)}
    lower(scale, CPU, make_options(config))
    order = ["traced", *PASSES]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{order.index(name):02d}_scale_{name}.py" for name in ("traced", "simplify", "lower_tiles")
    ]


def test_a_variable_names_the_passes_where_no_config_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILELANG_DUMP_IR_AFTER", "simplify")
    monkeypatch.chdir(tmp_path)
    lower(scale, CPU, Options())
    lower(scale, CPU, Options(dump_after="fold_zero_init"))  # a rule of a pass
    lower(scale, CPU, Options(dump_after="mark_vectors"))  # the name of an earlier version
    names = sorted(path.name.split("_scale_")[1] for path in (tmp_path / "dump_ir").iterdir())
    assert names == ["mark_vector_loops.py", "normalize_operations.py", "simplify.py"]


def test_former_names_are_those_of_passes_and_of_no_pass_today() -> None:
    steps = {step.name: step for target in (CPU, HOPPER) for step in pass_list(target)}
    former = [name for names in FORMER_NAMES.values() for name in names]
    rules = {rule.name for step in steps.values() for rule in step.rows}
    assert FORMER_NAMES.keys() <= steps.keys() and rules.isdisjoint(former)
    assert steps.keys().isdisjoint(former) and len(set(former)) == len(former)


# -- a stop ----------------------------------------------------------------------------------------
def test_a_compilation_stops_after_a_pass_and_shows_the_program(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(CompilationStopped) as stopped:
        tilelang.compile(scale, target="cpu", pass_configs={"tl.stop_after": "simplify"})
    assert str(stopped.value) == (
        "the compilation of `scale` stopped after the pass simplify, as asked for"
    )
    seen = {}
    lower(scale, CPU, Options(), lambda name, func: seen.setdefault(name, func.script()))
    assert capsys.readouterr().out == seen["simplify"] + "\n"
    assert stopped.value.program.script() == seen["simplify"]


def test_a_variable_stops_every_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_STOP_AFTER", "traced")
    with pytest.raises(CompilationStopped, match="stopped after the pass traced"):
        lower(scale, CPU, Options())


@pytest.mark.parametrize(
    ("options", "variable", "source"),
    [
        (Options(stop_after="simplfy"), None, "pass config 'tl.stop_after'"),
        (Options(dump_after="traced simplfy"), None, "pass config 'tl.dump_ir_after'"),
        (Options(), "TILELANG_STOP_AFTER", "environment variable TILELANG_STOP_AFTER"),
        (Options(), "TILELANG_DUMP_IR_AFTER", "environment variable TILELANG_DUMP_IR_AFTER"),
    ],
)
def test_an_unknown_pass_is_an_error_that_lists_those_that_run(
    options: Options, variable: str | None, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv(variable, "simplfy")
    assert refusal(TileValueError, lower, scale, CPU, options) == (
        f"the {source} names no pass of this compilation: 'simplfy'\n"
        f"  expected: one of {', '.join(['traced', *PASSES])}\n"
        "  hint: did you mean 'simplify'?"
    )


@pytest.mark.parametrize("name", ["infer_layouts", "hold_operands"])
def test_a_pass_of_another_target_does_not_run(name: str) -> None:
    with pytest.raises(TileValueError, match=f"names no pass of this compilation: '{name}'"):
        lower(scale, CPU, Options(stop_after=name))


def test_a_rule_is_suggested_too() -> None:
    with pytest.raises(TileValueError, match="hint: did you mean 'widen_indices'"):
        lower(scale, CPU, Options(stop_after="widen_indexes"))


# -- times -----------------------------------------------------------------------------------------
ROW = re.compile(r"^ +(\d+\.\d\d) +(\d+)  (\w[\w ]*)$")


def table(text: str) -> list[tuple[str, float, int]]:
    """The rows of a printed table: pass, milliseconds, nodes."""
    title, head, *rows = text.splitlines()
    assert title == "passes of `scale`" and head.split() == ["ms", "nodes", "pass"]
    matches = [ROW.match(row) for row in rows]
    return [(m[3], float(m[1]), int(m[2])) for m in matches if m is not None]


def test_times_are_printed_with_the_nodes_that_each_pass_leaves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen = {}
    lower(scale, CPU, Options(), lambda name, func: seen.setdefault(name, count_nodes(func)))
    assert capsys.readouterr().out == ""
    lower(scale, CPU, make_options({"tl.pass_profile": True}))
    rows = table(capsys.readouterr().out)
    assert [row[0] for row in rows] == ["traced", *PASSES, "all passes"]
    assert {name: nodes for name, _, nodes in rows[1:-1]} == seen
    assert rows[0][2] == count_nodes(scale) and rows[-1][2] == seen[PASSES[-1]]
    assert rows[-1][1] == pytest.approx(sum(row[1] for row in rows[:-1]), abs=0.2)


def test_short_passes_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    configs = {"tl.pass_profile": True, "tl.pass_profile_threshold_ms": 1e6}
    lower(scale, CPU, make_options(configs))
    assert [row[0] for row in table(capsys.readouterr().out)] == ["traced", "all passes"]
    assert refusal(TileValueError, make_options, {"tl.pass_profile_threshold_ms": -1}) == (
        "pass config 'tl.pass_profile_threshold_ms' has an unknown value\n"
        "  expected: milliseconds, 0 or more\n"
        "  got: -1"
    )


def test_explain_ends_with_requested_pass_times() -> None:
    plain = tilelang.compile(scale, target="cpu").explain()
    configs = {"tl.pass_profile": True}
    timed = tilelang.compile(scale, target="cpu", pass_configs=configs).explain()
    assert timed.startswith(plain + "\n\npasses of `scale`\n")
    assert len(table(timed.removeprefix(plain + "\n\n"))) == len(PASSES) + 2


# -- the cache of texts ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "options",
    [
        Options(dump=True), Options(dump_after="simplify"), Options(stop_after="simplify"),
        Options(profile=True),
    ],
)  # fmt: skip
def test_a_watched_compilation_takes_no_text_from_the_cache(options: Options) -> None:
    assert is_watched(options) and not is_watched(Options())


def test_a_cached_text_is_not_taken_when_the_passes_are_timed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = DiskCache(tmp_path)
    for _ in range(2):
        artifact_of(scale, CPU, Options(profile=True), cache)
    assert capsys.readouterr().out.count("passes of `scale`") == 2
