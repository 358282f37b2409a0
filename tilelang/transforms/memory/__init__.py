"""Where buffers live in the memory of a block."""
