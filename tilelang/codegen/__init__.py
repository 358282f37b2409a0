"""Printing of the thread-level IR as C-like text, driven by tables."""
