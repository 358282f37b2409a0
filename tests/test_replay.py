"""The compiler generates the text that it generated before, for more than 900 programs.

A change that means to change texts states it in its commit and updates the hashes with
``pytest tests/test_replay.py --update-golden``; ``scripts/replay.py FOLDER`` writes the texts, so that
those of two states can be compared with ``diff -r``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import replay
from written import executed


@pytest.mark.parametrize("group", replay.groups())
def test_the_text_is_what_it_was(group: str, golden: Callable[[str, str], None]) -> None:
    if group == "cpu_bench":
        pytest.importorskip(
            "torch", reason="the benchmarks of the CPU make their inputs with torch"
        )
    programs = replay.groups()[group]()
    assert programs
    text = "\n".join(map(replay.line, programs))
    assert "InternalError" not in text
    golden(f"replay_{group}.txt", text)


def test_a_change_of_the_text_shows() -> None:
    first, second = replay.groups()["compile_time"]()[:2]
    renamed = replay.Replayed(first.name, second.func)
    assert replay.line(first) == replay.line(first)
    assert replay.line(first) != replay.line(renamed)


PROGRAM = """
import tilelang.language as T

@T.prim_func
def copied(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=32):
        T.copy(A, B)
        T.clear(A)
"""


def test_an_edit_above_a_program_does_not_show() -> None:
    items: list[replay.Replayed] = []
    for text in (PROGRAM, "# more\n# lines\n" + PROGRAM):
        space = executed(text, "<moved>")
        items.append(replay.Replayed("copied", space["copied"]))
    assert replay.texts(items[0]) != replay.texts(items[1])
    assert replay.line(items[0]) == replay.line(items[1])
