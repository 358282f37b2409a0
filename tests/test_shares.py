"""Tests that run a share of their cases, see ``conftest.py``."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from shares import MANY, QUICK, QUICK_TESTS, leave_out, leave_out_most


def chosen(names: list[str], of: str = "", marked: bool = True, **options: Any) -> list[str]:
    marks = [SimpleNamespace(args=(4,), kwargs={"of": of} if of else {})] if marked else []
    items = [
        SimpleNamespace(name=name, nodeid=name, iter_markers=lambda _: iter(marks))
        for name in names
    ]
    config: Any = SimpleNamespace(
        getoption=lambda name: options.get(name.strip("-"), 0),
        hook=SimpleNamespace(pytest_deselected=lambda items: None),
    )
    leave_out(config, items)  # type: ignore[arg-type]  # mocks
    return [item.name for item in items]


NAMES = [f"test_x[{number}]" for number in range(10)]


def test_the_shares_are_all_cases_together() -> None:
    shares = [chosen(NAMES, share=number) for number in range(4)]
    assert sorted(sum(shares, [])) == sorted(NAMES)
    assert [len(share) for share in shares] == [3, 3, 2, 2]
    assert chosen(NAMES, share=5) == shares[1]


def test_many_cases_without_a_mark_have_shares_of_two_cases_or_more() -> None:
    for count, parts in ((10, MANY), (6, 3), (4, 2), (3, 1)):
        shares = [chosen(NAMES[:count], marked=False, share=number) for number in range(parts)]
        assert sorted(sum(shares, [])) == sorted(NAMES[:count])
        assert min(map(len, shares)) >= 2


def test_no_share_of_few_cases_is_empty() -> None:
    assert [len(chosen(NAMES[:2], share=number)) for number in range(4)] == [1, 1, 1, 1]


def test_cases_of_several_tests_are_shared_jointly() -> None:
    names = [f"test_{letter}[1]" for letter in "abcdefgh"]
    shares = [chosen(names, of="places", share=number) for number in range(4)]
    assert [len(share) for share in shares] == [2, 2, 2, 2]
    assert sorted(sum(shares, [])) == names
    assert chosen(names) == names  # each is the only case of its test


def test_a_quick_run_has_a_case_of_a_test_of_each_module_at_least() -> None:
    names = [f"a.py::test_one[{number}]" for number in range(20)]
    names += [f"b.py::test_{number}" for number in range(8)] + ["c.py::test_three"]
    items: list[Any] = [SimpleNamespace(name=name, nodeid=name) for name in names]
    left_out: list[Any] = []
    config: Any = SimpleNamespace(
        hook=SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items))
    )
    leave_out_most(config, items)
    kept = [item.name for item in items]
    counts = Counter(name[0] for name in kept)
    assert counts == {"a": -(-20 // QUICK), "b": -(-8 // QUICK_TESTS), "c": 1}
    assert len(kept) + len(left_out) == len(names)
