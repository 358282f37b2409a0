"""Short names for the types of tensor parameters: ``F16[64, K]`` is ``T.Tensor((64, K), "float16")``."""

from __future__ import annotations

from typing import Any

import tilelang.language as T


class Elements:
    """The types of tensors of one dtype, indexed by a shape."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    def __getitem__(self, shape: Any) -> Any:
        return T.Tensor(shape if isinstance(shape, tuple) else (shape,), self.dtype)


F16, BF16, F32, F64 = map(Elements, ("float16", "bfloat16", "float32", "float64"))
I8, I16, I32, I64 = map(Elements, ("int8", "int16", "int32", "int64"))
U8, U16, U32, U64 = map(Elements, ("uint8", "uint16", "uint32", "uint64"))
