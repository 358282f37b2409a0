"""Import paths that programs use; the definitions are in `tilelang.jit`."""
