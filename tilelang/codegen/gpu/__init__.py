"""Kernels of GPUs as text: one writer, and a table for each dialect that it prints."""
