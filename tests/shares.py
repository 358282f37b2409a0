"""Tests that run a share of their cases: ``@pytest.mark.share(n)``, see ``conftest.py``."""

from __future__ import annotations

import zlib

import pytest


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Takes the cases of other shares out of ``items``: those of a test are dealt out in the order
    of the hashes of their names, so that a share never is empty."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("share"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out: list[pytest.Item] = []
    for found in cases.values():
        (parts,) = next(found[0].iter_markers("share")).args
        found.sort(key=lambda item: zlib.crc32(item.name.encode()))
        mine = config.getoption("--share") % min(parts, len(found))
        del found[mine::parts]
        left_out += found
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(map(id, left_out))
        items[:] = [item for item in items if id(item) not in gone]
