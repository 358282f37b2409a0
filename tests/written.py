"""Programs that tests write as text."""

from __future__ import annotations

import linecache
import textwrap
from typing import Any

import tilelang.language as T


def executed(text: str, file: str, **names: Any) -> dict[str, Any]:
    """The names after ``text`` has run as ``file``, whose lines tracing and messages can show.

    It finds the language as ``T``, and ``names``.
    """
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space: dict[str, Any] = {"T": T, **names}
    exec(compile(text, file, "exec", dont_inherit=True), space)  # noqa: S102
    return space


def kernel_of(body: str, parameters: str, file: str, threads: int = 32, **names: Any) -> Any:
    """The traced function of one block whose statements are ``body``, from line 4 of ``file`` on."""
    head = f"@T.prim_func\ndef f({parameters}):\n    with T.Kernel(1, threads={threads}):\n"
    return executed(head + textwrap.indent(body, " " * 8) + "\n", file, **names)["f"]
