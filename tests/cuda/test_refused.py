"""The table of programs that GPUs of AMD and Apple refuse names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from refused import AMD, APPLE, EVERY, REFUSED, refusal

HERE = Path(__file__).parent
FILES = (
    *HERE.glob("*_on_gpu.py"),
    *((HERE.parent / "interpret" / f"test_{name}.py") for name in ("programs", "tiles", "threads", "warp")),
)  # fmt: skip
TESTS = [name for file in FILES for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)]


@pytest.mark.parametrize("names", sorted({names for names, _, _ in REFUSED}))
def test_an_entry_is_about_a_test(names: str) -> None:
    of_function = names.partition(r"\[")[0].removesuffix(".*")
    assert any(re.match(of_function, test) for test in TESTS)


def test_the_first_entry_for_an_index_counts() -> None:
    said = {place: refusal(f"test_all_swizzles_in_memory[{place}-int8]", place) for place in EVERY}
    assert len({said[place] for place in AMD}) == 1
    assert said[AMD[0]] != said[APPLE[0]] != ""
    assert refusal("test_products_of_odd_slices[metal]", "metal") == ""
