"""Host source of programs for GPUs as text: C++ over the runtimes of CUDA and HIP, Python over
CUDA's driver. It is for people and other programs; calls of kernels take the launcher.
"""
