"""Which tests and which cases of parametrized tests run: all, a share, or few.

``@pytest.mark.share(n)`` deals long lists of programs and chips out: a run takes one share. ``--full``
is what CI runs: one of two to four shares of other tests with many cases. A quick run, the default, takes
a part of the tests of each module and few cases of each parametrized test, at least one, so that
every area is there. ``--whole`` takes every case.
"""

from __future__ import annotations

import zlib

import pytest

QUICK = 8  # a quick run takes one in so many cases of a test
QUICK_TESTS = 3  # and one in so many tests of a module
MANY = 4  # shares of a test without a mark, at most


def leave_out_most(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps one in :data:`QUICK_TESTS` tests of each module, of each one in :data:`QUICK` cases."""
    modules: dict[str, dict[str, list[pytest.Item]]] = {}
    for item in items:
        test = item.nodeid.partition("[")[0]
        modules.setdefault(test.partition("::")[0], {}).setdefault(test, []).append(item)
    kept: set[int] = set()
    for tests in modules.values():
        for test in sorted(tests, key=_hash)[::QUICK_TESTS]:
            cases = sorted(tests[test], key=lambda item: _hash(item.name))
            kept.update(map(id, cases[::QUICK]))
    _keep(config, items, kept)


def _keep(config: pytest.Config, items: list[pytest.Item], kept: set[int]) -> None:
    """Takes ``items`` out that are not ``kept``."""
    if left_out := [item for item in items if id(item) not in kept]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if id(item) in kept]


def _hash(name: str) -> int:
    """The same in each process and run."""
    return zlib.crc32(name.encode())


def leave_out(config: pytest.Config, items: list[pytest.Item], most: int = MANY) -> None:
    """Takes the cases of other shares out of ``items``: those of a test are dealt out in the order
    of the hashes of their names, so that a share never is empty. With ``share(n, of="...")`` the
    cases of all tests that say the same are dealt out together. Tests without a mark have ``most``
    shares, but no share has less than two cases."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        test = item.nodeid.partition("[")[0]
        marks = list(item.iter_markers("share"))[-1:]  # that of a parameter, if it has one
        groups = [f"{mark.args[0]} {mark.kwargs.get('of', test)}" for mark in marks]
        cases.setdefault(*groups or [f"0 {test}"], []).append(item)
    kept: set[int] = set()
    for group, found in cases.items():
        parts = int(group.partition(" ")[0]) or max(1, min(most, len(found) // 2))
        found.sort(key=lambda item: _hash(item.name))
        mine = config.getoption("--share") % min(parts, len(found))
        kept.update(map(id, found[mine::parts]))
    _keep(config, items, kept)
