"""Explain what the compiler chose, and why a GPU kernel is slow: ``kernel.explain()``.

The program is lowered once more while this package watches the passes, so that a compilation that
is not explained pays nothing for it.
"""
