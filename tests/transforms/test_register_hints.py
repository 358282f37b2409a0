"""Hints about registers act on the instructions of their kernel, or say that they do nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from contexts import SM_80

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import PrimFunc
from tilelang.transforms.normalize.legalize import apply_register_hints


def roles(hint: Callable[[], Any], explicit: bool = True) -> PrimFunc:
    @T.prim_func
    def kernel(A: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            hint()
            if tx < 128:
                if explicit:
                    T.dec_max_nreg(40)
                A[tx] = 1.0
            else:
                if explicit:
                    T.inc_max_nreg(232)
                A[tx] = 2.0

    return kernel


def registers(hint: Callable[[], Any], explicit: bool = True) -> tuple[list[str], str]:
    kernel = tilelang.compile(roles(hint, explicit), target="cuda -arch=sm_90a")
    lines = [line.strip() for line in kernel.get_kernel_source().splitlines()]
    found = [line for line in lines if line.startswith("tl_setmaxnreg")]
    notes = [line for line in kernel.explain().splitlines() if "registers: " in line]
    return found, notes[0].strip() if notes else ""


def test_without_hints_the_numbers_of_the_program_are_used() -> None:
    func = roles(lambda: None)
    assert apply_register_hints(func, SM_80) is func
    both = ["tl_setmaxnreg_dec<40>();", "tl_setmaxnreg_inc<232>();"]
    assert registers(lambda: None) == (both, "")


@pytest.mark.parametrize("word", ["no_set_max_nreg", "disable_warp_group_reg_alloc"])
def test_a_kernel_without_register_exchange_has_none(word: str) -> None:
    found, note = registers(getattr(T, word))
    assert found == [] and note == f"registers: 2 T.set_max_nreg are ignored because of T.{word}"


def test_the_annotated_numbers_replace_those_of_the_program() -> None:
    def hints() -> None:
        T.annotate_producer_reg_dealloc(24)
        T.annotate_consumer_reg_alloc(240)

    found, note = registers(hints)
    assert found == ["tl_setmaxnreg_dec<24>();", "tl_setmaxnreg_inc<240>();"]
    assert note == (
        "registers: T.annotate_producer_reg_dealloc, T.annotate_consumer_reg_alloc: the numbers "
        "of T.set_max_nreg"
    )


@pytest.mark.parametrize(
    "word", ["no_set_max_nreg", "annotate_producer_reg_dealloc", "annotate_consumer_reg_alloc"]
)
def test_a_hint_without_anything_to_act_on_says_so(word: str) -> None:
    assert registers(getattr(T, word), explicit=False) == (
        [], f"registers: T.{word}: no effect, as there is no T.set_max_nreg to act on",
    )  # fmt: skip
