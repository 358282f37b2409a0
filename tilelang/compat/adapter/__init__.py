"""Host source around generated kernels."""
