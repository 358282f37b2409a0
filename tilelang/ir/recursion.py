"""Recursion limits: raise it for walks over deeply nested programs.

Walks over statements call themselves for each level. A ladder of some hundred ``elif`` is that
many levels, more than Python allows by itself.
"""

from __future__ import annotations

import sys

from tilelang.ir.stmt import Stmt

_FREE = 50  # levels that fit into Python's own limit
_FRAMES = 16  # calls per level, at most
_BASE = 1000  # calls around: the caller's program


def nesting(stmt: Stmt) -> int:
    """The number of statements around each other, at most."""
    deepest = 0
    todo = [(stmt, 1)]
    while todo:
        node, level = todo.pop()
        deepest = max(deepest, level)
        todo += [(block, level + 1) for block in node.blocks()]
    return deepest


def raise_recursion_limit(levels: int) -> None:
    """Let calls nest as deep as walks over so many levels need.

    The limit is raised and stays: it is one number for all threads, and another one may be deep in
    a walk when this one ends. Ordinary programs do not touch it.
    """
    if levels > _FREE:
        sys.setrecursionlimit(max(sys.getrecursionlimit(), _BASE + levels * _FRAMES))
