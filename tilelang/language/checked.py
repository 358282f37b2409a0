"""The decorators of kernels as type checkers see them; nothing imports this at run time.

The tracer reads the body of a kernel: ``A: T.Tensor((M, N), "float16")`` is not a type, and
names are bound as the language binds them. Checkers leave functions alone that are decorated so.
"""

from __future__ import annotations

from typing import no_type_check as macro, no_type_check as prim_func

__all__ = ["macro", "prim_func"]
