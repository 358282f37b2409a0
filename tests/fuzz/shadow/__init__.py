"""Plain Python that runs the text of a random program, without the front end, IR or layouts.

Interpreter, compiled C and emulated CUDA share the front end, the IR and the layouts, so a defect
there makes no two of them differ. Here the same text runs as Python: loops are Python's loops, names
are Python's names, tiles are numpy arrays, and only dtypes and what tile words mean is written out.
Nothing of the package under test is imported.
"""

from .run import NotShadowed, shadow_results

__all__ = ["NotShadowed", "shadow_results"]
