"""Explain what the compiler chose for a GPU kernel: :func:`tilelang.explain.report.explain`.

The program is lowered once more while this package watches the passes, so that a compilation that
is not explained pays nothing for it.
"""
