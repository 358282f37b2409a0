"""The CUDA back end: Thread IR to device source, compiled and launched at run time."""
