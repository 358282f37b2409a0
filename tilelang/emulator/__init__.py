"""Runs and checks generated GPU kernels on the CPU cores.

The generated CUDA text is compiled as it stands by a C++ compiler, against headers that give the
device's functions a meaning on the CPU. One fiber runs each thread of a block; checked kernels
report every load and store to the runtime, which knows what orders them.
"""
