"""Which cases of parametrized tests run: all, a share, or few of each test.

``@pytest.mark.share(n)`` deals long lists of programs and chips out: a run takes one share. A quick
run, the default, also takes few cases of every other parametrized test, at least one of each, so
that every area is there. ``--full`` is what CI runs, ``--whole`` takes every case.
"""

from __future__ import annotations

import zlib

import pytest

QUICK = 8  # a quick run takes one in so many cases


def leave_out_most(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Takes all but one in :data:`QUICK` cases of each parametrized test out of ``items``."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept: set[int] = set()
    for found in cases.values():
        found.sort(key=lambda item: zlib.crc32(item.name.encode()))
        kept.update(map(id, found[::QUICK]))
    left_out = [item for item in items if id(item) not in kept]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if id(item) in kept]


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Takes the cases of other shares out of ``items``: those of a test are dealt out in the order
    of the hashes of their names, so that a share never is empty. With ``share(n, of="...")`` the
    cases of all tests that say the same are dealt out together."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        for mark in list(item.iter_markers("share"))[-1:]:  # that of a parameter, if it has one
            group = mark.kwargs.get("of", item.nodeid.partition("[")[0])
            cases.setdefault(f"{mark.args[0]} {group}", []).append(item)
    left_out: list[pytest.Item] = []
    for group, found in cases.items():
        parts = int(group.partition(" ")[0])
        found.sort(key=lambda item: zlib.crc32(item.name.encode()))
        mine = config.getoption("--share") % min(parts, len(found))
        del found[mine::parts]
        left_out += found
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(map(id, left_out))
        items[:] = [item for item in items if id(item) not in gone]
