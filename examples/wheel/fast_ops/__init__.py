"""A package whose kernels were compiled when its wheel was built."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path

import numpy as np


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    (path,) = (Path(__file__).parent / "kernels" / "lib").glob("libfast_ops.*")
    library = ctypes.CDLL(str(path))
    library.axpy.argtypes = (ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)
    library.axpy_message.restype = ctypes.c_char_p
    return library


def axpy(a: float, x: np.ndarray, y: np.ndarray) -> None:
    """y += a * x for float32 vectors without gaps."""
    for array in (x, y):
        if array.dtype != np.float32 or array.shape != y.shape or not array.flags.c_contiguous:
            raise ValueError("axpy takes float32 vectors of one length, without gaps")
    code = _library().axpy(a, x.ctypes.data, y.ctypes.data, y.size)
    if code:
        raise RuntimeError(_library().axpy_message(code).decode())
