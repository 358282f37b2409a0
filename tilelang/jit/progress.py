"""Progress bars of several compilations: on terminals and in notebooks, nowhere else."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from typing import Any


def progress(iterable: Iterable[Any] | None = None, **options: Any) -> Any:
    """``tqdm`` over ``iterable``, shown in a terminal or notebook.

    Args:
        options: of ``tqdm``, e.g. ``desc`` and ``total``.
    """
    with warnings.catch_warnings():
        # In a notebook without ipywidgets the bar is text; that is no reason to say so each time.
        warnings.filterwarnings("ignore", message="IProgress not found")
        from tqdm.auto import tqdm

    return tqdm(iterable, disable=not shows_bars(), **options)


def shows_bars() -> bool:
    """Whether standard error is a terminal, or the output of a notebook's cell."""
    stream = sys.stderr
    if stream is None:
        return False
    if type(stream).__module__.partition(".")[0] == "ipykernel":
        return True
    return bool(getattr(stream, "isatty", bool)())
