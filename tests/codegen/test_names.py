"""Identifiers keep the user's names, are legal in C and never meet."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from tilelang.codegen.names import RESERVED, Names


def test_a_taken_name_gets_the_next_free_number() -> None:
    names = Names()
    assert [names.fresh(wanted) for wanted in ("i", "i_1", "i", "i")] == ["i", "i_1", "i_2", "i_3"]
    assert Names(["threadIdx"]).fresh("threadIdx") == "threadIdx_1"


@pytest.mark.parametrize(
    ("wanted", "given_"),
    [
        ("for", "for_1"), ("main", "main_1"), ("arena", "arena_1"), ("exp", "exp_1"),
        ("a.b-c", "a_b_c"), ("2x", "v_2x"), ("", "v"), ("tl_call", "v_tl_call"),
        ("TL_EXPORT", "v_TL_EXPORT"), ("__f", "v___f"), ("α", "_"),
    ],
)  # fmt: skip
def test_keywords_of_c_and_header_names_are_avoided(wanted: str, given_: str) -> None:
    assert Names().fresh(wanted) == given_


def test_a_thing_keeps_its_name_and_another_of_the_same_name_differs() -> None:
    names, one, two = Names(), [1], [1]  # equal, but distinct
    assert [names.of(thing, "x") for thing in (one, two, one)] == ["x", "x_1", "x"]


@given(st.lists(st.text(st.characters(codec="ascii"), max_size=6), max_size=30))
def test_names_are_legal_and_distinct(wanted: list[str]) -> None:
    names = Names()
    found = [names.fresh(text) for text in wanted]
    assert len(set(found)) == len(found)
    assert not set(found) & RESERVED
    assert all(re.fullmatch(r"[A-Za-z_]\w*", name) for name in found)
