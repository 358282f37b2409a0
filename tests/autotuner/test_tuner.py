"""Tuning on the CPU: the decorator, the class, what fails, what is remembered."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from autotuner.family import N, doubled, factory, scaled
from tilelang.autotuner import (
    AutoTuner,
    autotune,
    get_autotune_inputs,
    load,
    save,
    set_autotune_inputs,
    store,
)
from tilelang.errors import TileRuntimeError, TileTypeError, TileValueError
from tilelang.jit.executors import submit

QUICK: dict[str, Any] = {"warmup": 1, "rep": 4, "isolate": False}
BOTH = {"mode": ["slow", "fast"]}


# -- the decorator --------------------------------------------------------------------------------
def test_a_factory_gives_its_best_kernel() -> None:
    tuned = autotune(configs=BOTH, ref_prog=doubled, **QUICK)(factory())
    kernel = tuned(N)
    assert kernel.config == {"mode": "fast"}
    assert 0 < kernel.latency < 1 and 0 < kernel.ref_latency < 1
    assert kernel.get_tuner_result() == {
        "latency": kernel.latency,
        "config": kernel.config,
        "ref_latency": kernel.ref_latency,
    }
    a = np.ones(N, np.float32)
    assert (kernel(a) == 2).all()
    assert tuned(N) is kernel
    assert tuned(n=N) is kernel
    assert tuned.result.report.rows[1].config == {"mode": "slow"}
    assert tuned.autotune_report().startswith("scaled for cpu on ")
    assert tuned(64) is not kernel  # of other arguments


def test_tuned_parameters_that_are_given_are_not_tuned() -> None:
    tuned = autotune(configs=BOTH, **QUICK)(factory())
    kernel = tuned(N, mode="slow")
    assert kernel.config is None and tuned.result is None
    two = autotune(configs={"mode": ["slow", "fast"], "factor": [2.0, 3.0]}, **QUICK)(factory())
    kernel = two(N, factor=3.0)
    assert [row.config for row in two.result.report.rows] == [{"mode": "fast"}, {"mode": "slow"}]
    assert (kernel(np.ones(N, np.float32)) == 3).all()


def test_an_eager_kernel_runs_its_best_configuration() -> None:
    @autotune(configs=[{"block": 8}, {"block": 64}], ref_prog=lambda a: a + 1, **QUICK)
    @tilelang.jit(target="cpu")
    def plus_one(A, block: int = 8):
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        B = T.empty((n,), "float32")
        with T.Kernel(T.ceildiv(n, block), threads=32) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] + 1.0
        return B

    a = np.arange(128, dtype=np.float32)
    assert (plus_one(a) == a + 1).all()
    first = plus_one.result
    assert first.config in ({"block": 8}, {"block": 64})
    assert (plus_one(a) == a + 1).all() and plus_one.result is first
    plus_one(np.ones(256, np.float32))
    assert plus_one.result is not first  # of another shape
    assert (plus_one(a, block=64) == a + 1).all()


def test_configurations_of_the_compiler_are_tuned_too() -> None:
    fast = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}
    configs = [{"block": 8, "pass_configs": fast}, {"block": 8}]

    @autotune(configs=configs, **QUICK)
    @tilelang.jit(target="cpu", out_idx=-1)
    def exponents(n: int, block: int = 16):
        @T.prim_func
        def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(n // block, threads=32) as bx:
                for i in T.Parallel(block):
                    B[bx * block + i] = T.exp(A[bx * block + i])

        return kernel

    kernel = exponents(64)
    rows = exponents.result.report.rows
    assert sorted(len(row.config) for row in rows) == [1, 2]
    assert kernel.options.fast_math == (len(kernel.config) == 2)
    assert exponents(64, block=16).config is None  # nothing is left to tune


def test_a_run_reports_abandoned_candidates() -> None:
    tuner = AutoTuner.from_kernel(lambda mode="slow": factory().get_tir(N, mode), [["fast"]])
    tuner.set_compile_args(out_idx=-1, target="cpu").set_profile_args(isolate=False)
    found = tuner.run(1, 4, early_stop=False, early_stop_factor=1.5, use_pipeline=False,
                      enable_grouped_compile=True, group_compile_size=4)  # fmt: skip
    assert found.config == {"mode": "fast"}
    assert not tuner.search_args.early_stop and tuner.search_args.early_stop_factor == 1.5


def test_compile_gives_the_kernel_of_the_best_configuration() -> None:
    """Of an eager kernel by its sizes, for which no tensor is needed."""

    @tilelang.jit(target="cpu")
    def twice(A: Any, block: Any = None) -> Any:
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        C = T.empty((n,), "float32")
        with T.Kernel(T.ceildiv(n, block * 2), threads=32) as b:
            for i in T.Parallel(block * 2):
                C[b * block * 2 + i] = A[b * block * 2 + i] * 2
        return C

    tuned = autotune(configs={"block": [16, 32]}, **QUICK)(twice)
    kernel = tuned.compile(n=64)
    assert kernel.config in ({"block": 16}, {"block": 32})
    assert (kernel(np.ones(64, np.float32)) == 2).all()
    assert tuned.compile(n=64, block=16).config is None  # nothing is left to tune


def test_parameters_that_need_no_search_of_their_own() -> None:
    tuned = autotune(configs=BOTH, do_not_specialize=["n"], **QUICK)(factory())
    first, second = tuned(N), tuned(64)
    assert tuned.jit_impl(64, mode=first.config["mode"]).params[0].shape == (64,)
    assert len(tuned._results) == 1
    assert second.config == first.config
    assert refusal(TileValueError, autotune(configs=BOTH, do_not_specialize=["m"]), factory()) == (
        "do_not_specialize names 'm', no parameter of `scaled`\n"
        "  expected: n, mode, factor\n  got: 'm'"
    )


def test_nested_values_are_reached() -> None:
    tuned = autotune(configs=BOTH, **QUICK)(factory())
    assert tuned.get_tir(N, mode="fast").name == "scaled"
    assert tuned.mode == "lazy" and tuned.out_idx == -1
    assert repr(tuned) == "<tuned tilelang function scaled>"
    with pytest.raises(TileTypeError) as error:
        tuned.autotune_report()
    assert str(error.value) == "`scaled` has not been tuned yet\n  expected: a call before"
    assert tuned.tune(N).config == {"mode": "fast"}
    assert json.loads(tuned.autotune_report("json"))["name"] == "scaled"


@pytest.mark.parametrize(
    ("decorate", "message"),
    [
        (lambda: autotune(configs=BOTH)(scaled),
         "autotune decorates what @tilelang.jit gives\n"
         "  expected: @tilelang.autotune(configs=...) above @tilelang.jit\n  got: "),
        (lambda: autotune()(factory()),
         "the configurations of `scaled` have the wrong type\n  expected: a list of dicts, "),
        (lambda: autotune(configs=BOTH, speed=1)(factory()),
         "unknown option 'speed' of the tuner\n  expected: atol, backend, budget, "
         "cache_input_tensors, devices, early_stop, early_stop_factor, executor, isolate, "
         "manual_check_prog, max_mismatched_ratio, num_workers, prune_by_model, ref_prog, rep, "
         "rtol, seed, skip_check, strategy, supply_prog, supply_type, timeout, warmup"),
        (lambda: autotune(configs=BOTH)(factory())(1, 2, 3, 4),
         "`scaled` cannot be called like this: too many positional arguments\n"
         "  expected: (n, mode, factor)"),
        (lambda: AutoTuner.from_kernel(scaled(N), BOTH).run(),
         "the tuner takes a function that makes kernels\n  expected: a function of the tuned "
         "parameters that returns a @T.prim_func, with or without @tilelang.jit\n  got: "),
    ],
)  # fmt: skip
def test_misuse(decorate: Any, message: str) -> None:
    assert refusal(TileTypeError, decorate).startswith(message)


# -- the class ------------------------------------------------------------------------------------
def test_the_class_tunes_a_plain_factory() -> None:
    def kernel(mode: str = "fast") -> Any:
        return scaled(N, mode)

    result = (
        AutoTuner.from_kernel(kernel=kernel, configs=BOTH)
        .set_compile_args(out_idx=[-1], target="cpu")
        .set_profile_args(
            supply_type=tilelang.TensorSupplyType.Integer, ref_prog=doubled, skip_check=False,
            isolate=False,
        )
        .run(warmup=1, rep=4)
    )  # fmt: skip
    assert result.config == {"mode": "fast"} == result.kernel.config
    assert result.latency == result.kernel.latency and not result.cached
    assert result.libcode == result.kernel.get_kernel_source()
    assert result.func is result.kernel.prim_func
    assert result.autotune_report() == str(result.report)


def test_inputs_from_the_program_around() -> None:
    seen: list[Any] = []

    def reference(a: Any) -> Any:
        seen.append(a.copy())
        return a * 2

    mine = np.full(N, 7, np.float32)
    for given in ((mine,), ([mine],)):
        with set_autotune_inputs(*given):
            assert get_autotune_inputs() == (mine,)
            autotune(configs=BOTH, ref_prog=reference, **QUICK)(factory())(N)
        assert get_autotune_inputs() is None
    assert seen and all((item == 7).all() for item in seen)


def test_inputs_from_a_function_of_the_parameters() -> None:
    def supply(params: Any) -> Any:
        return [np.full(param.shape, 3, np.float32) for param in params]

    seen: list[Any] = []

    def check(results: Any, expected: Any) -> None:
        seen.append((float(results[0][0]), float(expected[0][0])))
        assert results[0][0] == expected[0][0], "not the same"

    tuned = autotune(
        configs={"mode": ["fast", "wrong"]}, supply_prog=supply, ref_prog=doubled,
        manual_check_prog=check, **QUICK,
    )(factory())  # fmt: skip
    assert tuned(N).config == {"mode": "fast"}
    assert seen == [(6.0, 6.0), (7.0, 6.0)]
    assert [(row.state, row.note) for row in tuned.result.report.rows][1] == (
        "wrong",
        "not the same",
    )


def test_nothing_is_compared_with_skip_check() -> None:
    tuned = autotune(
        configs={"mode": ["fast", "wrong"]}, ref_prog=doubled, skip_check=True, **QUICK
    )(factory())
    tuned(N)
    assert [row.state for row in tuned.result.report.rows] == ["measured", "measured"]


def test_what_a_function_takes_by_any_name_is_tuned() -> None:
    @autotune(configs=[{"mode": "slow"}, {"mode": "fast"}], **QUICK)
    @tilelang.jit(out_idx=-1)
    def any_name(n: int, **choices: Any) -> Any:
        return scaled(n, **choices)

    tuned = any_name.tune(N, factor=3.0)
    assert tuned.config == {"mode": "fast"}
    numbers = np.arange(N, dtype=np.float32)
    np.testing.assert_allclose(any_name(N, factor=3.0)(numbers), 3.0 * numbers, rtol=1e-6)
    assert any_name(N, mode="fast", factor=2.0)(numbers)[1] == 2.0


# -- what fails -----------------------------------------------------------------------------------
def test_every_failure_is_a_row() -> None:
    modes = ["crash", "hang", "wrong", "refused", "untraced", "slow", "fast"]
    tuned = autotune(configs={"mode": modes}, ref_prog=doubled, warmup=1, rep=4, timeout=8)(
        factory()
    )
    assert tuned(N).config == {"mode": "fast"}
    rows = {row.config["mode"]: row for row in tuned.result.report.rows}
    assert list(rows)[:2] == ["fast", "slow"]
    assert {mode: row.state for mode, row in rows.items()} == {
        "fast": "measured", "slow": "measured", "wrong": "wrong", "crash": "crashed",
        "hang": "timeout", "refused": "failed", "untraced": "failed",
    }  # fmt: skip
    assert rows["crash"].note == "the process ended by SIGSEGV"
    assert rows["hang"].note == "no answer in 8 s"
    assert rows["untraced"].note == "ValueError: no such mode"
    assert rows["refused"].note.startswith("T.call_extern(...) is not available on the CPU")
    assert rows["wrong"].note.startswith(f"{N} of {N} elements differ (100.00 %")


def test_nothing_that_works_is_an_error_with_the_table() -> None:
    tuned = autotune(configs={"mode": ["untraced", "refused"]}, **QUICK)(factory())
    with pytest.raises(TileRuntimeError) as error:
        tuned(N)
    text = str(error.value)
    assert text.startswith("no configuration of `scaled` works\n  got: scaled for cpu on ")
    assert "mode=untraced        -       -  failed  ValueError: no such mode" in text
    assert text.endswith(
        "hint: the kernel of one configuration, called directly, shows its whole error"
    )
    assert not store.STORE.memory


def test_a_search_ends_when_its_time_is_over() -> None:
    tuned = autotune(configs=BOTH, budget=0.0, strategy="exhaustive", **QUICK)(factory())
    tuned(N)
    assert [row.state for row in tuned.result.report.rows] == ["measured", "skipped"]
    assert tuned.result.report.rows[1].note == "the time of the search was over"


def test_inputs_that_cannot_be_sent() -> None:
    lock = threading.Lock()
    with set_autotune_inputs(lock), pytest.raises(TileTypeError) as error:
        autotune(configs=BOTH, warmup=1, rep=1)(factory())(N)
    assert str(error.value) == (
        "the kernel or its arguments cannot be sent to the worker process: cannot pickle "
        "'_thread.lock' object\n  hint: pass isolate=False to tune in this process"
    )


# -- what is remembered ---------------------------------------------------------------------------
def test_results_are_remembered_on_disk() -> None:
    def search() -> Any:
        return autotune(configs=BOTH, ref_prog=doubled, **QUICK)(factory()).tune(N)

    first = search()
    store.STORE.memory.clear()
    second = search()
    assert (first.cached, second.cached) == (False, True)
    assert second.report == first.report and second.latency == first.latency
    key = next(iter(store.STORE.memory))
    tuner = AutoTuner(factory(), BOTH)
    assert tuner._load_result_from_disk(key)["config"] == {"mode": "fast"}
    assert tuner._load_result_from_disk("0" * 64) is None


@pytest.mark.parametrize(
    "change",
    [
        {"configs": {"mode": ["fast", "slow", "wrong"]}},
        {"skip_check": True},
        {"strategy": "exhaustive"},
        {"n": 64},
        {"verbose": False},
    ],
    ids=str,
)
def test_changed_inputs_are_searched_again(change: dict[str, Any]) -> None:
    def search(n: int = N, verbose: Any = None, **options: Any) -> Any:
        made = autotune(**{"configs": BOTH, **QUICK, **options})(factory(verbose=verbose))
        return made.tune(n)

    search()
    assert search().cached
    assert search(**change).cached == ("verbose" in change)


def test_the_environment_disables_stored_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_AUTO_TUNING_DISABLE_CACHE", "1")
    autotune(configs=BOTH, **QUICK)(factory())(N)
    AutoTuner._memory_cache.clear()
    assert not autotune(configs=BOTH, **QUICK)(factory()).tune(N).cached


def test_results_travel_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    autotune(configs=BOTH, **QUICK)(factory())(N)
    assert save(tmp_path / "tuned.json") == 1
    store.STORE.memory.clear()
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "other"))
    assert load(tmp_path / "tuned.json") == 1
    found = autotune(configs=BOTH, **QUICK)(factory()).tune(N)
    assert found.cached and found.config == {"mode": "fast"}
    for text in ("{}", "no JSON", "[1]"):
        (tmp_path / "wrong.json").write_text(text)
        assert refusal(TileValueError, load, tmp_path / "wrong.json") == (
            "wrong.json contains no tuned results\n"
            "  expected: a file that tilelang.autotuner.save(path) has written"
        )


def test_configurations_that_json_would_change_stay_in_memory() -> None:
    assert store.as_json({"config": {"block": (1, 2)}}) is None
    assert store.as_json({"config": {"dtype": object()}}) is None
    assert store.as_json({"config": {"block": 64}}) == '{"config": {"block": 64}}'


# -- a script of its own --------------------------------------------------------------------------
SCRIPT = """
import tilelang
import tilelang.language as T

@tilelang.autotune(configs={"block": [32, 64]}, warmup=1, rep=4, timeout=60)
@tilelang.jit(out_idx=-1, target="cpu")
def twice(n, block=None):
    @T.prim_func
    def twice(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(n // block, threads=32) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * 2.0
    return twice

print("once")
kernel = twice(256)
print(sorted(kernel.config), twice.result.cached, kernel.latency > 0)
"""


def test_a_script_needs_no_guard_and_the_next_one_finds_the_result(tmp_path: Path) -> None:
    script = tmp_path / "tune.py"
    script.write_text(textwrap.dedent(SCRIPT))

    def run() -> list[str]:
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=True
        )
        return done.stdout.splitlines()

    assert run() == ["once", "['block'] False True"]
    assert run() == ["once", "['block'] True True"]


# -- executors ------------------------------------------------------------------------------------
class Follower:
    """A future of another library: callbacks and results, but none of ``concurrent.futures``."""

    def __init__(self, given: Future[Any]) -> None:
        self.given = given

    def add_done_callback(self, fn: Any) -> None:
        self.given.add_done_callback(lambda _: fn(self))

    def exception(self) -> Any:
        return self.given.exception()

    def result(self) -> Any:
        return self.given.result()


class Client:
    """An executor that sends copies, as one over a network does."""

    def __init__(self, fails: int = 0) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.jobs = 0
        self.fails = fails

    def submit(self, function: Any, *args: Any) -> Follower:
        self.jobs += 1
        if self.jobs <= self.fails:
            lost: Future[Any] = Future()
            lost.set_exception(RuntimeError("the worker died"))
            return Follower(lost)
        return Follower(self.pool.submit(*pickle.loads(pickle.dumps((function, *args)))))


@pytest.mark.parametrize("fails", [0, 1])
def test_an_executor_compiles(fails: int) -> None:
    client = Client(fails)
    tuned = autotune(configs=BOTH, executor=client, **QUICK)(factory())
    assert tuned(N).config == {"mode": "fast"}
    assert client.jobs == 2


def test_par_compile_on_an_executor() -> None:
    client = Client()
    kernels = tilelang.par_compile([scaled(N), scaled(64)], -1, target="cpu", executor=client)
    assert [kernel.params[0].shape for kernel in kernels] == [(N,), (64,)]
    made = factory().par_compile([{"n": N}, {"n": N, "mode": "refused"}], ignore_error=True,
                                 executor=client)  # fmt: skip
    assert (made[0](np.ones(N, np.float32)) == 2).all() and made[1] is None
    assert client.jobs == 4


def test_the_form_of_an_executor_by_functions() -> None:
    class Reference:
        def __init__(self, value: Any) -> None:
            self.value = value

        def future(self) -> Future[Any]:
            made: Future[Any] = Future()
            made.set_result(self.value)
            return made

    class Ray:
        get = None

        @staticmethod
        def remote(function: Any) -> Any:
            class Remote:
                remote = staticmethod(lambda *args: Reference(function(*args)))

            return Remote

    assert submit(Ray, abs, -3).result() == 3
    assert refusal(TileTypeError, submit, 3, abs, -3) == (
        "executor= cannot run functions\n  expected: an executor of concurrent.futures, a Dask "
        "client, or the module ray\n  got: 3"
    )
