"""Metal: kernels for the GPUs of Apple."""
