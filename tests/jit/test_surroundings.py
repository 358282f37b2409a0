"""``with Target(...)`` and ``with PassContext(...)`` around compilations."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang import tvm
from tilelang.errors import TileUnsupportedError, TileValueError
from tilelang.target import Target, parse_target
from tilelang.transform import PassConfigKey, PassContext, get_pass_context

FAST = PassConfigKey.TL_ENABLE_FAST_MATH


def program(**configs: Any) -> Any:
    @T.prim_func
    def scale(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=8):
            if configs:
                T.annotate_pass_configs(configs)
            for i in T.Parallel(8):
                A[i] = T.exp(A[i])

    return scale


def test_auto_and_none_mean_the_innermost_target() -> None:
    with tvm.target.Target("cuda -arch=sm_90a") as outer:
        assert parse_target("auto") == parse_target(None) == outer == Target("cuda", "sm_90a")
        with Target("cuda", "sm_80"):
            assert tilelang.lower(program()).target == Target("cuda", "sm_80")
            assert parse_target("cpu") == Target("cpu")
        assert tvm.target.Target.current() == outer
    assert Target.current() is None
    with pytest.raises(TileValueError) as caught:
        Target.current(allow_none=False)
    assert str(caught.value) == "there is no current target\n  expected: with Target(...): around"


def test_a_target_ends_with_an_error_in_its_block() -> None:
    with pytest.raises(KeyError), Target("cpu"):
        raise KeyError
    assert Target.current() is None


def test_program_and_call_override_configurations_of_a_context() -> None:
    def fast(func: Any, **given: Any) -> bool:
        kernel = tilelang.compile(func, target="cpu", execution_backend="interpret", **given)
        return kernel.options.fast_math

    with PassContext(opt_level=3, config={"tl.enable_fast_math": True}) as context:
        assert get_pass_context() is PassContext.current() is context
        assert fast(program())
        assert not fast(program(), pass_configs={FAST: False})
        with tvm.transform.PassContext(config={}):
            assert not fast(program())
    assert not fast(program())
    assert get_pass_context().config == {}


def test_a_decorated_function_has_kernels_for_each_context() -> None:
    @tilelang.jit(execution_backend="interpret", target="cpu")
    def factory(n):
        return program()

    plain = factory(1)
    with PassContext(config={FAST: True}):
        fast = factory(1)
        assert factory(1) is fast
    assert factory(1) is plain
    assert (plain.options.fast_math, fast.options.fast_math) == (False, True)


def test_calls_follow_the_target_around_them_and_not_their_tensors() -> None:
    @tilelang.lazy_jit(execution_backend="interpret")
    def double(A: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=4):
            for i in T.Parallel(4):
                A[i] = A[i] * 2

    a = np.ones(4, np.float32)
    double(a)
    with Target("cuda", "sm_80"):
        double(a)
    assert a.tolist() == [4.0] * 4
    assert {str(kernel.target) for kernel in double._kernels.values()} >= {"cuda -arch=sm_80"}


@pytest.mark.parametrize("executor", [False, True])
def test_parallel_compilation_inherits_contexts(executor: bool) -> None:
    with ThreadPoolExecutor(1) as pool, Target("cuda", "sm_80"), PassContext(config={FAST: 1}):
        kernels = tilelang.par_compile(
            [program()], execution_backend="interpret", executor=pool if executor else None
        )
        assert pool.submit(Target.current).result() is None
    kernel = kernels[0]
    assert kernel is not None
    assert (str(kernel.target), kernel.options.fast_math) == ("cuda -arch=sm_80", True)


def test_a_context_rejects_unknown_keys() -> None:
    with pytest.raises(TileValueError, match="unknown pass config 'tl.no_such_key'"):
        PassContext(config={"tl.no_such_key": True})
    assert refusal(TileUnsupportedError, PassContext, instruments=[1]) == (
        "PassContext has no instruments: the passes of this compiler are one list\n"
        "  expected: no instruments\n"
        "  got: [1]\n"
        "  hint: tl.enable_dump_ir writes the program after each pass, tl.pass_profile prints what "
        "each takes"
    )
