"""The table of back ends: what follows from a row, and what has none."""

from __future__ import annotations

import dataclasses

import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.backends import BACKENDS, backend_of, is_emulated, texts_of
from tilelang.compiler import compile, pass_list
from tilelang.errors import TileUnsupportedError
from tilelang.target import Target, parse_target


@T.prim_func
def double(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            Y[i] = X[i] * 2.0


@pytest.mark.parametrize("kind", BACKENDS)
def test_a_row_makes_text(kind: str) -> None:
    row = BACKENDS[kind]
    target = Target(kind).concrete()
    assert row.kind == kind and backend_of(target) is row
    assert compile(double, target).language == row.language.lower()
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.language = "other"  # type: ignore[misc]  # what is tested


def test_programs_for_a_gpu_say_how_they_are_launched() -> None:
    for kind in BACKENDS:
        target = Target(kind).concrete()
        device = compile(double, target).device
        assert (device is not None) == ("simt" in target.features)


@pytest.mark.parametrize("spec", ["webgpu"])
def test_a_kind_without_a_row(spec: str) -> None:
    target = parse_target(spec)
    for action in (
        lambda: compile(double, target),
        lambda: tilelang.compile(double, target=spec),
        lambda: pass_list(target),
    ):
        assert refusal(TileUnsupportedError, action) == (
            f"no code generator for the target {target.kind!r} yet\n"
            "  expected: " + " or ".join(f'target="{kind}"' for kind in BACKENDS) + "\n"
            f"  got: target={spec!r}\n"
            '  hint: the program can be run anywhere with execution_backend="interpret"'
        )
    assert not is_emulated(target) and texts_of(target) == ()


def test_a_target_without_an_architecture_gets_the_usual_minimum() -> None:
    assert Target("cuda").concrete() == Target("cuda", "sm_80")
    assert Target("hip").concrete() == Target("hip", "gfx942")
    for target in (Target("cuda", "sm_90a"), Target("cpu")):
        assert target.concrete() is target
